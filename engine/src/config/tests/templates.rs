//! `endpoint.template`: the section, its mistakes and their places.

use std::fs;

use super::*;

const BODY: &str = r#"{"p": {{ text|tojson }}}"#;

fn with(endpoint: &str) -> String {
    SAMPLE
        .text()
        .replace(SAMPLE.endpoint, &format!("  endpoint:\n    url: h\n{endpoint}"))
}

fn template(endpoint: &str) -> PayloadTemplate {
    read(&with(endpoint)).endpoint.template.expect("a template")
}

/// The only mistake, which begins with its place and has these words.
fn mistake(endpoint: &str, place: &str, parts: &[&str]) {
    let found = mistakes(&with(endpoint));
    let [mistake] = &found[..] else {
        panic!("{endpoint}: {found:?}")
    };
    assert!(mistake.starts_with(place), "{endpoint}: {mistake}");
    for part in parts {
        assert!(mistake.contains(part), "{endpoint}: {part} is not in {mistake}");
    }
}

#[test]
fn the_section_implies_the_type_and_may_stand_beside_it() {
    for more in ["", "    type: template\n", "    type: TEMPLATE\n"] {
        let config = read(&with(&format!(
            "{more}    template: {{body: '{BODY}', response_field: 'data[0].t'}}\n"
        )));
        assert_eq!(config.endpoint.kind, Some(EndpointType::Template), "{more}");
        let template = config.endpoint.template.expect("a template");
        assert_eq!(
            (template.body.as_str(), template.response_field.as_deref()),
            (BODY, Some("data[0].t"))
        );
    }
    assert_eq!(
        template(&format!("    template: {{body: '{BODY}'}}\n")).response_field,
        None
    );
    // Camel case, as everywhere.
    let camel = template(&format!("    template: {{body: '{BODY}', responseField: t}}\n"));
    assert_eq!(camel.response_field.as_deref(), Some("t"));
    mistake(
        "    type: template\n",
        "6:11: benchmark.endpoint.type",
        &["template: {body:"],
    );
    mistake(
        &format!("    type: chat\n    template: {{body: '{BODY}'}}\n"),
        "7:15: benchmark.endpoint.template",
        &["type chat", "set type: template"],
    );
    mistake(
        "    template: {response_field: a}\n",
        "6:15: benchmark.endpoint.template.body",
        &["as in body:"],
    );
    mistake(
        &format!("    template: {{body: '{BODY}', bodi: 1}}\n"),
        "6:",
        &["`bodi`", "`body`"],
    );
}

#[test]
fn templates_of_the_file_leave_the_body_alone() {
    let text =
        with(&format!("    template: {{body: '{BODY}'}}\n")).replace("benchmark:", "variables: {text: 5}\nbenchmark:");
    assert_eq!(read(&text).endpoint.template.expect("a template").body, BODY);
}

#[test]
fn a_mistake_of_a_template_has_its_place_in_the_block() {
    let block = |lines: &[&str]| format!("    template:\n      body: |\n        {}\n", lines.join("\n        "));
    for (lines, place, parts) in [
        (
            &["{", "  \"p\": {{ txt|tojson }}", "}"][..],
            "9:19: benchmark.endpoint.template.body",
            &["found `txt`", "did you mean `text`?", "max_tokens"][..],
        ),
        (&["{\"p\": {{ text|tojson }", "}"], "8:", &["cannot be read"]),
        (&["{", "", "\"é\": {{ text|tojson( }}}"], "10:", &["cannot be read"]),
        (
            &["{\"t\": {{ turn.role }}}"],
            "8:18:",
            &["not supported by ringload yet: `turn`"],
        ),
        (
            &["{\"t\": {{ texts_by_name }}}"],
            "8:18:",
            &["not supported by ringload"],
        ),
    ] {
        mistake(&block(lines), place, parts);
    }
    // On one line, behind its quote.
    mistake("    template: {body: '{{ nope }}'}\n", "6:26:", &["`nope`"]);
}

#[test]
fn a_response_field_is_an_expression() {
    let with_field = |field: &str| format!("    template: {{body: '{BODY}', response_field: \"{field}\"}}\n");
    for field in [
        "text",
        "data[0].embedding",
        "choices[*].text | [0]",
        "join('', parts[].t)",
    ] {
        assert_eq!(template(&with_field(field)).response_field.as_deref(), Some(field));
    }
    for (field, part) in [
        ("a..b", "no JMESPath"),
        ("a[", "at its end"),
        ("nope(a)", "no function `nope`"),
        ("", ""),
    ] {
        mistake(
            &with_field(field),
            "6:",
            &["benchmark.endpoint.template.response_field", part],
        );
    }
}

