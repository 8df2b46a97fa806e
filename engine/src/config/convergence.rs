//! `multi_run.convergence`: when the trials of a variation agree, so that no more of them run.

use super::decode::{Bounds, Field};
use super::diagnostic::quote;
use super::schema::{Schema, nearest};
use super::slos::{OF_TOKENS, SHORT, SLO_METRICS, UNMEASURED};
use super::suite::Variation;

pub(super) static CONVERGENCE: Schema = Schema {
    place: "multi_run.convergence",
    keys: &["metric", "stat", "mode", "threshold", "min_runs"],
    refused: &[],
};

/// Fewest trials that can agree.
const MIN_RUNS: u32 = 2;

/// The rule, defaults filled.
#[derive(Debug, Clone, PartialEq)]
pub struct Convergence {
    /// A metric of the summary of a run.
    pub metric: &'static str,
    /// Its statistic, as artifacts call it. Not looked at by [`ConvergenceMode::Distribution`].
    pub stat: &'static str,
    /// How trials are compared.
    pub mode: ConvergenceMode,
    /// From 0 to 1: what the comparison must not exceed; of [`ConvergenceMode::Distribution`] what it must reach.
    pub threshold: f64,
    /// Trials with the figure that it takes, from 2.
    pub min_runs: u32,
}

/// How trials are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvergenceMode {
    /// Width of the confidence interval of the mean, relative to the mean.
    CiWidth,
    /// Standard deviation relative to the mean.
    Cv,
    /// The requests of the latest trial against those of the earlier ones: the p-value of the test of Kolmogorov and Smirnov.
    Distribution,
}

const MODES: [(&str, ConvergenceMode); 3] = [
    ("ci_width", ConvergenceMode::CiWidth),
    ("cv", ConvergenceMode::Cv),
    ("distribution", ConvergenceMode::Distribution),
];

impl ConvergenceMode {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        let (word, _) = MODES
            .iter()
            .find(|(_, mode)| *mode == self)
            .expect("every mode has a word");
        word
    }

    fn threshold(self) -> f64 {
        match self {
            Self::CiWidth => 0.10,
            Self::Cv | Self::Distribution => 0.05,
        }
    }
}

const STATISTICS: [(&str, &str); 7] = [
    ("avg", "avg"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("min", "min"),
    ("max", "max"),
];

/// What it takes for a run to have a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but requests.
    Nothing,
    /// Answers that stream.
    Streams,
    /// Answers made of tokens.
    Tokens,
    /// Service levels.
    Levels,
}

use Needs::{Levels, Nothing, Streams, Tokens};

/// A figure of a run that no single request has.
#[derive(Debug, Clone, Copy)]
pub struct RunMetric {
    /// Key in artifacts.
    pub tag: &'static str,
    /// What it takes.
    pub needs: Needs,
    /// Whether a run has one value of it, and so no statistic but `avg`.
    pub is_single: bool,
}

const fn single(tag: &'static str, needs: Needs) -> RunMetric {
    RunMetric {
        tag,
        needs,
        is_single: true,
    }
}

const fn spread(tag: &'static str, needs: Needs) -> RunMetric {
    RunMetric {
        tag,
        needs,
        is_single: false,
    }
}

