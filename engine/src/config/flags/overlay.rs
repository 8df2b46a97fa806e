//! Flags written over a document, key by key. Rules that the readers of the config cannot know are checked here; the others there.

use std::rc::Rc;

use serde_json::Value as Json;

use super::super::address::Step;
use super::super::diagnostic::{Sink, quote};
use super::super::schema::snake_case;
use super::super::tree::{Entry, Node, Position, Value, entry_of};
use super::document::mapping;
use super::given::{Flags, Given, collection};
use super::table::Writes;
use super::variants;

/// A document while flags are written over it.
pub(super) struct Overlay<'a> {
    pub(super) envelope: Rc<Node>,
    pub(super) body: Rc<Node>,
    pub(super) flags: &'a Flags,
    /// Whether there is a file below the flags.
    pub(super) has_file: bool,
    pub(super) sink: &'a Sink,
    /// Lists of values, by the path that a sweep calls them.
    pub(super) lists: Vec<(Position, String, Vec<Rc<Node>>)>,
    /// Values that follow others from variation to variation: where from, and where to.
    pub(super) links: Vec<(Vec<Step>, Vec<Step>)>,
    set: Vec<(Position, Vec<Step>)>,
}

/// A document with all its flags.
#[derive(Clone)]
pub(in super::super) struct Overlaid {
    pub(in super::super) envelope: Rc<Node>,
    /// What is under `benchmark`.
    pub(in super::super) body: Rc<Node>,
    /// Where each flag wrote, and what stands there now.
    pub(in super::super) written: Vec<(Position, Vec<Step>, Rc<Node>)>,
    links: Vec<(Vec<Step>, Vec<Step>)>,
    /// What is reported as the parameters of one of the variants.
    pub(in super::super) values: Vec<(String, Json)>,
    /// The document of each `--variant`; empty without the flag.
    pub(super) variants: Vec<Self>,
}

impl Overlaid {
    /// A document as it is.
    pub(in super::super) fn bare(envelope: &Rc<Node>, body: &Rc<Node>) -> Self {
        Self {
            envelope: Rc::clone(envelope),
            body: Rc::clone(body),
            written: Vec::new(),
            links: Vec::new(),
            values: Vec::new(),
            variants: Vec::new(),
        }
    }

    /// The document of a variation before it is applied: this one, unless variants were written one by one.
    pub(in super::super) fn of_variation(&self, index: usize) -> &Self {
        self.variants.get(index).unwrap_or(self)
    }

    /// A variation in which what a warmup phase takes over from the profiling phase varies with it.
    pub(in super::super) fn follow(&self, varied: Rc<Node>) -> Rc<Node> {
        self.links
            .iter()
            .fold(varied, |body, (from, to)| match find(&body, from).cloned() {
                Some(value) => edit(Some(&body), to, value.start, Some(&value)),
                None => body,
            })
    }

    /// The flags whose values a variation has replaced, and where. `varied` is the body with the variation applied.
    pub(in super::super) fn overridden(&self, varied: &Rc<Node>) -> impl Iterator<Item = (Position, &[Step])> {
        self.written
            .iter()
            .filter(|(at, ..)| at.flag().is_some())
            .filter(|(_, steps, node)| find(varied, steps).is_none_or(|found| !Rc::ptr_eq(found, node)))
            .map(|(at, steps, _)| (*at, steps.as_slice()))
    }
}

/// Writes the flags over a document that is taken apart into the top level and what is under `benchmark`. Mistakes are reported.
pub(in super::super) fn overlay(
    envelope: &Rc<Node>,
    body: &Rc<Node>,
    flags: &Flags,
    has_file: bool,
    sink: &Sink,
) -> Overlaid {
    // What is wrong with variants has been told then, and what else is wrong is told beside it.
    variants::overlay(envelope, body, flags, has_file, sink)
        .unwrap_or_else(|| Overlay::write(envelope, body, flags, has_file, sink))
}

impl<'a> Overlay<'a> {
    /// Writes the flags over a document, once.
    pub(super) fn write(
        envelope: &Rc<Node>,
        body: &Rc<Node>,
        flags: &'a Flags,
        has_file: bool,
        sink: &'a Sink,
    ) -> Overlaid {
        let mut over = Self {
            envelope: Rc::clone(envelope),
            body: Rc::clone(body),
            flags,
            has_file,
            sink,
            lists: Vec::new(),
            links: Vec::new(),
            set: Vec::new(),
        };
        over.write_all();
        over.finish()
    }

