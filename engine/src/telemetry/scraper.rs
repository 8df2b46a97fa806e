//! Threads that ask endpoints for their figures: one for each, at its own pace, so that one which hangs holds up none of the others.
//!
//! ```text
//! first answer: at the address, else at its second one, else off for the run
//! then every third of a second, where a phase starts or ends, and once when the load has ended
//! ```

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::bell::{Bell, Heard};
use super::exposition::{Exposition, Parser};
use crate::control::{NoPage, Page, PageClient, redacted};
use crate::plan::{ScrapeSource, Secrets};
use crate::units::Nanos;

/// From one scrape to the next.
const INTERVAL: Duration = Duration::from_millis(333);
/// Longest life of a scrape. A busy server may need seconds for its figures.
const TIMEOUT: Nanos = Nanos::from_secs(5);
/// How long the load waits at most for first answers: with one, counters are known from before the first request.
const FIRST_ANSWER: Duration = Duration::from_millis(500);
/// How long the end of the run waits at most for last answers.
const LAST_ANSWER: Duration = Duration::from_secs(1);
/// How often a wait looks whether threads have ended.
const LOOK: Duration = Duration::from_millis(5);

/// What keeps the answers of an endpoint.
pub trait Keep: Send + 'static {
    /// Keeps an answer. `false` refuses it: it is in the format, but not from an endpoint of this kind.
    fn keep(&mut self, sent: Nanos, answered: Nanos, answer: Answer) -> bool;

    /// Whether there is room for no more than what the ends of phases need.
    fn is_full(&self) -> bool;
}

/// An answer in the format.
pub struct Answer(pub(super) Exposition);

/// How it went with one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course {
    /// The address that answers; the first one while none has.
    pub url: String,
    /// Scrapes that were answered.
    pub answers: u64,
    /// Scrapes that were not, and how the last of them failed.
    pub failures: u64,
    /// How the last of them failed.
    pub last_failure: Option<String>,
    /// Why it was off for the run.
    pub off: Option<String>,
    /// What the first address said, where the second one answers.
    pub detour: Option<String>,
    /// Whether one of these two is worth a line on the console: somebody named the address, or it answers in a way that nobody would expect.
    pub is_news: bool,
    /// Whether it is a flag that would say otherwise, and not the config file.
    pub is_of_flags: bool,
    /// Whether there was no room to keep every answer.
    pub is_thinned: bool,
    /// Whether the run ended without its last answer.
    pub is_unanswered: bool,
}

struct Shared<K> {
    kept: K,
    course: Course,
}

/// An endpoint under observation.
struct Observed<K> {
    shared: Arc<Mutex<Shared<K>>>,
    thread: JoinHandle<()>,
}

/// The endpoints of a run, each with its thread.
pub struct Scrapers<K> {
    bell: Arc<Bell>,
    observed: Vec<Observed<K>>,
    first: Receiver<()>,
}

impl<K: Keep> Scrapers<K> {
    /// Starts a thread for each source.
    ///
    /// # Errors
    /// No thread.
    pub fn start(
        sources: &[ScrapeSource],
        bell: &Arc<Bell>,
        client: impl Fn(&ScrapeSource) -> PageClient,
        secrets: &Secrets,
        keeper: impl Fn() -> K,
    ) -> std::io::Result<Self> {
        let (sender, first) = channel();
        let mut observed = Vec::new();
        for source in sources {
            let shared = Arc::new(Mutex::new(Shared {
                kept: keeper(),
                course: Course {
                    url: redacted(&source.url),
                    is_of_flags: source.is_of_flags,
                    ..Course::default()
                },
            }));
            let scraper = Scraper {
                client: client(source),
                secrets: secrets.clone(),
                source: source.clone(),
                bell: Arc::clone(bell),
                shared: Arc::clone(&shared),
            };
            let ready = sender.clone();
            let thread = Builder::new()
                .name("ringload-scraper".to_owned())
                .spawn(move || scraper.run(ready))?;
            observed.push(Observed { shared, thread });
        }
        Ok(Self {
            bell: Arc::clone(bell),
            observed,
            first,
        })
    }

