//! Keys of a phase and what is below them.

use super::super::super::schema::{
    ADAPTIVE_CONTROL, ADAPTIVE_SCALE, ADAPTIVE_STRATEGY, CANCELLATION, RAMP, RATE_POINT, RATE_SERIES, SLA,
};
use super::super::shape::Limits;
use super::super::shape::Shape::{self, *};
use super::Key;

const NOT_NEGATIVE: Limits = Limits::NOT_NEGATIVE;
const POSITIVE: Limits = Limits::POSITIVE;
const SHARE: Limits = NOT_NEGATIVE.up_to(1.0);
const RISE: Shape = OneOf(&[Duration(POSITIVE), Section(&RAMP)]);
const POINTS: Shape = List(&Section(&RATE_POINT));
const LEVELS: Shape = OneOf(&[List(&Section(&SLA)), FreeMap]);
const PHASE_NAME: Shape = Matching("^[A-Za-z_][A-Za-z0-9_-]*$");
const CONTROL_VARIABLES: Shape = Words(&["concurrency", "prefill_concurrency", "request_rate", "users"]);
const STEP_POLICIES: Shape = Words(&["sla_margin", "fixed_percent_step"]);
const STRATEGIES: Shape = Words(&["ramp_until_fail"]);

pub(super) const IN_PHASE: &[Key] = &[
    ("name", PHASE_NAME, "Unique name; the directory of the phase's results."),
    (
        "kind",
        Exactly(&["warmup", "profiling"]),
        "warmup prepares the server and is never in the aggregate; profiling is measured.",
    ),
    (
        "type",
        Exactly(&[
            "concurrency",
            "constant",
            "poisson",
            "gamma",
            "user_centric",
            "fixed_schedule",
        ]),
        "When requests start: as slots get free, at a rate, by users, or by a recorded schedule.",
    ),
    (
        "exclude_from_results",
        Boolean,
        "Follows from the kind: true for warmup, false for profiling.",
    ),
    ("requests", Whole(1), "Requests to send."),
    (
        "sessions",
        Whole(1),
        "Conversations to begin; those that have begun are finished.",
    ),
    (
        "duration",
        Duration(POSITIVE.or_infinity()),
        "Time in which requests may start: seconds, 30s, 1h30m, or inf.",
    ),
    (
        "concurrency",
        Whole(1),
        "Most requests in flight; of conversations, most of them open.",
    ),
    (
        "concurrency_ramp",
        RISE,
        "How the concurrency rises from 1: a duration, or {duration, strategy}.",
    ),
    (
        "prefill_concurrency",
        Whole(1),
        "Most requests between their start and their first token. Needs a stream.",
    ),
    ("prefill_ramp", RISE, "How the prefill limit rises from 1."),
    (
        "failed_request_threshold",
        Number(SHARE),
        "Share of failures, 0 to 1, above which the run ends.",
    ),
    (
        "sla",
        LEVELS,
        "Service levels of adaptive_scale, as in {request_latency: {p95: {lt: 500}}}.",
    ),
    (
        "adaptive_scale",
        OneOf(&[Boolean, Section(&ADAPTIVE_SCALE)]),
        "Raises a limit step by step until a service level breaks.",
    ),
    (
        "adaptive_control_variable",
        CONTROL_VARIABLES,
        "What adaptive_scale moves.",
    ),
    (
        "adaptive_control_min",
        Number(POSITIVE),
        "Where it begins; whole, but for a rate.",
    ),
    ("adaptive_control_max", Number(POSITIVE), "Where it ends."),
    (
        "adaptive_assessment_period",
        Duration(Limits::from(1.0)),
        "Length of a window.",
    ),
    (
        "adaptive_min_completed_requests",
        Whole(1),
        "Successes that a window needs.",
    ),
    (
        "adaptive_sustain_duration",
        Duration(POSITIVE),
        "How long the value that was found must hold.",
    ),
    (
        "adaptive_scale_strategy_type",
        STRATEGIES,
        "The strategy; there is one.",
    ),
    ("adaptive_scale_step_policy", STEP_POLICIES, "How far a step goes."),
    ("adaptive_scale_base_step", Number(POSITIVE), "Smallest step."),
    (
        "adaptive_scale_max_step_multiplier",
        Whole(1),
        "Most smallest steps at once.",
    ),
    (
        "adaptive_scale_step_percent",
        Number(POSITIVE),
        "Percent of a step of fixed_percent_step.",
    ),
    (
        "on_cap",
        Words(&["wait", "queue", "drop"]),
        "What becomes of an arrival that finds no slot: wait in order, or drop.",
    ),
    (
        "rate",
        Number(POSITIVE.or_infinity()),
        "Requests per second; of user_centric, of all users together.",
    ),
    ("users", Whole(1), "Users at any time. For user_centric."),
    (
        "rate_series",
        OneOf(&[POINTS, Section(&RATE_SERIES), Text]),
        "A rate that moves: points, or the path of a JSON file with them.",
    ),
    ("rate_ramp", RISE, "How the rate rises to its target."),
    (
        "smoothness",
        Number(POSITIVE),
        "Shape of the gaps of gamma: 1 is Poisson, less is burstier.",
    ),
    (
        "grace_period",
        Duration(NOT_NEGATIVE.or_infinity()),
        "After the duration, requests in flight are cut so much later. Unset waits while they progress.",
    ),
    (
        "cancellation",
        Section(&CANCELLATION),
        "Clients that leave before their answer is complete.",
    ),
    (
        "seamless",
        Boolean,
        "Start when the phase before has stopped sending, without waiting for its answers.",
    ),
    (
        "auto_offset",
        Boolean,
        "Whether the first timestamp is the beginning of the phase; true by default. For fixed_schedule.",
    ),
    (
        "start_offset",
        Whole(0),
        "First timestamp that is replayed, in milliseconds. For fixed_schedule.",
    ),
    (
        "end_offset",
        Whole(0),
        "Last timestamp that is replayed, in milliseconds. For fixed_schedule.",
    ),
];

