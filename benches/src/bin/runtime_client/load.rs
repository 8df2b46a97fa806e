//! What a client does besides carrying bytes: which request is next, what an answer says, when it came.

use hdrhistogram::Histogram;
use ringload_engine::clock;
use ringload_engine::http::{Protocol, ResponseReader, ScratchPool, format_uuid, patch_ids};
use ringload_engine::plan::{ID_BLOCK_CAPACITY, RequestImages};
use ringload_engine::units::Nanos;

/// Bytes of a receive buffer: those of ringload's core.
pub(crate) const RECEIVE_BYTES: usize = 8 * 1024;

/// The load of one thread.
pub(crate) struct Load {
    /// Sent in turn. Never freed: some runtimes want to own what they send, and the process ends with the load.
    requests: Vec<&'static [u8]>,
    wanted: u64,
    started: u64,
    succeeded: u64,
    pool: ScratchPool,
    first_ns: Histogram<u64>,
    gaps_ns: Histogram<u64>,
    latency_ns: Histogram<u64>,
}

/// One connection's part of the load.
pub(crate) struct Session {
    reader: ResponseReader,
    started: Nanos,
    /// When the last content came; zero before the first.
    content: Nanos,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            reader: ResponseReader::new(Protocol::Chat),
            started: Nanos::ZERO,
            content: Nanos::ZERO,
        }
    }
}

impl Load {
    /// `wanted` requests of these images.
    pub(crate) fn new(images: &RequestImages, wanted: u64) -> Load {
        let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds");
        Load {
            requests: whole(images),
            wanted,
            started: 0,
            succeeded: 0,
            pool: ScratchPool::new(16, RECEIVE_BYTES),
            first_ns: histogram(),
            gaps_ns: histogram(),
            latency_ns: histogram(),
        }
    }

    /// The bytes of the next request, which starts now; `None` once all have been started.
    pub(crate) fn next(&mut self, session: &mut Session) -> Option<&'static [u8]> {
        if self.started == self.wanted {
            return None;
        }
        let request = self.requests[(self.started % self.requests.len() as u64) as usize];
        self.started += 1;
        session.reader.begin(&mut self.pool);
        session.content = Nanos::ZERO;
        session.started = clock::monotonic();
        Some(request)
    }

    /// Takes what one read brought; answers whether the answer is complete with it.
    ///
    /// # Panics
    /// If the answer is not a success.
    pub(crate) fn take(&mut self, session: &mut Session, bytes: &[u8]) -> bool {
        assert!(!bytes.is_empty(), "the server keeps connections open");
        let now = clock::monotonic();
        let feed = session
            .reader
            .feed(bytes, &mut self.pool)
            .expect("an answer in good order");
        for _ in 0..feed.contents {
            let (histogram, since) = if session.content == Nanos::ZERO {
                (&mut self.first_ns, session.started)
            } else {
                (&mut self.gaps_ns, session.content)
            };
            histogram.saturating_record(now.since(since).0);
            session.content = now;
        }
        if feed.complete {
            assert_eq!(session.reader.failure(), None, "every request succeeds");
            self.latency_ns.saturating_record(now.since(session.started).0);
            self.succeeded += 1;
        }
        feed.complete
    }

    /// Ends the load.
    ///
    /// # Panics
    /// If a request is missing.
    pub(crate) fn finish(&self) {
        assert_eq!((self.started, self.succeeded), (self.wanted, self.wanted));
        assert_eq!(self.latency_ns.len(), self.wanted, "every answer is in the account");
    }
}

/// Each image as one piece, with ids of its own.
fn whole(images: &RequestImages) -> Vec<&'static [u8]> {
    let ids = &images.ids;
    let mut block = [0; ID_BLOCK_CAPACITY];
    (0..)
        .zip(images.entries.iter())
        .map(|(index, image)| {
            let (request, session) = (format_uuid(1, index), format_uuid(2, index));
            let length = patch_ids(
                &ids.template,
                ids.request_id_at,
                &ids.correlation_id_at,
                &request,
                &session,
                &mut block,
            );
            let bytes = [&images.head, &block[..length], &image.tail].concat();
            &*bytes.leak()
        })
        .collect()
}