    /// Waits until each endpoint has answered or been given up, but not long after the start and so not for one that is slow.
    pub fn await_first(&self, started: Instant) {
        let deadline = started + FIRST_ANSWER;
        for _ in &self.observed {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.first.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    /// The load has ended at `since`: waits for last answers, but not for one that is slow, and gives what was kept.
    pub fn finish(self, since: Instant) -> Vec<(K, Course)>
    where
        K: Default,
    {
        self.bell.end();
        let deadline = since + LAST_ANSWER;
        while Instant::now() < deadline && !self.observed.iter().all(|one| one.thread.is_finished()) {
            std::thread::sleep(LOOK);
        }
        let take = |one: Observed<K>| {
            let is_unanswered = !one.thread.is_finished();
            let mut shared = one.shared.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = std::mem::take(&mut shared.kept);
            let course = Course {
                is_unanswered,
                ..shared.course.clone()
            };
            (kept, course)
        };
        // A thread that still waits for an answer is left alone with it.
        self.observed.into_iter().map(take).collect()
    }
}

/// What came of asking once.
enum Asked {
    Answered,
    /// Why not, and whether an address that nobody named may well say so.
    Failed {
        reason: String,
        is_usual: bool,
    },
}

struct Scraper<K> {
    client: PageClient,
    /// What a server that shows what it was sent must not bring into the artifacts.
    secrets: Secrets,
    source: ScrapeSource,
    bell: Arc<Bell>,
    shared: Arc<Mutex<Shared<K>>>,
}

impl<K: Keep> Scraper<K> {
    fn with<T>(&self, change: impl FnOnce(&mut Shared<K>) -> T) -> T {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run(mut self, ready: Sender<()>) {
        let mut heard = self.bell.times();
        let is_there = self.find();
        // Nobody listens any more if the load did not wait.
        let _ = ready.send(());
        drop(ready);
        if !is_there {
            return;
        }
        let mut due = Instant::now() + INTERVAL;
        let mut is_full = false;
        loop {
            let wait_for = if is_full {
                due + Duration::from_secs(86_400)
            } else {
                due
            };
            let what = self.bell.wait(heard, wait_for);
            // Read before asking: what is rung meanwhile asks once more.
            heard = self.bell.times();
            let asked = self.ask(&self.source.url);
            self.with(|shared| {
                if let Asked::Failed { reason, .. } = asked {
                    shared.course.failures += 1;
                    shared.course.last_failure = Some(reason);
                }
                is_full = shared.kept.is_full();
                shared.course.is_thinned |= is_full;
            });
            if what == Heard::Over {
                return;
            }
            // The pace is kept, and what was missed meanwhile is not made up for.
            let now = Instant::now();
            while due <= now {
                due += INTERVAL;
            }
        }
    }

    /// Finds out where the endpoint answers. If it does not, it is off for the run.
    fn find(&mut self) -> bool {
        let Asked::Failed { reason, is_usual } = self.ask(&self.source.url) else {
            return true;
        };
        let mut is_news = !is_usual;
        let first_reason = reason;
        let mut reasons = format!("{} {first_reason}", redacted(&self.source.url));
        if let Some(second) = self.source.second_url.clone() {
            match self.ask(&second) {
                Asked::Answered => {
                    self.with(|shared| {
                        shared.course.url = redacted(&second);
                        shared.course.detour = Some(reasons);
                        shared.course.is_news = is_news;
                    });
                    self.source.url = second;
                    return true;
                }
                Asked::Failed { reason, is_usual } => {
                    is_news |= !is_usual;
                    let second = redacted(&second);
                    reasons.push_str(&match reason == first_reason {
                        true => format!(", and {second} likewise"),
                        false => format!(", {second} {reason}"),
                    });
                }
            }
        }
        self.with(|shared| {
            shared.course.is_news = is_news || self.source.is_named;
            shared.course.off = Some(reasons);
        });
        false
    }

    fn ask(&self, url: &str) -> Asked {
        let Page {
            sent,
            answered,
            mut body,
        } = match self.client.get(url, TIMEOUT) {
            Ok(page) => page,
            Err(none) => {
                return Asked::Failed {
                    reason: self.secrets.redact(&none.to_string()).into_owned(),
                    is_usual: matches!(none, NoPage::Status(_) | NoPage::Unreachable(_)),
                };
            }
        };
        self.secrets.redact_from(&mut body, 0);
        let mut parser = Parser::default();
        parser.push(&body);
        let answer = parser.finish();
        let is_kept = answer.is_of_the_format()
            && self.with(|shared| {
                let is_kept = shared.kept.keep(sent, answered, Answer(answer));
                shared.course.answers += u64::from(is_kept);
                is_kept
            });
        if is_kept {
            return Asked::Answered;
        }
        Asked::Failed {
            reason: "answers with something else than the figures that are looked for".to_owned(),
            is_usual: false,
        }
    }
}
