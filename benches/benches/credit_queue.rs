//! What does a credit cost on its way from the coordinator to a core?
//!
//! A credit goes into the gate of a phase and out again: on one thread in runs of 64, and from one thread to another with both at full speed.
//! Times are per credit; every credit must come out once and in order.
//!
//! The second case is bounded by how fast two processors can pass cache lines to each other, and with both spinning it shows the queue at its
//! worst; a core takes a credit per request, thousands of times more seldom. Nothing here wakes or sleeps.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use ringload_benches::harness;
use ringload_engine::benchable::Gate;
use ringload_engine::credit::Credit;
use ringload_engine::id::PhaseId;
use ringload_engine::units::Nanos;

const BATCH: u64 = 64;
const CAPACITY: usize = 16_384;

fn credit(sequence: u64) -> Credit {
    Credit {
        phase: PhaseId(0),
        conversation: 0,
        turns: u32::MAX,
        sequence,
        intended: Nanos(sequence),
        cancel_after: None,
    }
}

/// Takes one credit and checks that it is the next one.
fn take(gate: &Gate, expected: u64) -> bool {
    let Some(credit) = gate.take() else { return false };
    assert_eq!(black_box(credit).sequence, expected, "credits leave in order");
    true
}

fn one_thread(gate: &Gate, batches: u64) -> Duration {
    let start = Instant::now();
    for batch in 0..batches {
        let sequences = batch * BATCH..(batch + 1) * BATCH;
        sequences
            .clone()
            .for_each(|sequence| gate.push(black_box(credit(sequence))));
        sequences.for_each(|sequence| assert!(take(gate, sequence), "what was pushed is there"));
    }
    start.elapsed()
}

fn two_threads(batches: u64) -> Duration {
    let gate = Arc::new(Gate::new(CAPACITY));
    let credits = batches * BATCH;
    let producer = {
        let gate = Arc::clone(&gate);
        std::thread::spawn(move || {
            let mut sequence = 0;
            while sequence < credits {
                // The coordinator's way: look once how many fit, then push them.
                let room = (gate.room() as u64).min(credits - sequence);
                (sequence..sequence + room).for_each(|sequence| gate.push(credit(sequence)));
                sequence += room;
                if room == 0 {
                    spin_loop();
                }
            }
        })
    };
    // From the first credit on: the start of the thread is no part of the queue.
    while !take(&gate, 0) {
        std::thread::yield_now();
    }
    let start = Instant::now();
    let mut expected = 1;
    while expected < credits {
        if take(&gate, expected) {
            expected += 1;
        } else {
            spin_loop();
        }
    }
    let elapsed = start.elapsed();
    producer.join().expect("the producer ends");
    elapsed
}

fn main() {
    let (warm_up, measurement) = harness::criterion_times();
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(warm_up)
        .measurement_time(measurement)
        .configure_from_args();
    let mut group = criterion.benchmark_group("credit_queue");
    group.throughput(Throughput::Elements(BATCH));
    let gate = Gate::new(CAPACITY);
    group.bench_function("one thread", |bencher| {
        bencher.iter_custom(|batches| one_thread(&gate, batches))
    });
    // Many batches for each that criterion asks for, so that a start of a thread is spread over at least 64,000 credits.
    const SPREAD: u64 = 1000;
    group.throughput(Throughput::Elements(BATCH * SPREAD));
    group.bench_function("two threads", |bencher| {
        bencher.iter_custom(|rounds| two_threads(rounds * SPREAD));
    });
    group.finish();
    criterion.final_summary();
}
