//! The threads: each has its own runtime, listener, timer and connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use monoio::io::Canceller;
use monoio::net::{ListenerOpts, TcpListener, UnixStream};
use monoio::{FusionDriver, FusionRuntime, IoUringDriver, LegacyDriver, RuntimeBuilder};

use crate::connection::Connection;
use crate::dcgm::Gpu;
use crate::ledger::{ControlLog, Counters, Ledger, LedgerEntry, SharedCounters, increment, lock};
use crate::observed::Observed;
use crate::script::Timings;
use crate::serve::serve;
use crate::sse::Voices;
use crate::sys;
use crate::timer::{Alarm, Timer};
use crate::{Options, StartError};

/// Connections that may wait for their accept; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;
/// Entries of a thread's submission queue, and of its completion queue, which must hold one for each connection that
/// becomes ready in one turn.
const SUBMISSIONS: u32 = 1_024;
const COMPLETIONS: u32 = 16 * 1_024;
/// How long a stopping thread waits for its connections to wind up.
const STOP_NS: u64 = 1_000_000_000;
/// Pause before the next accept when descriptors have run out.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) timings: Timings,
    pub(crate) counters: SharedCounters,
    pub(crate) observed: Observed,
    pub(crate) gpu: Mutex<Gpu>,
    pub(crate) control: Mutex<ControlLog>,
    /// What `/v1/models` lists; `mock-model` while nobody has said.
    pub(crate) models: OnceLock<Vec<String>>,
    /// Calls of each scripted path.
    pub(crate) scripted_calls: Vec<AtomicU64>,
    /// One per thread, so that its lock is free whenever that thread files an entry, unless someone reads it.
    ledgers: Vec<Mutex<Ledger>>,
}

impl Shared {
    /// The counters now.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
            .read(self.ledgers.iter().map(|ledger| lock(ledger).dropped()).sum())
    }

    /// All entries, in order of arrival.
    pub(crate) fn ledger(&self) -> Vec<LedgerEntry> {
        let mut entries = Vec::new();
        for ledger in &self.ledgers {
            entries.extend(lock(ledger).entries().cloned());
        }
        entries.sort_by_key(|entry| entry.receive_complete_ns);
        entries
    }

    /// The ledger as one JSON array with one entry per line, so that it can be read as a whole or line by line.
    pub(crate) fn ledger_json(&self) -> Vec<u8> {
        let mut json = b"[".to_vec();
        for (index, entry) in self.ledger().iter().enumerate() {
            json.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
            serde_json::to_writer(&mut json, entry).expect("an entry is plain data and a vector takes all");
        }
        json.extend_from_slice(b"\n]\n");
        json
    }
}

/// What the tasks of one thread share.
pub(crate) struct Thread {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) timer: Rc<Timer>,
    pub(crate) voices: RefCell<Voices>,
    open: RefCell<HashMap<u64, Rc<Connection>>>,
    /// The thread's main task, while it waits for the last connection to end.
    stopper: Cell<Option<Waker>>,
}

impl Thread {
    /// This thread's ledger.
    pub(crate) fn ledger(&self) -> &Mutex<Ledger> {
        &self.shared.ledgers[self.index]
    }

    /// Notes an open connection.
    pub(crate) fn enter(&self, connection: &Rc<Connection>) {
        increment(&self.shared.counters.connections_open);
        self.open.borrow_mut().insert(connection.number, Rc::clone(connection));
    }

    /// Notes the end of a connection.
    pub(crate) fn leave(&self, connection: &Connection) {
        self.shared.counters.connections_open.fetch_sub(1, Ordering::Relaxed);
        self.open.borrow_mut().remove(&connection.number);
        if let Some(waker) = self.stopper.take() {
            waker.wake();
        }
    }

