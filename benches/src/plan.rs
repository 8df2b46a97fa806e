//! Plans for benches that drive the engine in this process, and their runs.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use ringload_engine::dataset::{LengthDistribution, Synthetic};
use ringload_engine::id::PhaseId;
use ringload_engine::interrupt::Interrupt;
use ringload_engine::plan::render::{RenderInputs, render_synthetic};
use ringload_engine::plan::{
    Arrival, ArtifactPlan, ConnectionReuse, DrainRule, EndpointKind, EndpointPlan, HookPlan, LimitPlan, ModelPlan,
    OnCap, PhaseKind, PhasePlan, Plan, StopRule, Target, TelemetryPlan,
};
use ringload_engine::run::{
    self, CoreChoice, DRAIN_STALL_TIMEOUT, DriverChoice, Pacing, RunOptions, RunOutcome, STALL_TIMEOUT,
};
use ringload_engine::units::Nanos;

const SEED: u64 = 42;

/// What the requests of a bench ask for.
#[derive(Debug, Clone, Copy)]
pub struct Requests {
    /// Answers come as event streams.
    pub streaming: bool,
    /// Tokens of a prompt.
    pub input_tokens: u32,
    /// Tokens of an answer.
    pub output_tokens: u32,
}

/// A closed-loop profiling phase that sends `requests` requests, at most `concurrency` at once.
///
/// # Panics
/// If `concurrency` is zero.
pub fn closed_loop(id: u16, name: &str, concurrency: u32, requests: Option<u64>) -> PhasePlan {
    PhasePlan {
        id: PhaseId(id),
        profiling_index: Some(id),
        name: name.to_owned(),
        kind: PhaseKind::Profiling,
        arrival: Arrival::ClosedLoop,
        concurrency: Some(NonZeroU32::new(concurrency).expect("a bench asks for connections")),
        on_cap: OnCap::Wait,
        stop: StopRule {
            requests,
            sessions: None,
            duration: None,
        },
        drain: DrainRule::WhileProgressing,
        seamless: false,
        cancellation: None,
        limits: LimitPlan::default(),
    }
}

/// A plan against the server at `address`, with its artifacts in `directory`.
///
/// # Panics
/// If no requests can be rendered, which the fixed inputs exclude.
pub fn plan(address: SocketAddr, requests: Requests, phases: Vec<PhasePlan>, directory: &Path) -> Plan {
    let origin = format!("http://{address}");
    let path = "/v1/chat/completions".to_owned();
    let target = Target {
        url: format!("{origin}{path}"),
        host: address.ip().to_string(),
        port: address.port(),
        authority: address.to_string(),
        path,
        origin,
    };
    let models = ModelPlan::in_turn(vec!["mock-model".to_owned()]);
    let inputs = RenderInputs {
        kind: EndpointKind::Chat,
        targets: std::slice::from_ref(&target),
        models: &models,
        streaming: requests.streaming,
        close_after: false,
        use_legacy_max_tokens: false,
        use_server_token_count: false,
        headers: &[],
        session_header: None,
        extra: &serde_json::Map::new(),
        template: None,
    };
    let dataset = Synthetic::of_single_turns(
        16,
        LengthDistribution::Fixed(requests.input_tokens),
        Some(LengthDistribution::Fixed(requests.output_tokens)),
        SEED,
    );
    let images = render_synthetic(&inputs, &dataset).expect("the inputs of a bench are valid");
    Plan {
        benchmark_id: "0123456789ab".to_owned(),
        trial: 0,
        cell: None,
        seed: SEED,
        models,
        endpoint: EndpointPlan {
            kind: EndpointKind::Chat,
            response_field: None,
            targets: vec![target],
            streaming: requests.streaming,
            connection_reuse: ConnectionReuse::Pooled,
            request_timeout: Some(Nanos::from_secs(60)),
            tls: None,
            control_headers: Vec::new(),
        },
        requests: images,
        dataset_file: None,
        system_prompt_file: None,
        phases,
        readiness: None,
        hooks: HookPlan::default(),
        telemetry: TelemetryPlan::default(),
        slos: Vec::new(),
        artifacts: ArtifactPlan {
            directory: directory.to_owned(),
            overwrite: true,
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
        input_config: serde_json::json!({}),
        command: "ringload-benches".to_owned(),
        warnings: Vec::new(),
    }
}

/// Runs a plan with one core, as the program does.
///
/// # Panics
/// If the run does not start, or fails.
pub fn run(plan: &Plan, pacing: Pacing) -> RunOutcome {
    let options = RunOptions {
        cores: CoreChoice::Count(1),
        driver: DriverChoice::Auto,
        source_addresses: Vec::new(),
        pacing,
        drain_stall_timeout: DRAIN_STALL_TIMEOUT,
        stall_timeout: STALL_TIMEOUT,
        interrupt: Arc::new(Interrupt::new()),
    };
    let outcome = run::run(plan, &options, &mut |_| {}).expect("the run starts");
    assert_eq!(outcome.failure, None);
    outcome
}
