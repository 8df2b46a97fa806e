//! TCP sockets of the load.
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An address in the kernel's layout, for connect requests that outlive the call that made them.
#[derive(Clone, Copy)]
pub(crate) struct KernelAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl KernelAddress {
    /// The kernel's view of `address`.
    pub(crate) fn new(address: SocketAddr) -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let kernel = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is larger than, and aligned for, every socket address type.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(kernel) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let kernel = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(kernel) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self {
            storage,
            length: length as libc::socklen_t,
        }
    }

    /// The address itself.
    pub(crate) fn address(&self) -> SocketAddr {
        address_in(&self.storage).expect("it was made of an address of one of the two families")
    }

    /// Pointer and length, valid while `self` stays in place.
    pub(super) fn as_raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.length)
    }

    /// Whether both addresses are of one family, so that a socket bound to one can connect to the other.
    pub(crate) fn is_of_family_of(&self, other: &Self) -> bool {
        self.storage.ss_family == other.storage.ss_family
    }

    fn family(&self) -> libc::c_int {
        libc::c_int::from(self.storage.ss_family)
    }
}

/// What the kernel's layout holds: `None` if it is neither IPv4 nor IPv6.
fn address_in(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at = &raw const *storage;
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that it holds this type, which is plain data and smaller than the storage.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// The own address of a connected socket, `None` if the kernel does not tell.
pub(crate) fn local_address(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a live value of that size.
    let done = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut storage).cast(), &raw mut length) };
    (done == 0).then(|| address_in(&storage)).flatten()
}

/// A non-blocking stream socket for `address`, with Nagle's algorithm off.
///
/// # Errors
/// EMFILE and ENFILE when descriptors run out, ENOBUFS and ENOMEM when memory does.
pub(crate) fn stream_socket(address: &KernelAddress) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(address.family(), kind, libc::IPPROTO_TCP) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let on: libc::c_int = 1;
    // SAFETY: passes one live c_int with its size. A refusal costs latency, not correctness, so the result is not needed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NODELAY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Ok(socket)
}

/// Gives `socket` its own end of the connections to come. The port of `source` is zero and is chosen when the socket connects, so that ports are
/// unique per pair of addresses and not per source address (ip(7), `IP_BIND_ADDRESS_NO_PORT`).
///
/// # Errors
/// EADDRNOTAVAIL when the address is not one of this host.
pub(crate) fn bind_source(socket: BorrowedFd<'_>, source: &KernelAddress) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: passes one live c_int with its size. IPv6 sockets take the option too. Without it (Linux before 4.2) ports run out earlier.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    let (address, length) = source.as_raw();
    // SAFETY: the address lives for the call and is of the given length.
    match unsafe { libc::bind(socket.as_raw_fd(), address, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether connections can be bound to `source`. Nothing is sent.
///
/// # Errors
/// Why not.
pub(crate) fn try_source(source: IpAddr) -> io::Result<()> {
    let source = KernelAddress::new(SocketAddr::new(source, 0));
    let socket = stream_socket(&source)?;
    bind_source(socket.as_fd(), &source)
}

/// Sends what the kernel takes at once of the last words on a socket that will be shut down. Nobody depends on their arrival.
pub(crate) fn send_last(socket: BorrowedFd<'_>, bytes: &[u8]) {
    // SAFETY: the kernel reads a live slice of that length during the call.
    unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
}

/// Ends the own direction: the peer reads what was sent, and then an end.
pub(crate) fn shut_down_sending(socket: BorrowedFd<'_>) {
    // SAFETY: no pointers. A socket that the peer has reset has nothing to end.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// Ends both directions, so that every pending operation on the socket completes soon.
pub(crate) fn shut_down(socket: BorrowedFd<'_>) {
    // SAFETY: no pointers. ENOTCONN (never connected, or reset by the peer) is fine: nothing is pending then.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}
