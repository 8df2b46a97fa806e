//! The verdict on the client: each rule at its limit, and what may not trip any.

use super::validity::{ClientFigures, ClientReport, Spread, Verdict};
use crate::record::{CoreWindow, Family, PhaseHistograms};
use crate::units::Nanos;

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn spread(p99: Nanos) -> Option<Spread> {
    Some(Spread {
        count: 10_000,
        p50: Nanos(p99.0 / 10),
        p99,
        max: Nanos(2 * p99.0),
    })
}

/// A client as it should be, against a server that takes 20 ms to the first token.
fn quiet() -> ClientFigures {
    ClientFigures {
        lag: spread(us(450)),
        unseen: spread(us(200)),
        oversleep: spread(us(400)),
        stall: ms(4),
        latency_p50: Some(ms(20)),
        busy_share: Some(0.4),
        starved_mean: Some(us(40)),
        others_share: Some(0.1),
        connections_opened: 200,
        buffer_shortages: 3,
        resends: 1,
        ..ClientFigures::default()
    }
}

/// Verdict and deciding figure.
fn judged(figures: ClientFigures) -> (Verdict, &'static str) {
    let report = ClientReport::new(figures);
    (report.verdict(), report.deciding().map_or("", |finding| finding.figure))
}

#[test]
fn a_client_that_kept_pace_is_valid_and_so_is_one_that_did_nothing() {
    assert_eq!(judged(quiet()), (Verdict::Valid, ""));
    assert_eq!(judged(ClientFigures::default()), (Verdict::Valid, ""));
}

#[test]
fn each_rule_trips_above_its_limit_and_not_at_it() {
    use Verdict::{Invalid, Suspect, Valid};
    type Change = fn(&mut ClientFigures);
    let cases: &[(Verdict, &str, Change)] = &[
        (Valid, "", |f| f.lag = spread(ms(2))),
        (Suspect, "lag_p99_ms", |f| f.lag = spread(us(2_001))),
        (Suspect, "lag_p99_ms", |f| f.lag = spread(ms(10))),
        (Invalid, "lag_p99_ms", |f| f.lag = spread(us(10_001))),
        (Valid, "", |f| f.unseen = spread(ms(2))),
        (Suspect, "unseen_p99_ms", |f| f.unseen = spread(us(2_001))),
        (Invalid, "unseen_p99_ms", |f| f.unseen = spread(us(10_001))),
        (Valid, "", |f| f.late_share = 0.001),
        (Suspect, "late_share", |f| f.late_share = 0.0011),
        (Valid, "", |f| f.stall = ms(250)),
        (Suspect, "stall_ms", |f| f.stall = us(250_001)),
        (Valid, "", |f| f.busy_share = Some(0.9)),
        (Suspect, "busy_share", |f| f.busy_share = Some(0.91)),
        (Suspect, "busy_share", |f| f.busy_share = Some(1.0)),
        (Valid, "", |f| f.others_share = Some(0.33)),
        (Suspect, "others_share", |f| f.others_share = Some(0.34)),
        (Suspect, "others_share", |f| f.others_share = Some(1.0)),
        (Valid, "", |f| f.starved_mean = Some(ms(1))),
        (Suspect, "starved_mean_ms", |f| f.starved_mean = Some(us(1_001))),
        (Invalid, "starved_mean_ms", |f| f.starved_mean = Some(us(5_001))),
        (Valid, "", |f| f.unsent_share = 0.001),
        (Suspect, "unsent_share", |f| f.unsent_share = 0.0011),
        (Suspect, "unsent_share", |f| f.unsent_share = 0.01),
        (Invalid, "unsent_share", |f| f.unsent_share = 0.011),
        (Suspect, "kept_back", |f| f.kept_back = 1),
        (Suspect, "queue_overflows", |f| f.queue_overflows = 1),
        (Suspect, "journal_waits", |f| f.journal_waits = 1),
        (Invalid, "local_ports_exhausted", |f| f.local_ports_exhausted = 1),
        (Invalid, "descriptors_exhausted", |f| f.descriptors_exhausted = 1),
        (Valid, "", |f| f.buffer_shortages = 1_000_000),
        (Valid, "", |f| f.resends = 1_000_000),
        (Valid, "", |f| f.oversleep = spread(ms(100))),
    ];
    for (at, (verdict, figure, change)) in cases.iter().enumerate() {
        let mut figures = quiet();
        change(&mut figures);
        assert_eq!(judged(figures), (*verdict, *figure), "case {at}");
    }
}

