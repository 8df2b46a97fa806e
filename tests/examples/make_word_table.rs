//! Makes `engine/src/dataset/words.txt`, the words that synthetic prompts are built from.
//!
//! ```text
//! cargo run -p ringload-tests --example make_word_table -- WORD_LIST > engine/src/dataset/words.txt
//! ```
//!
//! `WORD_LIST` has one word a line; the table in the repository comes from Debian's `wamerican-small` 2020.12.07 (SCOWL, size 35). Kept are
//! plain lower-case words that are one token in every built-in encoding, alone and after a space, so that a text of n words has n tokens
//! whatever the server counts with. Of those the most common ones stay, up to a power of two, so that a word is drawn from whole bits.
//! No network is needed: the vocabularies come with the `tiktoken-rs` crate.

use std::process::ExitCode;

use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton, p50k_base_singleton, r50k_base_singleton};

/// Words in the table.
const TABLE_LEN: usize = 2048;

/// Words that a guard model in front of a server may react to, which would make synthetic load untypical.
const LEFT_OUT: &[&str] = &[
    "ass", "bomb", "boob", "bra", "bum", "cock", "cocks", "cum", "damn", "dam", "dick", "drug", "drugs", "gay", "gun",
    "guns", "hell", "kill", "killed", "killer", "killing", "murder", "naked", "porn", "prick", "pussy", "queer",
    "rape", "sex", "sexual", "sexy", "slave", "suicide", "terror", "tit", "weapon", "weapons",
];

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: make_word_table WORD_LIST");
        return ExitCode::from(2);
    };
    let list = match std::fs::read_to_string(&path) {
        Ok(list) => list,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(1);
        }
    };
    let encodings = [
        o200k_base_singleton(),
        cl100k_base_singleton(),
        p50k_base_singleton(),
        r50k_base_singleton(),
    ];
    let mut words: Vec<(u32, &str)> = list
        .lines()
        .filter(|word| (3..=12).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase()))
        .filter(|word| !LEFT_OUT.contains(word))
        .filter_map(|word| Some((worst_rank(&encodings, word)?, word)))
        .collect();
    // A token's number is its rank: the merges that a tokenizer learned first have the lowest ones, so a low rank is a common word.
    words.sort_unstable();
    words.dedup();
    if words.len() < TABLE_LEN {
        eprintln!("{path}: {} words qualify, {TABLE_LEN} are needed", words.len());
        return ExitCode::from(1);
    }
    let mut table: Vec<&str> = words[..TABLE_LEN].iter().map(|&(_, word)| word).collect();
    table.sort_unstable();
    println!("{}", table.join("\n"));
    ExitCode::SUCCESS
}

/// The highest rank of ` word` over all encodings; `None` unless both `word` and ` word` are single tokens in each.
fn worst_rank(encodings: &[&CoreBPE], word: &str) -> Option<u32> {
    let spaced = format!(" {word}");
    let mut worst = 0;
    for encoding in encodings {
        if encoding.encode_ordinary(word).len() != 1 {
            return None;
        }
        let [token] = encoding.encode_ordinary(&spaced)[..] else {
            return None;
        };
        worst = worst.max(token);
    }
    Some(worst)
}
