//! The APIs that this server speaks: where each is reached, and what it has.

use serde::{Deserialize, Serialize};

/// An inference API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Api {
    /// OpenAI chat completions.
    #[default]
    Chat,
    /// OpenAI completions.
    Completions,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// OpenAI embeddings.
    Embeddings,
    /// Cohere's rerank.
    CohereRankings,
    /// Rerank of Text Embeddings Inference.
    TeiRankings,
    /// Rankings of NVIDIA NIM.
    NimRankings,
    /// An API of nobody: `{"p": TEXT}` is answered with `{"text": TEXT}`.
    Custom,
}

impl Api {
    /// The API at a path.
    pub(crate) fn of(path: &str) -> Option<Api> {
        Some(match path {
            "/v1/chat/completions" => Api::Chat,
            "/v1/completions" => Api::Completions,
            "/v1/responses" => Api::Responses,
            "/v1/messages" => Api::Messages,
            "/v1/embeddings" => Api::Embeddings,
            // vLLM has the same API under both.
            "/v2/rerank" | "/v1/rerank" => Api::CohereRankings,
            "/rerank" => Api::TeiRankings,
            "/v1/ranking" => Api::NimRankings,
            "/custom" => Api::Custom,
            _ => return None,
        })
    }

    /// Whether its answers are made of tokens, and can be streamed.
    pub(crate) fn has_tokens(self) -> bool {
        matches!(
            self,
            Api::Chat | Api::Completions | Api::Responses | Api::Messages | Api::Custom
        )
    }
}
