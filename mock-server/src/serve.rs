//! Serves one connection: request after request, route by route.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use monoio::net::TcpStream;
use serde_json::{Value, json};

use crate::api::Api;
use crate::connection::{self, Connection, HandOver, Next, Writer};
use crate::control::AnswerKind;
use crate::dcgm;
use crate::fault::{Fault, Target};
use crate::http::{Method, Parser, Request};
use crate::inference;
use crate::ledger::{ControlEntry, increment, lock};
use crate::prometheus;
use crate::reply::{self, Ending, Instead, Reply};
use crate::server::{Shared, Thread};
use crate::sys;
use crate::timer::Alarm;

/// How long a client may still send behind an answer that closes the connection. Closing with bytes unread would reset
/// the connection, and the client could lose the answer.
const LINGER_NS: u64 = 1_000_000_000;

/// What one connection's serving task works with.
pub(crate) struct Session {
    pub(crate) thread: Rc<Thread>,
    pub(crate) connection: Rc<Connection>,
    pub(crate) writer: Writer,
    pub(crate) alarm: Alarm,
    /// Scratch for a body whose length must be known before its head is written.
    pub(crate) body: Vec<u8>,
}

/// Serves `stream` until it ends; the body of the serving task.
pub(crate) async fn serve(thread: Rc<Thread>, number: u64, client: SocketAddr, stream: TcpStream) {
    let hand_over = if thread.shared.options.fast {
        HandOver::InBatches
    } else {
        HandOver::AtOnce
    };
    let (connection, half, writer) = connection::open(number, client, stream, hand_over);
    thread.enter(&connection);
    let reader = {
        let (thread, connection) = (Rc::clone(&thread), Rc::clone(&connection));
        monoio::spawn(async move { connection.read(half, &thread.shared.counters.bytes_received).await })
    };
    let alarm = Alarm::new(&thread.timer);
    let mut session = Session {
        thread: Rc::clone(&thread),
        connection: Rc::clone(&connection),
        writer,
        alarm,
        body: Vec::new(),
    };
    match session.requests().await {
        // `Keep` never leaves the loop.
        Ending::Keep | Ending::Cut => connection.shut(),
        Ending::Reset => connection.reset(),
        Ending::Close => {
            session.writer.finish().await;
            connection
                .discard(&session.alarm, sys::monotonic_ns() + LINGER_NS)
                .await;
            connection.shut();
        }
    }
    drop(session);
    // The descriptor is closed with the reader's half; only then is the connection off the books.
    reader.await;
    thread.leave(&connection);
}

impl Session {
    async fn requests(&mut self) -> Ending {
        let mut parser = Parser::new();
        loop {
            let ending = match self.connection.next(&mut parser).await {
                Next::Request { received_ns } => {
                    self.writer.start_next();
                    self.answer(parser.request(), received_ns).await
                }
                Next::Continue => {
                    self.writer.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    match self.writer.flush().await {
                        Ok(()) => continue,
                        Err(_) => Ending::Cut,
                    }
                }
                Next::Bad(error) => {
                    self.writer.start_next();
                    let reply = Reply::error(error.status(), &error.to_string());
                    reply.write(&mut self.writer.out, true, None);
                    // If the client is gone, the lingering below ends at once.
                    let _ = self.writer.flush().await;
                    Ending::Close
                }
                Next::Ended => return Ending::Cut,
            };
            if ending != Ending::Keep {
                return ending;
            }
            parser.start_next();
        }
    }

    async fn answer(&mut self, request: &Request, received_ns: u64) -> Ending {
        match Route::of(&request.path) {
            Some(Route::Inference(api)) if request.method == Method::Post => {
                inference::answer(self, api, request, received_ns).await
            }
            route => self.answer_other(route, request, received_ns).await,
        }
    }

