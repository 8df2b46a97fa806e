//! `adaptive_scale` and `sla` of a phase, as written: a mapping, or a switch beside flat keys.

use super::decode::{Bounds, Field, Section};
use super::diagnostic::quote;
use super::phases::{MAX_USERS, PhaseType};
use super::rate::{QPS, Rate};
use super::schema::{ADAPTIVE_CONTROL, ADAPTIVE_SCALE, ADAPTIVE_STRATEGY, SLA};
use super::tree::Value;

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdaptiveVariable {
    /// Requests in flight.
    #[default]
    Concurrency,
    /// Requests in prefill.
    PrefillConcurrency,
    /// Arrivals per second of an open loop.
    RequestRate,
    /// Users who pace themselves.
    Users,
}

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdaptiveStep {
    /// The further from the service level, the further.
    #[default]
    SlaMargin,
    /// By a percentage.
    FixedPercent,
}

/// One service level.
#[derive(Debug, Clone, PartialEq)]
pub struct Sla {
    /// The metric's name; one that ringload computes in a window.
    pub metric: String,
    /// The statistic's name: `avg`, `min`, `max` or `p1` to `p99`.
    pub stat: String,
    /// `lt`, `le`, `gt` or `ge`.
    pub op: String,
    /// Finite.
    pub threshold: f64,
}

/// The controller of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveScale {
    /// What it moves.
    pub variable: AdaptiveVariable,
    /// Where it begins; whole, but for a rate.
    pub min: Option<f64>,
    /// Where it ends.
    pub max: f64,
    /// Seconds of a window.
    pub assessment_period_s: Option<f64>,
    /// Successes that a window needs.
    pub min_completed_requests: Option<u64>,
    /// Seconds that the value must hold.
    pub sustain_duration_s: f64,
    /// Whether the strategy is named; there is one.
    pub names_strategy: bool,
    /// How far a step goes.
    pub step_policy: Option<AdaptiveStep>,
    /// Smallest step.
    pub base_step: Option<f64>,
    /// Most smallest steps at once.
    pub max_step_multiplier: Option<u32>,
    /// Percent of a step.
    pub step_percent: Option<f64>,
    /// What must hold.
    pub sla: Vec<Sla>,
}

/// Metrics of a window.
const METRICS: [&str; 14] = [
    "request_latency",
    "time_to_first_token",
    "ttft",
    "inter_token_latency",
    "itl",
    "tpot",
    "request_throughput",
    "throughput",
    "output_token_throughput",
    "goodput",
    "goodput_ratio",
    "success_rate",
    "error_rate",
    "cancellation_rate",
];
const NEED_SLOS: [&str; 2] = ["goodput", "goodput_ratio"];
const NEED_STREAMS: [&str; 5] = ["time_to_first_token", "ttft", "inter_token_latency", "itl", "tpot"];
const STATS: [&str; 11] = [
    "avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95",
];
const OPS: [&str; 4] = ["lt", "le", "gt", "ge"];

/// Where each setting may stand: the flat key of the phase, the keys of the mapping, and the key inside `control` or `strategy`.
struct Places<'s, 't> {
    phase: &'s Section<'t>,
    block: Option<Section<'t>>,
    control: Option<Section<'t>>,
    strategy: Option<Section<'t>>,
}

impl<'t> Places<'_, 't> {
    /// The value of a setting, wherever it stands. A second place is a mistake.
    fn find(
        &self,
        flat: &'static str,
        block: &[&'static str],
        inner: Option<(&Option<Section<'t>>, &'static str)>,
    ) -> Option<Field<'t>> {
        let in_block = self.block.as_ref().into_iter();
        let found = in_block
            .flat_map(|section| block.iter().filter_map(|key| section.field(key)))
            .chain(inner.and_then(|(section, key)| section.as_ref()?.field(key)))
            .chain(self.phase.field(flat));
        let found: Vec<Field<'t>> = found.collect();
        if let [first, second, ..] = &found[..] {
            second.report(format!("`{}` says this already; keep one", first.path));
        }
        found.into_iter().next()
    }
}

/// The flat keys: they mean something only beside `adaptive_scale`.
const FLAT: [&str; 11] = [
    "adaptive_control_variable",
    "adaptive_control_min",
    "adaptive_control_max",
    "adaptive_assessment_period",
    "adaptive_min_completed_requests",
    "adaptive_sustain_duration",
    "adaptive_scale_strategy_type",
    "adaptive_scale_step_policy",
    "adaptive_scale_base_step",
    "adaptive_scale_max_step_multiplier",
    "adaptive_scale_step_percent",
];

/// What the rest of the phase says, as far as the controller depends on it.
pub(super) struct Surroundings<'l> {
    /// The load pattern; `None` if it has mistakes.
    pub(super) load: Option<&'l PhaseType>,
    pub(super) concurrency: Option<u32>,
    pub(super) prefill: Option<u32>,
    pub(super) judged: Judged,
}

