//! `benchmark.phases` and its short forms, as written, with the rules that bind one phase.

use super::adaptive::Judged;
use super::decode::{Bounds, Field, Section};
use super::fixed_schedule::{self, ScheduleWindow};
use super::limits::{self, Limits};
use super::phase_names::{self, Identity};
use super::ramp::{self, Ramp};
use super::rate::{self, Rate};
use super::schema::{CANCELLATION, PHASE};
use super::tree::{Position, Value};

/// The semantic role of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseKind {
    /// Prepares the server; never part of aggregate results.
    Warmup,
    /// Measured.
    Profiling,
}

impl PhaseKind {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// When requests of a phase start.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseType {
    /// Closed loop.
    Concurrency,
    /// Open loop with even gaps.
    Constant {
        /// Requests per second.
        rate: Rate,
    },
    /// Open loop with exponential gaps.
    Poisson {
        /// Requests per second.
        rate: Rate,
    },
    /// Open loop with gamma-distributed gaps.
    Gamma {
        /// Requests per second.
        rate: Rate,
        /// Shape of the distribution.
        smoothness: Option<f64>,
    },
    /// Open loop at the timestamps of the dataset.
    FixedSchedule(ScheduleWindow),
    /// Open loop of users who send at even gaps of their own.
    UserCentric {
        /// Users at any time.
        users: u32,
        /// Requests per second of all users together; one number.
        rate: Rate,
    },
}

impl PhaseType {
    /// The word of the file.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Constant { .. } => "constant",
            Self::Poisson { .. } => "poisson",
            Self::FixedSchedule(_) => "fixed_schedule",
            Self::Gamma { .. } => "gamma",
            Self::UserCentric { .. } => "user_centric",
        }
    }

    /// Requests per second of an open loop.
    pub fn rate(&self) -> Option<&Rate> {
        match self {
            Self::Concurrency | Self::FixedSchedule(_) => None,
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::Gamma { rate, .. }
            | Self::UserCentric { rate, .. } => Some(rate),
        }
    }

    /// Users of a phase that counts them.
    pub fn users(&self) -> Option<u32> {
        match self {
            Self::UserCentric { users, .. } => Some(*users),
            _ => None,
        }
    }
}

/// What becomes of an arrival that finds no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCap {
    /// It waits, in order.
    #[default]
    Wait,
    /// It is dropped.
    Drop,
}

impl OnCap {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Drop => "drop",
        }
    }
}

/// Simulated disconnects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// Percent of requests, 0 to 100.
    pub rate: f64,
    /// Seconds from the sending of a request to its cancellation.
    pub delay_s: f64,
}

/// One phase as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Where it begins in the file.
    pub at: Position,
    /// Its key, as in `benchmark.phases[1]`.
    pub path: String,
    /// Unique name.
    pub name: String,
    /// Role.
    pub kind: PhaseKind,
    /// Load pattern.
    pub load: PhaseType,
    /// How an open loop gets to its rate.
    pub rate_ramp: Option<Ramp>,
    /// Most requests in flight.
    pub concurrency: Option<u32>,
    /// What becomes of an arrival beyond them.
    pub on_cap: Option<OnCap>,
    /// Requests to send.
    pub requests: Option<u64>,
    /// Conversations to run; one request each while datasets have one turn.
    pub sessions: Option<u64>,
    /// Seconds in which requests may start; may be infinite.
    pub duration_s: Option<f64>,
    /// Seconds to wait after `duration`; may be infinite.
    pub grace_period_s: Option<f64>,
    /// Simulated disconnects.
    pub cancellation: Option<Cancellation>,
    /// Further limits.
    pub limits: Limits,
    /// Whether the phase starts beside the drain of the one before.
    pub seamless: bool,
}

/// What a short form fills in.
#[derive(Clone, Copy)]
struct Prefill {
    name: &'static str,
    kind: PhaseKind,
}

const PROFILING: Prefill = Prefill {
    name: "profiling",
    kind: PhaseKind::Profiling,
};
const WARMUP: Prefill = Prefill {
    name: "warmup",
    kind: PhaseKind::Warmup,
};

