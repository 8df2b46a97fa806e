//! When users of a `user_centric` phase begin: a population that is already in motion at the start, and a successor for each user who leaves.
//!
//! Users send a turn every `users / rate` seconds, each at an offset of their own. So all starts are whole numbers of *ticks* of `1 / rate`, each
//! offset modulo `users` belongs to one user at a time, and a user of m turns is followed by the next one m rounds of `users` ticks later. At the
//! start every user but one is given a virtual history: they leave after as many turns as they would have left, had they begun evenly spread
//! over the length of a conversation before the phase. The one who has no history sends at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use super::pacer::ImageCursor;
use crate::plan::Conversations;
use crate::units::Nanos;

/// One user's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UserStart {
    /// When, since the start of the phase.
    pub(super) due: Nanos,
    /// Turns that this user sends; at most those of the conversation.
    pub(super) turns: u32,
}

/// The starts of all users in order, without end.
///
/// Where a controller moves the number of users, those that it adds are a cohort of their own: `n` fresh users, of whom the first starts at the
/// change and the others `gap / n` after one another, so that they spread evenly over one gap. Users that it takes away are the next who would
/// have started: nobody follows them, and whoever is there finishes the conversation.
#[derive(Debug, Clone)]
pub(super) struct UserStarts {
    cohorts: Vec<Cohort>,
    /// The cohorts whose next start is known, by when it is; then by age.
    upcoming: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Seconds from turn to turn of one user.
    gap_s: f64,
    /// Changes to fewer users: from when on how many starts do not take place, in order.
    reductions: VecDeque<(Nanos, u32)>,
    cursor: ImageCursor,
    conversations: Arc<Conversations>,
}

/// Users who came at the same time, and those who follow them.
#[derive(Debug, Clone)]
struct Cohort {
    /// Seconds from the start of the phase to tick 0.
    begin_s: f64,
    /// Ticks per second.
    rate: f64,
    users: u32,
    /// Turns of the first user at each offset; empty: whole conversations.
    first_turns: Vec<u32>,
    /// The next start at each offset that has one.
    upcoming: BinaryHeap<Reverse<u64>>,
}

