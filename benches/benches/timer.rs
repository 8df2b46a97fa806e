//! What does a deadline cost a core?
//!
//! With 1,000 and with 16,000 deadlines pending: one is set and the soonest expires, which is a request that is disconnected as planned; and one
//! is set and taken back, which is a request that ended before. Beside them the standard library's binary heap, which cannot take back: there an
//! entry is set and the soonest popped, and its second case does not exist. Times are per pair of operations. Checked: deadlines expire in order,
//! and as many are pending after as before.
//!
//! One thread and nothing else in its cache; in a core, connections compete for it.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use criterion::{BatchSize, Criterion, Throughput};
use ringload_benches::harness;
use ringload_engine::benchable::Timers;
use ringload_engine::units::Nanos;

const BATCH: usize = 1024;

/// Delays without order: the low bits of a multiplicative sequence, up to about a second.
fn delay(step: u64) -> u64 {
    (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34) + 1
}

/// Timers with a deadline on each of the first `pending` connections, and room for a batch more.
fn filled(pending: usize) -> Timers {
    let mut timers = Timers::new(pending + BATCH);
    for index in 0..pending as u32 {
        timers.set(index, Nanos(delay(u64::from(index))));
    }
    timers
}

/// The soonest expires and its connection gets a new deadline, a batch of times.
fn expire(timers: &mut Timers, step: &mut u64) {
    let mut before = Nanos::ZERO;
    for _ in 0..BATCH {
        let now = timers.next().expect("deadlines are pending");
        assert!(now >= before, "deadlines expire in order");
        before = now;
        let index = timers.take_due(now).expect("the soonest is due");
        *step += 1;
        timers.set(index, now + Nanos(delay(*step)));
    }
}

/// Connections beside the pending ones get deadlines and give them back, a batch of each.
fn take_back(timers: &mut Timers, pending: usize, step: &mut u64) {
    let soonest = timers.next().expect("deadlines are pending");
    let others = pending as u32..(pending + BATCH) as u32;
    for index in others.clone() {
        *step += 1;
        timers.set(index, soonest + Nanos(delay(*step)));
    }
    others.for_each(|index| timers.remove(index));
    assert_eq!(timers.next(), Some(soonest), "what is left is what was there");
}

fn main() {
    let (warm_up, measurement) = harness::criterion_times();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(warm_up)
        .measurement_time(measurement)
        .configure_from_args();
    let mut group = criterion.benchmark_group("timer");
    group.throughput(Throughput::Elements(BATCH as u64));
    for pending in [1_000, 16_000] {
        let mut step = pending as u64;
        group.bench_function(format!("set and expire, {pending} pending"), |bencher| {
            let mut timers = filled(pending);
            bencher.iter(|| expire(&mut timers, &mut step));
        });
        group.bench_function(format!("set and take back, {pending} pending"), |bencher| {
            let mut timers = filled(pending);
            bencher.iter(|| take_back(&mut timers, pending, &mut step));
        });
        group.bench_function(format!("binary heap, set and expire, {pending} pending"), |bencher| {
            let heap = || {
                let deadlines = (0..pending as u64).map(|index| Reverse((delay(index), index as u32)));
                deadlines.collect::<BinaryHeap<_>>()
            };
            bencher.iter_batched_ref(
                heap,
                |heap| {
                    for _ in 0..BATCH {
                        let Reverse((now, index)) = heap.pop().expect("deadlines are pending");
                        step += 1;
                        heap.push(Reverse((now + delay(step), index)));
                    }
                    assert_eq!(heap.len(), pending);
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
    criterion.final_summary();
}