/// The phases in order; those with mistakes are missing. `streaming` is what the endpoint says, if it could be read.
pub(super) fn decode(benchmark: &Section<'_>, judged: Judged) -> Vec<Phase> {
    // A short form beside the list is reported, and neither is trusted.
    if benchmark.exclusive("phases", "profiling") | benchmark.exclusive("phases", "warmup") {
        return Vec::new();
    }
    let items = match benchmark.field("phases") {
        Some(field) => match listed(&field) {
            Some(items) => items,
            None => return Vec::new(),
        },
        None if benchmark.has("profiling") || benchmark.has("warmup") => {
            let Some(profiling) = benchmark.field("profiling") else {
                if !benchmark.is_accounted_for("profiling") {
                    let advice = "this phase alone measures nothing; add `profiling`, as in profiling: {type: concurrency, requests: 100}";
                    let key = if benchmark.has("profiling") {
                        "profiling"
                    } else {
                        "warmup"
                    };
                    benchmark.report(key, advice);
                }
                return Vec::new();
            };
            let warmup = benchmark.field("warmup").map(|field| (field, Some(WARMUP)));
            warmup.into_iter().chain([(profiling, Some(PROFILING))]).collect()
        }
        None => {
            let advice = "list the phases, as in phases: [{name: profiling, type: concurrency, requests: 100}]";
            benchmark.required("phases", advice);
            return Vec::new();
        }
    };
    let read: Vec<(Option<Identity<'_>>, Option<Phase>)> = items
        .iter()
        .enumerate()
        .map(|(index, (field, prefill))| one(field, *prefill, index == 0, judged))
        .collect();
    let (identities, phases): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    let list = benchmark
        .key_at("phases")
        .or(benchmark.key_at("profiling"))
        .unwrap_or(benchmark.start);
    if let Some((first, _)) = items.first() {
        phase_names::check_workflow(&identities, list, first.sink);
    }
    phases.into_iter().flatten().collect()
}

/// The items of `phases`: a list, or the flat form of a single phase.
fn listed<'t>(field: &Field<'t>) -> Option<Vec<(Field<'t>, Option<Prefill>)>> {
    if let Value::Mapping(entries) = &field.node.value {
        let is_keyed_by_name = !field.has_key("type")
            && !entries.is_empty()
            && entries
                .iter()
                .all(|entry| matches!(entry.value.value, Value::Mapping(_)));
        if is_keyed_by_name {
            field.report(
                "found a mapping keyed by phase name; allowed: a list, as in - {name: warmup, type: concurrency, ...}",
            );
            return None;
        }
        return Some(vec![(field.clone(), Some(PROFILING))]);
    }
    let items = field.items("a list of phases")?;
    if items.len() == 0 {
        field.mistake("at least one phase");
        return None;
    }
    if items.len() > usize::from(u16::MAX) {
        field.report(format!("found {} phases; allowed: at most {}", items.len(), u16::MAX));
        return None;
    }
    Some(items.map(|item| (item, None)).collect())
}

/// Load patterns of the format that do not work yet.
const REFUSED_TYPES: [&str; 1] = ["agentic_replay"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Concurrency,
    Constant,
    Poisson,
    Gamma,
    FixedSchedule,
    UserCentric,
}

/// Smallest smoothness: gaps with 32 times the spread of exponential ones. Much below it nearly every gap is zero and the rest beyond any run.
const SMOOTHNESS: Bounds = Bounds {
    min: 0.001,
    ..Bounds::NOT_NEGATIVE
};

