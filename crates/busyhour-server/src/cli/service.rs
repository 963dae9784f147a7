use super::{
    Failure,
    announce::announce,
    certificates::{CertificatePlan, Certificates, ReadCertificates},
    cluster::member,
    reload::{ConfigSource, Reloadable, Reloader},
    running_server::reachable,
    signals::ShutdownTrigger,
    trial_storm::{SmallStormAccounts, TrialStorms},
};
use crate::{
    config::{self, Config, Loaded, SocketPlace, default_database},
    logs::RunningLog,
    net::{
        DnsClient, HttpSender, Sockets, StreamOptions, StreamPolicy, Streams, Udp, UdpOptions,
        address_problem,
    },
    server::{
        NoResolver, NodeSocket, PeerConfig, Resolver, Server, ServerConfig, SpanExportConfig,
    },
    web::{
        Access, Archives, ChallengeTexts, Graphs, LocalSocket, PmcdSource, Telephone, Web,
        WebOptions, WebTls, default_socket,
    },
};
use busyhour::{buffer::BufferPool, runtime::Runtime};
use busyhour_cluster::Member;
use busyhour_graphite::Source;
use busyhour_sip::Transport;
use busyhour_store::{
    MemoryStore, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store, masked,
};
use std::{
    fs::DirBuilder,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::{Duration, Instant},
};

/// A server and everything that it uses.
pub(super) struct Service {
    pub(super) config: Config,
    /// Where it stands, if it was named.
    pub(super) config_file: Option<PathBuf>,
    pub(super) reloader: Arc<Reloader>,
    pub(super) network: Arc<Sockets>,
    pub(super) web: Option<Web>,
    certificates: Arc<Certificates>,
    server: Server,
    runtime: Runtime,
}

impl Service {
    /// Opens the store, binds the addresses, serves, and prints that it is ready. If
    /// the store stops by itself, the server ends through `ending`.
    pub(super) fn start(
        loaded: Loaded,
        source: ConfigSource,
        log: RunningLog,
        ending: &ShutdownTrigger,
    ) -> Result<Self, Failure> {
        let config = loaded.config.clone();
        let config_file = source.file.clone();
        // The store comes first: a second server on the same store must be refused
        // before it takes a port.
        let mut membership = member::join(&config, ending)?;
        let member = membership.as_ref().map(|membership| membership.member);
        let store = open_store(&config.store, member)?;
        if let Some(warning) = unread_store(&config.store) {
            tracing::warn!(event = "configuration_warning", "{warning}");
        }
        let ending = ending.clone();
        store.watch_end(Box::new(move |error| ending.because(error.to_string())));
        let plan = CertificatePlan::of(&config);
        let identity = plan.read().map_err(Failure::running)?;
        let network = Arc::new(bind(&config, &identity)?);
        let web_tls = WebTls::default();
        let certificates = Certificates::new(plan, network.clone(), web_tls.clone(), &identity);
        let certificates = Arc::new(certificates);
        let runtime = build_runtime(&config.runtime)?;
        let accounts = Arc::new(Reloadable::new(config.accounts.clone()));
        let trial = Arc::new(SmallStormAccounts::beside(accounts.clone()));
        let http = config.http_client.options().map_err(Failure::running)?;
        let credentials = config.credentials.service().map_err(Failure::running)?;
        let spans = config.otlp.collector().map_err(Failure::running)?;
        let spans = spans.map(|spans| SpanExportConfig {
            instance: config.cluster.node.clone(),
            ..spans
        });
        let options = ServerConfig {
            accounts: trial.clone(),
            credentials,
            spans,
            http: Arc::new(HttpSender::new(http)),
            resolver: resolver(&config)?,
            ..config.server()
        };
        let (on, sockets) = (runtime.clone(), network.clone());
        let of_nodes = network.nodes.addresses().first();
        if let (Some(membership), Some(address)) = (&mut membership, of_nodes) {
            membership.direct = Some(NodeSocket {
                network: network.nodes.clone(),
                address: *address,
            });
        }
        let server = match membership {
            None => Server::start(on, options, sockets, store),
            Some(membership) => Server::start_in_cluster(on, options, sockets, store, membership),
        };
        let server = server.map_err(Failure::running)?;
        let access = Access::new(config.http.hosts.clone(), config.tokens.clone());
        let access = Arc::new(access.with_rate(config.http.requests_per_second));
        let stored = access.clone();
        server.watch_tokens(Box::new(move |rows| stored.replace_stored(rows)));
        let reloader = Arc::new(Reloader {
            in_effect: RwLock::new(loaded),
            reloading: Mutex::default(),
            source,
            log,
            accounts,
            access: access.clone(),
            server: server.clone(),
            certificates: certificates.clone(),
            storms: TrialStorms::new(
                server.clone(),
                network.sip.addresses().first().copied().map(reachable),
                config.sip.domains.first().cloned(),
                (config.sip.auth == config::Auth::Digest).then_some(trial),
            ),
        });
        let service = Self {
            web: start_web(
                &config,
                telephone(&config, &network)?,
                (&server, &runtime),
                (access, reloader.clone()),
                (web_tls, certificates.clone()),
            )?,
            config,
            config_file,
            reloader,
            certificates,
            network,
            server,
            runtime,
        };
        let attached = service.network.attach(&service.server, &service.runtime);
        attached.map_err(Failure::running)?;
        let watched = service.certificates.watch(&service.runtime);
        watched.map_err(Failure::running)?;
        service.certificates.order().map_err(Failure::running)?;
        announce(&service);
        Ok(service)
    }

