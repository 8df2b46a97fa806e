//! What must never be shown: credentials in keys, headers and URLs, told by their names here and by their values in [`secrets`](super::secrets).

use serde_json::Value as Json;

use super::schema::{nearest, snake_case};
use super::tree::{Node, Position, Value};

/// What stands in place of a secret, in messages and in artifacts.
pub(crate) const REDACTED: &str = "<redacted>";

/// Endings of key and header names whose values are credentials, after lower-casing and without `-` and `_`.
/// Endings rather than parts, so that `use_server_token_count`, `max_tokens` and `tokenizer` stay readable.
const CREDENTIAL_ENDINGS: [&str; 11] = [
    "apikey",
    "accesskey",
    "authkey",
    "token",
    "secret",
    "password",
    "authorization",
    "auth",
    "cookie",
    "credential",
    "credentials",
];

/// Further endings of header names and parameters of queries: there a key is what unlocks.
const KEY_ENDINGS: [&str; 4] = ["key", "signature", "sig", "jwt"];

fn bare(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Whether the bare name ends like that. Asked of every key of every request, so nothing is allocated for it.
fn bare_ends_with(name: &str, ending: &str) -> bool {
    let mut backwards = name.bytes().rev().filter(u8::is_ascii_alphanumeric);
    ending.bytes().rev().all(|wanted| {
        backwards
            .next()
            .is_some_and(|found| found.to_ascii_lowercase() == wanted)
    })
}

/// Whether a key of this name holds a credential.
pub(crate) fn is_credential_name(name: &str) -> bool {
    // `time_to_first_token` and its like are metrics.
    CREDENTIAL_ENDINGS.iter().any(|ending| bare_ends_with(name, ending)) && !bare(name).starts_with("timeto")
}

/// Whether a header or a parameter of a query of this name holds a credential.
pub(crate) fn is_credential_header(name: &str) -> bool {
    let mut endings = CREDENTIAL_ENDINGS.iter().chain(&KEY_ENDINGS);
    endings.any(|ending| bare_ends_with(name, ending))
}

/// Whether a value with this path is shown to nobody. Names of headers are anyone's choice, so none of their values is taken for harmless.
pub(super) fn is_secret_path(path: &str) -> bool {
    path.contains(".headers.") || path.split('.').any(is_credential_name)
}

/// Whether a key was probably meant to be one that holds a credential.
fn is_near_credential(key: &str) -> bool {
    nearest(&snake_case(key), ["api_key", "authorization"]).is_some()
}

/// Where in the template of a JSON text the values of credentials are, in bytes: texts behind a name in quotes, unless they are templates themselves.
pub(super) fn credentials_in_template(text: &str) -> Vec<std::ops::Range<usize>> {
    // From quote to quote: what is between two of them is a name if a colon comes next.
    let mut quotes = Vec::new();
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !is_escaped => quotes.push(at),
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    let quoted = |pair: &[usize]| pair[0] + 1..pair[1];
    let windows = quotes
        .windows(4)
        .filter(|four| text[four[1] + 1..four[2]].trim() == ":" && is_credential_name(&text[quoted(&four[..2])]));
    let values = windows.map(|four| quoted(&four[2..]));
    values
        .filter(|value| !value.is_empty() && !text[value.clone()].contains("{{"))
        .collect()
}

/// The template of a JSON text without the credentials that stand in it.
pub(crate) fn masked_template(text: &str) -> String {
    let mut shown = text.to_owned();
    for value in credentials_in_template(text).into_iter().rev() {
        shown.replace_range(value, REDACTED);
    }
    shown
}

/// A value without what its keys tell to be a credential.
pub(crate) fn masked(value: Json) -> Json {
    match value {
        Json::Object(object) => Json::Object(
            object
                .into_iter()
                .map(|(key, value)| match value {
                    Json::Null => (key, Json::Null),
                    _ if is_credential_name(&key) => (key, Json::from(REDACTED)),
                    value => (key, masked(value)),
                })
                .collect(),
        ),
        Json::Array(items) => Json::Array(items.into_iter().map(masked).collect()),
        other => other,
    }
}

/// A URL fit to be shown: user, password and credential parameters of the query are masked.
pub fn redact_url(url: &str) -> String {
    let mut shown = String::with_capacity(url.len());
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => {
            shown.push_str(scheme);
            shown.push_str("://");
            rest
        }
        None => url,
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_end);
    match authority.rsplit_once('@') {
        Some((_, host)) => {
            shown.push_str(REDACTED);
            shown.push('@');
            shown.push_str(host);
        }
        None => shown.push_str(authority),
    }
    let Some((path, query)) = rest.split_once('?') else {
        shown.push_str(rest);
        return shown;
    };
    shown.push_str(path);
    for (index, parameter) in query.split('&').enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, _)) if is_credential_header(name) => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(REDACTED);
            }
            _ => shown.push_str(parameter),
        }
    }
    shown
}

