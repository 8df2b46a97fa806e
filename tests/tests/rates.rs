//! Rates end to end: distributions, ramps and series on intended starts, which the machine's noise cannot touch, and arrivals that are dropped.

use std::fs;
use std::time::Duration;

use ringload_engine::plan::{RampPlan, RampStrategy, RatePlan};
use ringload_engine::units::Nanos;
use ringload_tests::books::Books;
use ringload_tests::program::{Workplace, config};
use ringload_tests::statistics::{deviation, mean, most_open};
use ringload_tests::{Phase, Record, Run, Scenario, mock};
use serde_json::Value;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// When requests of a phase were wanted, in seconds since its start, in order.
fn intended(run: &Run, phase: &str) -> Vec<f64> {
    let start = run.phase(phase).start_ns;
    let mut records = run.records_of(phase);
    records.sort_by_key(|record| record.metadata.session_num);
    let offset = |record: &&Record| (record.ringload.intended_start_ns - start) as f64 / 1e9;
    let times: Vec<f64> = records.iter().map(offset).collect();
    assert!(
        times.is_sorted(),
        "{phase}: requests are numbered in the order of the schedule"
    );
    times
}

/// Gaps between arrivals in units of their mean, the first since the start of the phase.
fn gaps(times: &[f64], integral: impl Fn(f64) -> f64) -> Vec<f64> {
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(times.iter().map(|&time| integral(time)))
        .collect();
    sums.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The gamma distribution with mean 1 and a whole shape, which has a closed form: that of Erlang.
fn erlang(shape: u32) -> impl Fn(f64) -> f64 {
    move |gap| {
        let x = f64::from(shape) * gap;
        let terms = (1..shape).scan(1.0, |term, n| {
            *term *= x / f64::from(n);
            Some(*term)
        });
        1.0 - (-x).exp() * (1.0 + terms.sum::<f64>())
    }
}

/// The gamma distribution with mean 1 and shape 1/4 from its series (DLMF 8.7.1), which converges at once for the gaps that occur.
fn quarter_gamma(gap: f64) -> f64 {
    // Gamma(5/4).
    const GAMMA: f64 = 0.906_402_477_055_477;
    let x = gap / 4.0;
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..200 {
        term *= x / (0.25 + f64::from(n));
        sum += term;
    }
    x.powf(0.25) * (-x).exp() * sum / GAMMA
}

/// Asserts that a sample is of this distribution (Kolmogorov-Smirnov at the level of 0.1 %) and that neighbours do not correlate.
/// Gaps below `resolution` are not told apart, only counted.
fn assert_drawn_from(gaps: &[f64], resolution: f64, distribution: impl Fn(f64) -> f64, what: &str) {
    let mut sorted = gaps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let distance = sorted
        .iter()
        .enumerate()
        .filter(|&(_, &gap)| gap >= resolution)
        .map(|(rank, &gap)| {
            let expected = distribution(gap);
            (expected - rank as f64 / count)
                .abs()
                .max(((rank + 1) as f64 / count - expected).abs())
        })
        .fold(0.0, f64::max);
    assert!(distance < 1.949 / count.sqrt(), "{what}: distance {distance}");
    let (mean, deviation) = (mean(gaps), deviation(gaps));
    let products: f64 = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = products / (count * deviation * deviation);
    assert!(
        correlation.abs() < 4.0 / count.sqrt(),
        "{what}: correlation {correlation}"
    );
}

fn assert_exponential(gaps: &[f64], what: &str) {
    assert_drawn_from(gaps, 0.0, erlang(1), what);
}

#[test]
fn the_distributions_have_their_known_values() {
    for gap in [0.01, 0.3, 1.0, 4.0, 9.0] {
        assert!((erlang(1)(gap) - (1.0 - (-gap).exp())).abs() < 1e-13, "{gap}");
        // 1 - (1 + 2x) exp(-2x).
        let second = 1.0 - (1.0 + 2.0 * gap) * (-2.0 * gap).exp();
        assert!((erlang(2)(gap) - second).abs() < 1e-13, "{gap}");
    }
    // Most gaps are far below their mean, and some far above it.
    assert!(quarter_gamma(0.0).abs() < 1e-13 && (quarter_gamma(120.0) - 1.0).abs() < 1e-9);
    assert!(quarter_gamma(1.0) > 0.7, "{}", quarter_gamma(1.0));
}

/// Asserts that the last of `times` came when it was to be expected, within three standard deviations; `variance` is that of a gap.
fn assert_pace(times: &[f64], rate: f64, variance: f64, what: &str) {
    let count = times.len() as f64;
    let off = times[times.len() - 1] * rate - count;
    assert!(
        off.abs() < 3.0 * (count * variance).sqrt(),
        "{what}: {off} of {count} arrivals off"
    );
}

fn figure(summary: &Value, path: &str) -> u64 {
    let value = summary.pointer(path).unwrap_or(&Value::Null);
    value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
}

/// Arrivals of a phase: scheduled, sent, dropped and unsent.
fn arrivals(summary: &Value) -> [u64; 4] {
    ["scheduled", "sent", "dropped", "unsent"].map(|word| figure(summary, &format!("/ringload/arrivals_{word}")))
}

/// Asserts the number of arrivals of a phase that ended by its duration. One that is due a moment before the end may find the client late, and is
/// then counted as unsent.
fn assert_all_due_were_sent(run: &Run, phase: &str, expected: u64) {
    let [scheduled, sent, dropped, unsent] = arrivals(&run.summary(phase));
    assert_eq!((scheduled, dropped), (expected, 0), "{phase}");
    assert_eq!(sent, run.records_of(phase).len() as u64, "{phase}");
    assert!(unsent < 10, "{phase}: {unsent} of {expected} arrivals were not sent");
}

#[test]
fn s51_a_constant_rate_of_50_sends_199_requests_in_4_seconds_from_20_ms_on() {
    let server = mock(|_| {});
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 50.0).lasting(ms(4_000)))
        .run();
    Books::complete(&run, &server);
    let times = intended(&run, "load");
    assert_eq!(times[0], 0.02);
    assert!(gaps(&times, |t| t).iter().all(|gap| (gap - 0.02).abs() < 2e-9));
    assert_all_due_were_sent(&run, "load", 199);
}

