//! Files of every format, right and wrong, line by line.

use super::*;

const BLOCK_16: u32 = 16;

fn options(format: FileFormat) -> FileOptions {
    FileOptions {
        format,
        block_size: BLOCK_16,
    }
}

fn sessions(format: FileFormat, text: &str) -> Vec<Session<'_>> {
    read_lines(text, options(format)).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The mistakes of a text as `line:column field: message`.
fn mistakes(format: FileFormat, text: &str) -> Vec<String> {
    match read_lines(text, options(format)) {
        Err(FileError::Mistakes { list, .. }) => list
            .iter()
            .map(|mistake| {
                let FileMistake {
                    record,
                    column,
                    field,
                    message,
                } = mistake;
                format!("{record}:{column} {field}: {message}")
            })
            .collect(),
        other => panic!("mistakes expected, found {other:?}"),
    }
}

fn text<'a>(turn: &'a FileTurn<'_>) -> &'a str {
    match &turn.content {
        Content::Text(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

#[test]
fn a_single_turn_record_has_all_its_fields() {
    let line = r#"{"text": "one \"two\"", "timestamp": 1500.25, "delay": 20, "role": "tool", "output_length": 7, "extra": {"a": 1}, "mine": []}"#;
    let lines = format!("\n{line}\n\n");
    let [session] = &sessions(FileFormat::SingleTurn, &lines)[..] else {
        panic!("one session")
    };
    let [turn] = &session.turns[..] else { panic!("one turn") };
    assert_eq!(session.id, None);
    assert_eq!(turn.record, 2);
    assert_eq!(text(turn), "one \"two\"");
    assert_eq!(turn.timestamp, Some(crate::units::Nanos(1_500_250_000)));
    assert_eq!(turn.delay, Some(crate::units::Nanos::from_millis(20)));
    assert_eq!(turn.role.as_deref(), Some("tool"));
    assert_eq!(turn.output_tokens, Some(7));
    assert_eq!(turn.extra.as_deref().map(|extra| extra["a"] == 1), Some(true));
}

#[test]
fn records_of_one_session_are_joined_where_the_first_of_them_stands() {
    let read = sessions(
        FileFormat::SingleTurn,
        "{\"text\":\"a\",\"session_id\":\"x\"}\n{\"text\":\"b\"}\n{\"text\":\"c\",\"session_id\":\"x\"}\n{\"text\":\"d\",\"session_id\":\"y\"}\n",
    );
    let texts: Vec<Vec<&str>> = read
        .iter()
        .map(|session| session.turns.iter().map(text).collect())
        .collect();
    assert_eq!(texts, [vec!["a", "c"], vec!["b"], vec!["d"]]);
    assert_eq!(read[0].id.as_deref(), Some("x"));
    assert!(!read[0].keeps_history, "each record says everything itself");
}

#[test]
fn several_texts_are_parts_of_one_message() {
    let read = sessions(
        FileFormat::SingleTurn,
        "{\"texts\":[\"a\",\"b\"]}\n{\"texts\":[{\"name\":\"q\",\"contents\":[\"c\"]}]}",
    );
    assert_eq!(
        read[0].turns[0].content,
        Content::Parts(vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(read[1].turns[0].content, Content::Text("c".into()));
}

#[test]
fn a_conversation_keeps_its_history_and_a_bare_system_turn_is_no_turn() {
    let read = sessions(
        FileFormat::MultiTurn,
        r#"{"session_id":"s","turns":[{"role":"system","text":"be brief"},{"text":"a"},{"text":"b","delay":1000,"timestamp":5}]}
           {"turns":[{"role":"system","text":"alone"}]}
           {"turns":[{"role":"system","text":"with a wish","output_length":1},{"text":"c"}]}"#,
    );
    assert_eq!(read[0].system.as_deref(), Some("be brief"));
    assert!(read[0].keeps_history);
    assert_eq!(read[0].turns.iter().map(text).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read[0].turns[1].delay, Some(crate::units::Nanos::from_secs(1)));
    assert_eq!((read[1].system.as_deref(), read[1].turns.len()), (None, 1));
    assert_eq!((read[2].system.as_deref(), read[2].turns.len()), (None, 2));
}

#[test]
fn a_trace_has_measures_texts_or_messages() {
    let read = sessions(
        FileFormat::MooncakeTrace,
        r#"{"timestamp": 0, "input_length": 40, "output_length": 3, "hash_ids": [7, 8, 9]}
           {"timestamp": 1, "input_length": 40}
           {"timestamp": 2, "text_input": "hello"}
           {"timestamp": 3, "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]}
           {"timestamp": 4, "input_length": 1, "hash_ids": [-1]}"#,
    );
    let contents: Vec<&Content<'_>> = read.iter().map(|session| &session.turns[0].content).collect();
    let blocks = |input_tokens, hash_ids: &[u64]| Content::Blocks {
        input_tokens,
        hash_ids: hash_ids.into(),
    };
    assert_eq!(*contents[0], blocks(40, &[7, 8, 9]));
    assert_eq!(*contents[1], Content::Words { input_tokens: 40 });
    assert_eq!(*contents[2], Content::Text("hello".into()));
    assert_eq!(
        *contents[3],
        Content::Messages {
            messages: r#"[{"role": "user", "content": "hi"}]"#.into(),
            tools: Some(r#"[{"type": "function"}]"#.into()),
        }
    );
    assert_eq!(*contents[4], blocks(1, &[u64::MAX]));
    assert!(read[0].keeps_history && !read[3].keeps_history);
}

#[test]
fn a_pool_has_texts_and_nothing_else() {
    let read = sessions(FileFormat::RandomPool, r#"{"text":"a","session_id":"x","timestamp":5}"#);
    assert_eq!((&read[0].id, read[0].turns[0].timestamp), (&None, None));
}

#[test]
fn every_mistake_of_a_file_is_named_with_its_place() {
    let found = mistakes(
        FileFormat::SingleTurn,
        concat!(
            "{\"text\": 5, \"timestamp\": -1}\n",
            "{\"text\": \"fine\"}\n",
            "not json\n",
            "{\"text\": \"\", \"delay\": \"1s\", \"output_length\": 0.5}\n",
            "{\"turns\": []}\n",
            "{\"text\": \"a\", \"image\": \"x.png\"}\n",
            "[1, 2]\n",
            "{\"text\": \"a\", \"text\": \"b\"}\n",
            "{\"text\": \"é\", \"texts\": [\"b\"]}\n",
            "{\"text\": \"a\", \"type\": \"multi_turn\"}\n",
        ),
    );
    let expected = [
        "1:10 text: found `5`; allowed: text",
        "1:26 timestamp: found `-1`; allowed: milliseconds, from 0 to 1e13",
        "3:1 : found `not json`; allowed: one JSON object per line",
        "4:10 text: found `\"\"`; allowed: text that is not empty",
        "4:46 output_length: found `0.5`; allowed: a whole number of tokens from 1 to 10000000",
        "4:23 delay: found `\"1s\"`; allowed: milliseconds, from 0 to 1e13",
        "5:1 : found no \"text\"; a record with \"turns\" is of format multi_turn",
        "6:24 image: not supported by ringload yet: \"image\"; write requests of text",
        "7:1 : found `[1, 2]`; allowed: one JSON object per line",
        "8:20 : this line is no JSON object: duplicate field `text`",
        "9:24 texts: \"text\" says the same; keep one",
        "10:23 type: found \"multi_turn\", but the format is single_turn; set it to what the file holds",
    ];
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn mistakes_inside_a_conversation_name_the_turn() {
    let found = mistakes(
        FileFormat::MultiTurn,
        "{\"turns\": [{\"text\": \"a\"}, {\"delay\": true}, 7]}\n{\"text\": \"a\"}\n{\"turns\": []}\n",
    );
    let expected = [
        "1:1 turns[1]: found no \"text\"; write {\"text\": ...}",
        "1:37 turns[1].delay: found `true`; allowed: milliseconds, from 0 to 1e13",
        "1:44 turns[2]: found `7`; allowed: an object",
        "2:1 : found no \"turns\"; it has a text of its own, as records of format single_turn have",
        "3:11 turns: found `[]`; allowed: a list that is not empty",
    ];
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn mistakes_of_a_trace_say_what_would_fit() {
    let found = mistakes(
        FileFormat::MooncakeTrace,
        concat!(
            "{\"input_length\": 33, \"hash_ids\": [1, 2]}\n",
            "{\"input_length\": 3, \"text_input\": \"a\"}\n",
            "{\"text_input\": \"a\", \"hash_ids\": [1]}\n",
            "{\"payload\": {}}\n",
            "{\"text\": \"a\"}\n",
            "{\"messages\": [{\"content\": \"a\"}]}\n",
            "{\"messages\": [{\"role\": \"user\"}], \"message_mode\": \"delta\"}\n",
            "{\"input_length\": 0}\n",
            "{\"input_length\": 5, \"hash_ids\": [\"a\"]}\n",
        ),
    );
    let expected = [
        "1:34 hash_ids: found 2 blocks for input_length 33; with blocks of 16 tokens it takes 3; set the block size to that of the trace",
        "2:35 text_input: \"input_length\" says what to send already; keep one of input_length, text_input, messages",
        "3:33 hash_ids: it belongs to \"input_length\", which is not there; remove it or add that",
        "4:13 payload: not supported by ringload yet: \"payload\"; write \"messages\" and put further fields of the body into \"extra\"",
        "5:1 : found none of \"input_length\", \"text_input\", \"messages\"; write one; a record with \"text\" is of format single_turn, one with \"turns\" of format multi_turn",
        "6:14 messages: found `[{\"content\": \"a\"}]`; allowed: a list of objects, each with \"role\", that is not empty",
        "7:50 message_mode: not supported by ringload yet: \"message_mode\"; allowed: history, where each entry has all messages up to it",
        "8:18 input_length: found `0`; allowed: a whole number of tokens from 1 to 10000000",
        "9:33 hash_ids: found `[\"a\"]`; allowed: a list of whole numbers",
    ];
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn a_file_in_another_format_gives_a_bounded_number_of_mistakes() {
    let text = "{}\n".repeat(999) + "{\"turns\": []}\n";
    match read_lines(&text, options(FileFormat::SingleTurn)) {
        Err(FileError::Mistakes { list, more }) => assert_eq!((list.len(), more), (mistake::MAX_MISTAKES, 980)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_mistake_in_every_record_is_one_mistake_of_the_file() {
    let alike = |text: &str| match read_lines(text, options(FileFormat::SingleTurn)) {
        Err(FileError::Alike { first, records }) => Some((first.record, first.message, records)),
        Err(FileError::Mistakes { .. }) => None,
        other => panic!("{other:?}"),
    };
    let turns = "{\"turns\": [{\"text\": \"a\"}]}\n";
    let message = "found no \"text\"; a record with \"turns\" is of format multi_turn";
    // Long enough for several threads.
    for count in [2, 1000, 100_000] {
        let found = alike(&("\n".to_owned() + &turns.repeat(count)));
        assert_eq!(found, Some((2, message.to_owned(), count)));
    }
    assert_eq!(alike(turns), None, "a single record is not many");
    assert_eq!(alike(&(turns.repeat(40) + "{\"text\": \"b\"}\n")), None, "one is good");
    assert_eq!(
        alike(&(turns.repeat(40_000) + "{\"text\": 1}\n")),
        None,
        "one fails otherwise"
    );
    let both = "{\"output_length\": 0}\n{\"output_length\": 0}\n";
    assert_eq!(alike(both), None, "two mistakes each");
}

#[test]
fn parts_of_a_text_know_their_lines_wherever_it_is_cut() {
    let text: String = (1..=50)
        .map(|line| format!("{}{line}\n", "x".repeat(line % 7)))
        .collect();
    let whole: Vec<(&str, u32)> = text.lines().zip(1..).collect();
    for parts in 1..60 {
        let cut = split(&text, parts);
        assert_eq!(cut.len(), parts);
        let lines: Vec<(&str, u32)> = cut
            .iter()
            .flat_map(|(first, part)| part.lines().zip(*first..))
            .collect();
        assert_eq!(lines, whole, "{parts} parts");
    }
    assert_eq!(split("no end", 3).iter().map(|(_, part)| part.len()).sum::<usize>(), 6);
}

#[test]
fn a_large_file_reads_the_same_on_several_threads() {
    let line = |at: usize| {
        format!(
            "{{\"text\": \"{at} {}\", \"session_id\": \"s{}\"}}\n",
            "word ".repeat(20),
            at % 9000
        )
    };
    let text: String = (0..20_000).map(line).collect();
    assert!(text.len() > 2 * BYTES_PER_THREAD, "{} bytes are one part", text.len());
    let many = sessions(FileFormat::SingleTurn, &text);
    let (records, _) = session::read(text.lines().zip(1..), options(FileFormat::SingleTurn));
    assert_eq!(many, session::group(vec![records]));
    assert_eq!(many.len(), 9000);
}

#[test]
fn a_large_file_is_loaded_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("large");
    let bytes: Vec<u8> = (0..LARGE as u32 + 7).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &bytes).expect("written");
    assert!(load_file(&path).expect("it is there") == bytes);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let read = |name: &str| {
        let bytes = load_file(&directory.path().join(name))?;
        read_bytes(&bytes, options(FileFormat::SingleTurn)).map(|sessions| sessions.len())
    };
    assert!(matches!(read("."), Err(FileError::NotAFile)));
    assert!(matches!(read("missing"), Err(FileError::Unreadable(_))));
    let write = |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).expect("written");
    write("blank", b"\n  \r\n");
    assert!(matches!(read("blank"), Err(FileError::Empty)));
    write("mark", b"\xef\xbb\xbf{\"text\": \"a\"}\r\n");
    assert_eq!(read("mark").expect("a mark is no mistake"), 1);
    // As `sha256sum` prints it.
    let sum = "b3b44c015f2cfd9f6727c04576599da0309a65ffc71323b91e87b469177983c2";
    assert_eq!(sha256(b"{\"text\": \"abc\"}\n"), sum);
    write("latin", b"{\"text\": \"a\"}\n{\"text\": \"\xe9\"}\n");
    match read("latin") {
        Err(FileError::Mistakes { list, .. }) => assert_eq!((list[0].record, list[0].column), (2, 11)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_that_are_given_one_by_one_are_counted_from_zero() {
    let records = ["{\"text\": \"a\"}", "{\"text\": 1}"];
    let error = read_records(records.into_iter(), options(FileFormat::SingleTurn));
    match error {
        Err(FileError::Mistakes { list, .. }) => assert_eq!((list[0].record, list[0].field.as_str()), (1, "text")),
        other => panic!("{other:?}"),
    }
    let read = read_records(records.into_iter().take(1), options(FileFormat::SingleTurn)).expect("one record");
    assert_eq!(read[0].turns[0].record, 0);
}
