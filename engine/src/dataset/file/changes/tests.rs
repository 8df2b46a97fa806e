//! Changed traces as lengths and blocks.

use proptest::prelude::*;

use super::*;
use crate::dataset::{FileFormat, FileOptions, read_records};

const SIZE: u32 = 4;

fn sessions<'a>(records: &[&'a str]) -> Vec<Session<'a>> {
    let options = FileOptions {
        format: FileFormat::MooncakeTrace,
        block_size: SIZE,
    };
    read_records(records.iter().copied(), options).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Tokens of the prompt, its blocks, and tokens asked for, turn by turn.
type Shape = (u32, Vec<u64>, Option<u32>);

fn shapes(sessions: &[Session<'_>]) -> Vec<Shape> {
    let turns = sessions.iter().flat_map(|session| session.turns.iter());
    let shape = |turn: &super::super::FileTurn<'_>| match &turn.content {
        Content::Words { input_tokens } => (*input_tokens, Vec::new(), turn.output_tokens),
        Content::Blocks { input_tokens, hash_ids } => (*input_tokens, hash_ids.to_vec(), turn.output_tokens),
        _ => (0, Vec::new(), turn.output_tokens),
    };
    turns.map(shape).collect()
}

fn changed(records: &[&str], changes: TraceChanges) -> Result<Vec<Shape>, UnfitTrace> {
    let mut sessions = sessions(records);
    changes.leave_out(&mut sessions)?;
    changes.apply(&mut sessions, SIZE, 1)?;
    for (tokens, blocks, _) in shapes(&sessions).iter().filter(|(_, blocks, _)| !blocks.is_empty()) {
        assert_eq!(
            blocks.len(),
            tokens.div_ceil(SIZE) as usize,
            "as many blocks as it takes"
        );
    }
    Ok(shapes(&sessions))
}

/// Two prompts that share block 1, one that is shared to its end, and one without blocks.
const TRACE: [&str; 4] = [
    r#"{"input_length": 10, "hash_ids": [1, 2, 3], "output_length": 2}"#,
    r#"{"input_length": 12, "hash_ids": [1, 4, 5], "output_length": 3}"#,
    r#"{"input_length": 3, "hash_ids": [1]}"#,
    r#"{"input_length": 7, "output_length": 9}"#,
];

fn lengths(shapes: &[Shape]) -> Vec<u32> {
    shapes.iter().map(|(tokens, ..)| *tokens).collect()
}

/// How many blocks two prompts have in common from the beginning.
fn common(one: &Shape, other: &Shape) -> usize {
    one.1.iter().zip(&other.1).take_while(|(a, b)| a == b).count()
}

#[test]
fn nothing_changes_unless_something_is_to() {
    assert_eq!(changed(&TRACE, TraceChanges::NONE), Ok(shapes(&sessions(&TRACE))));
}

#[test]
fn the_own_part_of_a_prompt_is_multiplied_and_the_shared_one_is_left() {
    let times = |prompt_len| {
        let changes = TraceChanges {
            prompt_len,
            ..TraceChanges::NONE
        };
        changed(&TRACE, changes).expect("it fits")
    };
    let longer = times(1.5);
    // 4 are shared of 10 and of 12, all of 3 and none of 7.
    assert_eq!(lengths(&longer), [4 + 9, 4 + 12, 3, 10]);
    assert_eq!(longer[0].1[..3], [1, 2, 3]);
    assert_eq!(longer[1].1[..3], [1, 4, 5]);
    let fresh: HashSet<u64> = [longer[0].1[3], longer[1].1[3]].into();
    assert!(fresh.len() == 2 && fresh.is_disjoint(&(0..10).collect()), "{fresh:?}");
    let shorter = times(0.4);
    assert_eq!(lengths(&shorter), [4 + 2, 4 + 3, 3, 2]);
    assert_eq!((&shorter[0].1[..], &shorter[1].1[..]), (&[1, 2][..], &[1, 4][..]));
    assert_eq!(lengths(&times(1e-9)), [4, 4, 3, 1], "a prompt says something");
}