    /// Ends every connection and waits until their tasks are done, but not longer than [`STOP_NS`].
    async fn close_all(&self) {
        self.open.borrow().values().for_each(|connection| connection.shut());
        let alarm = Alarm::new(&self.timer);
        let deadline_ns = sys::monotonic_ns() + STOP_NS;
        std::future::poll_fn(|cx| {
            if self.open.borrow().is_empty() || sys::monotonic_ns() >= deadline_ns {
                return Poll::Ready(());
            }
            alarm.arm(deadline_ns, cx.waker());
            self.stopper.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// The running threads.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
    threads: Vec<(StdUnixStream, JoinHandle<()>)>,
}

impl Server {
    /// Binds and starts all threads; when this returns, every one of them accepts.
    pub(crate) fn start(options: Options) -> Result<Server, StartError> {
        let host = (options.host.as_str(), options.port);
        let requested = host
            .to_socket_addrs()
            .and_then(|mut addresses| addresses.next().ok_or_else(|| io::ErrorKind::NotFound.into()))
            .map_err(|source| StartError::Host {
                host: options.host.clone(),
                source,
            })?;
        // More threads need SO_REUSEPORT, and with it two servers of one user could share a port without noticing. So
        // the port is bound once without.
        let probe = std::net::TcpListener::bind(requested);
        probe.map_err(|source| StartError::Bind {
            address: requested,
            source,
        })?;
        let ledger_capacity = options.ledger_capacity.div_ceil(options.threads);
        let shared = Arc::new(Shared {
            timings: Timings::new(options.ttft, options.itl, options.jitter, options.seed)
                .under_load(options.load_delay),
            counters: SharedCounters::default(),
            observed: Observed::default(),
            gpu: Mutex::new(Gpu::new(sys::monotonic_ns())),
            control: Mutex::default(),
            models: OnceLock::new(),
            scripted_calls: options.control.iter().map(|_| AtomicU64::new(0)).collect(),
            ledgers: (0..options.threads)
                .map(|_| Mutex::new(Ledger::new(ledger_capacity)))
                .collect(),
            options,
        });
        let mut server = Server {
            address: requested,
            threads: Vec::new(),
            shared,
        };
        for index in 0..server.shared.options.threads {
            // The first thread settles the port, if the system was to choose it.
            server.start_thread(index)?;
        }
        Ok(server)
    }

    /// Starts thread `index` and waits until it listens. A failure stops the threads before it, by dropping them.
    fn start_thread(&mut self, index: usize) -> Result<(), StartError> {
        let system = |source| StartError::Thread { index, source };
        let (stop, stopped) = StdUnixStream::pair().map_err(system)?;
        stopped.set_nonblocking(true).map_err(system)?;
        let (ready, listening) = mpsc::sync_channel(1);
        let (shared, address) = (Arc::clone(&self.shared), self.address);
        let handle = std::thread::Builder::new()
            .name(format!("mock-{index}"))
            .spawn(move || run_thread(index, shared, address, stopped, &ready))
            .map_err(system)?;
        self.threads.push((stop, handle));
        let died = || StartError::Thread {
            index,
            source: io::Error::other("the thread died while it started"),
        };
        self.address = listening.recv().map_err(|_| died())??;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (stops, handles): (Vec<_>, Vec<_>) = self.threads.drain(..).unzip();
        // Closing its end of the pair is the signal to each thread, all of them before the first join.
        drop(stops);
        for handle in handles {
            // A panic has been printed by its thread already, and a drop must not panic again.
            let _ = handle.join();
        }
    }
}

type Ready = mpsc::SyncSender<Result<SocketAddr, StartError>>;

/// One thread from its start to its end. `ready` gets the address it listens on, or why it does not.
fn run_thread(index: usize, shared: Arc<Shared>, address: SocketAddr, stopped: StdUnixStream, ready: &Ready) {
    let fail = |error| {
        // Behind the first message nobody listens any more, and an error while winding up changes nothing.
        let _ = ready.send(Err(error));
    };
    if let Some(first) = shared.options.pin_to
        && let Err(source) = sys::pin_to(first + index)
    {
        return fail(StartError::Pin {
            cpu: first + index,
            source,
        });
    }
    match runtime() {
        Ok(mut runtime) => {
            if let Err(error) = runtime.block_on(run(index, shared, address, stopped, ready)) {
                fail(error);
            }
        }
        Err(source) => fail(StartError::Thread { index, source }),
    }
}

/// An io_uring runtime where the kernel allows one, else one on epoll.
fn runtime() -> io::Result<FusionRuntime<IoUringDriver, LegacyDriver>> {
    let mut flags = monoio_io_uring::IoUring::builder();
    // Completions are then delivered when this thread asks for them, not by interrupting it; measured on streams, the
    // default ring costs about half as much again.
    flags
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_cqsize(COMPLETIONS);
    let builder = RuntimeBuilder::<FusionDriver>::new()
        .with_entries(SUBMISSIONS)
        .uring_builder(flags);
    // Kernels before 6.1 refuse the flags; a low limit of locked memory refuses the ring.
    builder
        .build()
        .or_else(|_| RuntimeBuilder::<FusionDriver>::new().with_entries(SUBMISSIONS).build())
        .or_else(|_| Ok(RuntimeBuilder::<LegacyDriver>::new().build()?.into()))
}

/// The main task of a thread: listens, serves, and winds up when the other end of `stopped` closes.
async fn run(
    index: usize,
    shared: Arc<Shared>,
    address: SocketAddr,
    stopped: StdUnixStream,
    ready: &Ready,
) -> Result<(), StartError> {
    let system = |source| StartError::Thread { index, source };
    let stopped = UnixStream::from_std(stopped).map_err(system)?;
    let listener =
        listen(address, shared.options.threads > 1).map_err(|source| StartError::Bind { address, source })?;
    let address = listener
        .local_addr()
        .map_err(|source| StartError::Bind { address, source })?;
    let timer = Rc::new(Timer::new().map_err(system)?);
    let ticking = {
        let timer = Rc::clone(&timer);
        monoio::spawn(async move { timer.run().await })
    };
    let thread = Rc::new(Thread {
        index,
        shared,
        timer,
        voices: RefCell::default(),
        open: RefCell::default(),
        stopper: Cell::new(None),
    });
    let canceller = Canceller::new();
    let accepting = {
        let (thread, cancel) = (Rc::clone(&thread), canceller.handle());
        monoio::spawn(async move { accept(thread, listener, cancel).await })
    };
    // The receiver waits for this message and cannot be gone.
    let _ = ready.send(Ok(address));
    // Readable means closed: nobody ever writes to the other end. An error would mean the same.
    let _ = stopped.readable(false).await;
    // Every task must end before the runtime is dropped: a task that waits is owned by the ring it waits for, and both
    // would stay for good, with their descriptors.
    drop(canceller.cancel());
    accepting.await;
    thread.close_all().await;
    thread.timer.stop().map_err(system)?;
    ticking.await.map_err(system)
}

fn listen(address: SocketAddr, shared_port: bool) -> io::Result<TcpListener> {
    let options = ListenerOpts::new()
        .reuse_addr(true)
        .reuse_port(shared_port)
        .backlog(BACKLOG);
    let listener = TcpListener::bind_with_config(address, &options)?;
    sys::set_nodelay(listener.as_raw_fd())?;
    Ok(listener)
}

/// Accepts connections until cancelled.
async fn accept(thread: Rc<Thread>, listener: TcpListener, cancel: monoio::io::CancelHandle) {
    let alarm = Alarm::new(&thread.timer);
    loop {
        match listener.cancelable_accept(cancel.clone()).await {
            Ok((stream, client)) => {
                let number = increment(&thread.shared.counters.connections);
                monoio::spawn(serve(Rc::clone(&thread), number, client, stream));
            }
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => return,
            // Either the client was gone before its accept, or descriptors have run out and some must be freed first.
            Err(_) => pause(&alarm, ACCEPT_PAUSE_NS).await,
        }
    }
}

async fn pause(alarm: &Alarm, pause_ns: u64) {
    let deadline_ns = sys::monotonic_ns() + pause_ns;
    std::future::poll_fn(|cx| {
        if sys::monotonic_ns() >= deadline_ns {
            return Poll::Ready(());
        }
        alarm.arm(deadline_ns, cx.waker());
        Poll::Pending
    })
    .await;
}

/// The lock of the control log, for the owner of the server.
pub(crate) fn control(shared: &Shared) -> MutexGuard<'_, ControlLog> {
    lock(&shared.control)
}
