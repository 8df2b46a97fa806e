//! Environment references in scalars: `${NAME}` and `${NAME:default}`.

use super::diagnostic::quote;
use super::parse::MAX_BYTES;

/// Looks up an environment variable. A closure rather than the process environment, so that tests are free of global state.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// A scalar after substitution.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Substituted {
    pub(super) text: String,
    /// Whether the scalar was exactly one reference, so that its value may have any type.
    pub(super) whole: bool,
}

/// Replaces every reference in `text`; `None` when there is none.
///
/// # Errors
/// What is wrong with a reference, as a message. The value of a variable is never part of it.
pub(super) fn substitute(text: &str, environment: &Environment<'_>) -> Result<Option<Substituted>, String> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut references = 0;
    let mut literal = 0;
    while let Some(open) = rest.find("${") {
        literal += open;
        result.push_str(&rest[..open]);
        let body = &rest[open + 2..];
        // A reference never spans lines: an unclosed one is reported where it stands.
        let Some(close) = body.find('}').filter(|&close| !body[..close].contains('\n')) else {
            return Err("found `${` without a closing `}`; write ${NAME} or ${NAME:default}".to_owned());
        };
        let (name, default) = match body[..close].split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (&body[..close], None),
        };
        if !is_name(name) {
            return Err(format!(
                "found an environment reference with the name {}; allowed: a letter or `_`, then letters, digits and `_`",
                quote(name)
            ));
        }
        match (environment(name), default) {
            (Some(value), _) => result.push_str(&value),
            (None, Some(default)) => result.push_str(default),
            (None, None) => {
                return Err(format!(
                    "the environment variable {} is not set; set it or give a default: ${{NAME:default}}",
                    quote(name)
                ));
            }
        }
        if result.len() > MAX_BYTES {
            return Err(format!(
                "found more than {MAX_BYTES} bytes once references are replaced; allowed: at most that many"
            ));
        }
        references += 1;
        rest = &body[close + 1..];
    }
    literal += rest.len();
    result.push_str(rest);
    Ok(Some(Substituted {
        text: result,
        whole: references == 1 && literal == 0,
    }))
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<Option<Substituted>, String> {
        substitute(text, &|name| (name == "HOST").then(|| "gpu1".to_owned()))
    }

    #[test]
    fn references_are_replaced_and_a_whole_one_is_marked() {
        assert_eq!(expand("plain $HOST"), Ok(None));
        assert_eq!(
            expand("${HOST}"),
            Ok(Some(Substituted {
                text: "gpu1".into(),
                whole: true
            }))
        );
        assert_eq!(
            expand("${NO:}"),
            Ok(Some(Substituted {
                text: String::new(),
                whole: true
            }))
        );
        let joined = expand("http://${HOST}:${PORT:80}/x");
        assert_eq!(
            joined,
            Ok(Some(Substituted {
                text: "http://gpu1:80/x".into(),
                whole: false
            }))
        );
        assert_eq!(
            expand("${HOST}${HOST}"),
            Ok(Some(Substituted {
                text: "gpu1gpu1".into(),
                whole: false
            }))
        );
        assert_eq!(
            expand("${U:http://h:1}"),
            Ok(Some(Substituted {
                text: "http://h:1".into(),
                whole: true
            }))
        );
    }

    #[test]
    fn a_reference_that_cannot_be_resolved_names_its_variable() {
        assert!(expand("${NOPE}").unwrap_err().contains("`NOPE` is not set"));
        assert!(expand("a ${HOST\n}").unwrap_err().contains("closing"));
        assert!(expand("${}").unwrap_err().contains("name"));
        assert!(expand("${1A}").unwrap_err().contains("`1A`"));
    }
}
