//! The load on tokio: a task for each connection, readiness by epoll.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::load::{Load, RECEIVE_BYTES, Session};

/// Sends the load over so many connections.
pub(crate) fn send(server: SocketAddr, connections: u32, load: Load) {
    // One thread only, so the lock is always free; tasks that share without one would need a second scheduler around them.
    let load = Arc::new(Mutex::new(load));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a host with epoll");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..connections)
            .map(|_| tokio::spawn(connection(server, Arc::clone(&load))))
            .collect();
        for task in tasks {
            task.await.expect("a connection that works to the end");
        }
    });
    locked(&load).finish();
}

async fn connection(server: SocketAddr, load: Arc<Mutex<Load>>) {
    let mut stream = TcpStream::connect(server).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a TCP socket");
    let mut session = Session::default();
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        let Some(request) = locked(&load).next(&mut session) else {
            return;
        };
        stream.write_all(request).await.expect("the server reads");
        loop {
            let received = stream.read(&mut buffer).await.expect("the server answers");
            if locked(&load).take(&mut session, &buffer[..received]) {
                break;
            }
        }
    }
}

fn locked(load: &Mutex<Load>) -> MutexGuard<'_, Load> {
    load.lock().expect("no connection panicked")
}
