//! The word table of synthetic prompts.

use std::sync::LazyLock;

/// Words in the table: a power of two, so that a word is drawn from whole bits.
pub(super) const LEN: usize = 1 << BITS;
/// Random bits that one word takes.
pub(super) const BITS: u32 = 11;

static WORDS: LazyLock<[&'static str; LEN]> = LazyLock::new(|| {
    let words: Vec<&str> = include_str!("words.txt").lines().collect();
    <[&str; LEN]>::try_from(words).expect("the table in the repository has one word for each number that is drawn")
});

/// Plain English words, each of them one token alone and one token after a space in `o200k_base`, `cl100k_base`, `p50k_base` and
/// `r50k_base`. So n of them, joined by single spaces, are n tokens in each of those encodings.
///
/// The file is made by the example `make_word_table` of the tests crate, and its property is tested there against the vocabularies.
pub fn words() -> &'static [&'static str] {
    &*WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_plain() {
        assert!(words().is_sorted_by(|a, b| a < b), "sorted, without duplicates");
        for word in words() {
            assert!(
                word.len() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase()),
                "{word:?} would need escaping or is too short"
            );
        }
    }
}
