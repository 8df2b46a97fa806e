//! Credentials by their values: what a server echoes, an error quotes or a template carries on is masked wherever it turns up.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value as Json;

use super::secret::{REDACTED, credentials_in_template, is_credential_header, is_credential_name, is_secret_url};
use super::tree::{Node, Value};
use super::url::percent_decode;
use super::{base64::base64, scalar};

/// Shortest value that is masked wherever it turns up: a shorter one is part of too many words.
const SHORTEST: usize = 6;

/// Most values that are masked, the longest ones: every text is searched for each.
const MOST: usize = 200;

/// The credentials of a config.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Longest first.
    values: Arc<[String]>,
}

impl Secrets {
    /// The credentials of a tree, and what else is known for one.
    pub(super) fn of(root: &Node, others: impl IntoIterator<Item = String>) -> Self {
        let mut found = Found(others.into_iter().collect());
        found.collect(root, Place::Anywhere);
        found.finish()
    }

    /// What is known of a file that has no tree.
    pub(super) fn from_outside(values: Vec<String>) -> Self {
        Found(values.into_iter().collect()).finish()
    }

    /// These and those of another tree.
    pub(super) fn and(&self, root: &Node) -> Self {
        Self::of(root, self.values.iter().cloned())
    }

    /// These and those that stand in the template of a body.
    pub(super) fn and_of_template(&self, text: &str) -> Self {
        let mut found = Found(self.values.iter().cloned().collect());
        found.template(text);
        found.finish()
    }

    /// These and others.
    pub(super) fn union(&self, others: &Self) -> Self {
        if others.values.iter().all(|value| self.values.contains(value)) {
            return self.clone();
        }
        Found(self.values.iter().chain(others.values.iter()).cloned().collect()).finish()
    }

