//! From the file as written to what will happen: defaults filled, units converted, requests rendered, one identity drawn.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use super::dataset::{self, Dataset, FileBytes, NoDataset};
use super::render::{RenderError, RenderInputs};
use super::schedule::NoSchedule;
use super::target::{self, TargetParts};
use super::{
    AdaptivePlan, Arrival, ArtifactPlan, CancellationPlan, DrainRule, EndpointPlan, Gaps, HookPlan, LimitPlan,
    ModelPlan, OnCap, PhaseKind, PhasePlan, Plan, ProfilerHook, RampPlan, RampStrategy, RateCourse, RatePlan,
    RatePoint, ReadinessPlan, ResetHook, Schedule, StopRule, Target, TelemetryPlan, Verification, adaptive, advice,
    authorization, directory, echo, readiness, slices, telemetry, traces,
};
use crate::config::{
    self, AdaptiveVariable, Address, Config, ConnectionReuse, Diagnostic, Diagnostics, FIXED_HEADERS, Phase, PhaseType,
    Position, ScheduleWindow, Url,
};
use crate::id::PhaseId;
use crate::units::Nanos;

/// Seconds that a request may take when the file does not say.
const DEFAULT_REQUEST_TIMEOUT_S: f64 = 21_600.0;
/// Seconds that a control call may take when the file does not say; independent of the request timeout.
const DEFAULT_HOOK_TIMEOUT_S: f64 = 30.0;
/// Seconds in which a busy server is asked again to reset its cache.
const DEFAULT_RESET_RETRY_S: f64 = 60.0;

/// Shape of gamma-distributed gaps when the file does not say: they are exponential.
const DEFAULT_SMOOTHNESS: f64 = 1.0;

/// Said of every run without verification.
const UNVERIFIED: &str = "--insecure: the server's certificate is not checked, so anyone on the way can read and change requests, API key included";

/// What a run decides beside the file.
#[derive(Debug, Clone, Default)]
pub struct BuildOptions {
    /// Artifact directory, in place of the file's.
    pub output_directory: Option<PathBuf>,
    /// Whether results of an earlier run may be replaced.
    pub overwrite: bool,
    /// Another server: takes the place of scheme, host and port, while the path of the file stays.
    pub target_override: Option<String>,
    /// How an `https` server proves who it is, if the user said so.
    pub verification: Option<Verification>,
    /// The command line without secrets, for artifacts.
    pub command: String,
    /// Identity of the run; drawn when absent.
    pub benchmark_id: Option<String>,
    /// Root seed, in place of the file's. Drawn when both are absent.
    pub seed: Option<u64>,
    /// Which repetition of the same plan this is, from 0.
    pub trial: u32,
}

/// What can be said of a plan before its requests are made. Whoever has one gets the plan too: making requests refuses nothing.
#[derive(Debug, Clone)]
pub struct Outline {
    /// The servers that get the load, see [`EndpointPlan::targets`].
    pub targets: Vec<Target>,
    /// The workflow, in order.
    pub phases: Vec<PhasePlan>,
    /// Requests in the dataset: one for each turn of each conversation.
    pub requests: u64,
    /// How to wait for the server; `None` does not.
    pub readiness: Option<ReadinessPlan>,
    /// Advice found while planning, see [`Plan::warnings`].
    pub warnings: Vec<String>,
}

/// Resolves a file as [`build`] does and makes no request: enough to know whether there is a plan.
///
/// # Errors
/// Those of [`build`], all of them.
pub fn check(config: &Config, options: &BuildOptions) -> Result<Outline, Diagnostics> {
    let settings = Settings::of(config, options)?;
    let (inputs, bytes) = (settings.inputs(config), FileBytes::default());
    let resolved = resolve(config, options, &settings, &inputs, &bytes)?;
    Ok(Outline {
        phases: resolved.phases,
        requests: resolved.dataset.requests(),
        readiness: resolved.readiness,
        warnings: resolved.warnings,
        targets: settings.targets,
    })
}

