//! What a draft refuses and counts, against the requests that are made of it.

use std::cell::RefCell;

use super::*;

/// A draft of each kind of dataset, given to `look` with its name.
fn each_draft(look: impl Fn(&str, Draft<'_>)) {
    let normal = |mean: f64| LengthDistribution::Normal { mean, stddev: 3.0 };
    let given = Given::default();
    given.with_inputs(|inputs| {
        let dataset = Synthetic {
            turns: normal(3.0),
            ..Synthetic::of_single_turns(29, normal(40.0), Some(normal(9.0)), 5)
        };
        look("synthetic", Draft::synthetic(inputs, dataset.clone()).unwrap());
        let batch = Synthetic {
            batch_size: 5,
            ..dataset.clone()
        };
        look("batch", Draft::synthetic(inputs, batch.clone()).unwrap());
        let pool = || Opening::default().with_pool(7, 50, 5);
        look(
            "batch with a pool",
            Draft::synthetic(inputs, batch.clone()).unwrap().opened(pool()).unwrap(),
        );
        look(
            "pool",
            Draft::synthetic(inputs, dataset.clone())
                .unwrap()
                .opened(pool())
                .unwrap(),
        );
        let messages = Opening::default().with_system_of(90, 5).with_context_of(30, 5);
        look(
            "messages",
            Draft::synthetic(inputs, dataset.clone())
                .unwrap()
                .opened(messages)
                .unwrap(),
        );
    });
    // Every turn repeats the system's message.
    let apart = Given {
        kind: EndpointKind::Messages,
        ..Given::default()
    };
    apart.with_inputs(|inputs| {
        let dataset = Synthetic {
            turns: normal(3.0),
            ..Synthetic::of_single_turns(29, normal(40.0), None, 5)
        };
        let system = Opening::default().with_system(&"\"x\" ".repeat(300));
        look(
            "apart",
            Draft::synthetic(inputs, dataset.clone())
                .unwrap()
                .opened(system)
                .unwrap(),
        );
    });
    let ranks = Given {
        kind: EndpointKind::CohereRankings,
        ..Given::default()
    };
    ranks.with_inputs(|inputs| {
        let dataset = SyntheticRankings {
            entries: 29,
            query_tokens: normal(8.0),
            passages: normal(4.0),
            passage_tokens: normal(20.0),
            seed: 5,
        };
        look("rankings", Draft::rankings(inputs, dataset).unwrap());
    });
    let talks: Vec<String> = (0..29)
        .map(|number| {
            let system = json!({"role": "system", "text": "be brief"});
            let turns: Vec<Value> = (0..=number % 4)
                .map(|turn| json!({"text": format!("say {number} \"{turn}\"\n"), "timestamp": number * 10}))
                .collect();
            match number % 3 {
                0 => json!({"session_id": format!("s{number}"), "turns": turns}),
                1 => {
                    let turns = [vec![system], turns].concat();
                    json!({ "turns": turns })
                }
                _ => json!({"turns": [{"texts": ["one", "two"], "extra": {"top_k": number}}]}),
            }
            .to_string()
        })
        .collect();
    let talks: Vec<&str> = talks.iter().map(String::as_str).collect();
    given.draft(FileFormat::MultiTurn, &talks, |draft| {
        look("multi_turn", draft.unwrap())
    });
    let trace: Vec<String> = (0..29)
        .map(|number| match number % 3 {
            0 => json!({"input_length": 6, "hash_ids": [1, number]}),
            1 => json!({"input_length": 9 + number, "session_id": format!("s{}", number % 2)}),
            _ => json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "f"}]}),
        })
        .map(|record| record.to_string())
        .collect();
    let trace: Vec<&str> = trace.iter().map(String::as_str).collect();
    given.draft(FileFormat::MooncakeTrace, &trace, |draft| look("trace", draft.unwrap()));
    given.draft(FileFormat::MooncakeTrace, &trace, |draft| {
        let system = Opening::default().with_system(&"say ".repeat(300));
        look("trace with a system message", draft.unwrap().opened(system).unwrap());
    });
}

/// Everything of images that can be compared.
fn described(images: &RequestImages) -> String {
    format!("{images:?}")
}

#[test]
fn any_number_of_threads_makes_the_same_requests() {
    let one = RefCell::new(Vec::new());
    each_draft(|_, draft| one.borrow_mut().push(described(&draft.render_on(1))));
    let one = one.into_inner();
    for threads in [2, 3, 7, 29, 64] {
        let expected = RefCell::new(one.iter());
        each_draft(|name, draft| {
            let images = draft.render_on(threads);
            let first = expected.borrow_mut().next();
            assert!(
                Some(&described(&images)) == first,
                "{name}: {threads} threads make others"
            );
        });
    }
}

#[test]
fn a_draft_counts_the_requests_that_are_made_of_it() {
    each_draft(|name, draft| {
        let counted = (draft.requests(), draft.has_later_turns());
        let images = draft.render();
        let made = (images.entries.len() as u64, images.conversations.has_later_turns());
        assert_eq!(counted, made, "{name}");
    });
}

#[test]
fn the_estimated_bytes_are_near_those_of_the_images() {
    each_draft(|name, draft| {
        let estimated = draft.bytes() as f64;
        let images = draft.render();
        let bytes = |image: &RequestImage| image.tail.len() + size_of::<RequestImage>();
        let made = images.entries.iter().map(bytes).sum::<usize>() as f64;
        assert!(
            (0.6..1.25).contains(&(estimated / made)),
            "{name}: {estimated} for {made}"
        );
    });
}

#[test]
fn a_draft_refuses_batches_that_are_more_than_memory_without_looking_at_all_of_them() {
    Given::default().with_inputs(|inputs| {
        let dataset = Synthetic {
            batch_size: 10_000,
            ..Synthetic::of_single_turns(1_000_000, LengthDistribution::Fixed(1000), None, 5)
        };
        let error = Draft::synthetic(inputs, dataset)
            .map(|_| ())
            .expect_err("it is too large");
        assert!(matches!(error, RenderError::DatasetTooLarge { .. }), "{error}");
    });
}

#[test]
fn a_draft_refuses_beginnings_that_are_more_than_memory() {
    let given = Given {
        entries: 100,
        ..Given::default()
    };
    given.with_inputs(|inputs| {
        let dataset = Synthetic::of_single_turns(100, LengthDistribution::Fixed(4), None, 5);
        for opening in [
            Opening::default().with_pool(2, 10_000_000, 5),
            Opening::default().with_context_of(10_000_000, 5),
            Opening::default().with_system(&"x".repeat(50_000_000)),
        ] {
            let error = Draft::synthetic(inputs, dataset.clone())
                .and_then(|draft| draft.opened(opening))
                .map(|_| ())
                .expect_err("it is too large");
            assert!(
                matches!(error, RenderError::DatasetTooLarge { entries: 100, .. }),
                "{error}"
            );
        }
    });
}

#[test]
fn a_draft_refuses_a_file_that_describes_more_than_memory() {
    let record = r#"{"input_length": 10000000}"#;
    Given::default().draft(FileFormat::MooncakeTrace, &[record; 70], |draft| {
        let error = draft.map(|_| ()).expect_err("it is too large");
        assert!(
            matches!(error, RenderError::DatasetTooLarge { entries: 70, .. }),
            "{error}"
        );
    });
}
