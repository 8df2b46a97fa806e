//! Templates in values: `"{{ c * 2 }}"` with the names of `variables` and of the document itself.
//!
//! A template may use values that are templates themselves, in any order; only a circle has no value. The result is read as the field reads any
//! plain value.

use std::rc::Rc;

use minijinja::{Environment, Error, UndefinedBehavior};
use serde_json::{Map, Value as Json};

use super::address::{Step, set};
use super::diagnostic::{Sink, quote};
use super::parse::MAX_BYTES;
use super::tree::{Node, Position, Scalar, Style, Value};

/// Most templates in a file: each pass over them builds their context anew.
const MAX_TEMPLATES: usize = 1_000;
/// Most steps of one template, so that a loop ends.
const FUEL: u64 = 100_000;
/// Keys whose values are templates of something else.
const FOREIGN: [&str; 3] = ["template", "body", "payload_template"];

/// A document in which templates are replaced.
struct Document {
    body: Rc<Node>,
    variables: Option<Rc<Node>>,
    /// What else stands at the top level, for templates to use.
    envelope: Map<String, Json>,
}

/// A template that has no value yet.
struct Pending {
    /// Where it is in the document.
    is_variable: bool,
    steps: Vec<Step>,
    /// Its key as messages show it.
    path: String,
    /// What templates may call it.
    names: Vec<String>,
    /// What it uses.
    uses: Vec<String>,
    at: Position,
    text: String,
}

/// `benchmark` with all its templates replaced, and the variables with theirs. What cannot be replaced is reported and stands as faulty.
pub(super) fn render(
    body: &Rc<Node>,
    variables: Option<&Rc<Node>>,
    envelope: &Map<String, Json>,
    body_path: &str,
    sink: &Sink,
) -> (Rc<Node>, Option<Rc<Node>>) {
    let mut document = Document {
        body: Rc::clone(body),
        variables: variables.cloned(),
        envelope: envelope.clone(),
    };
    let mut pending = Vec::new();
    collect(body, &mut Vec::new(), false, body_path, &mut pending);
    if let Some(variables) = variables {
        collect(variables, &mut Vec::new(), true, "variables", &mut pending);
    }
    if pending.is_empty() {
        return (document.body, document.variables);
    }
    if pending.len() > MAX_TEMPLATES {
        let message = format!("found {} templates; allowed: at most {MAX_TEMPLATES}", pending.len());
        sink.report(pending[MAX_TEMPLATES].at, &pending[MAX_TEMPLATES].path, message);
        return (document.body, document.variables);
    }
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    pending.retain_mut(|template| match environment.template_from_str(&template.text) {
        Ok(parsed) => {
            template.uses = parsed.undeclared_variables(true).into_iter().collect();
            true
        }
        Err(error) => {
            let message = format!("found a template that cannot be read: {}; allowed: {{{{ name }}}} with names of `variables` or of the file", told(&error));
            sink.report(template.at, &template.path, message);
            document.put(template, Value::Faulty);
            false
        }
    });
    while !pending.is_empty() {
        let (ready, waiting): (Vec<Pending>, Vec<Pending>) = {
            let is_ready: Vec<bool> = pending.iter().map(|template| !waits(template, &pending)).collect();
            let mut is_ready = is_ready.into_iter();
            pending.into_iter().partition(|_| is_ready.next() == Some(true))
        };
        if ready.is_empty() {
            for template in &waiting {
                let message = format!(
                    "found {}, which needs its own value; break the circle",
                    quote(&template.text)
                );
                sink.report(template.at, &template.path, message);
                document.put(template, Value::Faulty);
            }
            break;
        }
        let context = minijinja::Value::from(minijinja::value::Serde(document.context()));
        for template in &ready {
            let value = match environment.render_str(&template.text, context.clone()) {
                Ok(text) if text.len() <= MAX_BYTES => Value::Scalar(Scalar {
                    text,
                    style: Style::Substituted,
                }),
                Ok(text) => {
                    let message = format!(
                        "found a template of {} bytes once it is filled in; allowed: at most {MAX_BYTES}",
                        text.len()
                    );
                    sink.report(template.at, &template.path, message);
                    Value::Faulty
                }
                Err(error) => {
                    let message = format!(
                        "cannot fill in {}: {}; allowed: names of `variables` or of the file",
                        quote(&template.text),
                        told(&error)
                    );
                    sink.report(template.at, &template.path, message);
                    Value::Faulty
                }
            };
            document.put(template, value);
        }
        pending = waiting;
    }
    (document.body, document.variables)
}

