//! From names to the addresses that the load connects to and from.
//!
//! A name is resolved once, before the load, and every address that is used takes its turn. Nothing is tried out: a connection that only looks
//! whether somebody listens would be in the server's log and accept queue before the measurement. So the family is chosen by rule.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::RunError;
use crate::plan::Target;
use crate::sys::socket;

/// Both ends of the connections of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses {
    /// Those of each server, at least one.
    pub(super) servers: Vec<Vec<SocketAddr>>,
    /// This host's; none leaves the choice to the kernel.
    pub(super) sources: Vec<IpAddr>,
}

/// Resolves the targets and checks the source addresses against them and against this host.
///
/// # Errors
/// A name does not resolve, or a source address cannot be used.
pub(super) fn resolve(targets: &[Target], sources: &[IpAddr]) -> Result<Addresses, RunError> {
    let servers: Result<Vec<_>, _> = targets.iter().map(|target| resolve_one(target, sources)).collect();
    let servers = servers?;
    let sources = distinct(sources.iter().copied());
    sources.iter().copied().try_for_each(try_source)?;
    Ok(Addresses { servers, sources })
}

/// Checks source addresses as far as that takes no name server: against this host, and against servers that are given by their address.
///
/// # Errors
/// A source address that cannot be used.
pub(super) fn check_sources(targets: &[Target], sources: &[IpAddr]) -> Result<(), RunError> {
    let literal = |target: &Target| Some(SocketAddr::new(target.host.parse().ok()?, target.port));
    for &address in sources {
        if let Some(reason) = unusable(address) {
            return Err(RunError::SourceAddress { address, reason });
        }
    }
    for server in targets.iter().filter_map(literal) {
        choose(&[server], sources)?;
    }
    distinct(sources.iter().copied()).into_iter().try_for_each(try_source)
}

/// Whether this host has the address.
fn try_source(address: IpAddr) -> Result<(), RunError> {
    socket::try_source(address).map_err(|error| RunError::SourceAddress {
        address,
        reason: format!("it cannot be bound ({error}); use addresses of this host (ip address show)"),
    })
}

/// What no connection can come from, whatever the server is.
fn unusable(address: IpAddr) -> Option<String> {
    (address.is_unspecified() || address.is_multicast())
        .then(|| "it names no single interface; give an address of this host".to_owned())
}

fn resolve_one(target: &Target, sources: &[IpAddr]) -> Result<Vec<SocketAddr>, RunError> {
    let fail = |reason: String| RunError::Resolve {
        host: target.host.clone(),
        reason,
    };
    let found: Vec<SocketAddr> = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|error| fail(error.to_string()))?
        .collect();
    if found.is_empty() {
        return Err(fail("the name has no address".to_owned()));
    }
    choose(&found, sources)
}

/// Every address of one family: IPv4 if the name has any, for `localhost` is `::1` too on most hosts while inference servers listen on IPv4
/// alone. Source addresses decide otherwise: the families that they are of are used.
fn choose(found: &[SocketAddr], sources: &[IpAddr]) -> Result<Vec<SocketAddr>, RunError> {
    let any_v4 = found.iter().any(SocketAddr::is_ipv4);
    let wanted = |peer: &SocketAddr| match sources {
        [] => peer.is_ipv4() == any_v4,
        sources => sources.iter().any(|source| source.is_ipv4() == peer.is_ipv4()),
    };
    let unfit = sources.iter().find_map(|&address| {
        let reason = if let Some(reason) = unusable(address) {
            reason
        } else if found.iter().all(|peer| peer.is_ipv4() != address.is_ipv4()) {
            let (other, family) = if any_v4 { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
            format!("the server has no {family} address; give {other} addresses")
        } else {
            return None;
        };
        Some(RunError::SourceAddress { address, reason })
    });
    match unfit {
        Some(error) => Err(error),
        None => Ok(distinct(found.iter().copied().filter(wanted))),
    }
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(found: &[&str], sources: &[&str]) -> Result<Vec<String>, String> {
        let found: Vec<SocketAddr> = found.iter().map(|text| text.parse().unwrap()).collect();
        let sources: Vec<IpAddr> = sources.iter().map(|text| text.parse().unwrap()).collect();
        let peers = choose(&found, &sources).map_err(|error| error.to_string())?;
        Ok(peers.iter().map(SocketAddr::to_string).collect())
    }

    fn peers(found: &[&str], sources: &[&str]) -> Vec<String> {
        chosen(found, sources).unwrap()
    }

    #[test]
    fn every_ipv4_address_is_used_and_ipv6_where_there_is_no_other() {
        let both = ["[::1]:80", "10.0.0.1:80", "[::2]:80", "10.0.0.2:80"];
        assert_eq!(peers(&both, &[]), ["10.0.0.1:80", "10.0.0.2:80"]);
        assert_eq!(peers(&["[::1]:80", "[::2]:80"], &[]), ["[::1]:80", "[::2]:80"]);
    }

    #[test]
    fn source_addresses_choose_the_families() {
        let both = ["[::1]:80", "10.0.0.1:80"];
        assert_eq!(peers(&both, &["::1"]), ["[::1]:80"]);
        assert_eq!(peers(&both, &["10.0.0.9"]), ["10.0.0.1:80"]);
        assert_eq!(peers(&both, &["10.0.0.9", "::1"]), both);
    }

    #[test]
    fn an_address_counts_once_however_often_it_is_named() {
        assert_eq!(peers(&["10.0.0.1:80", "10.0.0.1:80"], &["10.0.0.9"]), ["10.0.0.1:80"]);
        let twice = |text: &str| [text, text].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(distinct(twice("10.0.0.9").into_iter()).len(), 1);
    }

    #[test]
    fn a_source_address_that_can_reach_nothing_is_refused() {
        for (found, source, words) in [
            ("10.0.0.1:80", "::1", "the server has no IPv6 address; give IPv4"),
            ("[::1]:80", "10.0.0.9", "the server has no IPv4 address; give IPv6"),
            ("10.0.0.1:80", "0.0.0.0", "names no single interface"),
            ("10.0.0.1:80", "224.0.0.1", "names no single interface"),
        ] {
            let refusal = chosen(&[found], &[source]).unwrap_err();
            assert!(
                refusal.starts_with(&format!("--source-address {source}: ")) && refusal.contains(words),
                "{refusal}"
            );
        }
    }
}
