//! Permission to send one request.

use crate::id::PhaseId;
use crate::units::Nanos;

/// Permission to send one request, and what a core must know to send it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    /// The phase that issued it; the record will carry it too.
    pub phase: PhaseId,
    /// Conversation of the dataset whose first turn it may send, in phases that choose by the credit.
    pub conversation: u32,
    /// Turns that the session sends before its user leaves; `u32::MAX` is all of its conversation's.
    pub turns: u32,
    /// Issue number within the phase, from 0.
    pub sequence: u64,
    /// When the schedule wants the request to start, counted from the start of the phase; zero in a closed loop.
    pub intended: Nanos,
    /// Disconnect this long after the last request byte was handed to the kernel.
    pub cancel_after: Option<Nanos>,
}
