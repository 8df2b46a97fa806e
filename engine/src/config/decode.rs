//! From tree to types: sections (mappings with known keys) and fields (values with a path), both reporting into one sink.
//!
//! Readers return `None` after reporting, so that one pass finds every mistake. A field whose value is null reads as absent.

use std::rc::Rc;

use super::diagnostic::{Sink, quote, visible};
use super::scalar::{self, Fault, Number};
use super::schema::{Schema, nearest, snake_case};
use super::secret::{REDACTED, is_secret_path, redact_refused};
use super::tree::{Entry, Node, Position, Scalar, Value};

/// A value of the file with its name.
#[derive(Clone)]
pub(super) struct Field<'t> {
    pub(super) node: &'t Node,
    /// The key, as in `benchmark.phases[1].rate`.
    pub(super) path: String,
    pub(super) sink: &'t Sink,
}

/// A mapping whose keys are known.
pub(super) struct Section<'t> {
    schema: &'static Schema,
    /// Where the mapping begins.
    pub(super) start: Position,
    path: String,
    sink: &'t Sink,
    entries: Vec<(&'static str, &'t Entry)>,
    /// Keys that were refused by name, so that nothing further is said about what they would have given.
    refused: Vec<&'static str>,
    /// Keys that an unknown key was probably meant to be; the same holds for them.
    suggested: Vec<&'static str>,
    /// Whether any key was unknown.
    pub(super) has_unknown_keys: bool,
}

/// Limits of a number or duration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) min: f64,
    pub(super) min_is_allowed: bool,
    pub(super) max: f64,
    pub(super) infinity_is_allowed: bool,
}

impl Bounds {
    /// Above zero and finite.
    pub(super) const POSITIVE: Self = Self {
        min: 0.0,
        min_is_allowed: false,
        max: f64::MAX,
        infinity_is_allowed: false,
    };
    /// Zero or more, finite.
    pub(super) const NOT_NEGATIVE: Self = Self {
        min_is_allowed: true,
        ..Self::POSITIVE
    };

    /// Any number but infinity.
    pub(super) const FINITE: Self = Self {
        min: f64::MIN,
        ..Self::NOT_NEGATIVE
    };

    pub(super) const fn or_infinity(self) -> Self {
        Self {
            infinity_is_allowed: true,
            ..self
        }
    }

    pub(super) fn contains(&self, value: f64) -> bool {
        if value.is_infinite() {
            return self.infinity_is_allowed && value > 0.0;
        }
        value <= self.max && (value > self.min || (self.min_is_allowed && value >= self.min))
    }

    /// A duration within the limits, in words.
    pub(super) fn of_duration(&self) -> String {
        format!("a duration {} (such as 30, 30s, 500ms, 2m, 1h30m)", self.describe())
    }

    /// A duration that stands alone, outside any file.
    ///
    /// # Errors
    /// What is allowed, and advice if there is any.
    pub(super) fn duration(&self, text: &str) -> Result<f64, String> {
        let allowed = self.of_duration();
        match scalar::duration(text) {
            Ok(seconds) if self.contains(seconds) => Ok(seconds),
            Ok(_) | Err(Fault::NoMatch) => Err(format!("allowed: {allowed}")),
            Err(Fault::Advice(advice)) => Err(format!("allowed: {allowed}; {advice}")),
        }
    }

    fn describe(&self) -> String {
        let mut text = match (self.min_is_allowed, self.max < f64::MAX) {
            (true, false) if self.min == f64::MIN => "that is finite".to_owned(),
            (true, true) => format!("from {} to {}", self.min, self.max),
            (true, false) => format!("of at least {}", self.min),
            (false, true) => format!("above {} and up to {}", self.min, self.max),
            (false, false) => format!("above {}", self.min),
        };
        if self.infinity_is_allowed {
            text.push_str(", or inf");
        }
        text
    }
}

