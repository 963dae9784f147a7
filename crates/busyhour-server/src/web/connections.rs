//! Connections: so many at a time, each with bounds on what a client may take.

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time,
};

/// Who is at the other end, for every request of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Accepts and serves until [`end`](Self::end).
pub(super) struct Connections {
    accepting: JoinHandle<()>,
    living: Arc<GracefulShutdown>,
}

/// What the accepting task has.
struct Acceptor {
    listener: TcpListener,
    routes: Router,
    living: Arc<GracefulShutdown>,
    places: Arc<Semaphore>,
}

impl Connections {
    /// Accepts only while fewer than `places_max` connections live; the others
    /// wait in the kernel's backlog.
    pub(super) fn start(listener: TcpListener, places_max: usize, routes: Router) -> Self {
        let living = Arc::new(GracefulShutdown::new());
        let acceptor = Acceptor {
            listener,
            routes,
            living: living.clone(),
            places: Arc::new(Semaphore::new(places_max)),
        };
        Self {
            accepting: tokio::spawn(acceptor.run()),
            living,
        }
    }

    /// Accepts no more, and gives answers in progress so much time to leave.
    pub(super) async fn end(self, patience: Duration) {
        self.accepting.abort();
        // An aborted task lets go of what it has only when it is polled.
        let _ = self.accepting.await;
        if let Some(living) = Arc::into_inner(self.living) {
            // A client that does not read its answer must not hold up the shutdown.
            let _ = time::timeout(patience, living.shutdown()).await;
        }
    }
}

impl Acceptor {
    async fn run(self) {
        // The semaphore is never closed, so a permit always comes in the end.
        while let Ok(place) = self.places.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.serve(stream, Peer(peer), place),
                Err(error) => rest_after(&error).await,
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: Peer, place: OwnedSemaphorePermit) {
        let routes = self.routes.clone().layer(Extension(peer));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME_MAX)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        let connection = self.living.watch(connection);
        tokio::spawn(async move {
            // What goes wrong with one connection is its client's affair.
            let _ = connection.await;
            drop(place);
        });
    }
}

/// A client that went away costs nothing; too many open files need time.
async fn rest_after(error: &io::Error) {
    let is_of_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    );
    if !is_of_client {
        tracing::warn!(%error, "HTTP connections cannot be accepted");
        time::sleep(REST).await;
    }
}

/// For the whole head of a request, and so for an idle connection too.
const HEADER_TIME_MAX: Duration = Duration::from_secs(15);
/// Of the head of a request; hyper answers a longer one with 431.
const HEADER_BYTES_MAX: usize = 64 << 10;
const REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::sync::Notify;

    /// The second connection is served once the first has gone, not before.
    #[test]
    fn a_connection_holds_its_place_until_it_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(hold_and_let_go());
    }

    async fn hold_and_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Notify::new());
        let tell = asked.clone();
        let answer = move || async move { tell.notify_one() };
        let connections = Connections::start(listener, 1, Router::new().route("/", get(answer)));
        let first = TcpStream::connect(address).await.unwrap();
        let second = TcpStream::connect(address).await.unwrap();
        second.writable().await.unwrap();
        second.try_write(REQUEST).unwrap();
        drop(first);
        asked.notified().await;
        connections.end(Duration::ZERO).await;
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
}
