//! `endpoint.template`: the body of requests as their user writes it, for an API that nobody else knows.
//!
//! The text is a template of its own: the names in it are those of a request, and the [templates of the file](super::template) leave it alone.

use std::fs::{File, metadata};
use std::io::Read;

use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, filters};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::decode::{Field, Section};
use super::diagnostic::{quote, visible};
use super::jinja::{Bounded, Fault, GLOBALS, fault, offset_of};
use super::schema::{Schema, nearest};
use super::tree::{Position, Scalar, Style, place_in};
use crate::http::Extractor;

/// Most steps of one body. Texts are charged by their size, so this is far above what the longest prompt takes, and still ends a loop in seconds.
const FUEL: u64 = 8_000_000;
/// Longest body, in bytes.
const MAX_BODY_BYTES: usize = 256 << 20;
/// Longest template in a file of its own, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most of a body that a message shows, in characters.
const MAX_SHOWN: usize = 80;

/// Templates that have a name.
const NAMED: [(&str, &str); 1] = [("nv-embedqa", r#"{"text": {{ texts|tojson }}}"#)];

/// Names of a template that say something of the prompt.
const OF_THE_PROMPT: [&str; 6] = ["text", "texts", "query", "queries", "passage", "passages"];
/// All names of a template.
const NAMES: [&str; 16] = [
    "text",
    "texts",
    "query",
    "queries",
    "passage",
    "passages",
    "model",
    "max_tokens",
    "stream",
    "role",
    "image",
    "images",
    "audio",
    "audios",
    "video",
    "videos",
];
/// Names of the format that do not work yet.
const REFUSED: [&str; 7] = [
    "turn",
    "turns",
    "request_info",
    "texts_by_name",
    "images_by_name",
    "audios_by_name",
    "videos_by_name",
];

pub(super) static TEMPLATE: Schema = Schema {
    place: "benchmark.endpoint.template",
    keys: &["body", "response_field"],
    refused: &[],
};

/// The section, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadTemplate {
    /// The template of bodies: its text, wherever that was written.
    pub body: String,
    /// The JMESPath expression that finds the answer; without it the answer is looked for.
    pub response_field: Option<String>,
    /// Names that the template uses, sorted.
    uses: Vec<String>,
    /// Where it is written, if the file has its text.
    written: Option<Written>,
    at: Position,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Written {
    start: Position,
    end: Position,
    style: Style,
}

/// What a template may say of a request. What prompts never have is `None` and empty: they are text.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PayloadNames<'a> {
    pub(crate) text: Option<&'a str>,
    pub(crate) texts: Vec<&'a str>,
    pub(crate) query: Option<&'a str>,
    pub(crate) queries: Vec<&'a str>,
    pub(crate) passage: Option<&'a str>,
    pub(crate) passages: Vec<&'a str>,
    pub(crate) model: &'a str,
    /// Output tokens to ask for.
    pub(crate) max_tokens: Option<u32>,
    pub(crate) stream: bool,
    pub(crate) role: &'a str,
    pub(crate) image: Option<()>,
    pub(crate) images: [(); 0],
    pub(crate) audio: Option<()>,
    pub(crate) audios: [(); 0],
    pub(crate) video: Option<()>,
    pub(crate) videos: [(); 0],
}

/// Why there is no body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PayloadFault {
    /// In words for the user.
    pub(crate) reason: String,
    /// Byte of the template at which it is wrong, if that is known.
    pub(crate) offset: Option<usize>,
}

/// A template that is ready to be filled in, by several threads at once.
#[derive(Debug)]
pub(crate) struct Payload<'t> {
    environment: Environment<'t>,
    template: &'t PayloadTemplate,
}

