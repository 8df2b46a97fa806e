//! What a test runs: plans built by hand, so that a test shows all that matters to it and nothing else.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ringload_engine::dataset::{DelayDistribution, LengthDistribution, Synthetic};
use ringload_engine::interrupt::Interrupt;
use ringload_engine::plan::render::{RenderInputs, render_synthetic};
use ringload_engine::plan::{
    ArtifactPlan, ConnectionReuse, EndpointKind, EndpointPlan, HookPlan, ModelPlan, Plan, ProbeTarget, ProfilerHook,
    ReadinessMode, ReadinessPlan, ResetHook, Slo, Target, TelemetryPlan, Verification,
};
use ringload_engine::run::{CoreChoice, DRAIN_STALL_TIMEOUT, DriverChoice, Pacing, RunOptions, STALL_TIMEOUT};
use ringload_engine::units::Nanos;
use serde_json::{Map, json};

use crate::phase::{Phase, number};
use crate::run::{Run, Running, driver_under_test};

const MODEL: &str = "mock-model";
const PATH: &str = "/v1/chat/completions";

/// A workflow against one server.
#[derive(Debug, Clone)]
pub struct Scenario {
    address: SocketAddr,
    phases: Vec<Phase>,
    host: Option<String>,
    source_addresses: Vec<IpAddr>,
    drain_stall_timeout: Nanos,
    stall_timeout: Nanos,
    connection_reuse: ConnectionReuse,
    streaming: bool,
    entries: u32,
    isl: LengthDistribution,
    osl: Option<LengthDistribution>,
    turns: LengthDistribution,
    turn_delay: DelayDistribution,
    seed: u64,
    cores: u16,
    driver: DriverChoice,
    pacing: Pacing,
    request_timeout: Option<Duration>,
    /// Further servers, and the path of requests to each.
    others: Vec<(SocketAddr, String)>,
    headers: Vec<(String, String)>,
    readiness: Option<(ReadinessMode, Duration, Duration)>,
    hooks: HookPlan,
    telemetry: TelemetryPlan,
    hook_timeout: Nanos,
    reset_budget: Nanos,
    directory: Option<PathBuf>,
    overwrite: bool,
    records: bool,
    trace: bool,
    slice: Option<Nanos>,
    slos: Vec<Slo>,
    tls: Option<Verification>,
}