/// What the file says outside of the phases, as far as service levels depend on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    /// What the endpoint says, if it could be read.
    pub(super) streaming: Option<bool>,
    /// Whether there are `slos`, which tell good requests from others.
    pub(super) has_slos: bool,
}

/// Nothing is known that speaks against any service level.
const ANYTHING: Judged = Judged {
    streaming: None,
    has_slos: true,
};

/// The controller of a phase; `None` if there is none, or it has mistakes.
pub(super) fn decode(phase: &Section<'_>, around: &Surroundings<'_>) -> Option<AdaptiveScale> {
    let field = phase.field("adaptive_scale");
    let block = field
        .as_ref()
        .filter(|field| matches!(field.node.value, Value::Mapping(_)));
    let block = match block {
        Some(field) => Some(field.section(&ADAPTIVE_SCALE)?),
        None => None,
    };
    let is_on = match (&block, &field) {
        (Some(block), _) => block.field("enabled").map_or(Some(true), |field| field.boolean())?,
        (None, Some(field)) => field.boolean()?,
        (None, None) => false,
    };
    if !is_on {
        if field.is_none() {
            for key in FLAT.into_iter().chain(["sla"]).filter(|key| phase.field(key).is_some()) {
                // Mistakes in it are told all the same.
                let is_unread = |field: Field<'_>| slas(&field, ANYTHING).is_none();
                if key == "sla" && phase.field(key).is_some_and(is_unread) {
                    continue;
                }
                phase.report(
                    key,
                    "only adaptive_scale reads this; add `adaptive_scale: true` or remove the key",
                );
            }
        }
        return None;
    }
    let inner = |key: &'static str, schema| block.as_ref().and_then(|block| block.field(key)?.section(schema));
    let (control, strategy) = (
        inner("control", &ADAPTIVE_CONTROL),
        inner("strategy", &ADAPTIVE_STRATEGY),
    );
    let places = Places {
        phase,
        block,
        control,
        strategy,
    };
    read(phase, &places, around)
}

