//! What a command line says about control traffic, over the file: hooks, and the wait for the server.

use super::decode::Bounds;
use super::hooks::{ResetKvCache, ServerProfiler, hook_path_fault};
use super::readiness::ReadinessMode;
use super::scalar::{self, Fault};
use super::{Config, Diagnostic, Diagnostics};

/// A server whose control routes are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPreset {
    /// vLLM's API server.
    Vllm,
    /// SGLang's HTTP server.
    Sglang,
}

impl ServerPreset {
    /// The word of the flag.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
        }
    }

    fn reset_path(self) -> &'static str {
        match self {
            Self::Vllm => "/reset_prefix_cache",
            Self::Sglang => "/flush_cache",
        }
    }

    /// Both servers have the same routes.
    fn profiler_paths(self) -> [&'static str; 2] {
        ["/start_profile", "/stop_profile"]
    }
}

/// The flags as given. Paths and seconds have passed [`control_path`], [`positive_seconds`] and [`retry_seconds`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlFlags {
    /// `--reset-kv-cache`, or its negation.
    pub reset_kv_cache: Option<bool>,
    /// `--reset-kv-cache-path`.
    pub reset_path: Option<String>,
    /// `--reset-kv-cache-timeout-seconds`.
    pub reset_timeout_s: Option<f64>,
    /// `--reset-kv-cache-max-retry-seconds`.
    pub reset_max_retry_s: Option<f64>,
    /// `--server-profiler`, or its negation.
    pub server_profiler: Option<bool>,
    /// `--server-profiler-start-path`.
    pub profiler_start_path: Option<String>,
    /// `--server-profiler-stop-path`.
    pub profiler_stop_path: Option<String>,
    /// `--server-profiler-timeout-seconds`.
    pub profiler_timeout_s: Option<f64>,
    /// `--server-preset`.
    pub server_preset: Option<ServerPreset>,
    /// `--wait-for-model-timeout`.
    pub wait_timeout_s: Option<f64>,
    /// `--wait-for-model-interval`.
    pub wait_interval_s: Option<f64>,
    /// `--wait-for-model-mode`.
    pub wait_mode: Option<ReadinessMode>,
}

/// A path of a control hook.
///
/// # Errors
/// What is wrong with it and what is allowed.
pub fn control_path(text: &str) -> Result<String, String> {
    match hook_path_fault(text) {
        None => Ok(text.to_owned()),
        Some(fault) => Err(format!(
            "{fault}; allowed: a path on the server, such as /reset_prefix_cache"
        )),
    }
}

/// A span above zero.
///
/// # Errors
/// What is wrong with it and what is allowed.
pub fn positive_seconds(text: &str) -> Result<f64, String> {
    seconds(text, Bounds::POSITIVE)
}

/// A span of zero or more.
///
/// # Errors
/// What is wrong with it and what is allowed.
pub fn retry_seconds(text: &str) -> Result<f64, String> {
    seconds(text, Bounds::NOT_NEGATIVE)
}

fn seconds(text: &str, bounds: Bounds) -> Result<f64, String> {
    let allowed = bounds.of_duration();
    match scalar::duration(text) {
        Ok(seconds) if bounds.contains(seconds) => Ok(seconds),
        Ok(_) | Err(Fault::NoMatch) => Err(format!("allowed: {allowed}")),
        Err(Fault::Advice(advice)) => Err(format!("allowed: {allowed}; {advice}")),
    }
}

impl Config {
    /// Puts the flags over the file. A path, timeout or budget turns its hook on, whatever the file says.
    ///
    /// # Errors
    /// Flags that contradict one another or would change nothing.
    pub fn apply_control_flags(&mut self, flags: &ControlFlags) -> Result<(), Diagnostics> {
        let mut mistakes = Vec::new();
        self.apply_reset(flags, &mut mistakes);
        self.apply_profiler(flags, &mut mistakes);
        self.apply_preset(flags, &mut mistakes);
        self.apply_wait(flags, &mut mistakes);
        if mistakes.is_empty() {
            return Ok(());
        }
        let placeless = |message| Diagnostic {
            line: 0,
            column: 0,
            path: String::new(),
            message,
        };
        Err(Diagnostics::new(
            self.source.clone(),
            mistakes.into_iter().map(placeless).collect(),
        ))
    }