pub(super) fn decode(field: &Field<'_>) -> Option<PayloadTemplate> {
    let section = field.section(&TEMPLATE)?;
    let body = section
        .required(
            "body",
            "write the body of requests, as in body: '{\"prompt\": {{ text|tojson }}}'",
        )
        .and_then(|field| body(&field));
    let response_field = section.field("response_field").and_then(|field| {
        let text = field.non_empty_text()?;
        match Extractor::new(text) {
            Ok(_) => Some(text.to_owned()),
            Err(reason) => {
                field.report(format!(
                    "found {}, which is no JMESPath expression: {}; allowed: names and indexes, as in data[0].text, and the rest of that language",
                    quote(text),
                    visible(&reason)
                ));
                None
            }
        }
    });
    let (body, uses, written) = body?;
    Some(PayloadTemplate {
        body,
        response_field,
        uses,
        written,
        at: field.node.start,
    })
}

/// Reports keys under `extra` that belong into the section: the peer's command line has them there.
pub(super) fn check_extra(endpoint: &Section<'_>, extra: &Map<String, Json>) {
    for (key, place) in [("payload_template", "body"), ("response_field", "response_field")] {
        if extra.contains_key(key) {
            endpoint.report(
                "extra",
                format!("found `{key}`, which is no key of the body; write it as endpoint.template.{place}"),
            );
        }
    }
}

/// The text of a template, and the names that it uses.
fn body(field: &Field<'_>) -> Option<(String, Vec<String>, Option<Written>)> {
    let scalar = field.scalar("a template of the body, as in '{\"prompt\": {{ text|tojson }}}'")?;
    let is_inline = scalar.text.contains('{');
    let text = match is_inline {
        true => scalar.text.clone(),
        false => named_or_read(field, scalar)?,
    };
    if text.contains("${") {
        // Saved configs have the text, and there it would be resolved.
        field.report("found `${` in the text of a template, which a config would take for a variable; write the dollar as {{ '$' }}");
        return None;
    }
    let written = is_inline.then_some(Written {
        start: field.node.start,
        end: field.node.end,
        style: scalar.style,
    });
    let place = |offset: Option<usize>| place(&text, written, offset).unwrap_or(field.node.start);
    let environment = environment();
    let uses = match environment.template_from_str(&text) {
        Ok(template) => template.undeclared_variables(true),
        Err(error) => {
            let fault = fault(&error);
            let message = format!(
                "found a template that cannot be read: {}; allowed: {{{{ name }}}} with names of a request, as in {{{{ text|tojson }}}}",
                fault.reason
            );
            field.sink.report(place(fault.offset), &field.path, message);
            return None;
        }
    };
    // With what is behind their dots: that is how they stand in the text.
    let mut dotted: Vec<String> = uses.into_iter().collect();
    dotted.sort_unstable();
    let mut uses: Vec<String> = Vec::new();
    let mut is_sound = true;
    for written in &dotted {
        let name = written.split('.').next().unwrap_or(written);
        if GLOBALS.contains(&name) || uses.iter().any(|used| used == name) {
            continue;
        }
        uses.push(name.to_owned());
        if NAMES.contains(&name) {
            continue;
        }
        let allowed = NAMES.join(", ");
        let message = match REFUSED.contains(&name) {
            true => format!(
                "not supported by ringload yet: {} in a template; allowed: {allowed}",
                quote(name)
            ),
            false => {
                let near = nearest(name, NAMES);
                let near = near.map_or_else(String::new, |near| format!("; did you mean {}?", quote(near)));
                format!(
                    "found {}, which is no name of a request; allowed: {allowed}{near}",
                    quote(name)
                )
            }
        };
        field
            .sink
            .report(place(offset_of(&text, written)), &field.path, message);
        is_sound = false;
    }
    is_sound.then_some((text, uses, written))
}

/// What has no brace is no template: it is the name of one, or of a file with one.
fn named_or_read(field: &Field<'_>, scalar: &Scalar) -> Option<String> {
    let word = scalar.text.trim();
    if let Some((_, text)) = NAMED.iter().find(|(name, _)| *name == word) {
        return Some((*text).to_owned());
    }
    let read = match word {
        "" => Err("it is empty".to_owned()),
        path => read(path),
    };
    match read {
        Ok(text) => Some(text),
        Err(reason) => {
            field.report(format!(
                "found {}: it has no `{{` and so should be a file, and {reason}; allowed: a template of a JSON object, nv-embedqa, or the path of a file with a template",
                quote(&scalar.text)
            ));
            None
        }
    }
}