fn read(phase: &Section<'_>, places: &Places<'_, '_>, around: &Surroundings<'_>) -> Option<AdaptiveScale> {
    let (control, strategy) = (&places.control, &places.strategy);
    let whole = |field: &Field<'_>| field.integer::<u32>(1, u32::MAX.into());
    let variables = [
        ("concurrency", AdaptiveVariable::Concurrency),
        ("prefill_concurrency", AdaptiveVariable::PrefillConcurrency),
        ("request_rate", AdaptiveVariable::RequestRate),
        ("users", AdaptiveVariable::Users),
    ];
    let named_variable = places.find(
        "adaptive_control_variable",
        &["control_variable"],
        Some((control, "variable")),
    );
    let variable = named_variable
        .as_ref()
        .map_or(Some(AdaptiveVariable::default()), |field| field.word(&variables, &[]));
    // Of a variable that could not be read any number might be meant.
    let value = |field: &Field<'_>| match variable {
        Some(AdaptiveVariable::RequestRate) | None => field.float(QPS),
        Some(AdaptiveVariable::Users) => field.integer::<u32>(1, MAX_USERS.into()).map(f64::from),
        Some(_) => whole(field).map(f64::from),
    };
    let min = places.find(
        "adaptive_control_min",
        &["control_min", "min_concurrency"],
        Some((control, "min")),
    );
    let max = places.find(
        "adaptive_control_max",
        &["control_max", "max_concurrency"],
        Some((control, "max")),
    );
    let least = min.as_ref().map(value);
    let own = match (variable, around.load) {
        (Some(AdaptiveVariable::PrefillConcurrency), _) => around.prefill.map(f64::from),
        (Some(AdaptiveVariable::Users), Some(load)) => load.users().map(f64::from),
        (Some(AdaptiveVariable::RequestRate), Some(load)) => match load.rate() {
            Some(Rate::Constant(rate)) => Some(*rate),
            _ => None,
        },
        (Some(AdaptiveVariable::Concurrency), _) => around.concurrency.map(f64::from),
        _ => None,
    };
    let most = max.as_ref().map_or(Some(own), |field| value(field).map(Some));
    let period = places.find("adaptive_assessment_period", &["window", "assessment_period"], None);
    let one_second = Bounds {
        min: 1.0,
        ..Bounds::NOT_NEGATIVE
    };
    let period = period.map(|field| field.duration(one_second));
    let min_completed = places
        .find("adaptive_min_completed_requests", &["min_completed_requests"], None)
        .map(|field| field.integer::<u64>(1, u64::MAX.into()));
    let sustain = places.find("adaptive_sustain_duration", &["sustain_duration"], None);
    if sustain.is_none() {
        phase.report(
            "adaptive_scale",
            "without a sustain_duration nothing says how long the value that is found must hold; add it, as in sustain_duration: 60",
        );
    }
    let sustain = sustain?.duration(Bounds::POSITIVE);
    let named = places.find("adaptive_scale_strategy_type", &[], Some((strategy, "type")));
    if let Some(field) = &named {
        field.word(&[("ramp_until_fail", ())], &[])?;
    }
    let policies = [
        ("sla_margin", AdaptiveStep::SlaMargin),
        ("fixed_percent_step", AdaptiveStep::FixedPercent),
    ];
    let policy = places
        .find("adaptive_scale_step_policy", &[], Some((strategy, "step_policy")))
        .map(|field| field.word(&policies, &[]));
    let base_step = places.find("adaptive_scale_base_step", &[], Some((strategy, "base_step")));
    let base_step = base_step.map(|field| value(&field));
    let multiplier = places.find(
        "adaptive_scale_max_step_multiplier",
        &[],
        Some((strategy, "max_step_multiplier")),
    );
    let multiplier = multiplier.map(|field| whole(&field));
    let percent = places
        .find("adaptive_scale_step_percent", &[], Some((strategy, "step_percent")))
        .map(|field| field.float(Bounds::POSITIVE));
    let sla = places.find("sla", &["sla"], None);
    if sla.is_none() {
        phase.report(
            "adaptive_scale",
            "without a service level nothing ends the search; add sla, as in sla: {request_latency: {p95: {lt: 500}}}",
        );
    }
    let sla = slas(&sla?, around.judged)?;
    if phase.field("duration").is_none() {
        phase.report("adaptive_scale", "a search needs a bound; add `duration` to the phase");
        return None;
    }
    let variable = variable?;
    check(phase, variable, named_variable.as_ref(), around)?;
    let (min, most) = (transpose(least)?, most?);
    let low = min.unwrap_or(1.0);
    let moves_load = matches!(variable, AdaptiveVariable::RequestRate | AdaptiveVariable::Users);
    if most.is_none() && moves_load && around.load.is_none() {
        return None; // its own value has been reported
    }
    let Some(high) = most else {
        phase.report(
            "adaptive_scale",
            "nothing says how far the value may rise; add max to its control",
        );
        return None;
    };
    if high <= low {
        let key = match variable {
            AdaptiveVariable::Concurrency => "concurrency",
            AdaptiveVariable::PrefillConcurrency => "prefill_concurrency",
            AdaptiveVariable::RequestRate => "rate",
            AdaptiveVariable::Users => "users",
        };
        let advice = format!("raise max in its control, or {key} of the phase, which is the max otherwise");
        phase.report(
            "adaptive_scale",
            format!("the value is to rise from {low} (min) to {high} (max); allowed: a max above the min; {advice}"),
        );
        return None;
    }
    Some(AdaptiveScale {
        variable,
        min,
        max: high,
        assessment_period_s: transpose(period)?,
        min_completed_requests: transpose(min_completed)?,
        sustain_duration_s: sustain?,
        names_strategy: named.is_some(),
        step_policy: transpose(policy)?,
        base_step: transpose(base_step)?,
        max_step_multiplier: transpose(multiplier)?,
        step_percent: transpose(percent)?,
        sla,
    })
}

/// Absent is fine, unreadable is not.
fn transpose<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        None => Some(None),
        Some(value) => value.map(Some),
    }
}