    /// Answers a request that is not an inference request. The server's own fault does not touch these, so that
    /// counters and ledger can always be read.
    async fn answer_other(&mut self, route: Option<Route>, request: &Request, received_ns: u64) -> Ending {
        let thread = Rc::clone(&self.thread);
        let shared = &thread.shared;
        let script = shared
            .options
            .control
            .iter()
            .position(|script| script.path == request.path);
        let (mut reply, ordinal) = other(shared, route, script.is_some(), request, received_ns);
        if shared.options.access_logs {
            eprintln!("{:?} {} {}", request.method, request.path, reply.status);
        }
        // A client sends the headers of its load to everything that it asks of the server. What tells of the server is no part of the load.
        let is_call = script.is_some() || route.is_some_and(|route| route.control(shared).is_some());
        let from_header = if is_call { request.fault.as_str() } else { "" };
        let mut asked = match requested_fault(from_header, request) {
            Ok(asked) => asked,
            Err(reply) => return self.send(&reply, request, None).await,
        };
        // What the request asks for wins over the script.
        if let Some(index) = script.filter(|_| asked.is_none()) {
            let answer = shared.options.control[index].answer(increment(&shared.scripted_calls[index]));
            if !answer.delay.is_zero() {
                let due_ns = sys::monotonic_ns() + answer.delay.as_nanos() as u64;
                // A client that leaves is seen when the answer is sent, and the call then has no effect.
                self.connection.wait(&self.alarm, Some(due_ns)).await;
            }
            match &answer.kind {
                AnswerKind::Fault(fault) => asked = Some(fault.clone()),
                AnswerKind::Status { code, body } => reply = reply.scripted(*code, body.as_deref()),
            }
        }
        let fault = asked.as_ref().and_then(|fault| fault.at(ordinal)).cloned();
        let succeeds = (200..300).contains(&reply.status) && !self.connection.client_left();
        if fault.is_none() && succeeds {
            match route {
                Some(Route::StartProfile) => shared.counters.profiling.store(true, Ordering::Relaxed),
                Some(Route::StopProfile) => shared.counters.profiling.store(false, Ordering::Relaxed),
                _ => {}
            }
        }
        let Some(fault) = &fault else {
            return self.send(&reply, request, None).await;
        };
        let is_control = script.is_some() || route.and_then(|route| route.control(shared)).is_some();
        match (fault, Instead::of(Some(fault))) {
            (_, Some(Instead::Reply(instead))) => self.send(&instead, request, None).await,
            (_, Some(Instead::Nothing(ending))) => ending,
            (_, Some(Instead::Hang)) => {
                self.connection.wait(&self.alarm, None).await;
                Ending::Cut
            }
            (_, Some(Instead::Garbage)) => {
                self.writer.out.extend_from_slice(reply::GARBAGE);
                // Sent or not, the connection ends here.
                let _ = self.writer.flush().await;
                Ending::Cut
            }
            (Fault::Unsuccessful, None) if is_control => {
                self.send(&Reply::json(&json!({ "success": false })), request, None)
                    .await
            }
            (fault, None) if fault.misfit(Target::Other).is_some() || *fault == Fault::Unsuccessful => {
                let reason = fault.misfit(Target::Other).unwrap_or("it needs a control route");
                let reply = Reply::error(400, &format!("fault `{fault}` cannot be played here: {reason}"));
                self.send(&reply, request, None).await
            }
            (fault, None) => {
                self.writer.piece = if let Fault::Split(bytes) = fault {
                    Some(*bytes)
                } else {
                    None
                };
                if *fault == Fault::Interim {
                    reply::interim(&mut self.writer.out);
                }
                self.send(&reply, request, Some(fault)).await
            }
        }
    }

    async fn send(&mut self, reply: &Reply, request: &Request, fault: Option<&Fault>) -> Ending {
        reply.write(&mut self.writer.out, request.close, fault);
        match self.writer.flush().await {
            Ok(()) => Ending::of(request.close, fault),
            Err(_) => Ending::Cut,
        }
    }
}

/// The fault that a request asks for, in its header, if that is not empty, or its query.
pub(crate) fn requested_fault(header: &str, request: &Request) -> Result<Option<Fault>, Reply> {
    let from_query = || request.query.split('&').find_map(|pair| pair.strip_prefix("fault="));
    let text = if header.is_empty() { from_query() } else { Some(header) };
    text.map(|text| {
        text.trim()
            .parse()
            .map_err(|error: crate::FaultError| Reply::error(400, &error.to_string()))
    })
    .transpose()
}