impl Cohort {
    /// When the next user of the cohort starts.
    fn peek(&self) -> Option<Nanos> {
        let Reverse(tick) = self.upcoming.peek()?;
        Some(Nanos::from_secs_f64(self.begin_s + *tick as f64 / self.rate))
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Turns of the first user at each offset of a population that is in motion at the start.
fn first_turns(users: u32, turns_mean: f64) -> Vec<u32> {
    let count = u64::from(users);
    let history = (turns_mean.round_ties_even() as u64).saturating_sub(1).max(1);
    let coprime = |step: &u64| greatest_common_divisor(*step, count) == 1;
    // Ages that share a divisor with the number of users would give several users one offset; a stride that shares none gives each its own.
    let stride = (2..count).find(coprime).unwrap_or(1);
    let mut first_turns = vec![u32::MAX; users as usize];
    // User 0 of the formula has sent everything, and the one without history takes that offset.
    for user in 1..count {
        let age = (count - user) * history;
        let slot = if greatest_common_divisor(count, history) == 1 {
            age % count
        } else {
            user * stride % count
        };
        let turns = history - age / count;
        first_turns[(count - slot) as usize] = u32::try_from(turns).unwrap_or(u32::MAX);
    }
    first_turns
}

impl UserStarts {
    /// A population of `users` users who send `rate` turns per second together, the first of whom takes the conversation under `cursor`.
    pub(super) fn new(users: u32, rate: f64, conversations: Arc<Conversations>, cursor: ImageCursor) -> Self {
        let mut starts = Self {
            cohorts: Vec::new(),
            upcoming: BinaryHeap::new(),
            gap_s: f64::from(users) / rate,
            reductions: VecDeque::new(),
            cursor,
            conversations,
        };
        let first_turns = first_turns(users, starts.conversations.turns_mean());
        starts.admit(0.0, users, rate, first_turns);
        starts
    }

    fn admit(&mut self, begin_s: f64, users: u32, rate: f64, first_turns: Vec<u32>) {
        let cohort = Cohort {
            begin_s,
            rate,
            users,
            first_turns,
            upcoming: (0..u64::from(users)).map(Reverse).collect(),
        };
        self.wait_for(cohort.peek(), self.cohorts.len());
        self.cohorts.push(cohort);
    }

    fn wait_for(&mut self, next: Option<Nanos>, cohort: usize) {
        self.upcoming.extend(next.map(|due| Reverse((due, cohort))));
    }

    /// There are to be `users` users from `from` on; starts before that take place as if nothing had changed. Changes come in order.
    pub(super) fn change(&mut self, users: u32, from: Nanos) {
        let staying = self.staying();
        if users > staying {
            let fresh = users - staying;
            self.admit(from.as_secs_f64(), fresh, f64::from(fresh) / self.gap_s, Vec::new());
        } else if users < staying {
            self.reductions.push_back((from, staying - users));
        }
        self.reduce();
    }

    /// Users who are there, or to come, and will be followed by others.
    fn staying(&self) -> u32 {
        let places: usize = self.cohorts.iter().map(|cohort| cohort.upcoming.len()).sum();
        let going: u32 = self.reductions.iter().map(|(_, starts)| starts).sum();
        u32::try_from(places).unwrap_or(u32::MAX) - going
    }

    /// Takes the next starts away, once they are those after a reduction.
    fn reduce(&mut self) {
        while let Some((from, starts)) = self.reductions.front_mut()
            && let Some(&Reverse((due, index))) = self.upcoming.peek()
            && due >= *from
        {
            *starts -= 1;
            if *starts == 0 {
                self.reductions.pop_front();
            }
            self.upcoming.pop();
            self.cohorts[index].upcoming.pop();
            let next = self.cohorts[index].peek();
            self.wait_for(next, index);
        }
    }

    /// Starts per second, on average over a long time.
    pub(super) fn per_second(&self) -> f64 {
        let rates = self.cohorts.iter().map(|cohort| {
            let present = cohort.upcoming.len() as f64 / f64::from(cohort.users);
            cohort.rate * present
        });
        rates.sum::<f64>() / self.conversations.turns_mean()
    }

    /// When the next user starts.
    pub(super) fn peek(&self) -> Nanos {
        let Reverse((due, _)) = self.upcoming.peek().expect("a user is always followed by another");
        *due
    }

    /// Requests of the first `sessions` users together.
    pub(super) fn turns_of(mut self, sessions: u64) -> u64 {
        (0..sessions).map(|_| u64::from(self.next_start().turns)).sum()
    }

    pub(super) fn next_start(&mut self) -> UserStart {
        let Reverse((due, index)) = self.upcoming.pop().expect("a user is always followed by another");
        let cohort = &mut self.cohorts[index];
        let Reverse(tick) = cohort.upcoming.pop().expect("the cohort is in line for this start");
        let planned = cohort.first_turns.get(tick as usize).copied().unwrap_or(u32::MAX);
        let turns = planned.min(self.conversations.turns(self.cursor.image()));
        self.cursor = self.cursor.advanced(1);
        cohort
            .upcoming
            .push(Reverse(tick + u64::from(turns) * u64::from(cohort.users)));
        let next = cohort.peek();
        self.wait_for(next, index);
        self.reduce();
        UserStart { due, turns }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;
    use std::time::Instant;

    use super::*;

    fn starts(users: u32, turns: &[usize]) -> UserStarts {
        let conversations = Conversations::of_turns(turns.iter().enumerate().map(|(k, &n)| (k.to_string(), n)));
        let cursor = ImageCursor::new(NonZeroU32::new(conversations.count()).unwrap());
        // One tick a second.
        UserStarts::new(users, 1.0, Arc::new(conversations), cursor)
    }

    /// The tick of a start.
    fn tick(start: UserStart) -> u64 {
        assert_eq!(start.due.0 % 1_000_000_000, 0);
        start.due.0 / 1_000_000_000
    }

    /// The population at the start as the formula says it, users in the order of their numbers: (first tick, turns).
    fn by_formula(users: i64, conversation: i64) -> Vec<(u64, u32)> {
        let history = (conversation - 1).max(1);
        let divides = |d: i64, n: i64| n % d == 0;
        let coprime = |a: i64, b: i64| !(2..=a.min(b)).any(|d| divides(d, a) && divides(d, b));
        let step = (2..users).find(|&step| coprime(step, users)).unwrap_or(1);
        let mut population = vec![(0, u32::try_from(conversation).unwrap())];
        for user in 0..users {
            let age = (users - user) * history;
            let left = history - age / users;
            let slot = if coprime(users, history) {
                age % users
            } else {
                user * step % users
            };
            if left > 0 {
                population.push(((users - slot) as u64, left as u32));
            }
        }
        population.sort_unstable();
        population
    }

    #[test]
    fn s58_start_order_and_turn_counts_are_those_of_the_formula() {
        for (users, turns) in [
            (15, 20),
            (15, 16),
            (1, 20),
            (2, 3),
            (7, 1),
            (12, 9),
            (100, 5),
            (10, 2),
            (64, 33),
        ] {
            let mut starts = starts(users, &[turns as usize]);
            let first: Vec<(u64, u32)> = (0..users)
                .map(|_| starts.next_start())
                .map(|start| (tick(start), start.turns))
                .collect();
            assert_eq!(first, by_formula(users.into(), turns), "{users} users of {turns} turns");
            let ticks: Vec<u64> = first.iter().map(|(tick, _)| *tick).collect();
            assert!(
                ticks.into_iter().eq(0..u64::from(users)),
                "one user at the start, then one each tick"
            );
        }
    }

    #[test]
    fn s58_every_offset_has_one_user_at_a_time_who_sends_once_per_round() {
        let users = 15;
        let mut starts = starts(users, &[20]);
        let mut free_at: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last = 0;
        for _ in 0..1_000 {
            let start = starts.next_start();
            let tick = tick(start);
            assert!(tick >= last, "starts are in order");
            last = tick;
            let offset = tick % u64::from(users);
            let due = free_at.insert(offset, tick + u64::from(start.turns * users));
            assert!(
                due.is_none_or(|due| due == tick),
                "a successor starts where the next turn would have been"
            );
        }
        assert_eq!(free_at.len(), users as usize);
    }

    #[test]
    fn conversations_of_different_lengths_are_taken_in_order_and_end_when_they_end() {
        let mut starts = starts(3, &[4, 1, 7]);
        let first: Vec<UserStart> = (0..6).map(|_| starts.next_start()).collect();
        let start = |tick, turns| UserStart {
            due: Nanos::from_secs(tick),
            turns,
        };
        // Mean 4, so histories of 3 turns; users and history share a divisor, so the stride decides.
        assert_eq!(first[0], start(0, 4));
        assert_eq!(
            (tick(first[1]), first[1].turns),
            (1, 1),
            "its conversation has one turn"
        );
        assert_eq!(tick(first[2]), 2);
        assert_eq!(
            first[3],
            start(4, 4),
            "the successor of the second takes the next conversation"
        );
        assert_eq!(starts.clone().turns_of(0), 0);
        let mut ahead = starts.clone();
        let sum: u64 = (0..9).map(|_| u64::from(ahead.next_start().turns)).sum();
        assert_eq!(starts.turns_of(9), sum);
    }

    /// Prints the time; a figure that depends on the machine is bounded by a wide margin.
    #[test]
    fn a_hundred_thousand_users_are_ready_at_once() {
        let begin = Instant::now();
        let mut starts = starts(100_000, &[20]);
        let turns: u64 = (0..100_000).map(|_| u64::from(starts.next_start().turns)).sum();
        println!("100,000 users: {:?}", begin.elapsed());
        assert_eq!(
            turns,
            by_formula(100_000, 20)
                .iter()
                .map(|(_, turns)| u64::from(*turns))
                .sum::<u64>()
        );
    }
}