/// Figures of a run beside those of its requests ([`SLO_METRICS`]). A test of the report holds both against its table.
pub const RUN_METRICS: &[RunMetric] = &[
    single("request_throughput", Nothing),
    single("request_count", Nothing),
    single("output_token_throughput", Tokens),
    single("goodput", Levels),
    single("good_request_count", Levels),
    single("good_request_fraction", Levels),
    spread("inter_chunk_latency", Streams),
    single("total_output_tokens", Tokens),
    single("total_reasoning_tokens", Tokens),
    single("benchmark_duration", Nothing),
    single("total_isl", Nothing),
    single("total_osl", Tokens),
    single("error_request_count", Nothing),
    spread("error_isl", Nothing),
    single("total_error_isl", Nothing),
    single("osl_mismatch_count", Tokens),
    single("usage_discrepancy_count", Nothing),
    single("total_usage_prompt_tokens", Nothing),
    single("total_usage_prompt_cache_read_tokens", Nothing),
    single("overall_usage_prompt_cache_read_pct", Nothing),
    single("total_usage_completion_tokens", Tokens),
    single("total_usage_reasoning_tokens", Tokens),
    single("total_usage_total_tokens", Nothing),
    single("context_overflow_count", Nothing),
    single("completed_request_count", Nothing),
    single("request_error_rate", Nothing),
    single("input_token_throughput", Nothing),
    single("total_token_throughput", Nothing),
    spread("adj_request_latency", Nothing),
    spread("adj_time_to_first_token", Streams),
    spread("adj_decode_duration", Streams),
    spread("adj_full_decode_duration", Streams),
    spread("adj_inter_token_latency", Streams),
    spread("adj_full_response_inter_token_latency", Streams),
    spread("effective_concurrency", Nothing),
    spread("effective_prefill_throughput", Streams),
    spread("effective_decode_concurrency", Streams),
    spread("effective_prefill_concurrency", Streams),
    spread("effective_total_throughput", Streams),
    spread("effective_prefill_throughput_per_user", Streams),
    spread("active_prefill_throughput", Streams),
    spread("active_prefill_throughput_per_user", Streams),
    spread("active_total_throughput", Streams),
    spread("credit_to_start_latency", Nothing),
    spread("adj_effective_latency", Nothing),
    single("e2e_normalized_interactivity_p75", Tokens),
    single("e2e_normalized_interactivity_p90", Tokens),
    single("replay_sched_lag_p50", Nothing),
    single("replay_sched_lag_p90", Nothing),
    single("replay_sched_lag_p99", Nothing),
    single("replay_sched_degraded", Nothing),
];

/// Metrics of requests that the lines of requests do not have.
pub const NOT_IN_LINES: [&str; 1] = ["effective_latency"];

/// Reads the rule. `num_runs` is the most trials of a variation.
pub(super) fn decode(field: &Field<'_>, num_runs: u32) -> Option<Convergence> {
    let section = field.section(&CONVERGENCE)?;
    let mode = match section.field("mode") {
        Some(field) => field.word(&MODES, &[]),
        None => Some(ConvergenceMode::CiWidth),
    };
    let metric = section
        .required("metric", "name what must converge, as in metric: request_latency")
        .and_then(|field| metric(&field, mode));
    let written = section.field("stat");
    let stat = match &written {
        Some(field) => field.word(&STATISTICS, &[]),
        None => Some("avg"),
    };
    if let (Some(field), Some(stat), Some(metric)) = (&written, stat, metric)
        && stat != "avg"
    {
        check_stat(field, stat, metric, mode);
    }
    let threshold = section.field("threshold").map(|field| {
        field.float(Bounds {
            max: 1.0,
            ..Bounds::NOT_NEGATIVE
        })
    });
    let min_runs = section.field("min_runs");
    let least = match &min_runs {
        Some(field) => field.integer(MIN_RUNS.into(), u32::MAX.into()),
        None => Some(MIN_RUNS),
    };
    if let Some(least) = least.filter(|&least| least > num_runs) {
        match &min_runs {
            Some(field) => field.report(format!(
                "found {least}, and there are {num_runs} runs at most; allowed: at most `num_runs`"
            )),
            None => field.report(format!(
                "it takes {MIN_RUNS} runs to compare them, and `num_runs` is {num_runs}; raise it, or remove the key"
            )),
        }
    }
    let mode = mode?;
    Some(Convergence {
        metric: metric?,
        stat: stat?,
        mode,
        threshold: threshold.unwrap_or(Some(mode.threshold()))?,
        min_runs: least?,
    })
}

fn check_stat(field: &Field<'_>, stat: &str, metric: &str, mode: Option<ConvergenceMode>) {
    if mode == Some(ConvergenceMode::Distribution) {
        field.report("mode distribution compares all requests, not a statistic of them; remove the key");
    } else if run_metric(metric).is_some_and(|metric| metric.is_single) {
        field.report(format!(
            "found `{stat}`, and `{metric}` is one figure of a run; allowed: avg, which is that figure"
        ));
    }
}

