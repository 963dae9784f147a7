//! The dashboard, its API and the metrics: everything reads the one snapshot.
//!
//! | path | what |
//! |---|---|
//! | `/` | the dashboard: nothing is loaded from elsewhere |
//! | `/api/v1/…` | the interface for programs; `openapi` lists its paths, and describes them at `/api/v1/openapi.json` |
//! | `/api/…` | the same without a version, as it was before there were versions |
//! | `/metrics` | the snapshot for Prometheus (OpenMetrics text) |
//! | `/metrics/pcp` | the same for the Performance Co-Pilot's `pmdaopenmetrics` |
//! | `/render`, `/metrics/find`, … | Graphite's interface, see [`graphite`](busyhour_graphite) |
//! | `/telephone/` | a telephone for browsers, with the setting `http.telephone`; needs no token |
//! | `/healthz` | 200 while the server serves, 503 with the reason otherwise |
//!
//! All of it is also served on a [local socket](LocalSocket), without tokens.
//!
//! One thread, `bh-http`, does everything except the evaluation of Graphite's
//! requests. Those run on the pool's workers, two at a time by default. [`Access`]
//! decides which requests are allowed.

mod domain_scope;
mod across;
mod parameters;
mod on_worker;
mod access;
mod acme;
mod token;
mod connection;
mod backend;
mod protocol;
mod rate_limit;
mod findings;
pub(crate) mod call_record_table;
mod routes;
mod api;
mod health;
mod openapi;
mod metrics;
mod pcp_metrics;
mod page;
mod graph;
mod local_socket;
mod telephone;

pub use access::Access;
pub use acme::ChallengeTexts;
pub use api::accounts::AccountsApi;
pub use api::bindings::{BindingPage, BindingView};
pub use api::operating::certificates::{CertificatesApi, RenewError};
pub use api::operating::operator::{OperatorApi, ReloadReport, SettingView};
pub use api::operating::storm::{StormPlan, StormRefusal, StormView};
pub use api::operating::webhooks::WebhooksApi;
pub use api::settings_api::SettingsApi;
pub use api::tenants::TenantsApi;
pub use backend::Backend;
pub use connection::tls::WebTls;
pub use graph::archives::Archives;
pub use graph::graphs::{GraphOptions, Graphs};
pub use graph::pmcd_address::PmcdAddress;
pub use graph::pmcd_source::PmcdSource;
pub use local_socket::{LocalSocket, default_socket, process_of, socket_folders};
pub use on_worker::Portions;
pub use telephone::Telephone;
pub use token::{Scope, Token};

use axum::{Router, middleware};
use connection::{
    connections::{Connections, WebListener},
    load::Load,
};
use graph::{
    graphs::{Charted, GraphSampling},
    sampler::Sampler,
};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    runtime,
    sync::{oneshot, watch},
};

/// The running web server; dropping it stops it.
pub struct Web {
    address: Option<SocketAddr>,
    tls_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Ends the sampling of the server's own values.
    _sampling: GraphSampling,
}

/// Where to serve, and the access rules and limits.
pub struct WebOptions {
    /// The address to bind, if any.
    pub address: Option<SocketAddr>,
    /// The address to bind for HTTPS, if any, and how it is encrypted.
    pub tls: Option<(SocketAddr, WebTls)>,
    /// What an authority by ACME is answered over HTTP, and at which address beside the others.
    pub challenges: Option<(Option<SocketAddr>, ChallengeTexts)>,
    /// The certificates, which can be read again.
    pub certificates: Option<Arc<dyn CertificatesApi>>,
    /// The telephone for browsers, if it is served.
    pub telephone: Option<Telephone>,
    /// The local socket, if any.
    pub socket: Option<LocalSocket>,
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections at a time from one IPv4 address or IPv6 network of 64 bits.
    pub connections_per_source_max: usize,
    /// The time for a complete body, and for a client to continue reading.
    pub patience: Duration,
    /// The access rules.
    pub access: Arc<Access>,
    /// The configuration and the log, if the program around the server has them.
    pub operator: Option<Arc<dyn OperatorApi>>,
}

impl Web {
    /// Binds an address and serves `backend` and its `graphs`.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound or no thread can be started.
    pub fn start(
        options: WebOptions,
        backend: Arc<dyn Backend>,
        graphs: Arc<Graphs>,
    ) -> io::Result<Self> {
        let listener = options.address.map(bind).transpose()?;
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let encrypted = options
            .tls
            .map(|(address, tls)| Ok::<_, io::Error>((bind(address)?, tls)));
        let encrypted = encrypted.transpose()?;
        let tls_address = encrypted
            .as_ref()
            .map(|(it, _)| it.local_addr())
            .transpose()?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (challenge_address, answers) = options.challenges.unzip();
        let challenge_listener = challenge_address.flatten().map(bind).transpose()?;
        let (stop, stopped) = oneshot::channel();
        let load = Arc::new(Load::new(
            options.connections_max,
            options.connections_per_source_max,
            options.patience,
        ));
        let local_load = Arc::new(Load::of_local_socket(options.patience));
        let backend: Arc<dyn Backend> = Arc::new(Charted {
            backend,
            graphs: graphs.clone(),
            access: options.access.clone(),
            load: load.clone(),
            local_load: local_load.clone(),
            certificates: options.certificates,
        });
        let sampling = graphs.sample(backend.clone());
        let served = Served {
            backend,
            graphs,
            access: options.access,
            operator: options.operator,
            load,
            local_load,
            challenges: (challenge_listener, answers),
            telephone: options.telephone,
        };
        let thread = std::thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || {
                runtime.block_on(serve(
                    (listener, encrypted),
                    options.socket,
                    served,
                    stopped,
                ));
            })?;
        Ok(Self {
            address,
            tls_address,
            stop: Some(stop),
            thread: Some(thread),
            _sampling: sampling,
        })
    }

    /// The address in use, with the port that the system chose if port 0 was given.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The same for HTTPS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }
}