/// The paths that this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Inference(Api),
    Models,
    Health,
    ResetPrefixCache,
    StartProfile,
    StopProfile,
    Control,
    Counters,
    Ledger,
    Metrics,
    GpuMetrics,
}

impl Route {
    fn of(path: &str) -> Option<Route> {
        if let Some(api) = Api::of(path) {
            return Some(Route::Inference(api));
        }
        Some(match path {
            "/v1/models" => Route::Models,
            "/health" => Route::Health,
            "/reset_prefix_cache" | "/flush_cache" => Route::ResetPrefixCache,
            "/start_profile" => Route::StartProfile,
            "/stop_profile" => Route::StopProfile,
            "/control" => Route::Control,
            "/counters" => Route::Counters,
            "/ledger" => Route::Ledger,
            "/metrics" => Route::Metrics,
            "/dcgm/metrics" => Route::GpuMetrics,
            _ => return None,
        })
    }

    /// The counter of a control route.
    fn control(self, shared: &Shared) -> Option<&AtomicU64> {
        match self {
            Route::ResetPrefixCache => Some(&shared.counters.reset_prefix_cache),
            Route::StartProfile => Some(&shared.counters.start_profile),
            Route::StopProfile => Some(&shared.counters.stop_profile),
            _ => None,
        }
    }
}

/// The list of models, in the form of the OpenAI API.
fn models(shared: &Shared) -> Value {
    let listed =
        |name: &str| json!({ "id": name, "object": "model", "created": 1_700_000_000, "owned_by": "ringload" });
    let data: Vec<Value> = match shared.models.get() {
        Some(names) => names.iter().map(|name| listed(name)).collect(),
        None => vec![listed("mock-model")],
    };
    json!({ "object": "list", "data": data })
}

/// The answer of any route but inference, and which request to the like it is. A `scripted` path is a control route unless it is known as another.
fn other(shared: &Shared, route: Option<Route>, scripted: bool, request: &Request, received_ns: u64) -> (Reply, u64) {
    let ordinal = increment(&shared.counters.other_requests);
    let logged = || {
        let entry = ControlEntry {
            monotonic_ns: received_ns,
            path: request.path.clone(),
            query: request.query.clone(),
            headers: request.headers.clone(),
            authorization: !request.authorization.is_empty(),
            content_length: request.content_length,
            body_bytes: 0,
            body: String::new(),
        };
        let mut log = lock(&shared.control);
        log.push(entry, &request.body);
        log
    };
    let Some(route) = route else {
        if scripted {
            drop(logged());
            return (Reply::json(&json!({ "success": true })), ordinal);
        }
        return (Reply::error(404, &format!("no such route: {}", request.path)), ordinal);
    };
    let counter = route.control(shared);
    let allowed = if counter.is_some() || matches!(route, Route::Inference(_)) {
        Method::Post
    } else {
        Method::Get
    };
    if request.method != allowed {
        let allowed = if allowed == Method::Post { "POST" } else { "GET" };
        let reply = Reply::error(405, &format!("{} takes {allowed} only", request.path));
        return (reply.with_header("allow", allowed), ordinal);
    }
    if let Some(counter) = counter {
        // Counted under the lock of the log, so that both tell the same order.
        let log = logged();
        let ordinal = increment(counter);
        drop(log);
        return (Reply::json(&json!({ "success": true })), ordinal);
    }
    let reply = match route {
        Route::Models => Reply::json(&models(shared)),
        Route::Control => Reply::json(&lock(&shared.control).entries()),
        Route::Counters => Reply::json(&shared.counters()),
        Route::Ledger => Reply::rendered(shared.ledger_json()),
        Route::Metrics => Reply::prometheus(prometheus::page(&shared.counters(), &shared.observed)),
        Route::GpuMetrics => {
            let busy = dcgm::busy(shared.counters().in_flight);
            Reply::prometheus(lock(&shared.gpu).page(busy, received_ns))
        }
        // The only route left.
        _ => Reply::json(&json!({ "status": "ok" })),
    };
    (reply, ordinal)
}
