//! The table of metrics: every figure that a report can hold, with its unit, its formula and its place on the console.
//!
//! Tags, headers and units are those of the peer, so that its readers load our artifacts; `docs/metrics.md` says the same in prose.

use super::curve::{Curve, Over, Reading, Stage};
use super::formula;
use super::rows::Row;
use super::totals::Totals;
use crate::plan::Slo;
use crate::record::{Better, Criterion, Family, Judge, RecordView};

/// The unit of a metric in artifacts, and how many internal units of a formula (nanoseconds, bytes, tokens) make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, kept as nanoseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Units of 1024 bytes, kept as bytes.
    Kilobytes,
    /// Tokens.
    Tokens,
    /// Tokens per second over the whole server.
    TokensPerSecond,
    /// Tokens per second as one user sees them.
    TokensPerSecondPerUser,
    /// Requests.
    Requests,
    /// Requests per second.
    RequestsPerSecond,
    /// A plain count.
    Count,
    /// A fraction.
    Ratio,
    /// Percent.
    Percent,
}

impl Unit {
    /// The unit's name in artifacts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "sec",
            Self::Kilobytes => "KB",
            Self::Tokens => "tokens",
            Self::TokensPerSecond => "tokens/sec",
            Self::TokensPerSecondPerUser => "tokens/sec/user",
            Self::Requests => "requests",
            Self::RequestsPerSecond => "requests/sec",
            Self::Count => "count",
            Self::Ratio => "ratio",
            Self::Percent => "%",
        }
    }

    /// Internal units in one exported unit.
    pub const fn divisor(self) -> f64 {
        match self {
            Self::Milliseconds => 1e6,
            Self::Kilobytes => 1024.0,
            _ => 1.0,
        }
    }
}

/// Where a metric stands on the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Figures from the intended start, and figures over the whole window.
    Effective,
    /// Figures over the time in which something was going on.
    Active,
    /// The server's own token counts.
    Usage,
    /// The main table.
    Main,
    /// How requests went over the wire.
    Trace,
}

