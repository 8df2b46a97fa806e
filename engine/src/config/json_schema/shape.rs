//! The shapes that values of the file may have, and each as JSON Schema.
//!
//! A shape takes what the loader takes: numbers also as text, `on` for true where a YAML reader leaves it a text, words in any case, null for an
//! absent key, and everywhere a text with `${NAME}` or `{{ template }}`, whose value is not known before the file is loaded.

use serde_json::{Value, json};

use super::super::schema::Schema;

/// What may stand under a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Text, or a scalar that is read as text.
    Text,
    /// Text that matches.
    Matching(&'static str),
    /// true, false, yes, no, on, off.
    Boolean,
    /// The same, but not a quoted `"true"`: beside a mapping the quotes are all that tells a mistake from a switch.
    Switch,
    /// Only the words for false.
    Off,
    /// A whole number from here on.
    Whole(i64),
    /// A number within limits.
    Number(Limits),
    /// Seconds, or a text such as `1h30m`, within limits.
    Duration(Limits),
    /// One of these words in any case.
    Words(&'static [&'static str]),
    /// One of these words as it stands here.
    Exactly(&'static [&'static str]),
    /// This number.
    Just(f64),
    /// A mapping with the keys of a section.
    Section(&'static Schema),
    /// A list.
    List(&'static Shape),
    /// A list without items, which asks for nothing.
    EmptyList,
    /// A mapping with free keys and text as values.
    TextMap,
    /// A mapping from paths to lists of values.
    ListMap,
    /// A mapping with free keys and values.
    FreeMap,
    /// Anything.
    Free,
    /// One of several shapes.
    OneOf(&'static [Shape]),
}

/// Limits of a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    min: Option<f64>,
    min_is_allowed: bool,
    max: Option<f64>,
    /// Whether `inf` is a value.
    infinity: bool,
}

impl Limits {
    pub(super) const NONE: Self = Self {
        min: None,
        min_is_allowed: true,
        max: None,
        infinity: false,
    };
    pub(super) const POSITIVE: Self = Self {
        min: Some(0.0),
        min_is_allowed: false,
        ..Self::NONE
    };
    pub(super) const NOT_NEGATIVE: Self = Self {
        min_is_allowed: true,
        ..Self::POSITIVE
    };

    pub(super) const fn or_infinity(self) -> Self {
        Self { infinity: true, ..self }
    }

    pub(super) const fn up_to(self, max: f64) -> Self {
        Self { max: Some(max), ..self }
    }

    pub(super) const fn from(min: f64) -> Self {
        Self {
            min: Some(min),
            ..Self::NONE
        }
    }

    fn number(&self) -> Value {
        let mut schema = json!({ "type": "number" });
        if let Some(min) = self.min {
            let key = if self.min_is_allowed {
                "minimum"
            } else {
                "exclusiveMinimum"
            };
            schema[key] = json!(min);
        }
        if let Some(max) = self.max {
            schema["maximum"] = json!(max);
        }
        schema
    }
}

/// Text with something in it.
const VISIBLE: &str = r"\S";
/// A number as text: limits are not looked at there.
const NUMBER: &str = r"^\s*[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?\s*$";
const INFINITY: &str = r"^\s*\+?(\.?[iI][nN][fF]|[iI][nN][fF][iI][nN][iI][tT][yY])\s*$";
/// A text whose value is known only when the file is loaded.
const OPEN: &str = r"\$\{|\{\{|\{%";
const UNITS: [&str; 8] = ["h", "hr", "hour", "m", "min", "s", "sec", "ms"];

/// The name of a section among the definitions.
pub(super) fn definition(schema: &Schema) -> String {
    match schema.place {
        "" => "file".to_owned(),
        place => place.replace("[]", "").replace('.', "_"),
    }
}

impl Shape {
    /// The alternatives, of which one must fit.
    fn alternatives(&self) -> Vec<Value> {
        let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
        let boolean = |words: &[&str]| pattern(&format!(r"^\s*({})\s*$", any_case(words)));
        match *self {
            Self::Text => vec![pattern(VISIBLE), json!({ "type": ["number", "boolean"] })],
            Self::Matching(expression) => vec![pattern(expression), json!({ "type": "boolean" })],
            Self::Boolean => vec![
                json!({ "type": "boolean" }),
                boolean(&["true", "yes", "on", "false", "no", "off"]),
            ],
            Self::Switch => vec![json!({ "type": "boolean" }), boolean(&["yes", "on", "no", "off"])],
            Self::Off => vec![json!({ "const": false }), boolean(&["false", "no", "off"])],
            Self::Whole(min) => vec![json!({ "type": "integer", "minimum": min }), pattern(NUMBER)],
            Self::Number(limits) => {
                let mut all = vec![limits.number(), pattern(NUMBER)];
                all.extend(limits.infinity.then(|| pattern(INFINITY)));
                all
            }
            Self::Duration(limits) => {
                let mut all = Self::Number(limits).alternatives();
                all.push(pattern(&format!(r"^\s*(\d[\d_.]*\s*({})\s*)+$", any_case(&UNITS))));
                all
            }
            Self::Words(words) => vec![json!({ "enum": words }), pattern(&format!("^({})$", any_case(words)))],
            Self::Exactly(words) => vec![json!({ "enum": words })],
            Self::Just(number) => vec![json!({ "const": number })],
            Self::Section(section) => vec![json!({ "$ref": format!("#/$defs/{}", definition(section)) })],
            Self::List(item) => vec![json!({ "type": "array", "items": item.inner() })],
            Self::EmptyList => vec![json!({ "type": "array", "maxItems": 0 })],
            Self::TextMap => {
                vec![json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })]
            }
            Self::ListMap => vec![json!({
                "type": "object", "minProperties": 1, "additionalProperties": { "type": "array", "minItems": 1 },
            })],
            Self::FreeMap => vec![json!({ "type": "object" })],
            Self::Free => vec![json!({})],
            Self::OneOf(shapes) => shapes.iter().flat_map(Self::alternatives).collect(),
        }
    }

    /// Whether a scalar can stand here, so that a template can.
    fn takes_scalars(&self) -> bool {
        match self {
            Self::Section(_)
            | Self::List(_)
            | Self::EmptyList
            | Self::TextMap
            | Self::ListMap
            | Self::FreeMap
            | Self::Free => false,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_scalars),
            _ => true,
        }
    }

    /// The schema of an item of a list, where null is no absent key.
    fn inner(&self) -> Value {
        let mut alternatives = self.alternatives();
        if self.takes_scalars() {
            alternatives.push(json!({ "$ref": "#/$defs/open" }));
        }
        match alternatives.len() {
            1 => alternatives.remove(0),
            _ => json!({ "anyOf": alternatives }),
        }
    }

    /// The schema of the value of a key.
    pub(super) fn property(&self, about: &str) -> Value {
        if matches!(self, Self::Free) {
            return json!({ "description": about });
        }
        let mut alternatives = self.alternatives();
        if self.takes_scalars() {
            alternatives.push(json!({ "$ref": "#/$defs/open" }));
        }
        alternatives.push(json!({ "type": "null" }));
        json!({ "description": about, "anyOf": alternatives })
    }
}