    /// Shuts down within the configured time.
    ///
    /// 1. A node of a cluster gives its partitions to others.
    /// 2. The server takes no more requests, asks watchers to subscribe again, and makes
    ///    the changes that it has accepted durable.
    /// 3. The runtime runs what is queued, including the last answers.
    /// 4. The sockets close. The dashboard closes last, so that it shows the other steps.
    pub(super) fn stop(self) -> Result<(), Failure> {
        let deadline = self.reloader.drain_time();
        tracing::info!(seconds = deadline.as_secs(), "draining");
        let begun = Instant::now();
        let has_left = self.server.leave_cluster(deadline);
        if !has_left {
            tracing::warn!("not all partitions were given away; others take them over");
        }
        let durable = self
            .server
            .shutdown(deadline.saturating_sub(begun.elapsed()));
        // Each part has only the time that the parts before it left.
        let left = deadline.saturating_sub(begun.elapsed());
        let report = self.runtime.shutdown(left);
        self.network.stop_receiving();
        if durable && report.is_clean() {
            tracing::info!("drained");
            return Ok(());
        }
        let unwritten = if durable {
            ""
        } else {
            "; not everything was made durable"
        };
        Err(Failure::running(format!(
            "not finished within {} s: {} tasks left, {} workers busy{unwritten}",
            deadline.as_secs(),
            report.not_run,
            report.unfinished_workers,
        )))
    }

    /// The number of accounts in the configuration and in the database.
    pub(super) fn account_count(&self) -> u64 {
        self.config.accounts.len() + self.server.stored_account_count() as u64
    }
}

pub(super) fn open_store(
    options: &config::Store,
    member: Option<Member>,
) -> Result<Box<dyn Store>, Failure> {
    let durability = match options.durability {
        config::Durability::Memory => return Ok(Box::new(MemoryStore::new())),
        config::Durability::Full => busyhour_store::Durability::Full,
        config::Durability::Process => busyhour_store::Durability::Process,
    };
    if let Some(url) = options.database_url().map_err(Failure::usage)? {
        let mut postgres = PostgresOptions::new(&url).map_err(Failure::usage)?;
        postgres.durability = durability;
        postgres.queue_capacity = options.queue;
        postgres.location_view = options.location_view;
        postgres.member = member;
        let store = PostgresStore::open(postgres);
        return Ok(Box::new(store.map_err(Failure::running)?));
    }
    let path = database(options);
    make_folder(&path)?;
    let store = SqliteStore::open(SqliteOptions {
        durability,
        queue_capacity: options.queue,
        location_view: options.location_view,
        ..SqliteOptions::new(path)
    });
    Ok(Box::new(store.map_err(Failure::running)?))
}

