//! When a request's tokens are due: a seeded value, no clock and no waiting.

use std::time::Duration;

/// The timings of a server. Delays are counted from the arrival of a request's last byte.
#[derive(Debug, Clone)]
pub(crate) struct Timings {
    ttft_ns: u64,
    /// What each request in flight adds to the first token's delay.
    load_ns: u64,
    itl_ns: u64,
    jitter: f64,
    seed: u64,
}

fn ns(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos())
        .unwrap_or(u64::MAX / 4)
        .min(u64::MAX / 4)
}

impl Timings {
    /// Timings with the given delays; `jitter` is the fraction 0..=1 by which each delay varies to either side.
    pub(crate) fn new(ttft: Duration, itl: Duration, jitter: f64, seed: u64) -> Timings {
        Timings {
            ttft_ns: ns(ttft),
            load_ns: 0,
            itl_ns: ns(itl),
            jitter,
            seed,
        }
    }

    /// The same, with a first token that comes later by `delay` for each request in flight.
    pub(crate) fn under_load(self, delay: Duration) -> Timings {
        Timings {
            load_ns: ns(delay),
            ..self
        }
    }

    /// The due times of the `ordinal`-th request, received at `received_ns` as one of `in_flight`.
    ///
    /// The times depend on nothing but the seed, the ordinal and the arrival: a token that is sent late does not move
    /// the ones behind it.
    pub(crate) fn schedule(&self, ordinal: u64, received_ns: u64, in_flight: u64) -> Schedule {
        let received_ns = received_ns.saturating_add(self.load_ns.saturating_mul(in_flight));
        let random = SplitMix64(SplitMix64(self.seed ^ ordinal.wrapping_mul(0xd134_2543_de82_ef95)).next());
        Schedule {
            timings: self.clone(),
            random,
            due_ns: received_ns,
            started: false,
        }
    }
}

/// Due times of one answer: the first token, then every further one, without end.
#[derive(Debug)]
pub(crate) struct Schedule {
    timings: Timings,
    random: SplitMix64,
    due_ns: u64,
    started: bool,
}

impl Schedule {
    /// The due time of the next token.
    pub(crate) fn next_due_ns(&mut self) -> u64 {
        let delay_ns = if self.started {
            self.timings.itl_ns
        } else {
            self.timings.ttft_ns
        };
        self.started = true;
        self.due_ns = self.due_ns.saturating_add(self.vary(delay_ns));
        self.due_ns
    }

    /// The due time of the last of `tokens` tokens, for an answer that is sent whole.
    pub(crate) fn last_due_ns(mut self, tokens: u32) -> u64 {
        (1..tokens).fold(self.next_due_ns(), |_, _| self.next_due_ns())
    }

    fn vary(&mut self, delay_ns: u64) -> u64 {
        if self.timings.jitter == 0.0 {
            return delay_ns;
        }
        let factor = 1.0 + self.timings.jitter * (2.0 * self.random.unit() - 1.0);
        (delay_ns as f64 * factor) as u64
    }
}

/// Sebastiano Vigna's SplitMix64: small, and good enough to spread delays.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in 0..1, from the upper 53 bits.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTFT: Duration = Duration::from_millis(20);
    const ITL: Duration = Duration::from_micros(2_500);

    fn due_times(timings: &Timings, ordinal: u64, tokens: usize) -> Vec<u64> {
        let mut schedule = timings.schedule(ordinal, 1_000_000_000, 1);
        (0..tokens).map(|_| schedule.next_due_ns()).collect()
    }

    #[test]
    fn without_jitter_the_schedule_is_its_formula() {
        let due = due_times(&Timings::new(TTFT, ITL, 0.0, 7), 3, 100);
        for (k, due_ns) in due.iter().enumerate() {
            assert_eq!(*due_ns, 1_000_000_000 + 20_000_000 + k as u64 * 2_500_000);
        }
    }

    #[test]
    fn each_request_in_flight_delays_the_first_token_and_no_gap() {
        let timings = Timings::new(TTFT, ITL, 0.0, 7).under_load(Duration::from_millis(3));
        for in_flight in [1, 2, 40] {
            let mut schedule = timings.schedule(3, 1_000_000_000, in_flight);
            let first = 1_020_000_000 + 3_000_000 * in_flight;
            assert_eq!(
                (schedule.next_due_ns(), schedule.next_due_ns()),
                (first, first + 2_500_000)
            );
        }
    }

    #[test]
    fn the_same_seed_and_ordinal_give_the_same_times_and_others_differ() {
        let timings = Timings::new(TTFT, ITL, 0.3, 7);
        assert_eq!(due_times(&timings, 1, 50), due_times(&timings, 1, 50));
        assert_ne!(due_times(&timings, 1, 50), due_times(&timings, 2, 50));
        assert_ne!(
            due_times(&timings, 1, 50),
            due_times(&Timings::new(TTFT, ITL, 0.3, 8), 1, 50)
        );
    }

    #[test]
    fn jitter_stays_inside_its_fraction_and_averages_out() {
        let due = due_times(&Timings::new(TTFT, ITL, 0.5, 11), 0, 10_001);
        let gaps: Vec<u64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (1_250_000..=3_750_000).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean / 2_500_000.0 - 1.0).abs() < 0.02, "mean gap {mean} ns");
        assert!(gaps.iter().max() > gaps.iter().min());
    }

    #[test]
    fn a_whole_answer_is_due_with_its_last_token() {
        let timings = Timings::new(TTFT, ITL, 0.4, 5);
        for tokens in [1, 2, 17] {
            let last = timings.schedule(9, 1_000_000_000, 1).last_due_ns(tokens);
            assert_eq!(Some(&last), due_times(&timings, 9, tokens as usize).last());
        }
    }
}
