//! Was the client the limit? A verdict of the client on itself, as a pure function of its figures.
//!
//! Every rule compares one figure with a limit. The worst rule gives the verdict; among equals the earlier one in [`RULES`] decides, because
//! causes stand before their effects there. `docs/verdict.md` has the rules for readers, with the reason for each limit.

use std::fmt;

use crate::record::{CoreWindow, Family, FamilyHistogram, PhaseHistograms};
use crate::units::Nanos;

/// Whether figures of a phase describe the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The client kept pace.
    Valid,
    /// Something on the client's side may show in the figures.
    Suspect,
    /// The load was not the one that was planned, or the client's own time is a large part of the figures.
    Invalid,
}

impl Verdict {
    /// The word in artifacts and on the console.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// What of a distribution enters the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Median.
    pub p50: Nanos,
    /// 99th percentile; of fewer than 100 values the second largest, so that a single one never decides.
    pub p99: Nanos,
    /// Largest value.
    pub max: Nanos,
}

impl Spread {
    fn of(histogram: &FamilyHistogram) -> Option<Self> {
        let count = histogram.count();
        let second = 100.0 * (count.max(2) - 1) as f64 / count.max(1) as f64;
        Some(Self {
            count,
            p50: Nanos(histogram.percentile(50.0)?),
            p99: Nanos(histogram.percentile(second.min(99.0))?),
            max: Nanos(histogram.max()?),
        })
    }
}

/// What the client knows of itself over one phase. Shares are of 1; those of cores are of the core where they are largest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientFigures {
    /// From the instant from which on only the client held a request back to its start.
    pub lag: Option<Spread>,
    /// Share of requests with a lag of [`LATE`] or more.
    pub late_share: f64,
    /// How long completions can have lain unseen.
    pub unseen: Option<Spread>,
    /// How much later than asked timed waits came back.
    pub oversleep: Option<Spread>,
    /// The longest time in which the client did nothing that it was to do.
    pub stall: Nanos,
    /// Median time to first token, or of the request latency where there are no tokens; the scale for what is late.
    pub latency_p50: Option<Nanos>,
    /// Busy time of a core, waiting and spinning left out, in its window.
    pub busy_share: Option<f64>,
    /// Time per run that a core was ready and others had its processor.
    pub starved_mean: Option<Nanos>,
    /// Share of a core's window in which others (or the hypervisor) had its processor, needed or not.
    pub others_share: Option<f64>,
    /// Arrivals that were due and never sent although no cap kept them back; share of all that were due.
    pub unsent_share: f64,
    /// Requests that had to wait for a place for a connection.
    pub kept_back: u64,
    /// Connections that failed for want of a local port.
    pub local_ports_exhausted: u64,
    /// Connections that failed for want of a descriptor.
    pub descriptors_exhausted: u64,
    /// Completions that came late because the completion queue was full.
    pub queue_overflows: u64,
    /// Receives that found no free buffer; they go on in the next turn, so they have no rule of their own.
    pub buffer_shortages: u64,
    /// Times a core stood still because the disk did not keep up with its records.
    pub journal_waits: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Those of them that took the place of one that had ended.
    pub reconnects: u64,
    /// Requests sent once more because a reused connection had died.
    pub resends: u64,
}

/// A lag that no schedule can be said to survive.
pub const LATE: Nanos = Nanos::from_millis(100);
/// Windows shorter than this have no share of busy time: a handful of requests can fill them.
const BUSY_FROM: Nanos = Nanos::from_millis(100);
/// The same for the processor's other work, which the kernel counts in hundredths of a second.
const OTHERS_FROM: Nanos = Nanos::from_millis(300);
/// Runs from which a mean wait for the processor means something.
const RUNS_FROM: u64 = 20;

