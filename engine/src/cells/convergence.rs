//! When the trials of a variation agree: figures in, decision out, nothing else. The words for people are here too.

use serde_json::{Value, json};

use super::statistics::{Spread, smirnov_p_value};
use crate::config::{Convergence, ConvergenceMode};

/// What one trial is compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sample {
    /// The statistic of its metric.
    Figure(f64),
    /// The metric of each of its requests.
    Requests(Vec<f64>),
}

/// What the trials of a variation say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// Too few have what is compared: so many.
    TooFew(usize),
    /// Their mean is zero, and no spread is relative to that.
    AroundZero,
    /// They differ by this figure.
    Apart(f64),
    /// They agree: the figure is on the right side of the threshold.
    Converged(f64),
}

impl Verdict {
    pub(super) fn is_converged(self) -> bool {
        matches!(self, Self::Converged(_))
    }

    fn figure(self) -> Option<f64> {
        match self {
            Self::Apart(figure) | Self::Converged(figure) => Some(figure),
            Self::TooFew(_) | Self::AroundZero => None,
        }
    }
}

/// Compares trials, in their order. Samples that are no numbers, and trials with fewer than two requests where requests are compared, do not count.
pub(super) fn compare(rule: &Convergence, confidence: f64, samples: &[&Sample]) -> Verdict {
    match rule.mode {
        ConvergenceMode::CiWidth | ConvergenceMode::Cv => {
            let figure = |sample: &&Sample| match **sample {
                Sample::Figure(figure) => Some(figure).filter(|figure| figure.is_finite()),
                Sample::Requests(_) => None,
            };
            let figures: Vec<f64> = samples.iter().filter_map(figure).collect();
            if figures.len() < rule.min_runs as usize {
                return Verdict::TooFew(figures.len());
            }
            relative_spread(rule, &Spread::of(&figures, confidence))
        }
        ConvergenceMode::Distribution => {
            let requests = |sample: &&Sample| match *sample {
                Sample::Figure(_) => None,
                Sample::Requests(values) => {
                    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
                    Some(finite).filter(|values| values.len() >= 2)
                }
            };
            let mut trials: Vec<Vec<f64>> = samples.iter().filter_map(requests).collect();
            let count = trials.len();
            match trials.pop() {
                Some(mut latest) if count >= rule.min_runs as usize => {
                    let p = smirnov_p_value(&mut trials.concat(), &mut latest);
                    judged(p, p >= rule.threshold)
                }
                _ => Verdict::TooFew(count),
            }
        }
    }
}

fn relative_spread(rule: &Convergence, spread: &Spread) -> Verdict {
    if spread.mean == 0.0 {
        return Verdict::AroundZero;
    }
    let width = match rule.mode {
        ConvergenceMode::CiWidth => spread.ci.1 - spread.ci.0,
        ConvergenceMode::Cv | ConvergenceMode::Distribution => spread.std,
    };
    // Figures may be negative, and a width must not be.
    let figure = width / spread.mean.abs();
    judged(figure, figure <= rule.threshold)
}

fn judged(figure: f64, is_converged: bool) -> Verdict {
    if is_converged {
        Verdict::Converged(figure)
    } else {
        Verdict::Apart(figure)
    }
}

/// The trials of one variation as they come in.
#[derive(Debug, Clone)]
pub(super) struct Trials {
    /// By trial; `None` did not run, failed, or lacks what is compared.
    samples: Vec<Option<Sample>>,
    verdict: Verdict,
    /// Trials that have ended, failed ones included.
    runs: u32,
    /// The trial with which they agreed.
    settled: Option<u32>,
}

impl Trials {
    pub(super) fn new(most: u32) -> Self {
        Self {
            samples: vec![None; most as usize],
            verdict: Verdict::TooFew(0),
            runs: 0,
            settled: None,
        }
    }

    /// Takes a trial that has ended; `sample` is `None` if it failed or lacks what is compared. Says whether they agree now.
    ///
    /// # Panics
    /// If they have agreed before, or there is no such trial.
    pub(super) fn take(&mut self, rule: &Convergence, confidence: f64, trial: u32, sample: Option<Sample>) -> bool {
        assert!(self.settled.is_none(), "trial {trial} after the others agreed");
        self.runs += 1;
        if sample.is_some() {
            self.samples[trial as usize] = sample;
            let samples: Vec<&Sample> = self.samples.iter().flatten().collect();
            self.verdict = compare(rule, confidence, &samples);
            if self.verdict.is_converged() {
                self.settled = Some(trial);
                self.samples.clear();
            }
        }
        self.settled.is_some()
    }

    /// Trials that have ended, failed ones included.
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    /// The trial with which they agreed.
    pub(super) fn settled(&self) -> Option<u32> {
        self.settled
    }

