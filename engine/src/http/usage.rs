//! Token counts in a `usage` object, under the names that servers use for them.

use super::json::{Cursor, Invalid, Kind};

/// Token counts that a server reported; `None` where it reported none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Input tokens.
    pub prompt: Option<u32>,
    /// Output tokens, reasoning included.
    pub completion: Option<u32>,
    /// The server's own total.
    pub total: Option<u32>,
    /// Reasoning tokens among the output tokens.
    pub reasoning: Option<u32>,
    /// Input tokens that came from the server's prefix cache.
    pub cache_read: Option<u32>,
}

/// A count that goes by several names: the name of the lowest rank wins, wherever it stands in the object.
#[derive(Clone, Copy)]
struct Pick {
    rank: u8,
    value: Option<u32>,
}

impl Pick {
    const NONE: Self = Self {
        rank: u8::MAX,
        value: None,
    };

    /// Reads the next value. One that is not a count of 32 bits is as good as absent.
    fn offer(&mut self, rank: u8, cursor: &mut Cursor<'_>) -> Result<(), Invalid> {
        let value = cursor.unsigned()?.and_then(|count| u32::try_from(count).ok());
        if value.is_some() && rank <= self.rank {
            *self = Self { rank, value };
        }
        Ok(())
    }
}

/// One usage object: its counts, and what of the input it counts apart from the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageObject {
    /// The prompt as it is written.
    usage: TokenUsage,
    /// Whether the prompt leaves cached tokens out, see [`UsageObject::counts`].
    leaves_cached_out: bool,
    /// Tokens read from the cache, reported beside the prompt.
    beside_read: Option<u32>,
    /// Tokens written to the cache, reported beside the prompt.
    beside_write: Option<u32>,
}

impl UsageObject {
    /// The counts. Servers that count like Anthropic leave cached tokens out of `input_tokens` and report them beside it: they are added.
    pub(super) fn counts(self) -> TokenUsage {
        let mut usage = self.usage;
        if let (true, Some(uncached)) = (self.leaves_cached_out, usage.prompt) {
            let cached = self
                .beside_read
                .unwrap_or(0)
                .saturating_add(self.beside_write.unwrap_or(0));
            usage.prompt = Some(uncached.saturating_add(cached));
        }
        usage
    }

    /// This object, and what it lacks from an earlier one.
    pub(super) fn over(self, earlier: Self) -> Self {
        let (own, old) = (self.usage, earlier.usage);
        Self {
            usage: TokenUsage {
                prompt: own.prompt.or(old.prompt),
                completion: own.completion.or(old.completion),
                total: own.total.or(old.total),
                reasoning: own.reasoning.or(old.reasoning),
                cache_read: own.cache_read.or(old.cache_read),
            },
            leaves_cached_out: match own.prompt {
                Some(_) => self.leaves_cached_out,
                None => earlier.leaves_cached_out,
            },
            beside_read: self.beside_read.or(earlier.beside_read),
            beside_write: self.beside_write.or(earlier.beside_write),
        }
    }

    /// Reads the next value; `None` if it is not an object with at least one member.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Option<Self>, Invalid> {
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            return Ok(None);
        }
        let mut empty = true;
        let [mut prompt, mut completion, mut total, mut reasoning, mut cache_read] = [Pick::NONE; 5];
        let [mut beside_read, mut beside_write] = [Pick::NONE; 2];
        cursor.object(|cursor, name| {
            empty = false;
            match name.unescaped(&mut [0; 32]) {
                b"prompt_tokens" => prompt.offer(0, cursor),
                b"input_tokens" => prompt.offer(1, cursor),
                b"promptTokenCount" => prompt.offer(2, cursor),
                b"inputTokens" => prompt.offer(3, cursor),
                b"input_token_count" => prompt.offer(4, cursor),
                b"completion_tokens" => completion.offer(0, cursor),
                b"output_tokens" => completion.offer(1, cursor),
                b"candidatesTokenCount" => completion.offer(2, cursor),
                b"outputTokens" => completion.offer(3, cursor),
                b"generated_token_count" => completion.offer(4, cursor),
                b"total_tokens" => total.offer(0, cursor),
                b"totalTokenCount" => total.offer(1, cursor),
                b"totalTokens" => total.offer(2, cursor),
                b"completion_tokens_details" => detail(cursor, b"reasoning_tokens", 0, &mut reasoning),
                b"output_tokens_details" => detail(cursor, b"reasoning_tokens", 1, &mut reasoning),
                b"thoughtsTokenCount" => reasoning.offer(2, cursor),
                b"prompt_tokens_details" => detail(cursor, b"cached_tokens", 0, &mut cache_read),
                b"input_tokens_details" => detail(cursor, b"cached_tokens", 1, &mut cache_read),
                b"cache_read_input_tokens" => beside_read.offer(2, cursor),
                b"prompt_cache_hit_tokens" => cache_read.offer(3, cursor),
                b"cachedContentTokenCount" => cache_read.offer(4, cursor),
                b"cacheReadInputTokens" => beside_read.offer(5, cursor),
                b"cached_tokens" => cache_read.offer(6, cursor),
                b"cache_creation_input_tokens" => beside_write.offer(0, cursor),
                b"cacheWriteInputTokens" => beside_write.offer(1, cursor),
                _ => cursor.skip().map(drop),
            }
        })?;
        if empty {
            return Ok(None);
        }
        if beside_read.rank < cache_read.rank {
            cache_read = beside_read;
        }
        Ok(Some(Self {
            usage: TokenUsage {
                prompt: prompt.value,
                completion: completion.value,
                total: total.value,
                reasoning: reasoning.value,
                cache_read: cache_read.value,
            },
            leaves_cached_out: matches!(prompt.rank, 1 | 3),
            beside_read: beside_read.value,
            beside_write: beside_write.value,
        }))
    }
}