    fn write_all(&mut self) {
        for given in self.flags.iter() {
            match given.flag.writes {
                Writes::Envelope(path) => {
                    self.put_envelope(&keys(path), &given.node(), given.at);
                }
                Writes::Benchmark(path) => self.write_benchmark(given, path),
                // In an order of their own, below.
                Writes::Dataset(_) | Writes::Profiling(_) | Writes::Warmup(_) | Writes::Sweep(_) | Writes::Special => {}
            }
        }
        self.write_server();
        self.write_dataset();
        self.write_profiling();
        self.write_warmup();
        self.write_sweep();
    }

    /// A value of the top level.
    pub(super) fn put_envelope(&mut self, steps: &[Step], value: &Rc<Node>, at: Position) {
        if is_sound(&self.envelope, steps) {
            self.envelope = edit(Some(&self.envelope), steps, at, Some(value));
        }
    }

    /// A value below `benchmark`.
    pub(super) fn put(&mut self, steps: &[Step], value: &Rc<Node>, at: Position) {
        if !is_sound(&self.body, steps) {
            return;
        }
        self.body = edit(Some(&self.body), steps, at, Some(value));
        self.set.push((at, steps.to_vec()));
    }

    /// Puts something where flags write into it, that no flag says as a whole.
    pub(super) fn place(&mut self, steps: &[Step], value: &Rc<Node>, at: Position) {
        self.body = edit(Some(&self.body), steps, at, Some(value));
    }

    /// Takes a key out, if it is there.
    pub(super) fn remove(&mut self, steps: &[Step]) {
        if self.at(steps).is_none() {
            return;
        }
        self.body = edit(Some(&self.body), steps, Position::NOWHERE, None);
    }

    pub(super) fn at(&self, steps: &[Step]) -> Option<&Rc<Node>> {
        find(&self.body, steps)
    }

    /// Puts the list of phases with one more before the others. What flags wrote into it has moved by one.
    pub(super) fn shift(&mut self, list: &Rc<Node>) {
        let steps = keys("phases");
        self.body = edit(Some(&self.body), &steps, list.start, Some(list));
        for (_, written) in &mut self.set {
            if written.first() != steps.first() {
                continue;
            }
            match written.get_mut(1) {
                Some(Step::Item(index)) => *index += 1,
                // The flat form of a single phase.
                _ => written.insert(1, Step::Item(1)),
            }
        }
    }

    /// A mistake of a flag.
    pub(super) fn mistake(&self, at: Position, message: impl Into<String>) {
        self.sink.report(at, "", message);
    }

    /// A flag by name.
    pub(super) fn get(&self, name: &str) -> Option<&'a Given> {
        self.flags.get(name)
    }

    /// Two flags of which one makes the other senseless.
    pub(super) fn exclude(&self, one: &str, other: &str, why: &str) -> bool {
        let (Some(one), Some(other)) = (self.get(one), self.get(other)) else {
            return false;
        };
        self.mistake(one.at, format!("{why}; remove it, or {}", other.at.told()));
        true
    }

    fn write_benchmark(&mut self, given: &Given, path: &str) {
        let steps = keys(path);
        // A hook is a switch or a mapping: switching it on keeps what a mapping says.
        let is_hook = matches!(given.flag.name, "reset-kv-cache" | "server-profiler");
        if is_hook
            && given.is_on() == Some(true)
            && matches!(self.at(&steps).map(|node| &node.value), Some(Value::Mapping(_)))
        {
            return;
        }
        if is_hook && given.is_on() == Some(false) {
            let start = format!("{}-", given.flag.name);
            if let Some(setting) = self.flags.iter().find(|other| other.flag.name.starts_with(&start)) {
                let message = format!(
                    "turns the hook off, and {} says how it works: keep one of them",
                    setting.at.told()
                );
                return self.mistake(given.at, message);
            }
        }
        // A tokenizer is a name, or a section that has one.
        let tokenizer = keys("tokenizer");
        if steps.len() > 1
            && steps.starts_with(&tokenizer)
            && let Some(name) = self.at(&tokenizer).filter(|node| node.scalar().is_some())
        {
            let section = mapping(&[("name", Rc::clone(name))]);
            self.place(&tokenizer, &section, given.at);
        }
        self.put(&steps, &given.node(), given.at);
    }

    fn finish(self) -> Overlaid {
        let body = self.body;
        let mut written: Vec<(Position, Vec<Step>, Rc<Node>)> = self
            .set
            .into_iter()
            .filter_map(|(at, steps)| {
                let node = Rc::clone(find(&body, &steps)?);
                Some((at, steps, node))
            })
            .collect();
        // What was written as a whole and then in part is known by its parts.
        let all = written.clone();
        written.retain(|(_, steps, _)| {
            !all.iter()
                .any(|(_, other, _)| other.len() > steps.len() && other.starts_with(steps))
        });
        Overlaid {
            envelope: self.envelope,
            body,
            written,
            links: self.links,
            values: Vec::new(),
            variants: Vec::new(),
        }
    }
}

