//! One file per command.

pub(crate) mod cells;
pub(crate) mod profile;
pub(crate) mod validate;
