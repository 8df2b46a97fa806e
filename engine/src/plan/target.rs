//! The URL of requests: the address of the config joined with the path of the API.

use super::Target;
use crate::config::{Scheme, Url};

/// Scheme, host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetParts {
    scheme: Scheme,
    host: String,
    port: u16,
    authority: String,
}

impl TargetParts {
    pub(super) fn of(url: &Url) -> Self {
        Self {
            scheme: url.scheme,
            host: url.host.clone(),
            port: url.port,
            authority: url.authority(),
        }
    }

    /// # Errors
    /// Why `text` is no address.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Url::parse(text)
            .map(|url| Self::of(&url))
            .map_err(|fault| format!("the address that replaces endpoint.url cannot be used: {fault}"))
    }

    pub(super) fn is_secure(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// `scheme://host:port`, the port left out when it is the default.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.authority)
    }
}

/// Joins the address with the path of requests: that of the API, or the config's own.
pub(super) fn resolve(server: &TargetParts, url: &Url, path: &str) -> Target {
    let path = join(&url.path, url.query.as_deref(), path);
    let origin = server.origin();
    Target {
        url: format!("{origin}{path}"),
        host: server.host.clone(),
        port: server.port,
        authority: server.authority.clone(),
        path,
        origin,
    }
}

/// A base that ends with the API's path already is used as it is; a base that ends with `/v1` does not get a second one. Queries
/// of both are kept, that of the path first.
fn join(base: &str, base_query: Option<&str>, path: &str) -> String {
    let (path, path_query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let whole = base;
    let base = base.trim_end_matches('/');
    let mut joined = if path.is_empty() {
        // Nobody knows the API's path, so the base is all of it, also a slash at its end.
        if whole.is_empty() {
            "/".to_owned()
        } else {
            whole.to_owned()
        }
    } else if base.ends_with(path) {
        base.to_owned()
    } else if base.ends_with("/v1") && path.starts_with("/v1/") {
        format!("{}{path}", &base[..base.len() - "/v1".len()])
    } else {
        format!("{base}{path}")
    };
    for (index, query) in [path_query, base_query].into_iter().flatten().enumerate() {
        joined.push(if index == 0 { '?' } else { '&' });
        joined.push_str(query);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EndpointType;

    const CHAT: &str = "/v1/chat/completions";

    #[test]
    fn the_path_is_appended_unless_it_is_there() {
        let chat = |base: &str, query: Option<&str>| join(base, query, CHAT);
        assert_eq!(chat("", None), "/v1/chat/completions");
        assert_eq!(chat("/", None), "/v1/chat/completions");
        assert_eq!(chat("/v1/chat/completions", None), "/v1/chat/completions");
        assert_eq!(chat("/proxy/v1/chat/completions/", None), "/proxy/v1/chat/completions");
        assert_eq!(chat("/v1", None), "/v1/chat/completions");
        assert_eq!(chat("/base/v1/", None), "/base/v1/chat/completions");
        assert_eq!(chat("/base", Some("k=v")), "/base/v1/chat/completions?k=v");
        assert_eq!(chat("/v11", None), "/v11/v1/chat/completions");
    }

    #[test]
    fn the_path_of_every_api_is_appended_to_a_base_once() {
        for kind in [
            EndpointType::Embeddings,
            EndpointType::CohereRankings,
            EndpointType::HfTeiRankings,
        ] {
            let path = kind.path();
            assert_eq!(join("", None, path), path);
            assert_eq!(join(path, None, path), path);
            assert_eq!(join("/base", None, path), format!("/base{path}"));
        }
        assert_eq!(join("/v1", None, EndpointType::Embeddings.path()), "/v1/embeddings");
        assert_eq!(join("/v1", None, EndpointType::CohereRankings.path()), "/v1/v2/rerank");
    }

    #[test]
    fn an_api_without_a_path_is_at_the_url_as_it_is() {
        let path = EndpointType::Template.path();
        assert_eq!(join("", None, path), "/");
        assert_eq!(join("/custom", None, path), "/custom");
        assert_eq!(join("/custom/", Some("k=v"), path), "/custom/?k=v");
        assert_eq!(join("/base", None, "/own"), "/base/own");
    }

    #[test]
    fn an_own_path_replaces_the_one_of_the_api() {
        assert_eq!(join("/base", None, "/generate"), "/base/generate");
        assert_eq!(join("", Some("b=2"), "/x?a=1"), "/x?a=1&b=2");
    }

    #[test]
    fn another_server_keeps_the_path() {
        let url = Url::parse("http://prod:9000/v1?k=v").unwrap();
        let server = TargetParts::parse("http://127.0.0.1:4000").unwrap();
        let target = resolve(&server, &url, CHAT);
        assert_eq!(target.url, "http://127.0.0.1:4000/v1/chat/completions?k=v");
        assert_eq!(target.authority, "127.0.0.1:4000");
        assert!(TargetParts::parse("127.0.0.1:0").is_err());
    }

    #[test]
    fn the_scheme_stays() {
        let url = Url::parse("https://h/v1").unwrap();
        let target = resolve(&TargetParts::of(&url), &url, CHAT);
        assert_eq!(target.url, "https://h/v1/chat/completions");
        assert_eq!((target.origin.as_str(), target.port), ("https://h", 443));
    }

    #[test]
    fn ipv6_hosts_are_bracketed_where_a_port_may_follow() {
        let url = Url::parse("http://[::1]:8000").unwrap();
        let target = resolve(&TargetParts::of(&url), &url, CHAT);
        assert_eq!((target.host.as_str(), target.authority.as_str()), ("::1", "[::1]:8000"));
        assert_eq!(target.origin, "http://[::1]:8000");
    }
}