/// The path of a key below another.
fn child_path(path: &str, key: &str) -> String {
    let key = visible(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// "; did you mean `x`?" if a candidate is near.
fn suggestion<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

impl<'t> Field<'t> {
    pub(super) fn report(&self, message: impl Into<String>) {
        self.sink.report(self.node.start, &self.path, message);
    }

    /// The usual mistake: what stands here, and what may.
    pub(super) fn mistake(&self, allowed: &str) {
        self.report(format!("found {}; allowed: {allowed}", self.found()));
    }

    /// The refusal of something the format knows and ringload does not do.
    pub(super) fn refuse(&self, what: &str, advice: &str) {
        self.report(format!("not supported by ringload yet: {what}; {advice}"));
    }

    /// What stands here, fit for a message.
    pub(super) fn found(&self) -> String {
        match &self.node.value {
            Value::Sequence(items) if items.is_empty() => "an empty list".to_owned(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(entries) if entries.is_empty() => "an empty mapping".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
            Value::Faulty => "nothing readable".to_owned(),
            Value::Scalar(_) if self.node.is_null() => "null".to_owned(),
            Value::Scalar(_) if is_secret_path(&self.path) => REDACTED.to_owned(),
            Value::Scalar(scalar) if scalar.text.is_empty() => "an empty text".to_owned(),
            Value::Scalar(scalar) => quote(&redact_refused(&scalar.text)),
        }
    }

    /// The scalar here; reports anything else as not being `allowed`.
    pub(super) fn scalar(&self, allowed: &str) -> Option<&'t Scalar> {
        match &self.node.value {
            Value::Scalar(scalar) if !self.node.is_null() => Some(scalar),
            Value::Faulty => None,
            _ => {
                self.mistake(allowed);
                None
            }
        }
    }

    /// Text as written: `on`, `1.10` and `5` stay what they are.
    pub(super) fn text(&self) -> Option<&'t str> {
        self.scalar("text").map(|scalar| scalar.text.as_str())
    }

    /// Text with something in it.
    pub(super) fn non_empty_text(&self) -> Option<&'t str> {
        let text = self.text()?;
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            self.mistake("text that is not blank and has no control characters");
            return None;
        }
        Some(text)
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let scalar = self.scalar("true or false")?;
        let value = scalar::boolean(&scalar.text);
        if value.is_none() {
            self.mistake("true or false (also yes, no, on, off)");
        }
        value
    }

    /// A whole number from `min` to `max`. The type must hold all of them.
    pub(super) fn integer<T: TryFrom<i128>>(&self, min: i128, max: i128) -> Option<T> {
        // The upper end of a machine type is worth saying only to someone who went beyond it.
        let has_limit = max < i128::from(u32::MAX);
        let range = format!("a whole number from {min} to {max}");
        let allowed = if has_limit {
            range.clone()
        } else {
            format!("a whole number of at least {min}")
        };
        match scalar::number(&self.number_scalar(&allowed)?.text) {
            Ok(Number {
                integer: Some(value), ..
            }) if (min..=max).contains(&value) => return T::try_from(value).ok(),
            Ok(Number {
                integer: Some(value), ..
            }) if value > max => self.mistake(&range),
            Ok(_) => self.mistake(&allowed),
            Err(fault) => self.number_mistake(fault, &allowed),
        }
        None
    }

    pub(super) fn float(&self, bounds: Bounds) -> Option<f64> {
        self.measure(&format!("a number {}", bounds.describe()), bounds, |text| {
            scalar::number(text).map(|n| n.value)
        })
    }

    /// A duration in seconds.
    pub(super) fn duration(&self, bounds: Bounds) -> Option<f64> {
        self.measure(&bounds.of_duration(), bounds, scalar::duration)
    }

    /// A list where one number is due was meant to be tried out value by value.
    fn number_scalar(&self, allowed: &str) -> Option<&'t Scalar> {
        if matches!(self.node.value, Value::Sequence(_)) {
            self.mistake(&format!(
                "{allowed}; to run once with each value of a list, put the list under `sweep`"
            ));
            return None;
        }
        self.scalar(allowed)
    }

    fn measure(&self, allowed: &str, bounds: Bounds, read: impl Fn(&str) -> Result<f64, Fault>) -> Option<f64> {
        match read(&self.number_scalar(allowed)?.text) {
            Ok(value) if bounds.contains(value) => Some(value),
            Ok(_) => {
                self.mistake(allowed);
                None
            }
            Err(fault) => {
                self.number_mistake(fault, allowed);
                None
            }
        }
    }

    fn number_mistake(&self, fault: Fault, allowed: &str) {
        match fault {
            Fault::NoMatch => self.mistake(allowed),
            Fault::Advice(advice) => self.mistake(&format!("{allowed}; {advice}")),
        }
    }

    /// One word of a list, in any case. `refused` are words of the format that do not work yet.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)], refused: &[&'static str]) -> Option<T> {
        self.choose(words, refused, |text| text.to_ascii_lowercase())
    }

    /// One word of a list, exactly as it is spelt there: the words that decide how the rest of a section is read.
    pub(super) fn exact_word<T: Copy>(&self, words: &[(&'static str, T)], refused: &[&'static str]) -> Option<T> {
        self.choose(words, refused, str::to_owned)
    }

    fn choose<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        refused: &[&'static str],
        fold: impl Fn(&str) -> String,
    ) -> Option<T> {
        let allowed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let text = fold(&self.scalar(&allowed)?.text);
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        if refused.contains(&text.as_str()) {
            self.refuse(&format!("`{text}`"), &format!("allowed: {allowed}"));
        } else {
            let all = words.iter().map(|(word, _)| *word).chain(refused.iter().copied());
            self.mistake(&format!("{allowed}{}", suggestion(&text, all)));
        }
        None
    }

    /// The items of a list, made one by one: paths of long lists would take more memory than the lists.
    pub(super) fn items(&self, allowed: &str) -> Option<impl ExactSizeIterator<Item = Field<'t>>> {
        let Value::Sequence(items) = &self.node.value else {
            if !self.node.is_faulty() {
                self.mistake(allowed);
            }
            return None;
        };
        let field = |(index, node): (usize, &'t Rc<Node>)| Field {
            node,
            path: format!("{}[{index}]", self.path),
            sink: self.sink,
        };
        Some(items.iter().enumerate().map(field))
    }

    /// The entries of a mapping with free keys, as key, place of the key, and value.
    pub(super) fn free_entries(&self, allowed: &str) -> Option<impl Iterator<Item = (&'t str, Position, Field<'t>)>> {
        let Value::Mapping(entries) = &self.node.value else {
            if !self.node.is_faulty() {
                self.mistake(allowed);
            }
            return None;
        };
        let field = |entry: &'t Entry| {
            let path = child_path(&self.path, &entry.key);
            (
                entry.key.as_str(),
                entry.key_at,
                Field {
                    node: &entry.value,
                    path,
                    sink: self.sink,
                },
            )
        };
        Some(entries.iter().map(field))
    }

    /// The mapping here with the keys of `schema`. Unknown and refused keys are reported.
    pub(super) fn section(&self, schema: &'static Schema) -> Option<Section<'t>> {
        let Value::Mapping(entries) = &self.node.value else {
            if !self.node.is_faulty() {
                self.mistake(&format!("a mapping with the keys {}", schema.keys.join(", ")));
            }
            return None;
        };
        let mut section = Section {
            schema,
            start: self.node.start,
            path: self.path.clone(),
            sink: self.sink,
            entries: Vec::new(),
            refused: Vec::new(),
            suggested: Vec::new(),
            has_unknown_keys: false,
        };
        for entry in entries {
            section.accept(entry);
        }
        Some(section)
    }

    /// Whether this is a list or mapping without anything in it.
    pub(super) fn is_empty(&self) -> bool {
        match &self.node.value {
            Value::Sequence(items) => items.is_empty(),
            Value::Mapping(entries) => entries.is_empty(),
            Value::Scalar(_) | Value::Faulty => false,
        }
    }

    /// Whether this is a mapping that has `key`, in either spelling.
    pub(super) fn has_key(&self, key: &str) -> bool {
        matches!(&self.node.value, Value::Mapping(entries) if entries.iter().any(|entry| snake_case(&entry.key) == key))
    }

    /// Whether the value is unquoted text, so that `true` means the boolean.
    pub(super) fn is_unquoted(&self) -> bool {
        self.node.scalar().is_some_and(|scalar| !scalar.style.is_text())
    }
}

