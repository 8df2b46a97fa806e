//! Probes for readiness: where they go and what they ask.

use super::render::{RenderError, probe_body};
use super::{ModelPlan, ProbeTarget, ReadinessPlan, Target};
use crate::config::Config;
use crate::units::Nanos;

/// The prompt of a probe: one token, and hardly ever in anybody's cache.
const PROMPT: &str = "Lo";

/// Every target with every model that may be asked for, if the config waits.
///
/// # Errors
/// A template cannot make a body for a probe.
pub(super) fn plan(
    config: &Config,
    models: &ModelPlan,
    targets: &[Target],
) -> Result<Option<ReadinessPlan>, RenderError> {
    let endpoint = &config.endpoint;
    let wait = endpoint.wait_for_model;
    if !wait.is_on() {
        return Ok(None);
    }
    let span = |seconds: f64| Nanos::from_secs_f64(seconds).max(Nanos(1));
    let kind = endpoint.kind.unwrap_or_default();
    let legacy = endpoint.use_legacy_max_tokens.unwrap_or(false);
    let template = endpoint.template.as_ref();
    let probe = |target: &Target, model: &str| -> Result<ProbeTarget, RenderError> {
        let base = base_path(&target.path, kind.path());
        Ok(ProbeTarget {
            model: model.to_owned(),
            origin: target.origin.clone(),
            base_url: format!("{}{}", target.origin, if base.is_empty() { "/" } else { base }),
            models_url: format!("{}{base}/v1/models", target.origin),
            inference_url: target.url.clone(),
            body: probe_body(kind, model, legacy, template, PROMPT)?,
        })
    };
    let asked_for = models.asked_for();
    let probes = targets
        .iter()
        .flat_map(|target| asked_for.iter().map(move |model| probe(target, model)));
    let targets = probes.collect::<Result<_, _>>()?;
    Ok(Some(ReadinessPlan {
        timeout: span(wait.timeout_s.unwrap_or_default()),
        interval: span(wait.interval_s()),
        mode: wait.mode.unwrap_or_default(),
        targets,
    }))
}

/// What stands in front of the API in a path, so that other routes of the server can be found. A path that is not that of the API says nothing of
/// where they are, so the origin is asked. An API without a path of its own (`api` is empty) is such a case.
fn base_path<'a>(path: &'a str, api: &str) -> &'a str {
    let path = path.split('?').next().unwrap_or_default();
    path.strip_suffix(api).filter(|_| !api.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_routes_are_looked_for_beside_the_api() {
        let chat = "/v1/chat/completions";
        assert_eq!(base_path("/v1/chat/completions", chat), "");
        assert_eq!(base_path("/proxy/a/v1/chat/completions?k=v", chat), "/proxy/a");
        assert_eq!(base_path("/generate", chat), "");
        assert_eq!(base_path("/proxy/rerank", "/rerank"), "/proxy");
        assert_eq!(base_path("/custom/api", ""), "");
    }
}
