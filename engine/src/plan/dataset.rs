//! From the dataset as written to requests and their order: first a draft, which is refused or not, then the bytes.

use std::cell::OnceCell;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::beginning;
use super::lengths::{distribution, lengths};
use super::render::{Draft, RenderError, RenderInputs};
use super::traces::{block_size, change, format};
use super::{Conversations, DatasetFile, ModelPlan, NoSchedule, RequestImages, Schedule, Window};
use crate::config::{self, Config, Diagnostic, Diagnostics, FileOrigin, Position, Rankings, redact_path};
use crate::dataset::{
    ConversationIds, DelayDistribution, FileConversations, FileError, FileFormat, FileOptions, LengthDistribution,
    Sampler, Sampling, Session, Synthetic, SyntheticRankings, load_file, read_bytes, read_records, sha256,
};

/// Prompts of a dataset that does not say how many, if they are drawn and not all taken.
const DEFAULT_ENTRIES: u32 = 100;

/// Passages of a request that ranks, and tokens of each, if the dataset does not say; the peer has the same figures.
const DEFAULT_PASSAGES: LengthDistribution = LengthDistribution::Fixed(10);
const DEFAULT_PASSAGE_TOKENS: LengthDistribution = LengthDistribution::Fixed(128);
const DEFAULT_QUERY_TOKENS: LengthDistribution = LengthDistribution::Fixed(32);

/// Said of prompts that no schedule can replay.
const UNTIMED: &str = "prompts of type synthetic have none; bring them in a file";
const UNTIMED_POOL: &str = "records of format random_pool have none; use format: single_turn";

/// A dataset that was looked at. Nothing of it is refused any more, and its requests are not made yet.
pub(super) struct Dataset<'a> {
    draft: Draft<'a>,
    /// The file that the system's message is from.
    pub(super) system_prompt_file: Option<DatasetFile>,
    pool: Option<Pool>,
    sampling: Sampling,
    seed: u64,
    /// Where a file's records come from.
    origin: Option<&'a FileOrigin>,
}

/// Draws from a pool of texts.
struct Pool {
    draws: u32,
    ids: ConversationIds,
    /// Every text is there for each of them; a draw takes the one whose turn it is.
    models: ModelPlan,
}

impl Dataset<'_> {
    /// Requests in it.
    pub(super) fn requests(&self) -> u64 {
        self.pool
            .as_ref()
            .map_or(self.draft.requests(), |pool| pool.draws.into())
    }

    /// Whether any of its conversations has more than one turn.
    pub(super) fn has_later_turns(&self) -> bool {
        self.draft.has_later_turns()
    }

    /// Its schedule.
    pub(super) fn schedule(&self, window: Window) -> Result<Schedule, NoSchedule> {
        match self.draft.file_sessions() {
            Some(sessions) if self.pool.is_none() => {
                let start = |session: &Session<'_>| (session.turns[0].timestamp, session.turns.len() as u32);
                Schedule::new(sessions.iter().map(start), window)
            }
            _ => Err(NoSchedule::NoTimestamp { conversation: 0 }),
        }
    }

    /// The first conversation without a timestamp, in words.
    pub(super) fn untimed(&self) -> Option<String> {
        let Some(origin) = self.origin else {
            return Some(UNTIMED.to_owned());
        };
        if self.pool.is_some() {
            return Some(UNTIMED_POOL.to_owned());
        }
        let mut sessions = self.draft.file_sessions()?.iter();
        let untimed = sessions.find(|session| session.turns[0].timestamp.is_none());
        untimed.map(|session| untimed_record(origin, session))
    }

    /// Makes the requests.
    pub(super) fn render(self) -> RequestImages {
        let Self {
            draft,
            pool,
            sampling,
            seed,
            ..
        } = self;
        let mut images = draft.render();
        if let Some(pool) = pool {
            images = drawn(&images, pool, seed);
        }
        images.order = Sampler::new(sampling, images.order.entries(), seed);
        images
    }
}

/// Why there is no dataset: mistakes with their places, or settings that no request can be made from.
pub(super) enum NoDataset {
    Mistakes(Diagnostics),
    Render(RenderError),
}

impl From<RenderError> for NoDataset {
    fn from(error: RenderError) -> Self {
        Self::Render(error)
    }
}

/// The bytes of a dataset's file, once they are read: what is made of them borrows their texts.
#[derive(Debug, Default)]
pub(super) struct FileBytes {
    bytes: OnceCell<Arc<Vec<u8>>>,
    /// Computes the digest of a file whose requests will be made.
    digest: OnceCell<JoinHandle<String>>,
    identified: bool,
}

impl FileBytes {
    /// Bytes whose digest is wanted. It takes about as long as the rest, most of which is work for one thread, so it begins as soon as they are there.
    pub(super) fn identified() -> Self {
        Self {
            identified: true,
            ..Self::default()
        }
    }

