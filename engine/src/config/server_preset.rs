//! Servers whose control routes are known, for people who do not want to look them up.

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

impl Config {
    /// Fills the paths that nobody gave.
    ///
    /// # Errors
    /// If no hook is on that could have a path.
    pub(super) fn apply_preset(&mut self, preset: ServerPreset) -> Result<(), Diagnostics> {
        let endpoint = &mut self.endpoint;
        if endpoint.reset_kv_cache.is_none() && endpoint.server_profiler.is_none() {
            let message = format!(
                "--server-preset {} fills the paths of control hooks, and none is on: add --reset-kv-cache or --server-profiler",
                preset.as_str()
            );
            let placeless = Diagnostic {
                line: 0,
                column: 0,
                path: String::new(),
                message,
            };
            return Err(Diagnostics::new(self.source.clone(), vec![placeless]));
        }
        if let Some(hook) = &mut endpoint.reset_kv_cache {
            hook.path.get_or_insert_with(|| preset.reset_path().to_owned());
        }
        if let Some(hook) = &mut endpoint.server_profiler {
            let [start, stop] = preset.profiler_paths();
            hook.start_path.get_or_insert_with(|| start.to_owned());
            hook.stop_path.get_or_insert_with(|| stop.to_owned());
        }
        Ok(())
    }
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

    #[test]
    fn a_preset_fills_the_paths_that_nobody_gave() {
        let applied = |hooks: &str, preset| {
            let mut config = config(hooks);
            config
                .apply_preset(preset)
                .unwrap_or_else(|mistakes| panic!("{mistakes}"));
            config
        };
        for (server, path) in [
            (ServerPreset::Vllm, "/reset_prefix_cache"),
            (ServerPreset::Sglang, "/flush_cache"),
        ] {
            let config = applied(", reset_kv_cache: true, server_profiler: {stop_path: /halt}", server);
            let reset = config.endpoint.reset_kv_cache.and_then(|hook| hook.path);
            assert_eq!(reset.as_deref(), Some(path));
            let profiler = config.endpoint.server_profiler.expect("it is on");
            assert_eq!(
                (profiler.start_path.as_deref(), profiler.stop_path.as_deref()),
                (Some("/start_profile"), Some("/halt"))
            );
        }
        let own = applied(", reset_kv_cache: {path: /mine}", ServerPreset::Sglang);
        let path = own.endpoint.reset_kv_cache.and_then(|hook| hook.path);
        assert_eq!(path.as_deref(), Some("/mine"));
        let mistake = config("").apply_preset(ServerPreset::Vllm);
        let text = mistake.expect_err("no hook is on").to_string();
        assert!(text.contains("--server-preset vllm fills the paths"), "{text}");
    }
}