/// Resolves a file into a plan.
///
/// # Errors
/// Mistakes that show only when everything is put together, with their places.
pub fn build(config: &Config, options: &BuildOptions) -> Result<Plan, Diagnostics> {
    let settings = Settings::of(config, options)?;
    let (inputs, bytes) = (settings.inputs(config), FileBytes::identified());
    let Resolved {
        dataset,
        phases,
        readiness,
        telemetry,
        directory,
        warnings,
    } = resolve(config, options, &settings, &inputs, &bytes)?;
    let system_prompt_file = dataset.system_prompt_file.clone();
    let requests = dataset.render();
    let dataset_file = bytes.file(config.dataset.file.as_ref().map(|file| &file.origin));
    let endpoint = &config.endpoint;
    Ok(Plan {
        benchmark_id: options
            .benchmark_id
            .clone()
            .unwrap_or_else(|| format!("{:012x}", draw_u64() >> 16)),
        trial: options.trial,
        cell: None,
        seed: settings.seed,
        models: settings.models,
        input_config: echo::input_config(
            config,
            options.output_directory.as_deref(),
            settings.replacement.as_ref(),
        ),
        endpoint: EndpointPlan {
            kind: endpoint.kind.unwrap_or_default(),
            response_field: endpoint
                .template
                .as_ref()
                .and_then(|template| template.response_field.clone()),
            streaming: endpoint.streaming.unwrap_or(false),
            connection_reuse: endpoint.connection_reuse.unwrap_or_default(),
            request_timeout: limit(endpoint.timeout_s.unwrap_or(DEFAULT_REQUEST_TIMEOUT_S)),
            tls: settings.tls,
            control_headers: settings
                .headers
                .into_iter()
                .filter(|(name, _)| !is_fixed(name))
                .collect(),
            targets: settings.targets,
        },
        requests,
        dataset_file,
        system_prompt_file,
        phases,
        readiness,
        hooks: hooks(config),
        telemetry,
        slos: config.slos.clone(),
        artifacts: ArtifactPlan {
            directory,
            overwrite: options.overwrite,
            summary_json: config.artifacts.summary.unwrap_or(true),
            records: config.artifacts.records.unwrap_or(true),
            raw: config.artifacts.raw.unwrap_or(false),
            outputs: config
                .artifacts
                .export_outputs_json
                .or(config.artifacts.raw)
                .unwrap_or(false),
            trace: config.artifacts.trace.unwrap_or(false),
            show_trace_timing: config.artifacts.show_trace_timing.unwrap_or(false),
            prefix: config.artifacts.prefix.as_deref().map(directory::base_name),
            slice: config.artifacts.slice_duration_s.map(positive),
        },
        command: config.secrets.redact(&options.command).into_owned(),
        warnings,
        secrets: config.secrets.clone(),
    })
}

/// What requests are made with.
struct Settings {
    /// The server that takes the place of the file's.
    replacement: Option<TargetParts>,
    tls: Option<Verification>,
    targets: Vec<Target>,
    headers: Vec<(String, String)>,
    models: ModelPlan,
    seed: u64,
}

impl Settings {
    fn of(config: &Config, options: &BuildOptions) -> Result<Self, Diagnostics> {
        let endpoint = &config.endpoint;
        let kind = endpoint.kind.unwrap_or_default();
        let replacement = options.target_override.as_deref();
        let replacement = replacement.map(|text| replacement_of(config, text)).transpose()?;
        let server = |url: &Url| replacement.clone().unwrap_or_else(|| TargetParts::of(url));
        let seed = options.seed.or(config.random_seed).unwrap_or_else(draw_u64);
        Ok(Self {
            tls: verification(config, options, &server(&endpoint.urls[0].url))?,
            targets: endpoint
                .urls
                .iter()
                .map(|Address { url, .. }| {
                    target::resolve(&server(url), url, endpoint.path.as_deref().unwrap_or(kind.path()))
                })
                .collect(),
            headers: request_headers(config),
            models: ModelPlan::of(&config.models, dataset::seed(config, seed)),
            seed,
            replacement,
        })
    }

