use ringload_benches::plan::{Requests, closed_loop, plan};
use ringload_engine::artifact::RecordLines;
use ringload_engine::clock::WallAnchor;
use ringload_engine::credit::RequestIds;
use ringload_engine::http::format_uuid;
use ringload_engine::id::{CoreId, PhaseId};
use ringload_engine::record::{Outcome, RequestRecord, Usage};
use ringload_engine::report::{Collector, RunEnd};
use ringload_engine::units::Nanos;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n: u64 = a[1].parse().unwrap();
    let tokens: u64 = a[2].parse().unwrap();
    let gap: u64 = a[3].parse().unwrap();
    let what = &a[4];
    let streaming = tokens > 1;
    let plan = plan(
        "127.0.0.1:80".parse().unwrap(),
        Requests {
            streaming,
            input_tokens: 96,
            output_tokens: 32,
        },
        vec![closed_loop(0, "profiling", 64, Some(n))],
        std::path::Path::new("/tmp/pf/x"),
    );
    let anchor = WallAnchor::new(Nanos(5), 1_700_000_000_000_000_000);
    let mut seed = 88172645463325252u64;
    let mut rnd = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if below == 0 { 0 } else { seed % below }
    };
    let mut now = 1_000_000_000_000u64;
    let records: Vec<RequestRecord> = (0..n.min(2000))
        .map(|sequence| {
            now += 7000 + rnd(1000);
            let start = now;
            let first = start + 400_000 + rnd(200_000);
            let gaps: Vec<u64> = (1..tokens).map(|_| rnd(gap)).collect();
            let last = first + gaps.iter().sum::<u64>();
            RequestRecord {
                phase: PhaseId(0),
                core: CoreId(0),
                outcome: Outcome::Success,
                sequence,
                image: (sequence % 16) as u32,
                error: 0,
                status: 200,
                connection_reused: true,
                resent: false,
                missing_done: false,
                intended: Nanos(start - 3000),
                issued: Nanos(start - 3000),
                start: Nanos(start),
                connected: Nanos(0),
                send_end: Nanos(start + 9000 + rnd(9000)),
                first_byte: Nanos(first),
                head: Nanos(first),
                first_content: Nanos(if streaming { first } else { 0 }),
                first_output: Nanos(if streaming { first } else { 0 }),
                last_content: Nanos(last),
                end: Nanos(last),
                content_events: tokens as u32,
                bytes_sent: 900,
                bytes_received: 6000,
                chunks_received: 2,
                usage: Usage {
                    prompt_tokens: Some(96),
                    completion_tokens: Some(32),
                    total_tokens: Some(128),
                    ..Usage::default()
                },
                gaps,
            }
        })
        .collect();
    let ids = RequestIds::new("0123456789ab");
    let text = |(high, low)| format_uuid(high, low);
    let names =
        |phase: PhaseId, sequence: u64| (text(ids.request(phase, sequence)), text(ids.session(phase, sequence)));
    let mut collector = Collector::new(&plan, anchor);
    let t = Instant::now();
    if what.contains('c') {
        for i in 0..n {
            collector.add(&records[i as usize % records.len()], &[]);
        }
    }
    println!("collect {:.3} us each", t.elapsed().as_secs_f64() * 1e6 / n as f64);
    let t = Instant::now();
    if what.contains('w') {
        let lines = RecordLines::new(&plan, anchor);
        let mut out = Vec::new();
        for i in 0..n {
            if out.len() > 1 << 18 {
                out.clear();
            }
            let r = &records[i as usize % records.len()];
            let (a, b) = names(r.phase, r.sequence);
            lines.append(r, &[], (&a, &b), &mut out);
        }
    }
    println!("write {:.3} us each", t.elapsed().as_secs_f64() * 1e6 / n as f64);
    let t = Instant::now();
    if what.contains('f') {
        let r = collector.finish(&[], &RunEnd::Complete);
        println!("{}", r.aggregate.metrics.len());
    }
    println!("finish {:.3} us each", t.elapsed().as_secs_f64() * 1e6 / n as f64);
}
