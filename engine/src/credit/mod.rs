//! The contract between coordinator and cores.

#[allow(clippy::module_inception)]
mod credit;

pub use credit::Credit;
