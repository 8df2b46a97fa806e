//! Keys in general, and the small sections: envelope, models, dataset, artifacts.

use super::*;

#[test]
fn unknown_keys_get_the_nearest_key_or_their_place() {
    phase_mistake(
        "type: concurrency, concurency: 4, requests: 2",
        "concurency",
        ".concurency",
        "did you mean `concurrency`?",
    );
    phase_mistake(
        "tpye: concurrency, requests: 2",
        "tpye",
        ".tpye",
        "did you mean `type`?",
    );
    phase_mistake(
        "type: concurrency, request: 2",
        "request:",
        ".request",
        "did you mean `requests`?",
    );
    phase_mistake(
        "type: concurrency, requests: 2, delay: 1",
        "delay",
        ".delay",
        "it belongs in benchmark.phases[].cancellation",
    );
    let text = Sample {
        more: "  concurrency: 4\n",
        ..SAMPLE
    }
    .text();
    one_mistake(&text, "8:3: benchmark.concurrency", "it belongs in benchmark.phases[]");
    let text = Sample {
        more: "artifacts: {dir: x}\n",
        ..SAMPLE
    }
    .text();
    one_mistake(&text, "8:1: artifacts", "it belongs in benchmark");
    endpoint_mistake("url: \"http://h:1\", zebra: 1", ".zebra", "allowed: url, urls");
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let text = "benchmark:\n  endpoint: {url: \"ftp://h\", timeout: -1}\n  dataset: {entries: 0}\n  phases:\n    - {name: 1st, type: burst}\n";
    let found = mistakes(text);
    let places: Vec<&str> = found
        .iter()
        .map(|line| line.split(": ").next().expect("a place"))
        .collect();
    assert_eq!(
        places,
        ["2:3", "2:19", "2:39", "3:22", "5:7", "5:14", "5:25"],
        "{found:#?}"
    );
}

#[test]
fn keys_that_do_not_work_yet_are_refused_unless_they_ask_for_nothing() {
    let cases = [("sweep: {type: sobol}\n", "`sobol`", 1)];
    for (envelope, words, line) in cases {
        let found = Sample { envelope, ..SAMPLE }.mistakes();
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{line}:")),
            "{found:?}"
        );
        assert!(
            found[0].contains("not supported by ringload yet: ") && found[0].contains(words),
            "{found:?}"
        );
    }
    for more in [
        "  slos: {rtfx: 5}\n",
        "  artifacts: {auto_plot: true}\n",
        "  runtime: {workers: 2}\n",
        "  runtime: {ui: dashboard}\n",
        "  tokenizer: gpt2\n",
        "  logging: {level: DEBUG}\n",
        "  network_latency: {enabled: true}\n",
        "  scenario: x\n",
    ] {
        let found = Sample { more, ..SAMPLE }.mistakes();
        assert!(
            found.len() == 1 && found[0].starts_with("8:") && found[0].contains("not supported by ringload yet"),
            "{found:?}"
        );
    }
    for more in [
        "  slos: {}\n",
        "  artifacts: {raw: false, show_trace_timing: off, user_files: []}\n",
        "  server_metrics: false\n",
        "  server_metrics: {enabled: no, urls: [a]}\n",
        "  gpuTelemetry: null\n",
        "  tokenizer: {name: builtin, revision: main}\n",
        "  tokenizer: builtin\n",
        "  logging: {level: Info}\n",
        "  network_latency: {mean_ms: 0}\n",
        "  runtime: {ui: NONE}\n",
    ] {
        Sample { more, ..SAMPLE }.read();
    }
    Sample {
        envelope: "multi_run: {num_runs: 1, cooldown_seconds: 0}\n",
        ..SAMPLE
    }
    .read();
}

#[test]
fn the_version_may_be_text_or_number() {
    for version in ["2.0", "\"2.0\"", "'2.0'"] {
        let text = SAMPLE.text().replace("\"2.0\"", version);
        read(&text);
    }
    for version in ["1.0", "2", "2.00", "[2.0]"] {
        one_mistake(
            &SAMPLE.text().replace("\"2.0\"", version),
            "1:16: schemaVersion",
            "allowed: \"2.0\"",
        );
    }
}

#[test]
fn the_seed_is_a_whole_number_from_zero() {
    let seed = |text: &'static str| Sample {
        envelope: text,
        ..SAMPLE
    };
    assert_eq!(
        seed("random_seed: 18446744073709551615\n").read().random_seed,
        Some(u64::MAX)
    );
    assert_eq!(seed("randomSeed: 1e3\n").read().random_seed, Some(1000));
    for bad in [
        "random_seed: -1\n",
        "random_seed: 1.5\n",
        "random_seed: true\n",
        "random_seed: 18446744073709551616\n",
    ] {
        one_mistake(&seed(bad).text(), "1:14: random_seed", "a whole number");
    }
    one_mistake(&seed("random_seed: 010\n").text(), "1:14: random_seed", "write 10");
}

