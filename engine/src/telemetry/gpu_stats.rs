//! Figures of GPUs over spans of time, and what the load cost in energy.

use super::gpu::{ENERGY, GPU_FIELDS, GpuField, GpuHistory, GpuIdentity, POWER, gpu_fields};
use super::span::Span;
use super::stats::{GaugeStats, gauge};

/// What a GPU came to.
#[derive(Debug, Clone)]
pub struct GpuStats<'a> {
    /// Which one it is.
    pub identity: &'a GpuIdentity,
    /// The figures that the exporter knows, in the order of [`gpu_fields`].
    pub figures: Vec<(GpuField, GpuFigure)>,
    /// Joules that it used; from its power where it does not count them.
    joules: Option<f64>,
    /// Its mean power in watts.
    watts: Option<f64>,
}

/// One figure over the time.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuFigure {
    /// By how much it grew.
    Growth(f64),
    /// Of the values that were seen, one for each scrape.
    Distribution {
        /// Their statistics.
        stats: GaugeStats,
        /// How many.
        count: usize,
        /// Their sum.
        sum: f64,
    },
}

/// Every GPU of an exporter over `spans`.
pub fn summarize_gpus<'a>(history: &'a GpuHistory, spans: &[Span]) -> Vec<GpuStats<'a>> {
    let seconds: Option<f64> = spans.iter().map(Span::seconds).sum();
    let of = |(gpu, identity): (usize, &'a GpuIdentity)| {
        let growth = |field: usize| growth(history, gpu, field, spans);
        let seen = |field: usize| -> Vec<f64> {
            let scrapes = spans.iter().flat_map(|span| span.first..=span.last);
            scrapes
                .filter_map(|scrape| history.figure(scrape, gpu, field))
                .collect()
        };
        let figures = gpu_fields().into_iter().enumerate().filter_map(|(at, field)| {
            if field.is_counter {
                return Some((field, GpuFigure::Growth(growth(at)?)));
            }
            let values = seen(at);
            let (count, sum) = (values.len(), values.iter().sum());
            let stats = gauge(values)?;
            Some((field, GpuFigure::Distribution { stats, count, sum }))
        });
        let watts = gauge(seen(POWER)).map(|stats| stats.avg);
        GpuStats {
            identity,
            figures: figures.collect(),
            joules: growth(ENERGY)
                .map(|megajoules| megajoules * 1e6)
                .or_else(|| Some(watts? * seconds?)),
            watts,
        }
    };
    history
        .gpus()
        .iter()
        .enumerate()
        .map(of)
        .filter(|gpu| !gpu.figures.is_empty())
        .collect()
}

/// By how much a counter grew over all spans. One that falls has started anew. `None` if it is in none of the scrapes.
fn growth(history: &GpuHistory, gpu: usize, field: usize, spans: &[Span]) -> Option<f64> {
    debug_assert!(field < GPU_FIELDS);
    let mut total = None;
    for span in spans {
        let mut last = None;
        for value in span.scrapes().filter_map(|scrape| history.figure(scrape, gpu, field)) {
            let grown = match last {
                None => 0.0,
                Some(last) if value >= last => value - last,
                Some(_) => value,
            };
            total = Some(total.unwrap_or(0.0) + grown);
            last = Some(value);
        }
    }
    total
}

/// What the load was, for figures that divide by it; what is missing leaves out the figures that need it.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadFigures {
    /// Seconds of the profiling phases.
    pub seconds: Option<f64>,
    /// Tokens that went in.
    pub input_tokens: Option<f64>,
    /// Tokens that came out.
    pub output_tokens: Option<f64>,
    /// Successful requests.
    pub requests: Option<f64>,
    /// Mean latency of a request in seconds.
    pub latency_s: Option<f64>,
    /// Requests per second.
    pub request_rate: Option<f64>,
    /// Output tokens per second.
    pub output_rate: Option<f64>,
    /// Good requests per second.
    pub goodput: Option<f64>,
    /// Requests at once in the first profiling phase.
    pub concurrency: Option<f64>,
}

/// A figure of what the load cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Efficiency {
    /// Its key in artifacts.
    pub tag: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
}