    fn inputs<'a>(&'a self, config: &'a Config) -> RenderInputs<'a> {
        let endpoint = &config.endpoint;
        RenderInputs {
            kind: endpoint.kind.unwrap_or_default(),
            targets: &self.targets,
            models: &self.models,
            streaming: endpoint.streaming.unwrap_or(false),
            close_after: endpoint.connection_reuse == Some(ConnectionReuse::Never),
            use_legacy_max_tokens: endpoint.use_legacy_max_tokens.unwrap_or(false),
            use_server_token_count: endpoint.use_server_token_count.unwrap_or(false),
            headers: &self.headers,
            session_header: endpoint.session_header.as_deref(),
            extra: &endpoint.extra,
            template: endpoint.template.as_ref(),
        }
    }
}

/// A plan but for what no mistake can be in.
struct Resolved<'a> {
    dataset: Dataset<'a>,
    phases: Vec<PhasePlan>,
    readiness: Option<ReadinessPlan>,
    telemetry: TelemetryPlan,
    directory: PathBuf,
    warnings: Vec<String>,
}

/// Everything that can be refused: [`check`] and [`build`] differ in nothing that comes before the end of this.
fn resolve<'a>(
    config: &'a Config,
    options: &BuildOptions,
    settings: &Settings,
    inputs: &'a RenderInputs<'a>,
    bytes: &'a FileBytes,
) -> Result<Resolved<'a>, Diagnostics> {
    check_users(config)?;
    let dataset = dataset::draft(config, inputs, bytes, settings.seed).map_err(|error| match error {
        NoDataset::Mistakes(mistakes) => mistakes,
        NoDataset::Render(error) => render_mistake(config, &error),
    })?;
    let readiness =
        readiness::plan(config, &settings.models, &settings.targets).map_err(|error| render_mistake(config, &error))?;
    let directory = options
        .output_directory
        .clone()
        .unwrap_or_else(|| directory::of(config));
    let directory = std::path::absolute(&directory).map_err(|error| {
        without_place(
            config,
            format!("cannot resolve the artifact directory {}: {error}", directory.display()),
        )
    })?;
    let phases = phases(config, &dataset)?;
    let (telemetry, unasked) = telemetry::plan(config, &settings.targets, settings.replacement.is_some());
    let mut warnings = config.warnings.clone();
    warnings.extend(unasked);
    warnings.extend(slices::check(config, &phases)?);
    warnings.extend(advice::advise(config, &phases));
    warnings.extend((settings.tls == Some(Verification::Off)).then(|| UNVERIFIED.to_owned()));
    let redacted = |warning: String| config.secrets.redact(&warning).into_owned();
    Ok(Resolved {
        dataset,
        phases,
        readiness,
        telemetry,
        directory,
        warnings: warnings.into_iter().map(redacted).collect(),
    })
}

/// The server that takes the place of the file's. It speaks plain HTTP, so the file must not ask for TLS: what is measured would not be what
/// was written.
fn replacement_of(config: &Config, text: &str) -> Result<TargetParts, Diagnostics> {
    let server = TargetParts::parse(text).map_err(|message| without_place(config, message))?;
    if TargetParts::of(&config.endpoint.urls[0].url).is_secure() && !server.is_secure() {
        let message = format!(
            "an https address cannot be replaced with the plain server {}: it speaks no TLS; write http:// for runs with --mock",
            server.origin()
        );
        return Err(mistake(
            config,
            Some(config.endpoint.at),
            "benchmark.endpoint.url",
            message,
        ));
    }
    Ok(server)
}

/// How the server proves who it is.
fn verification(
    config: &Config,
    options: &BuildOptions,
    server: &TargetParts,
) -> Result<Option<Verification>, Diagnostics> {
    if server.is_secure() {
        return Ok(Some(options.verification.clone().unwrap_or_default()));
    }
    let flag = match &options.verification {
        None | Some(Verification::SystemRoots) => return Ok(None),
        Some(Verification::CaFile(_)) => "--ca-file",
        Some(Verification::Off) => "--insecure",
    };
    let message = format!(
        "{flag} is for https addresses, and the server is {}: remove the flag, or write https:// in endpoint.url",
        server.origin()
    );
    Err(without_place(config, message))
}