/// The accounts of a database that a server without a database does not read.
pub(super) fn unread_store(options: &config::Store) -> Option<String> {
    let is_there = options.is_postgres() || database(options).exists();
    let is_unread = options.durability == config::Durability::Memory && is_there;
    is_unread.then(|| {
        let store = store_name(options);
        format!(
            "store.durability is memory, so accounts and bindings in database {store} are not \
             read; give accounts in the configuration or over HTTP"
        )
    })
}

/// The store as commands name it: the path of the file, or the URL without its password.
pub(super) fn store_name(options: &config::Store) -> String {
    match (options.database_url(), &options.url_file) {
        (Ok(Some(url)), _) => masked(&url),
        (Err(_), Some(file)) => format!("of {}", file.display()),
        _ => database(options).display().to_string(),
    }
}

/// Where the database file is.
pub(super) fn database(options: &config::Store) -> PathBuf {
    options.path.clone().unwrap_or_else(default_database)
}

/// A folder that is made here is only for the server's user: the database holds hashes
/// of passwords.
pub(super) fn make_folder(database: &Path) -> Result<(), Failure> {
    let Some(folder) = database
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    else {
        return Ok(());
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        let (database, folder) = (database.display(), folder.display());
        Failure::running(format!(
            "database {database}: folder {folder} cannot be made: {error}"
        ))
    })
}

/// Binds the addresses of both protocols; each socket has the same buffers.
fn bind(config: &Config, identity: &ReadCertificates) -> Result<Sockets, Failure> {
    let bind = |protocol, addresses: &[_]| {
        let options = UdpOptions {
            protocol,
            addresses: addresses.to_vec(),
            receive_buffer_bytes: config.sip.receive_buffer_kib << 10,
            send_queue_len_max: config.sip.send_queue,
        };
        Udp::bind(&options).map_err(Failure::running)
    };
    let streams = Streams::bind(stream_options(config, identity));
    Ok(Sockets {
        sip: bind("SIP", &config.sip.listen)?,
        streams: streams.map_err(Failure::running)?,
        iax2: bind("IAX2", &config.iax2.listen)?,
        capture: bind_capture(config)?,
        media: bind_media(config)?,
        nodes: Arc::new(member::bind_for_nodes(config)?),
    })
}

/// Only peers have names that are looked up.
fn resolver(config: &Config) -> Result<Arc<dyn Resolver>, Failure> {
    if config.peers.is_empty() {
        return Ok(Arc::new(NoResolver));
    }
    let client = DnsClient::start(&config.sip.dns_servers);
    Ok(Arc::new(client.map_err(Failure::running)?))
}

/// A socket of its own, so that copies never take the room of messages.
fn bind_capture(config: &Config) -> Result<Udp, Failure> {
    let any = |server: SocketAddr| match server {
        SocketAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
        SocketAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
    };
    let options = UdpOptions {
        protocol: "HEP",
        addresses: config.hep.server.map(any).into_iter().collect(),
        receive_buffer_bytes: CAPTURE_RECEIVE_BYTES,
        send_queue_len_max: CAPTURE_QUEUE_LEN_MAX,
    };
    Udp::bind(&options).map_err(Failure::running)
}