/// What all GPUs together used, and what the load got for it. Empty without GPUs that say what they use.
pub fn efficiency(gpus: &[GpuStats<'_>], load: &LoadFigures) -> Vec<Efficiency> {
    let sum = |of: fn(&GpuStats<'_>) -> Option<f64>| {
        let mut known = gpus.iter().filter_map(of).peekable();
        known.peek()?;
        Some(known.sum::<f64>())
    };
    let (joules, total_watts) = (sum(|gpu| gpu.joules), sum(|gpu| gpu.watts));
    let watts = ratio(joules, load.seconds);
    let tokens = load
        .input_tokens
        .zip(load.output_tokens)
        .map(|(input, output)| input + output);
    let per = |amount: Option<f64>| ratio(joules, amount);
    let milli = |joules: Option<f64>| joules.map(|joules| joules * 1e3);
    let per_request = per(load.requests);
    let figures = [
        ("nvidia_total_gpu_power", "Total GPU Power", "W", total_watts),
        ("nvidia_average_gpu_power", "Average GPU Power", "W", watts),
        ("nvidia_total_gpu_energy", "Total GPU Energy", "J", joules),
        (
            "nvidia_output_tokens_per_joule",
            "Output Tokens per Joule",
            "tokens/J",
            ratio(load.output_tokens, joules),
        ),
        (
            "nvidia_energy_per_output_token",
            "Energy per Output Token",
            "mJ/token",
            milli(per(load.output_tokens)),
        ),
        (
            "nvidia_energy_per_total_token",
            "Energy per Total Token",
            "mJ/token",
            milli(per(tokens)),
        ),
        (
            "nvidia_energy_per_request",
            "Energy per Request",
            "joules/request",
            per_request,
        ),
        (
            "nvidia_energy_per_user",
            "Energy per User",
            "joules/user",
            per(load.concurrency),
        ),
        (
            "nvidia_energy_delay_product",
            "Energy Delay Product",
            "J*s",
            per_request
                .zip(load.latency_s)
                .map(|(joules, seconds)| joules * seconds),
        ),
        (
            "nvidia_performance_per_watt",
            "Performance per Watt",
            "requests/sec/W",
            ratio(load.request_rate, watts),
        ),
        (
            "nvidia_output_tps_per_watt",
            "Output Tokens per Second per Watt",
            "tokens/sec/W",
            ratio(load.output_rate, watts),
        ),
        (
            "nvidia_goodput_per_watt",
            "Goodput per Watt",
            "requests/sec/W",
            ratio(load.goodput, watts),
        ),
    ];
    let known = figures.into_iter();
    known
        .filter_map(|(tag, title, unit, value)| {
            value.map(|value| Efficiency {
                tag,
                title,
                unit,
                value,
            })
        })
        .collect()
}

/// `None` unless both are known and there is something to divide by.
fn ratio(amount: Option<f64>, by: Option<f64>) -> Option<f64> {
    let (amount, by) = amount.zip(by)?;
    (by > 0.0).then(|| amount / by).filter(|ratio| ratio.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::exposition::parse;
    use super::super::scraper::{Answer, Keep as _};
    use super::super::span::Lifetime;
    use super::*;
    use crate::units::Nanos;

    /// One answer each second, watts and millijoules of each GPU.
    fn history(answers: &[&[(f64, Option<f64>)]]) -> GpuHistory {
        let mut history = GpuHistory::default();
        for (second, gpus) in (0..).zip(answers) {
            let mut text = String::new();
            for (gpu, (watts, millijoules)) in gpus.iter().enumerate() {
                let labels = format!("gpu=\"{gpu}\",UUID=\"u{gpu}\"");
                text.push_str(&format!("DCGM_FI_DEV_POWER_USAGE{{{labels}}} {watts}\n"));
                if let Some(millijoules) = millijoules {
                    text.push_str(&format!(
                        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {millijoules}\n"
                    ));
                }
            }
            history.keep(Nanos::from_secs(second), Nanos::from_secs(second), Answer(parse(&text)));
        }
        history
    }

    fn whole(history: &GpuHistory) -> Vec<Span> {
        let phase = Lifetime {
            start: Nanos::from_millis(1),
            end: history.scrapes().last().expect("a scrape").answered,
        };
        Span::choose(history.scrapes(), phase, &[phase]).into_iter().collect()
    }

    fn value(figures: &[Efficiency], tag: &str) -> Option<f64> {
        figures
            .iter()
            .find(|figure| figure.tag == tag)
            .map(|figure| figure.value)
    }

    #[test]
    fn a_counter_has_its_growth_and_a_gauge_its_values() {
        let history = history(&[
            &[(100.0, Some(5_000.0))],
            &[(200.0, Some(105_000.0))],
            &[(300.0, Some(305_000.0))],
            &[(100.0, Some(605_000.0))],
        ]);
        let gpus = summarize_gpus(&history, &whole(&history));
        let [
            (power, GpuFigure::Distribution { stats, count, sum }),
            (energy, GpuFigure::Growth(grown)),
        ] = &gpus[0].figures[..]
        else {
            panic!("{gpus:?}")
        };
        assert_eq!(
            (power.key, energy.key),
            ("nvidia_power_usage", "nvidia_energy_consumption")
        );
        assert_eq!((stats.avg, *count, *sum), (250.0, 2, 500.0));
        assert!((grown - 6e-4).abs() < 1e-12, "600 J: {grown}");
    }

    #[test]
    fn energy_is_that_of_all_gpus_and_from_their_power_where_they_do_not_count_it() {
        let history = history(&[
            &[(200.0, Some(0.0)), (50.0, None)],
            &[(200.0, Some(200_000.0)), (50.0, None)],
            &[(200.0, Some(400_000.0)), (50.0, None)],
        ]);
        let gpus = summarize_gpus(&history, &whole(&history));
        let load = LoadFigures {
            seconds: Some(2.0),
            output_tokens: Some(1_000.0),
            input_tokens: Some(3_000.0),
            requests: Some(100.0),
            latency_s: Some(0.5),
            concurrency: Some(4.0),
            ..LoadFigures::default()
        };
        let figures = efficiency(&gpus, &load);
        let energy = value(&figures, "nvidia_total_gpu_energy").expect("joules");
        assert!((energy - 500.0).abs() < 0.1, "{energy}");
        for (tag, expected) in [
            ("nvidia_total_gpu_power", 250.0),
            ("nvidia_average_gpu_power", energy / 2.0),
            ("nvidia_energy_per_output_token", energy),
            ("nvidia_energy_per_total_token", energy / 4.0),
            ("nvidia_energy_per_request", energy / 100.0),
            ("nvidia_energy_per_user", energy / 4.0),
            ("nvidia_energy_delay_product", energy / 200.0),
        ] {
            let found = value(&figures, tag).expect(tag);
            assert!((found - expected).abs() < 1e-9 * expected, "{tag}: {found}");
        }
        assert_eq!(
            value(&figures, "nvidia_performance_per_watt"),
            None,
            "no rate, no figure"
        );
    }

    #[test]
    fn without_gpus_there_is_nothing() {
        assert!(efficiency(&[], &LoadFigures::default()).is_empty());
    }
}
