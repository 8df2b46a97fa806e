//! How one request went over the wire, beside what its record says anyway: kept only where traces are wanted.
//!
//! Behind its record in the journal, and behind its [transcript](super::Transcript) if there is one, little-endian: length of the rest (u32); number of
//! the server (u16); whether it was being sent when it ended (u8); five times (u64 each, the order of the struct's fields); the two addresses, local first, each as the length of the IP address
//! (u8: 0 if it is not known, 4 or 16), its bytes, and the port (u16); bytes (u64) and reads (u32) of the body; number of writes (u32), then for each
//! its time (u64) and the bytes so far (u32); then the head.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::transcript::{push_stamps, take, take_stamps};
use crate::units::Nanos;

/// What a trace knows that no figure is made of. Times are monotonic; [`Nanos::ZERO`] means "did not happen".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpTrace {
    /// Number of the server that it went to.
    pub server: u16,
    /// Whether a write was under way when it ended. How much of the request was handed over is not known then.
    pub sending: bool,
    /// When its connection was begun, if it was the first request on it.
    pub connect_start: Nanos,
    /// When that was established, TLS included.
    pub connect_end: Nanos,
    /// When the head of the answer was complete.
    pub head_end: Nanos,
    /// The first read with a byte of the body.
    pub first_body: Nanos,
    /// The last one.
    pub last_body: Nanos,
    /// The own end of the connection, once it is established.
    pub local: Option<SocketAddr>,
    /// The server's end of it.
    pub remote: Option<SocketAddr>,
    /// Bytes of the body, without its framing, also those of a read that broke the rules further on.
    pub body_bytes: u64,
    /// Reads that brought them.
    pub body_reads: u32,
    /// Writes that did not take all that was left: when each had ended, and how much of the request was handed over by then.
    pub writes: Vec<(Nanos, u32)>,
    /// The head of the answer, as it came; empty before its end.
    pub head: Vec<u8>,
}

/// A head or a list of writes that was longer than this gives its memory back: one of them must not pin it on every connection.
const KEPT_BYTES: usize = 4096;

impl HttpTrace {
    /// Makes ready for the next request of the connection, which stays what it is; a little memory is kept.
    pub(crate) fn begin(&mut self, server: u16) {
        let (writes, head) = (std::mem::take(&mut self.writes), std::mem::take(&mut self.head));
        *self = Self {
            server,
            local: self.local,
            remote: self.remote,
            writes,
            head,
            ..Self::default()
        };
        self.writes.clear();
        self.writes.shrink_to(KEPT_BYTES / size_of::<(Nanos, u32)>());
        self.head.clear();
        self.head.shrink_to(KEPT_BYTES);
    }

    /// The request opens a connection; `to` is where to, unless the host had no socket for it.
    pub(crate) fn connecting(&mut self, to: Option<SocketAddr>, now: Nanos) {
        self.local = None;
        self.remote = to;
        self.connect_start = to.map_or(Nanos::ZERO, |_| now);
    }

    /// A write ended before the request did.
    pub(crate) fn wrote(&mut self, so_far: u32, now: Nanos) {
        self.writes.push((now, so_far));
    }

