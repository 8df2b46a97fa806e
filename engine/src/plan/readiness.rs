//! Probes for readiness: where they go and what they ask.

use serde_json::json;

use super::target::API_PATH;
use super::{ProbeTarget, ReadinessPlan, Target};
use crate::config::Config;
use crate::units::Nanos;

/// The prompt of a probe: one token, and hardly ever in anybody's cache.
const PROMPT: &str = "Lo";

/// Every target with every model, if the config waits.
pub(super) fn plan(config: &Config, targets: &[Target]) -> Option<ReadinessPlan> {
    let endpoint = &config.endpoint;
    let wait = endpoint.wait_for_model;
    if !wait.is_on() {
        return None;
    }
    let span = |seconds: f64| Nanos::from_secs_f64(seconds).max(Nanos(1));
    let tokens_key = if endpoint.use_legacy_max_tokens.unwrap_or(false) {
        "max_tokens"
    } else {
        "max_completion_tokens"
    };
    let probe = |target: &Target, model: &String| {
        let base = base_path(&target.path);
        let body = json!({
            "model": model,
            "messages": [{ "role": "user", "content": PROMPT }],
            "stream": false,
            tokens_key: 1,
        });
        ProbeTarget {
            model: model.clone(),
            origin: target.origin.clone(),
            base_url: format!("{}{}", target.origin, if base.is_empty() { "/" } else { base }),
            models_url: format!("{}{base}/v1/models", target.origin),
            inference_url: target.url.clone(),
            body: body.to_string().into_bytes(),
        }
    };
    let probes = targets
        .iter()
        .flat_map(|target| config.models.iter().map(move |model| probe(target, model)));
    Some(ReadinessPlan {
        timeout: span(wait.timeout_s.unwrap_or_default()),
        interval: span(wait.interval_s()),
        mode: wait.mode.unwrap_or_default(),
        targets: probes.collect(),
    })
}

/// What stands in front of the API in a path, so that other routes of the server can be found. A path that is not that of the API says nothing of
/// where they are, so the origin is asked.
fn base_path(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    path.strip_suffix(API_PATH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_routes_are_looked_for_beside_the_api() {
        assert_eq!(base_path("/v1/chat/completions"), "");
        assert_eq!(base_path("/proxy/a/v1/chat/completions?k=v"), "/proxy/a");
        assert_eq!(base_path("/generate"), "");
    }
}