/// Places a rendering error at the section that caused it.
fn render_mistake(config: &Config, error: &RenderError) -> Diagnostics {
    if let (RenderError::Payload { offset, .. }, Some(template)) = (error, &config.endpoint.template) {
        return config.mistake(
            template.place_of(*offset),
            "benchmark.endpoint.template.body",
            error.to_string(),
        );
    }
    let at = match error {
        RenderError::NoEntries
        | RenderError::Length { .. }
        | RenderError::PromptTooLong { .. }
        | RenderError::CountTooLarge { .. }
        | RenderError::SeveralTurns { .. }
        | RenderError::Misfit { .. }
        | RenderError::PoolOfModels { .. }
        | RenderError::DatasetTooLarge { .. } => config.dataset.at,
        _ => config.endpoint.at,
    };
    // The messages begin with their key, which is relative to the section `benchmark`.
    mistake(config, Some(at), "benchmark", error.to_string())
}

fn without_place(config: &Config, message: String) -> Diagnostics {
    mistake(config, None, "", message)
}

fn mistake(config: &Config, at: Option<Position>, path: &str, message: String) -> Diagnostics {
    let (line, column) = at.map_or((0, 0), |at| (at.line, at.column));
    let diagnostic = Diagnostic {
        line,
        column,
        path: path.to_owned(),
        message,
    };
    Diagnostics::new(config.source.clone(), vec![diagnostic])
}

/// 64 random bits. The standard library seeds its hashers from the operating system and exposes nothing more direct.
fn draw_u64() -> u64 {
    RandomState::new().hash_one(0u8)
}

fn is_fixed(name: &str) -> bool {
    FIXED_HEADERS.iter().any(|fixed| name.eq_ignore_ascii_case(fixed))
}

/// The generated authorisation, where the user writes none, and the user's headers.
fn request_headers(config: &Config) -> Vec<(String, String)> {
    let own = &config.endpoint.headers;
    let has_own = |name: &str| own.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut headers = authorization::headers(&config.endpoint);
    headers.retain(|(name, _)| !has_own(name));
    headers.extend(own.iter().cloned());
    headers
}

/// A limit in seconds, where 0 and infinity mean that there is none.
fn limit(seconds: f64) -> Option<Nanos> {
    (seconds > 0.0 && seconds.is_finite()).then(|| positive(seconds))
}

/// A span that is above zero and stays so when rounded.
fn positive(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds).max(Nanos(1))
}

fn hooks(config: &Config) -> HookPlan {
    let timeout = |seconds: Option<f64>| positive(seconds.unwrap_or(DEFAULT_HOOK_TIMEOUT_S));
    let path = |path: &Option<String>, default: &str| path.clone().unwrap_or_else(|| default.to_owned());
    HookPlan {
        reset_kv_cache: config.endpoint.reset_kv_cache.as_ref().map(|hook| ResetHook {
            path: path(&hook.path, "/reset_prefix_cache"),
            timeout: timeout(hook.timeout_s),
            retry_budget: Nanos::from_secs_f64(hook.max_retry_s.unwrap_or(DEFAULT_RESET_RETRY_S)),
        }),
        server_profiler: config.endpoint.server_profiler.as_ref().map(|hook| ProfilerHook {
            start_path: path(&hook.start_path, "/start_profile"),
            stop_path: path(&hook.stop_path, "/stop_profile"),
            timeout: timeout(hook.timeout_s),
        }),
    }
}

