//! The words of `--seq-dist`: pairs of lengths with probabilities, in the three notations of the peer.

use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::super::scalar;
use super::super::tree::{Node, Value};
use super::document::mapping_at;
use super::given::{Given, collection};

const ALLOWED: &str = "allowed: ISL,OSL:PERCENT with ; between them, as in 256,128:60;512|20,256|40:40, or [(256,128):60,(512,256):40], or JSON as in \
                       {\"pairs\": [{\"isl\": 256, \"osl\": 128, \"prob\": 100}]}";
/// Keys of a pair in JSON, and what the config calls them.
const KEYS: [(&str, &str); 6] = [
    ("isl", "isl"),
    ("isl_stddev", "isl_stddev"),
    ("osl", "osl"),
    ("osl_stddev", "osl_stddev"),
    ("prob", PROBABILITY),
    (PROBABILITY, PROBABILITY),
];
const PROBABILITY: &str = "probability";

/// Keys of the config with their texts, which the readers of the config judge.
type Pair = Vec<(&'static str, String)>;

/// The pairs as the list that a config file has.
///
/// # Errors
/// What is allowed, for words that are no pairs.
pub(super) fn pairs(given: &Given) -> Result<Rc<Node>, String> {
    let nodes = read(given.word())?.into_iter().map(|pair| {
        let entries: Vec<(&str, Rc<Node>)> = pair.iter().map(|(key, text)| (*key, given.scalar(text))).collect();
        mapping_at(&entries, given.at)
    });
    Ok(collection(Value::Sequence(nodes.collect()), given.at))
}

fn read(word: &str) -> Result<Vec<Pair>, String> {
    let word = word.trim();
    let mut pairs = match word.strip_prefix('[') {
        _ if word.starts_with('{') => json(word)?,
        Some(rest) if !rest.trim_start().starts_with('{') => brackets(rest)?,
        Some(_) => json(word)?,
        None => word.split(';').map(pair).collect::<Result<_, _>>()?,
    };
    as_percent(&mut pairs);
    Ok(pairs)
}

/// `ISL|STDDEV,OSL|STDDEV:PERCENT`, deviations being optional.
fn pair(text: &str) -> Result<Pair, String> {
    let (lengths, probability) = text.rsplit_once(':').ok_or(ALLOWED)?;
    self::lengths(lengths, probability)
}

fn lengths(lengths: &str, probability: &str) -> Result<Pair, String> {
    let (input, output) = lengths.split_once(',').ok_or(ALLOWED)?;
    let mut pair = Pair::new();
    for (text, mean, stddev) in [(input, "isl", "isl_stddev"), (output, "osl", "osl_stddev")] {
        let (length, deviation) = match text.split_once('|') {
            Some((length, deviation)) => (length, Some(deviation)),
            None => (text, None),
        };
        pair.push((mean, length.trim().to_owned()));
        pair.extend(deviation.map(|deviation| (stddev, deviation.trim().to_owned())));
    }
    pair.push((PROBABILITY, probability.trim().to_owned()));
    Ok(pair)
}

/// `(ISL,OSL):PERCENT,(ISL,OSL):PERCENT]`.
fn brackets(text: &str) -> Result<Vec<Pair>, String> {
    let mut rest = text.trim_end().strip_suffix(']').ok_or(ALLOWED)?.trim();
    let mut pairs = Vec::new();
    loop {
        let (lengths, after) = rest
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .ok_or(ALLOWED)?;
        let after = after.trim_start().strip_prefix(':').ok_or(ALLOWED)?;
        let (probability, next) = match after.split_once(',') {
            Some((probability, next)) => (probability, Some(next)),
            None => (after, None),
        };
        pairs.push(self::lengths(lengths, probability)?);
        match next {
            Some(next) => rest = next.trim_start(),
            None => return Ok(pairs),
        }
    }
}

/// `{"pairs": [{"isl": 256, "osl": 128, "prob": 60}, ...]}`, or the list alone.
fn json(text: &str) -> Result<Vec<Pair>, String> {
    let value: Json = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}; {ALLOWED}"))?;
    let list = match &value {
        Json::Object(object) if object.len() == 1 => object.get("pairs"),
        other => Some(other),
    };
    let list = list.and_then(Json::as_array).ok_or(ALLOWED)?;
    list.iter()
        .map(|item| item.as_object().ok_or_else(|| ALLOWED.to_owned()).and_then(members))
        .collect()
}

