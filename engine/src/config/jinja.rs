//! The template language within bounds: what a template uses, and what it becomes. A mistake knows where in the template it is.

use std::io;

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};
use serde_json::Value as Json;

use super::diagnostic::{quote, visible};
use super::schema::nearest;

/// Most steps of one template, so that a loop ends. The language charges operations by the size of what they make.
const FUEL: u64 = 100_000;
/// Names that the language itself gives.
pub(super) const GLOBALS: [&str; 4] = ["range", "dict", "namespace", "debug"];

/// The language with its bounds.
pub(super) struct Language(Environment<'static>);

/// What templates may use.
pub(super) struct Names {
    value: Value,
    /// The same, to tell which names have no value.
    json: Json,
}

/// Why a template has no value.
pub(super) struct Fault {
    /// What is wrong, as messages show it.
    pub(super) reason: String,
    /// Byte of the template at which it is wrong, if the language tells.
    pub(super) offset: Option<usize>,
}

impl Names {
    pub(super) fn new(names: Json) -> Self {
        Self {
            value: Value::from(Serde(&names)),
            json: names,
        }
    }

    /// Whether a dotted name has a value.
    fn has(&self, name: &str) -> bool {
        name.split('.')
            .try_fold(&self.json, |json, part| match json {
                Json::Array(items) => items.get(part.parse::<usize>().ok()?),
                _ => json.get(part),
            })
            .is_some()
    }
}

impl Language {
    pub(super) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        // An error tells its place in any case; what debugging adds is a copy of the template.
        environment.set_debug(false);
        Self(environment)
    }

    /// The names that a template uses, sorted.
    ///
    /// # Errors
    /// The template cannot be read.
    pub(super) fn uses(&self, template: &str) -> Result<Vec<String>, Fault> {
        let parsed = self.0.template_from_str(template).map_err(|error| fault(&error))?;
        let mut uses: Vec<String> = parsed.undeclared_variables(true).into_iter().collect();
        // The set has no order of its own, and what is reported must not change from run to run.
        uses.sort_unstable();
        Ok(uses)
    }

    /// What the template becomes, in at most `limit` bytes.
    ///
    /// # Errors
    /// A name without a value, an operation that cannot be done, or a bound.
    pub(super) fn fill(&self, template: &str, names: &Names, limit: usize) -> Result<String, Fault> {
        let parsed = self.0.template_from_str(template).map_err(|error| fault(&error))?;
        let mut text = Bounded::new(limit);
        let result = parsed.render_captured_to(names.value.clone(), &mut text);
        if text.is_full {
            return Err(Fault {
                reason: format!("its value is longer than {limit} bytes"),
                offset: None,
            });
        }
        match result {
            Ok(_) => Ok(text.into_text()),
            Err(error) if error.kind() == ErrorKind::OutOfFuel => Err(Fault {
                reason: format!("it takes more than {FUEL} steps"),
                offset: None,
            }),
            // An operation on a name without a value is told as the wrong operation; the name says more.
            Err(error) => Err(self.missing(template, names).unwrap_or_else(|| fault(&error))),
        }
    }

    /// The first name of a template that has no value, and the nearest that has one.
    fn missing(&self, template: &str, names: &Names) -> Option<Fault> {
        let uses = self.uses(template).ok()?;
        let missing = uses
            .iter()
            .filter(|name| !GLOBALS.contains(&name.as_str()) && !names.has(name));
        let (offset, name) = missing.map(|name| (offset_of(template, name), name)).min()?;
        let known = names.json.as_object()?.keys().map(String::as_str);
        let near = nearest(name, known).map_or_else(String::new, |near| format!("; did you mean {}?", quote(near)));
        Some(Fault {
            reason: format!("{} has no value{near}", quote(name)),
            offset,
        })
    }
}

/// Where a template uses a name first.
pub(super) fn offset_of(template: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let is_whole = |at: usize| {
        let before = template[..at].chars().next_back();
        let after = template[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    template.match_indices(name).map(|(at, _)| at).find(|&at| is_whole(at))
}

pub(super) fn fault(error: &Error) -> Fault {
    let reason = match error.detail() {
        Some(detail) => format!("{}: {}", error.kind(), visible(detail)),
        None => error.kind().to_string(),
    };
    Fault {
        reason,
        offset: error.range().map(|range| range.start),
    }
}

/// A sink that takes no more than it may: what a template makes is known only once it is made.
pub(super) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Bounded {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            is_full: false,
        }
    }

    /// Whether it was given more.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(template: &str) -> Result<String, Fault> {
        let names = json!({"rate": 5, "long": "x".repeat(1_000), "phases": {"load": {"rate": 2}}});
        Language::new().fill(template, &Names::new(names), 10_000)
    }

    #[test]
    fn a_name_without_a_value_is_shown_with_its_place() {
        for (template, name, offset) in [
            ("{{ nope }}", "`nope`", 3),
            ("{{ rate + rat }}", "`rat`", 10),
            ("{{ rate }}{{ phases.lod.rate }}", "`phases.lod.rate`", 13),
        ] {
            let fault = fill(template).expect_err(template);
            assert!(fault.reason.contains(name), "{template}: {}", fault.reason);
            assert_eq!(fault.offset, Some(offset), "{template}: {}", fault.reason);
        }
        let fault = fill("{{ rat }}").expect_err("a misspelt name");
        assert_eq!(fault.reason, "`rat` has no value; did you mean `rate`?");
    }

    #[test]
    fn what_a_template_makes_is_bounded_however_it_makes_it() {
        for template in [
            "{{ long * 100 }}",
            "{% for i in range(100000) %}x{% endfor %}",
            "{% for i in range(100) %}{{ long }}{% endfor %}",
            "{% set ns = namespace(a=long) %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
            "{{ long | replace('x', long) | replace('x', long) | replace('x', long) | length }}",
            "{{ 'x' | indent(4000000000) }}",
            "{{ '%999999999d' | format(1) }}",
            "{{ range(100000) | join(long) | length }}",
            "{{ (range(100000) | list) * 1000 }}",
            "{{ 9 ** 9 ** 9 ** 9 }}",
            "{{ range(1000000000) | list | length }}",
        ] {
            assert!(fill(template).is_err(), "{template}");
        }
    }

    #[test]
    fn uses_are_whole_dotted_names() {
        let uses = Language::new().uses("{{ phases.load.rate * c }}{% if d %}{% endif %}");
        let uses = uses.unwrap_or_else(|fault| panic!("{}", fault.reason));
        assert_eq!(uses, ["c", "d", "phases.load.rate"]);
    }
}