#[test]
fn a_busy_core_is_invalid_only_if_arrivals_waited_for_it() {
    let mut figures = quiet();
    figures.latency_p50 = Some(ms(500));
    figures.busy_share = Some(0.99);
    figures.unseen = spread(ms(5));
    assert_eq!(judged(figures.clone()), (Verdict::Suspect, "busy_share"));
    figures.unseen = spread(us(5_001));
    assert_eq!(judged(figures.clone()), (Verdict::Invalid, "busy_share"));
    figures.busy_share = Some(0.98);
    assert_eq!(judged(figures), (Verdict::Suspect, "busy_share"));
}

#[test]
fn what_is_late_depends_on_how_fast_the_server_is() {
    let with = |latency: Option<Nanos>, lag: Nanos| {
        judged(ClientFigures {
            latency_p50: latency,
            lag: spread(lag),
            ..ClientFigures::default()
        })
        .0
    };
    // A fast server: a lag below a millisecond harms nobody, one above ten is far more than the latency.
    assert_eq!(with(Some(us(300)), us(990)), Verdict::Valid);
    assert_eq!(with(Some(us(300)), us(1_100)), Verdict::Suspect);
    assert_eq!(with(Some(us(300)), us(10_100)), Verdict::Invalid);
    // A slow one: a tenth and a half of it, within what bends a schedule anyway.
    assert_eq!(with(Some(ms(60)), ms(5)), Verdict::Valid);
    assert_eq!(with(Some(ms(60)), ms(7)), Verdict::Suspect);
    assert_eq!(with(Some(ms(60)), ms(31)), Verdict::Invalid);
    assert_eq!(with(Some(ms(5_000)), ms(11)), Verdict::Suspect);
    assert_eq!(with(Some(ms(5_000)), ms(99)), Verdict::Suspect);
    assert_eq!(with(Some(ms(5_000)), ms(101)), Verdict::Invalid);
    // Nothing succeeded, so there is nothing to compare with.
    assert_eq!(with(None, ms(9)), Verdict::Valid);
    assert_eq!(with(None, ms(101)), Verdict::Invalid);
}

#[test]
fn the_worst_rule_decides_and_causes_come_before_effects() {
    let report = ClientReport::new(ClientFigures {
        others_share: Some(0.9),
        starved_mean: Some(us(1_500)),
        lag: spread(ms(40)),
        late_share: 0.2,
        stall: ms(500),
        ..quiet()
    });
    let figures: Vec<(Verdict, &str)> = report
        .findings
        .iter()
        .map(|finding| (finding.verdict, finding.figure))
        .collect();
    use Verdict::{Invalid, Suspect};
    assert_eq!(
        figures,
        [
            (Invalid, "lag_p99_ms"),
            (Suspect, "stall_ms"),
            (Suspect, "others_share"),
            (Suspect, "starved_mean_ms"),
            (Suspect, "late_share"),
        ]
    );
}

#[test]
fn a_finding_says_what_happened_and_what_to_do() {
    let text = |figures: ClientFigures| ClientReport::new(figures).deciding().expect("a finding").to_string();
    assert_eq!(
        text(ClientFigures {
            others_share: Some(0.874),
            ..quiet()
        }),
        "87.4 % of the time others had the processor of a core (limit 33.3 %); keep other programs, the server included, off the processors of \
         the cores"
    );
    assert_eq!(
        text(ClientFigures {
            descriptors_exhausted: 12,
            ..quiet()
        }),
        "12 connections failed because this process had no file descriptor left; raise the limit (ulimit -n)"
    );
    assert!(
        text(ClientFigures {
            stall: us(487_250),
            ..quiet()
        })
        .starts_with("487.250 ms was the longest time in which the client did not run (limit 250.000 ms); ")
    );
}

fn window(wall: Nanos, cpu: Nanos) -> CoreWindow {
    CoreWindow {
        wall,
        cpu,
        ..CoreWindow::default()
    }
}

const CLOSED_LOOP: (u64, u64, bool) = (100, 0, false);

