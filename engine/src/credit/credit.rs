//! Permission to start one request.

use crate::id::PhaseId;
use crate::units::Nanos;

/// Permission to start one request. Small and `Copy`: it travels through bounded queues by value.
///
/// A core that takes a credit needs nothing else to know what to send, when, and for whom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    /// The phase that owns the request and its record, however late it returns.
    pub phase: PhaseId,
    /// Index of the dataset entry whose bytes are sent.
    pub image: u32,
    /// Position within the phase, counted from 0 without gaps.
    pub sequence: u64,
    /// When the request is due, as an offset from the start of the phase. [`Nanos::ZERO`] in closed loop: as soon as a slot is free.
    pub intended: Nanos,
    /// Simulated disconnect: from the hand-over of the last request byte to the kernel until the connection is closed.
    pub cancel_after: Option<Nanos>,
}
