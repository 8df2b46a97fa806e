//! A small plan and records with round figures, for tests of the report and of the artifacts.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::WallAnchor;
use crate::coordinator::{PhaseSummary, StopReason, Tally};
use crate::id::{CoreId, PhaseId};
use crate::plan::{
    AnswerFrame, Arrival, ArtifactPlan, ConnectionReuse, Conversations, DrainRule, EndpointKind, EndpointPlan,
    HookPlan, IdBlock, LimitPlan, ModelPlan, OnCap, PhaseKind, PhasePlan, Plan, RequestImage, RequestImages, Sampler,
    StopRule, Target, TelemetryPlan,
};
use crate::record::{ErrorDetail, FailureClass, Outcome, RequestRecord, Usage};
use crate::units::Nanos;

pub(crate) const WARMUP: PhaseId = PhaseId(0);
pub(crate) const BASELINE: PhaseId = PhaseId(1);
pub(crate) const STRESS: PhaseId = PhaseId(2);

const TARGET: &str = "http://127.0.0.1:8000/v1/chat/completions";
const BODY: &str = r#"{"messages":[{"role":"user","content":"a b"}],"model":"m \"x\""}"#;

/// 1 s on the monotonic clock is this instant on the wall clock.
pub(crate) fn anchor() -> WallAnchor {
    WallAnchor::new(Nanos::from_secs(1), 1_796_025_328_000_000_000)
}

/// Warmup, then two profiling phases; two dataset entries of 64 input and 16 output tokens.
pub(crate) fn plan() -> Plan {
    let phase = |id: PhaseId, name: &str, profiling_index: Option<u16>| PhasePlan {
        id,
        profiling_index,
        name: name.to_owned(),
        kind: match profiling_index {
            Some(_) => PhaseKind::Profiling,
            None => PhaseKind::Warmup,
        },
        arrival: Arrival::ClosedLoop,
        concurrency: None,
        on_cap: OnCap::Wait,
        stop: StopRule::default(),
        drain: DrainRule::WhileProgressing,
        seamless: false,
        cancellation: None,
        limits: LimitPlan::default(),
    };
    let entry = |number: u32| RequestImage {
        tail: BODY.as_bytes().into(),
        body_len: BODY.len() as u32,
        input_tokens: Some(64),
        requested_output_tokens: Some(16),
        message: 0..0,
        conversation: number,
        turn: 0,
        delay: Nanos::ZERO,
        timestamp: None,
    };
    Plan {
        benchmark_id: "0123456789ab".to_owned(),
        trial: 0,
        cell: None,
        seed: 42,
        models: ModelPlan::in_turn(vec!["m".to_owned()]),
        endpoint: EndpointPlan {
            kind: EndpointKind::Chat,
            response_field: None,
            targets: vec![Target {
                url: TARGET.to_owned(),
                host: "127.0.0.1".to_owned(),
                port: 8000,
                authority: "127.0.0.1:8000".to_owned(),
                path: "/v1/chat/completions".to_owned(),
                origin: "http://127.0.0.1:8000".to_owned(),
            }],
            streaming: true,
            connection_reuse: ConnectionReuse::Pooled,
            request_timeout: None,
            tls: None,
            control_headers: Vec::new(),
        },
        requests: RequestImages {
            heads: Arc::from([Arc::from(&b""[..])]),
            ids: Arc::new(IdBlock {
                template: Box::default(),
                request_id_at: 0,
                correlation_id_at: Vec::new(),
            }),
            entries: Arc::from([entry(0), entry(1)]),
            conversations: Arc::new(Conversations::of_single_turns(
                [0, 1].map(|number| format!("conversation-{number}")),
            )),
            answer_frame: AnswerFrame::PLAIN,
            order: Sampler::sequential(NonZeroU32::MIN.saturating_add(1)),
        },
        phases: vec![
            phase(WARMUP, "warmup", None),
            phase(BASELINE, "baseline", Some(0)),
            phase(STRESS, "stress", Some(1)),
        ],
        dataset_file: None,
        system_prompt_file: None,
        readiness: None,
        hooks: HookPlan::default(),
        telemetry: TelemetryPlan::default(),
        slos: Vec::new(),
        artifacts: ArtifactPlan {
            directory: PathBuf::from("/nonexistent"),
            overwrite: false,
            summary_json: true,
            records: true,
            raw: false,
            outputs: false,
            trace: false,
            show_trace_timing: false,
            prefix: None,
            slice: None,
        },
        secrets: Default::default(),
        input_config: serde_json::json!({"endpoint": {"urls": [TARGET]}}),
        command: "ringload profile --config 'run.yaml'".to_owned(),
        warnings: Vec::new(),
    }
}