impl<'t> Section<'t> {
    fn accept(&mut self, entry: &'t Entry) {
        let name = snake_case(&entry.key);
        if let Some(&key) = self.schema.keys.iter().find(|&&key| key == name) {
            match self.entries.iter().find(|(present, _)| *present == key) {
                None => self.entries.push((key, entry)),
                // A merged entry comes after the own ones, and those win.
                Some(_) if entry.merged => {}
                Some((_, first)) => self.report_second_spelling(first, entry),
            }
        } else if let Some(refused) = self.schema.refused.iter().find(|refused| refused.key == name) {
            if !is_harmless(&entry.value, refused.harmless) {
                self.refused.push(refused.key);
                self.refuse(entry);
            }
        } else {
            self.report_unknown(entry, &name);
        }
    }

    fn report_second_spelling(&self, first: &Entry, second: &Entry) {
        let message = format!(
            "found this key a second time; it is on {} already as {}; remove one",
            first.key_at.told(),
            quote(&first.key)
        );
        self.sink
            .report(second.key_at, &child_path(&self.path, &second.key), message);
    }

    fn refuse(&self, entry: &Entry) {
        let message = format!("not supported by ringload yet: {}; remove the key", quote(&entry.key));
        self.sink
            .report(entry.key_at, &child_path(&self.path, &entry.key), message);
    }

