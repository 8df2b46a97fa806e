//! Synthetic prompts against the vocabularies that servers count with.

use ringload_engine::dataset::{LengthDistribution, Prompts, words};
use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton, p50k_base_singleton, r50k_base_singleton};

fn encodings() -> [(&'static str, &'static CoreBPE); 4] {
    [
        ("o200k_base", o200k_base_singleton()),
        ("cl100k_base", cl100k_base_singleton()),
        ("p50k_base", p50k_base_singleton()),
        ("r50k_base", r50k_base_singleton()),
    ]
}

#[test]
fn every_word_is_one_token_alone_and_after_a_space() {
    for (name, encoding) in encodings() {
        for word in words() {
            assert_eq!(encoding.encode_ordinary(word).len(), 1, "{word:?} in {name}");
            assert_eq!(
                encoding.encode_ordinary(&format!(" {word}")).len(),
                1,
                "{word:?} after a space in {name}"
            );
        }
    }
}

#[test]
fn prompts_have_exactly_the_tokens_asked_for_in_every_encoding() {
    const SEED: u64 = 20_261_130;
    let encodings = encodings();
    let mut lengths = Vec::new();
    for entry in 0..200u32 {
        // Lengths 1 to 2000, with both ends and the shortest ones among them; 7919 is prime to 1999.
        let tokens = match entry {
            0..8 => entry + 1,
            8 => 2000,
            _ => 1 + entry * 7919 % 2000,
        };
        let prompts = Prompts::new(LengthDistribution::Fixed(tokens), None, SEED);
        let text = prompts.text(prompts.size(entry));
        for (name, encoding) in &encodings {
            assert_eq!(
                encoding.encode_ordinary(&text).len(),
                tokens as usize,
                "seed {SEED}, entry {entry}, encoding {name}: {text:?}"
            );
        }
        lengths.push(tokens);
    }
    assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&2000)));
}
