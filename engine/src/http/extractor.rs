//! Finds the answer in what a server of an unknown API says: by a JMESPath expression, or else by [looking for it](super::endpoint).
//!
//! An expression of names and indexes, as in `data[0].text`, is followed in the bytes where they lie, without memory. Any other is evaluated over a tree of
//! the whole event, which takes memory each time: it is for APIs that need it, and its time is the client's own.

use std::sync::Arc;

use jmespath::ast::Ast;
use jmespath::{Expression, Variable};

use super::chunk_shape::Holes;
use super::endpoint::{Facts, Place, read_template, text_of};
use super::json::{Cursor, Invalid, Kind};

/// Longest expression, in bytes, and most characters in it that open something: the compiler of expressions goes a level deeper for each.
const MAX_EXPRESSION_BYTES: usize = 512;
const MAX_OPENINGS: usize = 64;
/// Longest name that is followed where it lies: names with escapes are compared in a room of this size.
const MAX_NAME_BYTES: usize = 32;
/// Largest number in a slice. What is counted on from there must not overflow.
const MAX_SLICE: u32 = 1 << 30;

/// Where the answer is in an event, or in a whole body.
#[derive(Debug, Clone, Default)]
pub struct Extractor {
    way: Option<Way>,
    /// Holds a text that does not lie in the event as it is.
    room: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Way {
    Steps(Arc<[Step]>),
    Expression(Arc<Expression<'static>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(Box<[u8]>),
    Index(usize),
}

impl Extractor {
    /// By a JMESPath expression.
    ///
    /// # Errors
    /// Why the text is none, in words for the user.
    pub fn new(expression: &str) -> Result<Self, String> {
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(format!("it is longer than {MAX_EXPRESSION_BYTES} bytes"));
        }
        if expression.bytes().filter(|byte| b"([{!&".contains(byte)).count() > MAX_OPENINGS {
            return Err(format!("more than {MAX_OPENINGS} brackets and prefixes are in it"));
        }
        let compiled = jmespath::compile(expression).map_err(|error| match error.offset {
            // The reason alone: the rest is the expression once more, over several lines.
            at if at < expression.len() => format!("{} at character {}", error.reason, at + 1),
            _ => format!("{} at its end", error.reason),
        })?;
        check(compiled.as_ast())?;
        let mut steps = Vec::new();
        let way = match follow(compiled.as_ast(), &mut steps) {
            true => Way::Steps(steps.into()),
            false => Way::Expression(Arc::new(compiled)),
        };
        Ok(Self {
            way: Some(way),
            room: Vec::new(),
        })
    }

    /// Whether an answer is found without memory of its own.
    #[cfg(test)]
    fn is_in_place(&self) -> bool {
        matches!(self.way, Some(Way::Steps(_)))
    }

    /// Reads an event, or a whole body. Without an expression, what is no JSON is a text, and so is a JSON text or number alone.
    pub(super) fn read<'a>(&'a mut self, data: &'a [u8], holes: &mut Holes) -> Result<Facts<'a>, Invalid> {
        let Self { way, room } = self;
        let Some(way) = way else {
            let facts = read_template(data, holes);
            let is_bare =
                facts.is_err() || matches!(kind(data), Some(Kind::String | Kind::Number | Kind::True | Kind::False));
            return if is_bare { bare(data, room) } else { facts };
        };
        let base = Facts {
            content: false,
            output: false,
            text: None,
            ..read_template(data, &mut Holes::default())?
        };
        if base.error.is_some() {
            return Ok(base);
        }
        let (content, text) = match way {
            Way::Steps(steps) => {
                let (content, place) = find(&mut Cursor::new(data), steps)?;
                if let Some(place) = place {
                    holes.note_answer(place.start, place.end);
                }
                (content, place.map(|place| place.raw))
            }
            Way::Expression(expression) => evaluate(expression, data, room),
        };
        Ok(Facts {
            content,
            output: content,
            text,
            ..base
        })
    }
}

/// Refuses what would make the evaluation overflow, or fail each time.
fn check(ast: &Ast) -> Result<(), String> {
    let all = |nodes: &[&Ast]| nodes.iter().try_for_each(|node| check(node));
    match ast {
        Ast::Slice { start, stop, step, .. } => {
            let numbers = [*start, *stop, Some(*step)];
            if *step == 0 {
                return Err("a slice has the step 0".to_owned());
            }
            match numbers
                .into_iter()
                .flatten()
                .all(|number| number.unsigned_abs() <= MAX_SLICE)
            {
                true => Ok(()),
                false => Err(format!("a slice has a number beyond {MAX_SLICE}")),
            }
        }
        Ast::Index { idx, .. } if idx.unsigned_abs() > MAX_SLICE => Err(format!("an index is beyond {MAX_SLICE}")),
        Ast::Function { name, args, .. } => {
            if jmespath::DEFAULT_RUNTIME.get_function(name).is_none() {
                return Err(format!("there is no function `{name}`"));
            }
            args.iter().try_for_each(check)
        }
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => all(&[lhs, rhs]),
        Ast::Condition { predicate, then, .. } => all(&[predicate, then]),
        Ast::Expref { ast, .. } => check(ast),
        Ast::Flatten { node, .. } | Ast::Not { node, .. } | Ast::ObjectValues { node, .. } => check(node),
        Ast::MultiList { elements, .. } => elements.iter().try_for_each(check),
        Ast::MultiHash { elements, .. } => elements.iter().try_for_each(|pair| check(&pair.value)),
        Ast::Field { .. } | Ast::Index { .. } | Ast::Identity { .. } | Ast::Literal { .. } => Ok(()),
    }
}

/// Appends the steps of an expression; answers whether it consists of nothing else.
fn follow(ast: &Ast, steps: &mut Vec<Step>) -> bool {
    match ast {
        Ast::Field { name, .. } if name.len() <= MAX_NAME_BYTES => {
            steps.push(Step::Name(name.as_bytes().into()));
            true
        }
        Ast::Index { idx, .. } => usize::try_from(*idx).is_ok_and(|index| {
            steps.push(Step::Index(index));
            true
        }),
        Ast::Subexpr { lhs, rhs, .. } => follow(lhs, steps) && follow(rhs, steps),
        _ => false,
    }
}

/// Consumes the next value and tells whether the steps lead to something in it; and to which text, if it is one. Of several members of one name the last one
/// counts, as with every reader that makes trees.
fn find<'a>(cursor: &mut Cursor<'a>, steps: &[Step]) -> Result<(bool, Option<Place<'a>>), Invalid> {
    let kind = cursor.kind()?;
    let Some((step, rest)) = steps.split_first() else {
        if kind == Kind::String {
            let place = text_of(cursor)?;
            return Ok((place.is_some(), place));
        }
        return Ok((is_something(kind, cursor.skip()?), None));
    };
    let mut found = (false, None);
    match (step, kind) {
        (Step::Name(wanted), Kind::Object) => cursor.object(|cursor, name| {
            if *name.unescaped(&mut [0; 32]) == **wanted {
                found = find(cursor, rest)?;
                return Ok(());
            }
            cursor.skip().map(drop)
        })?,
        (Step::Index(wanted), Kind::Array) => cursor.array(|cursor, index| {
            if index == *wanted {
                found = find(cursor, rest)?;
                return Ok(());
            }
            cursor.skip().map(drop)
        })?,
        _ => {
            cursor.skip()?;
        }
    }
    Ok(found)
}

