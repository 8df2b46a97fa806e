//! The load on glommio: a task for each connection, readiness by an io_uring, then recv(2) and send(2).

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use glommio::net::TcpStream;
use glommio::{LocalExecutorBuilder, Placement};

use crate::load::{Load, RECEIVE_BYTES, Session};

/// Sends the load over so many connections.
pub(crate) fn send(server: SocketAddr, connections: u32, load: Load) {
    let load = Rc::new(RefCell::new(load));
    // Where the thread runs is the caller's business, as for the other runtimes.
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .make()
        .expect("a host with io_uring");
    executor.run(async {
        let tasks: Vec<_> = (0..connections)
            .map(|_| glommio::spawn_local(connection(server, Rc::clone(&load))))
            .collect();
        for task in tasks {
            task.await;
        }
    });
    load.borrow().finish();
}

async fn connection(server: SocketAddr, load: Rc<RefCell<Load>>) {
    let mut stream = TcpStream::connect(server).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a TCP socket");
    let mut session = Session::default();
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        let Some(request) = load.borrow_mut().next(&mut session) else {
            return;
        };
        stream.write_all(request).await.expect("the server reads");
        loop {
            let received = stream.read(&mut buffer).await.expect("the server answers");
            if load.borrow_mut().take(&mut session, &buffer[..received]) {
                break;
            }
        }
    }
}