pub(super) const IN_CANCELLATION: &[Key] = &[
    (
        "rate",
        Number(NOT_NEGATIVE.up_to(100.0)),
        "Percent of requests, 0 to 100.",
    ),
    (
        "delay",
        Duration(NOT_NEGATIVE),
        "From the sending of a request until the client leaves.",
    ),
];

pub(super) const IN_RAMP: &[Key] = &[
    ("duration", Duration(POSITIVE), "How long the value rises."),
    (
        "strategy",
        Words(&["linear", "exponential", "poisson"]),
        "Evenly, slowly at first, or by steps at random instants.",
    ),
];

pub(super) const IN_RATE_SERIES: &[Key] = &[
    ("points", POINTS, "The points in the order of time; at least two."),
    ("path", Text, "A JSON file that holds the points instead."),
];

pub(super) const IN_RATE_POINT: &[Key] = &[
    (
        "time_s",
        Duration(NOT_NEGATIVE),
        "Time since the series began: seconds, or 5m.",
    ),
    ("qps", Number(POSITIVE), "Requests per second at that time."),
];

pub(super) const IN_ADAPTIVE_SCALE: &[Key] = &[
    ("enabled", Boolean, "Whether the controller runs; true by default."),
    (
        "control",
        Section(&ADAPTIVE_CONTROL),
        "What is moved, and between which values.",
    ),
    ("strategy", Section(&ADAPTIVE_STRATEGY), "How far its steps go."),
    (
        "sla",
        LEVELS,
        "What must hold, as in {request_latency: {p95: {lt: 500}}}.",
    ),
    ("window", Duration(Limits::from(1.0)), "Length of a window."),
    (
        "assessment_period",
        Duration(Limits::from(1.0)),
        "The same as `window`.",
    ),
    ("min_completed_requests", Whole(1), "Successes that a window needs."),
    (
        "sustain_duration",
        Duration(POSITIVE),
        "How long the value that was found must hold.",
    ),
    ("control_variable", CONTROL_VARIABLES, "The same as control.variable."),
    ("control_min", Number(POSITIVE), "The same as control.min."),
    ("control_max", Number(POSITIVE), "The same as control.max."),
    ("min_concurrency", Whole(1), "The same as control.min."),
    ("max_concurrency", Whole(1), "The same as control.max."),
];

pub(super) const IN_ADAPTIVE_CONTROL: &[Key] = &[
    ("variable", CONTROL_VARIABLES, "What is moved."),
    ("min", Number(POSITIVE), "Where it begins; whole, but for a rate."),
    ("max", Number(POSITIVE), "Where it ends."),
];

pub(super) const IN_ADAPTIVE_STRATEGY: &[Key] = &[
    ("type", STRATEGIES, "The strategy; there is one."),
    (
        "step_policy",
        STEP_POLICIES,
        "By the distance from the service level, or by a percentage.",
    ),
    ("base_step", Number(POSITIVE), "Smallest step."),
    ("max_step_multiplier", Whole(1), "Most smallest steps at once."),
    (
        "step_percent",
        Number(POSITIVE),
        "Percent of a step of fixed_percent_step.",
    ),
];

pub(super) const IN_SLA: &[Key] = &[
    ("metric_tag", Text, "The metric, as in request_latency."),
    ("stat", Text, "The statistic: avg, min, max, or p1 to p99."),
    ("op", Exactly(&["lt", "le", "gt", "ge"]), "How the metric is compared."),
    ("threshold", Number(Limits::NONE), "With what."),
];
