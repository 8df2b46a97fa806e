//! `benchmark.phases` and its short forms, as written, with the rules that bind one phase.

use super::decode::{Bounds, Field, Section};
use super::phase_names::{self, Identity};
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PhaseType {
    /// Closed loop.
    Concurrency,
    /// Open loop with even gaps.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// Open loop with exponential gaps.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// Open loop of users who send at even gaps of their own.
    UserCentric {
        /// Users at any time.
        users: u32,
        /// Requests per second of all users together.
        rate: f64,
    },
}

impl PhaseType {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Constant { .. } => "constant",
            Self::Poisson { .. } => "poisson",
            Self::UserCentric { .. } => "user_centric",
        }
    }

    /// Requests per second of an open loop.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Concurrency => None,
            Self::Constant { rate } | Self::Poisson { rate } | Self::UserCentric { rate, .. } => Some(rate),
        }
    }

    /// Users of a phase that counts them.
    pub fn users(self) -> Option<u32> {
        match self {
            Self::UserCentric { users, .. } => Some(users),
            _ => None,
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
    /// Most requests in flight.
    pub concurrency: Option<u32>,
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

/// The phases in order; those with mistakes are missing.
pub(super) fn decode(benchmark: &Section<'_>) -> Vec<Phase> {
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
            let Some(profiling) =
                benchmark.required("profiling", "`warmup` alone measures nothing; add a profiling phase")
            else {
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
        .map(|(index, (field, prefill))| one(field, *prefill, index == 0))
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
const REFUSED_TYPES: [&str; 3] = ["gamma", "fixed_schedule", "agentic_replay"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Concurrency,
    Constant,
    Poisson,
    UserCentric,
}

fn one<'t>(field: &Field<'t>, prefill: Option<Prefill>, is_first: bool) -> (Option<Identity<'t>>, Option<Phase>) {
    let Some(section) = field.section(&PHASE) else {
        return (None, None);
    };
    let identity = phase_names::identity(&section, prefill.map(|prefill| (prefill.name, prefill.kind)));
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
    let concurrency = section
        .field("concurrency")
        .and_then(|field| field.integer(1, u32::MAX.into()));
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
    // A schedule ends with its last entry; it is refused by its type, and that is all there is to say.
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
        let load = load?;
        // A closed loop without a number is one request at a time; an open loop without one has no cap.
        let concurrency = match load {
            PhaseType::Concurrency => concurrency.or(Some(1)),
            _ => concurrency,
        };
        Some(Phase {
            at: section.start,
            path: field.path.clone(),
            name: identity.name.as_ref()?.1.to_string(),
            kind: identity.kind?,
            load,
            concurrency,
            requests,
            sessions,
            duration_s,
            grace_period_s,
            cancellation,
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
        ("user_centric", Pattern::UserCentric),
    ];
    let pattern = section
        .required("type", "allowed: concurrency, constant, poisson, user_centric")
        .and_then(|field| field.exact_word(&words, &REFUSED_TYPES));
    let rate = section.field("rate");
    // Beyond one request per nanosecond the clock has no different times left to give.
    let limits = Bounds {
        max: 1e9,
        ..Bounds::POSITIVE
    };
    let value = rate.as_ref().and_then(|field| field.float(limits));
    let pattern = pattern?;
    if pattern != Pattern::UserCentric && section.has("users") {
        section.report("users", "only a phase of type user_centric has users; remove the key");
    }
    match pattern {
        Pattern::Concurrency => {
            if rate.is_some() {
                section.report(
                    "rate",
                    "a phase of type concurrency has no rate; use type: poisson or constant, or remove the key",
                );
            }
            Some(PhaseType::Concurrency)
        }
        Pattern::Constant | Pattern::Poisson if rate.is_none() && section.is_accounted_for("rate_series") => None,
        Pattern::UserCentric => {
            let users = section.required("users", "write how many users there are at any time, as in users: 10");
            if rate.is_none() {
                section.required(
                    "rate",
                    "write the requests per second of all users together, as in rate: 20",
                );
            }
            let users = users?.integer(1, MAX_USERS.into())?;
            check_users(section, users);
            Some(PhaseType::UserCentric { users, rate: value? })
        }
        Pattern::Constant | Pattern::Poisson if rate.is_none() => {
            section.required("rate", "write the requests per second, as in rate: 20");
            None
        }
        Pattern::Constant => value.map(|rate| PhaseType::Constant { rate }),
        Pattern::Poisson => value.map(|rate| PhaseType::Poisson { rate }),
    }
}

/// Most users of a phase: each takes about a hundred bytes and their history.
const MAX_USERS: u32 = 10_000_000;

/// A phase that ends before every user has begun would measure another load than it says.
fn check_users(section: &Section<'_>, users: u32) {
    for key in ["requests", "sessions"] {
        if let Some(field) = section.field(key)
            && let Some(count) = field.integer::<u64>(1, u64::MAX.into())
            && count < users.into()
        {
            field.report(format!(
                "{count} {key} end the phase before all {users} users have begun; allowed: at least {users}"
            ));
        }
    }
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
