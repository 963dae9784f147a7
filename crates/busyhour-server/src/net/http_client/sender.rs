use super::{
    lane::{LaneKey, Lanes},
    pending_request::{PendingRequest, RequestCounters, count},
    shared_lookups::SharedLookups,
    trusted_roots::TrustedRoots,
};
use crate::server::{
    HttpAnswer, HttpClient, HttpClientStats, HttpFailure, HttpListener, HttpRequest,
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use std::{
    error::Error,
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
    time::{Instant, timeout_at},
};

/// The client of this machine. Dropping it gives up the requests that are under way.
pub struct HttpSender {
    options: HttpSenderOptions,
    lanes: Arc<Lanes>,
    counters: Arc<RequestCounters>,
    /// Begins with the first request; `None` if that was not possible.
    thread: OnceLock<Option<SenderThread>>,
}

type NamedConnector = HttpConnector<SharedLookups>;

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct HttpSenderOptions {
    /// Requests under way, and so connections, for one purpose to one host.
    pub connections_per_host: usize,
    /// Whose certificates are believed.
    pub roots: TrustedRoots,
}

struct SenderThread {
    runtime: Handle,
    client: Client<HttpsConnector<NamedConnector>, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpSender {
    /// A client that has no thread yet.
    pub fn new(options: HttpSenderOptions) -> Self {
        Self {
            lanes: Arc::new(Lanes::new(options.connections_per_host)),
            options,
            counters: Arc::default(),
            thread: OnceLock::new(),
        }
    }

    fn thread(&self) -> Option<&SenderThread> {
        let start = || match SenderThread::start(&self.options) {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::error!(%error, "there is no HTTP client");
                None
            }
        };
        self.thread.get_or_init(start).as_ref()
    }
}

impl HttpClient for HttpSender {
    fn send(&self, request: HttpRequest, listener: HttpListener) -> Result<(), HttpFailure> {
        let thread = self.thread().ok_or(HttpFailure::Unavailable)?;
        let scheme = request.url.uri().scheme_str().unwrap_or_default();
        let key = LaneKey {
            purpose: request.purpose,
            host: format!("{scheme}://{}", request.url.authority()),
        };
        let Some(place) = self.lanes.enter(key) else {
            count(&self.counters.refused_full);
            return Err(HttpFailure::Full);
        };
        let pending = PendingRequest::new(listener, place, self.counters.clone());
        let client = thread.client.clone();
        thread.runtime.spawn(async move {
            let places = pending.place().map(|place| place.places.clone());
            let ends_at = Instant::now() + request.time_limit;
            let head = async {
                // The semaphore is never closed.
                let under_way = match &places {
                    Some(places) => places.acquire().await.ok(),
                    None => None,
                };
                (exchange(&client, &request).await, under_way)
            };
            let outcome = match timeout_at(ends_at, head).await {
                Ok((Ok(answer), _under_way)) => whole(answer, &request, ends_at).await,
                Ok((Err(failure), _)) => Err(failure),
                Err(_) => Err(HttpFailure::Late),
            };
            pending.end(outcome);
        });
        Ok(())
    }

    fn stats(&self) -> HttpClientStats {
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HttpClientStats {
            requests: get(&counters.requests),
            answered: get(&counters.answered),
            connect_failures: get(&counters.connect_failures),
            late: get(&counters.late),
            broken: get(&counters.broken),
            refused_full: get(&counters.refused_full),
            waiting_count: self.lanes.request_count() as u64,
        }
    }
}

impl SenderThread {
    fn start(options: &HttpSenderOptions) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .max_blocking_threads(LOOKUP_THREADS)
            .thread_name(THREAD)
            .enable_all()
            .build()?;
        let tls = options.roots.client_config().map_err(io::Error::other)?;
        let mut connector = HttpConnector::new_with_resolver(SharedLookups::default());
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_LIMIT));
        connector.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(options.connections_per_host)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(THREAD.into());
        let thread = thread.spawn(move || {
            // Its sender is dropped, and sends nothing.
            let _ = runtime.block_on(stopped);
            // A look-up that the system does not end is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            client,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for SenderThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

impl Default for HttpSenderOptions {
    fn default() -> Self {
        Self {
            connections_per_host: 8,
            roots: TrustedRoots::System,
        }
    }
}

/// Until the head of the answer is there.
async fn exchange(
    client: &Client<HttpsConnector<NamedConnector>, Full<Bytes>>,
    request: &HttpRequest,
) -> Result<Response<Incoming>, HttpFailure> {
    let mut sent = Request::new(Full::new(request.body.clone()));
    *sent.method_mut() = request.method.clone();
    *sent.uri_mut() = request.url.uri().clone();
    *sent.headers_mut() = request.headers.clone();
    let headers = sent.headers_mut();
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(AGENT));
    client.request(sent).await.map_err(|error| {
        let cause = cause(&error);
        match error.is_connect() {
            true => HttpFailure::Connect(cause),
            false => HttpFailure::Broken(cause),
        }
    })
}

/// The answer with its body. What was done is said by the status, so a body that nobody needs is not
/// waited for.
async fn whole(
    answer: Response<Incoming>,
    request: &HttpRequest,
    ends_at: Instant,
) -> Result<HttpAnswer, HttpFailure> {
    let (head, body) = answer.into_parts();
    let ends_at = match request.needs_body {
        true => ends_at,
        false => Instant::now() + UNNEEDED_BODY_LIMIT,
    };
    let body = Limited::new(body, request.answer_bytes_max).collect();
    let body = match timeout_at(ends_at, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(HttpFailure::TooLong),
        Ok(Err(error)) => Err(HttpFailure::Broken(cause(error.as_ref()))),
        Err(_) => Err(HttpFailure::Late),
    };
    let body = match request.needs_body {
        true => body?,
        false => body.unwrap_or_default(),
    };
    Ok(HttpAnswer {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// The innermost error says what is wrong.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

const THREAD: &str = "bh-http-out";
/// Names that are looked up at a time, each once: as many hosts as a configuration has.
const LOOKUP_THREADS: usize = 64;
/// A connection whose body takes longer is not used again.
const UNNEEDED_BODY_LIMIT: Duration = Duration::from_secs(1);
/// For one address of a host; a request may give up earlier.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// A connection that nobody needs is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("busyhour/", env!("CARGO_PKG_VERSION"));
