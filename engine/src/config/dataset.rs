//! `benchmark.dataset`, as written: synthetic prompts of given lengths, or the prompts of a file.

use super::dataset_file::{self, FileDataset};
use super::decode::{Bounds, Field, Section};
use super::distribution::{Delay, Length, delay, length};
use super::endpoint_type::EndpointType;
use super::prefix::{self, PrefixPrompts, SystemPrompt};
use super::schema::{DATASET, PROMPTS, RANKINGS};
use super::sequence_lengths::{self, RangeRatio, SequencePair};
use super::tree::{Position, Value};

/// Where prompts come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Where the section begins.
    pub at: Position,
    /// Name for artifacts.
    pub name: Option<String>,
    /// Where the prompts are, if they are not synthetic.
    pub file: Option<FileDataset>,
    /// Number of different prompts; of a file, how many of its conversations are taken.
    pub entries: Option<u32>,
    /// Tokens of a prompt.
    pub isl: Option<Length>,
    /// Tokens that a request asks for; of a file, where it does not say.
    pub osl: Option<Length>,
    /// Prompts of a request.
    pub batch_size: Option<u32>,
    /// Lengths that are drawn together, in place of both.
    pub sequence_distribution: Option<Box<[SequencePair]>>,
    /// How far lengths lie from both, which are fixed then.
    pub range: Option<RangeRatio>,
    /// Turns of a conversation.
    pub turns: Option<Length>,
    /// Time between the return of a turn and the next one.
    pub turn_delay: Option<Delay>,
    /// What every such time is multiplied with.
    pub turn_delay_ratio: Option<f64>,
    /// Seed of the prompts and of their order alone.
    pub random_seed: Option<i64>,
    /// In which order entries are taken.
    pub sampling: Option<Sampling>,
    /// The queries and passages of types that rank.
    pub rankings: Rankings,
    /// What conversations begin with.
    pub prefix_prompts: Option<PrefixPrompts>,
    /// What the system says.
    pub system_prompt: Option<SystemPrompt>,
}

/// What synthetic requests for ranks are made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rankings {
    /// Passages of a request.
    pub passages: Option<Length>,
    /// Tokens of a passage.
    pub passage_tokens: Option<Length>,
    /// Tokens of the query.
    pub query_tokens: Option<Length>,
}

/// An order of taking entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// As they stand.
    #[default]
    Sequential,
    /// Each once in a random order, again and again.
    Shuffle,
    /// Drawn with replacement.
    Random,
}

impl Sampling {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Shuffle => "shuffle",
            Self::Random => "random",
        }
    }
}

/// Longest prompt or answer, in tokens: beyond every context window, and below what would exhaust memory by a slip of the hand.
pub(super) const MAX_TOKENS: u32 = 10_000_000;
/// Most turns of a conversation.
const MAX_TURNS: u32 = 10_000;
/// Most passages of a request.
const MAX_PASSAGES: u32 = 10_000;
/// Most prompts of a request.
const MAX_BATCH: u32 = 10_000;
/// Most entries of a dataset.
pub(super) const MAX_ENTRIES: u32 = 10_000_000;

/// `kind` is what requests speak, if the endpoint could be read.
pub(super) fn decode(benchmark: &Section<'_>, kind: Option<EndpointType>) -> Option<Dataset> {
    if benchmark.exclusive("dataset", "datasets") {
        return None;
    }
    if let Some(field) = benchmark.field("datasets") {
        return list(&field, kind);
    }
    match benchmark.required(
        "dataset",
        "as in dataset: {type: synthetic, prompts: {isl: 512, osl: 128}}",
    ) {
        Some(field) => one(&field, false, kind),
        None => None,
    }
}

/// The list form: exactly one entry, with a name.
fn list(field: &Field<'_>, kind: Option<EndpointType>) -> Option<Dataset> {
    let items = field.items("a list with one dataset")?;
    if items.len() != 1 {
        field.report(format!("found {} datasets; allowed: exactly one", items.len()));
    }
    let datasets: Vec<Option<Dataset>> = items.map(|item| one(&item, true, kind)).collect();
    datasets.into_iter().next().flatten()
}

