//! Whole files through the reader: what is accepted, and the place and words of every kind of mistake.

use super::*;

mod adaptive;
mod convergence;
mod document;
mod endpoint;
mod field;
mod kinds;
mod lengths;
mod limits;
mod models;
mod openings;
mod phases;
mod random;
mod rates;
mod sections;
mod slos;
mod sweep;
mod telemetry;
mod templates;
mod traces;

/// A complete config whose sections can be replaced.
struct Sample {
    envelope: &'static str,
    model: &'static str,
    endpoint: &'static str,
    dataset: &'static str,
    phases: &'static str,
    more: &'static str,
}

const SAMPLE: Sample = Sample {
    envelope: "schemaVersion: \"2.0\"\n",
    model: "  model: m\n",
    endpoint: "  endpoint: {url: \"http://h:1\"}\n",
    dataset: "  dataset: {entries: 4, isl: 16, osl: 8}\n",
    phases: "  phases:\n    - {name: profiling, type: concurrency, requests: 2}\n",
    more: "",
};

impl Sample {
    fn text(&self) -> String {
        let Self {
            envelope,
            model,
            endpoint,
            dataset,
            phases,
            more,
        } = self;
        format!("{envelope}benchmark:\n{model}{endpoint}{dataset}{phases}{more}")
    }

    fn read(&self) -> Config {
        read(&self.text())
    }

    /// The mistakes as `line:column: path: message`.
    fn mistakes(&self) -> Vec<String> {
        mistakes(&self.text())
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "D" => Some("30s".to_owned()),
        "KEY" => Some("sk-hunter2".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn read(text: &str) -> Config {
    parse("f.yaml", text.as_bytes(), &environment)
        .unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes.render(true)))
}

/// The names of the models.
fn names(config: &Config) -> Vec<&str> {
    config.models.names().collect()
}

fn mistakes(text: &str) -> Vec<String> {
    let found = parse("f.yaml", text.as_bytes(), &environment).expect_err(text);
    found
        .to_string()
        .lines()
        .map(|line| {
            line.strip_prefix("f.yaml:")
                .expect("lines start with the file")
                .to_owned()
        })
        .collect()
}

/// Asserts that there is exactly one mistake, at this place, with these words.
#[track_caller]
fn one_mistake(text: &str, place: &str, words: &str) {
    let found = mistakes(text);
    let [only] = &found[..] else {
        panic!("one mistake expected, found {found:#?} in\n{text}")
    };
    let expected = format!("{place}: ");
    assert!(
        only.starts_with(&expected) && only.contains(words),
        "expected {expected}...{words}...\nfound {only}\nin\n{text}"
    );
}

/// A mistake in the single phase `{name: profiling, type: concurrency, <fields>}`, which starts in column 7 of line 7.
#[track_caller]
fn phase_mistake(fields: &str, column_of: &str, path: &str, words: &str) {
    let text = phase_text(fields);
    let line = text.lines().nth(6).expect("the phase is on line 7");
    let column = line
        .find(column_of)
        .unwrap_or_else(|| panic!("{column_of} is not in {line}"))
        + 1;
    one_mistake(&text, &format!("7:{column}: benchmark.phases[0]{path}"), words);
}

fn phase_text(fields: &str) -> String {
    let sample = SAMPLE.text();
    let head = sample.split("    - {").next().expect("the sample has a phase");
    format!("{head}    - {{name: profiling, {fields}}}\n")
}

fn phase(fields: &str) -> Phase {
    read(&phase_text(fields)).phases.remove(0)
}

#[track_caller]
fn endpoint_mistake(fields: &str, path: &str, words: &str) {
    let text = SAMPLE.text().replace("url: \"http://h:1\"", fields);
    let found = mistakes(&text);
    let [only] = &found[..] else {
        panic!("one mistake expected, found {found:#?} in\n{text}")
    };
    assert!(
        only.starts_with("4:") && only.contains(&format!(": benchmark.endpoint{path}: ")) && only.contains(words),
        "{only}"
    );
}

#[test]
fn the_sample_reads_as_it_is_written() {
    let config = SAMPLE.read();
    assert_eq!(names(&config), ["m"]);
    assert_eq!(config.dataset.isl, Some(Length::Fixed(16)));
    assert_eq!(config.phases[0].concurrency, Some(1));
    assert_eq!(config.phases[0].kind, PhaseKind::Profiling);
    assert!(config.warnings.is_empty());
}
