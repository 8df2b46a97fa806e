//! Permission to send one request.

use crate::id::PhaseId;
use crate::units::Nanos;

/// Permission to send one request, and everything that a core must know to send it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit {
    /// The phase that issued it; the record will carry it too.
    pub phase: PhaseId,
    /// Dataset entry to send.
    pub image: u32,
    /// Issue number within the phase, from 0.
    pub sequence: u64,
    /// When the schedule wants the request to start, counted from the start of the phase; zero in a closed loop.
    pub intended: Nanos,
    /// Disconnect this long after the last request byte was handed to the kernel.
    pub cancel_after: Option<Nanos>,
}
