//! One record of a dataset file: its fields, each read with a complaint that names it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::mistake::{FileMistake, Mistakes};
use crate::units::Nanos;

/// Longest prompt or answer that a record may ask for, in tokens: far beyond any context window.
pub(super) const MAX_TOKENS: f64 = 10_000_000.0;
/// Latest timestamp and longest delay in milliseconds: times since 1970 that are written as such lie far below, and so does the end of the clock.
const MAX_MILLIS: f64 = 1e13;
/// Longest piece of a record that a message quotes, in characters.
const QUOTE_LIMIT: usize = 60;

/// A field as it stands in the record; absent when it is null.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// The fields of all formats. What a record has beside them is its author's business.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "'de: 'a")]
pub(super) struct Members<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) texts: Raw<'a>,
    pub(super) text_input: Raw<'a>,
    pub(super) input_length: Raw<'a>,
    pub(super) hash_ids: Raw<'a>,
    pub(super) messages: Raw<'a>,
    pub(super) tools: Raw<'a>,
    pub(super) turns: Raw<'a>,
    pub(super) role: Raw<'a>,
    pub(super) session_id: Raw<'a>,
    pub(super) output_length: Raw<'a>,
    pub(super) timestamp: Raw<'a>,
    pub(super) delay: Raw<'a>,
    pub(super) extra: Raw<'a>,
    pub(super) message_mode: Raw<'a>,
    pub(super) context_mode: Raw<'a>,
    pub(super) payload: Raw<'a>,
    pub(super) image: Raw<'a>,
    pub(super) images: Raw<'a>,
    pub(super) image_uuids: Raw<'a>,
    pub(super) audio: Raw<'a>,
    pub(super) audios: Raw<'a>,
    pub(super) video: Raw<'a>,
    pub(super) videos: Raw<'a>,
}

impl<'a> Members<'a> {
    /// Fields of the format that ringload does not send.
    pub(super) fn media(&self) -> [(&'static str, Raw<'a>); 7] {
        [
            ("image", self.image),
            ("images", self.images),
            ("image_uuids", self.image_uuids),
            ("audio", self.audio),
            ("audios", self.audios),
            ("video", self.video),
            ("videos", self.videos),
        ]
    }
}

/// Reads the fields of one record. A field with a mistake is reported and then missing.
pub(super) struct Reader<'a, 'm> {
    line: &'a str,
    record: u32,
    /// Where in the record the fields stand, as in `turns[1].`.
    prefix: String,
    mistakes: &'m mut Mistakes,
}

impl<'a, 'm> Reader<'a, 'm> {
    pub(super) fn new(line: &'a str, record: u32, mistakes: &'m mut Mistakes) -> Self {
        Self {
            line,
            record,
            prefix: String::new(),
            mistakes,
        }
    }

    pub(super) fn record(&self) -> u32 {
        self.record
    }

    /// A reader for what stands inside a field.
    pub(super) fn inside(&mut self, prefix: String) -> Reader<'a, '_> {
        Reader {
            line: self.line,
            record: self.record,
            prefix,
            mistakes: self.mistakes,
        }
    }

