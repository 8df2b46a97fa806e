//! The TLS state of one connection.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, HandshakeKind};

use super::TlsClient;

/// Plaintext bytes of a full record.
const RECORD_BYTES: usize = 16_384;
/// No record is longer than its plaintext by more than this: header, content type, nonce and authentication tag.
const RECORD_OVERHEAD: usize = 64;

/// Buffers that the connections of a core use in turn.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Records that arrived whole, as they came.
    ciphertext: Vec<u8>,
    /// What the latest [`Session::receive`] deciphered.
    plaintext: Vec<u8>,
}

impl Workspace {
    /// What the latest [`Session::receive`] deciphered.
    pub(crate) fn plaintext(&self) -> &[u8] {
        &self.plaintext
    }
}

/// One connection's TLS, from the first byte to the farewell. It has no socket: it takes and gives bytes.
///
/// Buffers are kept and reused; what rustls itself allocates, one short-lived block per record, is not in its user's hands.
pub(crate) struct Session {
    connection: UnbufferedClientConnection,
    /// Ciphertext from the first record on that has not arrived whole.
    held: Vec<u8>,
    /// Records of the protocol's own that wait to be sent: handshake, key update, alert.
    pending: Vec<u8>,
    peer_closed: bool,
    /// An error was returned. rustls must not see the bytes that caused it again.
    failed: bool,
}

impl Session {
    /// Starts a session; its first message is pending.
    ///
    /// # Errors
    /// No random bytes.
    pub(crate) fn new(client: &TlsClient) -> Result<Self, Error> {
        let mut session = Self {
            connection: UnbufferedClientConnection::new(Arc::clone(&client.config), client.name.clone())?,
            held: Vec::new(),
            pending: Vec::new(),
            peer_closed: false,
            failed: false,
        };
        session.receive(&[], &mut Workspace::default())?;
        Ok(session)
    }

    /// Takes bytes of the peer. What they decipher to is in the workspace afterwards, also after an error.
    ///
    /// # Errors
    /// The bytes are not what the protocol allows, or the peer is not who it should be. An alert for it may be pending.
    pub(crate) fn receive(&mut self, bytes: &[u8], workspace: &mut Workspace) -> Result<(), Error> {
        let Workspace { ciphertext, plaintext } = workspace;
        plaintext.clear();
        if self.failed {
            return Err(over());
        }
        // Most reads end with a record. Then a connection needs no memory of its own for ciphertext.
        let mut held = std::mem::take(&mut self.held);
        let borrowed = held.is_empty();
        let buffer = if borrowed { &mut *ciphertext } else { &mut held };
        buffer.extend_from_slice(bytes);
        let mut used = 0;
        let result = loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut buffer[used..]);
            let result = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                    match traffic.next_record() {
                        Some(Ok(record)) => {
                            discard += record.discard;
                            plaintext.extend_from_slice(record.payload);
                        }
                        Some(Err(error)) => break Some(Err(error)),
                        None => break None,
                    }
                },
                Ok(ConnectionState::EncodeTlsData(message)) => {
                    encode(message, &mut self.pending);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(message)) => {
                    message.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    None
                }
                // More bytes are needed, or there is nothing to do.
                Ok(_) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            used += discard;
            if let Some(result) = result {
                break result;
            }
        };
        if borrowed {
            held.extend_from_slice(&ciphertext[used..]);
            ciphertext.clear();
        } else {
            held.drain(..used);
        }
        self.held = held;
        result.inspect_err(|_| self.fail())
    }

    /// Keeps the alert that tells the peer of an error. Nothing else will be said.
    fn fail(&mut self) {
        self.failed = true;
        self.held.clear();
        if let Ok(ConnectionState::EncodeTlsData(alert)) = self.connection.process_tls_records(&mut []).state {
            encode(alert, &mut self.pending);
        }
    }

    /// Whether the handshake is done.
    pub(crate) fn is_established(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Whether the handshake resumed an earlier session. Known once it is done.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether the peer has said that it sends nothing more. Without it, the end of the connection may be anybody's doing.
    pub(crate) fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Appends records of the protocol's own to what will be sent, and tells whether there were any.
    pub(crate) fn take_pending(&mut self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&self.pending);
        let any = !self.pending.is_empty();
        self.pending.clear();
        any
    }

    /// Enciphers `plaintext` behind what is pending. Only once the session is established.
    ///
    /// # Errors
    /// The keys are used up; the session is not established, or has failed.
    pub(crate) fn seal(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.write(out, |traffic, out| encrypt(traffic, plaintext, out))
    }

    /// Appends the last words: what is pending (an alert after an error), or the notice that nothing more follows.
    pub(crate) fn farewell(&mut self, out: &mut Vec<u8>) {
        // In the middle of a handshake there is nothing to say.
        let _ = self.write(out, |traffic, out| {
            let start = out.len();
            out.resize(start + 2 * RECORD_OVERHEAD, 0);
            let written = traffic.queue_close_notify(&mut out[start..]).unwrap_or(0);
            out.truncate(start + written);
            Ok(())
        });
    }

    /// Lets `act` write once the session may; records of the protocol's own go first.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        mut act: impl FnMut(&mut WriteTraffic<'_, ClientConnectionData>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.take_pending(out);
        if self.failed {
            return Err(over());
        }
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.held);
            let result = match state {
                Ok(ConnectionState::EncodeTlsData(message)) => {
                    encode(message, out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(message)) => {
                    message.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(act(&mut traffic, out)),
                Ok(_) => Some(Err(Error::HandshakeNotComplete)),
                Err(error) => Some(Err(error)),
            };
            self.held.drain(..discard);
            if let Some(result) = result {
                return result;
            }
        }
    }
}

/// The answer to everything after an error.
fn over() -> Error {
    Error::General("the session has failed before".to_owned())
}

/// Appends one record of the protocol's own.
fn encode(mut message: EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut room = RECORD_BYTES / 8;
    loop {
        out.resize(start + room, 0);
        match message.encode(&mut out[start..]) {
            Ok(written) => return out.truncate(start + written),
            Err(EncodeError::InsufficientSize(size)) => room = size.required_size,
            Err(EncodeError::AlreadyEncoded) => unreachable!("a message is encoded once"),
        }
    }
}

fn encrypt(
    traffic: &mut WriteTraffic<'_, ClientConnectionData>,
    plaintext: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let start = out.len();
    let mut room = plaintext.len() + (plaintext.len() / RECORD_BYTES + 2) * RECORD_OVERHEAD;
    loop {
        out.resize(start + room, 0);
        match traffic.encrypt(plaintext, &mut out[start..]) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            // Records of the protocol's own were queued in front.
            Err(EncryptError::InsufficientSize(size)) => room = size.required_size,
            Err(EncryptError::EncryptExhausted) => {
                out.truncate(start);
                return Err(Error::EncryptError);
            }
        }
    }
}
