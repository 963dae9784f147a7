//! A real HTTP server that takes what ours sends, and answers as a test says.

use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version, body::Bytes};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};
use tokio::{net::TcpListener, runtime, sync::oneshot};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// A running receiver; dropping it closes all of its connections.
pub struct HttpReceiver {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: Method,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub version: Version,
    /// The connection that it came over, counted from 0.
    pub connection: usize,
}

/// What a receiver does with a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Answers at once.
    Now(u16, String),
    /// The same, with a header.
    With(u16, &'static str, String, String),
    /// Answers after a while.
    After(Duration, u16),
    /// Never answers.
    Never,
}

type Behaviour = dyn Fn(&Received) -> Answer + Send + Sync;

impl HttpReceiver {
    /// On a free port.
    pub fn start(behave: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), None, behave)
    }

    /// With TLS, if there is a configuration for it.
    pub fn start_at(
        address: SocketAddr,
        tls: Option<ServerConfig>,
        behave: impl Fn(&Received) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::default();
        let (stop, stopped) = oneshot::channel();
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let behave: Arc<Behaviour> = Arc::new(behave);
        let log = Arc::clone(&received);
        let thread = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, tls, behave, log) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            received,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for HttpReceiver {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    behave: Arc<Behaviour>,
    received: Arc<Mutex<Vec<Received>>>,
) {
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let (behave, received) = (behave.clone(), received.clone());
        let tls = tls.clone();
        let service = hyper::service::service_fn(move |request| {
            let (behave, received) = (behave.clone(), received.clone());
            answer(request, connection, behave, received)
        });
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            // Clients may go away whenever they like.
            let _ = match tls {
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => {
                        builder
                            .serve_connection(TokioIo::new(stream), service)
                            .await
                    }
                    Err(_) => return,
                },
                None => {
                    builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                }
            };
        });
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    connection: usize,
    behave: Arc<Behaviour>,
    received: Arc<Mutex<Vec<Received>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let request = Received {
        method: head.method,
        path: path.to_owned(),
        headers: head.headers,
        body: body
            .collect()
            .await
            .map_or_else(|_| Bytes::new(), |body| body.to_bytes()),
        version: head.version,
        connection,
    };
    let answer = behave(&request);
    received.lock().unwrap().push(request);
    let respond = |status, body: String| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    };
    Ok(match answer {
        Answer::Now(status, body) => respond(status, body),
        Answer::With(status, name, value, body) => {
            let mut response = respond(status, body);
            response.headers_mut().insert(name, value.parse().unwrap());
            response
        }
        Answer::After(wait, status) => {
            tokio::time::sleep(wait).await;
            respond(status, String::new())
        }
        Answer::Never => std::future::pending().await,
    })
}
