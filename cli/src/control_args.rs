//! Flags of control traffic: hooks around the load, and the wait for the server before it.

use crate::engine::{ControlFlags, ReadinessMode, ServerPreset, control_path, positive_seconds, retry_seconds};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Control hooks and readiness")]
pub(crate) struct ControlArgs {
    /// Reset the server's KV cache once, before anything else is sent: POST /reset_prefix_cache at each server.
    ///
    /// A server that is busy (409, 423, 429, 503) or does not answer is asked again within the retry budget; if it cannot be reset, nothing is
    /// measured. `--reset-kv-cache=false` turns a reset of the config file off.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    reset_kv_cache: Option<bool>,

    /// Path of the reset at each server, starting with / [default: /reset_prefix_cache]. Turns the reset on.
    #[arg(long, value_name = "PATH", value_parser = control_path)]
    reset_kv_cache_path: Option<String>,

    /// Seconds that one reset call may take [default: 30]. Turns the reset on.
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    reset_kv_cache_timeout_seconds: Option<f64>,

    /// Seconds after the first reset call in which further ones may start, 0 for a single one [default: 60]. Turns the reset on.
    #[arg(long, value_name = "SECONDS", value_parser = retry_seconds)]
    reset_kv_cache_max_retry_seconds: Option<f64>,

    /// Start the server's profiler before each profiling phase and stop it after: POST /start_profile and /stop_profile at each server.
    ///
    /// Warmup phases are not profiled; a chain of seamless phases is profiled as one. A failed start ends the run, a failed stop is a warning.
    /// `--server-profiler=false` turns a profiler of the config file off.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    server_profiler: Option<bool>,

    /// Path that starts the profiler [default: /start_profile]. Turns the profiler on.
    #[arg(long, value_name = "PATH", value_parser = control_path)]
    server_profiler_start_path: Option<String>,

    /// Path that stops the profiler [default: /stop_profile]. Turns the profiler on.
    #[arg(long, value_name = "PATH", value_parser = control_path)]
    server_profiler_stop_path: Option<String>,

    /// Seconds that one profiler call may take [default: 30]. Turns the profiler on. A stop may have to write a large trace first.
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    server_profiler_timeout_seconds: Option<f64>,

    /// Paths of the control hooks for this server, where neither the config file nor a flag gives them. Turns no hook on.
    #[arg(long, value_name = "SERVER")]
    server_preset: Option<PresetFlag>,

    /// Seconds to wait for each server and model before anything else is sent, 0 for not at all [default: 0].
    ///
    /// A server that is not ready by then ends the run with one line that says what the last probe came to.
    #[arg(long, value_name = "SECONDS", value_parser = retry_seconds)]
    wait_for_model_timeout: Option<f64>,

    /// Seconds from one probe of a server to the next [default: 5].
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    wait_for_model_interval: Option<f64>,

    /// What makes a server ready [default: inference].
    #[arg(long, value_name = "MODE")]
    wait_for_model_mode: Option<ModeFlag>,
}

/// The words of `--server-preset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PresetFlag {
    /// /reset_prefix_cache (needs VLLM_SERVER_DEV_MODE=1), /start_profile, /stop_profile
    Vllm,
    /// /flush_cache, /start_profile, /stop_profile
    Sglang,
}

/// The words of `--wait-for-model-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ModeFlag {
    /// it answers a request for one token with any status below 500
    Inference,
    /// GET /v1/models lists the model; if there is no such route, the server answers at all
    Models,
    /// both, the list first
    Both,
}

impl ControlArgs {
    /// The flags as the engine takes them.
    pub(crate) fn flags(&self) -> ControlFlags {
        ControlFlags {
            reset_kv_cache: self.reset_kv_cache,
            reset_path: self.reset_kv_cache_path.clone(),
            reset_timeout_s: self.reset_kv_cache_timeout_seconds,
            reset_max_retry_s: self.reset_kv_cache_max_retry_seconds,
            server_profiler: self.server_profiler,
            profiler_start_path: self.server_profiler_start_path.clone(),
            profiler_stop_path: self.server_profiler_stop_path.clone(),
            profiler_timeout_s: self.server_profiler_timeout_seconds,
            server_preset: self.server_preset.map(|preset| match preset {
                PresetFlag::Vllm => ServerPreset::Vllm,
                PresetFlag::Sglang => ServerPreset::Sglang,
            }),
            wait_timeout_s: self.wait_for_model_timeout,
            wait_interval_s: self.wait_for_model_interval,
            wait_mode: self.wait_for_model_mode.map(|mode| match mode {
                ModeFlag::Inference => ReadinessMode::Inference,
                ModeFlag::Models => ReadinessMode::Models,
                ModeFlag::Both => ReadinessMode::Both,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser as _, error::ErrorKind};

    use super::*;
    use crate::args::{Args, Command};

    fn flags(line: &str) -> Result<ControlFlags, (ErrorKind, String)> {
        let words = ["ringload", "profile", "--mock"]
            .into_iter()
            .chain(line.split_whitespace());
        match Args::try_parse_from(words) {
            Ok(Args {
                command: Command::Profile(profile),
            }) => Ok(profile.control.flags()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err((error.kind(), error.to_string())),
        }
    }

    #[test]
    fn every_flag_of_the_hooks_reaches_the_engine() {
        let given = flags(
            "--reset-kv-cache --reset-kv-cache-path /r --reset-kv-cache-timeout-seconds 1.5 --reset-kv-cache-max-retry-seconds 2m \
             --server-profiler --server-profiler-start-path /a --server-profiler-stop-path /b --server-profiler-timeout-seconds 3s \
             --server-preset sglang --wait-for-model-timeout 60 --wait-for-model-interval 500ms --wait-for-model-mode both",
        );
        let expected = ControlFlags {
            reset_kv_cache: Some(true),
            reset_path: Some("/r".to_owned()),
            reset_timeout_s: Some(1.5),
            reset_max_retry_s: Some(120.0),
            server_profiler: Some(true),
            profiler_start_path: Some("/a".to_owned()),
            profiler_stop_path: Some("/b".to_owned()),
            profiler_timeout_s: Some(3.0),
            server_preset: Some(ServerPreset::Sglang),
            wait_timeout_s: Some(60.0),
            wait_interval_s: Some(0.5),
            wait_mode: Some(ReadinessMode::Both),
        };
        assert_eq!(given, Ok(expected));
    }

    #[test]
    fn without_flags_the_file_decides_and_a_switch_can_be_turned_off() {
        assert_eq!(flags(""), Ok(ControlFlags::default()));
        let off = flags("--reset-kv-cache=false --server-profiler=false").expect("valid");
        assert_eq!((off.reset_kv_cache, off.server_profiler), (Some(false), Some(false)));
    }

    #[test]
    fn mistakes_say_what_is_allowed() {
        for (line, words) in [
            ("--reset-kv-cache-path http://h/x", "a path on the server"),
            ("--server-profiler-start-path //h/x", "names another host"),
            ("--server-profiler-stop-path stop", "must start with `/`"),
            ("--reset-kv-cache-timeout-seconds 0", "above 0"),
            ("--server-profiler-timeout-seconds inf", "above 0"),
            ("--reset-kv-cache-max-retry-seconds=-1", "at least 0"),
            ("--wait-for-model-interval 0", "above 0"),
            ("--wait-for-model-mode model", "models"),
            ("--server-preset tgi", "vllm, sglang"),
        ] {
            let (_, text) = flags(line).expect_err(line);
            assert!(text.contains(words), "{line}: {text}");
        }
    }
}
