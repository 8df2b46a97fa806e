//! A dataset whose requests are not made yet: here everything is refused that no request can be made from.
//!
//! Lengths are drawn or read and texts are counted, which takes a small part of the time that making them does.

use super::said::{self, Demands};
use super::source::Source;
use super::{MAX_DATASET_BYTES, MAX_DRAWN_COUNT, MAX_PROMPT_TOKENS, Parts, RenderError, RenderInputs};
use crate::dataset::{
    Content, ConversationIds, Distribution, FileConversations, FileTurn, Lengths, MEAN_BYTES_PER_TOKEN, Opening,
    Session, Synthetic, SyntheticRankings,
};
use crate::plan::{ModelPlan, RequestImage, RequestImages};

/// Bytes around a passage in a body, at most.
const PASSAGE_FRAME_BYTES: u64 = 16;
/// Bytes around a text among several in a message, at most.
const PART_FRAME_BYTES: u64 = 32;

/// A dataset and what its requests have in common. Nothing of it is refused any more.
pub(in crate::plan) struct Draft<'a> {
    parts: Parts<'a>,
    source: Source<'a>,
    /// Turns of all conversations, and those of the longest one.
    requests: u64,
    turns_max: u32,
    /// What the images take, estimated.
    bytes: u64,
}

impl<'a> Draft<'a> {
    /// The draft of synthetic conversations.
    ///
    /// # Errors
    /// The first [`RenderError`] found.
    pub(in crate::plan) fn synthetic(inputs: &'a RenderInputs<'a>, dataset: Synthetic) -> Result<Self, RenderError> {
        for (key, lengths) in dataset.lengths.parts() {
            check_length(key, lengths)?;
        }
        check_length("turns", &dataset.turns)?;
        check_length("turn_delay", &dataset.turn_delay.delays_ms)?;
        let mut sizes = Sizes::of(Parts::new(inputs)?, dataset.entries)?;
        for (entry, turns) in (0..dataset.entries).zip(dataset.turn_counts()) {
            check_count("turns", entry, turns)?;
            let id = || ConversationIds::new(dataset.seed).of(entry);
            sizes.conversation(id, turns, std::iter::repeat_n(Demands::default(), turns as usize))?;
            // Drawing the lengths of more of them would take long.
            sizes.check()?;
        }
        let frame = if dataset.batch_size > 1 { PART_FRAME_BYTES } else { 0 };
        for size in dataset.sizes() {
            if size.input_tokens > MAX_PROMPT_TOKENS {
                return Err(RenderError::PromptTooLong {
                    key: match dataset.lengths {
                        Lengths::Apart { .. } => "prompts.isl",
                        Lengths::Paired(_) => "prompts.sequence_distribution",
                    },
                    entry: size.entry,
                    tokens: size.input_tokens,
                });
            }
            sizes.text(frame + tokens_bytes(size.input_tokens.into()));
            // Drawing the lengths of more of them would take long.
            sizes.check()?;
        }
        sizes.into_draft(Source::Synthetic(dataset))
    }

    /// The draft of synthetic requests for ranks.
    ///
    /// # Errors
    /// The first [`RenderError`] found.
    pub(in crate::plan) fn rankings(
        inputs: &'a RenderInputs<'a>,
        dataset: SyntheticRankings,
    ) -> Result<Self, RenderError> {
        check_length("rankings.query_tokens", &dataset.query_tokens)?;
        check_length("rankings.passages", &dataset.passages)?;
        check_length("rankings.passage_tokens", &dataset.passage_tokens)?;
        for (entry, passages) in (0..dataset.entries).zip(dataset.passage_counts()) {
            check_count("rankings.passages", entry, passages)?;
        }
        let mut sizes = Sizes::of(Parts::new(inputs)?, dataset.entries)?;
        for (entry, (passages, tokens)) in (0..dataset.entries).zip(dataset.sizes()) {
            let demands = Demands {
                passages: passages as usize,
                ..Demands::default()
            };
            sizes.conversation(|| ConversationIds::new(dataset.seed).of(entry), 1, [demands])?;
            sizes.text(u64::from(passages) * PASSAGE_FRAME_BYTES + tokens_bytes(tokens));
            // Drawing the lengths of more of them would take long.
            sizes.check()?;
        }
        sizes.into_draft(Source::Rankings(dataset))
    }