    /// The fields of the record.
    pub(super) fn members(&mut self) -> Option<Members<'a>> {
        // The check is needed beside the parser's, which would take a list for the fields in order.
        if !self.line.trim_start().starts_with('{') {
            let start = self.line.len() - self.line.trim_start().len();
            let column = characters_and_one(&self.line[..start]);
            self.push(
                column,
                "",
                format!("found {}; allowed: one JSON object per line", found(self.line.trim())),
            );
            return None;
        }
        match serde_json::from_str(self.line) {
            Ok(members) => Some(members),
            Err(error) => {
                let before = self.line.get(..error.column().saturating_sub(1));
                let message = format!("this line is no JSON object: {}", without_place(&error));
                self.push(before.map_or(1, characters_and_one), "", message);
                None
            }
        }
    }

    /// The fields of an object inside the record.
    pub(super) fn members_of(&mut self, field: &str, raw: &'a RawValue) -> Option<Members<'a>> {
        if !raw.get().starts_with('{') {
            self.mistake(field, raw, "an object");
            return None;
        }
        serde_json::from_str(raw.get())
            .map_err(|error| self.report(field, raw, without_place(&error)))
            .ok()
    }

    /// Reports a mistake of a field at its value.
    pub(super) fn report(&mut self, field: &str, raw: &RawValue, message: String) {
        let offset = (raw.get().as_ptr() as usize).wrapping_sub(self.line.as_ptr() as usize);
        let column = self.line.get(..offset).map_or(1, characters_and_one);
        self.push(column, field, message);
    }

    /// Reports a mistake of the whole record.
    pub(super) fn report_record(&mut self, message: impl Into<String>) {
        self.push(1, "", message.into());
    }

    fn push(&mut self, column: u32, field: &str, message: String) {
        self.mistakes.push(FileMistake {
            record: self.record,
            column,
            field: if field.is_empty() {
                self.prefix.trim_end_matches('.').to_owned()
            } else {
                format!("{}{field}", self.prefix)
            },
            message,
        });
    }

    fn mistake(&mut self, field: &str, raw: &RawValue, allowed: &str) {
        self.report(field, raw, format!("found {}; allowed: {allowed}", found(raw.get())));
    }

    /// Refuses a field that the format knows and ringload does not do.
    pub(super) fn refuse(&mut self, field: &str, raw: Raw<'a>, advice: &str) {
        if let Some(raw) = raw {
            self.report(
                field,
                raw,
                format!("not supported by ringload yet: \"{field}\"; {advice}"),
            );
        }
    }

    /// Text with something in it.
    pub(super) fn text(&mut self, field: &str, raw: &'a RawValue) -> Option<Cow<'a, str>> {
        match serde_json::from_str::<Text<'a>>(raw.get()) {
            Ok(Text(text)) if !text.is_empty() => Some(text),
            Ok(_) => {
                self.mistake(field, raw, "text that is not empty");
                None
            }
            Err(_) => {
                self.mistake(field, raw, "text");
                None
            }
        }
    }

    /// The contents of `texts`: a list of texts, or of objects with a list of texts in `contents`. Those with the name `query` come first, for a
    /// ranking is one of a query and what else there is.
    pub(super) fn texts(&mut self, field: &str, raw: &'a RawValue) -> Option<Vec<String>> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Item {
            Text(String),
            Named {
                name: Option<String>,
                contents: Vec<String>,
            },
        }
        let items: Option<Vec<Item>> = serde_json::from_str(raw.get()).ok();
        let texts: Option<Vec<String>> = items.map(|mut items| {
            let is_query = |item: &Item| matches!(item, Item::Named { name: Some(name), .. } if name == "query");
            items.sort_by_key(|item| !is_query(item));
            let contents = |item| match item {
                Item::Text(text) => vec![text],
                Item::Named { contents, .. } => contents,
            };
            items.into_iter().flat_map(contents).collect()
        });
        let texts = texts.filter(|texts| !texts.is_empty() && texts.iter().all(|text| !text.is_empty()));
        if texts.is_none() {
            self.mistake(field, raw, "a list of texts that are not empty");
        }
        texts
    }

    /// A number of tokens, at least 1.
    pub(super) fn tokens(&mut self, field: &str, raw: Raw<'a>) -> Option<u32> {
        let raw = raw?;
        match number(raw) {
            Some(tokens) if tokens.fract() == 0.0 && (1.0..=MAX_TOKENS).contains(&tokens) => Some(tokens as u32),
            _ => {
                self.mistake(field, raw, &format!("a whole number of tokens from 1 to {MAX_TOKENS}"));
                None
            }
        }
    }

    /// A time in milliseconds.
    pub(super) fn millis(&mut self, field: &str, raw: Raw<'a>) -> Option<Nanos> {
        let raw = raw?;
        match number(raw) {
            Some(millis) if (0.0..=MAX_MILLIS).contains(&millis) => {
                // Split, because milliseconds since 1970 with a fraction fit an f64 and their nanoseconds do not.
                let fraction = (millis.fract() * 1e6).round() as u64;
                Some(Nanos::from_millis(millis.trunc() as u64) + Nanos(fraction))
            }
            _ => {
                self.mistake(field, raw, "milliseconds, from 0 to 1e13");
                None
            }
        }
    }

    /// Numbers of blocks; a negative one is as good a name as any.
    pub(super) fn numbers(&mut self, field: &str, raw: &'a RawValue) -> Option<Box<[u64]>> {
        let unsigned: Result<Box<[u64]>, _> = serde_json::from_str(raw.get());
        let numbers = unsigned.or_else(|_| {
            serde_json::from_str::<Vec<i64>>(raw.get()).map(|list| list.into_iter().map(i64::cast_unsigned).collect())
        });
        numbers
            .map_err(|_| self.mistake(field, raw, "a list of whole numbers"))
            .ok()
    }

    /// Fields for the request body.
    pub(super) fn object(&mut self, field: &str, raw: Raw<'a>) -> Option<Map<String, Value>> {
        let raw = raw?;
        serde_json::from_str(raw.get())
            .map_err(|_| self.mistake(field, raw, "an object with fields for the request body"))
            .ok()
    }

    /// A list of objects that each have `key`, to be sent as it is.
    pub(super) fn list_of_objects(&mut self, field: &str, raw: &'a RawValue, key: &str) -> Option<Box<str>> {
        let list: Option<Vec<Map<String, Value>>> = serde_json::from_str(raw.get()).ok();
        let is_right = list.is_some_and(|list| !list.is_empty() && list.iter().all(|item| item.contains_key(key)));
        if !is_right {
            self.mistake(
                field,
                raw,
                &format!("a list of objects, each with \"{key}\", that is not empty"),
            );
        }
        is_right.then(|| raw.get().into())
    }

    /// The items of a list.
    pub(super) fn items(&mut self, field: &str, raw: &'a RawValue) -> Option<Vec<&'a RawValue>> {
        let items: Option<Vec<&RawValue>> = serde_json::from_str(raw.get()).ok();
        let items = items.filter(|items| !items.is_empty());
        if items.is_none() {
            self.mistake(field, raw, "a list that is not empty");
        }
        items
    }
}

/// Borrowed where the JSON text has no escapes: what most prompts are.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn number(raw: &RawValue) -> Option<f64> {
    serde_json::from_str(raw.get()).ok()
}

fn characters_and_one(text: &str) -> u32 {
    u32::try_from(text.chars().count() + 1).unwrap_or(u32::MAX)
}

/// A value as messages show it.
fn found(json: &str) -> String {
    match json.chars().nth(QUOTE_LIMIT) {
        None => format!("`{}`", json.escape_debug().to_string().replace("\\\"", "\"")),
        Some(_) => {
            let cut: String = json.chars().take(QUOTE_LIMIT).collect();
            format!("`{}...`", cut.escape_debug().to_string().replace("\\\"", "\""))
        }
    }
}

/// The parser's own words; the place is ours to say, because it counts lines from the start of the record.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