/// A text with a reference or template in it.
pub(super) fn open() -> Value {
    json!({
        "description": "Text with ${NAME} from the environment or a {{ template }}: its value is known when the file is loaded.",
        "type": "string",
        "pattern": OPEN,
    })
}

/// The values under which a key that does not work yet asks for nothing.
pub(super) fn harmless(key: &str, words: &[&str]) -> Value {
    let mut alternatives = vec![json!({ "type": "null" }), json!({ "$ref": "#/$defs/open" })];
    for &word in words {
        alternatives.extend(match word {
            "[]" => vec![json!({ "type": "array", "maxItems": 0 })],
            "{}" => vec![json!({ "type": "object", "maxProperties": 0 })],
            "false" => vec![json!({ "const": false })],
            _ => word
                .parse::<i64>()
                .map(|number| json!({ "const": number }))
                .into_iter()
                .collect(),
        });
        if word != "[]" && word != "{}" {
            let expression = format!(r"^\s*({})\s*$", any_case(&[word]));
            alternatives.push(json!({ "type": "string", "pattern": expression }));
        }
    }
    json!({
        "description": format!("Not supported by ringload yet: `{key}`. Remove the key."),
        "deprecated": true,
        "anyOf": alternatives,
    })
}

/// A regular expression for words in any case: ECMA-262 has no flag for it inside a pattern.
fn any_case(words: &[&str]) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphabetic() => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        // Dashes, slashes and underscores of the words mean themselves; a dot would not.
        '.' => r"\.".to_owned(),
        c => c.to_string(),
    };
    let word = |word: &&str| word.chars().map(letter).collect::<String>();
    words.iter().map(word).collect::<Vec<_>>().join("|")
}
