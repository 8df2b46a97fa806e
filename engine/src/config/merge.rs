//! A scenario laid over the base of its sweep: mappings merge key by key, lists of named mappings by name, everything else is replaced.

use std::rc::Rc;

use super::tree::{Node, Value, entry_of};

/// Keys that tell kinds of a distribution apart. Half of one kind and half of another is none, so those are replaced whole.
const KINDS: [&str; 6] = ["type", "value", "mean", "median", "peaks", "points"];

/// `base` with what `over` says.
pub(super) fn merge(base: &Rc<Node>, over: &Rc<Node>) -> Rc<Node> {
    match (&base.value, &over.value) {
        (Value::Mapping(own), Value::Mapping(others)) if kind(base) == kind(over) || kind(over).is_none() => {
            let mut entries = own.clone();
            for other in others {
                match entry_of(&entries, &other.key) {
                    Some(at) => {
                        entries[at].value = merge(&entries[at].value, &other.value);
                        entries[at].merged = false;
                    }
                    None => entries.push(other.clone()),
                }
            }
            Node::made(over, Value::Mapping(entries))
        }
        (Value::Sequence(own), Value::Sequence(others)) if all_named(own) && all_named(others) => {
            let mut items = own.clone();
            for other in others {
                match items.iter().position(|item| name(item) == name(other)) {
                    Some(at) => items[at] = merge(&items[at], other),
                    None => items.push(Rc::clone(other)),
                }
            }
            Node::made(base, Value::Sequence(items))
        }
        _ => Rc::clone(over),
    }
}

/// The kind of a distribution; other mappings have none.
fn kind(node: &Node) -> Option<&'static str> {
    // A phase and an endpoint have a `type` too, and are named or have a URL.
    if ["name", "url", "urls"].iter().any(|key| node.get(key).is_some()) {
        return None;
    }
    KINDS.into_iter().find(|key| node.get(key).is_some())
}

fn all_named(items: &[Rc<Node>]) -> bool {
    !items.is_empty() && items.iter().all(|item| name(item).is_some())
}

fn name(node: &Node) -> Option<&str> {
    node.get("name")?.scalar().map(|scalar| scalar.text.as_str())
}