/// A socket for each family of addresses that media relays have.
fn bind_media(config: &Config) -> Result<Udp, Failure> {
    let relays = config.media.relays.iter().map(|relay| relay.address);
    let has = |is_v4| relays.clone().any(|it| it.is_ipv4() == is_v4);
    let any_v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let any_v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let families = [(any_v4, has(true)), (any_v6, has(false))];
    let wanted = families.into_iter().filter(|(_, is_wanted)| *is_wanted);
    let options = UdpOptions {
        protocol: "NG",
        addresses: wanted.map(|(address, _)| address).collect(),
        receive_buffer_bytes: MEDIA_RECEIVE_BYTES,
        send_queue_len_max: MEDIA_QUEUE_LEN_MAX,
    };
    Udp::bind(&options).map_err(Failure::running)
}

fn stream_options(config: &Config, identity: &ReadCertificates) -> StreamOptions {
    let sip = &config.sip;
    let registrars = config.registrars.iter();
    let of_registrars = registrars.filter_map(|it| it.tls_target(&config.peers));
    StreamOptions {
        tcp: sip.tcp_addresses().to_vec(),
        tls: sip.tls.clone(),
        ws: sip.ws.clone(),
        wss: sip.wss.clone(),
        certificate: identity.0.clone(),
        authorities: identity.1.clone(),
        tls_targets: config
            .peers
            .iter()
            .flat_map(PeerConfig::tls_targets)
            .chain(of_registrars)
            .collect(),
        reserved: config
            .peers
            .iter()
            .flat_map(PeerConfig::targets)
            .map(|(_, address)| address)
            .chain(config.registrars.iter().map(|it| it.address))
            .collect(),
        policy: StreamPolicy {
            connections_max: sip.connections_max,
            connections_per_source_max: sip.connections_per_source_max,
            handshakes_max: sip.handshakes_max,
            handshakes_per_source_max: sip.handshakes_per_source_max,
            handshake: seconds(sip.handshake_seconds),
            idle: seconds(sip.idle_seconds),
            stalled: seconds(sip.stalled_seconds),
            keepalive: seconds(sip.keepalive_seconds),
            unanswered: seconds(sip.unanswered_seconds),
            outbox_bytes_max: sip.connection_queue_kib << 10,
            memory_bytes_max: sip.connection_memory_mib << 20,
            memory_per_source_bytes_max: sip.connection_memory_per_source_kib << 10,
            web_socket_origins: sip.ws_origins.clone(),
            web_socket_ping: (sip.ws_ping_seconds > 0).then(|| seconds(sip.ws_ping_seconds)),
            ..StreamPolicy::default()
        },
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

fn build_runtime(options: &config::Runtime) -> Result<Runtime, Failure> {
    let pool = options.pool().watermarks(POOL_LOW, POOL_HIGH);
    let buffer_budget = (options.buffer_budget_mib as u64) << 20;
    let mut builder = Runtime::builder().pool(pool).buffer_budget(buffer_budget);
    if options.trace_one_buffer_in > 0 {
        builder = builder.trace_one_buffer_in(options.trace_one_buffer_in);
    }
    builder.build().map_err(Failure::running)
}

/// The telephone for browsers, which is told the ports in use.
fn telephone(config: &Config, network: &Sockets) -> Result<Option<Telephone>, Failure> {
    let Some(folder) = &config.http.telephone else {
        return Ok(None);
    };
    let read = Telephone::read(folder).map_err(Failure::running)?;
    let at = |transport| network.streams.addresses(transport).collect();
    Ok(Some(read.at(at(Transport::Ws), at(Transport::Wss))))
}

fn start_web(
    config: &Config,
    telephone: Option<Telephone>,
    (server, runtime): (&Server, &Runtime),
    (access, reloader): (Arc<Access>, Arc<Reloader>),
    (tls, certificates): (WebTls, Arc<Certificates>),
) -> Result<Option<Web>, Failure> {
    let socket = local_socket(&config.http.socket)?;
    let address = config.http.listen;
    let tls = config.http.tls_listen.map(|address| (address, tls));
    if address.is_none() && tls.is_none() && socket.is_none() && config.acme.listen.is_none() {
        return Ok(None);
    }
    let mut sources = archives(&config.graphite, runtime)?;
    sources.extend(pmcd(&config.graphite, runtime)?);
    let graphs = Graphs::new(runtime, config.graphite.options(), sources);
    let options = WebOptions {
        address,
        tls,
        challenges: certificates.answers().map(|answers| {
            let texts: ChallengeTexts = Arc::new(move |token: &str| answers.text(token));
            (config.acme.listen, texts)
        }),
        certificates: Some(certificates),
        telephone,
        socket,
        connections_max: config.http.max_connections,
        connections_per_source_max: config.http.max_connections_per_source,
        patience: HTTP_PATIENCE,
        access,
        operator: Some(reloader),
    };
    let web = Web::start(options, Arc::new(server.clone()), graphs);
    web.map(Some).map_err(|error| {
        let problem = address_problem(&error, "http.listen");
        let address = address.map_or(String::new(), |address| format!(" address {address}"));
        Failure::running(format!("HTTP{address} cannot be served: {problem}"))
    })
}

/// A server without a socket still serves, so only one that was asked for must be there.
fn local_socket(place: &SocketPlace) -> Result<Option<LocalSocket>, Failure> {
    let path = match place {
        SocketPlace::Off => return Ok(None),
        SocketPlace::Auto => default_socket(),
        SocketPlace::At(path) => path.clone(),
    };
    match LocalSocket::bind(&path) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if *place == SocketPlace::Auto => {
            let path = path.display();
            tracing::warn!(%path, %error, "no local socket for `busyhour show`; set http.socket");
            Ok(None)
        }
        Err(error) => Err(Failure::running(format!(
            "local socket {} cannot be made: {error}; set http.socket to another path, auto or off",
            path.display()
        ))),
    }
}

/// The folder of archives, if there is one to serve. Its records have their own
/// buffers, so that reading them takes no buffers from packets.
fn archives(
    options: &config::Graphite,
    runtime: &Runtime,
) -> Result<Vec<Arc<dyn Source>>, Failure> {
    let Some(folder) = &options.archives else {
        return Ok(Vec::new());
    };
    let buffers = BufferPool::builder().budget_bytes(ARCHIVE_BUFFER_BYTES);
    let buffers = buffers.build().map_err(Failure::running)?;
    let step = i64::from(options.archive_step_seconds);
    let archives = Archives::new(folder, step, buffers, runtime.pool().clone());
    Ok(vec![Arc::new(archives)])
}

/// The values of a running `pmcd`, if one is to be sampled.
fn pmcd(options: &config::Graphite, runtime: &Runtime) -> Result<Option<Arc<dyn Source>>, Failure> {
    let Some(address) = options.pmcd.clone() else {
        return Ok(None);
    };
    let ring = options.options().telemetry;
    let source = PmcdSource::start(address, &options.pmcd_metrics, ring, runtime.clock());
    Ok(Some(Arc::new(source.map_err(Failure::running)?)))
}

/// Twice as many as requests may wait for their devices at most, so only many watchers of
/// one device make the queue of the workers so long.
const POOL_HIGH: usize = 2048;
const POOL_LOW: usize = 256;
/// The time for a body over HTTP, and for a client to continue reading.
const HTTP_PATIENCE: Duration = Duration::from_secs(15);
/// Some megabytes for each worker that reads archives.
const ARCHIVE_BUFFER_BYTES: u64 = 256 << 20;

/// Nothing is received there.
const CAPTURE_RECEIVE_BYTES: usize = 4096;
/// Answers of media relays, a kilobyte each.
const MEDIA_RECEIVE_BYTES: usize = 1 << 20;
/// Copies that wait for the network card.
const CAPTURE_QUEUE_LEN_MAX: usize = 4096;
/// Questions to media relays that wait for it. One that finds no room is sent again.
const MEDIA_QUEUE_LEN_MAX: usize = 1024;
