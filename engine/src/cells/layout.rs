//! Where the cells of a suite and their aggregates lie, and in which order the cells run.

use std::path::{Path, PathBuf};

use crate::artifact::{AGGREGATE, PROFILE_RUNS, SWEEP_AGGREGATE, TRIAL};
use crate::config::{IterationOrder, Suite};

/// The shape of a suite: what decides directories and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    is_sweep: bool,
    trials: u32,
    order: IterationOrder,
}

impl Layout {
    pub(super) fn of(suite: &Suite) -> Self {
        Self {
            is_sweep: suite.sweep.is_some(),
            trials: suite.multi_run.num_runs,
            order: suite.sweep.as_ref().map(|sweep| sweep.order).unwrap_or_default(),
        }
    }

    /// Variation and trial of every cell, in the order of running.
    pub(super) fn order(self, variations: usize) -> Vec<(usize, u32)> {
        match self.order {
            IterationOrder::Repeated => (0..self.trials)
                .flat_map(|trial| (0..variations).map(move |variation| (variation, trial)))
                .collect(),
            IterationOrder::Independent => (0..variations)
                .flat_map(|variation| (0..self.trials).map(move |trial| (variation, trial)))
                .collect(),
        }
    }

    /// The directory of a cell; `name` is that of its variation.
    pub(super) fn cell(self, base: &Path, name: &str, trial: u32) -> PathBuf {
        let number = trial + 1;
        let trial = format!("{TRIAL}{number:04}");
        match (self.is_sweep, self.trials > 1, self.order) {
            (false, ..) => base.join(PROFILE_RUNS).join(format!("run_{number:04}")),
            (true, false, _) => base.join(name),
            (true, true, IterationOrder::Repeated) => base.join(PROFILE_RUNS).join(trial).join(name),
            (true, true, IterationOrder::Independent) => base.join(name).join(PROFILE_RUNS).join(trial),
        }
    }

    /// Where the figures over the trials of a variation are.
    pub(super) fn aggregate(self, base: &Path, name: &str) -> PathBuf {
        match (self.is_sweep, self.trials > 1, self.order) {
            (false, ..) => base.join(AGGREGATE),
            (true, true, IterationOrder::Independent) => base.join(name).join(AGGREGATE),
            (true, ..) => base.join(AGGREGATE).join(name),
        }
    }

    /// Where the figures over the variations are.
    pub(super) fn comparison(self, base: &Path) -> PathBuf {
        match (self.trials > 1, self.order) {
            (true, IterationOrder::Repeated) => base.join(AGGREGATE).join(SWEEP_AGGREGATE),
            _ => base.join(SWEEP_AGGREGATE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(is_sweep: bool, trials: u32, order: IterationOrder) -> Layout {
        Layout {
            is_sweep,
            trials,
            order,
        }
    }

    #[test]
    fn repeated_runs_all_variations_before_the_next_trial() {
        let order = |order| layout(true, 2, order).order(3);
        let repeated = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)];
        let independent = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
        assert_eq!(order(IterationOrder::Repeated), repeated);
        assert_eq!(order(IterationOrder::Independent), independent);
    }

    #[test]
    fn directories_are_those_that_readers_of_sweeps_know() {
        use IterationOrder::{Independent, Repeated};
        let base = Path::new("/d");
        for (layout, cell, aggregate, comparison) in [
            (
                layout(false, 2, Repeated),
                "/d/profile_runs/run_0002",
                "/d/aggregate",
                None,
            ),
            (
                layout(true, 1, Repeated),
                "/d/c",
                "/d/aggregate/c",
                Some("/d/sweep_aggregate"),
            ),
            (
                layout(true, 1, Independent),
                "/d/c",
                "/d/aggregate/c",
                Some("/d/sweep_aggregate"),
            ),
            (
                layout(true, 2, Repeated),
                "/d/profile_runs/trial_0002/c",
                "/d/aggregate/c",
                Some("/d/aggregate/sweep_aggregate"),
            ),
            (
                layout(true, 2, Independent),
                "/d/c/profile_runs/trial_0002",
                "/d/c/aggregate",
                Some("/d/sweep_aggregate"),
            ),
        ] {
            assert_eq!(layout.cell(base, "c", 1), Path::new(cell), "{layout:?}");
            assert_eq!(layout.aggregate(base, "c"), Path::new(aggregate), "{layout:?}");
            if let Some(comparison) = comparison {
                assert_eq!(layout.comparison(base), Path::new(comparison), "{layout:?}");
            }
        }
    }
}
