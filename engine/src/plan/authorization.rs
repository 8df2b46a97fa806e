//! The headers that prove who asks: a key in the form of the API, or basic credentials from the URL.

use crate::config::{Endpoint, EndpointType, base64};

/// The version of the messages API that requests are written for; it wants to be told.
const MESSAGES_VERSION: &str = "2023-06-01";

/// The headers that the endpoint's key, URL and type ask for.
pub(super) fn headers(endpoint: &Endpoint) -> Vec<(String, String)> {
    let kind = endpoint.kind.unwrap_or_default();
    let credentials = || endpoint.urls.first()?.url.credentials.as_ref();
    let header = |name: &str, value: String| Some((name.to_owned(), value));
    let proof = match (&endpoint.api_key, kind) {
        (Some(key), EndpointType::Messages) => header("x-api-key", key.clone()),
        (Some(key), _) => header("Authorization", format!("Bearer {key}")),
        (None, _) => credentials().and_then(|(user, password)| {
            let encoded = base64(format!("{user}:{password}").as_bytes());
            header("Authorization", format!("Basic {encoded}"))
        }),
    };
    let version = (kind == EndpointType::Messages).then(|| header("anthropic-version", MESSAGES_VERSION.to_owned()));
    proof.into_iter().chain(version.flatten()).collect()
}