/// Offers one member of a nested object.
fn detail(cursor: &mut Cursor<'_>, wanted: &[u8], rank: u8, pick: &mut Pick) -> Result<(), Invalid> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip().map(drop);
    }
    cursor.object(|cursor, name| {
        if name.unescaped(&mut [0; 32]) == wanted {
            pick.offer(rank, cursor)
        } else {
            cursor.skip().map(drop)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(text: &str) -> Option<TokenUsage> {
        let mut cursor = Cursor::new(text.as_bytes());
        let usage = UsageObject::read(&mut cursor).unwrap();
        cursor.finish().unwrap();
        usage.map(UsageObject::counts)
    }

    #[test]
    fn s26_the_openai_shape_with_details_is_read_and_unknown_keys_ignored() {
        let text = r#"{"prompt_tokens": 10, "x": {"prompt_tokens": 1}, "completion_tokens": 7, "total_tokens": 17,
            "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3, "accepted_prediction_tokens": 1}}"#;
        let expected = TokenUsage {
            prompt: Some(10),
            completion: Some(7),
            total: Some(17),
            reasoning: Some(3),
            cache_read: Some(4),
        };
        assert_eq!(usage(text), Some(expected));
    }

    #[test]
    fn absent_and_unusable_counts_are_none() {
        let text = r#"{"prompt_tokens": null, "completion_tokens": -1, "total_tokens": 1.5, "cached_tokens": 4294967296,
            "completion_tokens_details": null}"#;
        assert_eq!(usage(text), Some(TokenUsage::default()));
    }

    #[test]
    fn an_empty_object_and_other_kinds_are_no_usage() {
        for text in ["{}", "null", "[1]", "5", "\"prompt_tokens\""] {
            assert_eq!(usage(text), None, "{text}");
        }
    }

    #[test]
    fn the_first_name_of_the_list_wins_whatever_the_order_in_the_object() {
        let read = usage(r#"{"input_tokens": 2, "prompt_tokens": 1, "output_tokens": 3, "outputTokens": 4}"#).unwrap();
        assert_eq!((read.prompt, read.completion), (Some(1), Some(3)));
        let read = usage(
            r#"{"prompt_tokens": null, "input_tokens": 2, "cached_tokens": 5, "input_tokens_details": {"cached_tokens": 6}}"#,
        );
        assert_eq!(
            read.map(|read| (read.prompt, read.cache_read)),
            Some((Some(2), Some(6)))
        );
    }

    #[test]
    fn disjoint_cache_counts_are_added_to_input_tokens_only() {
        let read =
            usage(r#"{"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}"#).unwrap();
        assert_eq!((read.prompt, read.cache_read), (Some(17), Some(5)));
        let read = usage(r#"{"inputTokens": 10, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 2}"#).unwrap();
        assert_eq!((read.prompt, read.cache_read), (Some(17), Some(5)));
        let read = usage(r#"{"prompt_tokens": 10, "cache_read_input_tokens": 5}"#).unwrap();
        assert_eq!((read.prompt, read.cache_read), (Some(10), Some(5)));
        let read = usage(r#"{"cache_read_input_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}"#).unwrap();
        assert_eq!(read.cache_read, Some(4));
        let read = usage(r#"{"cached_tokens": 6, "cache_read_input_tokens": 5}"#).unwrap();
        assert_eq!(read.cache_read, Some(5));
    }

    #[test]
    fn a_later_object_lacks_nothing_that_an_earlier_one_had() {
        let object = |text: &str| UsageObject::read(&mut Cursor::new(text.as_bytes())).unwrap().unwrap();
        let start = object(r#"{"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 1}"#);
        let read = object(r#"{"output_tokens": 8}"#).over(start).counts();
        assert_eq!(
            (read.prompt, read.completion, read.cache_read),
            (Some(14), Some(8), Some(5))
        );
        // The prompt is said again, and what is beside it is not.
        let read = object(r#"{"input_tokens": 10, "output_tokens": 8}"#)
            .over(start)
            .counts();
        assert_eq!(read.prompt, Some(15));
        let read = object(r#"{"prompt_tokens": 10}"#).over(start).counts();
        assert_eq!((read.prompt, read.completion), (Some(10), Some(1)));
    }
}
