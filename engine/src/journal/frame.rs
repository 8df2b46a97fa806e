//! The parts of a journal's file: a magic number, then frames, each with a checksum over its header and one over its payload.
//!
//! Two of them, because damage differs: a payload that does not check out is one block less, and the frame behind it is found by the length. A header
//! that does not check out is the end of what can be read, which is what a write that the power ended looks like too.

use crate::id::CoreId;

/// The first bytes of every journal, the version of the format last.
pub(super) const MAGIC: &[u8; 8] = b"ringjrn\x04";
/// The version of the format that is written and read.
pub(crate) const VERSION: u8 = MAGIC[MAGIC.len() - 1];
/// The first bytes of journals before there were versions.
const UNVERSIONED: &[u8; 8] = b"ringload";

pub(super) const HEADER_BYTES: usize = 16;

/// What a file is by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A journal of this version.
    Ours,
    /// A journal of another version.
    Version(u8),
    /// The beginning of a journal that ended in its first bytes.
    Torn,
    /// Anything else.
    Foreign,
}

impl Format {
    pub(super) fn of(first: &[u8]) -> Self {
        match first {
            _ if first == MAGIC => Self::Ours,
            _ if first == UNVERSIONED => Self::Version(1),
            [name @ .., version] if first.len() == MAGIC.len() && name == &MAGIC[..7] => Self::Version(*version),
            _ if MAGIC.starts_with(first) => Self::Torn,
            _ => Self::Foreign,
        }
    }
}

/// What is in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Records of this core.
    Records(CoreId),
    /// A note of the run.
    Note,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) length: u32,
    pub(super) checksum: u32,
}

impl Header {
    pub(super) fn of(kind: Kind, payload: &[u8]) -> Self {
        Self {
            kind,
            length: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            checksum: crc32fast::hash(payload),
        }
    }

    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let (kind, core) = match self.kind {
            Kind::Records(core) => (0u16, core.0),
            Kind::Note => (1, 0),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&core.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..12]);
        bytes[12..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are no header.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let &[k0, k1, c0, c1, l0, l1, l2, l3, s0, s1, s2, s3, h0, h1, h2, h3] = bytes;
        if crc32fast::hash(&bytes[..12]) != u32::from_le_bytes([h0, h1, h2, h3]) {
            return None;
        }
        let kind = match u16::from_le_bytes([k0, k1]) {
            0 => Kind::Records(CoreId(u16::from_le_bytes([c0, c1]))),
            1 => Kind::Note,
            _ => return None,
        };
        Some(Self {
            kind,
            length: u32::from_le_bytes([l0, l1, l2, l3]),
            checksum: u32::from_le_bytes([s0, s1, s2, s3]),
        })
    }
}

/// A journal with a note and one block of this payload.
pub(crate) fn block_of(payload: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    for (kind, payload) in [(Kind::Note, &b"opening"[..]), (Kind::Records(CoreId(0)), payload)] {
        file.extend_from_slice(&Header::of(kind, payload).encode());
        file.extend_from_slice(payload);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_any_bit_changed_is_none() {
        let header = Header::of(Kind::Records(CoreId(3)), b"payload");
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        for bit in 0..HEADER_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&changed), None, "bit {bit}");
        }
        assert_eq!(
            Header::decode(&[0; HEADER_BYTES]),
            None,
            "a page that was never written"
        );
    }

    #[test]
    fn files_are_told_by_their_first_bytes() {
        assert_eq!(Format::of(MAGIC), Format::Ours);
        assert_eq!(Format::of(b"ringload"), Format::Version(1));
        assert_eq!(Format::of(b"ringjrn\x09"), Format::Version(9));
        assert_eq!(Format::of(b"notmagic"), Format::Foreign);
        for cut in 0..MAGIC.len() {
            assert_eq!(Format::of(&MAGIC[..cut]), Format::Torn, "cut at {cut}");
        }
    }
}
