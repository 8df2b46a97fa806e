//! Figures over time: what was going on at once, weighted by how long it did.
//!
//! Every request contributes spans of time. A sweep over their ends cuts the window into pieces in which nothing changes; the statistics are over
//! these pieces, by their length. Rates are summed in fixed point, so that the sum is exactly zero again once all spans are over and does not
//! depend on the order of the records.

use super::collector::{PhaseData, Row};
use super::distribution::{Distribution, Piece};
use super::fields::Fields;
use super::radix::{self, Number};
use crate::record::ImageFacts;
use crate::units::Nanos;

/// What a curve follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Requests from start to end, however they ended.
    Flight,
    /// Successes from start to first content.
    Prefill,
    /// Successes from first content to end.
    Decode,
    /// Successes in either.
    PrefillOrDecode,
}

/// What is read off a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Requests in the stage.
    Requests,
    /// Tokens per second of all of them.
    Tokens,
    /// Tokens per second divided by the requests in the stage.
    TokensPerUser,
}

/// Which time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The whole window; where no request is in the stage, the curve is 0.
    Window,
    /// Only time with a request in the stage.
    Active,
}

/// A figure over time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Curve {
    pub(crate) stage: Stage,
    pub(crate) reading: Reading,
    pub(crate) over: Over,
}

/// Fixed-point units in one token per second: a rate is off by less than a millionth of that.
const UNITS: f64 = (1u64 << 20) as f64;

/// A request in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    /// In fixed-point units; `None` if the tokens are not known.
    rate: Option<i64>,
}

impl Span {
    fn new(from: u64, to: u64, tokens: Option<u64>) -> Self {
        let per_second = |tokens: u64| tokens as f64 * 1e9 / to.saturating_sub(from) as f64;
        Self {
            from,
            to,
            // The cast saturates, far above any server.
            rate: tokens.map(|tokens| (per_second(tokens) * UNITS).round() as i64),
        }
    }
}

/// One end of a span.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    at: u64,
    rate: i64,
}

impl Number for Edge {
    fn key(self) -> u64 {
        self.at
    }
}

/// The statistics of a curve over some phases whose windows have this union; `None` if nothing is known of it.
pub(super) fn distribution(
    curve: Curve,
    phases: &[&PhaseData],
    images: &[ImageFacts],
    window: Nanos,
) -> Option<Distribution> {
    let mut spans: Vec<Span> = Vec::new();
    for phase in phases {
        gather(curve.stage, phase, images, &mut spans);
    }
    spans.retain(|span| span.from < span.to);
    let is_known = |span: &Span| curve.reading == Reading::Requests || span.rate.is_some();
    if !spans.iter().any(is_known) {
        return None;
    }
    let (mut pieces, mut active) = (Vec::new(), 0);
    sweep(&spans, |length, rate, requests| {
        active += length;
        let value = match curve.reading {
            Reading::Requests => requests as f64,
            Reading::Tokens => rate as f64 / UNITS,
            Reading::TokensPerUser => rate as f64 / UNITS / requests as f64,
        };
        pieces.push(Piece { value, length });
    });
    let idle = window.0.saturating_sub(active);
    if curve.over == Over::Window && idle > 0 {
        pieces.push(Piece {
            value: 0.0,
            length: idle,
        });
    }
    radix::sort(&mut pieces);
    Distribution::over_time(&pieces)
}

/// The spans of one phase's requests.
fn gather(stage: Stage, phase: &PhaseData, images: &[ImageFacts], into: &mut Vec<Span>) {
    let rows = (0..phase.rows.len()).map(|at| Row::new(&phase.rows, images, at));
    if stage == Stage::Flight {
        into.extend(rows.map(|row| Span::new(row.start(), row.start() + row.end(), None)));
        into.extend(phase.other_flights.iter().map(|&(from, to)| Span::new(from, to, None)));
        return;
    }
    for row in rows {
        let Some(first) = row.first_content() else { continue };
        let (start, first, end) = (row.start(), row.start() + first, row.start() + row.end());
        if stage != Stage::Decode {
            into.push(Span::new(start, first, row.input_tokens()));
        }
        if stage != Stage::Prefill {
            // The first token came with the prefill.
            let decoded = row.completion_tokens().map(|tokens| tokens.saturating_sub(1));
            into.push(Span::new(first, end, decoded));
        }
    }
}

/// Hands over every piece of time with a span in it: its length, the sum of the rates, and the number of spans.
fn sweep(spans: &[Span], mut piece: impl FnMut(u64, i128, u64)) {
    let edges = |at: fn(&Span) -> u64| -> Vec<Edge> {
        let mut edges: Vec<Edge> = spans
            .iter()
            .map(|span| Edge {
                at: at(span),
                rate: span.rate.unwrap_or(0),
            })
            .collect();
        radix::sort(&mut edges);
        edges
    };
    let (begins, ends) = (edges(|span| span.from), edges(|span| span.to));
    let (mut begun, mut ended) = (0, 0);
    let (mut now, mut rate) = (0, 0i128);
    // Every span ends after it began, so ends never run out first.
    while let Some(end) = ends.get(ended) {
        let next = begins.get(begun).map_or(end.at, |begin| begin.at.min(end.at));
        if next > now && begun > ended {
            piece(next - now, rate, (begun - ended) as u64);
        }
        now = next;
        while let Some(edge) = ends.get(ended).filter(|edge| edge.at == now) {
            rate -= i128::from(edge.rate);
            ended += 1;
        }
        while let Some(edge) = begins.get(begun).filter(|edge| edge.at == now) {
            rate += i128::from(edge.rate);
            begun += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(spans: &[Span]) -> Vec<(u64, i128, u64)> {
        let mut found = Vec::new();
        sweep(spans, |length, rate, requests| found.push((length, rate, requests)));
        found
    }

    fn span(from: u64, to: u64, rate: i64) -> Span {
        Span {
            from,
            to,
            rate: Some(rate),
        }
    }

    #[test]
    fn pieces_lie_between_the_ends_of_spans_and_pauses_are_left_out() {
        let spans = [span(10, 30, 5), span(20, 40, 7), span(40, 50, 1), span(70, 80, 2)];
        assert_eq!(
            pieces(&spans),
            [(10, 5, 1), (10, 12, 2), (10, 7, 1), (10, 1, 1), (10, 2, 1)],
            "what begins where another ends does not meet it"
        );
        assert!(pieces(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_area_under_a_curve_is_that_of_its_spans(
            parts in prop::collection::vec((0..1000u64, 1..300u64, 0..1_000_000i64), 1..80),
            pivot in any::<prop::sample::Index>(),
        ) {
            let mut spans: Vec<Span> = parts.iter().map(|&(from, length, rate)| span(from, from + length, rate)).collect();
            let found = pieces(&spans);
            let time: u64 = found.iter().map(|(length, _, requests)| length * requests).sum();
            prop_assert_eq!(time, parts.iter().map(|(_, length, _)| length).sum::<u64>());
            let tokens: i128 = found.iter().map(|&(length, rate, _)| i128::from(length) * rate).sum();
            prop_assert_eq!(tokens, parts.iter().map(|&(_, length, rate)| i128::from(length) * i128::from(rate)).sum::<i128>());
            // Looked at instant by instant, by another route.
            let most = (0..1300).map(|at| spans.iter().filter(|span| span.from <= at && at < span.to).count() as u64).max();
            prop_assert_eq!(found.iter().map(|(_, _, requests)| *requests).max(), most);
            let at = pivot.index(spans.len());
            spans.rotate_left(at);
            prop_assert_eq!(pieces(&spans), found);
        }
    }
}