fn one<'t>(
    field: &Field<'t>,
    prefill: Option<Prefill>,
    is_first: bool,
    judged: Judged,
) -> (Option<Identity<'t>>, Option<Phase>) {
    let Some(section) = field.section(&PHASE) else {
        return (None, None);
    };
    let identity = phase_names::identity(field, &section, prefill.map(|prefill| (prefill.name, prefill.kind)));
    if let (Some(flag), Some(kind)) = (section.field("exclude_from_results"), identity.kind)
        && let Some(excluded) = flag.boolean()
        && excluded != (kind == PhaseKind::Warmup)
    {
        let rule = "warmup phases are always excluded and profiling phases never are; remove the key";
        flag.report(format!(
            "found {}, which contradicts kind: {}; {rule}",
            flag.found(),
            kind.as_str()
        ));
    }
    let load = load(&section);
    let rate_ramp = section.field("rate_ramp").and_then(|field| ramp::decode(&field));
    let written = section.field("concurrency");
    let concurrency = written.as_ref().map(|field| field.integer(1, u32::MAX.into()));
    // A closed loop without a number is one request at a time; an open loop without one has no cap.
    let concurrency = match concurrency {
        Some(read) => read,
        None => matches!(load, Some(PhaseType::Concurrency)).then_some(1),
    };
    let on_cap = section.field("on_cap").and_then(|field| on_cap(&section, &field));
    let limits = limits::decode(&section, load.as_ref(), concurrency, judged);
    let seamless = section
        .field("seamless")
        .and_then(|field| field.boolean())
        .unwrap_or(false);
    if seamless && is_first {
        section.report(
            "seamless",
            "the first phase has no phase before it to join on to; remove the key",
        );
    }
    let count = |key| section.field(key).and_then(|field| field.integer(1, u64::MAX.into()));
    let (requests, sessions) = (count("requests"), count("sessions"));
    let duration_s = section
        .field("duration")
        .and_then(|field| field.duration(Bounds::POSITIVE.or_infinity()));
    // A schedule ends with its last entry.
    let is_schedule = section
        .field("type")
        .and_then(|field| field.node.scalar())
        .is_some_and(|kind| kind.text == "fixed_schedule");
    let stops = ["requests", "sessions", "duration"];
    let is_missing = |key: &&'static str| section.field(key).is_none() && !section.is_accounted_for(key);
    if !is_schedule && stops.iter().all(is_missing) {
        let message = "nothing ends this phase; add one of requests, duration, sessions";
        field.sink.report(section.start, &field.path, message);
    }
    let grace_period_s = section.field("grace_period").and_then(|grace| {
        if section.field("duration").is_none() {
            grace.report("a grace period follows the duration of the phase; add `duration` or remove the key");
        }
        grace.duration(Bounds::NOT_NEGATIVE.or_infinity())
    });
    let cancellation = section.field("cancellation").and_then(|field| cancellation(&field));
    let phase = (|| {
        Some(Phase {
            at: section.start,
            path: field.path.clone(),
            name: identity.name.as_ref()?.1.to_string(),
            kind: identity.kind?,
            load: load?,
            rate_ramp,
            concurrency,
            on_cap,
            requests,
            sessions,
            duration_s,
            grace_period_s,
            cancellation,
            limits,
            seamless,
        })
    })();
    (Some(identity), phase)
}

/// The load pattern with its rate.
fn load(section: &Section<'_>) -> Option<PhaseType> {
    let words = [
        ("concurrency", Pattern::Concurrency),
        ("constant", Pattern::Constant),
        ("poisson", Pattern::Poisson),
        ("gamma", Pattern::Gamma),
        ("fixed_schedule", Pattern::FixedSchedule),
        ("user_centric", Pattern::UserCentric),
    ];
    let pattern = section
        .required(
            "type",
            "allowed: concurrency, constant, poisson, gamma, user_centric, fixed_schedule",
        )
        .and_then(|field| field.exact_word(&words, &REFUSED_TYPES));
    let smoothness = section.field("smoothness").map(|field| field.float(SMOOTHNESS));
    let Some(pattern) = pattern else {
        // Nothing is known about what a rate would mean, but a number that can be none is one.
        rate::decode_constant(section);
        return None;
    };
    if pattern != Pattern::Gamma && section.field("smoothness").is_some() {
        section.report(
            "smoothness",
            "only gaps of type gamma have a smoothness; write type: gamma or remove the key",
        );
    }
    if pattern != Pattern::FixedSchedule {
        let kind = words
            .iter()
            .find(|(_, word)| *word == pattern)
            .map_or("", |(word, _)| word);
        fixed_schedule::report_foreign(section, kind);
    }
    if pattern != Pattern::UserCentric && section.has("users") {
        section.report("users", "only a phase of type user_centric has users; remove the key");
    }
    match pattern {
        Pattern::FixedSchedule => fixed_schedule::decode(section).map(PhaseType::FixedSchedule),
        Pattern::Concurrency => {
            for key in ["rate", "rate_series", "rate_ramp"] {
                if section.field(key).is_some() {
                    let advice = "use type: constant, poisson or gamma, or remove the key";
                    section.report(key, format!("a phase of type concurrency has no rate; {advice}"));
                }
            }
            Some(PhaseType::Concurrency)
        }
        Pattern::Constant => rate::decode(section).map(|rate| PhaseType::Constant { rate }),
        Pattern::Poisson => rate::decode(section).map(|rate| PhaseType::Poisson { rate }),
        Pattern::UserCentric => user_centric(section),
        Pattern::Gamma => {
            let rate = rate::decode(section);
            let smoothness = match smoothness {
                Some(read) => Some(read?),
                None => None,
            };
            Some(PhaseType::Gamma {
                rate: rate?,
                smoothness,
            })
        }
    }
}

