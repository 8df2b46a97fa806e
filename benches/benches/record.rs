//! What does it cost a core to account for a finished stream, and to read the account back?
//!
//! One request with 33 contents: its 32 gaps kept while the stream is open, its values counted in the histograms, its record encoded into a
//! block; then all three together; then the record decoded, as it is after the run. Times are per request. Checked: every gap and every
//! field comes back.
//!
//! The block is in cache and nothing is written to disk: the journal's thread does that beside the core. Histograms that stay in cache are as
//! fast as they get; on a core they compete with everything else.
//!
//! `RINGLOAD_BENCH_SMOKE=1` measures for a moment only, to show that the bench runs.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ringload_benches::harness;
use ringload_engine::benchable::{Kept, RecordPath, decode};
use ringload_engine::id::{CoreId, PhaseId};
use ringload_engine::record::{Family, Outcome, PhaseHistograms, RequestRecord, Usage};
use ringload_engine::units::Nanos;

const GAPS: usize = 32;
/// A block that a core would hand over.
const BLOCK_BYTES: usize = 64 * 1024;

/// Gaps around 10 ms, the sizes that a server with a token each 10 ms gives: three to four bytes each as varints.
fn gaps() -> Vec<u64> {
    (0..GAPS as u64)
        .map(|index| 10_000_000 + (index * 7_919_113) % 2_000_000 - 1_000_000)
        .collect()
}

fn record(gaps: &[u64]) -> RequestRecord {
    let start = Nanos(1_234_567_890_123);
    let after = |micros| start + Nanos::from_micros(micros);
    let first_content = after(100_000);
    RequestRecord {
        phase: PhaseId(1),
        core: CoreId(0),
        outcome: Outcome::Success,
        sequence: 4711,
        session: 0,
        image: 11,
        history_tokens: Some(0),
        history_bytes: 0,
        error: 0,
        status: 200,
        connection_reused: true,
        resent: false,
        missing_done: false,
        intended: start,
        issued: start,
        start: after(3),
        connected: Nanos::ZERO,
        send_end: after(12),
        first_body: after(99_000),
        head: after(99_000),
        first_content,
        first_output: first_content,
        last_content: first_content + Nanos(gaps.iter().sum()),
        end: after(500_000),
        content_events: GAPS as u32 + 1,
        bytes_sent: 900,
        bytes_received: 7_000,
        chunks_received: 35,
        usage: Usage {
            prompt_tokens: Some(128),
            completion_tokens: Some(33),
            total_tokens: Some(161),
            ..Usage::default()
        },
        gaps: Vec::new(),
        transcript: None,
        trace: None,
    }
}

/// The values that a core counts for a streamed success on a reused connection.
fn count(histograms: &mut PhaseHistograms, path: &RecordPath, kept: &Kept, record: &RequestRecord) {
    let latency = record.last_content.since(record.start);
    let first = record.first_content.since(record.start);
    for (family, value) in [
        (Family::SendLag, record.start.since(record.intended).0),
        (Family::RequestLatency, latency.0),
        (Family::TimeToFirstToken, first.0),
        (Family::FullDecodeDuration, record.end.since(record.first_content).0),
        (Family::InterTokenLatency, latency.since(first).0 / GAPS as u64),
        (Family::InputTokens, 128),
        (Family::OutputTokens, 33),
    ] {
        histograms.record(family, black_box(value));
    }
    let mut gaps = path.gaps(kept);
    if let Some(second) = gaps.next() {
        histograms.record(Family::TimeToSecondToken, second);
        histograms.record(Family::InterChunkLatency, second);
        gaps.for_each(|gap| histograms.record(Family::InterChunkLatency, gap));
    }
}

fn main() {
    let (warm_up, measurement) = harness::criterion_times();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(warm_up)
        .measurement_time(measurement)
        .configure_from_args();
    let mut group = criterion.benchmark_group("record");
    let (gaps, mut path, mut histograms) = (gaps(), RecordPath::default(), PhaseHistograms::new());
    let record = record(&gaps);
    let renew = |path: &mut RecordPath| {
        if path.block().len() > BLOCK_BYTES {
            path.clear();
        }
    };

    group.throughput(Throughput::Elements(1));
    group.bench_function("keep 32 gaps", |bencher| {
        bencher.iter(|| {
            let kept = path.keep(black_box(&gaps));
            path.release(kept);
        });
    });
    let kept = path.keep(&gaps);
    group.bench_function("histograms", |bencher| {
        bencher.iter(|| count(&mut histograms, &path, black_box(&kept), &record));
    });
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            renew(&mut path);
            path.encode(black_box(&record), &kept);
        });
    });
    path.release(kept);
    group.bench_function("all of it", |bencher| {
        bencher.iter(|| {
            renew(&mut path);
            let kept = path.keep(black_box(&gaps));
            count(&mut histograms, &path, &kept, &record);
            path.encode(&record, &kept);
            path.release(kept);
        });
    });

    path.clear();
    let kept = path.keep(&gaps);
    path.encode(&record, &kept);
    let expected = RequestRecord {
        gaps: gaps.clone(),
        ..record
    };
    group.throughput(Throughput::ElementsAndBytes {
        elements: 1,
        bytes: path.block().len() as u64,
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            let read = decode(black_box(path.block()), &mut 0).expect("the record is whole");
            assert_eq!(read.gaps.len(), GAPS);
            read
        });
    });
    assert_eq!(decode(path.block(), &mut 0).expect("the record is whole"), expected);
    group.finish();
    criterion.final_summary();
}
