//! From the file as written to what will happen: defaults filled, units converted, requests rendered, one identity drawn.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::render::{DEFAULT_ISL, RenderError, RenderInputs, render_synthetic};
use super::target::{self, TargetParts};
use super::{
    Arrival, ArtifactPlan, CancellationPlan, DrainRule, EndpointKind, EndpointPlan, HookPlan, PhaseKind, PhasePlan,
    Plan, ProfilerHook, ResetHook, StopRule, Verification, advice, authorization, directory, echo,
};
use crate::config::{
    self, Config, ConnectionReuse, Diagnostic, Diagnostics, FIXED_HEADERS, Phase, PhaseType, Position,
};
use crate::dataset::{DelayDistribution, LengthDistribution, Synthetic};
use crate::id::PhaseId;
use crate::units::Nanos;

/// Prompts of a synthetic dataset that does not say how many.
const DEFAULT_ENTRIES: u32 = 100;
/// Seconds that a request may take when the file does not say.
const DEFAULT_REQUEST_TIMEOUT_S: f64 = 21_600.0;
/// Seconds that a control call may take when the file does not say; independent of the request timeout.
const DEFAULT_HOOK_TIMEOUT_S: f64 = 30.0;
/// Seconds in which a busy server is asked again to reset its cache.
const DEFAULT_RESET_RETRY_S: f64 = 60.0;

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
}

/// Resolves a file into a plan.
///
/// # Errors
/// Mistakes that show only when everything is put together, with their places.
pub fn build(config: &Config, options: &BuildOptions) -> Result<Plan, Diagnostics> {
    let endpoint = &config.endpoint;
    let server = match &options.target_override {
        None => TargetParts::of(&endpoint.url),
        Some(text) => replacement(config, text)?,
    };
    let tls = verification(config, options, &server)?;
    let target = target::resolve(&server, &endpoint.url, endpoint.path.as_deref());
    let headers = request_headers(config);
    let seed = options.seed.or(config.random_seed).unwrap_or_else(draw_u64);
    let length = |length| match length {
        config::Length::Fixed(tokens) => LengthDistribution::Fixed(tokens),
        config::Length::Normal { mean, stddev } => LengthDistribution::Normal { mean, stddev },
    };
    let connection_reuse = endpoint.connection_reuse.unwrap_or_default();
    let inputs = RenderInputs {
        target: &target,
        model: config.models.first().expect("a config without mistakes has a model"),
        streaming: endpoint.streaming.unwrap_or(false),
        close_after: connection_reuse == ConnectionReuse::Never,
        use_legacy_max_tokens: endpoint.use_legacy_max_tokens.unwrap_or(false),
        headers: &headers,
        session_header: endpoint.session_header.as_deref(),
        extra: &endpoint.extra,
    };
    let dataset = Synthetic {
        entries: config.dataset.entries.unwrap_or(DEFAULT_ENTRIES),
        isl: config.dataset.isl.map_or(DEFAULT_ISL, length),
        osl: config.dataset.osl.map(length),
        turns: config.dataset.turns.map_or(LengthDistribution::Fixed(1), length),
        turn_delay: config
            .dataset
            .turn_delay
            .map_or_else(DelayDistribution::default, |delay| DelayDistribution {
                mean_ms: delay.mean_ms,
                stddev_ms: delay.stddev_ms,
                ratio: config.dataset.turn_delay_ratio.unwrap_or(1.0),
            }),
        // Any whole number seeds a dataset; the bits of a negative one serve as well as those of a positive.
        seed: config.dataset.random_seed.map_or(seed, i64::cast_unsigned),
    };
    let requests = render_synthetic(&inputs, &dataset).map_err(|error| render_mistake(config, &error))?;
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
    let phases = phases(&config.phases, requests.conversations.has_later_turns());
    let mut warnings = config.warnings.clone();
    warnings.extend(advice::advise(config, &phases));
    warnings.extend((tls == Some(Verification::Off)).then(|| UNVERIFIED.to_owned()));
    Ok(Plan {
        benchmark_id: options
            .benchmark_id
            .clone()
            .unwrap_or_else(|| format!("{:012x}", draw_u64() >> 16)),
        seed,
        models: config.models.clone(),
        endpoint: EndpointPlan {
            kind: EndpointKind::Chat,
            streaming: endpoint.streaming.unwrap_or(false),
            connection_reuse,
            request_timeout: limit(endpoint.timeout_s.unwrap_or(DEFAULT_REQUEST_TIMEOUT_S)),
            tls,
            control_headers: headers.into_iter().filter(|(name, _)| !is_fixed(name)).collect(),
            target,
        },
        requests,
        phases,
        hooks: hooks(config),
        artifacts: ArtifactPlan {
            directory,
            overwrite: options.overwrite,
            summary_json: config.artifacts.summary.unwrap_or(true),
            records: config.artifacts.records.unwrap_or(true),
            prefix: config.artifacts.prefix.as_deref().map(directory::base_name),
        },
        input_config: echo::input_config(config, options.output_directory.as_deref(), &server),
        command: options.command.clone(),
        warnings,
    })
}

/// The server that takes the place of the file's. It speaks plain HTTP, so the file must not ask for TLS: what is measured would not be what
/// was written.
fn replacement(config: &Config, text: &str) -> Result<TargetParts, Diagnostics> {
    let server = TargetParts::parse(text).map_err(|message| without_place(config, message))?;
    if TargetParts::of(&config.endpoint.url).is_secure() && !server.is_secure() {
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
    let at = match error {
        RenderError::NoEntries
        | RenderError::Length { .. }
        | RenderError::PromptTooLong { .. }
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

/// The generated authorisation, unless the user writes one, and the user's headers.
fn request_headers(config: &Config) -> Vec<(String, String)> {
    let own = &config.endpoint.headers;
    let has_own = own.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let generated = authorization::value(&config.endpoint).filter(|_| !has_own);
    generated
        .map(|value| ("Authorization".to_owned(), value))
        .into_iter()
        .chain(own.iter().cloned())
        .collect()
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

fn phases(written: &[Phase], has_later_turns: bool) -> Vec<PhasePlan> {
    let has_sessions = |phase: &Phase| has_later_turns || matches!(phase.load, PhaseType::UserCentric { .. });
    let mut profiling = 0;
    let resolve = |(index, phase): (usize, &Phase)| {
        let kind = match phase.kind {
            config::PhaseKind::Warmup => PhaseKind::Warmup,
            config::PhaseKind::Profiling => PhaseKind::Profiling,
        };
        let profiling_index = (kind == PhaseKind::Profiling).then(|| {
            profiling += 1;
            profiling - 1
        });
        PhasePlan {
            id: PhaseId(u16::try_from(index).expect("the config bounds the number of phases")),
            profiling_index,
            name: phase.name.clone(),
            kind,
            arrival: match phase.load {
                PhaseType::Concurrency => Arrival::ClosedLoop,
                PhaseType::Constant { rate } => Arrival::Constant { rate },
                PhaseType::Poisson { rate } => Arrival::Poisson { rate },
                PhaseType::UserCentric { users, rate } => Arrival::UserCentric { users, rate },
            },
            concurrency: phase.concurrency.and_then(NonZeroU32::new),
            stop: StopRule {
                // A session of one turn is one request, so the smaller of the two ends the phase.
                requests: match has_sessions(phase) {
                    true => phase.requests,
                    false => phase.requests.into_iter().chain(phase.sessions).min(),
                },
                sessions: phase.sessions.filter(|_| has_sessions(phase)),
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
        }
    };
    written.iter().enumerate().map(resolve).collect()
}

#[cfg(test)]
mod tests;
