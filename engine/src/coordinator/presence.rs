//! Users who are still there although the controller wants fewer, as a value.

/// Follows the users of a phase whose number a controller moves.
///
/// Whoever is taken away finishes the conversation, however long the server makes that. Until then the load is that of more users than the
/// controller asked for, and what it sees says nothing about those it did ask for.
///
/// Users who are late because the server is do not count: a value that the server does not bear must be seen to fail. So only conversations that
/// began before the latest reduction keep it from being judged.
#[derive(Debug, Default)]
pub(super) struct Presence {
    wanted: u32,
    /// Conversations that are over.
    ended: u64,
    /// Conversations that had begun, or were due to, when the number of users last fell; their numbers are below.
    before_reduction: u64,
    /// Those of them that are over.
    ended_of_these: u64,
}

impl Presence {
    /// A conversation is over.
    pub(super) fn ended(&mut self, number: u64) {
        self.ended += 1;
        self.ended_of_these += u64::from(number < self.before_reduction);
    }

    /// So many users are wanted after `issued` conversations were due to begin.
    pub(super) fn want(&mut self, users: u32, issued: u64) {
        if users < self.wanted {
            self.before_reduction = issued;
            // None has a higher number yet.
            self.ended_of_these = self.ended;
        }
        self.wanted = users;
    }

    /// Users who have yet to leave, when `issued` conversations were due to begin.
    pub(super) fn leaving(&self, issued: u64) -> u32 {
        let old = self.before_reduction - self.ended_of_these;
        let too_many = issued.saturating_sub(self.ended).saturating_sub(self.wanted.into());
        u32::try_from(old.min(too_many)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_leave_as_their_conversations_end_and_followers_of_the_others_are_not_counted() {
        let mut presence = Presence::default();
        presence.want(2, 0);
        presence.want(6, 2);
        assert_eq!(presence.leaving(6), 0, "nobody is to leave while the number rises");
        presence.want(2, 6);
        assert_eq!(presence.leaving(6), 4);
        presence.ended(0);
        presence.ended(1);
        // Two followers, and four of before.
        assert_eq!(presence.leaving(8), 4);
        presence.ended(6);
        assert_eq!(presence.leaving(9), 4, "a follower's end is nobody's leave");
        for (number, left) in [(2, 3), (4, 2), (5, 1), (3, 0)] {
            presence.ended(number);
            assert_eq!(presence.leaving(9), left);
        }
    }

    #[test]
    fn users_who_pile_up_because_the_server_is_late_are_not_leaving() {
        let mut presence = Presence::default();
        presence.want(5, 0);
        presence.want(3, 5);
        (0..5).for_each(|number| presence.ended(number));
        assert_eq!(presence.leaving(40), 0);
    }

    #[test]
    fn each_reduction_counts_anew() {
        let mut presence = Presence::default();
        presence.want(10, 0);
        presence.want(6, 10);
        (0..4).for_each(|number| presence.ended(number));
        assert_eq!(presence.leaving(10), 0);
        presence.want(5, 12);
        assert_eq!(presence.leaving(12), 3);
        presence.ended(11);
        presence.ended(4);
        presence.ended(5);
        assert_eq!(presence.leaving(12), 0);
    }
}
