//! Origins: which ones are the same server, and how they are shown.

/// Longest piece of a server's own text that a message repeats.
const LONGEST_SHOWN: usize = 200;

/// The same text for every spelling of one origin: case of scheme and host, a default port and a trailing dot of the host do not
/// matter (RFC 9110 section 4.2.3, RFC 6454 section 4).
pub(super) fn comparison_key(origin: &str) -> String {
    let (scheme, authority) = origin.split_once("://").unwrap_or(("http", origin));
    let scheme = scheme.to_ascii_lowercase();
    let (user, address) = match authority.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, authority),
    };
    // The colons of an IPv6 address stand inside brackets, so the last part is a port only if no bracket follows its colon.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (address, ""),
    };
    let default_port = if scheme == "https" { "443" } else { "80" };
    let port = if port.is_empty() { default_port } else { port };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    // Credentials are part of the identity: another user may reach another tenant.
    format!("{scheme}://{}@{host}:{port}", user.unwrap_or_default())
}

/// Each server once, in the order and spelling of its first mention.
pub(super) fn unique(origins: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    origins
        .into_iter()
        .filter(|origin| {
            let key = comparison_key(origin);
            let is_new = !seen.contains(&key);
            if is_new {
                seen.push(key);
            }
            is_new
        })
        .collect()
}

/// A URL, or a part of one, fit for messages: without credentials, without query (which may hold a key), of bounded length.
pub(crate) fn redacted(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let (rest, cut_off) = url.split_at(end);
    let mut shown = match rest.split_once("://") {
        Some((scheme, rest)) => {
            let authority_end = rest.find('/').unwrap_or(rest.len());
            let host_start = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
            format!("{scheme}://{}", &rest[host_start..])
        }
        None => rest.to_owned(),
    };
    if shown.chars().count() > LONGEST_SHOWN {
        shown = shown.chars().take(LONGEST_SHOWN).collect();
        shown.push_str("..");
    } else if !cut_off.is_empty() {
        shown.push_str(&cut_off[..1]);
        shown.push_str("..");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s34_spellings_of_one_origin_are_one() {
        let same = ["http://h", "http://H:80", "HTTP://h.", "http://h.:80", "http://h:"];
        assert_eq!(unique(same.map(str::to_owned).to_vec()), ["http://h"]);
        let v6 = ["http://[::1]", "http://[::1]:80", "https://[::1]:443", "https://[::1]"];
        assert_eq!(
            unique(v6.map(str::to_owned).to_vec()),
            ["http://[::1]", "https://[::1]:443"]
        );
    }

    #[test]
    fn s34_different_servers_stay_different_and_in_order() {
        let origins = [
            "http://b:8000",
            "http://a:8000",
            "http://b:8001",
            "https://b:8000",
            "http://u@b:8000",
            "http://b:8000",
        ];
        assert_eq!(unique(origins.map(str::to_owned).to_vec()), origins[..5]);
    }

    #[test]
    fn messages_show_neither_credentials_nor_query() {
        assert_eq!(redacted("http://user:secret@h:80/p?key=secret"), "http://h:80/p?..");
        assert_eq!(redacted("/flush_cache?timeout=30"), "/flush_cache?..");
        assert_eq!(redacted("http://h/a@b"), "http://h/a@b");
        assert_eq!(redacted("https://h#frag"), "https://h#..");
        assert_eq!(redacted(&"x".repeat(1_000)).len(), 202);
    }
}
