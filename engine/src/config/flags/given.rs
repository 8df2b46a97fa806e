//! The flags of one command line.

use std::rc::Rc;

use super::super::tree::{Node, Position, Scalar, Style, Value};
use super::table::{self, Flag};

/// What a command line says about the config.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    pub(super) given: Vec<Given>,
}

/// A flag with its words.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) flag: &'static Flag,
    /// The flag as typed, as a place.
    pub(super) at: Position,
    /// At least one; that of a switch is a boolean.
    pub(super) words: Vec<String>,
}

impl Flags {
    /// Adds a flag as typed, dashes included, with the words after it. A switch without one is on.
    ///
    /// # Errors
    /// A flag that was given before under another of its names, or that nobody knows.
    pub fn add(&mut self, typed: &str, mut words: Vec<String>) -> Result<(), String> {
        let found = table::all().enumerate().find_map(|(index, flag)| {
            let spelling = flag.spellings().position(|spelling| spelling == typed)?;
            Some((flag, Position::of_flag(index, spelling)))
        });
        let Some((flag, at)) = found else {
            return Err(format!("{typed}: found an unknown flag"));
        };
        if let Some(earlier) = self.get(flag.name) {
            let earlier = earlier.at.told();
            return Err(format!("{typed} and {earlier} are the same flag: keep one"));
        }
        if flag
            .negation()
            .is_some_and(|negation| typed.strip_prefix("--") == Some(&negation))
        {
            words = vec!["false".to_owned()];
        } else if words.is_empty() {
            words = vec!["true".to_owned()];
        }
        self.given.push(Given { flag, at, words });
        Ok(())
    }

    /// Whether no flag was given.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Whether this flag was given, by its name in the table.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Given> {
        debug_assert!(table::all().any(|flag| flag.name == name), "{name} is no flag");
        self.given.iter().find(|given| given.flag.name == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Given> {
        self.given.iter()
    }
}

impl Given {
    /// The only word.
    pub(super) fn word(&self) -> &str {
        &self.words[0]
    }

    /// Whether the switch is on, if its word is a boolean.
    pub(super) fn is_on(&self) -> Option<bool> {
        super::super::scalar::boolean(self.word())
    }

    /// The word as a value of which the field decides the type.
    pub(super) fn node(&self) -> Rc<Node> {
        self.scalar(self.word())
    }

    pub(super) fn scalar(&self, text: &str) -> Rc<Node> {
        scalar(text, Style::Substituted, self.at)
    }

    /// A value that stays text, whatever it looks like.
    pub(super) fn text(&self, text: &str) -> Rc<Node> {
        scalar(text, Style::Quoted, self.at)
    }

    /// The values between commas, if there are several and the flag may have them.
    pub(super) fn list(&self) -> Option<Vec<Rc<Node>>> {
        let is_list = self.flag.is_list && self.word().contains(',');
        is_list.then(|| self.word().split(',').map(|part| self.scalar(part.trim())).collect())
    }
}

/// A value that is not in the file.
pub(super) fn scalar(text: &str, style: Style, at: Position) -> Rc<Node> {
    let text = text.to_owned();
    collection(Value::Scalar(Scalar { text, style }), at)
}

/// A value made of others that is not in the file.
pub(super) fn collection(value: Value, at: Position) -> Rc<Node> {
    Node::made(&Node::placeholder(at), value)
}
