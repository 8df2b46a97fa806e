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

/// Both ends of all spans, each side by time. 32 bytes per span: runs of ten million requests have to fit.
#[derive(Debug, Default)]
struct Edges {
    begins: Vec<Edge>,
    ends: Vec<Edge>,
    /// Whether the tokens of any span are known.
    has_rates: bool,
}

/// One end of a span.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    at: u64,
    /// In fixed-point units.
    rate: i64,
}

impl Number for Edge {
    fn key(self) -> u64 {
        self.at
    }
}

impl Edges {
    /// Adds a request in one stage, with the tokens that the stage takes or gives, where known.
    fn span(&mut self, from: u64, to: u64, tokens: Option<u64>) {
        if from >= to {
            return;
        }
        let per_second = |tokens: u64| tokens as f64 * 1e9 / (to - from) as f64;
        self.has_rates |= tokens.is_some();
        // The cast saturates, far above any server.
        let rate = tokens.map_or(0, |tokens| (per_second(tokens) * UNITS).round() as i64);
        self.begins.push(Edge { at: from, rate });
        self.ends.push(Edge { at: to, rate });
    }

    /// Adds the requests of one phase.
    fn gather(&mut self, stage: Stage, phase: &PhaseData, images: &[ImageFacts]) {
        let rows = (0..phase.rows.len()).map(|at| Row::new(&phase.rows, images, at));
        if stage == Stage::Flight {
            rows.for_each(|row| self.span(row.start(), row.start() + row.end(), None));
            phase
                .other_flights
                .iter()
                .for_each(|&(from, to)| self.span(from, to, None));
            return;
        }
        for row in rows {
            let Some(first) = row.first_content() else { continue };
            let (start, first, end) = (row.start(), row.start() + first, row.start() + row.end());
            if stage != Stage::Decode {
                self.span(start, first, row.input_tokens());
            }
            if stage != Stage::Prefill {
                // The first token came with the prefill.
                let decoded = row.completion_tokens().map(|tokens| tokens.saturating_sub(1));
                self.span(first, end, decoded);
            }
        }
    }

    /// Hands over every piece of time with a span in it: its length, the sum of the rates, and the number of spans.
    fn sweep(mut self, mut piece: impl FnMut(u64, i128, usize)) {
        radix::sort(&mut self.begins);
        radix::sort(&mut self.ends);
        let (begins, ends) = (self.begins, self.ends);
        let (mut begun, mut ended) = (0, 0);
        let (mut now, mut rate) = (0, 0i128);
        // Every span ends after it began, so ends never run out first.
        while let Some(end) = ends.get(ended) {
            let next = begins.get(begun).map_or(end.at, |begin| begin.at.min(end.at));
            if next > now && begun > ended {
                piece(next - now, rate, begun - ended);
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
}

/// The statistics of a curve over some phases whose windows have this union; `None` if nothing is known of it.
pub(super) fn distribution(
    curve: Curve,
    phases: &[&PhaseData],
    images: &[ImageFacts],
    window: Nanos,
) -> Option<Distribution> {
    let mut edges = Edges::default();
    phases.iter().for_each(|phase| edges.gather(curve.stage, phase, images));
    let is_known = match curve.reading {
        Reading::Requests => !edges.begins.is_empty(),
        Reading::Tokens | Reading::TokensPerUser => edges.has_rates,
    };
    if !is_known {
        return None;
    }
    let mut pieces = match curve.reading {
        Reading::Requests => by_requests(edges),
        Reading::Tokens => by_rate(edges, |rate, _| rate),
        Reading::TokensPerUser => by_rate(edges, |rate, requests| rate / requests as f64),
    };
    let active: u64 = pieces.iter().map(|piece| piece.length).sum();
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

/// All time with as many requests is one piece.
fn by_requests(edges: Edges) -> Vec<Piece> {
    let mut lengths: Vec<u64> = Vec::new();
    edges.sweep(|length, _, requests| {
        if lengths.len() <= requests {
            lengths.resize(requests + 1, 0);
        }
        lengths[requests] += length;
    });
    let piece = |(requests, length): (usize, u64)| Piece {
        value: requests as f64,
        length,
    };
    let pieces = lengths.into_iter().enumerate().map(piece);
    pieces.filter(|piece| piece.length > 0).collect()
}

fn by_rate(edges: Edges, value: impl Fn(f64, usize) -> f64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    edges.sweep(|length, rate, requests| {
        pieces.push(Piece {
            value: value(rate as f64 / UNITS, requests),
            length,
        });
    });
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From, to, rate in fixed-point units.
    type Span = (u64, u64, i64);

    fn pieces(spans: &[Span]) -> Vec<(u64, i128, usize)> {
        let edges = Edges {
            begins: spans.iter().map(|&(at, _, rate)| Edge { at, rate }).collect(),
            ends: spans.iter().map(|&(_, at, rate)| Edge { at, rate }).collect(),
            has_rates: true,
        };
        let mut found = Vec::new();
        edges.sweep(|length, rate, requests| found.push((length, rate, requests)));
        found
    }

    #[test]
    fn pieces_lie_between_the_ends_of_spans_and_pauses_are_left_out() {
        let spans = [(10, 30, 5), (20, 40, 7), (40, 50, 1), (70, 80, 2)];
        assert_eq!(
            pieces(&spans),
            [(10, 5, 1), (10, 12, 2), (10, 7, 1), (10, 1, 1), (10, 2, 1)],
            "what begins where another ends does not meet it"
        );
        assert!(pieces(&[]).is_empty());
    }

    #[test]
    fn a_span_without_length_is_none_and_one_without_tokens_has_no_rate() {
        let mut edges = Edges::default();
        edges.span(5, 5, Some(1));
        assert!(edges.begins.is_empty() && !edges.has_rates);
        edges.span(5, 6, None);
        assert!(edges.begins.len() == 1 && !edges.has_rates);
        // Three tokens in a quarter of a second.
        edges.span(0, 250_000_000, Some(3));
        assert!(edges.has_rates);
        assert_eq!(edges.begins[1].rate, 12 << 20);
    }

    proptest! {
        #[test]
        fn the_area_under_a_curve_is_that_of_its_spans(
            parts in prop::collection::vec((0..1000u64, 1..300u64, 0..1_000_000i64), 1..80),
            pivot in any::<prop::sample::Index>(),
        ) {
            let mut spans: Vec<Span> = parts.iter().map(|&(from, length, rate)| (from, from + length, rate)).collect();
            let found = pieces(&spans);
            let time: u64 = found.iter().map(|(length, _, requests)| length * *requests as u64).sum();
            prop_assert_eq!(time, parts.iter().map(|(_, length, _)| length).sum::<u64>());
            let tokens: i128 = found.iter().map(|&(length, rate, _)| i128::from(length) * rate).sum();
            prop_assert_eq!(tokens, parts.iter().map(|&(_, length, rate)| i128::from(length) * i128::from(rate)).sum::<i128>());
            // Looked at instant by instant, by another route.
            let most = (0..1300).map(|at| spans.iter().filter(|(from, to, _)| *from <= at && at < *to).count()).max();
            prop_assert_eq!(found.iter().map(|(_, _, requests)| *requests).max(), most);
            let at = pivot.index(spans.len());
            spans.rotate_left(at);
            prop_assert_eq!(pieces(&spans), found);
        }
    }
}