impl ClientFigures {
    /// The figures of a phase from what its cores kept. `uncapped` tells whether arrivals have no limit in flight to wait for, `due` how many
    /// there were and `unsent` how many of them were never sent.
    pub(super) fn of(
        histograms: &PhaseHistograms,
        cores: &[CoreWindow],
        stall: Nanos,
        (due, unsent, uncapped): (u64, u64, bool),
    ) -> Self {
        let spread = |family: Family| Spread::of(histograms.family(family));
        let median = |family: Family| histograms.family(family).percentile(50.0).map(Nanos);
        let (unseen, oversleep) = (spread(Family::Unseen), spread(Family::Oversleep));
        let lags = histograms.family(Family::ClientLag);
        let longest = |spread: Option<Spread>| spread.map_or(Nanos::ZERO, |spread| spread.max);
        let largest = |share: &dyn Fn(&CoreWindow) -> Option<f64>| cores.iter().filter_map(share).reduce(f64::max);
        let sum = |count: fn(&CoreWindow) -> u64| cores.iter().map(count).sum();
        Self {
            lag: spread(Family::ClientLag),
            late_share: share(lags.count_from(LATE.0), lags.count()),
            unseen,
            oversleep,
            stall: stall.max(longest(unseen)).max(longest(oversleep)),
            latency_p50: median(Family::TimeToFirstToken).or(median(Family::RequestLatency)),
            busy_share: largest(&|core| {
                let busy = core.cpu.since(core.spun);
                (core.wall >= BUSY_FROM).then(|| share(busy.0, core.wall.0).min(1.0))
            }),
            starved_mean: cores
                .iter()
                .filter(|core| core.runs >= RUNS_FROM)
                .filter_map(|core| Some(Nanos(core.starved?.0 / core.runs)))
                .max(),
            others_share: largest(&|core| {
                let others = core.others.filter(|_| core.wall >= OTHERS_FROM)?;
                Some(share(others.0, core.wall.0).min(1.0))
            }),
            unsent_share: if uncapped { share(unsent, due) } else { 0.0 },
            kept_back: sum(|core| core.kept_back),
            local_ports_exhausted: sum(|core| core.local_ports_exhausted),
            descriptors_exhausted: sum(|core| core.descriptors_exhausted),
            queue_overflows: sum(|core| core.queue_overflows),
            buffer_shortages: sum(|core| core.buffer_shortages),
            journal_waits: sum(|core| core.journal_waits),
            connections_opened: sum(|core| core.connections_opened),
            reconnects: sum(|core| core.reconnects),
            resends: sum(|core| core.resends),
        }
    }

    /// A share of the median latency, but at least and at most so much: what is small in itself harms nothing, and what is large bends the load
    /// however slow the server is.
    fn scaled(&self, share: f64, least: Nanos, most: Nanos) -> Nanos {
        let part = self.latency_p50.map(|median| Nanos((median.0 as f64 * share) as u64));
        part.map_or(most, |part| part.clamp(least, most))
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The unit of a figure that broke a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Share,
    Millis,
}

/// A rule: which figure, what it means, and how to read it.
struct Rule {
    /// Key of the figure in artifacts.
    figure: &'static str,
    unit: Unit,
    /// The limits from which on the client is suspect and invalid, and the figure; `None` without the figure.
    measure: fn(&ClientFigures) -> Option<Measure>,
    /// What happened, to stand behind the figure.
    meaning: &'static str,
    /// What to do about it.
    remedy: &'static str,
}

/// A figure and its limits. A figure above a limit breaks it.
struct Measure {
    value: f64,
    suspect: Option<f64>,
    invalid: Option<f64>,
}

impl Measure {
    fn new(value: f64, suspect: Option<f64>, invalid: Option<f64>) -> Option<Self> {
        Some(Self {
            value,
            suspect,
            invalid,
        })
    }

