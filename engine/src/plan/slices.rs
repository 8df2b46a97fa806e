//! `artifacts.slice_duration` against the rest of the plan: what can be known before the load.

use super::{Arrival, PhaseKind, PhasePlan, SLICES_MAX};
use crate::config::{Config, Diagnostics};
use crate::units::Nanos;

/// Of a run without records.
const OF_SERVER_ALONE: &str = "artifacts.slice_duration: artifacts.records is false, so nothing is kept of single requests and \
                               profile_export_aiperf_timeslices is not written; only server metrics have slices";

/// A word of advice, if there is some.
///
/// # Errors
/// If the phases are sure to last too long for slices this short: nobody should learn that after the load.
pub(super) fn check(config: &Config, phases: &[PhasePlan]) -> Result<Option<String>, Diagnostics> {
    let artifacts = &config.artifacts;
    let (Some(length_s), Some(at)) = (artifacts.slice_duration_s, artifacts.slice_at) else {
        return Ok(None);
    };
    let phases_s: f64 = phases.iter().filter_map(certain_length).map(Nanos::as_secs_f64).sum();
    let count = phases_s / length_s;
    if count > SLICES_MAX as f64 {
        let message = format!(
            "the phases last {phases_s} s, which makes {count:.0} slices, and at most {SLICES_MAX} are written; write at least {}",
            shortest(phases_s)
        );
        return Err(config.mistake(at, "benchmark.artifacts.slice_duration", message));
    }
    Ok((artifacts.records == Some(false)).then(|| OF_SERVER_ALONE.to_owned()))
}

/// How long a phase is measured, if only time ends it.
fn certain_length(phase: &PhasePlan) -> Option<Nanos> {
    let only_time_ends_it = phase.kind == PhaseKind::Profiling
        && phase.stop.requests.is_none()
        && phase.stop.sessions.is_none()
        && phase.limits.adaptive.is_none()
        && !matches!(phase.arrival, Arrival::FixedSchedule(_));
    phase.stop.duration.filter(|_| only_time_ends_it)
}

/// The shortest slices of so many seconds, as one would write it.
fn shortest(phases_s: f64) -> String {
    let millis = (phases_s * 1e3 / SLICES_MAX as f64).ceil();
    match millis % 1e3 == 0.0 {
        true => format!("{}s", millis / 1e3),
        false => format!("{millis}ms"),
    }
}
