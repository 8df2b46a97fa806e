//! What does it cost the coordinator to make a credit?
//!
//! The next credit of a phase: in a closed loop, at a constant rate, at Poisson arrivals, each of the last two with a draw for its cancellation,
//! with gamma-distributed gaps, and while the rate moves by a series of 1,000 points or up a ramp. Arrivals come at a million per second, so a cost
//! of less than a microsecond keeps up with them; times are per credit. Checked: sequence numbers without a gap, due times in order, and for
//! arrivals the achieved rate.
//!
//! And how long does a population take to be ready? 100,000 users of a `user_centric` phase from nothing to the last one's start; a line of its own.
//!
//! The pacer is a pure value: no clock, no queue, no waking. It is one thread's work for all cores, so its cost bounds the rate of a run.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use ringload_benches::{harness, plan};
use ringload_engine::coordinator::{ImageCursor, Pacer};
use ringload_engine::plan::{Arrival, CancellationPlan, Conversations, PhasePlan, RampPlan, RampStrategy, RatePlan};
use ringload_engine::units::Nanos;

const BATCH: u64 = 1024;
const RATE: f64 = 1e6;

/// Up and down around [`RATE`] once a second, for longer than any measurement takes.
fn series() -> RatePlan {
    let point = |at: i32| (f64::from(at), if at % 2 == 0 { 0.5 * RATE } else { 1.5 * RATE });
    RatePlan::series(&(0..1_000).map(point).collect::<Vec<_>>())
}

/// A ramp that no measurement sees the end of.
fn ramp(strategy: RampStrategy) -> RatePlan {
    RatePlan::constant(1_000.0 * RATE).ramped(RampPlan {
        duration: Nanos::from_secs(1_000),
        strategy,
    })
}

fn phase(arrival: Arrival, cancelled: Option<f64>) -> PhasePlan {
    PhasePlan {
        arrival,
        cancellation: cancelled.map(|probability| CancellationPlan {
            probability,
            delay: Nanos::ZERO,
        }),
        ..plan::closed_loop(0, "paced", 64, None)
    }
}

/// Takes a batch of credits; returns the due time of the last one.
fn take(pacer: &mut Pacer, last: Nanos) -> Nanos {
    let first = pacer.issued();
    let mut due = last;
    for credit in pacer.by_ref().take(BATCH as usize) {
        assert!(credit.intended >= due, "due times are in order");
        due = credit.intended;
    }
    assert_eq!(pacer.issued(), first + BATCH, "the phase has no end");
    due
}

/// Prints how long it takes to make a population and the starts of all its first users.
fn report_users() {
    const USERS: u32 = 100_000;
    let conversations = Arc::new(Conversations::of_turns((0..100).map(|id| (id.to_string(), 20))));
    let entries = NonZeroU32::new(conversations.count()).expect("not zero");
    let users = Arrival::UserCentric {
        users: USERS,
        rate: RATE,
    };
    let begin = Instant::now();
    let mut pacer = Pacer::of_sessions(&phase(users, None), 42, ImageCursor::new(entries), &conversations);
    let starts = pacer.by_ref().take(USERS as usize).count();
    println!("pacer/{USERS} users begin: {:?}", begin.elapsed());
    assert_eq!(starts, USERS as usize, "a user is followed by another");
}

fn main() {
    let (warm_up, measurement) = harness::criterion_times();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(warm_up)
        .measurement_time(measurement)
        .configure_from_args();
    let mut group = criterion.benchmark_group("pacer");
    group.throughput(Throughput::Elements(BATCH));
    for (name, arrival, cancelled) in [
        ("closed loop", Arrival::ClosedLoop, None),
        ("constant", Arrival::constant(RATE), None),
        ("constant, half cancelled", Arrival::constant(RATE), Some(0.5)),
        ("poisson", Arrival::poisson(RATE), None),
        ("poisson, half cancelled", Arrival::poisson(RATE), Some(0.5)),
        ("gamma, shape 4", Arrival::gamma(RATE, 4.0), None),
        ("gamma, shape 0.25", Arrival::gamma(RATE, 0.25), None),
        ("constant, series", Arrival::constant(RATE).at(series()), None),
        ("poisson, series", Arrival::poisson(RATE).at(series()), None),
        (
            "poisson, linear ramp",
            Arrival::poisson(RATE).at(ramp(RampStrategy::Linear)),
            None,
        ),
        (
            "poisson, exponential ramp",
            Arrival::poisson(RATE).at(ramp(RampStrategy::Exponential)),
            None,
        ),
    ] {
        let entries = NonZeroU32::new(1000).expect("not zero");
        // A ramp has no rate of its own, and a series has one in the long run.
        let is_steady = !arrival.is_closed_loop() && !name.ends_with("ramp");
        let mut pacer = Pacer::new(&phase(arrival, cancelled), 42, ImageCursor::new(entries));
        let mut due = Nanos::ZERO;
        group.bench_function(name, |bencher| bencher.iter(|| due = take(&mut pacer, due)));
        // Half a period of the series may be missing.
        if is_steady && pacer.issued() > 0 && (!name.ends_with("series") || due > Nanos::from_secs(20)) {
            // A sum of n gaps has a relative deviation of at most 2 / sqrt(n); five of them are never exceeded by chance, and the seed is fixed.
            let achieved = pacer.issued() as f64 / due.as_secs_f64();
            let tolerance = 10.0 / (pacer.issued() as f64).sqrt() + if name.ends_with("series") { 0.05 } else { 0.0 };
            assert!(
                (achieved / RATE - 1.0).abs() < tolerance,
                "{name}: {achieved} credits per second"
            );
        }
    }
    group.finish();
    report_users();
    criterion.final_summary();
}