#[test]
fn the_flat_shape_is_lifted_with_a_warning() {
    let text = "model: m\nendpoint: {url: h}\ndataset: {}\nphases: {type: concurrency, requests: 0}\n";
    one_mistake(text, "4:39: phases.requests", "found `0`");
    let config = read(&text.replace("requests: 0", "requests: 1"));
    assert!(config.warnings[0].contains("benchmark"), "{:?}", config.warnings);
    one_mistake(
        &format!("{text}sweep: {{}}\n").replace("requests: 0", "requests: 1"),
        "5:8: sweep.type",
        "grid, zip, scenarios",
    );
}

#[test]
fn lengths_are_fixed_or_normal() {
    let isl = |isl: &str| {
        read(&SAMPLE.text().replace("isl: 16", &format!("isl: {isl}")))
            .dataset
            .isl
    };
    assert_eq!(isl("{value: 16}"), Some(Length::Fixed(16)));
    assert_eq!(isl("{type: fixed, value: 16.0}"), Some(Length::Fixed(16)));
    assert_eq!(
        isl("{mean: 16, stddev: 2.5}"),
        Some(Length::Normal {
            mean: 16.0,
            stddev: Some(2.5)
        })
    );
    assert_eq!(
        isl("{mean: 16}"),
        Some(Length::Normal {
            mean: 16.0,
            stddev: None
        })
    );
    for (bad, words) in [
        ("0", "from 1 to 10000000".to_owned()),
        ("1.5", "whole number".to_owned()),
        ("{avg: 5}", "unknown key `avg`".to_owned()),
        ("{type: lognormal, mean: 5}", "this key is required".to_owned()),
        ("{value: 5, stddev: 1}", "no meaning for a fixed value".to_owned()),
        (
            "{type: normal, mean: 5, value: 1}",
            "no meaning for a normal distribution".to_owned(),
        ),
        ("{stddev: 1}", "this key is required".to_owned()),
        ("{mean: -1}", "from 0 to".to_owned()),
    ] {
        let found = mistakes(&SAMPLE.text().replace("isl: 16", &format!("isl: {bad}")));
        assert!(
            found.len() == 1 && found[0].starts_with("5:") && found[0].contains(&words),
            "{bad}: {found:?}"
        );
    }
}

#[test]
fn a_dataset_is_synthetic_and_single() {
    let dataset = |dataset: &str| SAMPLE.text().replace("dataset: {entries: 4, isl: 16, osl: 8}", dataset);
    let config = read(&dataset(
        "datasets: [{name: main, prompts: {isl: 8, batch_size: 3}, random_seed: -3, sampling: SEQUENTIAL}]",
    ));
    assert_eq!(config.dataset.batch_size, Some(3));
    assert_eq!(
        (config.dataset.name.as_deref(), config.dataset.random_seed),
        (Some("main"), Some(-3))
    );
    for (bad, words) in [
        ("datasets: [{type: synthetic}]", "`datasets` has a name"),
        ("datasets: [{name: a}, {name: b}]", "found 2 datasets"),
        ("datasets: []", "found 0 datasets"),
        ("dataset: {}\n  datasets: []", "exclude each other"),
        (
            "dataset: {type: public, dataset: x, hf_subset: y}",
            "datasets of type `public`",
        ),
        ("dataset: {type: syntetic}", "did you mean `synthetic`?"),
        ("dataset: {isl: 5, prompts: {isl: 5}}", "says the same"),
        ("dataset: {sampling: rnadom}", "did you mean `random`?"),
        ("dataset: {path: x}", "`path` has no meaning for synthetic prompts"),
        ("dataset: {prompts: {batch_size: 0}}", "from 1 to 10000"),
        ("dataset: {turns: 0}", "from 1 to 10000"),
        ("dataset: {turns: 10001}", "from 1 to 10000"),
        (
            "dataset: {turns: {mean: 0.5, stddev: 3}}",
            "at least 1, for a conversation",
        ),
        ("dataset: {turn_delay: -1}", "at least 0"),
        (
            "dataset: {turn_delay: {mean: 5, median: 6}}",
            "found 6; allowed: a number above 0 and up to the mean, 5",
        ),
        ("dataset: {turn_delay_ratio: inf}", "at least 0"),
    ] {
        let found = mistakes(&dataset(bad));
        assert!(found.len() == 1 && found[0].contains(words), "{bad}: {found:?}");
    }
}

#[test]
fn conversations_have_turns_and_delays_that_are_numbers_or_distributions() {
    let dataset =
        |dataset: &str| read(&SAMPLE.text().replace("dataset: {entries: 4, isl: 16, osl: 8}", dataset)).dataset;
    let fixed = dataset("dataset: {turns: 4, turn_delay: 250.5, turn_delay_ratio: 0.5}");
    let even = Delay::Fixed(250.5);
    assert_eq!(
        (fixed.turns, fixed.turn_delay, fixed.turn_delay_ratio),
        (Some(Length::Fixed(4)), Some(even.clone()), Some(0.5))
    );
    let drawn = dataset("dataset: {turns: {mean: 4, stddev: 1.5}, turn_delay: {mean: 100, stddev: 10}}");
    let uneven = Delay::Normal {
        mean: 100.0,
        stddev: Some(10.0),
    };
    assert_eq!(
        (drawn.turns, drawn.turn_delay),
        (
            Some(Length::Normal {
                mean: 4.0,
                stddev: Some(1.5)
            }),
            Some(uneven)
        )
    );
    assert_eq!(dataset("dataset: {turn_delay: {value: 250.5}}").turn_delay, Some(even));
}

