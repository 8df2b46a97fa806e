//! Prefill slots as a core sees them: taken before a request starts, given back at its first content or at its end.

use super::core::Core;
use crate::clock;
use crate::credit::Credit;
use crate::id::PhaseId;
use crate::plan::PhasePlan;
use crate::sys::driver::Driver;
use crate::units::Nanos;

/// What the requests of a phase have to do with prefill slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefillRule {
    /// Nothing.
    Free,
    /// They are counted and never wait: a later phase with a limit may start while they are in prefill.
    Counted,
    /// They wait for a slot.
    Limited,
}

/// The rule of each phase.
pub(super) fn rules(phases: &[PhasePlan]) -> impl Iterator<Item = PrefillRule> {
    let has_limit = |phase: &PhasePlan| phase.limits.prefill.is_some();
    phases.iter().enumerate().map(move |(index, phase)| {
        let mut beside = phases[index + 1..].iter().take_while(|later| later.seamless);
        if has_limit(phase) {
            PrefillRule::Limited
        } else if beside.any(has_limit) {
            PrefillRule::Counted
        } else {
            PrefillRule::Free
        }
    })
}

impl<D: Driver> Core<D> {
    /// Takes a prefill slot for a request that is about to start; since when it was there for it, or zero if it did not wait. `None`: there is
    /// none, and this core stands in line from now on unless the arrival is to be dropped.
    pub(super) fn take_prefill(&mut self, phase: PhaseId, now: Nanos) -> Option<Nanos> {
        let run = &mut self.phases[phase.index()];
        if run.prefill == PrefillRule::Counted {
            self.exchange.prefill.count();
            return Some(Nanos::ZERO);
        }
        let core = self.id.index();
        if !self.in_line {
            if self.exchange.prefill.try_take() {
                return Some(Nanos::ZERO);
            }
            if run.drops {
                return None;
            }
            self.in_line = true;
            self.exchange.wait_for_prefill(core, now);
        }
        let granted = self.exchange.prefill.take_grant(core);
        self.in_line = granted.is_none();
        run.awaits_prefill = granted.is_none() && !run.drops;
        granted
    }

    /// Starts a request that takes a prefill slot, or drops its arrival if there is none and the phase wants that; `false` when it has to wait for
    /// a slot, or cannot be sent yet.
    pub(super) fn start_in_prefill(&mut self, credit: Credit, wanted: Option<Nanos>, ready: Nanos, now: Nanos) -> bool {
        // A slot must not be held while nothing can be sent.
        if !self.can_send() {
            return false;
        }
        let Some(granted) = self.take_prefill(credit.phase, now) else {
            if self.phases[credit.phase.index()].drops {
                self.count_dropped(credit.phase.index(), 1);
                return true;
            }
            return false;
        };
        // Another core may have freed the slot since this turn began: the request was issued after that.
        let issued = clock::monotonic();
        let is_over = issued >= self.exchange.gates[credit.phase.index()].stop_at();
        let Some(credit) = (!is_over).then(|| self.numbered(credit)).flatten() else {
            self.exchange.release_prefill(issued);
            return false;
        };
        self.begin(credit, wanted.unwrap_or(issued), ready.max(granted), issued)
    }

    /// Passes on a slot that came when nothing was left to start: the phase was closed meanwhile, or there is no place for a connection.
    pub(super) fn return_unused_grant(&mut self, now: Nanos) {
        if self.exchange.prefill.take_grant(self.id.index()).is_some() {
            self.in_line = false;
            self.phases.iter_mut().for_each(|run| run.awaits_prefill = false);
            self.exchange.release_prefill(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::plan::{Arrival, DrainRule, LimitPlan, OnCap, PhaseKind, StopRule};

    fn phase(prefill: u32, seamless: bool) -> PhasePlan {
        PhasePlan {
            id: PhaseId(0),
            profiling_index: Some(0),
            name: "p".into(),
            kind: PhaseKind::Profiling,
            arrival: Arrival::ClosedLoop,
            concurrency: None,
            stop: StopRule::default(),
            drain: DrainRule::WhileProgressing,
            on_cap: OnCap::Wait,
            seamless,
            cancellation: None,
            limits: LimitPlan {
                prefill: NonZeroU32::new(prefill),
                ..LimitPlan::default()
            },
        }
    }

    #[test]
    fn phases_are_counted_as_far_as_a_later_limit_can_meet_them() {
        let (alone, free, beside) = (phase(0, false), phase(0, true), phase(3, true));
        let of = |phases: &[&PhasePlan]| {
            let phases: Vec<PhasePlan> = phases.iter().map(|&phase| phase.clone()).collect();
            rules(&phases).collect::<Vec<_>>()
        };
        use PrefillRule::{Counted, Free, Limited};
        assert_eq!(of(&[&alone, &free]), [Free, Free]);
        assert_eq!(of(&[&alone, &free, &beside]), [Counted, Counted, Limited]);
        assert_eq!(of(&[&alone, &beside, &free]), [Counted, Limited, Free]);
        assert_eq!(of(&[&alone, &alone, &beside]), [Free, Counted, Limited]);
        assert_eq!(of(&[&beside, &alone, &alone]), [Limited, Free, Free]);
    }
}