    /// A read brought the rest of the head, or bytes of the body, or both.
    pub(crate) fn read(&mut self, head: &mut Vec<u8>, body_bytes: usize, now: Nanos) {
        if !head.is_empty() {
            self.head.append(head);
            self.head_end = now;
        }
        if body_bytes > 0 {
            if self.body_reads == 0 {
                self.first_body = now;
            }
            self.last_body = now;
            self.body_bytes += body_bytes as u64;
            self.body_reads += 1;
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.server.to_le_bytes());
        out.push(u8::from(self.sending));
        for time in [
            self.connect_start,
            self.connect_end,
            self.head_end,
            self.first_body,
            self.last_body,
        ] {
            out.extend_from_slice(&time.0.to_le_bytes());
        }
        for address in [self.local, self.remote] {
            match address.map(|address| address.ip()) {
                None => out.push(0),
                Some(IpAddr::V4(ip)) => {
                    out.push(4);
                    out.extend_from_slice(&ip.octets());
                }
                Some(IpAddr::V6(ip)) => {
                    out.push(16);
                    out.extend_from_slice(&ip.octets());
                }
            }
            out.extend_from_slice(&address.map_or(0, |address| address.port()).to_le_bytes());
        }
        out.extend_from_slice(&self.body_bytes.to_le_bytes());
        out.extend_from_slice(&self.body_reads.to_le_bytes());
        push_stamps(&self.writes, out);
        out.extend_from_slice(&self.head);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Reads the trace at `*at` and moves `*at` behind it; `None` if it is not whole.
    pub(super) fn decode(bytes: &[u8], at: &mut usize) -> Option<Self> {
        let mut rest = bytes.get(*at..)?;
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let mut rest = rest.get(..length)?;
        let server = u16::from_le_bytes(take(&mut rest)?);
        let [sending] = take(&mut rest)?;
        let mut times = [Nanos::ZERO; 5];
        for time in &mut times {
            *time = Nanos(u64::from_le_bytes(take(&mut rest)?));
        }
        let [connect_start, connect_end, head_end, first_body, last_body] = times;
        let (local, remote) = (take_address(&mut rest)?, take_address(&mut rest)?);
        let body_bytes = u64::from_le_bytes(take(&mut rest)?);
        let body_reads = u32::from_le_bytes(take(&mut rest)?);
        let writes = take_stamps(&mut rest);
        *at += 4 + length;
        Some(Self {
            server,
            sending: sending != 0,
            connect_start,
            connect_end,
            head_end,
            first_body,
            last_body,
            local,
            remote,
            body_bytes,
            body_reads,
            writes: writes?,
            head: rest.to_vec(),
        })
    }
}

/// An address, which may be unknown; the outer `None` if there is none to be read.
#[expect(
    clippy::option_option,
    reason = "one is about the bytes, the other about the address"
)]
fn take_address(rest: &mut &[u8]) -> Option<Option<SocketAddr>> {
    let ip: Option<IpAddr> = match take(rest)? {
        [0] => None,
        [4] => Some(Ipv4Addr::from(take::<4>(rest)?).into()),
        [16] => Some(Ipv6Addr::from(take::<16>(rest)?).into()),
        _ => return None,
    };
    let port = u16::from_le_bytes(take(rest)?);
    Some(ip.map(|ip| SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn reads_are_counted_and_the_first_and_last_with_a_byte_of_the_body_are_stamped() {
        let mut trace = HttpTrace::default();
        for (time, head, body_bytes) in [
            (3, "", 0),
            (5, "HTTP/1.1 200\r\n\r\n", 0),
            (7, "", 10),
            (8, "", 0),
            (9, "", 1),
        ] {
            trace.read(&mut head.as_bytes().to_vec(), body_bytes, Nanos(time));
        }
        assert_eq!(trace.head, b"HTTP/1.1 200\r\n\r\n");
        assert_eq!(
            [trace.head_end, trace.first_body, trace.last_body],
            [5, 7, 9].map(Nanos)
        );
        assert_eq!((trace.body_bytes, trace.body_reads), (11, 2));
    }

    #[test]
    fn the_next_request_on_a_connection_keeps_its_addresses_and_nothing_else() {
        let mut trace = HttpTrace::default();
        trace.begin(2);
        trace.connecting(address("127.0.0.1:80"), Nanos(5));
        trace.local = address("127.0.0.1:4000");
        trace.connect_end = Nanos(6);
        trace.wrote(100, Nanos(7));
        trace.read(&mut vec![b'x'; 4 * KEPT_BYTES], 5, Nanos(8));
        trace.begin(2);
        assert!(trace.head.capacity() < 2 * KEPT_BYTES);
        let kept = HttpTrace {
            server: 2,
            local: address("127.0.0.1:4000"),
            remote: address("127.0.0.1:80"),
            ..HttpTrace::default()
        };
        assert_eq!(trace, kept);
        // The place has another connection now, which got no socket.
        trace.begin(1);
        trace.connecting(None, Nanos(9));
        assert_eq!(
            trace,
            HttpTrace {
                server: 1,
                ..HttpTrace::default()
            }
        );
    }
}
