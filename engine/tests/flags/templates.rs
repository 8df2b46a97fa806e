//! Bodies of type template from the command line, as the peer has them.

use ringload_engine::config;
use serde_json::json;

use super::{ONE, mistakes_of, told};

const BODY: &str = r#"{"p": {{ text|tojson }}, "n": {{ max_tokens|tojson }}}"#;

#[test]
fn extra_inputs_give_the_template_and_where_answers_are() {
    let line = format!(
        "--model m --endpoint-type template --url http://h/custom --extra-inputs 'payload_template:{BODY}' response_field:a[0].b temperature:0.5"
    );
    let told = told(None, &line);
    assert_eq!(told["endpoint"]["type"], "template");
    assert_eq!(
        told["endpoint"]["template"],
        json!({"body": BODY, "response_field": "a[0].b"})
    );
    assert_eq!(told["endpoint"]["extra"], json!({"temperature": 0.5}));
}

#[test]
fn a_json_object_names_and_files_do_too() {
    let told_by = |inputs: &str| {
        told(
            None,
            &format!("--model m --endpoint-type template --extra-inputs {inputs}"),
        )
    };
    let object = json!({"payload_template": BODY, "response_field": "t", "seed": 1});
    let told = told_by(&format!("'{object}'"));
    assert_eq!(
        told["endpoint"]["template"],
        json!({"body": BODY, "response_field": "t"})
    );
    assert_eq!(told["endpoint"]["extra"], json!({"seed": 1}));
    let named = told_by("payload_template:nv-embedqa");
    assert_eq!(named["endpoint"]["template"]["body"], r#"{"text": {{ texts|tojson }}}"#);
    let file = super::file(&["{", "\"p\": {{ text|tojson }}", "}"]);
    let read = told_by(&format!("payload_template:{}", file.path().display()));
    assert_eq!(read["endpoint"]["template"]["body"], "{\n\"p\": {{ text|tojson }}\n}");
}

#[test]
fn the_command_line_goes_over_the_section_of_a_file() {
    let file = ONE.replace(
        "streaming: true, ",
        "template: {body: '{\"old\": 1}', response_field: old}, streaming: true, ",
    );
    let told = told(Some(&file), "--extra-inputs response_field:new top_k:1");
    assert_eq!(
        told["endpoint"]["template"],
        json!({"body": "{\"old\": 1}", "response_field": "new"})
    );
    assert_eq!(told["endpoint"]["extra"], json!({"top_k": 1}));
    // Of another type they are keys of the body.
    let told = super::told(Some(ONE), "--extra-inputs response_field:new");
    assert_eq!(told["endpoint"]["extra"]["response_field"], "new");
}

#[test]
fn mistakes_name_the_flag() {
    for (line, parts) in [
        (
            "--endpoint-type template",
            &["--endpoint-type", "no body of its own"][..],
        ),
        (
            "--endpoint-type template --extra-inputs 'payload_template:{{ txt }}'",
            &["--extra-inputs", "`txt`", "did you mean `text`?"],
        ),
        (
            "--endpoint-type template --extra-inputs payload_template:{} 'response_field:a b'",
            &["--extra-inputs", "no JMESPath"],
        ),
        (
            "--endpoint-type template --extra-inputs payload_template:/nowhere",
            &["--extra-inputs", "No such file"],
        ),
        ("--template a", &["payload_template"]),
    ] {
        let text = match config::refusal(line.split(' ').next().expect("a word")) {
            Some(refusal) => refusal,
            None => mistakes_of(&format!("--model m {line}")),
        };
        for part in parts {
            assert!(text.contains(part), "{line}: {part} is not in {text}");
        }
    }
}
