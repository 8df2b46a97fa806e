//! `endpoint.type`: the APIs that requests can speak, and what each of them can do.

/// An API of inference servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointType {
    /// OpenAI chat completions.
    #[default]
    Chat,
    /// OpenAI completions: a prompt and nothing around it.
    Completions,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// OpenAI embeddings.
    Embeddings,
    /// Ranks of passages, as Cohere's API has them.
    CohereRankings,
    /// Ranks of passages, as Hugging Face's Text Embeddings Inference has them.
    HfTeiRankings,
    /// Ranks of passages, as NVIDIA NIM has them.
    NimRankings,
    /// An API that only its user knows: `endpoint.template` says what is sent.
    Template,
}

impl EndpointType {
    /// All of them, in the order in which messages name them.
    pub const ALL: [Self; 9] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::CohereRankings,
        Self::HfTeiRankings,
        Self::NimRankings,
        Self::Template,
    ];

    /// The word in configs and artifacts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Embeddings => "embeddings",
            Self::CohereRankings => "cohere_rankings",
            Self::HfTeiRankings => "hf_tei_rankings",
            Self::NimRankings => "nim_rankings",
            Self::Template => "template",
        }
    }

    /// Where requests go, unless `endpoint.path` says something else. Empty: to the URL as it is.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
            Self::CohereRankings => "/v2/rerank",
            Self::HfTeiRankings => "/rerank",
            Self::NimRankings => "/v1/ranking",
            Self::Template => "",
        }
    }

    /// Whether answers are made of tokens, one after the other, and can be streamed.
    pub fn makes_tokens(self) -> bool {
        match self {
            Self::Chat | Self::Completions | Self::Responses | Self::Messages | Self::Template => true,
            Self::Embeddings | Self::CohereRankings | Self::HfTeiRankings | Self::NimRankings => false,
        }
    }

    /// Whether a request names the model that it is for.
    pub fn names_model(self) -> bool {
        self != Self::HfTeiRankings
    }

    /// Whether a request can carry what was said before.
    pub fn carries_history(self) -> bool {
        matches!(self, Self::Chat | Self::Responses | Self::Messages)
    }

    /// Whether conversations may have several turns: their history goes along, or a template says what is new, and the server knows the rest.
    pub fn takes_turns(self) -> bool {
        self.carries_history() || self == Self::Template
    }

    /// Whether a request is a query with passages to rank.
    pub fn ranks(self) -> bool {
        matches!(self, Self::CohereRankings | Self::HfTeiRankings | Self::NimRankings)
    }
}
