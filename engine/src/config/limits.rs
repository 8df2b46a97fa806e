//! What a phase limits beside its concurrency, as written: prefills, ramps of limits, failures, and what moves a limit.

use super::adaptive::{self, AdaptiveScale, Judged, Surroundings};
use super::decode::{Bounds, Section};
use super::phases::PhaseType;
use super::ramp::{self, Ramp};

/// The further limits of a phase.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Most requests between their start and their first content.
    pub prefill_concurrency: Option<u32>,
    /// How the concurrency rises.
    pub concurrency_ramp: Option<Ramp>,
    /// How the prefill limit rises.
    pub prefill_ramp: Option<Ramp>,
    /// Share of failures, 0 to 1, above which the run ends.
    pub failed_request_threshold: Option<f64>,
    /// What moves a limit while the phase runs.
    pub adaptive: Option<AdaptiveScale>,
}

/// The limits of a phase with this load pattern, if it has no mistakes, and this concurrency, the default filled in.
pub(super) fn decode(
    section: &Section<'_>,
    load: Option<&PhaseType>,
    concurrency: Option<u32>,
    judged: Judged,
) -> Limits {
    let prefill = section.field("prefill_concurrency");
    let prefill_concurrency = prefill.as_ref().and_then(|field| field.integer(1, u32::MAX.into()));
    if let (Some(field), Some(prefill)) = (&prefill, prefill_concurrency) {
        if let Some(concurrency) = concurrency.filter(|&concurrency| prefill > concurrency) {
            let place = section
                .key_at("concurrency")
                .map_or("the default".to_owned(), |at| at.told());
            field.report(format!(
                "found {prefill}, which the concurrency of {concurrency} ({place}) never lets happen; allowed: at most {concurrency}"
            ));
        }
        if judged.streaming == Some(false) {
            field.report(
                "the end of a prefill is the first token of a stream, and the endpoint does not stream; set endpoint.streaming: true or \
                 remove the key",
            );
        }
    }
    let ramp = |key, limit: &'static str| {
        let field = section.field(key)?;
        let is_missing = section.field(limit).is_none() && !section.is_accounted_for(limit);
        // A closed loop without a number has a concurrency all the same.
        let has_default = limit == "concurrency" && concurrency.is_some();
        if is_missing && !has_default {
            field.report(format!("there is no `{limit}` to rise to; add it or remove the key"));
        }
        ramp::decode(&field)
    };
    let share = Bounds {
        max: 1.0,
        ..Bounds::NOT_NEGATIVE
    };
    Limits {
        prefill_concurrency,
        concurrency_ramp: ramp("concurrency_ramp", "concurrency"),
        prefill_ramp: ramp("prefill_ramp", "prefill_concurrency"),
        failed_request_threshold: section
            .field("failed_request_threshold")
            .and_then(|field| field.float(share)),
        adaptive: adaptive::decode(
            section,
            &Surroundings {
                load,
                concurrency,
                prefill: prefill_concurrency,
                judged,
            },
        ),
    }
}