/// What may not stand beside a controller.
fn check(
    phase: &Section<'_>,
    variable: AdaptiveVariable,
    named: Option<&Field<'_>>,
    around: &Surroundings<'_>,
) -> Option<()> {
    let kind = phase.field("type").and_then(|field| field.node.scalar());
    let kind = kind.map_or("", |kind| kind.text.as_str());
    if kind == "fixed_schedule" {
        phase.report(
            "adaptive_scale",
            "a fixed schedule is replayed as it is and nothing may hold it back; use another type or remove the key",
        );
        return None;
    }
    let foreign = match (variable, kind) {
        (AdaptiveVariable::RequestRate, "concurrency") => Some(
            "a phase of type concurrency has no rate to move; write variable: concurrency, or type: constant, poisson or gamma",
        ),
        (AdaptiveVariable::RequestRate, "user_centric") => {
            Some("the rate of users is their number times their pace; write variable: users")
        }
        (AdaptiveVariable::Users, "concurrency" | "constant" | "poisson" | "gamma") => {
            Some("only a phase of type user_centric has users to move; write type: user_centric, or another variable")
        }
        _ => None,
    };
    if let Some(reason) = foreign {
        match named {
            Some(field) => field.report(reason),
            None => phase.report("adaptive_scale", reason),
        }
        return None;
    }
    let (movers, moved): (&[&'static str], _) = match variable {
        AdaptiveVariable::Concurrency => (&["concurrency_ramp"], "concurrency"),
        AdaptiveVariable::PrefillConcurrency => (&["prefill_ramp"], "prefill_concurrency"),
        AdaptiveVariable::RequestRate => (&["rate_ramp", "rate_series"], "the rate"),
        AdaptiveVariable::Users => (&[], "users"),
    };
    let others = movers.iter().filter(|mover| phase.field(mover).is_some());
    let is_moved_twice = others
        .map(|mover| {
            phase.report(
                mover,
                format!("adaptive_scale moves {moved} already; remove one of the two"),
            )
        })
        .count()
        > 0;
    if is_moved_twice {
        return None;
    }
    if variable == AdaptiveVariable::Users && phase.field("sessions").is_some() {
        phase.report(
            "sessions",
            "how many requests a number of sessions comes to depends on when the controller adds users; end the phase by duration or requests",
        );
        return None;
    }
    if variable == AdaptiveVariable::PrefillConcurrency && around.judged.streaming == Some(false) {
        phase.report(
            "adaptive_scale",
            "the end of a prefill is the first token of a stream, and the endpoint does not stream; set endpoint.streaming: true",
        );
        return None;
    }
    Some(())
}

/// Service levels: a list of filters, or metric, statistic, operator and threshold as nested keys.
fn slas(field: &Field<'_>, judged: Judged) -> Option<Vec<Sla>> {
    let mut read = Vec::new();
    let mut sound = true;
    if let Value::Sequence(_) = field.node.value {
        for item in field.items("a list of filters")? {
            let Some(section) = item.section(&SLA) else {
                sound = false;
                continue;
            };
            let metric = section
                .required("metric_tag", "name the metric, as in metric_tag: request_latency")
                .and_then(|field| metric(&field, field.text()?, judged));
            let stat = section
                .field("stat")
                .map_or(Some("p95".to_owned()), |field| stat(&field, field.text()?));
            let op = section
                .required("op", "allowed: lt, le, gt, ge")
                .and_then(|field| op(&field, field.text()?));
            let threshold = section
                .required("threshold", "write the number that the metric is compared with")
                .and_then(|field| threshold(&field));
            match (metric, stat, op, threshold) {
                (Some(metric), Some(stat), Some(op), Some(threshold)) => read.push(Sla {
                    metric,
                    stat,
                    op,
                    threshold,
                }),
                _ => sound = false,
            }
        }
    } else {
        for (name, _, stats) in field.free_entries("a list of filters, or {metric: {stat: {op: threshold}}}")? {
            let metric = metric(&stats, name, judged);
            for (stat_name, _, ops) in stats.free_entries("{stat: {op: threshold}}")? {
                let stat = stat(&ops, stat_name);
                for (op_name, _, value) in ops.free_entries("{op: threshold}")? {
                    let read_one = (metric.clone(), stat.clone(), op(&value, op_name), threshold(&value));
                    match read_one {
                        (Some(metric), Some(stat), Some(op), Some(threshold)) => read.push(Sla {
                            metric,
                            stat,
                            op,
                            threshold,
                        }),
                        _ => sound = false,
                    }
                }
            }
        }
    }
    if sound && read.is_empty() {
        field.mistake("at least one service level");
        return None;
    }
    sound.then_some(read)
}

fn metric(field: &Field<'_>, name: &str, judged: Judged) -> Option<String> {
    if !METRICS.contains(&name) {
        field.report(format!(
            "found the metric {}; allowed: {}",
            quote(name),
            METRICS.join(", ")
        ));
        return None;
    }
    if NEED_STREAMS.contains(&name) && judged.streaming == Some(false) {
        field.report(format!(
            "`{name}` is measured in streams, and the endpoint does not stream; set endpoint.streaming: true"
        ));
        return None;
    }
    if NEED_SLOS.contains(&name) && !judged.has_slos {
        field.report(format!(
            "`{name}` counts the requests that meet the thresholds of `slos`, and there are none; add them to the benchmark, as in slos: \
             {{request_latency: 500}}"
        ));
        return None;
    }
    Some(name.to_owned())
}

fn stat(field: &Field<'_>, name: &str) -> Option<String> {
    if STATS.contains(&name) || name == "p99" {
        return Some(name.to_owned());
    }
    field.report(format!(
        "found the statistic {}; allowed: {}, p99",
        quote(name),
        STATS.join(", ")
    ));
    None
}

fn op(field: &Field<'_>, name: &str) -> Option<String> {
    if OPS.contains(&name) {
        return Some(name.to_owned());
    }
    field.report(format!(
        "found the operator {}; allowed: {}",
        quote(name),
        OPS.join(", ")
    ));
    None
}

fn threshold(field: &Field<'_>) -> Option<f64> {
    field.float(Bounds::FINITE)
}
