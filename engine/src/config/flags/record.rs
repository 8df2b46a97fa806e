//! A command line fit to be recorded: keys, header values and passwords masked.

use serde_json::{Map, Value as Json};

use super::super::secret::{REDACTED, is_credential_name, masked_template, redact_url};
use super::table;

/// The words of a command line, program first, with every secret masked. Flags and their words are found as the parser finds them.
pub fn recorded(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut shown = Vec::new();
    // The flag that the words now are for.
    let mut current = None;
    for word in words {
        let (flag, value) = split(&word);
        match flag {
            Some((start, name)) => {
                current = Some(name);
                shown.push(match value {
                    Some(value) => format!("{start}{}", masked(name, value)),
                    None => word.clone(),
                });
            }
            // A flag of the engine: what follows is no longer for the flag before it. Numbers below zero are values.
            None if word.starts_with('-') && word.parse::<f64>().is_err() => {
                current = None;
                shown.push(redact_url(&word));
            }
            None => shown.push(match current {
                Some(name) => masked(name, &word),
                None => redact_url(&word),
            }),
        }
    }
    shown
}

/// A known flag at the beginning of a word: all that stands before its value, its name, and the value if it is in the same word.
fn split(word: &str) -> (Option<(&str, &'static str)>, Option<&str>) {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let flag = table::all().find(|flag| flag.name == name || flag.aliases.contains(&name));
        let start = &word[..word.len() - value.map_or(0, str::len)];
        return (flag.map(|flag| (start, flag.name)), value);
    }
    let mut letters = word.char_indices();
    let (Some((_, '-')), Some((at, letter))) = (letters.next(), letters.next()) else {
        return (None, None);
    };
    let Some(flag) = table::all().find(|flag| flag.short == Some(letter)) else {
        return (None, None);
    };
    let after = at + letter.len_utf8();
    let rest = &word[after..];
    let value = rest.strip_prefix('=').unwrap_or(rest);
    let start = &word[..word.len() - value.len()];
    (Some((start, flag.name)), (!value.is_empty()).then_some(value))
}

fn masked(flag: &str, value: &str) -> String {
    match flag {
        "api-key" => REDACTED.to_owned(),
        // Names of headers are anyone's choice, so none of their values is taken for harmless.
        "header" => match value.split_once(':') {
            Some((name, _)) => format!("{name}:{REDACTED}"),
            None => REDACTED.to_owned(),
        },
        "extra-inputs" => match (serde_json::from_str::<Map<String, Json>>(value), value.split_once(':')) {
            (Ok(object), _) => Json::Object(without_secrets(object)).to_string(),
            (Err(_), Some((name @ "payload_template", text))) => format!("{name}:{}", masked_template(text)),
            (Err(_), Some((name, _))) if is_credential_name(name) => format!("{name}:{REDACTED}"),
            (Err(_), Some((name, value))) => match serde_json::from_str::<Map<String, Json>>(value) {
                Ok(object) => format!("{name}:{}", Json::Object(without_secrets(object))),
                Err(_) => format!("{name}:{}", redact_url(value)),
            },
            (Err(_), None) => value.to_owned(),
        },
        _ => redact_url(value),
    }
}

fn without_secrets(object: Map<String, Json>) -> Map<String, Json> {
    let masked = |(name, value): (String, Json)| {
        let value = match value {
            _ if is_credential_name(&name) => Json::from(REDACTED),
            Json::Object(inner) => Json::Object(without_secrets(inner)),
            Json::String(text) => Json::from(redact_url(&text)),
            other => other,
        };
        (name, value)
    };
    object.into_iter().map(masked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        recorded(words.iter().map(|word| (*word).to_owned())).join(" ")
    }

    #[test]
    fn secrets_are_masked_in_every_way_of_giving_them() {
        for words in [
            &["--api-key", "hunter2"][..],
            &["--api-key=hunter2"],
            &["--header", "Authorization: Bearer hunter2"],
            &["--header=X-Any:hunter2"],
            &["-H", "X-Any:hunter2"],
            &["-HX-Any:hunter2"],
            &["-H=X-Any:hunter2"],
            &["-H", "hunter2"],
            &["--url", "http://u:hunter2@h/v1"],
            &["--url=http://u:hunter2@h", "http://v:hunter2@i"],
            &["-u", "http://h/v1?api_key=hunter2"],
            &["--extra-inputs", "a:1", "access_token:hunter2"],
            &["--extra-inputs", r#"{"a": {"password": "hunter2"}}"#],
            &["--extra-inputs=a:{\"secret\": \"hunter2\"}"],
            &[
                "--extra-inputs",
                r#"payload_template:{"api_key": "hunter2", "p": {{ text|tojson }}}"#,
            ],
            &["--reset-kv-cache-path=/reset?token=hunter2"],
        ] {
            let shown = line(words);
            assert!(
                !shown.contains("hunter2") && shown.contains(REDACTED),
                "{words:?}: {shown}"
            );
        }
    }

    #[test]
    fn everything_else_stays_as_typed() {
        let words = [
            "profile",
            "-m",
            "a/b",
            "--url",
            "http://h:1/v1?x=1",
            "--streaming",
            "--no-streaming",
            "--extra-inputs",
            "a:1",
            "--cores",
            "2",
            "--isl=5",
            "-f",
            "x.yaml",
        ];
        assert_eq!(line(&words), words.join(" "));
        assert_eq!(line(&["-H", "X-A:1"]), format!("-H X-A:{REDACTED}"));
    }
}
