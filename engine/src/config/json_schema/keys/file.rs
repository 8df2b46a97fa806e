//! Keys beside `benchmark`, of sweeps and of several runs.

use super::super::super::schema::{BENCHMARK, CONVERGENCE, FAILURE_POLICY, MULTI_RUN, SCENARIO, SWEEP};
use super::super::shape::Limits;
use super::super::shape::Shape::*;
use super::Key;

const NOT_NEGATIVE: Limits = Limits::NOT_NEGATIVE;
const POSITIVE: Limits = Limits::POSITIVE;

pub(super) const IN_ENVELOPE: &[Key] = &[
    (
        "schema_version",
        OneOf(&[Exactly(&["2.0"]), Just(2.0)]),
        "Version of the format: \"2.0\".",
    ),
    (
        "benchmark",
        Section(&BENCHMARK),
        "What runs: model, endpoint, dataset and phases.",
    ),
    (
        "random_seed",
        Whole(0),
        "Root of every random stream: prompts, arrivals, cancellations. Drawn and recorded if absent.",
    ),
    (
        "sweep",
        Section(&SWEEP),
        "Runs the benchmark once for each variation of some of its values.",
    ),
    ("multi_run", Section(&MULTI_RUN), "Runs every variation several times."),
    ("variables", FreeMap, "Names for templates, as in \"{{ users * 2 }}\"."),
    (
        "no_sweep_table",
        Boolean,
        "Hides the line that each finished cell shows on the console.",
    ),
];

pub(super) const IN_SWEEP: &[Key] = &[
    (
        "type",
        Exactly(&["grid", "zip", "scenarios"]),
        "grid: every combination. zip: first values together, then second ones. scenarios: named sets.",
    ),
    (
        "parameters",
        ListMap,
        "Lists of values by path, as in phases.profiling.concurrency: [1, 2, 4]. For grid and zip.",
    ),
    ("runs", List(&Section(&SCENARIO)), "The scenarios. For type scenarios."),
    (
        "cooldown_seconds",
        Duration(NOT_NEGATIVE),
        "Rest between one variation and the next.",
    ),
    (
        "iteration_order",
        Words(&["repeated", "independent"]),
        "repeated: all variations once, then again. independent: all runs of one, then of the next.",
    ),
    (
        "same_seed",
        Boolean,
        "Whether all variations have the same seed, instead of one of their own.",
    ),
    (
        "failure_policy",
        Section(&FAILURE_POLICY),
        "When the cells that are left are not run any more.",
    ),
];

pub(super) const IN_SCENARIO: &[Key] = &[
    ("name", Text, "Name of the scenario and of its directory."),
    (
        "benchmark",
        Section(&BENCHMARK),
        "Laid over the base: mappings merge by key, named lists by name.",
    ),
    ("values", FreeMap, "Values by path, as in a grid, one each."),
    ("variables", FreeMap, "Laid over the variables of the file."),
];

pub(super) const IN_FAILURE_POLICY: &[Key] = &[
    (
        "on_child_failure",
        Words(&["continue", "abort"]),
        "abort: no cell starts after one has failed.",
    ),
    ("max_failures", Whole(1), "Failed cells after which no other starts."),
];

pub(super) const IN_MULTI_RUN: &[Key] = &[
    ("num_runs", Whole(1), "How often each variation runs, 1 to 10."),
    (
        "cooldown_seconds",
        Duration(NOT_NEGATIVE),
        "Rest between one run and the next.",
    ),
    (
        "confidence_level",
        Number(POSITIVE.up_to(1.0)),
        "Confidence of the intervals, above 0 and below 1; 0.95 by default.",
    ),
    (
        "set_consistent_seed",
        Boolean,
        "Whether runs without a written seed share a fixed one; true by default.",
    ),
    (
        "vary_seed_per_trial",
        Boolean,
        "Whether every run draws prompts and arrivals of its own.",
    ),
    (
        "disable_warmup_after_first",
        Boolean,
        "Whether runs after the first leave their warmup out; true by default.",
    ),
    (
        "convergence",
        Section(&CONVERGENCE),
        "Runs a variation no more once its runs agree.",
    ),
    (
        "failure_policy",
        Section(&FAILURE_POLICY),
        "When the cells that are left are not run any more.",
    ),
];

pub(super) const IN_CONVERGENCE: &[Key] = &[
    (
        "metric",
        Text,
        "Metric of the run's summary that the runs must agree in, such as request_latency.",
    ),
    (
        "stat",
        Words(&["avg", "p50", "p90", "p95", "p99", "min", "max"]),
        "Its statistic; avg by default. Not for mode distribution.",
    ),
    (
        "mode",
        Words(&["ci_width", "cv", "distribution"]),
        "ci_width: interval over mean. cv: deviation over mean. distribution: the latest run's requests against earlier ones.",
    ),
    (
        "threshold",
        Number(NOT_NEGATIVE.up_to(1.0)),
        "Largest ci_width (0.1 by default) or cv (0.05), or smallest p-value of distribution (0.05).",
    ),
    (
        "min_runs",
        Whole(2),
        "Fewest runs with the figure; 2 by default, num_runs at most.",
    ),
];