    /// The draft of sessions from a file, whose conversations `make` makes.
    ///
    /// # Errors
    /// The first [`RenderError`] found.
    pub(in crate::plan) fn sessions(
        inputs: &'a RenderInputs<'a>,
        sessions: Vec<Session<'a>>,
        make: FileConversations,
    ) -> Result<Self, RenderError> {
        let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::of(Parts::new(inputs)?, count)?;
        let repeats_system = sizes.parts.template.repeats_system();
        for (number, session) in (0..count).zip(&sessions) {
            let turns = u32::try_from(session.turns.len()).unwrap_or(u32::MAX);
            let id = || match &session.id {
                Some(id) => String::from(&**id),
                None => make.ids().of(number),
            };
            let demands = session.turns.iter().enumerate().map(|(at, turn)| Demands {
                has_system: at == 0 && session.system.is_some(),
                ..demands(turn)
            });
            sizes.conversation(id, turns, demands)?;
            if let Some(system) = &session.system {
                sizes.text(json_bytes(system) * if repeats_system { turns.into() } else { 1 });
            }
            session.turns.iter().for_each(|turn| sizes.text(turn_bytes(turn)));
        }
        sizes.into_draft(Source::Sessions { sessions, make })
    }

    /// The draft of sessions that are there once for each model, those of one session one after the other.
    ///
    /// # Errors
    /// The first [`RenderError`] found.
    pub(in crate::plan) fn of_each_model(
        inputs: &'a RenderInputs<'a>,
        sessions: Vec<Session<'a>>,
        make: FileConversations,
    ) -> Result<Self, RenderError> {
        let models = inputs.models.names.len();
        // The copies themselves may be too many, so they are counted before there are any.
        let turns = |session: &Session<'_>| {
            let said: u64 = session.turns.iter().map(turn_bytes).sum();
            said + size_of_val(session) as u64 + size_of_val(&session.turns[..]) as u64
        };
        let bytes = sessions.iter().map(turns).sum::<u64>().saturating_mul(models as u64);
        if models > 1 && bytes > MAX_DATASET_BYTES {
            let texts = sessions.len();
            return Err(RenderError::PoolOfModels { texts, models, bytes });
        }
        let each = sessions
            .into_iter()
            .flat_map(|session| std::iter::repeat_n(session, models));
        let mut draft = Self::sessions(inputs, each.collect(), make)?;
        draft.parts.choice = ModelPlan::in_turn(inputs.models.names.clone()).choice;
        Ok(draft)
    }

    /// The same, with what conversations begin with.
    ///
    /// # Errors
    /// Requests have no place for it, or the images take too much with it.
    pub(in crate::plan) fn opened(mut self, opening: Opening) -> Result<Self, RenderError> {
        let (template, inputs) = (&self.parts.template, self.parts.inputs);
        match &self.parts.bodies {
            Some(bodies) if !bodies.have_text() => return Err(RenderError::TemplateOpening),
            Some(_) => {}
            None => {
                if let Some(key) = template.replaced_by(inputs, &opening) {
                    return Err(RenderError::ExtraOpening { key });
                }
            }
        }
        let conversations = u64::from(self.source.count());
        // Requests that say everything themselves say this too.
        let sayings = match template.repeats_system() {
            true => self.requests,
            false => self.source.openings(),
        };
        let system = opening.system().map_or(0, json_bytes).saturating_mul(sayings);
        let pool = u64::from(opening.pool_tokens()).saturating_mul(self.source.batch_size().into());
        let made = tokens_bytes(pool.saturating_add(opening.context_tokens().into()));
        let more = system.saturating_add(made.saturating_mul(conversations));
        self.bytes = self.bytes.saturating_add(more);
        self.parts.opening = opening;
        check_bytes(self.source.count(), self.bytes)?;
        Ok(self)
    }

    /// The same, if every turn has a body: whether a template makes one, and how long, shows only once it is made. So all are, one after the other. Nothing may
    /// be added to the draft behind this.
    ///
    /// # Errors
    /// The template has no body for a turn, or bodies take too much.
    pub(in crate::plan) fn with_bodies(mut self) -> Result<Self, RenderError> {
        let Some(bodies) = &self.parts.bodies else {
            return Ok(self);
        };
        let mut bytes = 0u64;
        for (number, mut conversation) in (0u32..).zip(self.source.conversations()) {
            self.parts.opening.open(number, &mut conversation);
            for (position, turn) in (0u32..).zip(&conversation.turns) {
                let body = bodies.body(self.parts.model(number), turn).map_err(|fault| {
                    let own = conversation.id.as_deref().map(str::to_owned);
                    let id = own.unwrap_or_else(|| self.source.made_ids().of(number));
                    RenderError::payload(id, position, fault)
                })?;
                bytes = bytes.saturating_add((body.len() + size_of::<RequestImage>()) as u64);
            }
            check_bytes(self.source.count(), bytes)?;
        }
        self.bytes = bytes;
        Ok(self)
    }

    /// Requests that will be made: one for each turn.
    pub(in crate::plan) fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether any conversation has more than one turn.
    pub(in crate::plan) fn has_later_turns(&self) -> bool {
        self.turns_max > 1
    }

    /// The sessions that it is made of; `None` if it is synthetic.
    pub(in crate::plan) fn file_sessions(&self) -> Option<&[Session<'a>]> {
        match &self.source {
            Source::Sessions { sessions, .. } => Some(sessions),
            Source::Synthetic(_) | Source::Rankings(_) => None,
        }
    }

    /// Makes the requests: one image per turn.
    pub(in crate::plan) fn render(self) -> RequestImages {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let worthwhile = usize::try_from(self.bytes / BYTES_PER_THREAD + 1).unwrap_or(usize::MAX);
        self.render_on(processors.min(worthwhile))
    }

    /// What the images take, estimated.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same on so many threads, which change nothing but the time it takes.
    pub(super) fn render_on(self, threads: usize) -> RequestImages {
        self.source.render(&self.parts, threads)
    }
}