fn members(object: &Map<String, Json>) -> Result<Pair, String> {
    let mut pair = Pair::new();
    for (name, value) in object {
        let Some((_, key)) = KEYS.iter().find(|(known, _)| known == name) else {
            return Err(format!(
                "unknown key {name:?}; allowed: isl, isl_stddev, osl, osl_stddev, prob"
            ));
        };
        if pair.iter().any(|(present, _)| present == key) {
            return Err(format!("{name:?} says the same as another key; keep one"));
        }
        let text = match value {
            Json::Number(number) => number.to_string(),
            Json::String(text) => text.clone(),
            _ => return Err(format!("{name:?} is no number; {ALLOWED}")),
        };
        pair.push((*key, text));
    }
    Ok(pair)
}

/// Makes percentages of probabilities that sum up to 1.
fn as_percent(pairs: &mut [Pair]) {
    let mut shares: Vec<&mut String> = pairs
        .iter_mut()
        .flatten()
        .filter(|(key, _)| *key == PROBABILITY)
        .map(|(_, text)| text)
        .collect();
    let values: Option<Vec<f64>> = shares
        .iter()
        .map(|text| scalar::number(text).ok().map(|number| number.value))
        .collect();
    let Some(values) = values.filter(|values| (0.99..=1.01).contains(&values.iter().sum::<f64>())) else {
        return;
    };
    for (text, value) in shares.iter_mut().zip(values) {
        // 0.07 is 7 and not 7.000000000000001.
        **text = ((value * 1e11).round() / 1e9).to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair as `key=text` words.
    fn shown(word: &str) -> Vec<String> {
        let pairs = read(word).unwrap_or_else(|reason| panic!("{word}: {reason}"));
        let shown = |pair: &Pair| {
            let words: Vec<String> = pair.iter().map(|(key, text)| format!("{key}={text}")).collect();
            words.join(" ")
        };
        pairs.iter().map(shown).collect()
    }

    #[test]
    fn all_notations_say_the_same() {
        let plain = ["isl=256 osl=128 probability=60", "isl=512 osl=256 probability=40"];
        for word in [
            "256,128:60;512,256:40",
            " 256 , 128 : 60 ; 512 , 256 : 40 ",
            "[(256,128):60,(512,256):40]",
            "[ (256, 128):60 , (512, 256): 40 ]",
            r#"{"pairs": [{"isl": 256, "osl": 128, "prob": 60}, {"isl": 512, "osl": 256, "prob": 40}]}"#,
            r#"[{"isl": 256, "osl": 128, "probability": 60}, {"isl": "512", "osl": 256, "prob": 40}]"#,
            "256,128:0.6;512,256:0.4",
            "[(256,128):0.60,(512,256):.4]",
        ] {
            assert_eq!(shown(word), plain, "{word}");
        }
        let varied = ["isl=256 isl_stddev=10 osl=128 osl_stddev=20 probability=100"];
        for word in [
            "256|10,128|20:100",
            "[(256|10,128|20):100]",
            "256|10,128|20:1",
            r#"{"pairs":[{"isl":256,"isl_stddev":10,"osl":128,"osl_stddev":20,"prob":100}]}"#,
        ] {
            assert_eq!(shown(word), varied, "{word}");
        }
        assert_eq!(shown("1,2|3:7;4|5,6:93")[1], "isl=4 isl_stddev=5 osl=6 probability=93");
    }

    #[test]
    fn fractions_become_round_percentages_and_other_sums_stay() {
        assert_eq!(
            shown("1,1:0.07;1,1:0.93"),
            ["isl=1 osl=1 probability=7", "isl=1 osl=1 probability=93"]
        );
        assert_eq!(shown("1,1:0.5"), ["isl=1 osl=1 probability=0.5"]);
    }

    #[test]
    fn words_that_are_no_pairs_are_told_what_is_allowed() {
        for word in [
            "",
            ";",
            "256",
            "256,128",
            "256:60",
            "256,128:60;",
            "[",
            "[]",
            "[(256,128)]",
            "[(256,128:60]",
            "[(256,128):60",
            "[(256,128):60,]",
            "{}",
            "{\"pairs\": 5}",
            "{\"pairs\": [5]}",
            "[{\"isl\": 5]",
            "[{\"isl\": null}]",
        ] {
            let reason = read(word).expect_err(word);
            assert!(reason.contains("allowed: ISL,OSL:PERCENT"), "{word}: {reason}");
        }
        for (word, part) in [
            (r#"[{"isl": 1, "ols": 2}]"#, "unknown key \"ols\""),
            (r#"[{"prob": 1, "probability": 2}]"#, "says the same"),
        ] {
            assert!(read(word).expect_err(word).contains(part), "{word}");
        }
    }
}
