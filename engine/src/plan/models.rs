//! The models that a run asks for, and which conversation asks for which.

use std::num::NonZeroU32;

use crate::config::{self, ModelStrategy};
use crate::dataset::Choice;

/// The models of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPlan {
    /// Their names, as the server knows them, in the order of the config; at least one. The first one names artifacts.
    pub names: Vec<String>,
    /// Which of the names a conversation of the dataset asks for, in all its turns.
    pub choice: Choice,
}

impl ModelPlan {
    /// Models that conversations take in turn.
    ///
    /// # Panics
    /// If there is none.
    pub fn in_turn(names: Vec<String>) -> Self {
        let count = u32::try_from(names.len()).ok().and_then(NonZeroU32::new);
        Self {
            choice: Choice::in_turn(count.expect("there is a model")),
            names,
        }
    }

    /// The models of a config; `seed` is that of the dataset.
    pub(super) fn of(models: &config::Models, seed: u64) -> Self {
        let mut plan = Self::in_turn(models.names().map(str::to_owned).collect());
        let weight = |model: &config::Model| match models.strategy {
            Some(ModelStrategy::Weighted) => model.weight.expect("a config without mistakes weighs every model"),
            _ => 1.0,
        };
        if matches!(models.strategy, Some(ModelStrategy::Random | ModelStrategy::Weighted)) {
            let weights: Vec<f64> = models.items.iter().map(weight).collect();
            plan.choice = Choice::drawn(&weights, seed, "model");
        }
        plan
    }

    /// The expected share of the conversations that ask for each name, from 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let in_turn = || vec![1.0 / self.names.len() as f64; self.names.len()];
        self.choice.probabilities().unwrap_or_else(in_turn)
    }

    /// The names that conversations may ask for, each once.
    pub fn asked_for(&self) -> Vec<&str> {
        let mut asked: Vec<&str> = Vec::new();
        for (name, share) in self.names.iter().zip(self.shares()) {
            if share > 0.0 && !asked.contains(&name.as_str()) {
                asked.push(name);
            }
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(strategy: ModelStrategy, weights: [Option<f64>; 3]) -> config::Models {
        let item = |(name, weight): (&str, Option<f64>)| config::Model {
            name: name.to_owned(),
            weight,
        };
        config::Models {
            strategy: Some(strategy),
            items: ["a", "b", "a"].into_iter().zip(weights).map(item).collect(),
        }
    }

    #[test]
    fn a_strategy_is_a_rule_of_choice() {
        let turns = ModelPlan::of(&models(ModelStrategy::RoundRobin, [None; 3]), 1);
        assert_eq!(turns.choice.probabilities(), None);
        assert_eq!(turns, ModelPlan::in_turn(turns.names.clone()));
        let even = ModelPlan::of(&models(ModelStrategy::Random, [None; 3]), 1);
        assert!(even.choice.probabilities().is_some());
        for (drawn, in_turn) in even.shares().iter().zip(turns.shares()) {
            assert!((drawn - in_turn).abs() < 1e-12);
        }
        let weighted = ModelPlan::of(&models(ModelStrategy::Weighted, [Some(0.25), Some(0.0), Some(0.75)]), 1);
        assert_eq!(weighted.choice.probabilities(), Some(vec![0.25, 0.0, 0.75]));
        assert_eq!((turns.asked_for(), weighted.asked_for()), (vec!["a", "b"], vec!["a"]));
    }
}