fn phases(config: &Config, dataset: &Dataset<'_>) -> Result<Vec<PhasePlan>, Diagnostics> {
    let mut profiling = 0;
    let resolve = |(index, phase): (usize, &Phase)| -> Result<PhasePlan, Diagnostics> {
        let kind = match phase.kind {
            config::PhaseKind::Warmup => PhaseKind::Warmup,
            config::PhaseKind::Profiling => PhaseKind::Profiling,
        };
        let profiling_index = (kind == PhaseKind::Profiling).then(|| {
            profiling += 1;
            profiling - 1
        });
        let arrival = arrival(config, phase, dataset)?;
        let has_sessions = dataset.has_later_turns() || matches!(arrival, Arrival::UserCentric { .. });
        let scheduled = match &arrival {
            Arrival::FixedSchedule(schedule) => Some(schedule.requests()),
            _ => None,
        };
        Ok(PhasePlan {
            id: PhaseId(u16::try_from(index).expect("the config bounds the number of phases")),
            profiling_index,
            name: phase.name.clone(),
            kind,
            arrival,
            concurrency: most(phase.concurrency, phase, AdaptiveVariable::Concurrency),
            on_cap: match phase.on_cap.unwrap_or_default() {
                config::OnCap::Wait => OnCap::Wait,
                config::OnCap::Drop => OnCap::Drop,
            },
            stop: StopRule {
                // A session of one turn is one request, so the smaller of the two ends the phase.
                requests: match has_sessions {
                    true => phase.requests.into_iter().chain(scheduled).min(),
                    false => phase.requests.into_iter().chain(phase.sessions).chain(scheduled).min(),
                },
                sessions: phase.sessions.filter(|_| has_sessions),
                duration: phase.duration_s.and_then(limit),
            },
            drain: match (phase.grace_period_s, phase.duration_s) {
                (None, _) => DrainRule::WhileProgressing,
                (Some(grace), Some(duration)) if grace.is_finite() && duration.is_finite() => {
                    DrainRule::Grace(Nanos::from_secs_f64(grace))
                }
                // The end of an endless duration plus any grace never comes.
                (Some(_), _) => DrainRule::Unbounded,
            },
            seamless: phase.seamless,
            cancellation: phase.cancellation.map(|cancellation| CancellationPlan {
                probability: cancellation.rate / 100.0,
                delay: Nanos::from_secs_f64(cancellation.delay_s),
            }),
            limits: limits(phase),
        })
    };
    config.phases.iter().enumerate().map(resolve).collect()
}

/// The schedule of a phase, or what keeps the dataset from being one.
fn schedule(
    config: &Config,
    phase: &Phase,
    written: ScheduleWindow,
    dataset: &Dataset<'_>,
) -> Result<Schedule, Diagnostics> {
    let mistake = |key: &str, message: String| config.mistake(phase.at, &format!("{}.{key}", phase.path), message);
    if let Some(sampling) = config
        .dataset
        .sampling
        .filter(|&sampling| sampling != config::Sampling::Sequential)
    {
        let found = sampling.as_str();
        let message = format!(
            "a fixed schedule takes the entries by their timestamps, but dataset.sampling is {found}; remove that key"
        );
        return Err(mistake("type", message));
    }
    if config.dataset.file.as_ref().and_then(|file| file.ignore_trace_delays) == Some(true) {
        let message = "a fixed schedule replays the timestamps of its dataset, but dataset.ignore_trace_delays is true; remove that key, \
                       or use another type of phase";
        return Err(mistake("type", message.to_owned()));
    }
    let times = traces::times(config);
    let window = traces::window(times, written);
    let untimed = || {
        let reason = dataset.untimed();
        let reason = reason.as_deref().unwrap_or("one has none");
        format!("a fixed schedule replays the timestamps of its dataset: {reason}")
    };
    dataset.schedule(window).map_err(|error| match error {
        NoSchedule::NoTimestamp { .. } => mistake("type", untimed()),
        NoSchedule::Empty { first, last } => {
            let key = if written.end_ms.is_some() {
                "end_offset"
            } else {
                "start_offset"
            };
            // To the microsecond, for a division that is undone leaves a rest.
            let written = |time: Nanos| (time.as_millis_f64() * times.speedup() * 1e3).round() / 1e3;
            let (first, last) = (written(first), written(last));
            mistake(
                key,
                format!("no entry of the dataset starts in this window; its timestamps go from {first} to {last} ms"),
            )
        }
    })
}

