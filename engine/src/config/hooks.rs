//! `reset_kv_cache` and `server_profiler`, as written: off, on, or on with settings.

use super::decode::{Bounds, Field, Section};
use super::scalar;
use super::schema::{RESET_KV_CACHE, SERVER_PROFILER, Schema};

/// The KV-cache reset with what was written about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResetKvCache {
    /// Path at each origin.
    pub path: Option<String>,
    /// Seconds for one POST.
    pub timeout_s: Option<f64>,
    /// Seconds after the first attempt in which further ones may start.
    pub max_retry_s: Option<f64>,
}

/// The server profiler with what was written about it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerProfiler {
    /// Path that starts the profiler.
    pub start_path: Option<String>,
    /// Path that stops it.
    pub stop_path: Option<String>,
    /// Seconds for one POST.
    pub timeout_s: Option<f64>,
}

pub(super) fn reset_kv_cache(field: &Field<'_>) -> Option<ResetKvCache> {
    match switch(field, &RESET_KV_CACHE)? {
        Switch::On => Some(ResetKvCache::default()),
        Switch::With(section) => Some(ResetKvCache {
            path: section
                .field("path")
                .and_then(|path| hook_path(&path, "/reset_prefix_cache")),
            timeout_s: section
                .field("timeout_seconds")
                .and_then(|field| field.duration(Bounds::POSITIVE)),
            max_retry_s: section
                .field("max_retry_seconds")
                .and_then(|field| field.duration(Bounds::NOT_NEGATIVE)),
        }),
    }
}

pub(super) fn server_profiler(field: &Field<'_>) -> Option<ServerProfiler> {
    match switch(field, &SERVER_PROFILER)? {
        Switch::On => Some(ServerProfiler::default()),
        Switch::With(section) => Some(ServerProfiler {
            start_path: section
                .field("start_path")
                .and_then(|path| hook_path(&path, "/start_profile")),
            stop_path: section
                .field("stop_path")
                .and_then(|path| hook_path(&path, "/stop_profile")),
            timeout_s: section
                .field("timeout_seconds")
                .and_then(|field| field.duration(Bounds::POSITIVE)),
        }),
    }
}

enum Switch<'t> {
    On,
    With(Section<'t>),
}

/// Off (`None`), on, or a mapping. A quoted word is text and not a boolean here: the field has three types, so the quotes are
/// all that tells a mistake from a switch.
fn switch<'t>(field: &Field<'t>, schema: &'static Schema) -> Option<Switch<'t>> {
    let allowed = format!("true, false, or a mapping with the keys {}", schema.keys.join(", "));
    match field.node.scalar() {
        Some(scalar) => match scalar::boolean(&scalar.text).filter(|_| field.is_unquoted()) {
            Some(true) => Some(Switch::On),
            Some(false) => None,
            None => {
                let quoted = !field.is_unquoted() && scalar::boolean(&scalar.text).is_some();
                field.mistake(&format!("{allowed}{}", if quoted { "; remove the quotes" } else { "" }));
                None
            }
        },
        None if matches!(field.node.value, super::tree::Value::Sequence(_)) => {
            field.mistake(&allowed);
            None
        }
        None => field.section(schema).map(Switch::With),
    }
}

/// A path that stays on the server it is joined to, however a client resolves it.
fn hook_path(field: &Field<'_>, example: &str) -> Option<String> {
    let path = field.scalar("a path that starts with `/`")?.text.as_str();
    match hook_path_fault(path) {
        None => Some(path.to_owned()),
        Some(fault) => {
            field.mistake(&format!("a path on the server, such as {example}; {fault}"));
            None
        }
    }
}

pub(super) fn hook_path_fault(path: &str) -> Option<&'static str> {
    let before_query = path.split('?').next().unwrap_or("");
    if path.contains("://") {
        Some("it must not be a URL or contain `://`")
    } else if !path.starts_with('/') {
        Some("it must start with `/`")
    } else if path.starts_with("//") {
        Some("it must not start with `//`, which names another host")
    } else if !path.bytes().all(|b| b.is_ascii_graphic()) {
        Some("spaces, control characters and non-ASCII characters must be percent-encoded")
    } else if path.contains('#') {
        Some("it must not have a fragment (`#`)")
    } else if before_query
        .split('/')
        .any(|segment| matches!(segment.to_ascii_lowercase().as_str(), ".." | "%2e%2e" | ".%2e" | "%2e."))
    {
        Some("it must not have a `..` segment")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_paths_stay_on_their_server() {
        for good in ["/reset", "/v1/admin/reset?scope=all", "/a..b/c", "/"] {
            assert_eq!(hook_path_fault(good), None, "{good}");
        }
        for bad in [
            "",
            "reset",
            "//evil.example/x",
            "/x?u=http://y",
            "http://h/x",
            "/a b",
            "/a\tb",
            "/a#f",
            "/../x",
            "/a/..",
            "/%2E%2e/x",
            "/caf\u{e9}",
        ] {
            assert!(hook_path_fault(bad).is_some(), "{bad}");
        }
    }
}