    fn keep(&self, loaded: Vec<u8>) -> &[u8] {
        let bytes = self.bytes.get_or_init(|| Arc::new(loaded));
        if self.identified {
            let shared = Arc::clone(bytes);
            let begun = Builder::new()
                .name("ringload-digest".to_owned())
                .spawn(move || sha256(&shared));
            // Without a thread it is computed when it is asked for.
            if let Ok(thread) = begun {
                let _ = self.digest.set(thread);
            }
        }
        bytes
    }

    /// Which file these are of, if they are of one.
    pub(super) fn file(self, origin: Option<&FileOrigin>) -> Option<DatasetFile> {
        let (Some(FileOrigin::Path { path, .. }), Some(bytes)) = (origin, self.bytes.into_inner()) else {
            return None;
        };
        let sha256 = match self.digest.into_inner() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => sha256(&bytes),
        };
        let path = path.clone();
        Some(DatasetFile { path, sha256 })
    }
}

/// The seed of the dataset; `root` is that of the run.
pub(super) fn seed(config: &Config, root: u64) -> u64 {
    // Any whole number seeds a dataset; the bits of a negative one serve as well as those of a positive.
    config.dataset.random_seed.map_or(root, i64::cast_unsigned)
}

/// Looks at the dataset; `seed` is the root of the run.
pub(super) fn draft<'a>(
    config: &'a Config,
    inputs: &'a RenderInputs<'a>,
    bytes: &'a FileBytes,
    seed: u64,
) -> Result<Dataset<'a>, NoDataset> {
    let written = &config.dataset;
    let seed = self::seed(config, seed);
    let beginning = beginning::of(config, seed)?;
    let mut pool = None;
    let draft = match &written.file {
        None if inputs.kind.ranks() || (inputs.template.is_some() && written.rankings != Rankings::default()) => {
            let rankings = &written.rankings;
            let length = |written: Option<&config::Length>, default| written.map_or(default, distribution);
            let dataset = SyntheticRankings {
                entries: written.entries.unwrap_or(DEFAULT_ENTRIES),
                query_tokens: length(
                    rankings.query_tokens.as_ref().or(written.isl.as_ref()),
                    DEFAULT_QUERY_TOKENS,
                ),
                passages: length(rankings.passages.as_ref(), DEFAULT_PASSAGES),
                passage_tokens: length(rankings.passage_tokens.as_ref(), DEFAULT_PASSAGE_TOKENS),
                seed,
            };
            Draft::rankings(inputs, dataset)?
        }
        None => {
            let delay = |delay| DelayDistribution {
                delays_ms: distribution(delay),
                ratio: written.turn_delay_ratio.unwrap_or(1.0),
            };
            let dataset = Synthetic {
                entries: written.entries.unwrap_or(DEFAULT_ENTRIES),
                lengths: lengths(written),
                batch_size: written.batch_size.unwrap_or(1),
                turns: written
                    .turns
                    .as_ref()
                    .map_or(LengthDistribution::Fixed(1), distribution),
                turn_delay: written.turn_delay.as_ref().map(delay).unwrap_or_default(),
                seed,
            };
            Draft::synthetic(inputs, dataset)?
        }
        Some(file) => {
            let sessions = sessions(config, file, bytes, seed)?;
            let make = FileConversations::new(written.osl.as_ref().map(distribution), block_size(file), seed);
            if is_pool(file) {
                pool = Some(Pool {
                    draws: written.entries.unwrap_or(DEFAULT_ENTRIES),
                    ids: make.ids(),
                    models: inputs.models.clone(),
                });
                Draft::of_each_model(inputs, sessions, make)?
            } else {
                Draft::sessions(inputs, sessions, make)?
            }
        }
    };
    let sampling = match written.sampling.unwrap_or_default() {
        config::Sampling::Sequential => Sampling::Sequential,
        config::Sampling::Shuffle => Sampling::Shuffle,
        config::Sampling::Random => Sampling::Random,
    };
    let draft = match beginning.opening.is_empty() {
        true => draft,
        false => draft.opened(beginning.opening)?,
    };
    let draft = draft.with_bodies()?;
    Ok(Dataset {
        draft,
        system_prompt_file: beginning.file,
        pool,
        sampling,
        seed,
        origin: written.file.as_ref().map(|file| &file.origin),
    })
}

/// Whether requests are drawn from the records, with replacement.
fn is_pool(file: &config::FileDataset) -> bool {
    format(file) == FileFormat::RandomPool
}

