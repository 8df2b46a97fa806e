//! What the benches and their helper programs share: sizes, plans, the mock's answers, quantiles.

pub mod client;
pub mod harness;
pub mod join;
pub mod mock;
pub mod plan;
pub mod quantile;
pub mod sys;
