//! From the target's host to the address that the load connects to.

use std::net::{SocketAddr, ToSocketAddrs};

use super::RunError;
use crate::plan::Target;

/// Resolves the target once, before the load. IPv4 is preferred where a name has both families: `localhost` is often `::1` first while
/// inference servers listen on IPv4.
///
/// # Errors
/// The name does not resolve.
pub(super) fn resolve(target: &Target) -> Result<SocketAddr, RunError> {
    let fail = |reason: String| RunError::Resolve {
        host: target.host.clone(),
        reason,
    };
    let addresses: Vec<SocketAddr> = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|error| fail(error.to_string()))?
        .collect();
    prefer(&addresses).ok_or_else(|| fail("the name has no address".to_owned()))
}

fn prefer(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses
        .iter()
        .find(|address| address.is_ipv4())
        .or(addresses.first())
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_preferred_and_ipv6_alone_is_used() {
        let v6: SocketAddr = "[::1]:80".parse().unwrap();
        let v4: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(prefer(&[v6, v4]), Some(v4));
        assert_eq!(prefer(&[v6]), Some(v6));
        assert_eq!(prefer(&[]), None);
    }
}
