//! Every system call of the engine, and the only place beside `credit` where `unsafe` is allowed.

pub(crate) mod time;