    fn apply_reset(&mut self, flags: &ControlFlags, mistakes: &mut Vec<String>) {
        let has_settings =
            flags.reset_path.is_some() || flags.reset_timeout_s.is_some() || flags.reset_max_retry_s.is_some();
        let written = &mut self.endpoint.reset_kv_cache;
        match (flags.reset_kv_cache, has_settings) {
            (Some(false), true) => mistakes.push(contradiction("--reset-kv-cache")),
            (Some(false), false) => *written = None,
            (None, false) => {}
            (Some(true), _) | (None, true) => {
                let hook = written.get_or_insert_with(ResetKvCache::default);
                set(&mut hook.path, &flags.reset_path);
                set(&mut hook.timeout_s, &flags.reset_timeout_s);
                set(&mut hook.max_retry_s, &flags.reset_max_retry_s);
            }
        }
    }

    fn apply_profiler(&mut self, flags: &ControlFlags, mistakes: &mut Vec<String>) {
        let has_settings = flags.profiler_start_path.is_some()
            || flags.profiler_stop_path.is_some()
            || flags.profiler_timeout_s.is_some();
        let written = &mut self.endpoint.server_profiler;
        match (flags.server_profiler, has_settings) {
            (Some(false), true) => mistakes.push(contradiction("--server-profiler")),
            (Some(false), false) => *written = None,
            (None, false) => {}
            (Some(true), _) | (None, true) => {
                let hook = written.get_or_insert_with(ServerProfiler::default);
                set(&mut hook.start_path, &flags.profiler_start_path);
                set(&mut hook.stop_path, &flags.profiler_stop_path);
                set(&mut hook.timeout_s, &flags.profiler_timeout_s);
            }
        }
    }

    /// Fills the paths that nobody gave.
    fn apply_preset(&mut self, flags: &ControlFlags, mistakes: &mut Vec<String>) {
        let Some(preset) = flags.server_preset else { return };
        let endpoint = &mut self.endpoint;
        if endpoint.reset_kv_cache.is_none() && endpoint.server_profiler.is_none() {
            mistakes.push(format!(
                "--server-preset {} fills the paths of control hooks, and none is on: add --reset-kv-cache or --server-profiler",
                preset.as_str()
            ));
        }
        if let Some(hook) = &mut endpoint.reset_kv_cache {
            hook.path.get_or_insert_with(|| preset.reset_path().to_owned());
        }
        if let Some(hook) = &mut endpoint.server_profiler {
            let [start, stop] = preset.profiler_paths();
            hook.start_path.get_or_insert_with(|| start.to_owned());
            hook.stop_path.get_or_insert_with(|| stop.to_owned());
        }
    }

    fn apply_wait(&mut self, flags: &ControlFlags, mistakes: &mut Vec<String>) {
        let wait = &mut self.endpoint.wait_for_model;
        set(&mut wait.timeout_s, &flags.wait_timeout_s);
        set(&mut wait.interval_s, &flags.wait_interval_s);
        set(&mut wait.mode, &flags.wait_mode);
        if !wait.is_on() {
            let given = [
                ("--wait-for-model-interval", flags.wait_interval_s.is_some()),
                ("--wait-for-model-mode", flags.wait_mode.is_some()),
            ];
            for (flag, _) in given.into_iter().filter(|(_, given)| *given) {
                mistakes.push(format!(
                    "{flag} has no effect without a --wait-for-model-timeout above 0: add it, or remove the flag"
                ));
            }
        }
    }
}

fn set<T: Clone>(written: &mut Option<T>, flag: &Option<T>) {
    if flag.is_some() {
        written.clone_from(flag);
    }
}

