//! The dataset of a plan as bytes: a few for each request, because it may have a million of them and all are written before the load.
//!
//! ```text
//! dataset        identities that it brings: how many, then of each the distance from the conversation before, its length, its text
//!                conversations: how many, then of each the number of its turns and these
//! turn           tokens of its message + 1, tokens asked for + 1 (0: unknown), bytes of the body
//!   with bodies  where its message begins and how long it is, the body
//! ```
//!
//! All numbers are varints. Identities that are made are made again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dataset::ConversationIds;
use crate::plan::{Conversations, RequestImage, RequestImages};
use crate::units::Nanos;
use crate::varint::{get_varint, push_varint};

/// Whether the bodies of requests are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bodies {
    Kept,
    LeftOut,
}

/// A turn without a body in most datasets: one byte for each number of tokens, two for the length.
const BYTES_PER_TURN: usize = 6;

/// Appends the conversations and their images.
pub(super) fn push(requests: &RequestImages, bodies: Bodies, out: &mut Vec<u8>) {
    let RequestImages {
        entries, conversations, ..
    } = requests;
    let kept = |image: &RequestImage| BYTES_PER_TURN + image.body_len as usize;
    out.reserve(match bodies {
        Bodies::Kept => entries.iter().map(kept).sum(),
        Bodies::LeftOut => entries.len() * BYTES_PER_TURN,
    });
    let own = conversations.own_ids();
    push_varint(own.len() as u64, out);
    let mut before = 0;
    for (number, id) in own {
        push_varint(u64::from(number - before), out);
        push_text(id.as_bytes(), out);
        before = *number;
    }
    push_varint(conversations.count().into(), out);
    for conversation in 0..conversations.count() {
        let turns = conversations.images(conversation);
        push_varint(turns.len() as u64, out);
        for image in &entries[turns.start as usize..turns.end as usize] {
            push_image(image, bodies, out);
        }
    }
}

fn push_image(image: &RequestImage, bodies: Bodies, out: &mut Vec<u8>) {
    for tokens in [image.input_tokens, image.requested_output_tokens] {
        push_varint(tokens.map_or(0, |tokens| u64::from(tokens) + 1), out);
    }
    if bodies == Bodies::LeftOut {
        return push_varint(image.body_len.into(), out);
    }
    push_text(image.body(), out);
    push_varint(image.message.start.into(), out);
    push_varint(image.message.len() as u64, out);
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    push_varint(text.len() as u64, out);
    out.extend_from_slice(text);
}

/// The conversations and their images again; `made` are the identities that the dataset did not bring. `None` if the bytes are no dataset.
pub(super) fn read(bytes: &[u8], bodies: Bodies, made: ConversationIds) -> Option<(Conversations, Vec<RequestImage>)> {
    let mut input = Input {
        bytes,
        at: 0,
        no_body: Arc::from([]),
    };
    let mut own = Vec::new();
    let mut number = 0u32;
    for _ in 0..input.number()? {
        number = number.checked_add(input.number()?)?;
        let id = std::str::from_utf8(input.text()?).ok()?;
        own.push((number, Box::from(id)));
    }
    let mut own = own.into_iter().peekable();
    let mut list = Conversations::builder(made);
    let mut images = Vec::new();
    for conversation in 0..input.number()? {
        let turns = input.number()?;
        // As many images as there are numbers is what a list of conversations takes.
        u32::try_from(images.len()).ok()?.checked_add(turns)?;
        if turns == 0 {
            return None;
        }
        for turn in 0..turns {
            images.push(input.image(conversation, turn, bodies)?);
        }
        list.push(
            own.next_if(|&(number, _)| number == conversation).map(|(_, id)| id),
            turns,
        );
    }
    (input.at == bytes.len() && own.next().is_none()).then(|| (list.finish(), images))
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
    no_body: Arc<[u8]>,
}

impl<'a> Input<'a> {
    fn number(&mut self) -> Option<u32> {
        get_varint(self.bytes, &mut self.at)?.try_into().ok()
    }

