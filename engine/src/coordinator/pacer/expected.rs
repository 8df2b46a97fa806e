//! How many arrivals a schedule is to be expected to have, without drawing them.

use super::super::stream::{Purpose, Stream};
use super::integrated_rate::IntegratedRate;
use crate::plan::{Arrival, PhasePlan};
use crate::units::Nanos;

/// The rate of a phase as its integral: exact for even gaps, the mean for random ones.
#[derive(Debug, Clone)]
pub struct ExpectedArrivals {
    rate: IntegratedRate,
}

impl ExpectedArrivals {
    /// Those of a phase at a rate; `None` for any other.
    pub fn of(plan: &PhasePlan, seed: u64) -> Option<Self> {
        match &plan.arrival {
            Arrival::AtRate { rate, .. } => Some(Self {
                // A drawn ramp is the one that the phase will have.
                rate: IntegratedRate::new(rate, Stream::new(seed, &plan.name, Purpose::RateRamp)),
            }),
            _ => None,
        }
    }

    /// Arrivals from the start of the phase to `time` after it.
    pub fn by(&self, time: Nanos) -> f64 {
        self.rate.arrivals_by(time.as_secs_f64())
    }

    /// From the start of the phase to the arrival of this number.
    pub fn time_of(&self, arrivals: f64) -> Nanos {
        Nanos::from_secs_f64(self.rate.clone().time_of(arrivals))
    }
}
