//! The dashboard, its API and the metrics: everything reads the one snapshot.
//!
//! | path | what |
//! |---|---|
//! | `/` | the dashboard: one page, nothing loaded from elsewhere |
//! | `/api/stats` | the snapshot as JSON |
//! | `/api/events` | a snapshot a second as server-sent events, the last two minutes first |
//! | `/api/bindings` | registered contacts, a page at a time |
//! | `/metrics` | the snapshot for Prometheus (OpenMetrics text) |
//! | `/render`, `/metrics/find`, … | Graphite's interface, see [`graphite`](crate::graphite) |
//! | `/healthz` | 200 while the server serves, 503 with the reason otherwise |
//!
//! One thread, `bh-http`, runs all of it but the evaluation of Graphite's
//! requests: those take a worker's time, two at a time unless told otherwise.
//! Everything is read-only.

mod archives;
mod connections;
mod graphite;
mod graphs;
mod health;
mod metrics;
mod page;
mod routes;
mod sampler;
mod subject;

pub use archives::Archives;
pub use graphs::{GraphOptions, Graphs};
pub use routes::{BindingPage, BindingView};
pub use subject::Subject;

use connections::LimitedListener;
use graphs::{Charted, Sampling};
use sampler::Sampler;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::{runtime, sync::oneshot, time};

/// The running web server; dropping it stops it.
pub struct Web {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Ends with the server's own values.
    _sampling: Sampling,
}

impl Web {
    /// Binds `address` and serves `subject` and its `graphs` with at most
    /// `max_connections` at once.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound or no thread can be started.
    pub fn start(
        address: SocketAddr,
        max_connections: usize,
        subject: Arc<dyn Subject>,
        graphs: Arc<Graphs>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let subject: Arc<dyn Subject> = Arc::new(Charted {
            subject,
            graphs: graphs.clone(),
        });
        let sampling = graphs.sample(subject.clone());
        let served = Served { subject, graphs };
        let thread = std::thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || runtime.block_on(serve(listener, max_connections, served, stopped)))?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
            _sampling: sampling,
        })
    }

    /// The address in use, with the port the system chose where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    /// Ends the event streams, lets answers in progress leave and waits for the thread.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

/// What the routes show.
struct Served {
    subject: Arc<dyn Subject>,
    graphs: Arc<Graphs>,
}

async fn serve(
    listener: TcpListener,
    max_connections: usize,
    served: Served,
    stopped: oneshot::Receiver<()>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => LimitedListener::new(listener, max_connections),
        Err(error) => return tracing::error!(%error, "the dashboard cannot be served"),
    };
    let Served { subject, graphs } = served;
    let (sampler, sampling) = Sampler::start(subject.clone());
    let (drain, draining) = oneshot::channel::<()>();
    let routes = routes::router(subject, sampler).merge(graphite::router(graphs));
    let server =
        axum::serve(listener, routes).with_graceful_shutdown(async { drop(draining.await) });
    let server = tokio::spawn(server.into_future());
    // Either a stop was asked for or the owner is gone; both mean the same.
    let _ = stopped.await;
    sampling.abort();
    drop(drain);
    // A client that does not read its answer must not hold up the shutdown.
    let _ = time::timeout(DRAIN, server).await;
}

const THREAD: &str = "bh-http";
const DRAIN: Duration = Duration::from_secs(1);