    /// What it came to, for people: one line, without the name of the variation.
    pub(super) fn line(&self, rule: &Convergence, most: u32) -> String {
        let (runs, what, threshold) = (self.runs, what(rule), rule.threshold);
        let is_distribution = rule.mode == ConvergenceMode::Distribution;
        let figure = if is_distribution { "p-value" } else { rule.mode.as_str() };
        match self.verdict {
            Verdict::Converged(value) => {
                let relation = if is_distribution { "at or above" } else { "at or below" };
                format!(
                    "converged after {runs} of at most {most} runs: {what}: {figure} {value:.4}, {relation} the threshold of {threshold}"
                )
            }
            Verdict::Apart(value) => {
                let relation = if is_distribution { "below" } else { "above" };
                format!(
                    "not converged after {runs} of {most} runs: {what}: {figure} {value:.4}, {relation} the threshold of {threshold}"
                )
            }
            Verdict::AroundZero => {
                format!(
                    "not converged after {runs} of {most} runs: {what} has a mean of 0, to which no spread is relative"
                )
            }
            Verdict::TooFew(have) => {
                let need = rule.min_runs;
                format!(
                    "not converged after {runs} of {most} runs: {have} with {what}, and it takes {need} to compare them"
                )
            }
        }
    }

    /// The same for artifacts.
    pub(super) fn to_json(&self, rule: &Convergence, most: u32) -> Value {
        let stat = match rule.mode {
            ConvergenceMode::Distribution => None,
            _ => Some(rule.stat),
        };
        json!({
            "metric": rule.metric,
            "stat": stat,
            "mode": rule.mode.as_str(),
            "threshold": rule.threshold,
            "min_runs": rule.min_runs,
            "max_runs": most,
            "runs": self.runs,
            "figure": self.verdict.figure(),
            "converged": self.verdict.is_converged(),
        })
    }
}