fn run_metric(name: &str) -> Option<&'static RunMetric> {
    RUN_METRICS.iter().find(|metric| metric.tag == name)
}

fn metric(field: &Field<'_>, mode: Option<ConvergenceMode>) -> Option<&'static str> {
    let name = field.non_empty_text()?;
    let of_requests = SLO_METRICS.iter().map(|(metric, _)| *metric);
    if let Some(metric) = of_requests.clone().find(|metric| *metric == name) {
        if mode == Some(ConvergenceMode::Distribution) && NOT_IN_LINES.contains(&metric) {
            field.report(format!(
                "mode distribution compares the lines of requests, which do not have `{metric}`; choose another metric, or another mode"
            ));
            return None;
        }
        return Some(metric);
    }
    if let Some(metric) = run_metric(name) {
        if mode == Some(ConvergenceMode::Distribution) {
            field.report(format!(
                "mode distribution compares requests, and `{name}` is a figure of a whole run; choose a metric of requests, such as \
                 request_latency, or another mode"
            ));
            return None;
        }
        return Some(metric.tag);
    }
    if UNMEASURED.contains(&name) {
        field.refuse(&format!("the metric `{name}`"), "choose one of the run's summary");
        return None;
    }
    let all = of_requests.chain(RUN_METRICS.iter().map(|metric| metric.tag));
    let short = SHORT.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
    let near = short.map(|(_, metric)| *metric).or_else(|| nearest(name, all));
    let advice = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    field.mistake(&format!(
        "a metric of the run's summary, such as request_latency, time_to_first_token or request_throughput{advice}"
    ));
    None
}

/// Reports a metric that the runs of a variation cannot have. `multi_run` is the section around the rule.
pub(super) fn check(rule: &Convergence, multi_run: &Field<'_>, variations: &[Variation]) {
    let Some(node) = multi_run.node.get("convergence").and_then(|rule| rule.get("metric")) else {
        return;
    };
    let field = Field {
        node,
        path: format!("{}.convergence.metric", multi_run.path),
        sink: multi_run.sink,
    };
    let lacking = |variation: &&Variation| why_not(rule, variation).is_some();
    let Some(first) = variations.iter().find(lacking) else {
        return;
    };
    let why = why_not(rule, first).expect("that is what it was found by");
    let of = if variations.iter().all(|variation| lacking(&variation)) {
        String::new()
    } else {
        format!(" (in the variation {})", quote(&first.label))
    };
    field.report(format!("{why}{of}"));
}

/// Why no run of a variation can have what is compared; `None` if it can.
fn why_not(rule: &Convergence, variation: &Variation) -> Option<String> {
    let config = &variation.config;
    let (kind, name) = (config.endpoint.kind.unwrap_or_default(), rule.metric);
    if rule.mode == ConvergenceMode::Distribution && config.artifacts.records == Some(false) {
        return Some(
            "mode distribution compares the lines of requests, and artifacts.records is false; remove that, or choose another mode".into(),
        );
    }
    match needs(name) {
        Streams | Tokens if !kind.makes_tokens() => Some(format!(
            "`{name}` is measured in answers made of tokens, and the endpoint type {} has none; choose another metric",
            kind.as_str()
        )),
        Streams if !config.endpoint.streaming.unwrap_or(false) => Some(format!(
            "`{name}` is measured in streams, and the endpoint does not stream; set endpoint.streaming: true, or choose another metric"
        )),
        Levels if config.slos.is_empty() => Some(format!(
            "`{name}` counts good requests, and there are no `slos` that they could meet; write some, or choose another metric"
        )),
        _ => None,
    }
}

fn needs(name: &str) -> Needs {
    if let Some(metric) = run_metric(name) {
        return metric.needs;
    }
    match SLO_METRICS.iter().find(|(metric, _)| *metric == name) {
        Some((_, true)) => Streams,
        _ if OF_TOKENS.contains(&name) => Tokens,
        _ => Nothing,
    }
}
