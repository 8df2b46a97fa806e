//! A mock inference server with a ledger: the ground truth that a load generator is tested against.
//!
//! It answers chat completions and the other APIs of inference servers, streamed or whole, on a seeded absolute schedule or as fast as it can, and
//! writes down what really happened to each request. It shares no code with the engine: two independent readings of
//! the protocol, so that one mistake cannot hide the other.
//!
//! ```text
//! accept --> reading task  --> input --> parser --> route --> inference: script + fault --> voice --> writer
//!            (never stops)                                        |                                |
//!                                                              timer (ns)             exchange --> ledger
//! ```
//!
//! Routes of inference, all `POST`: `/v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/messages`, `/v1/embeddings`, `/v2/rerank`
//! and `/v1/rerank`, `/rerank`, `/v1/ranking`. Others: `GET /v1/models`, `/health`, `/counters`, `/ledger`, `/control`, `/metrics`,
//! `/dcgm/metrics`;
//! `POST /reset_prefix_cache`, `/flush_cache`, `/start_profile`, `/stop_profile`. `/counters` is a [`Counters`] object;
//! `/ledger` is one JSON array of [`LedgerEntry`] objects, each on a line of its own; `/control` is an array of
//! [`ControlEntry`] objects. `/metrics` shows what was really served in Prometheus text under the names that vLLM uses; `/dcgm/metrics` shows a
//! graphics card that is as busy as this server, made up but for that. Any request can ask for a [`Fault`] by header or query.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let server = ringload_mock_server::MockServer::start(ringload_mock_server::Options {
//!     port: 0,
//!     fast: true,
//!     ..Default::default()
//! })?;
//! let body = r#"{"model":"m","messages":[{"role":"user","content":"hello there"}],"max_tokens":3}"#;
//! let mut client = std::net::TcpStream::connect(server.address())?;
//! write!(client, "POST /v1/chat/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.ends_with(r#""usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}"#));
//! assert_eq!(server.ledger()[0].prompt_words, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod api;
mod chat_request;
mod connection;
mod control;
mod dcgm;
mod dialect;
mod exchange;
mod fault;
mod http;
mod inference;
mod ledger;
mod observed;
mod other_request;
mod prometheus;
mod reply;
mod script;
mod serve;
mod server;
mod sse;
mod sys;
mod timer;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

pub use api::Api;
pub use control::{ControlScript, ControlScriptError};
pub use fault::{Fault, FaultError};
pub use ledger::{ControlEntry, Counters, LedgerEntry, Message, Outcome};
pub use sse::answer_text;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address or name to listen on.
    pub host: String,
    /// Port to listen on; 0 lets the system choose a free one.
    pub port: u16,
    /// Threads, each with its own listener; the kernel spreads connections over them.
    pub threads: usize,
    /// From the last byte of a request to its first token.
    pub ttft: Duration,
    /// What each inference request in flight at the arrival of another, that one included, adds to its `ttft`.
    pub load_delay: Duration,
    /// From one token's due time to the next one's.
    pub itl: Duration,
    /// Fraction 0..=1 by which each delay varies to either side, uniformly.
    pub jitter: f64,
    /// Seed of the variation.
    pub seed: u64,
    /// Tokens of every answer; `None` takes the limit that the request has, under the name of its API, else 16.
    pub osl: Option<u32>,
    /// No delays, and each answer in one write.
    pub fast: bool,
    /// The bearer token that inference requests must carry; in the messages API the `x-api-key`.
    pub api_key: Option<String>,
    /// One line per request on standard error.
    pub access_logs: bool,
    /// Ledger entries kept, the newest ones; each thread keeps its share.
    pub ledger_capacity: usize,
    /// Whether the ledger keeps the model and the messages of every request.
    pub keep_messages: bool,
    /// A fault for every inference request that does not ask for its own.
    pub fault: Option<Fault>,
    /// What routes other than inference answer, by path. A path that the server does not know becomes a control route.
    pub control: Vec<ControlScript>,
    /// Pins thread k to CPU `pin_to + k`.
    pub pin_to: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: "127.0.0.1".into(),
            port: 8000,
            threads: 1,
            ttft: Duration::from_millis(20),
            load_delay: Duration::ZERO,
            itl: Duration::from_millis(5),
            jitter: 0.0,
            seed: 0,
            osl: None,
            fast: false,
            api_key: None,
            access_logs: false,
            ledger_capacity: 1_000_000,
            keep_messages: false,
            fault: None,
            control: Vec::new(),
            pin_to: None,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An option has a value that makes no sense.
    #[error("{option}: {value} is not allowed; use {allowed}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// What it was.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The host is neither an address nor a name that resolves.
    #[error("host: `{host}` does not resolve to an address")]
    Host {
        /// The host as given.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; choose another port, or 0 for a free one")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be pinned.
    #[error("pin_to: cannot run on CPU {cpu}; choose CPUs that this process may use")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be set up.
    #[error("thread {index} could not start")]
    Thread {
        /// The thread's index.
        index: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// A running server. Dropping it closes all connections and joins its threads.
pub struct MockServer {
    server: server::Server,
}

impl MockServer {
    /// Starts a server; when this returns, it accepts connections.
    ///
    /// Raises the soft limit of open files of this process to its hard limit, because each connection costs a
    /// descriptor.
    ///
    /// # Errors
    ///
    /// When an option makes no sense, the address is taken, or the system refuses a thread what it needs.
    pub fn start(options: Options) -> Result<MockServer, StartError> {
        let refuse = |option, value: String, allowed| Err(StartError::Option { option, value, allowed });
        if options.threads == 0 {
            return refuse("threads", "0".into(), "at least 1");
        }
        if !(0.0..=1.0).contains(&options.jitter) {
            return refuse("jitter", options.jitter.to_string(), "a fraction from 0 to 1");
        }
        if options.osl == Some(0) {
            return refuse("osl", "0".into(), "at least 1 token");
        }
        if let Some(script) = options.control.iter().find(|script| Api::of(&script.path).is_some()) {
            return refuse(
                "control",
                script.path.clone(),
                "paths of other routes; inference has --fault",
            );
        }
        // A limit that cannot be raised still serves fewer connections, so it is not an error here.
        let _ = sys::raise_open_files();
        Ok(MockServer {
            server: server::Server::start(options)?,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// `http://` and the address.
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Makes `/v1/models` list these instead of `mock-model`; of several calls the first counts. Inference takes any name.
    pub fn list_models(&self, names: Vec<String>) {
        let _ = self.server.shared.models.set(names);
    }

    /// The counters now.
    pub fn counters(&self) -> Counters {
        self.server.shared.counters()
    }

    /// One entry per inference request that has ended, in order of arrival.
    pub fn ledger(&self) -> Vec<LedgerEntry> {
        self.server.shared.ledger()
    }

    /// The calls of control routes, in order of arrival.
    pub fn control_log(&self) -> Vec<ControlEntry> {
        server::control(&self.server.shared).entries().to_vec()
    }
}
