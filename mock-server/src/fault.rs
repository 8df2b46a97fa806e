//! Scripted faults: how an answer goes wrong on purpose, one name each.
//!
//! A fault is chosen for one request by its header `X-Mock-Fault: NAME[:ARG]` or its query `?fault=NAME[:ARG]`, or for
//! every inference request by `--fault`. The request's own choice wins.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use thiserror::Error;

/// One scripted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// `status:CODE`: answers at once with this status and a JSON error body. 200 to 599.
    Status(u16),
    /// `reset-before-head`: reads the request, then resets the connection (RST).
    ResetBeforeHead,
    /// `close-before-head`: reads the request, then closes the connection (FIN).
    CloseBeforeHead,
    /// `truncate-body`: declares a longer content length than it sends, then closes (FIN).
    TruncateBody,
    /// `truncate-stream`: sends half of the tokens, then closes (FIN) without finish reason or last chunk.
    TruncateStream,
    /// `reset-mid-stream`: sends half of the tokens, then resets the connection (RST).
    ResetMidStream,
    /// `garbage`: answers with bytes that are not HTTP, then closes.
    Garbage,
    /// `hang`: reads the request and never answers.
    Hang,
    /// `stall-after:N`: sends the head and N tokens, then nothing more, with the connection open.
    StallAfter(u32),
    /// `no-done`: a complete stream with finish reason and usage, but without `[DONE]`.
    NoDone,
    /// `no-finish`: all tokens and a clean end of the body, but no finish reason, usage or `[DONE]`.
    NoFinish,
    /// `stream-error`: two tokens, then data with an error object, then a clean end.
    StreamError,
    /// `error-event`: no token, but an `event: error`, then a clean end.
    ErrorEvent,
    /// `no-content`: role, finish reason and usage, but no token.
    NoContent,
    /// `split:N`: writes the answer N bytes at a time.
    Split(NonZeroUsize),
    /// `close-after`: answers with `connection: close` and closes.
    CloseAfter,
    /// `redirect`: answers 307 with a location on this server.
    Redirect,
    /// `gzip`: declares `content-encoding: gzip`, which no client of this server asked for.
    Gzip,
    /// `interim`: sends a 103 head at once, before the answer's own.
    Interim,
    /// `no-usage`: leaves the usage out, asked for or not.
    NoUsage,
    /// `silent-close`: answers as if the connection were kept, then closes it at once.
    SilentClose,
    /// `unsuccessful`: a control route answers 200 with `"success": false`, as a busy server does.
    Unsuccessful,
    /// `every:N:FAULT`: the fault on each N-th request only.
    Every(u64, Box<Fault>),
    /// `first:N:FAULT`: the fault on the first N requests only.
    First(u64, Box<Fault>),
}

/// What kind of request a fault is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// An inference request with `"stream": true`.
    Stream,
    /// An inference request that is answered whole.
    Whole,
    /// Any other route.
    Other,
}

impl Fault {
    /// The fault that the `ordinal`-th request (from 1) meets, with `every` and `first` resolved.
    pub(crate) fn at(&self, ordinal: u64) -> Option<&Fault> {
        match self {
            Fault::Every(n, fault) => ordinal.is_multiple_of(*n).then(|| fault.at(ordinal)).flatten(),
            Fault::First(n, fault) => (ordinal <= *n).then(|| fault.at(ordinal)).flatten(),
            fault => Some(fault),
        }
    }

    /// Why this fault cannot be played on `target`, if it cannot.
    pub(crate) fn misfit(&self, target: Target) -> Option<&'static str> {
        match (self, target) {
            (
                Fault::TruncateStream
                | Fault::ResetMidStream
                | Fault::StallAfter(_)
                | Fault::NoDone
                | Fault::NoFinish
                | Fault::StreamError
                | Fault::ErrorEvent
                | Fault::NoContent,
                Target::Whole | Target::Other,
            ) => Some("it needs a streaming inference request"),
            (Fault::NoUsage, Target::Other) => Some("it needs an inference request"),
            (Fault::Unsuccessful, Target::Stream | Target::Whole) => Some("it needs a control route"),
            _ => None,
        }
    }

    /// Whether a correct client must not count the answer as a success. The others only vary its form.
    pub(crate) fn spoils(&self) -> bool {
        !matches!(
            self,
            Fault::NoDone
                | Fault::Split(_)
                | Fault::CloseAfter
                | Fault::Interim
                | Fault::NoUsage
                | Fault::SilentClose
                | Fault::Unsuccessful
        )
    }
}

/// A fault that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("fault `{text}`: {reason}")]
pub struct FaultError {
    text: String,
    reason: &'static str,
}