#[test]
fn a_body_is_a_text_or_a_name_or_a_file() {
    assert_eq!(
        template("    template: {body: nv-embedqa}\n").body,
        r#"{"text": {{ texts|tojson }}}"#
    );
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("body.jinja");
    fs::write(&path, "{\n  \"p\": {{ text|tojson }}\n}\n").expect("a file");
    let name = path.display();
    assert!(
        template(&format!("    template: {{body: '{name}'}}\n"))
            .body
            .contains("text|tojson")
    );
    fs::write(&path, "{\"p\": {{ txt }}}").expect("a file");
    mistake(&format!("    template: {{body: '{name}'}}\n"), "6:22:", &["`txt`"]);
    fs::write(&path, "no template").expect("a file");
    mistake(
        &format!("    template: {{body: '{name}'}}\n"),
        "6:22:",
        &["holds no template"],
    );
    fs::write(&path, "{\"p\": \"${HOME}\"}").expect("a file");
    mistake(
        &format!("    template: {{body: '{name}'}}\n"),
        "6:22:",
        &["`${`", "{{ '$' }}"],
    );
    fs::write(&path, b"{\xff").expect("a file");
    mistake(&format!("    template: {{body: '{name}'}}\n"), "6:22:", &["not UTF-8"]);
    mistake(
        "    template: {body: nowhere.json}\n",
        "6:22:",
        &["No such file", "nv-embedqa"],
    );
    mistake("    template: {body: .}\n", "6:22:", &["not a regular file"]);
    mistake("    template: {body: ' '}\n", "6:22:", &["it is empty"]);
}

#[test]
fn keys_of_the_peers_command_line_belong_into_the_section() {
    for key in ["payload_template", "response_field"] {
        let endpoint = format!("    template: {{body: '{BODY}'}}\n    extra: {{{key}: a}}\n");
        mistake(&endpoint, "7:", &["endpoint.template.", key]);
        // Of other types they are keys like any others.
        assert_eq!(
            read(&with(&format!("    extra: {{{key}: a}}\n"))).endpoint.extra[key],
            "a"
        );
    }
}

#[test]
fn a_dataset_may_have_queries_or_several_turns() {
    let text = |dataset: &str| {
        with(&format!("    template: {{body: '{BODY}'}}\n"))
            .replace("{entries: 4, isl: 16, osl: 8}", &format!("{{{dataset}}}"))
    };
    let config = read(&text("entries: 4, rankings: {passages: 2}"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let config = read(&text("entries: 4, turns: 2"));
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    for osl in ["osl: 3", "prompts: {osl: 3}"] {
        let found = mistakes(&text(&format!("{osl}, rankings: {{passages: 2}}")));
        assert!(
            matches!(&found[..], [mistake] if mistake.contains("no output length")),
            "{found:?}"
        );
    }
    for more in ["prompts: {batch_size: 2}", "prefix_prompts: {pool_size: 2, length: 3}"] {
        let found = mistakes(&text(&format!("{more}, rankings: {{passages: 2}}")));
        assert!(matches!(&found[..], [_]), "{more}: {found:?}");
    }
    let found = mistakes(&text("system_prompt: be brief"));
    assert!(
        matches!(&found[..], [mistake] if mistake.contains("no place for messages of the system")),
        "{found:?}"
    );
    let pairs = "prompts: {sequence_distribution: [{isl: 4, osl: 2, probability: 100}]}";
    let found = mistakes(&text(&format!("{pairs}, rankings: {{passages: 2}}")));
    assert!(
        matches!(&found[..], [mistake] if mistake.contains("queries with passages")),
        "{found:?}"
    );
    let found = mistakes(&text("isl: 4, rankings: {query_tokens: 2}"));
    assert!(
        matches!(&found[..], [mistake] if mistake.contains("say the same")),
        "{found:?}"
    );
}

#[test]
fn a_sweep_may_vary_the_section() {
    let text = with(&format!("    template: {{body: '{BODY}', response_field: a}}\n"))
        + "sweep:\n  type: zip\n  parameters:\n    endpoint.template.response_field: [b, 'c[0]']\n    endpoint.template.body: ['{\"q\": {{ query|tojson }}}', nv-embedqa]\n";
    let suite = parse_suite("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let of = |variation: &Variation| variation.config.endpoint.template.clone().expect("a template");
    let templates: Vec<PayloadTemplate> = suite.variations.iter().map(of).collect();
    let fields: Vec<Option<&str>> = templates.iter().map(|one| one.response_field.as_deref()).collect();
    assert_eq!(fields, [Some("b"), Some("c[0]")]);
    assert_eq!(templates[0].body, r#"{"q": {{ query|tojson }}}"#);
    assert_eq!(templates[1].body, r#"{"text": {{ texts|tojson }}}"#);
}