/// The text of a file. Relative paths start at the current directory.
fn read(path: &str) -> Result<String, String> {
    let metadata = metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it is longer than {MAX_FILE_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    match text.contains('{') {
        true => Ok(text),
        false => Err("it holds no template of a JSON object".to_owned()),
    }
}

fn environment<'t>() -> Environment<'t> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_debug(false);
    environment.add_filter("tojson", to_json);
    environment
}

/// The filter of the language, which makes `null` of what is not there; here that is a mistake, as everywhere else.
fn to_json(value: Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    match value.is_undefined() {
        true => Err(ErrorKind::UndefinedError.into()),
        false => filters::tojson(&value, indent, options),
    }
}

/// Where an offset of the text is in the file, if the text is.
fn place(text: &str, written: Option<Written>, offset: Option<usize>) -> Option<Position> {
    let Written { start, end, style } = written?;
    Some(place_in(text, style, start, end, offset))
}

impl PayloadTemplate {
    /// Where a fault is in the file.
    pub(crate) fn place_of(&self, offset: Option<usize>) -> Position {
        place(&self.body, self.written, offset).unwrap_or(self.at)
    }

    /// Whether bodies say anything of the prompt.
    pub(crate) fn has_text(&self) -> bool {
        self.uses.iter().any(|name| OF_THE_PROMPT.contains(&name.as_str()))
    }

    /// Whether bodies ask for a number of output tokens.
    pub(crate) fn has_output_tokens(&self) -> bool {
        self.uses.iter().any(|name| name == "max_tokens")
    }

    /// Makes it ready.
    pub(crate) fn compile(&self) -> Payload<'_> {
        let mut environment = environment();
        environment
            .add_template("body", &self.body)
            .expect("a config without mistakes has a template that can be read");
        Payload {
            environment,
            template: self,
        }
    }
}

impl<'t> Payload<'t> {
    /// The template that it was made from.
    pub(crate) fn template(&self) -> &'t PayloadTemplate {
        self.template
    }

    /// The body of a request.
    ///
    /// # Errors
    /// The template asks for what this request has not, passes a bound, or what it makes is no JSON object.
    pub(crate) fn fill(&self, names: &PayloadNames<'_>) -> Result<Map<String, Json>, PayloadFault> {
        let template = self.environment.get_template("body").expect("it was added");
        let mut text = Bounded::new(MAX_BODY_BYTES);
        let result = template.render_captured_to(Value::from(Serde(names)), &mut text);
        let without_place = |reason| PayloadFault { reason, offset: None };
        if text.is_full() {
            return Err(without_place(format!("the body is longer than {MAX_BODY_BYTES} bytes")));
        }
        if let Err(error) = result {
            if error.kind() == ErrorKind::OutOfFuel {
                return Err(without_place(format!("the template takes more than {FUEL} steps")));
            }
            let Fault { reason, offset } = fault(&error);
            return Err(PayloadFault { reason, offset });
        }
        let text = text.into_text();
        match serde_json::from_str(&text) {
            Ok(Json::Object(body)) => Ok(body),
            Ok(_) => Err(without_place(format!("the body is no JSON object: {}", shown(&text)))),
            Err(error) => Err(without_place(format!(
                "the body is no JSON: {error}; it begins {}; write values with the filter tojson, as in {{{{ text|tojson }}}}",
                shown(&text)
            ))),
        }
    }
}