/// Three phases of these arrivals at a rate, one behind the other, on this many cores; each is put to its distribution.
fn assert_distributions(cores: u16, rate: f64, requests: u64) -> Vec<Vec<f64>> {
    let server = mock(|options| options.fast = true);
    let run = Scenario::new(server.address())
        .cores(cores)
        .phase(Phase::poisson("poisson", rate).requests(requests))
        .phase(Phase::gamma("smooth", rate, 4.0).requests(requests))
        .phase(Phase::gamma("bursty", rate, 0.25).requests(requests))
        .run();
    Books::complete(&run, &server);
    let check = |phase: &str, shape: f64, distribution: &dyn Fn(f64) -> f64| {
        let what = format!("{phase} at {rate}/s on {cores} cores");
        let times = intended(&run, phase);
        assert_eq!(times.len() as u64, requests, "{what}");
        assert_pace(&times, rate, 1.0 / shape, &what);
        let gaps = gaps(&times, |t| rate * t);
        let count = gaps.len() as f64;
        // Intended starts are whole nanoseconds, and one in twenty gaps within bursts of 20,000 a second is shorter than one.
        assert_drawn_from(&gaps, 10.0 * rate / 1e9, distribution, &what);
        let (coefficient, expected) = (deviation(&gaps) / mean(&gaps), 1.0 / shape.sqrt());
        // The variance of a gap's square is 2 / shape^2 + 6 / shape^3.
        let tolerance = 4.0 * expected * ((0.5 + 1.5 / shape) / count).sqrt();
        assert!(
            (coefficient - expected).abs() < tolerance,
            "{what}: coefficient {coefficient}"
        );
        times
    };
    vec![
        check("poisson", 1.0, &erlang(1)),
        check("smooth", 4.0, &erlang(4)),
        check("bursty", 0.25, &quarter_gamma),
    ]
}

#[test]
fn s52_poisson_and_gamma_gaps_keep_their_distribution_on_the_way_to_the_records() {
    assert_eq!(assert_distributions(1, 200.0, 600), assert_distributions(2, 200.0, 600));
}

#[test]
fn s53_a_schedule_of_20_000_a_second_is_one_process_over_all_cores() {
    assert_eq!(
        assert_distributions(1, 20_000.0, 10_000),
        assert_distributions(2, 20_000.0, 10_000),
        "cores share the schedule, they do not change it"
    );
}