/// Every fault without an argument, by name.
const PLAIN: [(&str, Fault); 18] = [
    ("reset-before-head", Fault::ResetBeforeHead),
    ("close-before-head", Fault::CloseBeforeHead),
    ("truncate-body", Fault::TruncateBody),
    ("truncate-stream", Fault::TruncateStream),
    ("reset-mid-stream", Fault::ResetMidStream),
    ("garbage", Fault::Garbage),
    ("hang", Fault::Hang),
    ("no-done", Fault::NoDone),
    ("no-finish", Fault::NoFinish),
    ("stream-error", Fault::StreamError),
    ("error-event", Fault::ErrorEvent),
    ("no-content", Fault::NoContent),
    ("close-after", Fault::CloseAfter),
    ("redirect", Fault::Redirect),
    ("gzip", Fault::Gzip),
    ("interim", Fault::Interim),
    ("no-usage", Fault::NoUsage),
    ("silent-close", Fault::SilentClose),
];

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        parse(text).map_err(|reason| FaultError {
            text: text.to_owned(),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<Fault, &'static str> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    let nested = |reason| {
        let (count, fault) = argument.and_then(|argument| argument.split_once(':')).ok_or(reason)?;
        let count = count.parse().ok().filter(|count| *count > 0).ok_or(reason)?;
        Ok::<_, &'static str>((count, Box::new(parse(fault)?)))
    };
    let number = argument.and_then(|argument| argument.parse::<u32>().ok());
    match name {
        "status" => match number {
            Some(code @ 200..=599) => Ok(Fault::Status(code as u16)),
            _ => Err("status takes a code from 200 to 599, as in `status:503`"),
        },
        "stall-after" => number
            .map(Fault::StallAfter)
            .ok_or("stall-after takes a number of tokens, as in `stall-after:3`"),
        "split" => number
            .and_then(|bytes| NonZeroUsize::new(bytes as usize))
            .map(Fault::Split)
            .ok_or("split takes a number of bytes above 0, as in `split:7`"),
        "every" => nested("every takes a number above 0 and a fault, as in `every:10:status:503`")
            .map(|(count, fault)| Fault::Every(count, fault)),
        "first" => nested("first takes a number above 0 and a fault, as in `first:2:status:503`")
            .map(|(count, fault)| Fault::First(count, fault)),
        "unsuccessful" if argument.is_none() => Ok(Fault::Unsuccessful),
        _ => match PLAIN.into_iter().find(|(plain, _)| *plain == name) {
            Some((_, fault)) if argument.is_none() => Ok(fault),
            Some(_) => Err("this fault takes no argument"),
            None => Err("no such fault; the names are listed under `--fault` in the help"),
        },
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Status(code) => write!(f, "status:{code}"),
            Fault::StallAfter(tokens) => write!(f, "stall-after:{tokens}"),
            Fault::Split(bytes) => write!(f, "split:{bytes}"),
            Fault::Every(count, fault) => write!(f, "every:{count}:{fault}"),
            Fault::First(count, fault) => write!(f, "first:{count}:{fault}"),
            Fault::Unsuccessful => f.write_str("unsuccessful"),
            fault => {
                let name = PLAIN.iter().find(|(_, plain)| plain == fault).map(|(name, _)| *name);
                f.write_str(name.expect("every fault without an argument is in the table of names"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_it_is_written() {
        let with_arguments = [
            "status:503",
            "stall-after:0",
            "split:1",
            "every:3:hang",
            "first:2:every:2:status:429",
        ];
        let plain = PLAIN.iter().map(|(name, _)| *name).chain(["unsuccessful"]);
        for name in plain.chain(with_arguments) {
            assert_eq!(name.parse::<Fault>().expect(name).to_string(), name);
        }
    }

    #[test]
    fn mistakes_are_refused_with_the_text_and_what_is_allowed() {
        for (text, part) in [
            ("statu:500", "no such fault"),
            ("", "no such fault"),
            ("status", "200 to 599"),
            ("status:99", "200 to 599"),
            ("status:abc", "200 to 599"),
            ("hang:1", "takes no argument"),
            ("split:0", "above 0"),
            ("every:0:hang", "above 0"),
            ("every:2", "and a fault"),
            ("first:2:nothing", "no such fault"),
            ("stall-after:-1", "number of tokens"),
        ] {
            let message = text.parse::<Fault>().expect_err(text).to_string();
            assert!(
                message.starts_with(&format!("fault `{text}`: ")) && message.contains(part),
                "{message}"
            );
        }
    }

    #[test]
    fn every_and_first_pick_their_requests() {
        let met = |text: &str| -> Vec<u64> {
            let fault: Fault = text.parse().expect(text);
            (1..=9).filter(|ordinal| fault.at(*ordinal).is_some()).collect()
        };
        assert_eq!(met("every:3:hang"), [3, 6, 9]);
        assert_eq!(met("first:2:hang"), [1, 2]);
        assert_eq!(met("first:6:every:2:hang"), [2, 4, 6]);
        assert_eq!(met("hang").len(), 9);
        let nested: Fault = "every:2:status:500".parse().expect("valid");
        assert_eq!(nested.at(2), Some(&Fault::Status(500)));
    }

    #[test]
    fn faults_of_a_stream_do_not_fit_an_answer_sent_whole() {
        assert!(Fault::TruncateStream.misfit(Target::Whole).is_some());
        assert!(Fault::TruncateStream.misfit(Target::Stream).is_none());
        assert!(Fault::NoUsage.misfit(Target::Other).is_some());
        assert!(Fault::Unsuccessful.misfit(Target::Stream).is_some());
        assert!(Fault::Status(500).misfit(Target::Other).is_none());
    }
}
