//! Answers an inference request: paced or at once, streamed or whole, correct or faulty.

use crate::api::Api;
use crate::chat_request::InferenceRequest;
use crate::connection::Waited;
use crate::dialect::Dialect;
use crate::exchange::{ClientLeft, Exchange};
use crate::fault::{Fault, Target};
use crate::http::Request;
use crate::ledger::Outcome;
use crate::other_request;
use crate::reply::{self, Ending, Instead, Length, Reply};
use crate::serve::{Session, requested_fault};
use crate::sse::{self, FinishReason, Framing, Usage};

/// Tokens of an answer when neither the request nor the server says how many.
const TOKENS_DEFAULT: u32 = 16;

/// An accepted request with what will be sent for it.
struct Job<'a> {
    api: Api,
    model: &'a str,
    tokens: u32,
    finish: FinishReason,
    usage: bool,
    prompt_words: u64,
    /// Texts to embed, or passages to rank.
    inputs: usize,
    fault: Option<&'a Fault>,
    client_closes: bool,
}

impl Job<'_> {
    /// The words of its API, with the counts of an answer of so many tokens.
    fn dialect(&self, tokens: u32) -> Dialect<'_> {
        let usage = Usage {
            prompt_tokens: self.prompt_words,
            completion_tokens: tokens,
        };
        Dialect {
            api: self.api,
            model: self.model,
            finish: self.finish,
            usage: self.usage.then_some(usage),
        }
    }
}

/// Answers `request`, whose last byte came at `received_ns`, and says what happens to the connection.
pub(crate) async fn answer(session: &mut Session, api: Api, request: &Request, received_ns: u64) -> Ending {
    let thread = std::rc::Rc::clone(&session.thread);
    let mut exchange = Exchange::arrive(&thread, request, received_ns, &session.connection);
    let answered = serve(session, &mut exchange, api, request, received_ns).await;
    let ending = answered.unwrap_or_else(|ClientLeft| {
        exchange.client_left(session.writer.sent_bytes());
        Ending::Cut
    });
    if thread.shared.options.access_logs {
        eprintln!("POST {} {}", request.path, exchange.log_line());
    }
    ending
}

async fn serve(
    session: &mut Session,
    exchange: &mut Exchange<'_>,
    api: Api,
    request: &Request,
    received_ns: u64,
) -> Result<Ending, ClientLeft> {
    let thread = std::rc::Rc::clone(&session.thread);
    let options = &thread.shared.options;
    let (chat, asked) = match accept(options.api_key.as_deref(), api, request) {
        Ok(accepted) => accepted,
        Err(reply) => return refuse(session, exchange, request, &reply).await,
    };
    exchange.prompt_words(chat.prompt_words);
    if options.keep_messages {
        exchange.messages(&chat.model, other_request::messages(api, &request.body));
    }
    let fault = asked
        .as_ref()
        .or(options.fault.as_ref())
        .and_then(|fault| fault.at(exchange.ordinal));
    if let Some(fault) = fault {
        let target = if chat.stream { Target::Stream } else { Target::Whole };
        // One event of this API is both the finish and the end.
        let endless =
            (api == Api::Responses && *fault == Fault::NoDone).then_some("this API has no end but the finish");
        if let Some(reason) = fault.misfit(target).or(endless) {
            let reply = Reply::error(400, &format!("fault `{fault}` cannot be played here: {reason}"));
            return refuse(session, exchange, request, &reply).await;
        }
        exchange.fault(fault.to_string());
        session.writer.piece = if let Fault::Split(bytes) = fault {
            Some(*bytes)
        } else {
            None
        };
    }
    if let Some(instead) = Instead::of(fault) {
        return play_instead(session, exchange, request, instead).await;
    }
    let job = Job {
        api,
        model: &chat.model,
        tokens: match api.has_tokens() {
            true => options.osl.or(chat.tokens_max).unwrap_or(TOKENS_DEFAULT),
            false => 0,
        },
        finish: if options.osl.is_none() && chat.tokens_max.is_some() {
            FinishReason::Length
        } else {
            FinishReason::Stop
        },
        usage: fault != Some(&Fault::NoUsage) && (chat.include_usage || !chat.stream),
        prompt_words: chat.prompt_words,
        inputs: chat.passages,
        fault,
        client_closes: request.close,
    };
    exchange.finish(job.finish);
    if fault == Some(&Fault::Interim) {
        reply::interim(&mut session.writer.out);
        if !options.fast {
            exchange.sending();
            session.flush().await?;
        }
    }
    if chat.stream {
        stream(session, exchange, &job, received_ns).await
    } else {
        whole(session, exchange, &job, received_ns).await
    }
}