#[test]
fn the_integral_of_the_rate_is_what_is_sent() {
    let server = mock(|options| options.fast = true);
    let rising = RatePlan::series(&[(0.0, 100.0), (2.0, 300.0)]);
    let ramped = RatePlan::constant(400.0).ramped(RampPlan {
        duration: Nanos::from_secs(2),
        strategy: RampStrategy::Exponential,
    });
    let run = Scenario::new(server.address())
        .cores(2)
        .phase(Phase::constant("even", 1.0).at(rising.clone()).lasting(ms(2_000)))
        .phase(Phase::poisson("series", 1.0).at(rising).lasting(ms(2_000)))
        .phase(Phase::poisson("ramp", 1.0).at(ramped).lasting(ms(2_500)))
        .run();
    Books::complete(&run, &server);
    let series = |t: f64| 100.0 * t + 50.0 * t * t;
    // From a twentieth of 400 on, with the square of the time.
    let ramp = |t: f64| {
        let inside = t.min(2.0);
        20.0 * inside + 380.0 / 4.0 * inside.powi(3) / 3.0 + 400.0 * (t - inside)
    };
    let even = intended(&run, "even");
    // The last of 400 would be due at the end.
    assert_all_due_were_sent(&run, "even", 399);
    for (k, &time) in (1..).zip(&even) {
        assert!((series(time) - f64::from(k)).abs() < 1e-6, "arrival {k} at {time}");
    }
    for (phase, integral, until) in [
        ("series", &series as &dyn Fn(f64) -> f64, 2.0),
        ("ramp", &ramp as &dyn Fn(f64) -> f64, 2.5),
    ] {
        let times = intended(&run, phase);
        let scheduled = arrivals(&run.summary(phase))[0];
        assert_all_due_were_sent(&run, phase, scheduled);
        let (count, expected) = (scheduled as f64, integral(until));
        assert!(
            (count - expected).abs() < 3.0 * expected.sqrt(),
            "{phase}: {count} of {expected}"
        );
        assert_exponential(&gaps(&times, integral), phase);
    }
}

#[test]
fn arrivals_that_find_no_slot_to_the_end_are_dropped_if_that_is_wanted() {
    for cores in [1, 2] {
        let server = mock(|options| options.ttft = ms(2_000));
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::constant("load", 100.0).capped(4).dropping().lasting(ms(500)))
            .run();
        // Due at 10, 20, ..., 490 ms: 49 arrivals, of which 4 found a slot.
        assert_eq!(arrivals(&run.summary("load")), [49, 4, 45, 0], "{cores} cores");
        let said = "phase load: dropped 45 arrivals that found no slot";
        assert!(
            run.outcome.warnings.iter().any(|line| line.starts_with(said)),
            "{:?}",
            run.outcome.warnings
        );
        Books::complete(&run, &server);
    }
}

#[test]
fn requests_are_exact_whatever_is_dropped_on_the_way() {
    for cores in [1, 2] {
        let server = mock(|options| {
            options.ttft = ms(20);
            options.osl = Some(1);
        });
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::poisson("load", 500.0).capped(3).dropping().requests(60))
            .phase(Phase::closed("next", 2).requests(10))
            .run();
        let books = Books::complete(&run, &server);
        assert_eq!(books.matched.len(), 70);
        let [scheduled, sent, dropped, unsent] = arrivals(&run.summary("load"));
        assert_eq!((sent, unsent, scheduled), (60, 0, 60 + dropped), "{cores} cores");
        assert!(
            dropped > 60,
            "three slots of 20 ms serve no 500 arrivals a second, and {dropped} were dropped"
        );
        let mut numbers: Vec<u64> = run
            .records_of("load")
            .iter()
            .map(|record| record.metadata.session_num)
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..60), "{cores} cores");
        // 60 requests took the 16 entries of the data set in order, and the next phase goes on behind them.
        let conversations = |phase: &str| {
            let mut records = run.records_of(phase);
            records.sort_by_key(|record| record.metadata.session_num);
            records
                .iter()
                .map(|record| record.metadata.conversation_id.clone())
                .collect::<Vec<_>>()
        };
        let (load, next) = (conversations("load"), conversations("next"));
        assert_eq!((&load[16..32], &load[48]), (&load[..16], &load[0]));
        assert_eq!((&next[0], &next[4]), (&load[12], &load[0]));
    }
}

