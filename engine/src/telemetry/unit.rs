//! The unit of a server's figure. The format has no field for it: it is guessed from what the server writes.

/// Units that help texts name behind "in", and names carry as their last word.
const NAMED: [(&str, &str); 14] = [
    ("seconds", "seconds"),
    ("milliseconds", "milliseconds"),
    ("ms", "milliseconds"),
    ("microseconds", "microseconds"),
    ("nanoseconds", "nanoseconds"),
    ("bytes", "bytes"),
    ("tokens", "tokens"),
    ("requests", "requests"),
    ("blocks", "blocks"),
    ("ratio", "ratio"),
    ("percent", "percent"),
    ("celsius", "celsius"),
    ("joules", "joules"),
    ("watts", "watts"),
];

/// Things that help texts count.
const COUNTED: [&str; 3] = ["tokens", "requests", "blocks"];

/// The unit of the family `name`; `None` if nothing tells it.
pub(super) fn of(name: &str, help: &str) -> Option<&'static str> {
    // It carries labels, and its value is always 1.
    if name.ends_with("_info") {
        return None;
    }
    let help = help.to_ascii_lowercase();
    if help.contains("1 means 100 percent") {
        return Some("ratio");
    }
    let words: Vec<&str> = help
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let named = |word: &str| NAMED.iter().find(|(known, _)| *known == word).map(|&(_, unit)| unit);
    let in_unit = words
        .windows(2)
        .filter(|pair| pair[0] == "in")
        .find_map(|pair| named(pair[1]));
    let suffix = || named(name.rsplit(['_', ':']).next().unwrap_or_default());
    let counts = words.iter().any(|&word| word == "number" || word == "count");
    let counted = || {
        let what = words
            .iter()
            .find_map(|word| COUNTED.iter().find(|known| **known == *word).copied());
        counts.then(|| what.unwrap_or("count"))
    };
    in_unit.or_else(suffix).or_else(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_the_help_text_and_then_from_the_name() {
        for (name, help, unit) in [
            (
                "v:e2e_request_latency_seconds",
                "Histogram of e2e request latency in seconds.",
                Some("seconds"),
            ),
            (
                "v:generation_tokens",
                "Number of generation tokens processed.",
                Some("tokens"),
            ),
            (
                "v:num_requests_running",
                "Number of requests in model execution batches.",
                Some("requests"),
            ),
            (
                "v:request_success",
                "Count of successfully processed requests.",
                Some("requests"),
            ),
            (
                "v:kv_cache_usage_perc",
                "KV-cache usage. 1 means 100 percent usage.",
                Some("ratio"),
            ),
            (
                "v:num_preemptions",
                "Cumulative number of preemption from the engine.",
                Some("count"),
            ),
            ("v:latency_ms", "", Some("milliseconds")),
            ("v:cache_config_info", "Information of the LLMEngine CacheConfig", None),
            ("v:temperature", "How warm it is.", None),
        ] {
            assert_eq!(of(name, help), unit, "{name}");
        }
    }
}