/// Checks credentials and reads the body and the fault that the request asks for.
fn accept(api_key: Option<&str>, api: Api, request: &Request) -> Result<(InferenceRequest, Option<Fault>), Reply> {
    if let Some(key) = api_key {
        authenticate(key, api, request)?;
    }
    if api == Api::Messages && request.api_version.is_empty() {
        return Err(Reply::error(400, "anthropic-version: header is required"));
    }
    let asked = other_request::parse(api, &request.body).map_err(|message| Reply::error(400, &message))?;
    Ok((asked, requested_fault(&request.fault, request)?))
}

fn authenticate(key: &str, api: Api, request: &Request) -> Result<(), Reply> {
    if api == Api::Messages {
        return match request.api_key == key {
            true => Ok(()),
            false => Err(Reply::error(401, "the x-api-key header is not this server's api key")),
        };
    }
    let given = request.authorization.split_once(' ');
    if given.is_some_and(|(scheme, given)| scheme.eq_ignore_ascii_case("bearer") && given.trim() == key) {
        return Ok(());
    }
    let reply = Reply::error(401, "the authorization header does not carry this server's api key");
    Err(reply.with_header("www-authenticate", "Bearer"))
}

async fn refuse(
    session: &mut Session,
    exchange: &mut Exchange<'_>,
    request: &Request,
    reply: &Reply,
) -> Result<Ending, ClientLeft> {
    reply.write(&mut session.writer.out, request.close, None);
    send_last(session, exchange, Outcome::Rejected).await?;
    Ok(Ending::of(request.close, None))
}

async fn play_instead(
    session: &mut Session,
    exchange: &mut Exchange<'_>,
    request: &Request,
    instead: Instead,
) -> Result<Ending, ClientLeft> {
    let ending = match instead {
        Instead::Reply(reply) => {
            reply.write(&mut session.writer.out, request.close, None);
            Ending::of(request.close, None)
        }
        Instead::Garbage => {
            session.writer.out.extend_from_slice(reply::GARBAGE);
            Ending::Cut
        }
        Instead::Nothing(ending) => {
            exchange.file(Outcome::Faulted, 0);
            return Ok(ending);
        }
        Instead::Hang => return session.wait_for_client_to_leave().await,
    };
    send_last(session, exchange, Outcome::Faulted).await?;
    Ok(ending)
}

/// Files the request and sends what is in the buffer, which is the last of the answer.
async fn send_last(session: &mut Session, exchange: &mut Exchange<'_>, outcome: Outcome) -> Result<(), ClientLeft> {
    if session.connection.client_left() {
        return Err(ClientLeft);
    }
    if !session.writer.out.is_empty() {
        exchange.sending();
    }
    exchange.file(outcome, session.writer.total_bytes());
    session.flush().await
}

fn outcome(fault: Option<&Fault>) -> Outcome {
    if fault.is_some_and(Fault::spoils) {
        Outcome::Faulted
    } else {
        Outcome::Complete
    }
}