#[test]
fn shared_parts_are_multiplied_and_stay_shared_to_the_same_share() {
    let records = [
        r#"{"input_length": 18, "hash_ids": [1, 2, 3, 4, 9]}"#,
        r#"{"input_length": 18, "hash_ids": [1, 2, 3, 4, 8]}"#,
        r#"{"input_length": 9, "hash_ids": [1, 2, 7]}"#,
        r#"{"input_length": 6, "hash_ids": [1, 2]}"#,
    ];
    let times = |prefix_len| {
        let changes = TraceChanges {
            prefix_len,
            ..TraceChanges::NONE
        };
        changed(&records, changes).expect("it fits")
    };
    let longer = times(1.5);
    assert_eq!(lengths(&longer), [24 + 2, 24 + 2, 12 + 1, 12 - 2]);
    assert_eq!(common(&longer[0], &longer[1]), 6);
    assert_eq!((common(&longer[0], &longer[2]), common(&longer[2], &longer[3])), (3, 3));
    assert_eq!((longer[0].1[0], longer[0].1[6], longer[2].1[3]), (1, 9, 7));
    assert_eq!(
        longer[0].1.iter().collect::<HashSet<_>>().len(),
        7,
        "no block stands twice"
    );
    let shorter = times(0.5);
    assert_eq!(lengths(&shorter), [8 + 2, 8 + 2, 4 + 1, 4 - 2]);
    assert_eq!(
        (common(&shorter[0], &shorter[1]), common(&shorter[0], &shorter[2])),
        (2, 1)
    );
    assert_eq!(times(0.01)[0].1.len(), 2, "a beginning that is shared stays one");
}

#[test]
fn outputs_are_multiplied_capped_and_never_nothing() {
    let with = |output_len, max_output_tokens| {
        let changes = TraceChanges {
            output_len,
            max_output_tokens,
            ..TraceChanges::NONE
        };
        let shapes = changed(&TRACE, changes).expect("it fits");
        shapes.into_iter().map(|(.., output)| output).collect::<Vec<_>>()
    };
    // 4.5 is as near to 4 as to 5, and rounded to the even one.
    assert_eq!(with(1.5, None), [Some(3), Some(4), None, Some(14)]);
    assert_eq!(with(0.0, None), [Some(1), Some(1), None, Some(1)]);
    assert_eq!(with(1.0, Some(3)), [Some(2), Some(3), None, Some(3)]);
    assert_eq!(with(2.0, Some(5)), [Some(4), Some(5), None, Some(5)]);
}

#[test]
fn records_with_longer_prompts_are_left_out_and_none_grows_beyond() {
    let with = |max, prompt_len| {
        let changes = TraceChanges {
            max_input_tokens: Some(max),
            prompt_len,
            ..TraceChanges::NONE
        };
        changed(&TRACE, changes)
    };
    assert_eq!(with(10, 1.0).map(|shapes| lengths(&shapes)), Ok(vec![10, 3, 7]));
    assert_eq!(with(10, 2.0).map(|shapes| lengths(&shapes)), Ok(vec![10, 3, 10]));
    assert_eq!(with(2, 1.0), Err(UnfitTrace::NothingLeft { shortest: 3 }));
    let turns = [
        r#"{"session_id": "a", "input_length": 3}"#,
        r#"{"session_id": "a", "input_length": 30}"#,
        r#"{"session_id": "b", "input_length": 30}"#,
        r#"{"session_id": "b", "input_length": 40}"#,
        r#"{"text_input": "as long as it likes"}"#,
    ];
    let mut kept = sessions(&turns);
    let changes = TraceChanges {
        max_input_tokens: Some(5),
        ..TraceChanges::NONE
    };
    changes.leave_out(&mut kept).expect("something is left");
    let counts: Vec<(Option<&str>, usize)> = kept
        .iter()
        .map(|session| (session.id.as_deref(), session.turns.len()))
        .collect();
    assert_eq!(counts, [(Some("a"), 1), (None, 1)]);
}

