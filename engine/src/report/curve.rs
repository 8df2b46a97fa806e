//! Figures over time: what was going on at once, weighted by how long it did.
//!
//! Every request contributes spans of time. A sweep over their ends cuts the window into pieces in which nothing changes; the statistics are over
//! these pieces, by their length. Rates are summed in fixed point, so that the sum is exactly zero again once all spans are over and does not
//! depend on the order of the records.

use super::collector::PhaseData;
use super::distribution::{Distribution, Piece};
use super::fields::Fields;
use super::radix::{self, Number};
use super::rows::Row;
use super::slices::Cuts;
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

/// A piece of time in which nothing changes.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    length: u64,
    /// The sum of the rates, in fixed-point units.
    rate: i128,
    /// The number of spans, never 0.
    requests: usize,
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

    /// Hands over every piece of time with a span in it, in order: its start, and what it is like.
    fn sweep(mut self, mut piece: impl FnMut(u64, Stretch)) {
        radix::sort(&mut self.begins);
        radix::sort(&mut self.ends);
        let (begins, ends) = (self.begins, self.ends);
        let (mut begun, mut ended) = (0, 0);
        let (mut now, mut rate) = (0, 0i128);
        // Every span ends after it began, so ends never run out first.
        while let Some(end) = ends.get(ended) {
            let next = begins.get(begun).map_or(end.at, |begin| begin.at.min(end.at));
            if next > now && begun > ended {
                piece(
                    now,
                    Stretch {
                        length: next - now,
                        rate,
                        requests: begun - ended,
                    },
                );
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

impl Curve {
    /// Whether anything is known of it.
    fn is_known(self, edges: &Edges) -> bool {
        match self.reading {
            Reading::Requests => !edges.begins.is_empty(),
            Reading::Tokens | Reading::TokensPerUser => edges.has_rates,
        }
    }

    fn value(self, stretch: &Stretch) -> f64 {
        match self.reading {
            Reading::Requests => stretch.requests as f64,
            Reading::Tokens => stretch.rate as f64 / UNITS,
            Reading::TokensPerUser => stretch.rate as f64 / UNITS / stretch.requests as f64,
        }
    }

    /// Statistics over the pieces of a window with a span in them.
    fn over(self, mut pieces: Vec<Piece>, window: Nanos) -> Option<Distribution> {
        let active: u64 = pieces.iter().map(|piece| piece.length).sum();
        let idle = window.0.saturating_sub(active);
        if self.over == Over::Window && idle > 0 {
            pieces.push(Piece {
                value: 0.0,
                length: idle,
            });
        }
        radix::sort(&mut pieces);
        Distribution::over_time(&pieces)
    }
}

fn gather(stage: Stage, phases: &[&PhaseData], images: &[ImageFacts]) -> Edges {
    let mut edges = Edges::default();
    phases.iter().for_each(|phase| edges.gather(stage, phase, images));
    edges
}

/// The statistics of a curve over some phases whose windows have this union; `None` if nothing is known of it.
pub(super) fn distribution(
    curve: Curve,
    phases: &[&PhaseData],
    images: &[ImageFacts],
    window: Nanos,
) -> Option<Distribution> {
    let edges = gather(curve.stage, phases, images);
    if !curve.is_known(&edges) {
        return None;
    }
    let pieces = match curve.reading {
        Reading::Requests => by_requests(edges),
        Reading::Tokens | Reading::TokensPerUser => {
            let mut pieces = Vec::new();
            edges.sweep(|_, stretch| {
                pieces.push(Piece {
                    value: curve.value(&stretch),
                    length: stretch.length,
                });
            });
            pieces
        }
    };
    curve.over(pieces, window)
}

/// The statistics of some curves of one stage over each slice, by curve and slice; `None` where nothing is known of it.
///
/// One sweep serves them all: it comes to the slices in turn, so that only one of them has its pieces in memory.
pub(super) fn of_slices(
    stage: Stage,
    curves: &[Curve],
    phases: &[&PhaseData],
    images: &[ImageFacts],
    cuts: &Cuts,
) -> Vec<Vec<Option<Distribution>>> {
    let edges = gather(stage, phases, images);
    let known: Vec<bool> = curves.iter().map(|curve| curve.is_known(&edges)).collect();
    // What is not known stays so. Of the others a slice without a piece has figures too: nothing went on.
    let figures = |stretches: &[Stretch]| -> Vec<Option<Distribution>> {
        let figure = |(curve, &known): (&Curve, &bool)| {
            let piece = |stretch: &Stretch| Piece {
                value: curve.value(stretch),
                length: stretch.length,
            };
            known
                .then(|| curve.over(stretches.iter().map(piece).collect(), cuts.length))
                .flatten()
        };
        curves.iter().zip(&known).map(figure).collect()
    };
    let mut slices = vec![figures(&[]); cuts.count];
    let (mut at, mut stretches) = (0, Vec::new());
    edges.sweep(|from, stretch| {
        let (mut from, to) = (from, from + stretch.length);
        while from < to {
            let slice = cuts.slice(Nanos(from));
            if slice != at && !stretches.is_empty() {
                slices[at] = figures(&stretches);
                stretches.clear();
            }
            at = slice;
            // Requests of the last slice may end after it.
            if slice >= cuts.count {
                return;
            }
            let end = to.min(cuts.start(slice + 1).0);
            stretches.push(Stretch {
                length: end - from,
                ..stretch
            });
            from = end;
        }
    });
    if !stretches.is_empty() {
        slices[at] = figures(&stretches);
    }
    (0..curves.len())
        .map(|curve| slices.iter_mut().map(|slice| slice[curve].take()).collect())
        .collect()
}

/// All time with as many requests is one piece.
fn by_requests(edges: Edges) -> Vec<Piece> {
    let mut lengths: Vec<u64> = Vec::new();
    edges.sweep(|_, Stretch { length, requests, .. }| {
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
        edges.sweep(|_, stretch| found.push((stretch.length, stretch.rate, stretch.requests)));
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