impl Drop for Web {
    /// Ends the event streams, lets answers in progress be sent, and waits for the
    /// thread.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

/// The data for the routes, and the access rules.
struct Served {
    backend: Arc<dyn Backend>,
    graphs: Arc<Graphs>,
    access: Arc<Access>,
    operator: Option<Arc<dyn OperatorApi>>,
    load: Arc<Load>,
    local_load: Arc<Load>,
    challenges: (Option<TcpListener>, Option<ChallengeTexts>),
    telephone: Option<Telephone>,
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn serve(
    (listener, encrypted): (Option<TcpListener>, Option<(TcpListener, WebTls)>),
    socket: Option<LocalSocket>,
    served: Served,
    stopped: oneshot::Receiver<()>,
) {
    let Served {
        backend,
        graphs,
        access,
        operator,
        load,
        local_load,
        challenges: (challenge_listener, answers),
        telephone,
    } = served;
    let (sampler, sampling) = Sampler::start(backend.clone());
    let serving = watch::Sender::new(());
    let api = backend
        .api()
        .map(api::setting_routes::router)
        .unwrap_or_default();
    let routes = routes::router(backend.clone(), sampler.clone(), load.clone())
        .merge(page::router())
        .merge(openapi::router())
        .merge(api::operating::storm::router(operator.clone()))
        .merge(api::operating::operator::router(
            backend.clone(),
            sampler,
            operator,
            telephone.is_some(),
        ))
        .merge(api::devices::router(backend.clone()))
        .merge(api::accounts::router(backend.clone()))
        .merge(api::tenants::router(backend.clone()))
        .merge(api::bindings::router(backend.clone()))
        .merge(api::failures::router(backend.clone()))
        .merge(api::operating::webhooks::router(backend.clone()))
        .merge(api::call_records::router(backend.clone()))
        .merge(api::trace::router(backend.clone(), load.clone()))
        .merge(api::live::router(backend.clone()))
        .merge(api::operating::certificates::router(backend.clone()))
        .merge(api::changes::router(
            backend.clone(),
            load.clone(),
            serving.subscribe(),
        ))
        .merge(graph::graphite::router(graphs))
        .merge(api);
    let routes = across::across_nodes(backend, routes);
    let routes = protocol::conditional::conditional(routes);
    // A request without access is refused before its body is read.
    let gather =
        |load: &Arc<Load>| middleware::from_fn_with_state(load.clone(), connection::bodies::gather);
    let guard = middleware::from_fn_with_state(access, access::guard);
    let described = |routes: Router| {
        let tagged = routes.layer(middleware::from_fn(protocol::etag::tag));
        protocol::version::versioned(tagged.layer(middleware::from_fn(protocol::problem::describe)))
    };
    let open = described(routes.clone().layer(gather(&local_load)));
    // An authority has no token, and asks for a name that need not be one of the dashboard's.
    let challenges = answers.map(acme::router).unwrap_or_default();
    let guarded = routes.layer(gather(&load)).layer(guard);
    let telephone = telephone.as_ref().map(Telephone::router);
    let guarded = guarded.merge(telephone.unwrap_or_default());
    let guarded = described(guarded.merge(challenges.clone()));
    let by_challenge = challenge_listener.and_then(|listener| {
        let listener = tokio::net::TcpListener::from_std(listener);
        let report = |error| tracing::error!(%error, "ACME cannot be answered over HTTP");
        let listener = WebListener::Tcp(listener.map_err(report).ok()?);
        Some(Connections::start(listener, load.clone(), challenges))
    });
    let listener = listener.map(tokio::net::TcpListener::from_std).transpose();
    let by_address = match listener {
        Ok(listener) => listener
            .map(|it| Connections::start(WebListener::Tcp(it), load.clone(), guarded.clone())),
        Err(error) => return tracing::error!(%error, "the dashboard cannot be served"),
    };
    let by_https = encrypted.and_then(|(listener, tls)| {
        let listener = tokio::net::TcpListener::from_std(listener);
        let report = |error| tracing::error!(%error, "HTTPS cannot be served");
        let listener = WebListener::Tls(listener.map_err(report).ok()?, tls);
        Some(Connections::start(listener, load.clone(), guarded))
    });
    // On the local socket nobody is a stranger, and clients of the address take nothing
    // from it.
    let local = socket
        .map(LocalSocket::into_parts)
        .and_then(|(listener, file)| {
            let listener = tokio::net::UnixListener::from_std(listener);
            let report = |error| tracing::error!(%error, "the local socket cannot be served");
            let listener = listener.map_err(report).ok()?;
            let connections = Connections::start(WebListener::Local(listener), local_load, open);
            Some((connections, file))
        });
    // Either a stop was requested or the owner is gone; both end the server.
    let _ = stopped.await;
    sampling.abort();
    // Ends the streams of changes.
    drop(serving);
    for connections in [by_address, by_https, by_challenge].into_iter().flatten() {
        connections.end(DRAIN).await;
    }
    if let Some((connections, file)) = local {
        // Before the listener is closed; see `LocalSocket::into_parts`.
        drop(file);
        connections.end(DRAIN).await;
    }
}

const THREAD: &str = "bh-http";
const DRAIN: Duration = Duration::from_secs(1);