#[test]
fn sessions_are_spread_over_sets_that_share_nothing() {
    let record = |session: usize, blocks: &str| {
        format!(r#"{{"session_id": "{session}", "input_length": 8, "hash_ids": {blocks}}}"#)
    };
    let records: Vec<String> = (0..600).map(|at| record(at / 2, "[1, 2]")).collect();
    let records: Vec<&str> = records.iter().map(String::as_str).collect();
    let changes = TraceChanges {
        prefix_roots: 3,
        ..TraceChanges::NONE
    };
    let shapes = changed(&records, changes).expect("it fits");
    assert!(
        shapes.chunks(2).all(|turns| turns[0].1 == turns[1].1),
        "a session stays in its set"
    );
    let mut sets: HashMap<&[u64], usize> = HashMap::new();
    for (_, blocks, _) in &shapes {
        *sets.entry(blocks).or_default() += 1;
    }
    let blocks: HashSet<u64> = sets.keys().flat_map(|blocks| blocks.iter().copied()).collect();
    assert!(
        sets.len() == 3 && blocks.len() == 6 && sets.contains_key(&[1u64, 2][..]),
        "{sets:?}"
    );
    // 100 sessions in each on average, 8 the standard deviation; the seed is fixed.
    assert!(sets.values().all(|turns| turns.abs_diff(200) < 60), "{sets:?}");
}

#[test]
fn what_would_change_nothing_or_too_much_is_told_with_its_key() {
    let with = |change: fn(&mut TraceChanges), records: &[&str]| {
        let mut changes = TraceChanges::NONE;
        change(&mut changes);
        changed(records, changes).expect_err("it does not fit")
    };
    let text = [r#"{"text_input": "a"}"#];
    for (key, change) in [
        (
            "prompt_len_multiplier",
            (|to| to.prompt_len = 2.0) as fn(&mut TraceChanges),
        ),
        ("prefix_len_multiplier", |to| to.prefix_len = 2.0),
        ("prefix_root_multiplier", |to| to.prefix_roots = 2),
        ("output_len_multiplier", |to| to.output_len = 2.0),
    ] {
        let found = with(change, &text);
        assert!(
            matches!(found, UnfitTrace::NoEffect { key: found, .. } if found == key),
            "{found:?}"
        );
    }
    let long = |key, record| UnfitTrace::TooLong { key, record };
    assert_eq!(
        with(|to| to.prompt_len = f64::MAX, &TRACE),
        long("prompt_len_multiplier", 0)
    );
    assert_eq!(
        with(|to| to.prefix_len = f64::MAX, &TRACE),
        long("prefix_len_multiplier", 0)
    );
    assert_eq!(
        with(|to| to.output_len = f64::MAX, &TRACE),
        long("output_len_multiplier", 0)
    );
    // Each is allowed, and all of them together are not.
    let many = [TRACE[0]; 300];
    assert_eq!(with(|to| to.prefix_len = 8e5, &many), UnfitTrace::TooLarge);
}

proptest! {
    #[test]
    fn any_factors_give_prompts_of_the_length_they_say_or_a_reason(
        lists in proptest::collection::vec((proptest::collection::vec(0u64..4, 1..6), 0u32..SIZE), 1..8),
        prefix_len in 0.01f64..5.0,
        prompt_len in 0.01f64..5.0,
        max in proptest::option::of(1u32..30),
    ) {
        let record = |(blocks, missing): &(Vec<u64>, u32)| {
            format!(r#"{{"input_length": {}, "hash_ids": {blocks:?}}}"#, blocks.len() as u32 * SIZE - missing)
        };
        let records: Vec<String> = lists.iter().map(record).collect();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        let changes = TraceChanges { prefix_len, prompt_len, max_input_tokens: max, ..TraceChanges::NONE };
        match changed(&records, changes) {
            Ok(shapes) => prop_assert!(shapes.iter().all(|(tokens, ..)| (1..=max.unwrap_or(u32::MAX)).contains(tokens))),
            Err(UnfitTrace::NothingLeft { shortest }) => prop_assert!(max.is_some_and(|max| shortest > max)),
            Err(UnfitTrace::NoEffect { key, .. }) => prop_assert_eq!(key, "prefix_len_multiplier"),
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
