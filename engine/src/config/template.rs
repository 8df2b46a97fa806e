//! Templates in values: `"{{ c * 2 }}"` with the names of `variables` and of the document itself.
//!
//! A template may use values that are templates themselves, in any order; only a circle has no value. The result is read as the field reads any
//! plain value.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::address::{Step, set};
use super::diagnostic::{Sink, quote, visible};
use super::jinja::{Fault, Language, Names};
use super::parse::MAX_BYTES;
use super::secret::{REDACTED, is_secret_path};
use super::tree::{Node, Position, Scalar, Style, Value, entry_of, place_in};

/// Most templates in a file: each pass over them builds their context anew.
const MAX_TEMPLATES: usize = 1_000;
/// Most templates of a circle that a message names.
const MAX_TOLD: usize = 8;
/// Longest chain of templates that use one another: each link is a pass over the document.
const MAX_CHAIN: usize = 32;
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
    end: Position,
    style: Style,
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
        let message = format!("found more than {MAX_TEMPLATES} templates; allowed: at most {MAX_TEMPLATES}");
        sink.report(pending[MAX_TEMPLATES].at, &pending[MAX_TEMPLATES].path, message);
        return (document.body, document.variables);
    }
    let language = Language::new();
    pending.retain_mut(|template| match language.uses(&template.text) {
        Ok(uses) => {
            template.uses = uses;
            true
        }
        Err(fault) => {
            let message = format!(
                "found a template that cannot be read: {}; allowed: {{{{ name }}}} with names of `variables` or of the file",
                fault.reason
            );
            sink.report(template.place_of(&fault), &template.path, message);
            document.put(template, Value::Faulty);
            false
        }
    });
    // All templates together may grow to what a file may have.
    let mut room = MAX_BYTES;
    for _ in 0..MAX_CHAIN {
        let index = Index::new(&pending);
        let is_ready: Vec<bool> = pending.iter().map(|template| index.needs(template).is_none()).collect();
        let mut is_ready = is_ready.into_iter();
        let (ready, waiting): (Vec<Pending>, Vec<Pending>) =
            pending.into_iter().partition(|_| is_ready.next() == Some(true));
        pending = waiting;
        if ready.is_empty() {
            break;
        }
        let names = Names::new(document.context());
        let fill = |template: &Pending| {
            let value = match language.fill(&template.text, &names, room) {
                Ok(text) => {
                    room -= text.len();
                    Value::Scalar(Scalar {
                        text,
                        style: Style::Substituted,
                    })
                }
                Err(fault) => {
                    let message = format!(
                        "cannot fill in {}: {}; allowed: names of `variables` or of the file",
                        template.shown(),
                        fault.reason
                    );
                    sink.report(template.place_of(&fault), &template.path, message);
                    Value::Faulty
                }
            };
            Node::new(template.at, template.at, value)
        };
        let values: Vec<Rc<Node>> = ready.iter().map(fill).collect();
        document.put_all(&ready, &values);
    }
    if !pending.is_empty() {
        report_waiting(&pending, sink);
        pending
            .iter()
            .for_each(|template| document.put(template, Value::Faulty));
    }
    (document.body, document.variables)
}

/// Says why templates wait for ever: each circle once, at its first template. Others wait for one of a circle, and nothing is said of them.
fn report_waiting(waiting: &[Pending], sink: &Sink) {
    let index = Index::new(waiting);
    let mut is_told = vec![false; waiting.len()];
    let mut has_circle = false;
    for start in 0..waiting.len() {
        let mut walk = Vec::new();
        let mut next = Some(start);
        // Every template here waits for another, so that a walk meets itself, or a chain ends that is too long.
        while let Some(at) = next.filter(|at| !walk.contains(at) && !is_told[*at]) {
            walk.push(at);
            next = index.needs(&waiting[at]);
        }
        let circle = next.and_then(|at| walk.iter().position(|&walked| walked == at));
        for &at in &walk {
            is_told[at] = true;
        }
        let Some(circle) = circle.map(|from| &walk[from..]) else {
            continue;
        };
        has_circle = true;
        let first = circle.iter().enumerate().min_by_key(|&(_, &at)| (waiting[at].at, at));
        let (offset, &at) = first.expect("a circle has a template");
        let template = &waiting[at];
        let turn = circle.iter().cycle().skip(offset).take(circle.len().min(MAX_TOLD));
        let mut way: Vec<String> = turn.map(|&at| visible(&waiting[at].path)).collect();
        if circle.len() > MAX_TOLD {
            way.push("...".to_owned());
        }
        way.push(visible(&template.path));
        let message = format!(
            "found {}, which needs its own value ({}); break the circle",
            template.shown(),
            way.join(" -> ")
        );
        sink.report(template.at, &template.path, message);
    }
    if !has_circle {
        let template = &waiting[0];
        let message = format!(
            "found a chain of more than {MAX_CHAIN} templates that use one another, {} among them; allowed: at most {MAX_CHAIN}",
            template.shown()
        );
        sink.report(template.at, &template.path, message);
    }
}