/// A streamed success of 16 tokens in 16 events. It is due at `2 s + sequence x 100 ms`, issued 1 ms later, started another 1 ms later,
/// connected within 2 ms, sent within 3 ms, answered after 5 ms; first content at 20 ms, then one every 4 ms (so the last at 80 ms), end
/// of the body at 83 ms.
pub(crate) fn success(phase: PhaseId, sequence: u64) -> RequestRecord {
    let intended = Nanos::from_millis(2000 + sequence * 100);
    let start = intended + Nanos::from_millis(2);
    let after = |millis| start + Nanos::from_millis(millis);
    RequestRecord {
        phase,
        core: CoreId(3),
        outcome: Outcome::Success,
        sequence,
        session: sequence,
        image: (sequence % 2) as u32,
        history_tokens: Some(0),
        history_bytes: 0,
        error: 0,
        status: 200,
        connection_reused: false,
        resent: false,
        missing_done: false,
        intended,
        issued: intended + Nanos::from_millis(1),
        start,
        connected: after(2),
        send_end: after(3),
        first_body: after(5),
        head: after(6),
        first_content: after(20),
        first_output: after(20),
        last_content: after(80),
        end: after(83),
        content_events: 16,
        bytes_sent: 400,
        bytes_received: 3072,
        chunks_received: 17,
        usage: Usage {
            prompt_tokens: Some(60),
            completion_tokens: Some(16),
            total_tokens: Some(76),
            reasoning_tokens: None,
            cache_read_tokens: None,
        },
        gaps: vec![4_000_000; 15],
        transcript: None,
        trace: None,
    }
}

/// A request that ended otherwise, 10 ms after its start.
pub(crate) fn other(phase: PhaseId, sequence: u64, outcome: Outcome) -> RequestRecord {
    let good = success(phase, sequence);
    RequestRecord {
        outcome,
        error: match outcome {
            Outcome::Success | Outcome::Error => 0,
            Outcome::Cancelled => 1,
            Outcome::Truncated => 2,
        },
        head: Nanos::ZERO,
        first_content: Nanos::ZERO,
        first_output: Nanos::ZERO,
        last_content: Nanos::ZERO,
        end: good.start + Nanos::from_millis(10),
        content_events: 0,
        usage: Usage::default(),
        gaps: Vec::new(),
        ..good
    }
}

/// The error table that [`other`] refers to.
pub(crate) fn errors() -> Vec<ErrorDetail> {
    let detail = |class: FailureClass, code, type_name: &str, message: &str| ErrorDetail {
        class,
        code,
        type_name: type_name.to_owned(),
        message: message.to_owned(),
    };
    vec![
        detail(
            FailureClass::HttpStatus,
            Some(503),
            "Service Unavailable",
            "busy \"now\"\n",
        ),
        detail(
            FailureClass::Cancelled,
            Some(499),
            "RequestCancellationError",
            "cancelled",
        ),
        detail(FailureClass::Truncated, None, "RequestTruncated", "cut"),
    ]
}

/// The summary of a phase that ran between two instants (milliseconds) and did what it was asked to.
pub(crate) fn summary(phase: PhaseId, start_ms: u64, end_ms: u64, tally: Tally) -> PhaseSummary {
    PhaseSummary {
        phase,
        start: Nanos::from_millis(start_ms),
        sending_complete: Nanos::from_millis(end_ms),
        end: Nanos::from_millis(end_ms),
        tally,
        stop_reason: StopReason::Duration,
        drain_cut: false,
    }
}

/// Counts in the order success, error, cancelled, truncated.
pub(crate) fn tally(succeeded: u64, failed: u64, cancelled: u64, truncated: u64) -> Tally {
    Tally {
        sent: succeeded + failed + cancelled + truncated,
        succeeded,
        failed,
        cancelled,
        truncated,
    }
}