fn contradiction(flag: &str) -> String {
    format!("{flag}=false turns the hook off, and another flag sets how it works: keep one of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(hooks: &str) -> Config {
        let text = format!(
            "benchmark:\n  model: m\n  endpoint: {{url: h{hooks}}}\n  dataset: {{entries: 1, isl: 8}}\n  phases:\n    \
             - {{name: profiling, type: concurrency, requests: 1}}\n"
        );
        crate::config::parse("f.yaml", text.as_bytes(), &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn applied(hooks: &str, flags: ControlFlags) -> Config {
        let mut config = config(hooks);
        config
            .apply_control_flags(&flags)
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        config
    }

    fn refused(hooks: &str, flags: ControlFlags) -> String {
        let mistakes = config(hooks).apply_control_flags(&flags);
        mistakes.expect_err("the flags make no sense together").to_string()
    }

    #[test]
    fn a_setting_turns_its_hook_on_and_keeps_what_the_file_says_beside_it() {
        let flags = ControlFlags {
            reset_timeout_s: Some(3.0),
            profiler_stop_path: Some("/halt".to_owned()),
            ..ControlFlags::default()
        };
        let config = applied(", reset_kv_cache: {path: /mine}, server_profiler: false", flags);
        let reset = ResetKvCache {
            path: Some("/mine".to_owned()),
            timeout_s: Some(3.0),
            max_retry_s: None,
        };
        assert_eq!(config.endpoint.reset_kv_cache, Some(reset));
        let profiler = ServerProfiler {
            stop_path: Some("/halt".to_owned()),
            ..ServerProfiler::default()
        };
        assert_eq!(config.endpoint.server_profiler, Some(profiler));
    }

    #[test]
    fn a_switch_turns_a_hook_on_with_defaults_keeps_a_mapping_and_turns_it_off() {
        let on = ControlFlags {
            reset_kv_cache: Some(true),
            server_profiler: Some(true),
            ..ControlFlags::default()
        };
        let config = applied(", server_profiler: {start_path: /go}", on);
        assert_eq!(config.endpoint.reset_kv_cache, Some(ResetKvCache::default()));
        let start = config.endpoint.server_profiler.and_then(|hook| hook.start_path);
        assert_eq!(start.as_deref(), Some("/go"));
        let off = ControlFlags {
            reset_kv_cache: Some(false),
            server_profiler: Some(false),
            ..ControlFlags::default()
        };
        let config = applied(", reset_kv_cache: true, server_profiler: {start_path: /go}", off);
        assert_eq!(
            (config.endpoint.reset_kv_cache, config.endpoint.server_profiler),
            (None, None)
        );
    }

    #[test]
    fn a_preset_fills_the_paths_that_nobody_gave() {
        let preset = |preset| ControlFlags {
            server_preset: Some(preset),
            ..ControlFlags::default()
        };
        for (server, path) in [
            (ServerPreset::Vllm, "/reset_prefix_cache"),
            (ServerPreset::Sglang, "/flush_cache"),
        ] {
            let config = applied(
                ", reset_kv_cache: true, server_profiler: {stop_path: /halt}",
                preset(server),
            );
            let reset = config.endpoint.reset_kv_cache.and_then(|hook| hook.path);
            assert_eq!(reset.as_deref(), Some(path));
            let profiler = config.endpoint.server_profiler.expect("it is on");
            assert_eq!(
                (profiler.start_path.as_deref(), profiler.stop_path.as_deref()),
                (Some("/start_profile"), Some("/halt"))
            );
        }
        let config = applied(", reset_kv_cache: {path: /mine}", preset(ServerPreset::Sglang));
        assert_eq!(
            config.endpoint.reset_kv_cache.and_then(|hook| hook.path).as_deref(),
            Some("/mine")
        );
        assert!(refused("", preset(ServerPreset::Vllm)).contains("--server-preset vllm fills the paths"));
    }

    #[test]
    fn flags_that_contradict_or_change_nothing_are_refused_together() {
        let flags = ControlFlags {
            reset_kv_cache: Some(false),
            reset_path: Some("/x".to_owned()),
            server_profiler: Some(false),
            profiler_timeout_s: Some(1.0),
            wait_interval_s: Some(1.0),
            wait_mode: Some(ReadinessMode::Both),
            ..ControlFlags::default()
        };
        let text = refused("", flags);
        for part in [
            "--reset-kv-cache=false turns the hook off",
            "--server-profiler=false turns the hook off",
            "--wait-for-model-interval has no effect",
            "--wait-for-model-mode has no effect",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn values_of_flags_are_checked_like_those_of_the_file() {
        assert_eq!(positive_seconds("1m30s"), Ok(90.0));
        assert_eq!(retry_seconds("0"), Ok(0.0));
        for bad in ["0", "-1", "inf", "x", "1d", "1:30"] {
            assert!(
                positive_seconds(bad).is_err_and(|text| text.contains("above 0")),
                "{bad}"
            );
        }
        assert!(retry_seconds("-1").is_err());
        for bad in ["http://h/x", "//h/x", "/a b", "reset", "/../x"] {
            assert!(
                control_path(bad).is_err_and(|text| text.contains("a path on the server")),
                "{bad}"
            );
        }
        assert_eq!(control_path("/reset?hard=1").as_deref(), Ok("/reset?hard=1"));
    }
}