/// What is compared, for people.
pub(super) fn what(rule: &Convergence) -> String {
    match rule.mode {
        ConvergenceMode::Distribution => format!("{} by request", rule.metric),
        _ => format!("{} {}", rule.metric, rule.stat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(mode: ConvergenceMode, threshold: f64) -> Convergence {
        Convergence {
            metric: "request_latency",
            stat: "avg",
            mode,
            threshold,
            min_runs: 2,
        }
    }

    fn of_figures(mode: ConvergenceMode, threshold: f64, figures: &[f64]) -> Verdict {
        let samples: Vec<Sample> = figures.iter().map(|&figure| Sample::Figure(figure)).collect();
        compare(&rule(mode, threshold), 0.95, &samples.iter().collect::<Vec<_>>())
    }

    use ConvergenceMode::{CiWidth, Cv, Distribution};

    #[test]
    fn the_interval_is_compared_with_the_mean() {
        // The interval of 61.57 and 62.76 is 54.64 to 69.69, around 62.17.
        let figures = [61.573_500_041_666_66, 62.758_218_708_333_33];
        let Verdict::Apart(width) = of_figures(CiWidth, 0.10, &figures) else {
            panic!("24 % are more than 10 %")
        };
        assert!((width - 15.053_277_933_434_6 / 62.165_859_375).abs() < 1e-9, "{width}");
        assert!(
            of_figures(CiWidth, width, &figures).is_converged(),
            "the threshold holds"
        );
        assert!(!of_figures(CiWidth, width.next_down(), &figures).is_converged());
        // The same spread over more runs is a narrower interval.
        let more = figures.repeat(4);
        assert!(of_figures(CiWidth, 0.10, &more).is_converged());
    }

    #[test]
    fn the_deviation_is_compared_with_the_mean() {
        // 9, 10, 11: a deviation of 1 around 10.
        assert_eq!(of_figures(Cv, 0.1, &[9.0, 10.0, 11.0]), Verdict::Converged(0.1));
        assert_eq!(of_figures(Cv, 0.09, &[9.0, 10.0, 11.0]), Verdict::Apart(0.1));
        assert_eq!(
            of_figures(Cv, 0.09, &[-9.0, -10.0, -11.0]),
            Verdict::Apart(0.1),
            "no width is negative"
        );
        assert_eq!(of_figures(Cv, 0.0, &[7.0, 7.0]), Verdict::Converged(0.0));
    }

    #[test]
    fn around_zero_nothing_converges() {
        for mode in [CiWidth, Cv] {
            assert_eq!(of_figures(mode, 1.0, &[0.0, 0.0, 0.0]), Verdict::AroundZero);
            assert_eq!(of_figures(mode, 1.0, &[-1.0, 1.0]), Verdict::AroundZero);
        }
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        assert_eq!(of_figures(Cv, 0.1, &[f64::NAN, 5.0, f64::INFINITY]), Verdict::TooFew(1));
        assert_eq!(of_figures(Cv, 0.1, &[5.0, f64::NAN, 5.0]), Verdict::Converged(0.0));
        assert_eq!(of_figures(Cv, 0.1, &[]), Verdict::TooFew(0));
        let strict = Convergence {
            min_runs: 3,
            ..rule(Cv, 0.1)
        };
        let two = [Sample::Figure(5.0), Sample::Figure(5.0)];
        assert_eq!(compare(&strict, 0.95, &[&two[0], &two[1]]), Verdict::TooFew(2));
    }

    #[test]
    fn the_requests_of_the_latest_are_compared_with_those_of_all_before() {
        let requests = |values: &[f64]| Sample::Requests(values.to_vec());
        let of = |threshold: f64, samples: &[Sample]| {
            compare(
                &rule(Distribution, threshold),
                0.95,
                &samples.iter().collect::<Vec<_>>(),
            )
        };
        let (low, high) = (requests(&[1.0, 2.0, 3.0]), requests(&[4.0, 5.0, 6.0]));
        // One of the ten ways to deal six values that separates them so.
        let pair = [low.clone(), high.clone()];
        let about_a_tenth = |p: f64| (p - 0.1).abs() < 1e-12;
        assert!(matches!(of(0.05, &pair), Verdict::Converged(p) if about_a_tenth(p)));
        assert!(matches!(of(0.2, &pair), Verdict::Apart(p) if about_a_tenth(p)));
        let Verdict::Apart(p) = of(0.2, &[low.clone(), low.clone(), high.clone()]) else {
            panic!("the earlier ones are pooled")
        };
        assert!((p - 2.0 / 84.0).abs() < 1e-12, "{p}");
        assert_eq!(of(1.0, &[low.clone(), low.clone()]), Verdict::Converged(1.0));
        assert_eq!(of(0.0, &[low.clone(), requests(&[1.0])]), Verdict::TooFew(1));
        assert_eq!(of(0.0, &[low, requests(&[1.0, f64::NAN])]), Verdict::TooFew(1));
    }

    #[test]
    fn a_trial_that_failed_or_lacks_the_figure_counts_as_a_run_and_not_as_a_sample() {
        let rule = rule(Cv, 0.1);
        let mut trials = Trials::new(4);
        assert!(!trials.take(&rule, 0.95, 0, Some(Sample::Figure(5.0))));
        assert!(!trials.take(&rule, 0.95, 1, None));
        assert_eq!(trials.settled(), None);
        assert!(trials.take(&rule, 0.95, 2, Some(Sample::Figure(5.0))));
        assert_eq!(trials.settled(), Some(2));
        assert_eq!(
            trials.line(&rule, 4),
            "converged after 3 of at most 4 runs: request_latency avg: cv 0.0000, at or below the threshold of 0.1"
        );
        assert_eq!(trials.to_json(&rule, 4)["runs"], 3);
    }

    #[test]
    fn lines_say_what_was_found_and_what_was_wanted() {
        let line = |mode, threshold, samples: &[Option<Sample>]| {
            let rule = rule(mode, threshold);
            let mut trials = Trials::new(2);
            for (trial, sample) in (0..).zip(samples) {
                trials.take(&rule, 0.95, trial, sample.clone());
            }
            trials.line(&rule, 2)
        };
        let figures = |values: [f64; 2]| values.map(|value| Some(Sample::Figure(value)));
        let requests = |values: [[f64; 3]; 2]| values.map(|values| Some(Sample::Requests(values.to_vec())));
        let apart = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        for (line, expected) in [
            (
                line(Cv, 0.01, &figures([9.0, 11.0])),
                "not converged after 2 of 2 runs: request_latency avg: cv 0.1414, above the threshold of 0.01",
            ),
            (
                line(Cv, 0.01, &figures([0.0, 0.0])),
                "not converged after 2 of 2 runs: request_latency avg has a mean of 0, to which no spread is relative",
            ),
            (
                line(CiWidth, 0.01, &[None, Some(Sample::Figure(1.0))]),
                "not converged after 2 of 2 runs: 1 with request_latency avg, and it takes 2 to compare them",
            ),
            (
                line(Distribution, 0.2, &requests(apart)),
                "not converged after 2 of 2 runs: request_latency by request: p-value 0.1000, below the threshold of 0.2",
            ),
            (
                line(Distribution, 0.05, &requests(apart)),
                "converged after 2 of at most 2 runs: request_latency by request: p-value 0.1000, at or above the threshold of 0.05",
            ),
        ] {
            assert_eq!(line, expected);
        }
    }
}