/// Most users of a phase: each takes about a hundred bytes and their history.
pub(super) const MAX_USERS: u32 = 10_000_000;

/// Users at a rate of their own. Their number and what ends the phase belong together: a phase that ended before every user has begun would
/// measure another load than it says.
fn user_centric(section: &Section<'_>) -> Option<PhaseType> {
    for key in ["rate_series", "rate_ramp"] {
        if section.field(key).is_some() {
            section.report(
                key,
                "users send at even gaps, so their rate is one number; write it as rate, or remove the key",
            );
        }
    }
    let users = section.required("users", "write how many users there are at any time, as in users: 10");
    if section.field("rate").is_none() {
        section.required(
            "rate",
            "write the requests per second of all users together, as in rate: 20",
        );
    }
    let rate = rate::decode_constant(section);
    let users: u32 = users?.integer(1, MAX_USERS.into())?;
    for key in ["requests", "sessions"] {
        if let Some(field) = section.field(key)
            && let Some(count) = field.integer::<u64>(1, u64::MAX.into())
            && count < users.into()
        {
            field.report(format!(
                "{} before all {users} users have begun; allowed: at least {users}",
                match count {
                    1 => format!("1 {} ends the phase", key.trim_end_matches('s')),
                    _ => format!("{count} {key} end the phase"),
                }
            ));
        }
    }
    Some(PhaseType::UserCentric {
        users,
        rate: Rate::Constant(rate?),
    })
}

/// What to do with arrivals beyond the cap, which must be there.
fn on_cap(section: &Section<'_>, field: &Field<'_>) -> Option<OnCap> {
    let kind = section.field("type").and_then(|field| field.node.scalar());
    if kind.is_some_and(|kind| kind.text == "concurrency") {
        field.report(
            "a phase of type concurrency has no arrivals: a request starts when a slot is free; remove the key",
        );
    } else if ["concurrency", "prefill_concurrency"]
        .iter()
        .all(|&key| section.field(key).is_none() && !section.is_accounted_for(key))
    {
        field.report(
            "without a cap every arrival starts at once; add `concurrency` or `prefill_concurrency`, or remove the key",
        );
    }
    let choice = field.word(
        &[("wait", OnCap::Wait), ("queue", OnCap::Wait), ("drop", OnCap::Drop)],
        &[],
    );
    if choice == Some(OnCap::Drop) && kind.is_some_and(|kind| kind.text == "user_centric") {
        field.report("users wait for a slot, and those behind them too; remove the key");
    }
    if choice == Some(OnCap::Drop) && kind.is_some_and(|kind| kind.text == "fixed_schedule") {
        field.report("a fixed schedule sends each of its entries, late if need be; remove the key");
    }
    choice
}

fn cancellation(field: &Field<'_>) -> Option<Cancellation> {
    let section = field.section(&CANCELLATION)?;
    let percent = Bounds {
        max: 100.0,
        ..Bounds::NOT_NEGATIVE
    };
    let rate = section.required("rate", "write the percentage of requests to cancel, from 0 to 100");
    let delay = section.field("delay").map(|field| field.duration(Bounds::NOT_NEGATIVE));
    Some(Cancellation {
        rate: rate?.float(percent)?,
        delay_s: delay.unwrap_or(Some(0.0))?,
    })
}
