//! Which scrapes stand for a phase.

use super::history::Scrape;
use crate::units::Nanos;

/// When a phase ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Start of its clock.
    pub start: Nanos,
    /// End of its last request.
    pub end: Nanos,
}

/// The scrapes of one phase, by number, or of several phases that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// What counters and histograms are compared with.
    pub(super) reference: usize,
    /// Scrapes whose gauges count: from here on,
    pub(super) first: usize,
    /// and up to here.
    pub(super) last: usize,
    /// What had been counted at the end.
    pub(super) end_at: usize,
    /// The time between reference and end in which the phase ran.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
}

impl Span {
    /// Chooses the scrapes of `phase`, one of `phases`. `None` if the endpoint gave no answer from its start on.
    ///
    /// A counter at the start of a phase is best known from a scrape before it, provided that no other phase was under way since; otherwise the
    /// first scrape after the start is as near as can be. What was counted at the end is told by the first scrape after it. So of two phases
    /// that follow each other, the one ends with the scrape that the next one begins with, and nothing is counted twice or lost.
    pub fn choose(scrapes: &[Scrape], phase: Lifetime, phases: &[Lifetime]) -> Option<Self> {
        let from = |instant: Nanos| scrapes.partition_point(|scrape| scrape.sent < instant);
        let (inside, behind) = (from(phase.start), from(phase.end));
        let last_of_all = scrapes.len().checked_sub(1).filter(|&last| inside <= last)?;
        let before = inside.checked_sub(1).filter(|&before| {
            let asked = scrapes[before].sent;
            let was_under_way = |other: &Lifetime| *other != phase && other.start < phase.start && other.end > asked;
            !phases.iter().any(was_under_way)
        });
        let reference = before.unwrap_or(inside);
        let end_at = behind.min(last_of_all);
        // A phase shorter than the time between two scrapes has none of its own.
        let (first, last) = if inside < behind {
            (inside, behind - 1)
        } else {
            (end_at, end_at)
        };
        Some(Self {
            reference,
            first,
            last: last.min(last_of_all),
            end_at,
            start: phase.start.max(scrapes[reference].answered),
            end: phase.end.min(scrapes[end_at].answered),
        })
    }

    /// All its scrapes, by number: the one that it is compared with comes first.
    pub fn scrapes(&self) -> std::ops::RangeInclusive<usize> {
        self.reference..=self.end_at
    }

    /// How long it is, in seconds; `None` if the scrapes leave no time between them.
    pub fn seconds(&self) -> Option<f64> {
        (self.end > self.start).then(|| self.end.since(self.start).as_secs_f64())
    }
}

/// Spans in order, those that overlap joined: what ran at the same time is counted once.
pub fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut().filter(|last| span.reference < last.end_at) {
            Some(last) => {
                last.last = last.last.max(span.last);
                last.end_at = last.end_at.max(span.end_at);
                last.end = last.end.max(span.end);
                last.first = last.first.min(span.first);
                last.reference = last.reference.min(span.reference);
            }
            None => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrapes(sent_ms: &[u64]) -> Vec<Scrape> {
        let scrape = |&sent: &u64| Scrape {
            sent: Nanos::from_millis(sent),
            answered: Nanos::from_millis(sent + 1),
            is_update: true,
        };
        sent_ms.iter().map(scrape).collect()
    }

    fn phase(start_ms: u64, end_ms: u64) -> Lifetime {
        Lifetime {
            start: Nanos::from_millis(start_ms),
            end: Nanos::from_millis(end_ms),
        }
    }

    fn chosen(sent_ms: &[u64], phase: Lifetime, others: &[Lifetime]) -> Option<(usize, usize, usize, usize)> {
        let mut all = others.to_vec();
        all.push(phase);
        let span = Span::choose(&scrapes(sent_ms), phase, &all)?;
        Some((span.reference, span.first, span.last, span.end_at))
    }

    #[test]
    fn a_phase_is_compared_with_the_scrape_before_it() {
        assert_eq!(chosen(&[0, 102, 435, 903], phase(100, 900), &[]), Some((0, 1, 2, 3)));
    }

    #[test]
    fn another_phase_in_between_makes_the_first_scrape_inside_the_reference() {
        assert_eq!(
            chosen(&[0, 300, 602, 803], phase(600, 800), &[phase(100, 599)]),
            Some((2, 2, 2, 3))
        );
        // The scrape came between the two, so it is the end of the one and the reference of the other.
        assert_eq!(
            chosen(&[0, 300, 599, 803], phase(600, 800), &[phase(100, 598)]),
            Some((2, 3, 3, 3))
        );
    }

    #[test]
    fn neighbours_share_a_scrape() {
        let (first, second) = (phase(100, 500), phase(501, 900));
        for sent in [[0, 400, 502, 901], [0, 400, 500, 901]] {
            let first_end = chosen(&sent, first, &[second]).expect("a span").3;
            let second_reference = chosen(&sent, second, &[first]).expect("a span").0;
            assert_eq!(first_end, second_reference, "{sent:?}");
        }
    }

    #[test]
    fn an_endpoint_that_fell_silent_has_what_it_said() {
        assert_eq!(chosen(&[0, 102, 435], phase(100, 900), &[]), Some((0, 1, 2, 2)));
        assert_eq!(chosen(&[0, 102], phase(500, 900), &[phase(50, 400)]), None);
        assert_eq!(chosen(&[], phase(500, 900), &[]), None);
    }

    #[test]
    fn a_phase_between_two_scrapes_has_the_one_behind_it() {
        assert_eq!(chosen(&[0, 333], phase(100, 150), &[]), Some((0, 1, 1, 1)));
    }

    #[test]
    fn its_time_is_that_of_the_phase_as_far_as_scrapes_know_it() {
        let all = [phase(100, 800)];
        let span = |sent: &[u64]| Span::choose(&scrapes(sent), all[0], &all).expect("a span");
        assert_eq!(
            (span(&[0, 300, 900]).start, span(&[0, 300, 900]).end),
            (all[0].start, all[0].end)
        );
        assert_eq!(span(&[0, 300]).end, Nanos::from_millis(301));
        assert_eq!(span(&[120, 300, 900]).start, Nanos::from_millis(121));
        assert_eq!(span(&[0, 300, 900]).seconds(), Some(0.7));
    }

    #[test]
    fn spans_that_overlap_are_one() {
        let phases = [phase(100, 500), phase(400, 800), phase(1_000, 1_200)];
        let sent = [0, 200, 450, 600, 801, 1_100, 1_201];
        let spans = phases
            .iter()
            .filter_map(|&one| Span::choose(&scrapes(&sent), one, &phases));
        let joined: Vec<(usize, usize)> = union(spans.collect())
            .iter()
            .map(|span| (span.reference, span.end_at))
            .collect();
        assert_eq!(joined, [(0, 4), (4, 6)]);
    }
}
