//! The load engine of ringload.
//!
//! Data flows one way:
//!
//! ```text
//! config -> plan -> coordinator -> credits -> cores -> http -> record -> histograms + journal -> merge -> report -> artifacts
//! ```
//!
//! The coordinator (phase machine and pacer, both pure values) and the reactor cores never import each other; they meet in
//! [`credit`]. Control hooks leave by a separate client in [`control`], on its own threads and sockets.

pub mod artifact;
#[doc(hidden)]
pub mod benchable;
pub mod cells;
pub mod clock;
pub mod config;
pub mod control;
pub mod coordinator;
pub mod credit;
pub mod dataset;
#[doc(hidden)]
pub mod fuzzable;
pub mod http;
pub mod id;
pub mod interrupt;
pub mod journal;
pub mod plan;
pub mod reactor;
pub mod record;
pub mod report;
pub mod run;
pub mod telemetry;
pub mod tls;
pub mod units;

mod sys;
mod varint;