    fn report_unknown(&mut self, entry: &Entry, name: &str) {
        self.has_unknown_keys = true;
        let keys = self.schema.keys.join(", ");
        let near = nearest(name, self.schema.known());
        let written = near.and_then(|near| self.entries.iter().find(|(present, _)| *present == near));
        // A key that is right somewhere else is more likely misplaced than misspelt.
        let advice = match (self.schema.homes_of(name), near) {
            (Some(homes), _) => format!("it belongs in {homes}; allowed here: {keys}"),
            (None, Some(near)) if let Some((_, written)) = written => {
                format!(
                    "did you mean `{near}`, which is on line {} already?",
                    written.key_at.line
                )
            }
            (None, Some(near)) => {
                self.suggested.push(near);
                format!("did you mean `{near}`?")
            }
            (None, None) => format!("allowed: {keys}"),
        };
        let message = format!("unknown key {}; {advice}", quote(&entry.key));
        self.sink
            .report(entry.key_at, &child_path(&self.path, &entry.key), message);
    }

    /// The value of a key, unless it is absent or null.
    pub(super) fn field(&self, key: &'static str) -> Option<Field<'t>> {
        debug_assert!(
            self.schema.keys.contains(&key),
            "{key} is not in the schema of {}",
            self.schema.place
        );
        let (_, entry) = self.entries.iter().find(|(present, _)| *present == key)?;
        let field = Field {
            node: &entry.value,
            path: child_path(&self.path, &entry.key),
            sink: self.sink,
        };
        (!field.node.is_null()).then_some(field)
    }

    /// Whether a mistake about this key has been reported already: it was refused by name, or misspelt.
    pub(super) fn is_accounted_for(&self, key: &'static str) -> bool {
        self.refused.contains(&key) || self.suggested.contains(&key)
    }

    /// Whether a key is written, null included.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.key_at(key).is_some()
    }

    /// Whether a key came in through a merge key.
    pub(super) fn is_merged(&self, key: &'static str) -> bool {
        self.entries
            .iter()
            .any(|(present, entry)| *present == key && entry.merged)
    }

    /// Where a key is written.
    pub(super) fn key_at(&self, key: &'static str) -> Option<Position> {
        self.entries
            .iter()
            .find(|(present, _)| *present == key)
            .map(|(_, entry)| entry.key_at)
    }

    /// The tree of a key, unless it is absent or null.
    pub(super) fn node(&self, key: &'static str) -> Option<&'t Rc<Node>> {
        let (_, entry) = self.entries.iter().find(|(present, _)| *present == key)?;
        (!entry.value.is_null()).then_some(&entry.value)
    }

    /// The value of a key that must be there.
    pub(super) fn required(&self, key: &'static str, advice: &str) -> Option<Field<'t>> {
        let field = self.field(key);
        if field.is_none() && !self.is_accounted_for(key) {
            let at = self.key_at(key).unwrap_or(self.start);
            // A section that a flag began lacks what another flag writes.
            let what = match at.flag() {
                Some(_) => format!("`{key}` is required beside it"),
                None => "this key is required".to_owned(),
            };
            self.sink
                .report(at, &child_path(&self.path, key), format!("{what}; {advice}"));
        }
        field
    }

    /// Reports a mistake of a key, wherever it is written, or of the section if it is not.
    pub(super) fn report(&self, key: &'static str, message: impl Into<String>) {
        let at = self.key_at(key).unwrap_or(self.start);
        self.sink.report(at, &child_path(&self.path, key), message);
    }

    /// Says something about a key that is no mistake.
    pub(super) fn warn(&self, key: &'static str, warning: &str) {
        self.sink.warn(format!("{}: {warning}", child_path(&self.path, key)));
    }

    /// Reports the second of two keys that exclude each other. Null counts as written.
    pub(super) fn exclusive(&self, first: &'static str, second: &'static str) -> bool {
        let (Some(first_at), Some(second_at)) = (self.key_at(first), self.key_at(second)) else {
            return false;
        };
        // A flag stands above every line, and the mistake is one of the flag.
        let is_flag = |at: Position| at.flag().is_some();
        let is_second = is_flag(second_at) || (!is_flag(first_at) && first_at < second_at);
        let (early, late, place) = if is_second {
            (first, second, first_at.told())
        } else {
            (second, first, second_at.told())
        };
        self.report(
            late,
            format!("`{late}` and `{early}` ({place}) exclude each other; keep one"),
        );
        true
    }
}

/// Whether a value of a refused key asks for nothing.
fn is_harmless(node: &Node, harmless: &[&str]) -> bool {
    let word = match &node.value {
        _ if node.is_null() => return true,
        Value::Faulty => return true,
        Value::Scalar(scalar) => scalar.text.trim().to_ascii_lowercase(),
        Value::Sequence(items) if items.is_empty() => "[]".to_owned(),
        Value::Mapping(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Sequence(_) | Value::Mapping(_) => return false,
    };
    harmless.contains(&word.as_str())
}
