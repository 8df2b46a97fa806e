//! Server addresses, taken apart by hand: a URL crate would repair what should be reported.

use std::net::Ipv6Addr;

/// The scheme of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP inside TLS.
    Https,
}

impl Scheme {
    /// The word before `://`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of an address that names none.
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// An `http` or `https` address as written, checked and normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is spoken.
    pub(crate) scheme: Scheme,
    /// User and password, percent-decoded.
    pub(crate) credentials: Option<(String, String)>,
    /// Lower-case host without brackets and without a trailing dot.
    pub(crate) host: String,
    /// TCP port; that of the scheme unless written.
    pub(crate) port: u16,
    /// Path as written: empty or starting with `/`.
    pub(crate) path: String,
    /// Query without `?`.
    pub(crate) query: Option<String>,
}

impl Url {
    /// Reads an address. Without a scheme, `http://` is meant.
    ///
    /// # Errors
    /// The first thing that is wrong, and what is allowed. Never holds credentials.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |message: &str| Err(message.to_owned());
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(format!(
                "a URL cannot hold `{}`; percent-encode it, or write an international host name in punycode",
                bad.escape_debug()
            ));
        }
        if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
            return wrong("not supported by ringload yet: unix sockets; use an http address");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return wrong("the scheme must be http or https"),
        };
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_end);
        if tail.contains('#') {
            return wrong("a fragment (`#...`) is never sent to a server; remove it");
        }
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (tail, None),
        };
        let (userinfo, address) = match authority.rsplit_once('@') {
            Some((userinfo, address)) => (Some(userinfo), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address)?;
        let credentials = match userinfo {
            None => None,
            Some(userinfo) => {
                let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                match (percent_decode(user), percent_decode(password)) {
                    (Some(user), Some(password)) => Some((user, password)),
                    _ => return wrong("user and password before `@` must be valid percent-encoding"),
                }
            }
        };
        Ok(Self {
            scheme,
            credentials,
            host,
            port: port.unwrap_or(scheme.default_port()),
            path: path.to_owned(),
            query,
        })
    }

    /// Value of the `Host` header: host, bracketed if IPv6, and the port unless it is that of the scheme.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.scheme.default_port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

/// Host and, if written, port of an authority without user.
fn split_port(address: &str) -> Result<(String, Option<u16>), String> {
    let wrong = |message: &str| Err(message.to_owned());
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let Some((literal, after)) = rest.split_once(']') else {
            return wrong("`[` of an IPv6 address needs a closing `]`");
        };
        let Ok(ip) = literal.parse::<Ipv6Addr>() else {
            return wrong("the text in brackets must be an IPv6 address");
        };
        match after.strip_prefix(':') {
            Some(port) => (ip.to_string(), Some(port)),
            None if after.is_empty() => (ip.to_string(), None),
            None => return wrong("only `:port` may follow `]`"),
        }
    } else {
        match address.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return wrong("an IPv6 address must stand in brackets, as in http://[::1]:8000");
            }
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (address.to_owned(), None),
        }
    };
    let host = host.strip_suffix('.').unwrap_or(&host).to_ascii_lowercase();
    if host.is_empty() {
        return wrong("a host is required, as in http://localhost:8000");
    }
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    if let Some(bad) = host.chars().find(|&c| !is_host_char(c)) {
        return Err(format!("a host cannot hold `{bad}`"));
    }
    let port = match port {
        None => None,
        Some(port) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            let number = port.parse().ok().filter(|&port: &u16| port > 0);
            Some(number.ok_or_else(|| {
                format!(
                    "the port must be from 1 to 65535, not {}",
                    port.get(..8).unwrap_or(port)
                )
            })?)
        }
        Some(_) => return wrong("the port after `:` must be a number from 1 to 65535"),
    };
    Ok((host, port))
}

/// `%41` to `A`; `None` when an escape is broken or the bytes are not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_normalised() {
        let url = Url::parse("HTTP://Host.Example.:8000/V1?k=A").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("host.example", 8000, "/V1")
        );
        assert_eq!(url.query.as_deref(), Some("k=A"));
        assert_eq!(url.authority(), "host.example:8000");
        assert_eq!(Url::parse("localhost:8000").unwrap().authority(), "localhost:8000");
        assert_eq!(Url::parse("http://h:80").unwrap().authority(), "h");
    }

    #[test]
    fn ipv6_addresses_stand_in_brackets() {
        let url = Url::parse("http://[0:0::1]:8000").unwrap();
        assert_eq!((url.host.as_str(), url.authority().as_str()), ("::1", "[::1]:8000"));
        assert_eq!(Url::parse("http://[::1]").unwrap().authority(), "[::1]");
        for bad in ["http://::1:8000", "http://[::1", "http://[::g]", "http://[::1]x"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_part_of_a_message() {
        let url = Url::parse("http://user:p%40ss@h:1").unwrap();
        assert_eq!(url.credentials, Some(("user".into(), "p@ss".into())));
        assert_eq!(
            Url::parse("http://user@h").unwrap().credentials,
            Some(("user".into(), String::new()))
        );
        for bad in [
            "http://u:hunter2%zz@h",
            "http://u:hunter2@",
            "http://u:hunter2@h:0",
            "http://u:hunter2@h<",
        ] {
            match Url::parse(bad) {
                Err(message) => assert!(!message.contains("hunter2"), "{message}"),
                other => panic!("{bad}: {other:?}"),
            }
        }
    }

    #[test]
    fn addresses_that_cannot_work_are_refused() {
        for bad in [
            "ftp://h/x",
            "http://:8000",
            "http://h:99999",
            "http://h:0",
            "http://h:",
            "http://h:8x",
            "http://h:80/a b",
            "http://h/#f",
            "",
            "http://",
            "http://h\u{e9}",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_scheme_has_its_port() {
        let url = Url::parse("HTTPS://h/v1").unwrap();
        assert_eq!(
            (url.scheme, url.port, url.authority().as_str()),
            (Scheme::Https, 443, "h")
        );
        assert_eq!(Url::parse("https://h:80").unwrap().authority(), "h:80");
        assert_eq!(Url::parse("https://h:443").unwrap().authority(), "h");
        assert_eq!(Url::parse("h").unwrap().scheme, Scheme::Http);
    }
}
