//! What does it cost the coordinator to make a credit?
//!
//! The next credit of a phase: in a closed loop, at a constant rate, at Poisson arrivals, and each of the last two with a draw for its
//! cancellation. Times are per credit. Checked: sequence numbers without a gap, due times in order, and for arrivals the achieved rate.
//!
//! The pacer is a pure value: no clock, no queue, no waking. It is one thread's work for all cores, so its cost bounds the rate of a run.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::num::NonZeroU32;

use criterion::{Criterion, Throughput};
use ringload_benches::{harness, plan};
use ringload_engine::coordinator::{ImageCursor, Pacer};
use ringload_engine::plan::{Arrival, CancellationPlan, PhasePlan};
use ringload_engine::units::Nanos;

const BATCH: u64 = 1024;
const RATE: f64 = 100_000.0;

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
    ] {
        let entries = NonZeroU32::new(1000).expect("not zero");
        let mut pacer = Pacer::new(&phase(arrival.clone(), cancelled), 42, ImageCursor::new(entries));
        let mut due = Nanos::ZERO;
        group.bench_function(name, |bencher| bencher.iter(|| due = take(&mut pacer, due)));
        if arrival != Arrival::ClosedLoop && pacer.issued() > 0 {
            // A sum of n exponential gaps has a relative deviation of 1 / sqrt(n); five of them are never exceeded by chance, and the seed is
            // fixed.
            let achieved = pacer.issued() as f64 / due.as_secs_f64();
            let tolerance = 5.0 / (pacer.issued() as f64).sqrt();
            assert!(
                (achieved / RATE - 1.0).abs() < tolerance,
                "{name}: {achieved} credits per second"
            );
        }
    }
    group.finish();
    criterion.final_summary();
}