/// The beginning of a body.
fn shown(text: &str) -> String {
    let text = text.trim();
    let head: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if head.len() < text.len() { "..." } else { "" };
    format!("`{}{dots}`", visible(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(body: &str) -> PayloadTemplate {
        let environment = environment();
        let uses = environment
            .template_from_str(body)
            .expect(body)
            .undeclared_variables(false);
        PayloadTemplate {
            body: body.to_owned(),
            response_field: None,
            uses: uses.into_iter().collect(),
            written: None,
            at: Position::START,
        }
    }

    fn fill(body: &str) -> Result<String, PayloadFault> {
        let names = PayloadNames {
            text: Some("a \"b\"\n<'é'>"),
            texts: vec!["a \"b\"\n<'é'>", "c"],
            model: "m",
            role: "user",
            stream: true,
            ..PayloadNames::default()
        };
        let template = template(body);
        template
            .compile()
            .fill(&names)
            .map(|body| Json::Object(body).to_string())
    }

    #[test]
    fn values_are_json_as_the_names_have_them() {
        for (body, wanted) in [
            (r#"{"p": {{ text|tojson }}}"#, r#"{"p":"a \"b\"\n<'é'>"}"#),
            (
                r#"{"n": {{ texts|length }}, "all": {{ texts|tojson }}}"#,
                r#"{"n":2,"all":["a \"b\"\n<'é'>","c"]}"#,
            ),
            (
                r#"{"m": "{{ model }}", "max": {{ max_tokens|tojson }}, "s": {{ stream|lower }}, "r": {{ stream|tojson }}}"#,
                r#"{"m":"m","max":null,"s":true,"r":true}"#,
            ),
            (
                r#"{"i": {{ image|tojson }}, "l": {{ audios|tojson }}, "q": {{ query|tojson }}, "role": {{ role|tojson }}}"#,
                r#"{"i":null,"l":[],"q":null,"role":"user"}"#,
            ),
            (
                "{% set out = [] %}{\"l\": [{% for t in texts %}{{ t|tojson }}{% if not loop.last %},{% endif %}{% endfor %}]}",
                r#"{"l":["a \"b\"\n<'é'>","c"]}"#,
            ),
            (
                r#"{"f": 0.1, "i": 12345678901234567, "a": {"b": []}}"#,
                r#"{"f":0.1,"i":12345678901234567,"a":{"b":[]}}"#,
            ),
        ] {
            assert_eq!(fill(body).as_deref(), Ok(wanted), "{body}");
        }
    }

    #[test]
    fn what_is_no_object_says_how_it_begins() {
        for (body, part) in [
            (r#"{"p": {{ text }}}"#, "the filter tojson"),
            (r#"{"p": {{ text }}}"#, r#"it begins `{"p": a "b""#),
            ("[{{ text|tojson }}]", "no JSON object: `["),
            ("{} {}", "the body is no JSON"),
            ("{% if false %}{}{% endif %}", "the body is no JSON"),
        ] {
            let reason = fill(body).expect_err(body).reason;
            assert!(reason.contains(part), "{body}: {reason}");
        }
        let fault = fill(r#"{"p": {{ texts[5]|tojson }}}"#).expect_err("there is no sixth text");
        assert!(fault.offset.is_some(), "{fault:?}");
    }

    #[test]
    fn a_body_is_bounded_and_long_prompts_fit() {
        let fault = fill("{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}")
            .expect_err("a loop");
        assert!(fault.reason.contains("steps"), "{fault:?}");
        let long = "word ".repeat(1 << 20);
        let names = PayloadNames {
            text: Some(&long),
            ..PayloadNames::default()
        };
        let template = template(r#"{"p": {{ text|tojson }}, "u": {{ text|upper|tojson }}}"#);
        let body = template.compile().fill(&names).expect("a prompt of a million words");
        assert_eq!(body["p"].as_str(), Some(&*long));
    }

    #[test]
    fn it_is_known_what_a_template_uses() {
        let of = |body: &str| {
            let template = template(body);
            (template.has_text(), template.has_output_tokens())
        };
        assert_eq!(of("{{ text }}"), (true, false));
        assert_eq!(of("{{ max_tokens }}{{ model }}"), (false, true));
        assert_eq!(of("{% for p in passages %}{{ p }}{% endfor %}"), (true, false));
    }
}
