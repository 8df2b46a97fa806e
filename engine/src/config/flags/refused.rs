//! Flags of the peer for things that ringload does not do. Each is refused by its name, with a reason or with what to do instead.

const SEARCH: &str = "searches over settings are not there: list the values with commas, as in --concurrency 1,8,64, or use a `sweep` in a config file";
const PUBLIC: &str = "data sets are not fetched: download it and name the file with --input-file";
const MEDIA: &str = "prompts are text";
const TRACE: &str = "records of traces are taken as they are";
const WEKA: &str = "it is about records of format weka_trace, which are not there";
const DISCOVERY: &str = "addresses are not searched for: name them with --server-metrics or --gpu-telemetry";
const LATENCY: &str = "the network's share is not measured";
const LOGGING: &str = "nothing logs more than it does: progress and warnings are on standard error";
const SCENARIO: &str = "write what it sets as flags or in a config file";
const REMOTE: &str = "results stay in the artifact directory";
const RECIPE: &str = "recipes of searches are not there: write service levels with --goodput, and a search for the highest load as `adaptive_scale` in a config file";
const AGENTIC: &str = "phases of type agentic_replay are not there";
const RETRY: &str =
    "requests are not kept from ending early: write it as --extra-inputs, as in --extra-inputs ignore_eos:true";

/// Names with the reason. A `*` at the end stands for any rest.
const REFUSED: &[(&str, &str)] = &[
    ("search-*", SEARCH),
    ("optimization-*", SEARCH),
    ("public-dataset", PUBLIC),
    ("hf-*", PUBLIC),
    ("image-*", MEDIA),
    ("audio-*", MEDIA),
    ("video-*", MEDIA),
    ("batch-size-image", MEDIA),
    ("batch-size-audio", MEDIA),
    ("prompt-corpus", "synthetic prompts have one corpus"),
    ("cache-bust*", "prompts are sent as they are"),
    ("use-think-time-only", WEKA),
    ("no-use-think-time-only", WEKA),
    ("allow-dataset-wrap", TRACE),
    ("no-allow-dataset-wrap", TRACE),
    ("open-loop-replay", TRACE),
    ("no-open-loop-replay", TRACE),
    ("server-metrics-discovery-*", DISCOVERY),
    ("gpu-telemetry-*", DISCOVERY),
    ("network-latency*", LATENCY),
    ("verbose", LOGGING),
    ("extra-verbose", LOGGING),
    ("scenario", SCENARIO),
    ("unsafe-override", SCENARIO),
    ("accuracy-*", "answers are measured, not judged"),
    ("otel-*", REMOTE),
    ("mlflow-*", REMOTE),
    ("wandb-*", REMOTE),
    ("force-min-tokens", RETRY),
    ("no-force-min-tokens", RETRY),
    ("uuid-and-strip", "messages are sent as they are"),
    ("workers-min", "--cores says how many threads send load"),
    ("zmq-*", "there are no worker processes to connect"),
    ("aws-*", "requests are not signed"),
    ("sagemaker-*", "the only transport is http"),
    ("auth-type", "requests are not signed"),
    (
        "template*",
        "write the template of bodies as --extra-inputs payload_template:TEXT with --endpoint-type template",
    ),
    ("agentic-*", AGENTIC),
    ("trajectory-*", AGENTIC),
    ("burst-phase-starts", AGENTIC),
    ("system-idle-gap-cap-seconds", AGENTIC),
    ("warmup-requests-per-lane", AGENTIC),
    ("bo-*", SEARCH),
    ("optuna-*", SEARCH),
    ("concurrency-max", RECIPE),
    ("concurrency-min", RECIPE),
    ("concurrency-steps", RECIPE),
    ("isl-max", RECIPE),
    ("isl-min", RECIPE),
    ("isl-steps", RECIPE),
    ("osl-max", RECIPE),
    ("osl-min", RECIPE),
    ("osl-steps", RECIPE),
    ("isl-osl-pairs", RECIPE),
    ("degradation-*", RECIPE),
    ("ttft-sla-ms", RECIPE),
    ("tpot-sla-ms", RECIPE),
    ("itl-sla-ms", RECIPE),
    ("e2e-sla-ms", RECIPE),
    ("error-rate-sla", RECIPE),
    ("slo-attainment-fraction", RECIPE),
    ("stream", REMOTE),
    ("gen-ai-provider", REMOTE),
    ("batch-size-video", MEDIA),
    ("dataset-filter", PUBLIC),
    ("mooncake-trace-to-hf-mapping", PUBLIC),
    ("weka-*", WEKA),
    ("trace-*", TRACE),
    ("max-context-length", TRACE),
    ("max-idle-gap-cap-seconds", TRACE),
    ("replay-speedup", TRACE),
    ("omit-kv-hints", TRACE),
    ("open-loop-strict", TRACE),
];

/// The refusal of a flag that the peer knows, as typed; `None` for flags that nobody knows.
pub fn refusal(typed: &str) -> Option<String> {
    let typed = typed.split('=').next().unwrap_or(typed);
    let name = match typed {
        "-v" => "verbose",
        "-vv" => "extra-verbose",
        _ => typed.strip_prefix("--")?,
    };
    let is_it = |known: &str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == known,
    };
    let (_, reason) = REFUSED.iter().find(|(known, _)| is_it(known))?;
    Some(format!("{typed}: not supported by ringload: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn a_flag_works_or_is_refused_and_never_both() {
        for spelling in table::all().flat_map(table::Flag::spellings) {
            assert_eq!(refusal(&spelling), None, "{spelling}");
        }
    }

    #[test]
    fn names_and_beginnings_of_names_are_refused_with_a_reason() {
        for (typed, reason) in [
            ("--search-space", "list the values with commas"),
            ("--scenario=a", "--scenario: not supported by ringload"),
            ("-v", "-v: not supported by ringload"),
            ("--image-width-mean", "prompts are text"),
        ] {
            let text = refusal(typed);
            assert!(
                text.as_ref().is_some_and(|text| text.contains(reason)),
                "{typed}: {text:?}"
            );
        }
        assert_eq!(refusal("--concurency"), None);
        assert_eq!(refusal("search-space"), None);
    }
}