#[test]
fn figures_of_cores_are_those_of_the_core_that_is_worst_off() {
    let cores = [
        CoreWindow {
            starved: Some(ms(10)),
            runs: 100,
            others: Some(ms(100)),
            kept_back: 1,
            ..window(ms(1_000), ms(300))
        },
        CoreWindow {
            spun: ms(450),
            starved: Some(ms(40)),
            runs: 100,
            others: Some(ms(600)),
            kept_back: 2,
            ..window(ms(1_000), ms(950))
        },
    ];
    let figures = ClientFigures::of(&PhaseHistograms::new(), &cores, ms(3), CLOSED_LOOP);
    assert_eq!(figures.busy_share, Some(0.5));
    assert_eq!(figures.starved_mean, Some(us(400)));
    assert_eq!(figures.others_share, Some(0.6));
    assert_eq!((figures.kept_back, figures.stall), (3, ms(3)));
}

#[test]
fn what_was_too_short_to_measure_is_left_out() {
    let short = CoreWindow {
        starved: Some(ms(40)),
        runs: 19,
        others: Some(ms(90)),
        ..window(ms(99), ms(99))
    };
    let unknown = window(ms(1_000), ms(10));
    let figures = ClientFigures::of(&PhaseHistograms::new(), &[short], Nanos::ZERO, CLOSED_LOOP);
    assert_eq!(
        (figures.busy_share, figures.starved_mean, figures.others_share),
        (None, None, None)
    );
    let figures = ClientFigures::of(&PhaseHistograms::new(), &[short, unknown], Nanos::ZERO, CLOSED_LOOP);
    assert_eq!(
        (figures.busy_share, figures.starved_mean, figures.others_share),
        (Some(0.01), None, None)
    );
}

#[test]
fn one_late_request_of_a_few_does_not_decide_but_two_do() {
    let lag_of = |late: usize| {
        let mut histograms = PhaseHistograms::new();
        for at in 0..50 {
            let lag = if at < late { ms(30) } else { us(50) };
            histograms.record(Family::ClientLag, lag.0);
        }
        histograms.record(Family::TimeToFirstToken, ms(20).0);
        let figures = ClientFigures::of(&histograms, &[], Nanos::ZERO, CLOSED_LOOP);
        assert_eq!(figures.lag.expect("it has requests").max, ms(30));
        judged(figures).0
    };
    assert_eq!(lag_of(1), Verdict::Valid);
    assert_eq!(lag_of(2), Verdict::Invalid);
}

#[test]
fn a_stall_is_the_longest_silence_that_anyone_noticed() {
    for (family, coordinator, longest) in [
        (Family::Oversleep, ms(10), ms(500)),
        (Family::Unseen, ms(10), ms(500)),
        (Family::Unseen, ms(700), ms(700)),
    ] {
        let mut histograms = PhaseHistograms::new();
        histograms.record(family, ms(500).0);
        let figures = ClientFigures::of(&histograms, &[], coordinator, CLOSED_LOOP);
        assert_eq!(figures.stall, longest);
    }
}

#[test]
fn the_stop_of_half_a_second_in_an_hour_at_fifty_per_second_is_not_valid() {
    let mut histograms = PhaseHistograms::new();
    for at in 0..180_000u64 {
        let late = if at < 25 { 500_000 - at * 20_000 } else { 60 };
        histograms.record(Family::ClientLag, us(late).0);
        histograms.record(Family::TimeToFirstToken, ms(200).0);
    }
    histograms.record(Family::Oversleep, ms(490).0);
    let figures = ClientFigures::of(&histograms, &[], Nanos::ZERO, (180_000, 0, true));
    assert!(figures.late_share < 0.001 && figures.lag.is_some_and(|lag| lag.p99 < ms(1)));
    assert_eq!(judged(figures), (Verdict::Suspect, "stall_ms"));
}

#[test]
fn arrivals_that_a_cap_kept_back_are_not_held_against_the_client() {
    let unsent = |uncapped| {
        let figures = ClientFigures::of(&PhaseHistograms::new(), &[], Nanos::ZERO, (100, 50, uncapped));
        judged(figures)
    };
    assert_eq!(unsent(false), (Verdict::Valid, ""));
    assert_eq!(unsent(true), (Verdict::Invalid, "unsent_share"));
}