async fn whole(
    session: &mut Session,
    exchange: &mut Exchange<'_>,
    job: &Job<'_>,
    received_ns: u64,
) -> Result<Ending, ClientLeft> {
    let thread = std::rc::Rc::clone(&session.thread);
    if !thread.shared.options.fast {
        let schedule = thread
            .shared
            .timings
            .schedule(exchange.ordinal, received_ns, exchange.in_flight());
        session.wait_until(schedule.last_due_ns(job.tokens)).await?;
    }
    let usage = job.usage.then_some(Usage {
        prompt_tokens: job.prompt_words,
        completion_tokens: job.tokens,
    });
    let body = &mut session.body;
    body.clear();
    match job.api {
        Api::Chat => {
            let mut voices = thread.voices.borrow_mut();
            voices.of(job.model).whole(body, job.tokens, job.finish, usage);
        }
        _ => job.dialect(job.tokens).whole(body, job.tokens, job.inputs),
    }
    let out = &mut session.writer.out;
    let length = Length::Bytes(body.len() as u64);
    reply::head(out, 200, "application/json", length, job.client_closes, job.fault, "");
    out.extend_from_slice(body);
    exchange.whole(job.tokens);
    send_last(session, exchange, outcome(job.fault)).await?;
    Ok(Ending::of(job.client_closes, job.fault))
}

/// What a streamed answer consists of, after its fault has had its say.
#[derive(Debug, PartialEq, Eq)]
struct Shape {
    role: bool,
    tokens: u32,
    behind: Behind,
    finish: bool,
    usage: bool,
    done: bool,
}

/// What comes behind the tokens.
#[derive(Debug, PartialEq, Eq)]
enum Behind {
    /// The end of the body, in good order.
    End,
    /// Data with an error object, then the end.
    ErrorData,
    /// An event of the type `error`, then the end.
    ErrorEvent,
    /// Nothing, and the connection stays.
    Silence,
    /// Nothing, and the connection ends so.
    Break(Ending),
}

impl Shape {
    fn of(tokens: u32, usage: bool, fault: Option<&Fault>) -> Shape {
        let correct = Shape {
            role: true,
            tokens,
            behind: Behind::End,
            finish: true,
            usage,
            done: true,
        };
        let cut_off = |tokens, behind| Shape {
            role: true,
            tokens,
            behind,
            finish: false,
            usage: false,
            done: false,
        };
        let half = (tokens / 2).max(1);
        match fault {
            Some(Fault::TruncateStream | Fault::TruncateBody) => cut_off(half, Behind::Break(Ending::Cut)),
            Some(Fault::ResetMidStream) => cut_off(half, Behind::Break(Ending::Reset)),
            Some(Fault::StallAfter(stalled)) => cut_off((*stalled).min(tokens), Behind::Silence),
            Some(Fault::NoDone) => Shape { done: false, ..correct },
            Some(Fault::NoFinish) => cut_off(tokens, Behind::End),
            Some(Fault::StreamError) => cut_off(tokens.min(2), Behind::ErrorData),
            Some(Fault::ErrorEvent) => Shape {
                role: false,
                ..cut_off(0, Behind::ErrorEvent)
            },
            Some(Fault::NoContent) => Shape { tokens: 0, ..correct },
            _ => correct,
        }
    }
}

