//! Advice about plans that will run but may not do what was meant. One line each, first the phase, then what to try.

use super::{Arrival, ControlVariable, DrainRule, PhaseKind, PhasePlan};
use crate::config::Config;
use crate::units::{Nanos, counted};

/// Grace periods up to this long are not worth a word.
const LONG_GRACE: Nanos = Nanos::from_secs(60);

pub(super) fn advise(config: &Config, phases: &[PhasePlan]) -> Vec<String> {
    let mut advice: Vec<String> = phases.iter().flat_map(advise_phase).collect();
    advice.extend(advise_warmup(phases));
    if config.endpoint.use_server_token_count == Some(true) {
        advice.push(
            "endpoint.use_server_token_count: output tokens are the server's count in any case; input_sequence_length stays the length that \
             prompts were made with, and the server's own count is usage_prompt_tokens"
                .to_owned(),
        );
    }
    advice
}

fn advise_phase(phase: &PhasePlan) -> Vec<String> {
    let name = &phase.name;
    let mut advice = Vec::new();
    // The requests of a replay are counted, not chosen, and its cap is a guard.
    if let (Some(concurrency), Some(requests)) = (phase.concurrency, phase.stop.requests)
        && u64::from(concurrency.get()) > requests
        && !matches!(phase.arrival, Arrival::FixedSchedule(_))
    {
        advice.push(format!(
            "phase {name}: concurrency {concurrency} can never be reached with {}; raise requests to at least {concurrency}",
            counted(requests, "request")
        ));
    }
    if let (Some(concurrency), Some(sessions)) = (phase.concurrency, phase.stop.sessions)
        && u64::from(concurrency.get()) > sessions
    {
        advice.push(format!(
            "phase {name}: concurrency {concurrency} can never be reached with {}; raise sessions to at least {concurrency}",
            counted(sessions, "session")
        ));
    }
    if phase.stop.requests.is_none() && phase.stop.sessions.is_none() && phase.stop.duration.is_none() {
        advice.push(format!(
            "phase {name}: nothing ends it but an interrupt; set a finite duration or requests"
        ));
    }
    let ramps = [
        ("concurrency_ramp", phase.limits.concurrency_ramp),
        ("prefill_ramp", phase.limits.prefill_ramp),
    ];
    for (key, ramp) in ramps {
        if let (Some(ramp), Some(duration)) = (ramp, phase.stop.duration)
            && ramp.duration > duration
        {
            advice.push(format!(
                "phase {name}: {key} takes {} s and the phase lasts {} s, so its limit is never reached; make the phase longer or the ramp shorter",
                ramp.duration.as_secs_f64(),
                duration.as_secs_f64()
            ));
        }
    }
    if let (Some(adaptive), Arrival::UserCentric { users, rate }) = (&phase.limits.adaptive, &phase.arrival)
        && adaptive.variable == ControlVariable::Users
    {
        let (window, gap) = (adaptive.assessment_period.as_secs_f64(), f64::from(*users) / rate);
        if window < gap {
            advice.push(format!(
                "phase {name}: users whom the controller adds take {gap} s to begin, one turn gap, and are judged after {window} s; make window at \
                 least {gap}"
            ));
        }
    }
    if let (DrainRule::Grace(grace), Some(duration)) = (phase.drain, phase.stop.duration)
        && grace > LONG_GRACE
        && grace > duration
    {
        advice.push(format!(
            "phase {name}: it may last {} s, because grace_period {} s follows duration {} s",
            (duration + grace).as_secs_f64(),
            grace.as_secs_f64(),
            duration.as_secs_f64()
        ));
    }
    advice
}

/// Connections are opened up to the concurrency of a phase, so a small warmup leaves the rest for the measurement.
fn advise_warmup(phases: &[PhasePlan]) -> Option<String> {
    let first_profiling = phases.iter().position(|phase| phase.kind == PhaseKind::Profiling)?;
    let (warmups, measured) = phases.split_at(first_profiling);
    let widest = |phases: &[PhasePlan]| phases.iter().map(|phase| phase.concurrency).max().flatten();
    let (warm, first) = (widest(warmups)?, measured.first()?);
    // What opens connections in an open loop is the server's slowness; its concurrency is a cap that may never be met.
    if !matches!(first.arrival, Arrival::ClosedLoop) {
        return None;
    }
    // A controller raises its limit by steps, and new connections come with each of them whatever the warmup was.
    if let Some(adaptive) = &first.limits.adaptive
        && adaptive.variable == ControlVariable::Concurrency
    {
        return None;
    }
    let cold = first.concurrency.filter(|&concurrency| concurrency > warm)?;
    // A warmup without a cap may have opened any number of connections.
    if warmups.iter().any(|phase| phase.concurrency.is_none()) {
        return None;
    }
    Some(format!(
        "phase {}: concurrency {cold} is above the {warm} of the warmup before it, so {} connections are opened while it is measured; raise \
         the warmup's concurrency to {cold}",
        first.name,
        cold.get() - warm.get()
    ))
}