/// Whether a template uses another one that has no value yet, itself included.
fn waits(template: &Pending, pending: &[Pending]) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    template.uses.iter().any(|used| {
        let names = pending.iter().flat_map(|other| &other.names);
        names.into_iter().any(|name| within(used, name) || within(name, used))
    })
}

/// An error without the engine's own decoration.
fn told(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Finds the templates below a value.
fn collect(node: &Rc<Node>, steps: &mut Vec<Step>, is_variable: bool, path: &str, found: &mut Vec<Pending>) {
    match &node.value {
        // What was typed after a flag is meant as it is.
        Value::Scalar(_) if node.start.flag().is_some() => {}
        Value::Scalar(scalar) if scalar.text.contains("{{") || scalar.text.contains("{%") => found.push(Pending {
            is_variable,
            steps: steps.clone(),
            path: path.to_owned(),
            names: Vec::new(),
            uses: Vec::new(),
            at: node.start,
            text: scalar.text.clone(),
        }),
        Value::Scalar(_) | Value::Faulty => {}
        Value::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                steps.push(Step::Item(index));
                collect(item, steps, is_variable, &format!("{path}[{index}]"), found);
                steps.pop();
            }
        }
        Value::Mapping(entries) => {
            for entry in entries {
                let is_files =
                    entry.key == "user_files" && matches!(steps.last(), Some(Step::Key(key)) if key == "artifacts");
                if is_files || FOREIGN.contains(&entry.key.as_str()) {
                    continue;
                }
                let path = if path.is_empty() {
                    entry.key.clone()
                } else {
                    format!("{path}.{}", entry.key)
                };
                steps.push(Step::Key(entry.key.clone()));
                collect(&entry.value, steps, is_variable, &path, found);
                steps.pop();
            }
        }
    }
    // Names need the tree around the value, so the root of the walk gives them.
    if steps.is_empty() {
        for template in found.iter_mut().filter(|template| template.is_variable == is_variable) {
            let bare = name_of(node, &template.steps);
            let prefix = if is_variable { "variables" } else { "benchmark" };
            template.names = vec![format!("{prefix}.{bare}"), bare];
        }
    }
}

/// The dotted name of a place: items of lists by their `name`, else by position.
fn name_of(root: &Rc<Node>, steps: &[Step]) -> String {
    let mut node = Some(root);
    let mut parts = Vec::new();
    for step in steps {
        let (part, next) = match (step, node.map(|node| &node.value)) {
            (Step::Item(index), Some(Value::Sequence(items))) => {
                let item = items.get(*index);
                (
                    item.and_then(|item| item_name(item))
                        .unwrap_or_else(|| index.to_string()),
                    item,
                )
            }
            (Step::Key(key), _) => (key.clone(), node.and_then(|node| node.get(key))),
            (Step::Item(index), _) => (index.to_string(), None),
        };
        parts.push(part);
        node = next;
    }
    parts.join(".")
}

fn item_name(item: &Node) -> Option<String> {
    item.get("name")?.scalar().map(|scalar| scalar.text.clone())
}

impl Document {
    fn put(&mut self, template: &Pending, value: Value) {
        let at = template.at;
        let node = Node::made(&Node::placeholder(at), value);
        if template.is_variable {
            self.variables = Some(set(self.variables.as_ref(), &template.steps, &node, at));
        } else {
            self.body = set(Some(&self.body), &template.steps, &node, at);
        }
    }

    /// The names that templates may use: the top level, what is under `benchmark`, and above all the variables.
    fn context(&self) -> Json {
        let mut names = self.envelope.clone();
        let body = by_name(&self.body);
        names.insert("benchmark".into(), body.clone());
        if let Json::Object(body) = body {
            names.extend(body);
        }
        if let Some(variables) = &self.variables {
            let variables = by_name(variables);
            names.insert("variables".into(), variables.clone());
            if let Json::Object(variables) = variables {
                names.extend(variables);
            }
        }
        Json::Object(names)
    }
}

/// A value in which lists of named mappings are mappings by name.
fn by_name(node: &Node) -> Json {
    match &node.value {
        Value::Sequence(items) if !items.is_empty() && items.iter().all(|item| item_name(item).is_some()) => {
            let pair = |item: &Rc<Node>| Some((item_name(item)?, by_name(item)));
            Json::Object(items.iter().filter_map(pair).collect())
        }
        Value::Sequence(items) => items.iter().map(|item| by_name(item)).collect(),
        Value::Mapping(entries) => {
            let mut object = Map::new();
            for entry in entries {
                object.entry(entry.key.clone()).or_insert_with(|| by_name(&entry.value));
            }
            Json::Object(object)
        }
        Value::Scalar(_) | Value::Faulty => node.to_json(),
    }
}