async fn stream(
    session: &mut Session,
    exchange: &mut Exchange<'_>,
    job: &Job<'_>,
    received_ns: u64,
) -> Result<Ending, ClientLeft> {
    let thread = std::rc::Rc::clone(&session.thread);
    let fast = thread.shared.options.fast;
    let mut schedule = thread
        .shared
        .timings
        .schedule(exchange.ordinal, received_ns, exchange.in_flight());
    let shape = Shape::of(job.tokens, job.usage, job.fault);
    let (framing, length) = if job.fault == Some(&Fault::TruncateBody) {
        (
            Framing::Plain,
            Length::Bytes((u64::from(job.tokens) + 4) * (6 * job.model.len() as u64 + 400)),
        )
    } else {
        (Framing::Chunked, Length::Chunked)
    };
    if !fast {
        session.wait_until(schedule.next_due_ns()).await?;
    }
    let out = &mut session.writer.out;
    reply::head(
        out,
        200,
        "text/event-stream; charset=utf-8",
        length,
        job.client_closes,
        job.fault,
        "",
    );
    if fast && framing == Framing::Chunked && shape.role && job.api == Api::Chat {
        thread.voices.borrow_mut().of(job.model).stream(out, shape.tokens);
        exchange.streamed(shape.tokens);
    } else {
        if shape.role {
            match job.api {
                Api::Chat => thread.voices.borrow_mut().of(job.model).role(out, framing),
                _ => job.dialect(0).opening(out, framing, job.prompt_words),
            }
        }
        for index in 0..shape.tokens {
            if index > 0 && !fast {
                session.wait_until(schedule.next_due_ns()).await?;
            }
            let out = &mut session.writer.out;
            match job.api {
                Api::Chat => thread.voices.borrow_mut().of(job.model).token(out, framing, index),
                _ => job.dialect(0).token(out, framing, index),
            }
            exchange.streamed(index + 1);
            if !fast {
                exchange.sending();
                session.flush().await?;
            }
        }
    }
    let out = &mut session.writer.out;
    if job.api != Api::Chat {
        if shape.finish {
            job.dialect(shape.tokens)
                .closing(out, framing, shape.tokens, shape.done);
        }
    } else {
        let mut voices = thread.voices.borrow_mut();
        let voice = voices.of(job.model);
        if shape.finish {
            voice.finish(out, framing, job.finish);
        }
        if shape.usage {
            let usage = Usage {
                prompt_tokens: job.prompt_words,
                completion_tokens: shape.tokens,
            };
            voice.usage(out, framing, usage);
        }
    }
    match shape.behind {
        Behind::End if shape.done && job.api == Api::Chat => sse::done(out, framing),
        Behind::End => {}
        Behind::ErrorData => job.dialect(0).error(out, framing),
        Behind::ErrorEvent => sse::error_event(out, framing),
        Behind::Silence => {
            if !out.is_empty() {
                exchange.sending();
                session.flush().await?;
            }
            return session.wait_for_client_to_leave().await;
        }
        Behind::Break(ending) => {
            send_last(session, exchange, outcome(job.fault)).await?;
            return Ok(ending);
        }
    }
    sse::end(out, framing);
    send_last(session, exchange, outcome(job.fault)).await?;
    Ok(Ending::of(job.client_closes, job.fault))
}

impl Session {
    /// Waits for `deadline_ns`.
    async fn wait_until(&self, deadline_ns: u64) -> Result<(), ClientLeft> {
        match self.connection.wait(&self.alarm, Some(deadline_ns)).await {
            Waited::Due => Ok(()),
            Waited::ClientLeft => Err(ClientLeft),
        }
    }

    async fn wait_for_client_to_leave(&self) -> Result<Ending, ClientLeft> {
        self.connection.wait(&self.alarm, None).await;
        Err(ClientLeft)
    }

    /// Sends what is in the buffer.
    async fn flush(&mut self) -> Result<(), ClientLeft> {
        // Whatever the error is, it means that this client cannot be reached any more.
        self.writer.flush().await.map_err(|_| ClientLeft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(fault: &str) -> Shape {
        Shape::of(8, true, Some(&fault.parse().expect(fault)))
    }

    #[test]
    fn a_correct_stream_has_everything() {
        let correct = Shape {
            role: true,
            tokens: 8,
            behind: Behind::End,
            finish: true,
            usage: true,
            done: true,
        };
        assert_eq!(Shape::of(8, true, None), correct);
        assert_eq!(shape("split:3"), correct);
        assert!(!Shape::of(8, false, None).usage);
    }

    #[test]
    fn each_fault_of_a_stream_takes_its_own_part_away() {
        assert_eq!(
            (shape("truncate-stream").tokens, shape("truncate-stream").behind),
            (4, Behind::Break(Ending::Cut))
        );
        assert_eq!(shape("reset-mid-stream").behind, Behind::Break(Ending::Reset));
        assert_eq!((shape("stall-after:3").tokens, shape("stall-after:99").tokens), (3, 8));
        assert!(shape("no-done").finish && !shape("no-done").done);
        assert!(!shape("no-finish").finish && !shape("no-finish").done && shape("no-finish").behind == Behind::End);
        assert_eq!(
            (shape("stream-error").tokens, shape("stream-error").behind),
            (2, Behind::ErrorData)
        );
        assert_eq!((shape("error-event").role, shape("error-event").tokens), (false, 0));
        assert!(shape("no-content").finish && shape("no-content").tokens == 0);
        assert_eq!(Shape::of(1, false, Some(&Fault::TruncateStream)).tokens, 1);
    }
}
