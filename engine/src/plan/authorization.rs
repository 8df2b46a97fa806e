//! The `Authorization` header of a config: a bearer token, or basic credentials from the URL.

use crate::config::{Endpoint, base64};

/// The header's value, if the config asks for one.
pub(super) fn value(endpoint: &Endpoint) -> Option<String> {
    if let Some(key) = &endpoint.api_key {
        return Some(format!("Bearer {key}"));
    }
    let (user, password) = endpoint.urls.first()?.url.credentials.as_ref()?;
    Some(format!("Basic {}", base64(format!("{user}:{password}").as_bytes())))
}