/// A text that was refused, or stands beside one that was: what looks like an address or a path may have been taken apart wrongly, so all that can
/// hold a secret in one is masked, also what a well-formed address would show. Other texts stay as they are.
pub(super) fn redact_refused(text: &str) -> String {
    let start = match text.find("://") {
        Some(at) => at + "://".len(),
        None if text.starts_with('/') || text.contains('@') => 0,
        None => return redact_url(text),
    };
    let (scheme, rest) = text.split_at(start);
    // A password may hold `/`, `?`, `#` and `@`, written by whoever forgot to encode it.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => (format!("{REDACTED}@"), rest),
        None => (String::new(), rest),
    };
    match rest.find(['?', '#']) {
        Some(at) => format!("{scheme}{user}{}{REDACTED}", &rest[..=at]),
        None => format!("{scheme}{user}{rest}"),
    }
}

/// The name of a file that cannot be had. Whoever writes a URL there may have written a password into it; the name of a file is shown as it is.
pub(crate) fn redact_path(path: &str) -> String {
    if path.contains("://") {
        redact_refused(path)
    } else {
        path.to_owned()
    }
}

/// Whether a text is a URL with something to hide.
pub(super) fn is_secret_url(text: &str) -> bool {
    (text.contains('@') || text.contains('?')) && redact_url(text) != text
}

/// Whether a text is a URL that no line of the file shows: well-formed or not, a secret may be in it.
fn is_suspicious_url(text: &str) -> bool {
    let address = text.split_once("://").map(|(_, address)| address);
    address.is_some_and(|address| address.contains(['@', '#', '?']))
}

/// Whether a line of a file that could not be parsed may hold a credential. Rather too often than once too little.
pub(super) fn is_suspicious_line(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let words = ["key", "token", "secret", "password", "auth", "cookie", "credential"];
    words.iter().any(|word| lower.contains(word)) || (lower.contains("://") && lower.contains('@'))
}

/// Where the credentials of a document are written, as pairs of start and end.
pub(super) fn find_secrets(root: &Node) -> Vec<(Position, Position)> {
    let mut found = Vec::new();
    collect(root, false, &mut found);
    found
}

/// The keys whose values were masked when a config was saved, as in `benchmark.endpoint.api_key`. The mask would be sent in place of the secret.
pub(super) fn find_masks(root: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect_masks(root, "", &mut found);
    found
}

fn collect_masks(node: &Node, path: &str, found: &mut Vec<String>) {
    match &node.value {
        Value::Scalar(scalar) if scalar.text.contains(REDACTED) => found.push(path.to_owned()),
        Value::Scalar(_) | Value::Faulty => {}
        Value::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                collect_masks(item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                let separator = if path.is_empty() { "" } else { "." };
                collect_masks(&entry.value, &format!("{path}{separator}{}", entry.key), found);
            }
        }
    }
}