    /// Whether there are none to be masked by their values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A text without any of them.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let places = self.places_in(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut done) = (String::with_capacity(text.len()), 0);
        for (from, to) in places {
            shown.push_str(&text[done..from]);
            shown.push_str(REDACTED);
            done = to;
        }
        shown.push_str(&text[done..]);
        Cow::Owned(shown)
    }

    /// The same for the text that begins at `start`, of which each line is whole.
    pub fn redact_from(&self, text: &mut Vec<u8>, start: usize) {
        if self.values.is_empty() {
            return;
        }
        if let Cow::Owned(shown) = self.redact(&String::from_utf8_lossy(&text[start..])) {
            text.truncate(start);
            text.extend_from_slice(shown.as_bytes());
        }
    }

    /// Where they are in a text, in bytes, sorted, without overlaps.
    pub(super) fn places_in(&self, text: &str) -> Vec<(usize, usize)> {
        let occurrences = self.values.iter().flat_map(|value| occurrences(text, value));
        merged(occurrences.collect())
    }

    /// A value without any of them in its texts, names of fields left as they are.
    pub fn redact_json(&self, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Cow::Owned(shown) = self.redact(text) {
                    *text = shown;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Json::Object(object) => object.values_mut().for_each(|value| self.redact_json(value)),
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
}

/// The last boundary of characters at or before a byte.
pub(super) fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

/// Ranges sorted, those that overlap made one.
pub(super) fn merged(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut merged: Vec<(usize, usize)> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match merged.last_mut() {
            Some(last) if from < last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Where a value is in a text, also where the text was cut in the middle of it.
fn occurrences<'a>(text: &'a str, value: &'a str) -> impl Iterator<Item = (usize, usize)> {
    let head_end = (SHORTEST..value.len()).find(|&at| value.is_char_boundary(at));
    let head = &value[..head_end.unwrap_or(value.len())];
    let mut done = 0;
    text.match_indices(head).filter_map(move |(at, _)| {
        if at < done {
            return None;
        }
        let pairs = text[at..].bytes().zip(value.bytes());
        let same = pairs.take_while(|(found, wanted)| found == wanted).count();
        let end = boundary_before(text, at + same);
        let is_cut = text[end..].is_empty() || text[end..].starts_with("..");
        (same == value.len() || is_cut).then(|| {
            done = end;
            (at, end)
        })
    })
}

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Anywhere,
    /// Directly in a mapping of headers.
    Headers,
    /// Under a key that names a credential.
    Credential,
}

struct Found(BTreeSet<String>);

impl Found {
    fn collect(&mut self, node: &Node, place: Place) {
        match &node.value {
            Value::Scalar(_) if node.is_null() => {}
            Value::Scalar(scalar) => {
                let means_itself = scalar.style.is_text()
                    || (scalar::boolean(&scalar.text).is_none() && scalar::number(&scalar.text).is_err());
                if place == Place::Credential && means_itself {
                    self.credential(&scalar.text);
                }
                if is_secret_url(&scalar.text) {
                    self.url(&scalar.text);
                }
            }
            Value::Faulty => {}
            Value::Sequence(items) => items.iter().for_each(|item| self.collect(item, place)),
            Value::Mapping(entries) => {
                for entry in entries {
                    let is_credential = match place {
                        Place::Credential => true,
                        Place::Headers => is_credential_header(&entry.key),
                        // The key may be a path of a sweep.
                        Place::Anywhere => {
                            is_credential_name(&entry.key)
                                || entry
                                    .key
                                    .split_once("headers.")
                                    .is_some_and(|(_, name)| is_credential_header(name))
                        }
                    };
                    let is_headers = entry.key == "headers" || entry.key.ends_with(".headers");
                    let below = match (is_credential, is_headers) {
                        (true, _) => Place::Credential,
                        (false, true) => Place::Headers,
                        // A list of mappings of headers, in a sweep.
                        (false, false) => Place::Anywhere,
                    };
                    if let ("body" | "payload_template", Some(scalar)) = (entry.key.as_str(), entry.value.scalar()) {
                        self.template(&scalar.text);
                    }
                    self.collect(&entry.value, below);
                }
            }
        }
    }

    fn template(&mut self, text: &str) {
        for value in credentials_in_template(text) {
            self.credential(&text[value]);
        }
    }

    /// A credential without the word of its scheme, and the values of cookies, which servers know one by one.
    fn credential(&mut self, text: &str) {
        let text = text.trim();
        let is_scheme = |word: &str| ["bearer", "basic", "token", "digest", "apikey"].contains(&word);
        let bare = match text.split_once(' ') {
            Some((scheme, rest)) if is_scheme(&scheme.to_ascii_lowercase()) => rest.trim(),
            _ => text,
        };
        self.0.insert(bare.to_owned());
        let cookies = bare.split(';').filter_map(|cookie| cookie.split_once('='));
        self.0.extend(cookies.map(|(_, value)| value.trim().to_owned()));
    }

    /// The credentials of a URL. A user's name is none, unless there is no password.
    fn url(&mut self, text: &str) {
        if let Some((_, rest)) = text.split_once("://") {
            let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
            if let Some((pair, _)) = authority.rsplit_once('@') {
                let (user, password) = pair.split_once(':').unwrap_or((pair, ""));
                let secret = if password.is_empty() { user } else { password };
                let decoded = |text: &str| percent_decode(text).unwrap_or_default();
                self.0.extend([pair.to_owned(), secret.to_owned(), decoded(secret)]);
                let sent = format!("{}:{}", decoded(user), decoded(password));
                self.0.insert(base64(sent.as_bytes()));
            }
        }
        if let Some((_, query)) = text.split_once('?') {
            let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
            for (_, value) in parameters.filter(|(name, _)| is_credential_header(name)) {
                self.0.insert(value.to_owned());
                self.0.extend(percent_decode(value));
            }
        }
    }

    fn finish(self) -> Secrets {
        let mut values = self.0;
        // An answer in JSON has them with its own escapes.
        let escaped: Vec<String> = values
            .iter()
            .map(|value| Json::from(value.as_str()).to_string())
            .collect();
        values.extend(escaped.iter().map(|quoted| quoted[1..quoted.len() - 1].to_owned()));
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.truncate(MOST);
        Secrets { values: values.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnostic::Sink;
    use super::super::parse;
    use super::*;

    fn secrets(text: &str) -> Secrets {
        let root = parse::parse(text, &|_| None, &Sink::default()).expect("a tree");
        Secrets::of(&root, [])
    }

    #[test]
    fn credentials_are_found_in_every_place_that_takes_one() {
        let secrets = secrets(
            "endpoint: {api_key: k-111111, url: \"http://joe:p-222222@h/?key=q-333333\", headers: {Cookie: \"a=c-444444; b=c-555555\", \
             Authorization: Bearer b-666666, Accept: application/json, X-Key: x-777777}, extra: {a: [{auth_token: t-888888}], max_token: 1000000}}\n\
             template: {body: '{\"api_key\": \"y-121212\", \"auth_token\" : \"v-131313\", \"max_tokens\": \"harmless\", \"token\": \"{{ text }}\", \"p\": {{ text|tojson }}}'}\n\
             sweep: {parameters: {endpoint.headers.X-Key: [s-999999], endpoint.headers: [{Cookie: d-000000}]}}\n",
        );
        for value in [
            "k-111111",
            "p-222222",
            "q-333333",
            "c-444444",
            "c-555555",
            "b-666666",
            "x-777777",
            "t-888888",
            "s-999999",
            "d-000000",
            "am9lOnAtMjIyMjIy",
            "y-121212",
            "v-131313",
        ] {
            assert_eq!(secrets.redact(&format!("<{value}>")), "<<redacted>>", "{value}");
        }
        for harmless in ["{{ text }}", "harmless", "joe", "application/json", "Bearer", "1000000"] {
            assert_eq!(secrets.redact(harmless), harmless);
        }
    }

    #[test]
    fn a_credential_that_was_cut_is_masked_and_its_beginning_elsewhere_is_not() {
        let secrets = secrets("api_key: sk-verysecretvalue\n");
        assert_eq!(secrets.redact("key sk-verysecr"), "key <redacted>");
        assert_eq!(secrets.redact("`sk-verysecr...`"), "`<redacted>...`");
        assert_eq!(secrets.redact("sk-very other"), "sk-very other");
        assert_eq!(
            secrets.redact("sk-verysecretvalue sk-verysecretvalue!"),
            "<redacted> <redacted>!"
        );
    }

    #[test]
    fn texts_in_a_document_are_masked_and_its_names_are_not() {
        let secrets = secrets("password: \"a\\\"b\\\\cdef\"\n");
        let mut document =
            serde_json::json!({"a\"b\\cdef": ["x a\"b\\cdef y", 5], "time_to_first_token": {"avg": 1.5}});
        secrets.redact_json(&mut document);
        assert_eq!(
            document,
            serde_json::json!({"a\"b\\cdef": ["x <redacted> y", 5], "time_to_first_token": {"avg": 1.5}})
        );
        assert_eq!(secrets.redact(r#"{"m": "a\"b\\cdef"}"#), r#"{"m": "<redacted>"}"#);
    }
}
