//! The value of `--cores`: a number of cores, or the processors to run them on.

use crate::engine::CoreChoice;

/// Numbers of processors are smaller than this on every host that Linux runs on.
const PROCESSORS_MAX: usize = 8192;

/// Reads the value.
///
/// # Errors
/// What is wrong and what is allowed.
pub(crate) fn parse(text: &str) -> Result<CoreChoice, String> {
    let text = text.trim();
    if !text.contains([',', '-']) {
        return match text.parse::<u16>() {
            Ok(count) if count > 0 => Ok(CoreChoice::Count(count)),
            _ => Err(
                "give a number of cores, 1 or more, or a list of processors such as 2,4-6 (one processor alone: 3-3)"
                    .to_owned(),
            ),
        };
    }
    let mut processors = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |number: &str| {
            let parsed = number.trim().parse::<usize>().ok();
            parsed
                .filter(|&number| number < PROCESSORS_MAX)
                .ok_or_else(|| format!("'{number}' is no number of a processor; write lists such as 2,4-6"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range '{part}' runs backwards; write {last}-{first}"));
        }
        processors.extend(first..=last);
    }
    processors.sort_unstable();
    if let Some(twice) = processors.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!(
            "processor {} is named twice; each core has one of its own",
            twice[0]
        ));
    }
    Ok(CoreChoice::Processors(processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_count_and_a_list_names_processors() {
        assert_eq!(parse("3"), Ok(CoreChoice::Count(3)));
        for (text, processors) in [
            ("2,4-6", vec![2, 4, 5, 6]),
            ("6,2", vec![2, 6]),
            ("3-3", vec![3]),
            (" 0 - 1 , 7 ", vec![0, 1, 7]),
        ] {
            assert_eq!(parse(text), Ok(CoreChoice::Processors(processors)), "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused_with_the_reason() {
        for (text, part) in [
            ("0", "1 or more"),
            ("", "1 or more"),
            ("two", "1 or more"),
            ("70000", "1 or more"),
            ("2,", "'' is no number"),
            ("2,x", "'x'"),
            ("-1", "'' is no number"),
            ("0-4000000000", "'4000000000'"),
            ("6-4", "4-6"),
            ("2,1-3", "processor 2 is named twice"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