#[test]
fn a_dataset_from_a_file_has_a_path_or_records() {
    let dataset = |fields: &str| {
        let replaced = format!("dataset: {{type: file, {fields}}}");
        SAMPLE
            .text()
            .replace("dataset: {entries: 4, isl: 16, osl: 8}", &replaced)
    };
    let read_dataset = |fields: &str| read(&dataset(fields)).dataset;
    let trace =
        read_dataset("path: ./t.jsonl, format: Mooncake_Trace, block_size: 16, entries: 5, osl: 3, sampling: shuffle");
    let file = trace.file.expect("a file");
    assert_eq!(
        (file.format, file.block_size),
        (Some(FileFormat::MooncakeTrace), Some(16))
    );
    assert!(matches!(&file.origin, FileOrigin::Path { path, .. } if path == "./t.jsonl"));
    assert_eq!(
        (trace.entries, trace.osl, trace.sampling),
        (Some(5), Some(Length::Fixed(3)), Some(Sampling::Shuffle))
    );
    let inline = read_dataset("records: [{text: a, output_length: 3}, {texts: [b, c], mine: {d: 1}}]");
    match inline.file.expect("a file").origin {
        FileOrigin::Records(records) => {
            let texts: Vec<&str> = records.iter().map(|(_, json)| json.as_str()).collect();
            assert_eq!(
                texts,
                [
                    r#"{"text":"a","output_length":3}"#,
                    r#"{"texts":["b","c"],"mine":{"d":1}}"#
                ]
            );
            assert!(records[0].0.column < records[1].0.column, "{records:?}");
        }
        other => panic!("{other:?}"),
    }
    for (bad, words) in [
        ("format: single_turn", "write the path of a JSONL file"),
        ("path: x, records: [{text: a}]", "exclude each other"),
        ("records: []", "found an empty list; allowed: at least one record"),
        ("records: {text: a}", "allowed: a list of records"),
        ("path: \"\"", "not blank"),
        (
            "path: x, format: bailian_trace",
            "not supported by ringload yet: `bailian_trace`",
        ),
        ("path: x, format: singleturn", "did you mean `single_turn`?"),
        (
            "path: x, block_size: 16",
            "records of format single_turn have no blocks",
        ),
        (
            "path: x, format: mooncake_trace, block_size: 0",
            "a whole number from 1 to",
        ),
        ("path: x, isl: 5", "`isl` has no meaning beside prompts from a file"),
        (
            "path: x, prompts: {osl: 5}",
            "`prompts` has no meaning beside prompts from a file",
        ),
        ("path: x, sampling: sorted", "allowed: sequential, shuffle, random"),
    ] {
        let found = mistakes(&dataset(bad));
        assert!(found.len() == 1 && found[0].contains(words), "{bad}: {found:?}");
    }
}

#[test]
fn artifacts_are_read_and_stay_in_their_directory() {
    let artifacts = |fields: &str| format!("{}  artifacts: {{{fields}}}\n", SAMPLE.text());
    let read = read(&artifacts(
        "dir: ./x, prefix: run.json, summary: [json], records: false",
    ))
    .artifacts;
    assert_eq!(
        read,
        Artifacts {
            dir: Some("./x".into()),
            prefix: Some("run.json".into()),
            summary: Some(true),
            records: Some(false),
            slice_duration_s: None,
            slice_at: None,
            raw: None,
            export_outputs_json: None,
            trace: None,
            show_trace_timing: None,
        }
    );
    for (bad, words) in [
        ("dir: \"\"", "not blank"),
        ("prefix: ../x", "a file name"),
        ("prefix: .x", "a file name"),
        ("prefix: inputs", "no other file"),
        ("prefix: run_config.json", "no other file"),
        ("prefix: server_metrics_raw.jsonl", "no other file"),
        ("summary: []", "[json] or false"),
        ("summary: [json, csv]", "found `csv`"),
        ("records: maybe", "[jsonl] or false"),
        ("raw: maybe", "true or false"),
        (
            "records: false, raw: true",
            "requests and answers are kept with the records",
        ),
        ("export_outputs_json: raw", "true or false"),
        (
            "records: false, export_outputs_json: true",
            "texts of answers are kept with the records",
        ),
        ("trace: 1.5", "true or false"),
        ("show_trace_timing: 2", "true or false"),
        (
            "records: false, trace: true",
            "traces of requests are kept with the records",
        ),
        ("slice_duration: 0", "a duration above 0"),
    ] {
        let found = mistakes(&artifacts(bad));
        assert!(
            found.len() == 1 && found[0].starts_with("8:") && found[0].contains(words),
            "{bad}: {found:?}"
        );
    }
}
