//! How fast a core opens connections.

/// Connects of one turn. A connect on loopback does the whole handshake inside the enter, 20 to 150 us. Thousands of them in one enter blinded the
/// core for half a second: phases ended late, and the requests' starts were stamped long before the kernel saw them.
const PER_TURN: usize = 8;
/// Connects of all cores whose outcome is open. A listening socket holds back as many connections as its backlog says, 2,048 in the servers of
/// most inference engines and 4,096 at most by default (`net.core.somaxconn`); a SYN that comes while it is full is dropped and sent again a
/// second later. With 1,024 on the way a server that is 100 ms away still gets 10,000 connections a second.
const IN_FLIGHT: usize = 1024;

/// The share of one core in the connects that may be on their way at once.
pub(crate) fn connects_in_flight(cores: usize) -> usize {
    (IN_FLIGHT / cores.max(1)).max(PER_TURN)
}

/// Counts connects on their way and in this turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ramp {
    this_turn: usize,
    in_flight: usize,
    in_flight_max: usize,
}

impl Ramp {
    /// A ramp that lets `in_flight_max` connects be on their way.
    pub(super) fn new(in_flight_max: usize) -> Self {
        Self {
            this_turn: 0,
            in_flight: 0,
            in_flight_max,
        }
    }

    /// A turn of the core begins.
    pub(super) fn begin_turn(&mut self) {
        self.this_turn = 0;
    }

    /// Whether a connect would be allowed in a turn that begins now; if not, one that is on its way has to end first.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.in_flight_max
    }

    /// Whether a connect is allowed now.
    pub(super) fn allows(&self) -> bool {
        self.this_turn < PER_TURN && self.has_room()
    }

    /// A connect was handed to the driver. One for a request that is sent again is not asked for leave: its request is in flight already.
    pub(super) fn opened(&mut self) {
        self.this_turn += 1;
        self.in_flight += 1;
    }

    /// A connect completed, however it did.
    pub(super) fn ended(&mut self) {
        self.in_flight -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_opens_few_and_only_while_not_too_many_are_on_their_way() {
        let mut ramp = Ramp::new(PER_TURN + 2);
        for _ in 0..PER_TURN {
            assert!(ramp.allows());
            ramp.opened();
        }
        assert!(!ramp.allows() && ramp.has_room());
        ramp.begin_turn();
        for _ in 0..2 {
            assert!(ramp.allows());
            ramp.opened();
        }
        assert!(!ramp.allows() && !ramp.has_room());
        ramp.begin_turn();
        assert!(!ramp.allows());
        ramp.ended();
        assert!(ramp.allows());
    }

    #[test]
    fn cores_share_the_connects_and_each_can_fill_a_turn() {
        assert_eq!(connects_in_flight(1), 1024);
        assert_eq!(connects_in_flight(4), 256);
        assert_eq!(connects_in_flight(1_000), PER_TURN);
    }
}
