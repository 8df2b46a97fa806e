//! The load on monoio: a task for each connection, completions of an io_uring.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use monoio::io::{AsyncReadRent as _, AsyncWriteRentExt as _};
use monoio::net::TcpStream;
use monoio::{IoUringDriver, RuntimeBuilder};

use crate::load::{Load, RECEIVE_BYTES, Session};

const SUBMISSIONS: u32 = 1_024;

/// How the ring is set up.
pub(crate) enum Ring {
    /// Completions are delivered when the thread asks for them, as on ringload's ring.
    AsRingload,
    /// As monoio does it by itself.
    Default,
}

/// Sends the load over so many connections.
pub(crate) fn send(server: SocketAddr, connections: u32, load: Load, ring: Ring) {
    let mut builder = RuntimeBuilder::<IoUringDriver>::new().with_entries(SUBMISSIONS);
    if let Ring::AsRingload = ring {
        let mut flags = monoio_io_uring::IoUring::builder();
        flags
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_cqsize(4 * SUBMISSIONS);
        builder = builder.uring_builder(flags);
    }
    let load = Rc::new(RefCell::new(load));
    builder.build().expect("a host with io_uring").block_on(async {
        let tasks: Vec<_> = (0..connections)
            .map(|_| monoio::spawn(connection(server, Rc::clone(&load))))
            .collect();
        for task in tasks {
            task.await;
        }
    });
    load.borrow().finish();
}

async fn connection(server: SocketAddr, load: Rc<RefCell<Load>>) {
    let mut stream = TcpStream::connect_addr(server).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a TCP socket");
    let mut session = Session::default();
    let mut buffer = Vec::with_capacity(RECEIVE_BYTES);
    loop {
        let Some(request) = load.borrow_mut().next(&mut session) else {
            return;
        };
        stream.write_all(request).await.0.expect("the server reads");
        loop {
            let (received, filled) = stream.read(buffer).await;
            buffer = filled;
            let received = received.expect("the server answers");
            if load.borrow_mut().take(&mut session, &buffer[..received]) {
                break;
            }
        }
    }
}