fn one(field: &Field<'_>, needs_name: bool, endpoint: Option<EndpointType>) -> Option<Dataset> {
    if let Some(other) = refused_type(field) {
        field.refuse(&format!("datasets of type `{other}`"), "allowed: synthetic, file");
        return None;
    }
    let section = field.section(&DATASET)?;
    let kind = match section.field("type") {
        Some(kind) => kind.exact_word(&[("synthetic", Kind::Synthetic), ("file", Kind::File)], &REFUSED_TYPES),
        None => Some(Kind::Synthetic),
    };
    let sampling =
        [Sampling::Sequential, Sampling::Shuffle, Sampling::Random].map(|sampling| (sampling.as_str(), sampling));
    let sampling = section.field("sampling").and_then(|field| field.word(&sampling, &[]));
    let name = if needs_name {
        section.required("name", "every entry of `datasets` has a name")
    } else {
        section.field("name")
    };
    let file = match kind {
        Some(Kind::File) => {
            for key in [
                "isl",
                "prompts",
                "prefix_prompts",
                "rankings",
                "turns",
                "turn_delay",
                "turn_delay_ratio",
            ] {
                if section.field(key).is_some() {
                    section.report(
                        key,
                        format!("`{key}` has no meaning beside prompts from a file; remove it, or set type: synthetic"),
                    );
                }
            }
            Some(dataset_file::decode(&section)?)
        }
        _ => {
            for key in dataset_file::KEYS {
                // Without a type that is known, nothing is known about what belongs to it.
                if section.field(key).is_some() && kind.is_some() {
                    section.report(
                        key,
                        format!("`{key}` has no meaning for synthetic prompts; remove it, or set type: file"),
                    );
                }
            }
            None
        }
    };
    let prompts = section.field("prompts").and_then(|field| field.section(&PROMPTS));
    let batch = prompts.as_ref().and_then(|prompts| prompts.field("batch_size"));
    let batch_size = batch.as_ref().and_then(|field| field.integer(1, MAX_BATCH.into()));
    if let (Some(batch), Some(endpoint), Some(2..)) = (batch, endpoint, batch_size)
        && (endpoint.ranks() || (endpoint == EndpointType::Template && section.field("rankings").is_some()))
    {
        batch.report(format!(
            "requests to an endpoint of type {} have one query; remove it, and set `rankings.passages` for more passages",
            endpoint.as_str()
        ));
    }
    let isl = tokens(&section, prompts.as_ref(), "isl");
    let osl = tokens(&section, prompts.as_ref(), "osl");
    let sequence_distribution = prompts
        .as_ref()
        .and_then(|prompts| sequence_lengths::pairs(&section, prompts));
    let range = prompts
        .as_ref()
        .and_then(|prompts| sequence_lengths::range(&section, prompts, isl.as_ref(), osl.as_ref()));
    let turns = section.field("turns").and_then(|field| turns(&field));
    let rankings = section.field("rankings").and_then(|field| rankings(&field));
    if let Some(endpoint) = endpoint {
        suits(
            &section,
            prompts.as_ref(),
            endpoint,
            turns.as_ref(),
            isl.is_some() && file.is_none(),
            rankings.as_ref(),
        );
    }
    let (prefix_prompts, system_prompt) = prefix::decode(&section, endpoint);
    Some(Dataset {
        at: section.start,
        name: name.and_then(|field| field.non_empty_text().map(str::to_owned)),
        file,
        sampling,
        entries: section
            .field("entries")
            .and_then(|field| field.integer(1, MAX_ENTRIES.into())),
        isl,
        osl,
        batch_size,
        sequence_distribution,
        range,
        turns,
        turn_delay: section.field("turn_delay").and_then(|field| delay(&field)),
        turn_delay_ratio: section
            .field("turn_delay_ratio")
            .and_then(|field| field.float(Bounds::NOT_NEGATIVE)),
        random_seed: section
            .field("random_seed")
            .and_then(|field| field.integer(i64::MIN.into(), i64::MAX.into())),
        rankings: rankings.unwrap_or_default(),
        prefix_prompts,
        system_prompt,
    })
}

fn rankings(field: &Field<'_>) -> Option<Rankings> {
    let section = field.section(&RANKINGS)?;
    let length = |key, max| section.field(key).and_then(|field| length(&field, max));
    Some(Rankings {
        passages: length("passages", MAX_PASSAGES),
        passage_tokens: length("passage_tokens", MAX_TOKENS),
        query_tokens: length("query_tokens", MAX_TOKENS),
    })
}