    fn span(value: Nanos, suspect: Nanos, invalid: Option<Nanos>) -> Option<Self> {
        Self::new(
            value.as_millis_f64(),
            Some(suspect.as_millis_f64()),
            invalid.map(Nanos::as_millis_f64),
        )
    }
}

/// Limits of a spread's p99 by the scale of the latency.
fn late(figures: &ClientFigures, spread: Option<Spread>) -> Option<Measure> {
    let ms = Nanos::from_millis;
    Measure::span(
        spread?.p99,
        figures.scaled(0.1, ms(1), ms(10)),
        Some(figures.scaled(0.5, ms(10), ms(100))),
    )
}

const RULES: [Rule; 13] = [
    Rule {
        figure: "local_ports_exhausted",
        unit: Unit::Count,
        measure: |figures| Measure::new(figures.local_ports_exhausted as f64, None, Some(0.0)),
        meaning: "connections failed because this host had no local port left",
        remedy: "use more addresses of this host (--source-address), widen net.ipv4.ip_local_port_range, or keep connections open (connection_reuse: \
                 pooled)",
    },
    Rule {
        figure: "descriptors_exhausted",
        unit: Unit::Count,
        measure: |figures| Measure::new(figures.descriptors_exhausted as f64, None, Some(0.0)),
        meaning: "connections failed because this process had no file descriptor left",
        remedy: "raise the limit (ulimit -n)",
    },
    Rule {
        figure: "unsent_share",
        unit: Unit::Share,
        measure: |figures| Measure::new(figures.unsent_share, Some(0.001), Some(0.01)),
        meaning: "of the arrivals were due and never sent, although nothing but the client kept them back",
        remedy: "raise the limit of file descriptors (ulimit -n) if requests were kept back for want of a connection; else use more cores \
                 (--cores), keep other programs off them, or lower the rate",
    },
    Rule {
        figure: "kept_back",
        unit: Unit::Count,
        measure: |figures| Measure::new(figures.kept_back as f64, Some(0.0), None),
        meaning: "requests waited because every place for a connection was taken",
        remedy: "raise the limit of file descriptors (ulimit -n), or set a concurrency",
    },
    Rule {
        figure: "stall_ms",
        unit: Unit::Millis,
        measure: |figures| Measure::span(figures.stall, Nanos::from_millis(250), None),
        meaning: "was the longest time in which the client did not run",
        remedy: "look for a process that was stopped, a suspended machine, or other load on it",
    },
    Rule {
        figure: "others_share",
        unit: Unit::Share,
        measure: |figures| Measure::new(figures.others_share?, Some(1.0 / 3.0), None),
        meaning: "of the time others had the processor of a core",
        remedy: "keep other programs, the server included, off the processors of the cores",
    },
    Rule {
        figure: "starved_mean_ms",
        unit: Unit::Millis,
        measure: |figures| {
            Measure::span(
                figures.starved_mean?,
                figures.scaled(0.05, Nanos::from_micros(250), Nanos::from_micros(2_500)),
                Some(figures.scaled(0.25, Nanos::from_micros(2_500), Nanos::from_millis(25))),
            )
        },
        meaning: "was what a core waited on average for its processor whenever it had something to do",
        remedy: "keep other programs off the processors of the cores, and look for a limit on processor time (cgroup)",
    },
    Rule {
        figure: "busy_share",
        unit: Unit::Share,
        measure: |figures| {
            let swamped = figures.unseen.is_some_and(|unseen| unseen.p99 > Nanos::from_millis(5));
            Measure::new(figures.busy_share?, Some(0.9), swamped.then_some(0.98))
        },
        meaning: "of its time a core was busy",
        remedy: "use more cores (--cores)",
    },
    Rule {
        figure: "journal_waits",
        unit: Unit::Count,
        measure: |figures| Measure::new(figures.journal_waits as f64, Some(0.0), None),
        meaning: "times a core stood still because the disk did not keep up with the records",
        remedy: "write the artifacts to a faster disk, or set artifacts.records: false",
    },
    Rule {
        figure: "queue_overflows",
        unit: Unit::Count,
        measure: |figures| Measure::new(figures.queue_overflows as f64, Some(0.0), None),
        meaning: "completions came late because the completion queue of a core was full",
        remedy: "use more cores (--cores)",
    },
    Rule {
        figure: "lag_p99_ms",
        unit: Unit::Millis,
        measure: |figures| late(figures, figures.lag),
        meaning: "was the 99th percentile of the time by which the client started requests late",
        remedy: "use more cores (--cores), or keep other programs off them",
    },
    Rule {
        figure: "late_share",
        unit: Unit::Share,
        measure: |figures| Measure::new(figures.late_share, Some(0.001), None),
        meaning: "of the requests were started 100 ms late or more by the client",
        remedy: "use more cores (--cores), or keep other programs off them",
    },
    Rule {
        figure: "unseen_p99_ms",
        unit: Unit::Millis,
        measure: |figures| late(figures, figures.unseen),
        meaning: "was the 99th percentile of the time that arrivals can have lain unseen",
        remedy: "use more cores (--cores), or keep other programs off them",
    },
];

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it makes of the client.
    pub verdict: Verdict,
    /// Key of the figure in artifacts.
    pub figure: &'static str,
    /// The figure, in the unit that its key names.
    pub value: f64,
    /// The limit that it is above.
    pub limit: f64,
    unit: Unit,
    meaning: &'static str,
    remedy: &'static str,
}

impl Finding {
    fn of(rule: &Rule, figures: &ClientFigures) -> Option<Self> {
        let measure = (rule.measure)(figures)?;
        let broken = |limit: Option<f64>| limit.filter(|&limit| measure.value > limit);
        let (verdict, limit) = broken(measure.invalid)
            .map(|limit| (Verdict::Invalid, limit))
            .or_else(|| broken(measure.suspect).map(|limit| (Verdict::Suspect, limit)))?;
        Some(Self {
            verdict,
            figure: rule.figure,
            value: measure.value,
            limit,
            unit: rule.unit,
            meaning: rule.meaning,
            remedy: rule.remedy,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Count => write!(f, "{}", self.value)?,
            Unit::Share => write!(f, "{:.1} %", 100.0 * self.value)?,
            Unit::Millis => write!(f, "{:.3} ms", self.value)?,
        }
        write!(f, " {}", self.meaning)?;
        match self.unit {
            Unit::Count => {}
            Unit::Share => write!(f, " (limit {:.1} %)", 100.0 * self.limit)?,
            Unit::Millis => write!(f, " (limit {:.3} ms)", self.limit)?,
        }
        write!(f, "; {}", self.remedy)
    }
}

/// The client's figures over one phase, and what they say.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientReport {
    /// The figures.
    pub figures: ClientFigures,
    /// Every rule that was broken, the one that decides first.
    pub findings: Vec<Finding>,
}

impl ClientReport {
    /// Judges by the figures and by nothing else.
    pub fn new(figures: ClientFigures) -> Self {
        let mut findings: Vec<Finding> = RULES.iter().filter_map(|rule| Finding::of(rule, &figures)).collect();
        // Stable, so that causes stay before their effects.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        Self { figures, findings }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.deciding().map_or(Verdict::Valid, |finding| finding.verdict)
    }

    /// What decided; `None` if nothing speaks against the client.
    pub fn deciding(&self) -> Option<&Finding> {
        self.findings.first()
    }
}
