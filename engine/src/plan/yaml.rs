//! JSON values as YAML that people read and the loader takes back unchanged.
//!
//! Written here, because no crate that writes YAML knows of `${NAME}` and `{{ name }}`: texts that hold them must come back as text and not be
//! resolved a second time.

use serde_json::Value;

/// Keys whose templates are not ours: the loader leaves what is below them alone, so nothing there is made a template.
const FOREIGN: [&str; 3] = ["template", "body", "payload_template"];

/// Appends `value` as the block below a key at `depth`, or as the document itself.
pub(super) fn write(value: &Value, out: &mut String) {
    block(value, 0, false, out);
}

/// A value in block style, each line indented. The caller has ended the line before.
fn block(value: &Value, depth: usize, is_foreign: bool, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                out.push_str(&indent);
                entry(key, value, depth, is_foreign, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&indent);
                out.push_str("- ");
                match item {
                    Value::Object(object) if !object.is_empty() => {
                        for (index, (key, value)) in object.iter().enumerate() {
                            if index > 0 {
                                out.push_str(&indent);
                                out.push_str("  ");
                            }
                            entry(key, value, depth + 1, is_foreign, out);
                        }
                    }
                    // A list in a list stays on one line.
                    _ => {
                        flow(item, is_foreign, out);
                        out.push('\n');
                    }
                }
            }
        }
        _ => {
            out.push_str(&indent);
            flow(value, is_foreign, out);
            out.push('\n');
        }
    }
}

/// `key: value`, on one line or with a block below. The indentation is written already.
fn entry(key: &str, value: &Value, depth: usize, is_foreign: bool, out: &mut String) {
    if is_plain(key) {
        out.push_str(key);
    } else {
        // Keys are never resolved.
        out.push_str(&quoted(key));
    }
    let is_foreign = is_foreign || FOREIGN.contains(&key);
    if is_block(value) {
        out.push_str(":\n");
        block(value, depth + 1, is_foreign, out);
    } else {
        out.push_str(": ");
        flow(value, is_foreign, out);
        out.push('\n');
    }
}

/// Whether a value takes lines of its own. Small mappings of scalars are easier to read on one line.
fn is_block(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    match value {
        Value::Object(object) => object.len() > 2 || !object.values().all(is_scalar),
        Value::Array(items) => !items.iter().all(is_scalar),
        _ => false,
    }
}

/// A value on one line.
fn flow(value: &Value, is_foreign: bool, out: &mut String) {
    match value {
        Value::Object(object) => {
            out.push('{');
            for (index, (key, value)) in object.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&if is_plain(key) { key.clone() } else { quoted(key) });
                out.push_str(": ");
                flow(value, is_foreign || FOREIGN.contains(&key.as_str()), out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                flow(item, is_foreign, out);
            }
            out.push(']');
        }
        Value::String(text) if is_plain(text) => out.push_str(text),
        Value::String(text) => out.push_str(&quoted(&literal(text, is_foreign))),
        // Null, booleans and numbers are spelt as in JSON.
        other => out.push_str(&other.to_string()),
    }
}

/// Whether a text needs no quotes: it is made of few characters, and is no word that YAML reads as something else.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "infinity", "nan",
    ];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && text.len() <= 60
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// A text in double quotes. JSON's escapes are YAML's; beside them, everything goes that YAML takes for a line break or does not print.
fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let is_special = matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        );
        if is_special {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// A text that the loader resolves to `text`: one with an opener of a reference or template becomes a template that makes it.
fn literal(text: &str, is_foreign: bool) -> String {
    let is_resolved = text.contains("{{") || text.contains("{%") || text.contains("${");
    if is_foreign || !is_resolved {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    // References are replaced before templates, wherever they stand, so their opener is taken apart.
    format!("{{{{ '{}' }}}}", escaped.replace("${", "$' ~ '{"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::config;

    fn text(value: &Value) -> String {
        let mut out = String::new();
        write(value, &mut out);
        out
    }

    #[test]
    fn short_things_stand_on_one_line_and_the_rest_in_blocks() {
        let value = json!({
            "benchmark": {
                "model": "org/name",
                "headers": {"X-A": "5"},
                "phases": [{"name": "a", "rate": 2.5, "points": [{"time_s": 0.0, "qps": 1.0}]}, {"name": "on", "x": null, "list": [1, 2]}],
                "empty": {}, "none": [],
            }
        });
        assert_eq!(
            text(&value),
            "benchmark:\n  model: org/name\n  headers: {X-A: \"5\"}\n  phases:\n    - name: a\n      rate: 2.5\n      points:\n        \
             - time_s: 0.0\n          qps: 1.0\n    - name: \"on\"\n      x: null\n      list: [1, 2]\n  empty: {}\n  none: []\n"
        );
    }

    /// What the loader makes of `extra` in a config that was written here.
    fn read_back(extra: &Value) -> Value {
        let config = json!({ "benchmark": {
            "model": "m",
            "endpoint": {"url": "http://h", "extra": extra},
            "dataset": {"isl": 8},
            "phases": [{"name": "profiling", "type": "concurrency", "requests": 1}],
        }});
        let text = text(&config);
        let read = config::parse("written", text.as_bytes(), &|_| Some("resolved".to_owned()));
        let read = read.unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        Value::Object(read.endpoint.extra)
    }

    #[test]
    fn texts_that_look_like_something_else_come_back_as_texts() {
        let value = json!({
            "a": ["${HOME}", "{{ model }}", "x {% if %} ${A} {# note #}", "{{{", "$${X}", "{#", "{{\n", "${", "a\u{85}b\u{2028}c\u{feff}"],
            "b": ["true", "on", "1.10", "010", "1:30", "~", "null", "", " a ", "# c", "a: b", "- a", "e", "0x10", ".nan", "inf", "'", "\"", "\\"],
            "template": "{{ kept }}",
            "c": [1, -2, 2.5, true, null, 1e300, 18446744073709551615u64],
            "d": [[1, [2]], {"a b": {"c": []}}],
            "${K}": "{{ 1 }}",
        });
        assert_eq!(read_back(&value), value);
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(text in "[ -~\n\t{}$%#\u{80}-\u{2030}\u{1F600}]{0,40}", key in "[ -~]{1,12}") {
            prop_assume!(key != "stream" && key != "<<" && !FOREIGN.contains(&key.as_str()));
            let value = json!({ key: [text] });
            prop_assert_eq!(read_back(&value), value);
        }
    }
}
