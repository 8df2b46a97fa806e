//! Medians and ratios of repeated runs, as a table.
//!
//! ```text
//! compare FILE [FIELD...]
//! ```
//!
//! `FILE` holds lines of `cpu_of`; the k-th line of each name belongs to repetition k. The first name is the base: a ratio is the median over
//! repetitions of (candidate / base in the same repetition), so that a drift of the machine between repetitions cancels. A contestant that does
//! not have a field is left out of its table, and the base is the first one that has it. Without fields the processor time per request and the
//! request rate are shown.

use std::error::Error;
use std::process::ExitCode;

use ringload_benches::harness;
use ringload_benches::quantile::Sample;
use serde_json::Value;

/// Values of one field of one contestant, by repetition.
struct Contestant {
    name: String,
    runs: Vec<Value>,
}

fn main() -> ExitCode {
    harness::exit("compare", run())
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: compare FILE [FIELD...]")?;
    let mut fields: Vec<String> = arguments.collect();
    if fields.is_empty() {
        fields = ["cpu_us_per_request", "requests_per_s"].map(String::from).to_vec();
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let contestants = group(&text).ok_or_else(|| format!("{path}: not lines of cpu_of"))?;
    for field in fields {
        print!(
            "{}",
            table(&contestants, &field).ok_or_else(|| format!("{path}: no field {field}"))?
        );
    }
    Ok(())
}

/// Runs by name, in the order of their first appearance. `None` if there is nothing to group.
fn group(text: &str) -> Option<Vec<Contestant>> {
    let mut contestants: Vec<Contestant> = Vec::new();
    for line in text.lines() {
        let run: Value = serde_json::from_str(line).ok()?;
        let name = run["name"].as_str()?.to_owned();
        match contestants.iter_mut().find(|contestant| contestant.name == name) {
            Some(contestant) => contestant.runs.push(run),
            None => contestants.push(Contestant { name, runs: vec![run] }),
        }
    }
    (!contestants.is_empty()).then_some(contestants)
}

/// One row per contestant that has the field in every run. `None` if there is none.
fn table(contestants: &[Contestant], field: &str) -> Option<String> {
    let values = |contestant: &Contestant| -> Option<Vec<f64>> {
        contestant.runs.iter().map(|run| run[field].as_f64()).collect()
    };
    let measured: Vec<(&str, Vec<f64>)> = contestants
        .iter()
        .filter_map(|contestant| Some((contestant.name.as_str(), values(contestant)?)))
        .collect();
    let (base_name, base) = measured.first()?;
    let mut text = format!(
        "  {field:<26} {:>12} {:>12} {:>12}   ratio to {base_name}\n",
        "median", "min", "max"
    );
    for (name, own) in &measured {
        let ratios = own.iter().zip(base).map(|(own, base)| own / base).collect();
        let (sample, ratios) = (Sample::new(own.clone()), Sample::new(ratios));
        text.push_str(&format!(
            "  {:<26} {:>12} {:>12} {:>12}   {} [{} to {}]\n",
            name,
            number(sample.at(0.5)),
            number(sample.at(0.0)),
            number(sample.at(1.0)),
            number(ratios.at(0.5)),
            number(ratios.at(0.0)),
            number(ratios.at(1.0))
        ));
    }
    Some(text)
}

/// Two decimals, and four where two would show little or nothing of the number.
fn number(value: f64) -> String {
    if value.abs() < 0.1 {
        format!("{value:.4}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_repetition() {
        // The machine halves its speed from one repetition to the next: the ratio does not move.
        let text = r#"{"name":"a","x":1}
{"name":"b","x":3}
{"name":"a","x":2}
{"name":"b","x":6}
"#;
        let contestants = group(text).expect("runs");
        let table = table(&contestants, "x").expect("the field");
        assert!(
            table
                .lines()
                .nth(2)
                .expect("a row for b")
                .ends_with("3.00 [3.00 to 3.00]"),
            "{table}"
        );
    }

    #[test]
    fn small_numbers_keep_digits() {
        assert_eq!(
            (number(123.456).as_str(), number(0.00594).as_str()),
            ("123.46", "0.0059")
        );
    }

    #[test]
    fn what_was_not_measured_is_not_shown_as_zero() {
        let contestants = group("{\"name\":\"a\",\"x\":1}\n{\"name\":\"b\",\"x\":1,\"y\":2}\n").expect("runs");
        assert!(table(&contestants, "z").is_none());
        let table = table(&contestants, "y").expect("b has it");
        assert!(table.contains("ratio to b") && table.lines().count() == 2, "{table}");
        assert!(group("").is_none() && group("{}").is_none());
    }
}