/// The sessions that a file or the config itself brings, with the changes that the config asks for.
fn sessions<'a>(
    config: &'a Config,
    file: &'a config::FileDataset,
    bytes: &'a FileBytes,
    seed: u64,
) -> Result<Vec<Session<'a>>, NoDataset> {
    let options = FileOptions {
        format: format(file),
        block_size: block_size(file),
    };
    let sessions = match &file.origin {
        FileOrigin::Path { path, at } => {
            let bytes = load_file(Path::new(path)).map(|loaded| bytes.keep(loaded));
            let read = bytes.and_then(|bytes| read_bytes(bytes, options));
            read.map_err(|error| in_file(config, file, path, *at, error))
        }
        FileOrigin::Records(records) => {
            let texts = records.iter().map(|(_, text)| text.as_str());
            read_records(texts, options).map_err(|error| in_config(config, file, records, error))
        }
    };
    let mut sessions = sessions.map_err(NoDataset::Mistakes)?;
    change(config, file, &mut sessions, seed).map_err(NoDataset::Mistakes)?;
    Ok(sessions)
}

/// Where the first turn of a session stands that should have a timestamp.
fn untimed_record(origin: &FileOrigin, session: &Session<'_>) -> String {
    let record = session.turns[0].record;
    let place = match origin {
        FileOrigin::Path { path, .. } => format!("the one at {path}:{record}"),
        FileOrigin::Records(_) => format!("records[{record}]"),
    };
    format!("{place} has none; add \"timestamp\" in milliseconds to it")
}

/// A pool's texts as conversations, each a draw with replacement. Their bytes are those of the pool.
fn drawn(texts: &RequestImages, pool: Pool, seed: u64) -> RequestImages {
    let Pool { draws, ids, models } = pool;
    let variants = models.names.len();
    let different = NonZeroU32::new(texts.order.entries().get() / variants as u32);
    let draw = Sampler::of_pool(
        different.expect("a pool has a text, and each is there for every model"),
        seed,
    );
    let count = NonZeroU32::new(draws).expect("a config without mistakes has at least one entry");
    let images = (0..draws).map(|entry| {
        let text = draw.entry(entry.into()) as usize;
        let mut image = texts.entries[text * variants + models.choice.of(entry)].clone();
        image.conversation = entry;
        image
    });
    RequestImages {
        entries: images.collect(),
        order: Sampler::sequential(count),
        conversations: Conversations::of_made_ids(ids, draws).into(),
        ..texts.clone()
    }
}

/// Mistakes of a dataset's file, under its own name. What concerns the file as a whole is a mistake of the key that names it.
fn in_file(config: &Config, file: &config::FileDataset, path: &str, at: Position, error: FileError) -> Diagnostics {
    match error {
        FileError::Alike { ref first, .. } => {
            let place = format!("{path}:{}:{}", first.record, first.column);
            config.mistake(file.format_at, "benchmark.dataset.format", in_all(&place, &error))
        }
        FileError::Mistakes { list, more } => {
            let mut diagnostics: Vec<Diagnostic> = list
                .into_iter()
                .map(|mistake| Diagnostic {
                    line: mistake.record,
                    column: mistake.column,
                    path: mistake.field,
                    message: mistake.message,
                })
                .collect();
            if more > 0 {
                diagnostics.push(Diagnostic {
                    line: 0,
                    column: 0,
                    path: String::new(),
                    message: format!("found {} mistakes; these are the first", diagnostics.len() + more),
                });
            }
            Diagnostics::of_file(path, diagnostics)
        }
        whole => config.mistake(at, "benchmark.dataset.path", format!("{}: {whole}", redact_path(path))),
    }
}

/// One mistake that every record has, of which the first is at `place`.
fn in_all(place: &str, error: &FileError) -> String {
    format!("{place}: {error}: correct them, or set `format` to what they are")
}

/// Mistakes of records that stand in the config.
fn in_config(
    config: &Config,
    file: &config::FileDataset,
    records: &[(Position, String)],
    error: FileError,
) -> Diagnostics {
    if let FileError::Alike { .. } = error {
        return config.mistake(file.format_at, "benchmark.dataset.format", in_all("records[0]", &error));
    }
    let FileError::Mistakes { list, more } = error else {
        return config.mistake(config.dataset.at, "benchmark.dataset.records", error.to_string());
    };
    let mut diagnostics: Vec<Diagnostic> = list
        .into_iter()
        .map(|mistake| {
            let (at, _) = records[mistake.record as usize];
            let field = if mistake.field.is_empty() {
                String::new()
            } else {
                format!(".{}", mistake.field)
            };
            Diagnostic {
                line: at.line,
                column: at.column,
                path: format!("benchmark.dataset.records[{}]{field}", mistake.record),
                message: mistake.message,
            }
        })
        .collect();
    if let (true, Some(last)) = (more > 0, diagnostics.last_mut()) {
        last.message.push_str(&format!("; and {more} further mistakes"));
    }
    Diagnostics::new(config.source.clone(), diagnostics)
}