/// A formula over one successful request, in internal units, for both places where requests are stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formula {
    pub(super) of_row: fn(&Row<'_>) -> Option<f64>,
    of_record: fn(&RecordView<'_>) -> Option<f64>,
}

impl Formula {
    /// The value of one whole record.
    pub(crate) fn of_record(&self, record: &RecordView<'_>) -> Option<f64> {
        (self.of_record)(record)
    }
}

macro_rules! formula {
    ($name:ident) => {
        Formula {
            of_row: |row| formula::$name(row),
            of_record: |record| formula::$name(record),
        }
    };
}

/// What a metric is computed from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// One value per successful request.
    Record(Formula),
    /// All gaps between contents of all successful requests.
    Gaps,
    /// Input tokens of failed and cancelled requests.
    ErrorInput,
    /// Start minus issue of every request that was not cut.
    IssueDelay,
    /// The values of another metric plus one infinity per failed or cancelled request.
    Adjusted {
        /// Tag of the other metric.
        of: &'static str,
    },
    /// What was going on at once, weighted by time.
    Curve(Curve),
    /// One figure per scope.
    Scalar(fn(&Totals<'_>) -> Option<f64>),
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Key in artifacts.
    pub tag: &'static str,
    /// Name for people.
    pub header: &'static str,
    /// Unit in artifacts.
    pub unit: Unit,
    /// Console group; `None` keeps it off the console.
    pub group: Option<Group>,
    /// Place within the group, ascending.
    pub order: u16,
    /// Reported only when requests ask for an event stream.
    pub streaming_only: bool,
    pub(crate) kind: Kind,
    /// Written without a fraction in per-record exports.
    pub(crate) integer: bool,
    /// Whether the per-record export has it.
    pub(crate) per_record: bool,
    /// Which side of a service level is good.
    pub(super) better: Better,
    /// The histogram that stands in for it in runs without records.
    pub(super) family: Option<Family>,
    /// Whether slices of the run have it.
    pub(super) in_slices: bool,
}

/// Console place of metrics without a number of their own: after those that have one.
const UNNUMBERED: u16 = 50_000;
/// Error-adjusted twins come last.
const LAST: u16 = 60_000;

impl Metric {
    const fn new(tag: &'static str, header: &'static str, unit: Unit, kind: Kind) -> Self {
        Self {
            tag,
            header,
            unit,
            group: None,
            order: UNNUMBERED,
            streaming_only: false,
            kind,
            integer: matches!(unit, Unit::Tokens | Unit::Count | Unit::Ratio),
            per_record: matches!(kind, Kind::Record(_)),
            better: Better::Smaller,
            family: None,
            in_slices: true,
        }
    }

    const fn record(tag: &'static str, header: &'static str, unit: Unit, formula: Formula) -> Self {
        Self::new(tag, header, unit, Kind::Record(formula))
    }

    const fn adjusted(tag: &'static str, header: &'static str, of: &'static str) -> Self {
        Self::new(tag, header, Unit::Milliseconds, Kind::Adjusted { of }).main(LAST)
    }

    const fn scalar(
        tag: &'static str,
        header: &'static str,
        unit: Unit,
        value: fn(&Totals<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(tag, header, unit, Kind::Scalar(value))
    }

    const fn curve(
        tag: &'static str,
        header: &'static str,
        unit: Unit,
        stage: Stage,
        reading: Reading,
        over: Over,
    ) -> Self {
        let mut curve = Self::new(tag, header, unit, Kind::Curve(Curve { stage, reading, over }));
        curve.group = Some(match over {
            Over::Window => Group::Effective,
            Over::Active => Group::Active,
        });
        // Stages begin and end with the first content of a stream.
        curve.streaming_only = !matches!(stage, Stage::Flight);
        curve
    }

    const fn streaming(mut self) -> Self {
        self.streaming_only = true;
        self
    }

    const fn main(mut self, order: u16) -> Self {
        self.group = Some(Group::Main);
        self.order = order;
        self
    }

    const fn usage(mut self, order: u16) -> Self {
        self.group = Some(Group::Usage);
        self.order = order;
        self
    }

    const fn trace(mut self) -> Self {
        self.group = Some(Group::Trace);
        self
    }

    const fn effective(mut self, order: u16) -> Self {
        self.group = Some(Group::Effective);
        self.order = order;
        self
    }

    /// Kept out of the per-record export, as in the peer.
    const fn summary_only(mut self) -> Self {
        self.per_record = false;
        self
    }

    /// A figure of the run as a whole, as in the peer.
    const fn not_in_slices(mut self) -> Self {
        self.in_slices = false;
        self
    }

    const fn larger_is_better(mut self) -> Self {
        self.better = Better::Larger;
        self
    }

    const fn histogram(mut self, family: Family) -> Self {
        self.family = Some(family);
        self
    }
}

/// Request latency per output token: the base of the normalised interactivity figures, not exported itself.
pub(super) const E2E_NORMALIZED_LATENCY: Formula = formula!(e2e_normalized_latency);
/// 1 for a request whose output length missed what was asked for, else 0; not exported itself.
pub(super) const OSL_MISMATCH: Formula = formula!(osl_mismatch);
/// 1 for a request whose input the server counts otherwise than the dataset, else 0; not exported itself.
pub(super) const USAGE_DISCREPANCY: Formula = formula!(usage_discrepancy);

/// How late a request started; not exported itself.
pub(super) const SCHEDULE_OFFSET: Formula = formula!(schedule_offset);

use Unit::{
    Count, Kilobytes, Milliseconds, Percent, Ratio, Requests, RequestsPerSecond, Seconds, Tokens, TokensPerSecond,
    TokensPerSecondPerUser,
};

/// Every metric, in the order of artifacts.
#[rustfmt::skip] // one metric per line group reads as the table it is
pub const METRICS: &[Metric] = &[
    Metric::scalar("request_throughput", "Request Throughput", RequestsPerSecond, |t| t.rate(t.successes())).main(900),
    Metric::record("request_latency", "Request Latency", Milliseconds, formula!(request_latency))
        .main(300).histogram(Family::RequestLatency),
    Metric::scalar("request_count", "Request Count", Requests, |t| t.successes()).main(1100),
    Metric::record("time_to_first_token", "Time to First Token", Milliseconds, formula!(time_to_first_token))
        .streaming().main(100).histogram(Family::TimeToFirstToken),
    Metric::record("time_to_second_token", "Time to Second Token", Milliseconds, formula!(time_to_second_token))
        .streaming().main(200).histogram(Family::TimeToSecondToken),
    Metric::record("inter_token_latency", "Inter Token Latency", Milliseconds, formula!(inter_token_latency))
        .streaming().main(400).histogram(Family::InterTokenLatency),
    Metric::scalar("output_token_throughput", "Output Token Throughput", TokensPerSecond, |t| t.rate(t.sum("output_sequence_length")))
        .main(800),
    Metric::record("output_token_throughput_per_user", "Output Token Throughput Per User", TokensPerSecondPerUser,
        formula!(output_token_throughput_per_user)).streaming().main(500).larger_is_better(),
    Metric::record("full_decode_duration", "Full Decode Duration", Milliseconds, formula!(full_decode_duration))
        .streaming().main(360).histogram(Family::FullDecodeDuration),
    Metric::record("full_response_inter_token_latency", "Full-Response Inter Token Latency", Milliseconds,
        formula!(full_response_inter_token_latency)).streaming().main(410),
    Metric::record("full_response_output_token_throughput_per_user", "Full-Response Output Token Throughput Per User",
        TokensPerSecondPerUser, formula!(full_response_output_token_throughput_per_user)).streaming().main(520).larger_is_better(),
    Metric::record("output_sequence_length", "Output Sequence Length", Tokens, formula!(output_sequence_length))
        .main(600).histogram(Family::OutputTokens).larger_is_better(),
    Metric::record("input_sequence_length", "Input Sequence Length", Tokens, formula!(input_sequence_length))
        .main(700).histogram(Family::InputTokens).larger_is_better(),
    Metric::scalar("goodput", "Goodput", RequestsPerSecond, |t| t.rate(t.good())).main(1000),
    Metric::scalar("good_request_count", "Good Request Count", Requests, |t| t.good()),
    Metric::record("output_token_count", "Output Token Count", Tokens, formula!(output_token_count)).larger_is_better(),
    Metric::record("reasoning_token_count", "Reasoning Token Count", Tokens, formula!(reasoning_token_count)).larger_is_better(),
    Metric::new("inter_chunk_latency", "Inter Chunk Latency", Milliseconds, Kind::Gaps)
        .streaming().histogram(Family::InterChunkLatency),
    Metric::scalar("total_output_tokens", "Total Output Tokens", Tokens, |t| t.sum("output_token_count")),
    Metric::scalar("total_reasoning_tokens", "Total Reasoning Tokens", Tokens, |t| t.sum("reasoning_token_count")),
    Metric::scalar("benchmark_duration", "Benchmark Duration", Seconds, |t| t.benchmark_duration()),
    Metric::scalar("total_isl", "Total Input Sequence Length", Tokens, |t| t.sum("input_sequence_length")),
    Metric::scalar("total_osl", "Total Output Sequence Length", Tokens, |t| t.sum("output_sequence_length")),
    Metric::scalar("error_request_count", "Error Request Count", Requests, |t| t.errors()).main(UNNUMBERED),
    Metric::new("error_isl", "Error Input Sequence Length", Tokens, Kind::ErrorInput),
    Metric::scalar("total_error_isl", "Total Error Input Sequence Length", Tokens, |t| t.sum("error_isl")),

    Metric::record("http_req_blocked", "HTTP Blocked", Milliseconds, formula!(nothing)).trace(),
    Metric::record("http_req_dns_lookup", "HTTP DNS Lookup", Milliseconds, formula!(nothing)).trace(),
    Metric::record("http_req_connecting", "HTTP Connecting", Milliseconds, formula!(connecting)).trace(),
    Metric::record("http_req_sending", "HTTP Sending", Milliseconds, formula!(sending)).trace(),
    Metric::record("http_req_waiting", "HTTP Waiting (TTFB)", Milliseconds, formula!(waiting)).trace(),
    Metric::record("http_req_receiving", "HTTP Receiving", Milliseconds, formula!(receiving)).trace(),
    Metric::record("http_req_connection_reused", "HTTP Connection Reused", Ratio, formula!(connection_reused)).trace(),
    Metric::record("http_req_data_sent", "HTTP Data Sent", Kilobytes, formula!(data_sent)).trace(),
    Metric::record("http_req_chunks_sent", "HTTP Chunks Sent", Count, formula!(one)).trace(),
    Metric::record("http_req_data_received", "HTTP Data Received", Kilobytes, formula!(data_received)).trace(),
    Metric::record("http_req_chunks_received", "HTTP Chunks Received", Count, formula!(chunks_received)).trace(),
    Metric::record("http_req_connection_overhead", "HTTP Connection Overhead", Milliseconds, formula!(connecting)).trace(),
    Metric::record("http_req_duration", "HTTP Duration (excl. conn)", Milliseconds, formula!(http_duration)).trace(),
    Metric::record("http_req_total", "HTTP Total Time", Milliseconds, formula!(http_total)).trace(),

    Metric::record("time_to_first_output_token", "Time to First Output Token", Milliseconds, formula!(time_to_first_output_token))
        .streaming().main(210),
    Metric::record("decode_duration", "Decode Duration", Milliseconds, formula!(decode_duration)).streaming().main(350),
    Metric::record("e2e_output_token_throughput", "E2E Output Token Throughput", TokensPerSecondPerUser,
        formula!(e2e_output_token_throughput)).main(510).larger_is_better(),
    Metric::record("prefill_throughput_per_user", "Prefill Throughput Per User", TokensPerSecondPerUser,
        formula!(prefill_throughput_per_user)).streaming().larger_is_better(),
    Metric::record("osl_mismatch_diff_pct", "OSL Mismatch Diff %", Percent, formula!(osl_mismatch_diff_pct)),
    Metric::scalar("osl_mismatch_count", "OSL Mismatch Count", Requests, |t| t.osl_mismatches()),

    Metric::record("usage_prompt_tokens_diff_pct", "Usage Prompt Diff %", Percent, formula!(usage_prompt_tokens_diff_pct)),
    Metric::scalar("usage_discrepancy_count", "Usage Discrepancy Count", Requests, |t| t.usage_discrepancies()),
    Metric::record("usage_prompt_tokens", "Usage Prompt Tokens", Tokens, formula!(usage_prompt_tokens)).usage(1000).larger_is_better(),
    Metric::record("usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", Tokens,
        formula!(usage_prompt_cache_read_tokens)).usage(1010).larger_is_better(),
    Metric::record("usage_completion_tokens", "Usage Completion Tokens", Tokens, formula!(output_sequence_length)).usage(1100).larger_is_better(),
    Metric::record("usage_reasoning_tokens", "Usage Reasoning Tokens", Tokens, formula!(usage_reasoning_tokens)).usage(1110).larger_is_better(),
    Metric::record("usage_total_tokens", "Usage Total Tokens", Tokens, formula!(usage_total_tokens)).usage(1200).larger_is_better(),
    Metric::scalar("total_usage_prompt_tokens", "Total Usage Prompt Tokens", Tokens, |t| t.sum("usage_prompt_tokens")).usage(2000),
    Metric::scalar("total_usage_prompt_cache_read_tokens", "Total Usage Prompt Cache Read Tokens", Tokens,
        |t| t.sum("usage_prompt_cache_read_tokens")).usage(2010),
    Metric::scalar("overall_usage_prompt_cache_read_pct", "Overall Usage Prompt Cache Read %", Percent,
        |t| t.cache_read_percent()).usage(2012),
    Metric::scalar("total_usage_completion_tokens", "Total Usage Completion Tokens", Tokens,
        |t| t.sum("usage_completion_tokens")).usage(2100),
    Metric::scalar("total_usage_reasoning_tokens", "Total Usage Reasoning Tokens", Tokens,
        |t| t.sum("usage_reasoning_tokens")).usage(2110),
    Metric::scalar("total_usage_total_tokens", "Total Usage Total Tokens", Tokens, |t| t.sum("usage_total_tokens")).usage(2200),

    Metric::scalar("context_overflow_count", "Context Overflow Count", Requests, |t| t.context_overflows()).main(UNNUMBERED),
    Metric::scalar("completed_request_count", "Completed Requests (Success + Error)", Requests, |t| t.completed()).main(1075),
    Metric::scalar("request_error_rate", "Request Error Rate", Percent, |t| t.error_rate()).main(1080),
    Metric::scalar("good_request_fraction", "GoodRequestFraction", Ratio, |t| t.good_fraction()),
    Metric::scalar("input_token_throughput", "Input Token Throughput", TokensPerSecond, |t| t.rate(t.sum("input_sequence_length")))
        .main(805),
    Metric::scalar("total_token_throughput", "Total Token Throughput", TokensPerSecond, |t| t.total_token_throughput()),

    Metric::adjusted("adj_request_latency", "Request Latency (error-adjusted)", "request_latency"),
    Metric::adjusted("adj_time_to_first_token", "Time to First Token (error-adjusted)", "time_to_first_token").streaming(),
    Metric::adjusted("adj_decode_duration", "Decode Duration (error-adjusted)", "decode_duration").streaming(),
    Metric::adjusted("adj_full_decode_duration", "Full Decode Duration (error-adjusted)", "full_decode_duration").streaming(),
    Metric::adjusted("adj_inter_token_latency", "Inter Token Latency (error-adjusted)", "inter_token_latency").streaming(),
    Metric::adjusted("adj_full_response_inter_token_latency", "Full-Response Inter Token Latency (error-adjusted)",
        "full_response_inter_token_latency").streaming(),

    Metric::curve("effective_concurrency", "Effective Concurrency", Requests, Stage::Flight, Reading::Requests, Over::Window),
    Metric::curve("effective_prefill_throughput", "Effective Prefill Throughput", TokensPerSecond,
        Stage::Prefill, Reading::Tokens, Over::Window),
    Metric::curve("effective_decode_concurrency", "Effective Decode Concurrency", Requests,
        Stage::Decode, Reading::Requests, Over::Window),
    Metric::curve("effective_prefill_concurrency", "Effective Prefill Concurrency", Requests,
        Stage::Prefill, Reading::Requests, Over::Window),
    Metric::curve("effective_total_throughput", "Effective Total Throughput", TokensPerSecond,
        Stage::PrefillOrDecode, Reading::Tokens, Over::Window),
    Metric::curve("effective_prefill_throughput_per_user", "Effective Prefill Throughput Per User", TokensPerSecondPerUser,
        Stage::Prefill, Reading::TokensPerUser, Over::Window),
    Metric::curve("active_prefill_throughput", "Active Prefill Throughput", TokensPerSecond,
        Stage::Prefill, Reading::Tokens, Over::Active),
    Metric::curve("active_prefill_throughput_per_user", "Active Prefill Throughput Per User", TokensPerSecondPerUser,
        Stage::Prefill, Reading::TokensPerUser, Over::Active),
    Metric::curve("active_total_throughput", "Active Total Throughput", TokensPerSecond,
        Stage::PrefillOrDecode, Reading::Tokens, Over::Active),

    Metric::new("credit_to_start_latency", "Credit-to-Start Latency", Milliseconds, Kind::IssueDelay).not_in_slices(),
    Metric::record("effective_latency", "Effective Latency (CO-aware)", Milliseconds, formula!(effective_latency))
        .effective(0).summary_only(),
    Metric::adjusted("adj_effective_latency", "Effective Latency (CO-aware) (error-adjusted)", "effective_latency").effective(1),
    Metric::scalar("e2e_normalized_interactivity_p75", "E2E Normalized Interactivity p75", TokensPerSecondPerUser,
        |t| t.normalized_interactivity(75)).not_in_slices(),
    Metric::scalar("e2e_normalized_interactivity_p90", "E2E Normalized Interactivity p90", TokensPerSecondPerUser,
        |t| t.normalized_interactivity(90)).not_in_slices(),
    Metric::scalar("replay_sched_lag_p50", "Replay Schedule Lag p50", Milliseconds, |t| t.replay_lag_ms(50)).not_in_slices(),
    Metric::scalar("replay_sched_lag_p90", "Replay Schedule Lag p90", Milliseconds, |t| t.replay_lag_ms(90)).not_in_slices(),
    Metric::scalar("replay_sched_lag_p99", "Replay Schedule Lag p99", Milliseconds, |t| t.replay_lag_ms(99)).not_in_slices(),
    Metric::scalar("replay_sched_degraded", "Replay Schedule Degraded", Count, |t| t.replay_is_degraded()).not_in_slices(),
];

/// The metric with this tag.
pub fn metric(tag: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.tag == tag)
}

/// The judge of a run; `None` if it has no service levels.
pub(crate) fn judge(slos: &[Slo]) -> Option<Judge> {
    let criterion = |slo: &Slo| {
        let metric = metric(slo.metric).expect("a test holds the names of the config against this table");
        let Kind::Record(formula) = metric.kind else {
            unreachable!("{} has no value per request", metric.tag)
        };
        Criterion {
            figure: formula.of_record,
            divisor: metric.unit.divisor(),
            better: metric.better,
            threshold: slo.threshold,
        }
    };
    Judge::new(slos.iter().map(criterion).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{METRICS_OF_NO_REQUEST, NOT_IN_LINES, Needs, RUN_METRICS, SLO_METRICS};

    #[test]
    fn service_levels_can_be_about_every_metric_of_a_request_and_no_other() {
        let ours: Vec<(&str, bool)> = METRICS
            .iter()
            .filter(|metric| matches!(metric.kind, Kind::Record(_)))
            .map(|metric| (metric.tag, metric.streaming_only))
            .collect();
        for one in SLO_METRICS {
            assert!(ours.contains(one), "{one:?} is in the config and not in the report");
        }
        for one in &ours {
            assert!(
                SLO_METRICS.contains(one),
                "{one:?} is in the report and not in the config"
            );
        }
        // What is refused for being no request's is known by name.
        for metric in METRICS {
            let of_a_scope = matches!(metric.kind, Kind::Scalar(_) | Kind::Curve(_));
            assert!(
                !of_a_scope || METRICS_OF_NO_REQUEST.contains(&metric.tag),
                "{}",
                metric.tag
            );
        }
    }

    #[test]
    fn runs_can_converge_in_every_metric_and_in_no_other() {
        for metric in METRICS {
            let of_a_request = matches!(metric.kind, Kind::Record(_));
            let known = RUN_METRICS.iter().find(|known| known.tag == metric.tag);
            assert_eq!(known.is_none(), of_a_request, "{}", metric.tag);
            if of_a_request {
                assert_eq!(!metric.per_record, NOT_IN_LINES.contains(&metric.tag), "{}", metric.tag);
                continue;
            }
            let known = known.expect("it is no metric of a request");
            assert_eq!(
                known.is_single,
                matches!(metric.kind, Kind::Scalar(_)),
                "{}",
                metric.tag
            );
            assert_eq!(known.needs == Needs::Streams, metric.streaming_only, "{}", metric.tag);
        }
        for known in RUN_METRICS {
            assert!(super::metric(known.tag).is_some(), "{}", known.tag);
        }
    }

    #[test]
    fn tags_are_unique_and_twins_have_an_original() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert!(
                METRICS[..at].iter().all(|other| other.tag != metric.tag),
                "{}",
                metric.tag
            );
            if let Kind::Adjusted { of } = metric.kind {
                let original = super::metric(of).expect("the original is in the table");
                assert_eq!(metric.tag, format!("adj_{of}"));
                assert_eq!(metric.header, format!("{} (error-adjusted)", original.header));
                assert_eq!(metric.streaming_only, original.streaming_only);
            }
        }
    }

    #[test]
    fn every_metric_is_documented_with_its_unit() {
        let document = include_str!("../../../docs/metrics.md");
        for metric in METRICS {
            let row = format!("| `{}` | {} |", metric.tag, metric.unit.name());
            let twin = matches!(metric.kind, Kind::Adjusted { .. }) && document.contains(&format!("`{}`", metric.tag));
            assert!(twin || document.contains(&row), "{row} is not in docs/metrics.md");
        }
    }
}
