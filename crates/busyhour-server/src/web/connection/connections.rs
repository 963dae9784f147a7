//! Connections, limited in total and for each source, each with bounds on what a client
//! may use.
//!
//! A connection beyond the limit gets one answer: that of `/healthz`, or 503. So a
//! monitoring program always gets its answer, whatever other clients do. If there are
//! too many of these connections, the oldest one is closed for a new one. Each has
//! little time.

use super::{
    load::{Load, Overuse},
    patient::Patient,
    places::Reservation,
    tls::WebTls,
};
use crate::web::local_socket::is_trusted;
use axum::{
    Extension, Router,
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener},
    task::{AbortHandle, JoinHandle},
    time,
};

/// The address of the client, for every request of a connection.
#[derive(Debug, Clone, Copy)]
pub(in crate::web) struct ClientAddress(pub(in crate::web) SocketAddr);

/// Where connections come from. A client of a local socket has the address 127.0.0.1.
pub(in crate::web) enum WebListener {
    Tcp(TcpListener),
    Tls(TcpListener, WebTls),
    Local(UnixListener),
}

/// A connection that was accepted, and may have to be encrypted.
enum Accepted {
    Plain(Box<dyn Stream>),
    Encrypted(TcpStream, WebTls),
}

impl Accepted {
    /// The connection, once it is encrypted.
    async fn ready(self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Plain(stream) => Ok(stream),
            Self::Encrypted(stream, tls) => Ok(Box::new(tls.accept(stream).await?)),
        }
    }
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl WebListener {
    async fn accept(&self) -> io::Result<(Accepted, ClientAddress)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Accepted::Plain(Box::new(stream)), ClientAddress(peer)))
            }
            Self::Tls(listener, tls) => {
                let (stream, peer) = listener.accept().await?;
                let accepted = Accepted::Encrypted(stream, tls.clone());
                Ok((accepted, ClientAddress(peer)))
            }
            Self::Local(listener) => {
                let stream = loop {
                    let (stream, _) = listener.accept().await?;
                    // The mode of the file says the same, unless somebody has changed it.
                    if is_trusted(stream.peer_cred()?.uid()) {
                        break stream;
                    }
                };
                let peer = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
                Ok((Accepted::Plain(Box::new(stream)), ClientAddress(peer)))
            }
        }
    }
}

/// Accepts and serves until [`end`](Self::end).
pub(in crate::web) struct Connections {
    accepting: JoinHandle<()>,
    living: Arc<GracefulShutdown>,
}

/// The state of the task that accepts connections.
struct Acceptor {
    listener: WebListener,
    routes: Router,
    living: Arc<GracefulShutdown>,
    load: Arc<Load>,
    /// Connections beyond the limit, the oldest first.
    spare: VecDeque<AbortHandle>,
}

impl Connections {
    /// Serves as many connections as `load` allows, and gives some more one answer.
    pub(in crate::web) fn start(listener: WebListener, load: Arc<Load>, routes: Router) -> Self {
        let living = Arc::new(GracefulShutdown::new());
        let acceptor = Acceptor {
            listener,
            routes,
            living: living.clone(),
            load,
            spare: VecDeque::new(),
        };
        Self {
            accepting: tokio::spawn(acceptor.run()),
            living,
        }
    }

    /// Accepts no more connections; answers in progress have this time to be sent.
    pub(in crate::web) async fn end(self, patience: Duration) {
        self.accepting.abort();
        // An aborted task frees its resources only when it is polled.
        let _ = self.accepting.await;
        if let Some(living) = Arc::into_inner(self.living) {
            // A client that does not read its answer must not hold up the shutdown.
            let _ = time::timeout(patience, living.shutdown()).await;
        }
    }
}

impl Acceptor {
    async fn run(mut self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) => rest_after(&error).await,
            }
        }
    }

    fn admit(&mut self, stream: Accepted, peer: ClientAddress) {
        match self.load.connections.take(peer.0.ip(), 1) {
            Ok(place) => self.serve(stream, peer, place),
            Err(why) => {
                self.load.count(Overuse::Connections(why));
                self.serve_health(stream, peer);
            }
        }
    }

    fn serve(&self, stream: Accepted, peer: ClientAddress, place: Reservation) {
        let routes = self.routes.clone().layer(Extension(peer));
        let (living, load) = (self.living.watcher(), self.load.clone());
        tokio::spawn(async move {
            if let Ok(stream) = stream.ready().await {
                let connection = builder().serve_connection(
                    TokioIo::new(patient(stream, load)),
                    TowerToHyperService::new(routes),
                );
                // An error of one connection concerns only its client.
                let _ = living.watch(connection).await;
            }
            drop(place);
        });
    }

    fn serve_health(&mut self, stream: Accepted, peer: ClientAddress) {
        let routes = self.routes.clone().layer(Extension(peer));
        let routes = routes.layer(middleware::from_fn(health_only));
        let load = self.load.clone();
        let serving = async move {
            if let Ok(stream) = stream.ready().await {
                let connection = builder().keep_alive(false).serve_connection(
                    TokioIo::new(patient(stream, load)),
                    TowerToHyperService::new(routes),
                );
                let _ = connection.await;
            }
        };
        let task = tokio::spawn(async move {
            let _ = time::timeout(SPARE_TIME_MAX, serving).await;
        });
        if self.spare.len() >= SPARE_MAX
            && let Some(oldest) = self.spare.pop_front()
        {
            oldest.abort();
        }
        self.spare.push_back(task.abort_handle());
    }
}

fn patient(stream: Box<dyn Stream>, load: Arc<Load>) -> Patient<Box<dyn Stream>> {
    let patience = load.patience;
    Patient::new(stream, patience, move || {
        load.count(Overuse::Unread);
    })
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
}

async fn health_only(request: Request, next: Next) -> Response {
    match request.uri().path() {
        "/healthz" => next.run(request).await,
        _ => {
            let headers = [(header::RETRY_AFTER, "1")];
            (StatusCode::SERVICE_UNAVAILABLE, headers, FULL).into_response()
        }
    }
}

/// A client that closed its connection needs no pause; too many open files do.
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

/// The time for the complete head of a request, and so for an idle connection, too.
const HEADER_TIME_MAX: Duration = Duration::from_secs(15);
/// The longest head of a request; hyper answers a longer one with 431.
const HEADER_BYTES_MAX: usize = 64 << 10;
const REST: Duration = Duration::from_secs(1);
const FULL: &str = "too many connections; close some, or raise http.max_connections \
    or http.max_connections_per_source\n";
/// The most connections beyond the limit.
const SPARE_MAX: usize = 16;
/// The time for everything on one of them.
const SPARE_TIME_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// The second connection is served once the first has gone, not before.
    #[test]
    fn a_connection_keeps_its_place_until_it_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(hold_and_let_go());
    }

    async fn hold_and_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = || async { "served" };
        let routes = Router::new()
            .route("/", get(answer))
            .route("/healthz", get(answer));
        let load = Arc::new(Load::new(1, 1, Duration::from_secs(60)));
        let connections = Connections::start(WebListener::Tcp(listener), load, routes);
        let first = TcpStream::connect(address).await.unwrap();
        assert!(ask(address, "/").await.starts_with("HTTP/1.1 503 "));
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200 "));
        drop(first);
        while !ask(address, "/").await.starts_with("HTTP/1.1 200 ") {}
        connections.end(Duration::ZERO).await;
    }

    async fn ask(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