/// A dotted path of mappings.
pub(super) fn keys(path: &str) -> Vec<Step> {
    path.split('.').map(|key| Step::Key(key.to_owned())).collect()
}

/// A path further down.
pub(super) fn below(steps: &[Step], path: &str) -> Vec<Step> {
    steps.iter().cloned().chain(keys(path)).collect()
}

fn find<'n>(node: &'n Rc<Node>, steps: &[Step]) -> Option<&'n Rc<Node>> {
    steps.iter().try_fold(node, |node, step| match (step, &node.value) {
        (Step::Key(key), _) => node.get(key),
        (Step::Item(index), Value::Sequence(items)) => items.get(*index),
        (Step::Item(_), _) => None,
    })
}

/// Whether the section that a flag writes into can be one. What else a file has there is its mistake, and a flag must not hide it.
fn is_sound(root: &Rc<Node>, steps: &[Step]) -> bool {
    let (Some(first), Some(second)) = (steps.first(), steps.get(1)) else {
        return true;
    };
    let Some(section) = find(root, std::slice::from_ref(first)).filter(|node| !node.is_null()) else {
        return true;
    };
    matches!(
        (second, &section.value),
        (Step::Key(_), Value::Mapping(_)) | (Step::Item(_), Value::Sequence(_))
    )
}

/// A copy of `node` in which `new` stands at `steps`; `None` takes the key out. Mappings that are missing on the way are made. Keys on the way keep
/// their places, and the last one counts as written `at` the flag.
pub(super) fn edit(node: Option<&Rc<Node>>, steps: &[Step], at: Position, new: Option<&Rc<Node>>) -> Rc<Node> {
    let empty = || collection(Value::Mapping(Vec::new()), at);
    let Some((step, rest)) = steps.split_first() else {
        return new.map_or_else(empty, Rc::clone);
    };
    match (step, node.map(|node| (node, &node.value))) {
        (Step::Item(index), Some((node, Value::Sequence(items)))) => {
            let mut items = items.clone();
            items[*index] = edit(Some(&items[*index]), rest, at, new);
            Node::made(node, Value::Sequence(items))
        }
        (Step::Key(key), Some((node, Value::Mapping(entries)))) => {
            let mut entries = entries.clone();
            let found = entry_of(&entries, key);
            let old = found.map(|index| Rc::clone(&entries[index].value));
            let value = if rest.is_empty() {
                new.cloned()
            } else {
                Some(edit(old.as_ref(), rest, at, new))
            };
            match (found, value) {
                (Some(index), Some(value)) => {
                    let entry = &mut entries[index];
                    entry.value = value;
                    entry.merged = false;
                    // A hook that was a switch is a section by the flag alone.
                    if rest.is_empty() || old.is_some_and(|old| old.scalar().is_some()) {
                        entry.key_at = at;
                    }
                }
                // A merge key may have brought it a second time.
                (Some(_), None) => entries.retain(|entry| snake_case(&entry.key) != snake_case(key)),
                (None, Some(value)) => entries.push(Entry {
                    key: key.clone(),
                    key_at: at,
                    value,
                    merged: false,
                }),
                (None, None) => {}
            }
            Node::made(node, Value::Mapping(entries))
        }
        (Step::Key(_), _) => edit(Some(&empty()), steps, at, new),
        (Step::Item(_), _) => unreachable!("a step into a list was found in that list"),
    }
}

/// A word in a message.
pub(super) fn quoted(given: &Given) -> String {
    quote(given.word())
}