/// Whether a value that is no text says anything.
fn is_something(kind: Kind, raw: &[u8]) -> bool {
    match kind {
        Kind::Null | Kind::False => false,
        Kind::True | Kind::Number => true,
        Kind::Object | Kind::Array | Kind::String => !raw[1..raw.len() - 1].trim_ascii().is_empty(),
    }
}

/// What an expression comes to: whether that is something, and its text. A mistake of types in this event alone is nothing.
fn evaluate<'a>(expression: &Expression<'static>, data: &[u8], room: &'a mut Vec<u8>) -> (bool, Option<&'a [u8]>) {
    let tree = std::str::from_utf8(data)
        .ok()
        .and_then(|text| Variable::from_json(text).ok());
    let Some(found) = tree.and_then(|tree| expression.search(tree).ok()) else {
        return (false, None);
    };
    match &*found {
        Variable::Null | Variable::Bool(false) | Variable::Expref(_) => (false, None),
        Variable::Bool(true) | Variable::Number(_) => (true, None),
        Variable::String(text) => (!text.is_empty(), escaped(text, room)),
        Variable::Array(items) => (!items.is_empty(), None),
        Variable::Object(members) => (!members.is_empty(), None),
    }
}

/// An answer that is a text and nothing around it. `[DONE]` is none.
fn bare<'a>(data: &'a [u8], room: &'a mut Vec<u8>) -> Result<Facts<'a>, Invalid> {
    let text = std::str::from_utf8(data).map_err(|_| Invalid)?;
    if text.trim() == "[DONE]" {
        return Err(Invalid);
    }
    let mut cursor = Cursor::new(data);
    let text = match cursor.kind() {
        Ok(Kind::String)
            if cursor
                .string()
                .is_ok_and(|text| cursor.finish().is_ok() && !text.raw().is_empty()) =>
        {
            let inner = data.trim_ascii();
            Some(&inner[1..inner.len() - 1])
        }
        // A JSON text without a character.
        Ok(Kind::String) if data.trim_ascii() == br#""""# => None,
        _ if text.trim().is_empty() => None,
        _ => escaped(text, room),
    };
    Ok(Facts {
        content: text.is_some(),
        output: text.is_some(),
        text,
        ..Facts::default()
    })
}