#[test]
fn an_arrival_is_dropped_if_and_only_if_every_slot_is_taken() {
    let server = mock(|options| {
        options.ttft = ms(33);
        options.osl = Some(1);
    });
    let cap = 3;
    let run = Scenario::new(server.address())
        .phase(Phase::constant("load", 200.0).capped(cap).dropping().requests(80))
        .run();
    Books::complete(&run, &server);
    let start = run.phase("load").start_ns;
    let records = run.records_of("load");
    // A slot is taken from the time of the arrival that got it until the core saw its request end.
    let taken: Vec<(u64, u64)> = records
        .iter()
        .map(|record| (record.ringload.intended_start_ns, record.metadata.request_end_ns))
        .collect();
    let last = taken.iter().map(|&(at, _)| at).max().expect("requests");
    let schedule: Vec<u64> = (1u64..)
        .map(|k| start + 5_000_000 * k)
        .take_while(|&at| at <= last)
        .collect();
    let mut dropped = 0;
    for &at in &schedule {
        let others = taken.iter().filter(|&&(from, until)| from < at && at < until).count();
        if taken.iter().any(|&(from, _)| from == at) {
            assert!(others < cap as usize, "the arrival at {at} got a slot that was taken");
        } else {
            assert_eq!(
                others, cap as usize,
                "the arrival at {at} was dropped although a slot was free"
            );
            dropped += 1;
        }
    }
    assert_eq!(arrivals(&run.summary("load")), [schedule.len() as u64, 80, dropped, 0]);
    assert!(dropped > 20, "{dropped}");
}

#[test]
fn arrivals_that_find_no_prefill_slot_are_dropped_too() {
    for cores in [1, 2] {
        // A prefill takes six gaps, the rest of the answer much longer, and it holds nothing back.
        let server = mock(|options| {
            options.ttft = ms(60);
            options.itl = ms(20);
            options.osl = Some(20);
        });
        let run = Scenario::new(server.address())
            .cores(cores)
            .phase(Phase::constant("load", 100.0).prefilling(1).dropping().requests(6))
            .run();
        Books::complete(&run, &server);
        let [scheduled, sent, dropped, unsent] = arrivals(&run.summary("load"));
        assert_eq!((sent, unsent, scheduled), (6, 0, 6 + dropped), "{cores} cores");
        assert!(dropped >= 15, "five prefills of six gaps, and {dropped} were dropped");
        let times = intended(&run, "load");
        let in_prefill: Vec<(u64, u64)> = run
            .records_of("load")
            .iter()
            .map(|record| {
                let first = record.metric_ns("time_to_first_token").expect("it succeeded");
                (
                    record.metadata.request_start_ns,
                    record.metadata.request_start_ns + first,
                )
            })
            .collect();
        assert_eq!(most_open(&in_prefill), 1, "{cores} cores");
        assert!(times[5] < 0.47 * 5.0, "answers hold nothing back: {times:?}");
    }
}

#[test]
fn a_file_with_every_key_of_rates_runs_from_the_config_to_the_artifacts() {
    let server = mock(|options| options.fast = true);
    let phases = "    - {name: warmup, type: constant, rate: 200, rate_ramp: 500ms, requests: 20}\n    \
                  - {name: file, kind: profiling, type: gamma, smoothness: 2, rate_series: {path: rates.json}, duration: 1s}\n    \
                  - {name: ramp, kind: profiling, type: poisson, rateSeries: {points: [{timeS: 200ms, qps: 100}, {timeS: 0.5, qps: 300}]}, \
                     rateRamp: {duration: 400ms, strategy: poisson}, duration: 1s}\n    \
                  - {name: drop, kind: profiling, type: constant, rate: 400, concurrency: 1, on_cap: drop, requests: 10}\n";
    let workplace = Workplace::new(&config(&server.url(), phases));
    fs::write(
        workplace.path("rates.json"),
        r#"[{"time_s": 0, "qps": 50}, {"time_s": "1000ms", "qps": 350}]"#,
    )
    .expect("a file of rates");
    workplace.profile(&[]).expect(0);
    let summary = |phase: &str| -> Value {
        let text = fs::read(workplace.path(&format!("results/phases/{phase}/profile_export_aiperf.json")));
        serde_json::from_slice(&text.expect("a summary")).expect("JSON")
    };
    // 200 on average, at half the variance of a Poisson process; three standard deviations are 30.
    let [scheduled, sent, dropped, unsent] = arrivals(&summary("file"));
    assert!((170..=230).contains(&scheduled), "{scheduled}");
    assert_eq!((scheduled, dropped), (sent + unsent, 0));
    let [scheduled, ..] = arrivals(&summary("ramp"));
    // 25 to 100 in the ramp on average, 0.2 s at 100, 0.3 s up to 300, and 0.1 s at 300: 135; a count below 60 or above 230 is an error.
    assert!((60..=230).contains(&scheduled), "{scheduled}");
    assert_eq!(arrivals(&summary("drop"))[1], 10);
    let root = workplace.root();
    let echo = &root["input_config"]["phases"];
    assert_eq!(echo[1]["rate_series"]["points"][1]["qps"], 350.0);
    assert_eq!(echo[2]["rate_ramp"]["strategy"], "poisson");
    assert_eq!(root["ringload"]["input_config"]["phases"]["drop"]["on_cap"], "drop");
}