    fn tokens(&mut self) -> Option<Option<u32>> {
        match get_varint(self.bytes, &mut self.at)? {
            0 => Some(None),
            more => u32::try_from(more - 1).ok().map(Some),
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let text = self.bytes[self.at..].get(..length)?;
        self.at += length;
        Some(text)
    }

    fn image(&mut self, conversation: u32, turn: u32, bodies: Bodies) -> Option<RequestImage> {
        let (input_tokens, requested_output_tokens) = (self.tokens()?, self.tokens()?);
        let (tail, body_len, message) = match bodies {
            Bodies::LeftOut => (Arc::clone(&self.no_body), self.number()?, 0..0),
            Bodies::Kept => {
                let body = self.text()?;
                let (start, length) = (self.number()?, self.number()?);
                let message = start..start.checked_add(length)?;
                body.get(message.start as usize..message.end as usize)?;
                (Arc::from(body), body.len() as u32, message)
            }
        };
        Some(RequestImage {
            tail,
            body_len,
            message,
            input_tokens,
            requested_output_tokens,
            conversation,
            turn,
            delay: Nanos::ZERO,
            timestamp: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::{AnswerFrame, IdBlock, Sampler};

    type Turn = (Option<u32>, Option<u32>, Vec<u8>, usize);

    /// Conversations, each with the identity that it brings, if any.
    fn requests(conversations: &[(Option<String>, Vec<Turn>)]) -> RequestImages {
        let mut list = Conversations::builder(ConversationIds::new(7));
        let mut entries = Vec::new();
        for (number, (id, turns)) in (0..).zip(conversations) {
            list.push(id.as_deref().map(Box::from), turns.len() as u32);
            for (at, (input_tokens, requested_output_tokens, body, message)) in (0..).zip(turns) {
                let start = (message % (body.len() + 1)) as u32;
                entries.push(RequestImage {
                    tail: [b"\r\n\r\n", &body[..]].concat().into(),
                    body_len: body.len() as u32,
                    message: start..body.len() as u32,
                    input_tokens: *input_tokens,
                    requested_output_tokens: *requested_output_tokens,
                    conversation: number,
                    turn: at,
                    delay: Nanos::ZERO,
                    timestamp: None,
                });
            }
        }
        RequestImages {
            heads: Arc::from([]),
            ids: Arc::new(IdBlock {
                template: Box::default(),
                request_id_at: 0,
                correlation_id_at: Vec::new(),
            }),
            entries: entries.into(),
            conversations: list.finish().into(),
            order: Sampler::sequential(NonZeroU32::MIN),
            answer_frame: AnswerFrame::PLAIN,
        }
    }

    fn any_requests() -> impl Strategy<Value = RequestImages> {
        let turn = any::<Turn>();
        let conversation = (any::<Option<String>>(), proptest::collection::vec(turn, 1..4));
        proptest::collection::vec(conversation, 1..6).prop_map(|conversations| requests(&conversations))
    }

    fn written(requests: &RequestImages, bodies: Bodies) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(requests, bodies, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn a_dataset_comes_back_as_it_was(requests in any_requests()) {
            for bodies in [Bodies::Kept, Bodies::LeftOut] {
                let (conversations, images) = read(&written(&requests, bodies), bodies, ConversationIds::new(7)).expect("a dataset");
                prop_assert_eq!(&conversations, &*requests.conversations);
                prop_assert_eq!(images.len(), requests.entries.len());
                for (image, before) in images.iter().zip(requests.entries.iter()) {
                    let facts = |image: &RequestImage| {
                        (image.input_tokens, image.requested_output_tokens, image.body_len, image.conversation, image.turn)
                    };
                    prop_assert_eq!(facts(image), facts(before));
                    if bodies == Bodies::Kept {
                        prop_assert_eq!((image.body(), &image.message), (before.body(), &before.message));
                    }
                }
            }
        }

        #[test]
        fn other_bytes_are_a_dataset_or_none_and_never_a_panic(
            requests in any_requests(), cut in any::<prop::sample::Index>(), noise in any::<(prop::sample::Index, u8)>(),
        ) {
            for bodies in [Bodies::Kept, Bodies::LeftOut] {
                let mut bytes = written(&requests, bodies);
                prop_assert!(read(&bytes[..cut.index(bytes.len())], bodies, ConversationIds::new(7)).is_none());
                let at = noise.0.index(bytes.len());
                bytes[at] ^= noise.1;
                let _ = read(&bytes, bodies, ConversationIds::new(7));
            }
        }
    }

    #[test]
    fn a_million_requests_of_a_trace_take_a_few_bytes_each_and_no_identity_that_is_made() {
        let turn = (None, Some(16), vec![b'x'; 200], 0);
        let many = requests(&vec![(None, vec![turn]); 1000]);
        assert_eq!(written(&many, Bodies::LeftOut).len(), 1000 * 5 + 3);
    }
}