/// Reports what requests of this type cannot be made of, and says what has no effect on them.
fn suits(
    section: &Section<'_>,
    prompts: Option<&Section<'_>>,
    endpoint: EndpointType,
    turns: Option<&Length>,
    has_isl: bool,
    rankings: Option<&Rankings>,
) {
    let kind = endpoint.as_str();
    if !endpoint.takes_turns() && turns.is_some_and(Length::may_exceed_one) {
        section.report(
            "turns",
            format!(
                "conversations of several turns cannot be sent to an endpoint of type {kind}: its requests have no place for what was said before; \
                 remove it, or use one of the types chat, responses, messages"
            ),
        );
    }
    // A template can say queries and passages, and everything else too.
    let may_rank = endpoint.ranks() || endpoint == EndpointType::Template;
    if !may_rank && rankings.is_some() {
        section.report(
            "rankings",
            format!(
                "queries and passages have no meaning for an endpoint of type {kind}; remove it, or use one of the types cohere_rankings, \
                 hf_tei_rankings, nim_rankings, template"
            ),
        );
    }
    if may_rank && has_isl && rankings.is_some_and(|rankings| rankings.query_tokens.is_some()) {
        section.report(
            "rankings",
            "`query_tokens` and `isl` say the same: the length of the query; keep one",
        );
    }
    // Of a template it is the dataset that says whether its requests are queries.
    let ranks = endpoint.ranks() || (may_rank && rankings.is_some());
    if ranks
        && endpoint.makes_tokens()
        && (section.field("osl").is_some() || prompts.is_some_and(|prompts| prompts.field("osl").is_some()))
    {
        section.report(
            "rankings",
            "queries with passages have no output length, and `osl` asks for one; keep one of the two, or write a number in the template",
        );
    }
    for key in ["sequence_distribution", "random_range_ratio"] {
        if let Some(prompts) = prompts.filter(|prompts| ranks && prompts.field(key).is_some()) {
            prompts.report(
                key,
                format!(
                    "lengths of prompts and answers have no meaning for an endpoint of type {kind}, whose requests are queries with passages; remove \
                     it, and write their lengths under `rankings`"
                ),
            );
        }
    }
    if endpoint.makes_tokens() {
        return;
    }
    let what = format!("with an endpoint of type {kind}: its answers are not made of tokens");
    if section.field("osl").is_some() || prompts.is_some_and(|prompts| prompts.field("osl").is_some()) {
        section.warn("osl", &format!("this has no effect {what}"));
    }
    if let Some(prompts) = prompts.filter(|prompts| prompts.field("sequence_distribution").is_some()) {
        prompts.warn("sequence_distribution", &format!("its `osl` has no effect {what}"));
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Synthetic,
    File,
}

/// Dataset types of the format that do not work yet.
const REFUSED_TYPES: [&str; 1] = ["public"];

/// The type, if it is one of those whose other keys are not worth reporting one by one.
fn refused_type(field: &Field<'_>) -> Option<&'static str> {
    let Value::Mapping(entries) = &field.node.value else {
        return None;
    };
    let kind = entries.iter().find(|entry| entry.key == "type")?.value.scalar()?;
    REFUSED_TYPES.into_iter().find(|refused| *refused == kind.text)
}

/// A length from `prompts`, or from the short form beside it.
fn tokens(dataset: &Section<'_>, prompts: Option<&Section<'_>>, key: &'static str) -> Option<Length> {
    let long = prompts.and_then(|prompts| prompts.field(key));
    match (dataset.field(key), long) {
        (Some(short), Some(long)) => {
            let place = long.node.start.told();
            short.report(format!("`prompts.{key}` ({place}) says the same; keep one"));
            None
        }
        (Some(field), None) | (None, Some(field)) => length(&field, MAX_TOKENS),
        (None, None) => None,
    }
}

fn turns(field: &Field<'_>) -> Option<Length> {
    let turns = length(field, MAX_TURNS)?;
    let mean = turns.expected();
    if mean < 1.0 {
        field.report(format!(
            "a mean of {mean} turns was found; allowed: at least 1, for a conversation has a turn"
        ));
        return None;
    }
    Some(turns)
}