/// The kind of the one value that the data is.
fn kind(data: &[u8]) -> Option<Kind> {
    Cursor::new(data).kind().ok()
}

/// A text as it is written in JSON, without the quotes.
fn escaped<'a>(text: &str, room: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    room.clear();
    serde_json::to_writer(&mut *room, text).expect("a text can be written to memory");
    Some(&room[1..room.len() - 1]).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether anything was found, and the text.
    fn found(expression: Option<&str>, data: &str) -> (bool, Option<String>) {
        let mut extractor = expression.map_or_else(Extractor::default, |expression| {
            Extractor::new(expression).unwrap_or_else(|reason| panic!("{expression}: {reason}"))
        });
        match extractor.read(data.as_bytes(), &mut Holes::default()) {
            Ok(facts) => {
                let text = facts.text.map(|text| String::from_utf8_lossy(text).into_owned());
                (facts.content, text)
            }
            Err(Invalid) => (false, None),
        }
    }

    fn text(expression: &str, data: &str) -> Option<String> {
        let (content, text) = found(Some(expression), data);
        assert_eq!(content, text.is_some(), "{expression} in {data}");
        text
    }

    #[test]
    fn names_and_indexes_are_followed_in_place_and_give_what_the_whole_language_gives() {
        let data =
            r#"{"a":{"b":[{"c":"x"},{"c":"y\n"}],"d e":"z"},"text":"other","n":0,"l":[1],"o":{},"f":false,"s":""}"#;
        for (expression, wanted) in [
            ("a.b[0].c", Some("x")),
            ("a.b[1].c", Some(r"y\n")),
            (r#"a."d e""#, Some("z")),
            ("a.b[2].c", None),
            ("a[0]", None),
            ("s", None),
            ("o", None),
            ("f", None),
            ("nope.x", None),
        ] {
            let extractor = Extractor::new(expression).expect(expression);
            assert!(extractor.is_in_place(), "{expression}");
            assert_eq!(text(expression, data).as_deref(), wanted, "{expression}");
            // The same through the tree.
            assert_eq!(
                text(&format!("@ | {expression}"), data).as_deref(),
                wanted,
                "{expression}"
            );
        }
        for something in ["n", "l", "a", "a.b"] {
            assert_eq!(found(Some(something), data), (true, None), "{something}");
            assert_eq!(
                found(Some(&format!("@ | {something}")), data),
                (true, None),
                "{something}"
            );
        }
    }

    #[test]
    fn the_rest_of_the_language_is_evaluated() {
        let data = r#"{"items":[{"t":"a\"b","k":1},{"t":"c","k":2}]}"#;
        for (expression, wanted) in [
            ("items[-1].t", Some("c")),
            ("join('-', items[*].t)", Some(r#"a\"b-c"#)),
            ("items[?k == `2`].t | [0]", Some("c")),
            ("missing || items[0].t", Some(r#"a\"b"#)),
            ("length(missing)", None),
        ] {
            assert!(
                !Extractor::new(expression).expect(expression).is_in_place(),
                "{expression}"
            );
            assert_eq!(text(expression, data).as_deref(), wanted, "{expression}");
        }
        assert_eq!(found(Some("items[].k"), data), (true, None));
        assert_eq!(found(Some("items[?k == `3`]"), data), (false, None));
    }

    #[test]
    fn an_expression_says_where_the_answer_is_and_nowhere_else() {
        assert_eq!(found(Some("token"), r#"{"text":"whole"}"#), (false, None));
        assert_eq!(found(Some("token"), "no JSON"), (false, None));
        let mut extractor = Extractor::new("token").expect("an expression");
        let facts = extractor
            .read(
                br#"{"token":"a","error":{"message":"m"},"usage":{"completion_tokens":1}}"#,
                &mut Holes::default(),
            )
            .expect("JSON");
        assert!(!facts.content && facts.error.is_some() && facts.usage.is_some());
    }

    #[test]
    fn bare_texts_are_answers_where_no_expression_looks_into_them() {
        for (data, wanted) in [
            ("hello \"you\"", Some(r#"hello \"you\""#)),
            (r#""a\nb""#, Some(r"a\nb")),
            ("42", Some("42")),
            ("true", Some("true")),
            ("{broken", Some("{broken")),
            (r#""""#, None),
            ("null", None),
            ("[]", None),
            ("  ", None),
        ] {
            assert_eq!(
                found(None, data),
                (wanted.is_some(), wanted.map(str::to_owned)),
                "{data}"
            );
        }
        let mut extractor = Extractor::default();
        for none in [&b"[DONE]"[..], b" [DONE] ", b"\xff"] {
            assert!(extractor.read(none, &mut Holes::default()).is_err(), "{none:?}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_the_reason() {
        for (expression, part) in [
            ("", "at its end"),
            ("a.", "at its end"),
            ("a[", "at its end"),
            ("a b", "at character 3"),
            ("nope(a)", "no function `nope`"),
            ("[::0]", "step 0"),
            ("a[0:2147483647]", "beyond"),
            ("a[-2147483647]", "beyond"),
        ] {
            let reason = Extractor::new(expression).expect_err(expression);
            assert!(
                reason.contains(part) && !reason.contains('\n'),
                "{expression}: {reason}"
            );
        }
        for long in [
            "(".repeat(500),
            "[".repeat(65),
            "!".repeat(100),
            "&".repeat(64),
            "a".repeat(513),
            "a|".repeat(255) + "||",
        ] {
            assert!(Extractor::new(&long).is_err(), "{long}");
        }
        assert!(Extractor::new(&("a|".repeat(250) + "a")).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn no_expression_and_no_answer_stops_the_reader(expression in "[a-c\\[\\]\\.\\*@|&\\(\\)0-9:'\"`-]{0,16}", data in "[a-c\\[\\]\\{\\}:,\"0-9 ]{0,32}") {
            if let Ok(mut extractor) = Extractor::new(&expression) {
                let _ = extractor.read(data.as_bytes(), &mut Holes::default());
                let _ = extractor.read(br#"{"a":[1,"b",{"c":null}],"b":"c"}"#, &mut Holes::default());
            }
            let _ = Extractor::default().read(data.as_bytes(), &mut Holes::default());
        }
    }
}