/// A limit as written, or the highest value that a controller gives it.
fn most(written: Option<u32>, phase: &Phase, variable: AdaptiveVariable) -> Option<NonZeroU32> {
    let adaptive = phase.limits.adaptive.as_ref();
    let controlled = adaptive.filter(|adaptive| adaptive.variable == variable);
    controlled
        .map(|adaptive| AdaptivePlan::whole(adaptive.max))
        .or(written)
        .and_then(NonZeroU32::new)
}

fn limits(phase: &Phase) -> LimitPlan {
    let limits = &phase.limits;
    LimitPlan {
        prefill: most(limits.prefill_concurrency, phase, AdaptiveVariable::PrefillConcurrency),
        concurrency_ramp: limits.concurrency_ramp.map(ramp),
        prefill_ramp: limits.prefill_ramp.map(ramp),
        failure_threshold: limits.failed_request_threshold,
        adaptive: limits
            .adaptive
            .as_ref()
            .map(|written| Arc::new(adaptive::resolve(written))),
    }
}

/// Whether what users say comes as conversations. Known before the dataset is read, and it may be large.
fn check_users(config: &Config) -> Result<(), Diagnostics> {
    let format = config.dataset.file.as_ref().map(|file| file.format.unwrap_or_default());
    if format.is_none_or(|format| format == config::FileFormat::MultiTurn) {
        return Ok(());
    }
    let is_users = |phase: &&Phase| matches!(phase.load, PhaseType::UserCentric { .. });
    match config.phases.iter().find(is_users) {
        None => Ok(()),
        Some(phase) => {
            let message =
                "users need conversations, and records of this dataset are single requests; write format: multi_turn";
            Err(config.mistake(phase.at, &format!("{}.type", phase.path), message.to_owned()))
        }
    }
}

/// When requests of a phase start. A ramp without a duration to speak of still has one.
fn arrival(config: &Config, phase: &Phase, dataset: &Dataset<'_>) -> Result<Arrival, Diagnostics> {
    let gaps = match &phase.load {
        PhaseType::Concurrency => return Ok(Arrival::ClosedLoop),
        PhaseType::FixedSchedule(window) => {
            return schedule(config, phase, *window, dataset).map(Arrival::FixedSchedule);
        }
        PhaseType::UserCentric { users, rate } => {
            return Ok(Arrival::UserCentric {
                users: *users,
                rate: rate.first(),
            });
        }
        PhaseType::Constant { .. } => Gaps::Even,
        PhaseType::Poisson { .. } => Gaps::Exponential,
        PhaseType::Gamma { smoothness, .. } => Gaps::Gamma {
            shape: smoothness.unwrap_or(DEFAULT_SMOOTHNESS),
        },
    };
    let course = match phase.load.rate() {
        Some(config::Rate::Series(points)) => {
            let point = |point: &config::RatePoint| RatePoint {
                time_s: point.time_s,
                rate: point.qps,
            };
            RateCourse::Series(points.iter().map(point).collect())
        }
        Some(config::Rate::Constant(rate)) => RateCourse::Constant(*rate),
        None => unreachable!("every other open loop of a config without mistakes has a rate"),
    };
    let ramp = phase.rate_ramp.map(ramp);
    Ok(Arrival::AtRate {
        gaps,
        rate: RatePlan { course, ramp },
    })
}

fn ramp(ramp: config::Ramp) -> RampPlan {
    RampPlan {
        duration: positive(ramp.duration_s),
        strategy: match ramp.strategy {
            config::RampStrategy::Linear => RampStrategy::Linear,
            config::RampStrategy::Exponential => RampStrategy::Exponential,
            config::RampStrategy::Poisson => RampStrategy::Poisson,
        },
    }
}

#[cfg(test)]
mod tests;