impl Scenario {
    /// Streamed requests with short prompts of different lengths to `address`, sent by one core.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            phases: Vec::new(),
            host: None,
            source_addresses: Vec::new(),
            drain_stall_timeout: DRAIN_STALL_TIMEOUT,
            stall_timeout: STALL_TIMEOUT,
            connection_reuse: ConnectionReuse::Pooled,
            streaming: true,
            entries: 16,
            isl: LengthDistribution::Normal {
                mean: 40.0,
                stddev: 15.0,
            },
            osl: None,
            turns: LengthDistribution::Fixed(1),
            turn_delay: DelayDistribution::default(),
            seed: 42,
            cores: 1,
            driver: driver_under_test(),
            pacing: Pacing::Auto,
            request_timeout: Some(Duration::from_secs(30)),
            others: Vec::new(),
            headers: Vec::new(),
            readiness: None,
            hooks: HookPlan::default(),
            telemetry: TelemetryPlan::default(),
            hook_timeout: Nanos::from_secs(5),
            reset_budget: Nanos::from_secs(10),
            directory: None,
            overwrite: false,
            records: true,
            trace: false,
            slice: None,
            slos: Vec::new(),
            tls: None,
        }
    }

    /// Appends a phase.
    #[must_use]
    pub fn phase(mut self, phase: Phase) -> Self {
        self.phases.push(phase);
        self
    }

    /// Names the server so, to be resolved, and not by its address.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.host = Some(name.to_owned());
        self
    }

    /// Binds connections to these addresses in turn.
    #[must_use]
    pub fn source_addresses(mut self, addresses: &[&str]) -> Self {
        let parsed = addresses.iter().map(|text| text.parse().expect("an IP address"));
        self.source_addresses = parsed.collect();
        self
    }

    /// Cuts a request that has received nothing for so long, while its phase drains.
    #[must_use]
    pub fn drain_stall_timeout(mut self, timeout: Nanos) -> Self {
        self.drain_stall_timeout = timeout;
        self
    }

    /// Ends the run when a phase has sent and received nothing for so long.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Nanos) -> Self {
        self.stall_timeout = timeout;
        self
    }

    /// What becomes of connections whose request has ended.
    #[must_use]
    pub fn connection_reuse(mut self, reuse: ConnectionReuse) -> Self {
        self.connection_reuse = reuse;
        self
    }

    /// Asks for whole answers and not for streams.
    #[must_use]
    pub fn whole_answers(mut self) -> Self {
        self.streaming = false;
        self
    }

    /// Entries of the data set.
    #[must_use]
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = entries;
        self
    }

    /// Tokens of every prompt.
    #[must_use]
    pub fn prompt_tokens(mut self, tokens: u32) -> Self {
        self.isl = LengthDistribution::Fixed(tokens);
        self
    }

    /// Tokens to ask for.
    #[must_use]
    pub fn output_tokens(mut self, tokens: u32) -> Self {
        self.osl = Some(LengthDistribution::Fixed(tokens));
        self
    }

    /// Tokens to ask for, drawn turn by turn.
    #[must_use]
    pub fn output_lengths(mut self, lengths: LengthDistribution) -> Self {
        self.osl = Some(lengths);
        self
    }

    /// Turns of every conversation.
    #[must_use]
    pub fn turns(mut self, turns: LengthDistribution) -> Self {
        self.turns = turns;
        self
    }

    /// Time between the return of a turn and the next one.
    #[must_use]
    pub fn turn_delay(mut self, delay: Duration) -> Self {
        self.turn_delay = DelayDistribution::fixed(delay.as_secs_f64() * 1e3);
        self
    }

    /// Root of the random streams.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Cores that send.
    #[must_use]
    pub fn cores(mut self, cores: u16) -> Self {
        self.cores = cores;
        self
    }

    /// What moves the bytes, whatever the environment says.
    #[must_use]
    pub fn driver(mut self, driver: DriverChoice) -> Self {
        self.driver = driver;
        self
    }

    /// How cores wait.
    #[must_use]
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// Longest life of a request.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// Lets requests live for ever.
    #[must_use]
    pub fn without_request_timeout(mut self) -> Self {
        self.request_timeout = None;
        self
    }

    /// Sends load to this server too.
    #[must_use]
    pub fn also(self, address: SocketAddr) -> Self {
        self.also_at(address, PATH)
    }

    /// The same with a path of its own.
    #[must_use]
    pub fn also_at(mut self, address: SocketAddr, path: &str) -> Self {
        self.others.push((address, path.to_owned()));
        self
    }

    /// A header of requests and control calls.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits for the model before anything else.
    #[must_use]
    pub fn wait_for_model(mut self, mode: ReadinessMode, timeout: Duration, interval: Duration) -> Self {
        self.readiness = Some((mode, timeout, interval));
        self
    }

    /// No attempt of a reset that is set after this starts later than so long after the first.
    #[must_use]
    pub fn reset_budget(mut self, budget: Duration) -> Self {
        self.reset_budget = nanos(budget);
        self
    }

    /// Reads figures of the server and its GPUs; a scenario reads none unless it says so.
    #[must_use]
    pub fn telemetry(mut self, telemetry: TelemetryPlan) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Longest life of the calls of hooks that are set after this.
    #[must_use]
    pub fn hook_timeout(mut self, timeout: Duration) -> Self {
        self.hook_timeout = nanos(timeout);
        self
    }

    /// Resets the server's cache before the load.
    #[must_use]
    pub fn reset(mut self, path: &str) -> Self {
        self.hooks.reset_kv_cache = Some(ResetHook {
            path: path.to_owned(),
            timeout: self.hook_timeout,
            retry_budget: self.reset_budget,
        });
        self
    }

    /// Profiles the server around profiling phases.
    #[must_use]
    pub fn profiler(mut self, start_path: &str, stop_path: &str) -> Self {
        self.hooks.server_profiler = Some(ProfilerHook {
            start_path: start_path.to_owned(),
            stop_path: stop_path.to_owned(),
            timeout: self.hook_timeout,
        });
        self
    }

    /// Writes here and not into a fresh temporary directory.
    #[must_use]
    pub fn directory(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Allows the removal of earlier results.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        self.overwrite = true;
        self
    }

    /// Keeps histograms instead of records.
    #[must_use]
    pub fn without_records(mut self) -> Self {
        self.records = false;
        self
    }

    /// Keeps how requests went over the wire.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = true;
        self
    }

    /// Slices of this length have figures of their own.
    #[must_use]
    pub fn slices(mut self, length: Duration) -> Self {
        self.slice = Some(nanos(length));
        self
    }

    /// A threshold that good requests meet.
    #[must_use]
    pub fn slo(mut self, metric: &'static str, threshold: f64) -> Self {
        self.slos.push(Slo { metric, threshold });
        self
    }

    /// Speaks TLS, and verifies the server like this.
    #[must_use]
    pub fn tls(mut self, verification: Verification) -> Self {
        self.tls = Some(verification);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not end in time, is refused, or loses count of a request.
    pub fn run(self) -> Run {
        self.start().finish()
    }

    /// Runs it on a thread of its own.
    pub fn start(self) -> Running {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let directory = self
            .directory
            .clone()
            .unwrap_or_else(|| temporary.path().join("results"));
        let plan = self.plan(directory);
        let options = RunOptions {
            cores: CoreChoice::Count(self.cores),
            driver: self.driver,
            source_addresses: self.source_addresses,
            pacing: self.pacing,
            drain_stall_timeout: self.drain_stall_timeout,
            stall_timeout: self.stall_timeout,
            interrupt: Arc::new(Interrupt::new()),
        };
        Running::start(plan, options, temporary)
    }

    fn target(&self, address: SocketAddr, path: &str) -> Target {
        let authority = address.to_string();
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{authority}");
        let named = self.host.clone().filter(|_| address == self.address);
        Target {
            url: format!("{origin}{path}"),
            host: named.unwrap_or_else(|| address.ip().to_string()),
            port: address.port(),
            authority,
            path: path.to_owned(),
            origin,
        }
    }

    fn plan(&self, directory: PathBuf) -> Plan {
        let first = (self.address, PATH.to_owned());
        let targets: Vec<Target> = std::iter::once(&first)
            .chain(&self.others)
            .map(|(address, path)| self.target(*address, path))
            .collect();
        let models = ModelPlan::in_turn(vec![MODEL.to_owned()]);
        let inputs = RenderInputs {
            kind: EndpointKind::Chat,
            targets: &targets,
            models: &models,
            streaming: self.streaming,
            close_after: self.connection_reuse == ConnectionReuse::Never,
            use_legacy_max_tokens: false,
            use_server_token_count: false,
            headers: &self.headers,
            session_header: None,
            extra: &Map::new(),
            template: None,
        };
        let dataset = Synthetic {
            turns: self.turns.clone(),
            turn_delay: self.turn_delay.clone(),
            ..Synthetic::of_single_turns(self.entries, self.isl.clone(), self.osl.clone(), self.seed)
        };
        let readiness = self.readiness.map(|(mode, timeout, interval)| ReadinessPlan {
            timeout: nanos(timeout),
            interval: nanos(interval),
            mode,
            targets: targets.iter().map(probe).collect(),
        });
        let requests = render_synthetic(&inputs, &dataset).expect("requests can be made of these settings");
        Plan {
            benchmark_id: "0123456789ab".to_owned(),
            trial: 0,
            cell: None,
            seed: self.seed,
            models,
            endpoint: EndpointPlan {
                kind: EndpointKind::Chat,
                response_field: None,
                targets,
                streaming: self.streaming,
                connection_reuse: self.connection_reuse,
                request_timeout: self.request_timeout.map(nanos),
                tls: self.tls.clone(),
                control_headers: self.headers.clone(),
            },
            requests,
            dataset_file: None,
            system_prompt_file: None,
            phases: number(self.phases.clone()),
            readiness,
            hooks: self.hooks.clone(),
            telemetry: self.telemetry.clone(),
            slos: self.slos.clone(),
            artifacts: ArtifactPlan {
                directory,
                overwrite: self.overwrite,
                summary_json: true,
                records: self.records,
                raw: false,
                outputs: false,
                trace: self.trace,
                show_trace_timing: false,
                prefix: None,
                slice: self.slice,
            },
            secrets: Default::default(),
            input_config: json!({}),
            command: "end-to-end test".to_owned(),
            warnings: Vec::new(),
        }
    }
}

fn probe(target: &Target) -> ProbeTarget {
    ProbeTarget {
        model: MODEL.to_owned(),
        origin: target.origin.clone(),
        base_url: format!("{}/", target.origin),
        models_url: format!("{}/v1/models", target.origin),
        inference_url: target.url.clone(),
        body: json!({"model": MODEL, "messages": [{"role": "user", "content": "Lo"}], "max_completion_tokens": 1})
            .to_string()
            .into_bytes(),
    }
}

fn nanos(span: Duration) -> Nanos {
    Nanos(span.as_nanos() as u64)
}