fn collect(node: &Node, secret: bool, found: &mut Vec<(Position, Position)>) {
    match &node.value {
        Value::Scalar(scalar) if secret || is_secret_url(&scalar.text) || is_suspicious_url(&scalar.text) => {
            found.push((node.start, node.end));
        }
        Value::Faulty if secret => found.push((node.start, node.end)),
        Value::Scalar(_) | Value::Faulty => {}
        Value::Sequence(items) => items.iter().for_each(|item| collect(item, secret, found)),
        Value::Mapping(entries) => {
            for entry in entries {
                // Names of headers are anyone's choice, so none of their values is taken for harmless.
                let is_secret = secret
                    || entry.key == "headers"
                    || is_credential_name(&entry.key)
                    || is_near_credential(&entry.key)
                    || is_secret_path(&entry.key);
                collect(&entry.value, is_secret, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_they_are_and_urls_in_their_place_without_secrets() {
        for name in ["prompts.jsonl", "/data/a@b/x?y=1#z", "me@home.txt", "~/key=1"] {
            assert_eq!(redact_path(name), name);
        }
        assert_eq!(
            redact_path("https://me:pass@host/x?api_key=abc"),
            format!("https://{REDACTED}@host/x?{REDACTED}")
        );
    }

    #[test]
    fn credential_names_are_known_in_every_spelling() {
        for name in [
            "api_key",
            "apiKey",
            "Authorization",
            "X-Api-Key",
            "Cookie",
            "X-Auth-Token",
            "client_secret",
        ] {
            assert!(is_credential_name(name), "{name}");
        }
        for name in ["Ocp-Apim-Subscription-Key", "key", "X-Signature", "sig"] {
            assert!(is_credential_header(name) && !is_credential_name(name), "{name}");
        }
        for name in [
            "use_server_token_count",
            "use_legacy_max_tokens",
            "time_to_first_token",
            "tokenizer",
            "X-Trace",
            "max_tokens",
            "author",
        ] {
            assert!(!is_credential_name(name), "{name}");
        }
    }

    #[test]
    fn masks_of_a_saved_config_are_told() {
        let text = "benchmark:\n  model: m\n  endpoint: {urls: ['http://<redacted>@h/'], headers: {X-Key: <redacted>}}\n  dataset: {isl: 8}\n  \
                    phases: [{name: profiling, type: concurrency, requests: 1}]\n";
        let config = super::super::parse("saved.yaml", text.as_bytes(), &|_| None);
        let warnings = config.expect("the masks are fit to be read").warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in [
            "benchmark.endpoint.urls[0]",
            "benchmark.endpoint.headers.X-Key",
            "put the secrets back",
        ] {
            assert!(warnings[0].contains(part), "{warnings:?}");
        }
    }

    #[test]
    fn urls_lose_their_credentials_and_nothing_else() {
        assert_eq!(redact_url("http://u:p@h:1/a?x=1"), "http://<redacted>@h:1/a?x=1");
        assert_eq!(redact_url("u:p@h/a"), "<redacted>@h/a");
        assert_eq!(
            redact_url("http://h/a?x=1&api_key=s&y=2"),
            "http://h/a?x=1&api_key=<redacted>&y=2"
        );
        assert_eq!(redact_url("http://h/a@b"), "http://h/a@b");
        assert_eq!(redact_url("http://u:p@ss@h"), "http://<redacted>@h");
    }

    #[test]
    fn a_refused_address_shows_nothing_that_could_be_a_secret() {
        for (text, shown) in [
            ("http://u:hunter2@h:0/x", "http://<redacted>@h:0/x"),
            ("http://u:hun/ter2@h", "http://<redacted>@h"),
            ("http://u:hun#ter2@h", "http://<redacted>@h"),
            ("http://u:hun?ter2@h", "http://<redacted>@h"),
            ("http://u:hun@ter2@h", "http://<redacted>@h"),
            ("ftp://u:hunter2@h", "ftp://<redacted>@h"),
            ("u:hunter2@h:0", "<redacted>@h:0"),
            ("http://h/#hunter2", "http://h/#<redacted>"),
            ("http://h/a#access_token=hunter2", "http://h/a#<redacted>"),
            ("http://h/a?x=hunter2#f", "http://h/a?<redacted>"),
            ("/reset#hunter2", "/reset#<redacted>"),
            ("/reset?t=hunter2", "/reset?<redacted>"),
            ("//hunter2@h/x", "<redacted>@h/x"),
            ("http://h:0/v1", "http://h:0/v1"),
            ("what? #1", "what? #1"),
        ] {
            assert_eq!(redact_refused(text), shown);
        }
    }
}
