//! `/metrics`: what was really served, in the text format of Prometheus and under the names that vLLM uses.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::ledger::Counters;
use crate::observed::{BOUNDS, Ended, Observed, Times};

/// Requests at once that would fill the cache, if this server had one.
const CACHE_SLOTS: u64 = 32;
/// The label of every series: the server takes requests for any model, so it does not tell them apart.
const MODEL: &str = "model_name=\"mock-model\"";

/// The page.
pub(crate) fn page(counters: &Counters, observed: &Observed) -> String {
    let mut out = String::with_capacity(8 * 1024);
    let running = counters.in_flight;
    let single = [
        (
            "vllm:num_requests_running",
            "gauge",
            "Number of requests in model execution batches.",
            running as f64,
        ),
        // Every request is served at once, however many there are.
        ("vllm:num_requests_waiting", "gauge", "Number of requests waiting.", 0.0),
        (
            "vllm:kv_cache_usage_perc",
            "gauge",
            "KV-cache usage. 1 means 100 percent usage.",
            running.min(CACHE_SLOTS) as f64 / CACHE_SLOTS as f64,
        ),
        (
            "vllm:prompt_tokens_total",
            "counter",
            "Number of prefill tokens processed.",
            observed.prompt_tokens.load(Ordering::Relaxed) as f64,
        ),
        (
            "vllm:generation_tokens_total",
            "counter",
            "Number of generation tokens processed.",
            counters.tokens_sent as f64,
        ),
    ];
    for (name, kind, help, value) in single {
        head(&mut out, name, kind, help);
        line(&mut out, format_args!("{name}{{{MODEL}}} {value:?}"));
    }
    let name = "vllm:request_success_total";
    head(&mut out, name, "counter", "Count of successfully processed requests.");
    for (how, word) in Ended::ALL {
        let count = observed.count(how) as f64;
        line(
            &mut out,
            format_args!("{name}{{finished_reason=\"{word}\",{MODEL}}} {count:?}"),
        );
    }
    histogram(
        &mut out,
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        &observed.first_token,
    );
    histogram(
        &mut out,
        "vllm:e2e_request_latency_seconds",
        "Histogram of e2e request latency in seconds.",
        &observed.life,
    );
    let name = "vllm:cache_config_info";
    head(&mut out, name, "gauge", "Information of the LLMEngine CacheConfig");
    line(
        &mut out,
        format_args!("{name}{{block_size=\"16\",cache_dtype=\"auto\"}} 1.0"),
    );
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP {name} {help}"));
    line(out, format_args!("# TYPE {name} {kind}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all");
}

fn histogram(out: &mut String, name: &str, help: &str, times: &Times) {
    let (counts, sum_ns) = times.read();
    head(out, name, "histogram", help);
    let bounds = BOUNDS.iter().map(|&(_, text)| text).chain(["+Inf"]);
    for (bound, count) in bounds.zip(counts) {
        line(
            out,
            format_args!("{name}_bucket{{le=\"{bound}\",{MODEL}}} {:?}", count as f64),
        );
    }
    line(out, format_args!("{name}_sum{{{MODEL}}} {:?}", sum_ns as f64 / 1e9));
    let all = counts[BOUNDS.len()] as f64;
    line(out, format_args!("{name}_count{{{MODEL}}} {all:?}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_was_counted() {
        let observed = Observed::default();
        observed.prompt(12);
        observed.first_token(30_000_000);
        observed.ended(Ended::Length, 120_000_000);
        observed.ended(Ended::Abort, 1);
        let counters = Counters {
            in_flight: 8,
            tokens_sent: 16,
            ..Counters::default()
        };
        let page = page(&counters, &observed);
        for line in [
            "vllm:num_requests_running{model_name=\"mock-model\"} 8.0",
            "vllm:kv_cache_usage_perc{model_name=\"mock-model\"} 0.25",
            "vllm:prompt_tokens_total{model_name=\"mock-model\"} 12.0",
            "vllm:generation_tokens_total{model_name=\"mock-model\"} 16.0",
            "vllm:request_success_total{finished_reason=\"length\",model_name=\"mock-model\"} 1.0",
            "vllm:request_success_total{finished_reason=\"abort\",model_name=\"mock-model\"} 1.0",
            "# TYPE vllm:time_to_first_token_seconds histogram",
            "vllm:time_to_first_token_seconds_bucket{le=\"0.04\",model_name=\"mock-model\"} 1.0",
            "vllm:e2e_request_latency_seconds_sum{model_name=\"mock-model\"} 0.12",
            "vllm:e2e_request_latency_seconds_count{model_name=\"mock-model\"} 1.0",
        ] {
            assert!(page.lines().any(|found| found == line), "no {line} in\n{page}");
        }
    }
}