/// Requests that take up to this many bytes are made by one thread: starting another takes longer than that.
const BYTES_PER_THREAD: u64 = 1 << 19;

/// Adds up what a data set takes while its conversations are looked at.
struct Sizes<'a> {
    parts: Parts<'a>,
    /// Of every request: its image and what is in every body.
    per_turn: u64,
    entries: u32,
    requests: u64,
    turns_max: u32,
    bytes: u64,
}

impl<'a> Sizes<'a> {
    fn of(parts: Parts<'a>, entries: u32) -> Result<Self, RenderError> {
        if entries == 0 {
            return Err(RenderError::NoEntries);
        }
        let model = parts.models.iter().map(Vec::len).max().unwrap_or(0);
        let per_turn = (parts.template.fixed_len() + model + size_of::<RequestImage>()) as u64;
        let mut sizes = Self {
            parts,
            per_turn,
            entries,
            requests: 0,
            turns_max: 0,
            bytes: u64::from(entries).saturating_mul(per_turn),
        };
        // Before the lengths of this many are drawn, which would take long.
        sizes.check()?;
        sizes.bytes = 0;
        Ok(sizes)
    }

    /// A conversation whose turns have these demands; refused if requests of this type cannot say it.
    fn conversation<'d>(
        &mut self,
        id: impl Fn() -> String,
        turns: u32,
        demands: impl IntoIterator<Item = Demands<'d>>,
    ) -> Result<(), RenderError> {
        let (kind, template) = (self.parts.inputs.kind, &self.parts.template);
        if turns > 1 && !kind.takes_turns() {
            return Err(RenderError::SeveralTurns {
                id: id(),
                turns: turns as usize,
                kind: kind.as_str(),
            });
        }
        if turns > 1 && kind.carries_history() && !template.has_text() {
            return Err(RenderError::ExtraMessages { key: template.said_key });
        }
        if let Some(reason) = demands.into_iter().find_map(|turn| said::misfit(kind, turn)) {
            return Err(RenderError::Misfit {
                id: id(),
                kind: kind.as_str(),
                reason,
            });
        }
        self.requests += u64::from(turns);
        self.turns_max = self.turns_max.max(turns);
        self.text(u64::from(turns) * self.per_turn);
        Ok(())
    }

    fn text(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn check(&self) -> Result<(), RenderError> {
        check_bytes(self.entries, self.bytes)
    }

    fn into_draft(self, source: Source<'a>) -> Result<Draft<'a>, RenderError> {
        self.check()?;
        Ok(Draft {
            parts: self.parts,
            source,
            requests: self.requests,
            turns_max: self.turns_max,
            bytes: self.bytes,
        })
    }
}

fn check_bytes(entries: u32, bytes: u64) -> Result<(), RenderError> {
    match bytes > MAX_DATASET_BYTES {
        true => Err(RenderError::DatasetTooLarge { entries, bytes }),
        false => Ok(()),
    }
}

fn check_length<T: Copy + Into<f64>>(key: &'static str, lengths: &Distribution<T>) -> Result<(), RenderError> {
    match lengths.invalid_parameter() {
        None => Ok(()),
        Some((parameter, value)) => Err(RenderError::Length { key, parameter, value }),
    }
}

/// Refuses what the tail of a distribution gives once in a while: it would be gone through one by one.
fn check_count(key: &'static str, entry: u32, count: u32) -> Result<(), RenderError> {
    match count > MAX_DRAWN_COUNT {
        true => Err(RenderError::CountTooLarge { key, entry, count }),
        false => Ok(()),
    }
}

fn demands<'a>(turn: &'a FileTurn<'_>) -> Demands<'a> {
    Demands {
        role: turn.role.as_deref(),
        has_system: false,
        has_messages: matches!(turn.content, Content::Messages { .. }),
        passages: match &turn.content {
            // The first one is the query.
            Content::Parts(texts) => texts.len().saturating_sub(1),
            _ => 0,
        },
    }
}

/// What a turn says, in bytes of a body.
fn turn_bytes(turn: &FileTurn<'_>) -> u64 {
    let said = match &turn.content {
        Content::Text(text) => json_bytes(text),
        Content::Parts(texts) => texts.iter().map(|text| json_bytes(text) + PART_FRAME_BYTES).sum(),
        Content::Words { input_tokens } | Content::Blocks { input_tokens, .. } => tokens_bytes((*input_tokens).into()),
        Content::Messages { messages, tools } => (messages.len() + tools.as_deref().map_or(0, str::len)) as u64,
    };
    let extra = turn
        .extra
        .as_deref()
        .map_or(0, |extra| serde_json::to_string(extra).map_or(0, |json| json.len()));
    said + turn.role.as_deref().map_or(0, json_bytes) + extra as u64
}

fn tokens_bytes(tokens: u64) -> u64 {
    tokens.saturating_mul(MEAN_BYTES_PER_TOKEN as u64)
}

/// A text in JSON, without the quotes (RFC 8259, 7).
fn json_bytes(text: &str) -> u64 {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | b'\t' | b'\n' | 0x0c | b'\r' => 2,
        0x00..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}
