//! Scripted answers of routes that are not inference: what the n-th call gets, and when.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::fault::{Fault, Target};

/// The answers of one path in order of its calls; the last one is repeated. As text: `PATH=ANSWER[,ANSWER...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlScript {
    pub(crate) path: String,
    answers: Vec<ControlAnswer>,
}

/// One answer: `STATUS[:BODY][@MS]` or `FAULT[@MS]`, where `@MS` delays it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlAnswer {
    pub(crate) kind: AnswerKind,
    pub(crate) delay: Duration,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// This status, with the body of the route (2xx) or of an error unless there is one.
    Status { code: u16, body: Option<String> },
    /// What the fault makes of the route's own answer.
    Fault(Fault),
}

/// A script that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "control script `{text}`: {reason}; write PATH=ANSWER[,ANSWER...] with answers such as 503, 200:BODY, 200@1500 or hang"
)]
pub struct ControlScriptError {
    text: String,
    reason: String,
}

impl ControlScript {
    /// The answer of the `ordinal`-th call, from 1.
    pub(crate) fn answer(&self, ordinal: u64) -> &ControlAnswer {
        let index = usize::try_from(ordinal - 1).unwrap_or(usize::MAX);
        let last = self.answers.last().expect("a script has an answer");
        self.answers.get(index).unwrap_or(last)
    }
}

impl FromStr for ControlScript {
    type Err = ControlScriptError;

    fn from_str(text: &str) -> Result<Self, ControlScriptError> {
        let fail = |reason: &str| ControlScriptError {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (path, answers) = text.split_once('=').ok_or_else(|| fail("there is no `=`"))?;
        if !path.starts_with('/') || path.contains('?') {
            return Err(fail("the path must start with `/` and have no query"));
        }
        let answers: Result<Vec<ControlAnswer>, String> = answers.split(',').map(answer).collect();
        Ok(Self {
            path: path.to_owned(),
            answers: answers.map_err(|reason| fail(&reason))?,
        })
    }
}

fn answer(text: &str) -> Result<ControlAnswer, String> {
    let (what, delay) = match text.rsplit_once('@') {
        None => (text, Duration::ZERO),
        Some((what, ms)) => {
            let ms = ms
                .parse()
                .map_err(|_| format!("`{ms}` is no whole number of milliseconds"))?;
            (what, Duration::from_millis(ms))
        }
    };
    let (word, body) = match what.split_once(':') {
        Some((word, body)) => (word, Some(body.to_owned())),
        None => (what, None),
    };
    let kind = match word.parse() {
        Ok(code @ 200..=599) => AnswerKind::Status { code, body },
        Ok(_) => return Err(format!("`{word}` is no status from 200 to 599")),
        Err(_) => {
            let fault: Fault = what.parse().map_err(|error: crate::FaultError| error.to_string())?;
            if let Some(reason) = fault.misfit(Target::Other) {
                return Err(format!("fault `{fault}`: {reason}"));
            }
            AnswerKind::Fault(fault)
        }
    };
    Ok(ControlAnswer { kind, delay })
}

impl fmt::Display for ControlScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        for (index, answer) in self.answers.iter().enumerate() {
            f.write_str(if index == 0 { "=" } else { "," })?;
            match &answer.kind {
                AnswerKind::Status { code, body: None } => write!(f, "{code}")?,
                AnswerKind::Status { code, body: Some(body) } => write!(f, "{code}:{body}")?,
                AnswerKind::Fault(fault) => write!(f, "{fault}")?,
            }
            if !answer.delay.is_zero() {
                write!(f, "@{}", answer.delay.as_millis())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_as_it_is_written() {
        for text in [
            "/reset_prefix_cache=503",
            "/reset_prefix_cache=503,429@250,200",
            "/v1/admin/reset=200:{\"success\": false},200:",
            "/start_profile=hang,redirect@10,unsuccessful",
        ] {
            assert_eq!(text.parse::<ControlScript>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn the_last_answer_is_repeated() {
        let script: ControlScript = "/x=503,200@5".parse().expect("a script");
        let code = |ordinal| match &script.answer(ordinal).kind {
            AnswerKind::Status { code, .. } => *code,
            other => panic!("{other:?}"),
        };
        assert_eq!([code(1), code(2), code(3), code(u64::MAX)], [503, 200, 200, 200]);
        assert_eq!(script.answer(9).delay, Duration::from_millis(5));
    }

    #[test]
    fn mistakes_are_refused_with_the_text_and_what_is_allowed() {
        for (text, part) in [
            ("/x", "no `=`"),
            ("x=200", "must start with `/`"),
            ("/x?a=200", "no query"),
            ("/x=", "no such fault"),
            ("/x=99", "200 to 599"),
            ("/x=200@soon", "milliseconds"),
            ("/x=no-done", "streaming"),
        ] {
            let error = text.parse::<ControlScript>().expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("PATH=ANSWER"), "{error}");
        }
    }
}