/// Templates without a value by what may be called by name: themselves, and what is around them.
struct Index<'t> {
    names: HashMap<&'t str, usize>,
    around: HashMap<&'t str, usize>,
}

impl<'t> Index<'t> {
    fn new(pending: &'t [Pending]) -> Self {
        let (mut names, mut around) = (HashMap::new(), HashMap::new());
        for (at, template) in pending.iter().enumerate() {
            for name in &template.names {
                names.entry(name.as_str()).or_insert(at);
                for (dot, _) in name.match_indices('.') {
                    around.entry(&name[..dot]).or_insert(at);
                }
            }
        }
        Self { names, around }
    }

    /// A template without a value that another uses, or a part of it; itself included.
    fn needs(&self, template: &Pending) -> Option<usize> {
        template.uses.iter().find_map(|used| {
            let dots = used.match_indices('.').map(|(dot, _)| &used[..dot]);
            let within = dots.chain([used.as_str()]).find_map(|name| self.names.get(name));
            within.or_else(|| self.around.get(used.as_str())).copied()
        })
    }
}

impl Pending {
    /// The template as messages show it.
    fn shown(&self) -> String {
        if is_secret_path(&self.path) {
            REDACTED.to_owned()
        } else {
            quote(&self.text)
        }
    }

    /// Where a fault is.
    fn place_of(&self, fault: &Fault) -> Position {
        place_in(&self.text, self.style, self.at, self.end, fault.offset)
    }
}

/// Finds the templates below a value.
fn collect(node: &Rc<Node>, steps: &mut Vec<Step>, is_variable: bool, path: &str, found: &mut Vec<Pending>) {
    // One too many says it all; each of the others would be looked up in the tree for nothing.
    if found.len() > MAX_TEMPLATES {
        return;
    }
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
            end: node.end,
            style: scalar.style,
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
    /// Puts the values of templates, which are in the order of the document, in their places.
    fn put_all(&mut self, templates: &[Pending], values: &[Rc<Node>]) {
        let changes = |is_variable: bool| -> Vec<(&[Step], &Rc<Node>)> {
            let pairs = templates.iter().zip(values);
            pairs
                .filter(|(template, _)| template.is_variable == is_variable)
                .map(|(template, value)| (template.steps.as_slice(), value))
                .collect()
        };
        self.body = replaced(&self.body, &changes(false), 0);
        if let Some(variables) = &self.variables {
            self.variables = Some(replaced(variables, &changes(true), 0));
        }
    }

    fn put(&mut self, template: &Pending, value: Value) {
        let at = template.at;
        let node = Node::new(at, at, value);
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

/// A copy of `node` with other values where the steps of `changes` lead from `depth` on. One walk for all of them: a copy for each would take the length
/// of the lists around it each time.
fn replaced(node: &Rc<Node>, changes: &[(&[Step], &Rc<Node>)], depth: usize) -> Rc<Node> {
    let Some((steps, value)) = changes.first() else {
        return Rc::clone(node);
    };
    if steps.len() == depth {
        return Rc::clone(value);
    }
    let below = changes.chunk_by(|(one, _), (other, _)| one[depth] == other[depth]);
    let value = match &node.value {
        Value::Sequence(items) => {
            let mut items = items.clone();
            for group in below {
                if let Step::Item(index) = group[0].0[depth] {
                    items[index] = replaced(&items[index], group, depth + 1);
                }
            }
            Value::Sequence(items)
        }
        Value::Mapping(entries) => {
            let mut entries = entries.clone();
            for group in below {
                if let Step::Key(key) = &group[0].0[depth]
                    && let Some(at) = entry_of(&entries, key)
                {
                    entries[at].value = replaced(&entries[at].value, group, depth + 1);
                }
            }
            Value::Mapping(entries)
        }
        Value::Scalar(_) | Value::Faulty => unreachable!("steps lead through collections"),
    };
    Node::made(node, value)
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
