//! Configuration: embedded defaults, a TOML file, the environment and flags,
//! each overriding the one before.
//!
//! One table, [`KEYS`], lists every setting. The file reader, the environment,
//! the flags, `check-config` and `serve --print-config` all walk that table,
//! so a setting cannot exist in one place only.
//!
//! ```
//! use busyhour_server::config::{Config, Overrides};
//!
//! let text = "[sip]\nlisten = \"127.0.0.1:0\"\n";
//! let loaded = Config::parse("busyhour.toml", text, &Overrides::default()).unwrap();
//! assert_eq!(loaded.config.sip.listen[0].port(), 0);
//!
//! let text = "[sip]\nlisten = \"localhost\"\n";
//! let problems = Config::parse("busyhour.toml", text, &Overrides::default()).unwrap_err();
//! assert!(problems.to_string().starts_with("busyhour.toml:2:10: sip.listen: "));
//! ```

mod tables;
mod allowed;
pub(crate) mod check;
mod database;
mod credentials;
mod differences;
mod environment;
mod file;
mod keys;
mod setting_key;
mod otlp;
mod overrides;
mod paths;
mod print;
mod problem;
mod secrets;
mod values;

pub use allowed::Allowed;
pub use credentials::CredentialSettings;
pub use database::cluster::{ClusterSettings, NodeListen};
pub use keys::KEYS;
pub use otlp::OtlpSettings;
pub use overrides::{Overrides, StoreOverrides};
pub use paths::default_database;
pub use problem::{Problem, Problems, SettingOrigin, SettingProblem};
pub use setting_key::SettingKey;
pub use tables::accounts::{Account, AccountRange, ConfiguredAccounts};
pub use tables::acme::AcmeSettings;
pub use tables::graphite::Graphite;
pub use tables::http_client::HttpClientSettings;

use crate::net::{CertificateFiles, Origins};
use crate::server::{
    Authentication, CallConfig, CaptureConfig, CaptureServer, HintConfig, Limits, ListConfig,
    MediaConfig, PeerConfig, PushConfig, RegistrarConfig, ServerConfig, TenantConfig,
    WebhookConfig,
};
use crate::web::Token;
use busyhour_iax2::CallTokens;
use busyhour_registrar::{Advertised, RegistrationPolicy, watch::WatchPolicy};
use busyhour_sip::auth::Algorithm;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use tables::{hints::WrittenHint, lists::WrittenList};

/// All settings of `busyhour serve`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The SIP registrar and its transport.
    pub sip: Sip,
    /// The IAX2 registrar.
    pub iax2: Iax2,
    /// Lifetimes and limits of bindings; part of the `[sip]` section.
    pub registration: RegistrationPolicy,
    /// Lifetimes of subscriptions and publications: the `[watch]` section.
    pub watch: WatchPolicy,
    /// Calls between devices: the `[calls]` section.
    pub calls: CallConfig,
    /// Media relays: the `[media]` section.
    pub media: MediaConfig,
    /// The capture server: the `[hep]` section.
    pub hep: Hep,
    /// Limits of all tables: the `[limits]` section.
    pub limits: Limits,
    /// The dashboard, its API and the metrics.
    pub http: Http,
    /// Requests to other servers over HTTP.
    pub http_client: HttpClientSettings,
    /// A service that has accounts: the `[credentials]` section.
    pub credentials: CredentialSettings,
    /// A collector of spans: the `[otlp]` section.
    pub otlp: OtlpSettings,
    /// Certificates by ACME.
    pub acme: AcmeSettings,
    /// Graphite's interface.
    pub graphite: Graphite,
    /// Where bindings are kept.
    pub store: Store,
    /// Several servers on one database: the `[cluster]` section.
    pub cluster: ClusterSettings,
    /// Workers, memory and shutdown.
    pub runtime: Runtime,
    /// What is logged, and how.
    pub log: Log,
    /// Who may register.
    pub accounts: ConfiguredAccounts,
    /// The tokens for HTTP: each `[[token]]`.
    pub tokens: Vec<Token>,
    /// Other servers and gateways that are trusted: each `[[peer]]`.
    pub peers: Vec<PeerConfig>,
    /// Servers behind this one: each `[[registrar]]`.
    pub registrars: Vec<RegistrarConfig>,
    /// Services that wake telephones: each `[[push]]`.
    pub push: Vec<PushConfig>,
    /// Where changes are posted to: each `[[webhook]]`.
    pub webhooks: Vec<(String, WebhookConfig)>,
    /// Extensions whose state combines the states of devices.
    pub hints: Vec<HintConfig>,
    /// Certificates beside that of `sip.tls_certificate`: each `[[certificate]]`.
    pub certificates: Vec<CertificateFiles>,
    /// Lists of resources: each `[[list]]`.
    pub lists: Vec<ListConfig>,
    /// Domains with settings of their own: each `[[domain]]`.
    pub tenants: Vec<TenantConfig>,
}

/// The `[hep]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Hep {
    /// Where copies of messages are sent to.
    pub server: Option<SocketAddr>,
    /// Our number there.
    pub capture_id: u32,
    /// The password that it wants.
    pub password: Option<String>,
}

impl Default for Hep {
    fn default() -> Self {
        Self {
            server: None,
            capture_id: 2001,
            password: None,
        }
    }
}

impl Hep {
    fn capture(&self) -> CaptureConfig {
        let hep = self.server.map(|address| CaptureServer {
            address,
            capture_id: self.capture_id,
            password: self.password.clone().unwrap_or_default(),
        });
        CaptureConfig { hep }
    }
}

/// The `[sip]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Sip {
    /// UDP addresses to serve; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// TCP addresses to serve.
    pub tcp: StreamListen,
    /// TLS addresses to serve; port 0 takes a free one. Empty: TLS is not served.
    pub tls: Vec<SocketAddr>,
    /// Where SIP is spoken over WebSocket.
    pub ws: Vec<SocketAddr>,
    /// Where SIP is spoken over WebSocket and TLS.
    pub wss: Vec<SocketAddr>,
    /// Which pages may do that.
    pub ws_origins: Origins,
    /// After how long a silence a WebSocket is pinged; 0 never.
    pub ws_ping_seconds: u32,
    /// The PEM file of our certificate and its chain.
    pub tls_certificate: Option<PathBuf>,
    /// The PEM file of our certificate's private key.
    pub tls_key: Option<PathBuf>,
    /// The PEM file of those who vouch for peers.
    pub tls_authorities: Option<PathBuf>,
    /// DNS servers; if empty, those of the system.
    pub dns_servers: Vec<SocketAddr>,
    /// The longest time in which a connection brings nothing, in seconds.
    pub idle_seconds: u32,
    /// The longest time in which a message on a connection is incomplete, in seconds.
    pub stalled_seconds: u32,
    /// For how long a handshake of TLS may last, in seconds.
    pub handshake_seconds: u32,
    /// The time without traffic after which the kernel probes the peer, in seconds.
    pub keepalive_seconds: u32,
    /// The longest time in which a peer acknowledges nothing, in seconds.
    pub unanswered_seconds: u32,
    /// How often silent devices are probed, in seconds; 0 is never.
    pub probe_seconds: u32,
    /// The same behind an address translation; 0 is as for the others.
    pub nat_probe_seconds: u32,
    /// How often a keep-alive goes there while it is silent, in seconds; 0 is never.
    pub nat_keep_alive_seconds: u32,
    /// Within how many seconds restored contacts are asked; 0 is never.
    pub verify_seconds: u32,
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections at a time from one IP address.
    pub connections_per_source_max: usize,
    /// Unfinished handshakes of TLS at a time.
    pub handshakes_max: usize,
    /// Unfinished handshakes of TLS at a time from one IP address.
    pub handshakes_per_source_max: usize,
    /// The most data that may wait to be sent on one connection, in KiB.
    pub connection_queue_kib: usize,
    /// The most received data of all connections that is not processed yet, in MiB.
    pub connection_memory_mib: usize,
    /// The most data of incomplete messages from one source, in KiB.
    pub connection_memory_per_source_kib: usize,
    /// Hosts whose addresses of record are ours; if empty, any host in a request is.
    pub domains: Vec<String>,
    /// The addresses to name in Contact and Via, if requests come to other addresses.
    pub advertised: Advertised,
    /// The realm of digest challenges; account hashes depend on it.
    pub realm: String,
    /// Whether requests must authenticate.
    pub auth: Auth,
    /// Digest algorithms offered, the preferred one first.
    pub algorithms: Vec<Algorithm>,
    /// The kernel's receive buffer for each socket, in KiB.
    pub receive_buffer_kib: usize,
    /// Datagrams that may wait to be sent on each socket; more are dropped and counted.
    pub send_queue: usize,
}

/// Where TCP connections are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamListen {
    /// The addresses for datagrams; where these have port 0, TCP takes a free port of its own.
    Same,
    /// These addresses; if empty, TCP is not served.
    At(Vec<SocketAddr>),
}

/// The `[iax2]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Iax2 {
    /// UDP addresses to serve; port 0 takes a free one. Empty: IAX2 is not served.
    pub listen: Vec<SocketAddr>,
    /// Whether devices must show that they receive at their address.
    pub call_tokens: CallTokens,
}

/// Whether a request must authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// RFC 7616 digest, for the configured accounts only.
    Digest,
    /// Anybody may register anything. Use it for closed networks and load tests.
    Open,
}

/// The `[http]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The address of the dashboard; `None`: no dashboard.
    pub listen: Option<SocketAddr>,
    /// Its address for HTTPS.
    pub tls_listen: Option<SocketAddr>,
    /// Connections served at once; connections beyond the limit get an answer only to `/healthz`.
    pub max_connections: usize,
    /// Connections served at once for one IP address.
    pub max_connections_per_source: usize,
    /// Requests in a second of a token, or of a source without one.
    pub requests_per_second: u32,
    /// Host names that requests may use for the server, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The local socket for `busyhour show`.
    pub socket: SocketPlace,
    /// The folder with the client of the telephone for browsers; `None`: no telephone.
    pub telephone: Option<PathBuf>,
}

/// Where the local socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketPlace {
    /// In the user's run-time folder, under the number of the process.
    Auto,
    /// Nowhere.
    Off,
    /// At this path.
    At(PathBuf),
}

/// The `[store]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Store {
    /// The SQLite file; `None` uses [`default_database`].
    pub path: Option<PathBuf>,
    /// The URL of a PostgreSQL database, instead of the SQLite file.
    pub url: Option<String>,
    /// A file that contains the URL, so that other users cannot see the password.
    pub url_file: Option<PathBuf>,
    /// What an acknowledged registration survives.
    pub durability: Durability,
    /// Changes that may wait for the disk; if there are more, requests are answered 503.
    pub queue: usize,
    /// Whether the database has a view by which Kamailio's `usrloc` finds contacts.
    pub location_view: bool,
}

/// What an acknowledged registration survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    Full,
    /// `kill -9` of the server, but perhaps not a power cut.
    Process,
    /// Nothing: bindings live in memory alone.
    Memory,
}

/// The `[runtime]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Runtime {
    /// Worker threads at the start; `None`: one for each core.
    pub workers: Option<usize>,
    /// Worker threads that stay when there is nothing to do; `None`: as many as at the start.
    pub workers_min: Option<usize>,
    /// Worker threads at most; `None`: as many as at the start.
    pub workers_max: Option<usize>,
    /// Worker threads that are added at a time.
    pub worker_increment: usize,
    /// Tasks that may wait for any worker before workers are added.
    pub growth_threshold: usize,
    /// Seconds without work after which a worker above the minimum ends.
    pub worker_idle_seconds: u32,
    /// Memory for datagrams and for messages to be sent, in MiB; beyond it, datagrams
    /// are dropped and counted.
    pub buffer_budget_mib: usize,
    /// One in so many buffers is traced, for `show buffers --oldest`; 0: none.
    pub trace_one_buffer_in: u32,
    /// How long a shutdown may drain, in seconds.
    pub drain_seconds: u32,
}

/// The `[log]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is written.
    pub level: LogLevel,
    /// Lines for people or JSON for machines.
    pub format: LogFormat,
}

/// Severity of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the five names say it all
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A valid configuration, and where each setting that is not a default came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The path of each setting and its origin; an absent setting has the embedded default.
    pub origins: BTreeMap<&'static str, SettingOrigin>,
    /// The accounts of domains, and the place of each.
    accounts: Vec<(String, SettingOrigin)>,
    /// Each hint as it was written, and its place.
    hints: Vec<(WrittenHint, SettingOrigin)>,
    /// The place of each certificate.
    certificates: Vec<SettingOrigin>,
    /// Each list as it was written, and its place.
    lists: Vec<(WrittenList, SettingOrigin)>,
    /// The place of each peer.
    peers: Vec<SettingOrigin>,
    /// The place of each registrar.
    registrars: Vec<SettingOrigin>,
    /// The file's text is unknown, so that relations between its settings cannot be
    /// checked.
    is_unread: bool,
    /// Settings whose value is not allowed.
    invalid: BTreeSet<&'static str>,
    /// Allowed settings that are probably a mistake: sentences for the operator.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads `path` if given, applies `overrides` on top of it and checks the whole. An
    /// environment variable that looks like a setting but is not causes a warning.
    ///
    /// # Errors
    ///
    /// Every problem found, each with its place and with what is allowed there.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, Problems> {
        Self::gather(path, overrides, |_| Vec::new())
    }

    /// As [`load`](Self::load); a certificate that TLS cannot use is a problem, too.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn load_to_serve(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, Problems> {
        Self::gather(path, overrides, check::certificate)
    }

    /// As [`load_to_serve`](Self::load_to_serve); an unknown variable is a problem, too.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn check(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, Problems> {
        let loaded = Self::load_to_serve(path, overrides)?;
        Problems::none_or(environment::unknown_variables()).map(|()| loaded)
    }

    /// Collects all problems, including those that `more` finds.
    fn gather(
        path: Option<&Path>,
        overrides: &Overrides,
        more: fn(&Loaded) -> Vec<Problem>,
    ) -> Result<Loaded, Problems> {
        let (mut loaded, mut problems) = Self::read(path, overrides);
        problems.extend(more(&loaded));
        let unknown = environment::unknown_variables();
        if problems.is_empty() {
            let warnings = unknown.iter().map(Problem::to_string);
            loaded.warnings.extend(warnings);
        } else {
            problems.extend(unknown);
        }
        Problems::none_or(problems).map(|()| loaded)
    }

    fn read(path: Option<&Path>, overrides: &Overrides) -> (Loaded, Vec<Problem>) {
        let Some(path) = path else {
            return Self::take("(no file)", Ok(""), overrides);
        };
        let text = std::fs::read_to_string(path);
        let text = text.as_deref();
        let text = text.map_err(|error| Problem::unreadable(path, error));
        let (mut loaded, problems) = Self::take(&path.display().to_string(), text, overrides);
        let warning = secrets::warning(path, &loaded.config);
        loaded.warnings.extend(warning);
        (loaded, problems)
    }

    /// As [`load`](Self::load), for text already read from the file called `name`.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn parse(name: &str, text: &str, overrides: &Overrides) -> Result<Loaded, Problems> {
        let (loaded, problems) = Self::take(name, Ok(text), overrides);
        Problems::none_or(problems).map(|()| loaded)
    }

    fn take(
        name: &str,
        text: Result<&str, Problem>,
        overrides: &Overrides,
    ) -> (Loaded, Vec<Problem>) {
        let mut loaded = Loaded {
            config: Self::default(),
            origins: BTreeMap::new(),
            accounts: Vec::new(),
            hints: Vec::new(),
            certificates: Vec::new(),
            lists: Vec::new(),
            peers: Vec::new(),
            registrars: Vec::new(),
            is_unread: text.is_err(),
            invalid: BTreeSet::new(),
            warnings: Vec::new(),
        };
        let mut problems = match text {
            Ok(text) => file::read(name, text, &mut loaded),
            Err(problem) => vec![problem],
        };
        problems.extend(overrides.apply(&mut loaded));
        loaded.warnings.extend(secrets::argument_warning(&loaded));
        loaded
            .warnings
            .extend(secrets::url_file_warning(&loaded.config));
        if !loaded.is_unread {
            problems.extend(check::relations(&loaded));
            loaded.warnings.extend(check::dead_ends(&loaded));
        }
        (loaded, problems)
    }

    /// The files of all certificates: that of `sip.tls_certificate` first.
    pub fn certificate_files(&self) -> Vec<CertificateFiles> {
        let pair = self
            .sip
            .tls_certificate
            .as_deref()
            .zip(self.sip.tls_key.as_deref());
        let own = pair.map(|(certificate, key)| CertificateFiles::of_sip(certificate, key));
        own.into_iter()
            .chain(self.certificates.iter().cloned())
            .collect()
    }

    /// Whether anybody is shown a certificate.
    pub fn serves_tls(&self) -> bool {
        self.sip.serves_tls() || self.http.tls_listen.is_some()
    }

    /// The part of the configuration that the server itself needs, without the
    /// accounts.
    pub fn server(&self) -> ServerConfig {
        ServerConfig {
            domains: self.sip.domains.clone(),
            home: self.sip.home(),
            authentication: self.sip.authentication(),
            advertised: self.sip.advertised.clone(),
            call_tokens: self.iax2.call_tokens,
            registration: self.registration.clone(),
            watch: self.watch.clone(),
            calls: self.calls.clone(),
            limits: self.limits.clone(),
            capture: self.hep.capture(),
            media: self.media.clone(),
            probe_interval: Duration::from_secs(self.sip.probe_seconds.into()),
            nat_probe_interval: Duration::from_secs(self.sip.nat_probe_seconds.into()),
            nat_keep_alive: Duration::from_secs(self.sip.nat_keep_alive_seconds.into()),
            verify_within: Duration::from_secs(self.sip.verify_seconds.into()),
            peers: self.peers.clone(),
            hints: self.hints.clone(),
            registrars: self.registrars.clone(),
            push: self.push.clone(),
            webhooks: self.webhooks.clone(),
            lists: self.lists.clone(),
            tenants: self.tenants.clone(),
            ..ServerConfig::default()
        }
    }
}

impl Loaded {
    /// The configuration in effect as TOML, each line with its origin, secrets masked.
    pub fn print(&self) -> String {
        print::print(self)
    }
}

impl Sip {
    /// Whether anything is encrypted, which needs a certificate.
    pub fn serves_tls(&self) -> bool {
        !self.tls.is_empty() || !self.wss.is_empty()
    }

    /// The TCP addresses to serve.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        match &self.tcp {
            StreamListen::Same => &self.listen,
            StreamListen::At(addresses) => addresses,
        }
    }

    /// The host of the devices if the server has no domains: the first address that it
    /// listens at, unless that is a wildcard.
    fn home(&self) -> Option<IpAddr> {
        let first = self.listen.first().map(SocketAddr::ip);
        first.filter(|address| !address.is_unspecified())
    }

    fn authentication(&self) -> Authentication {
        match self.auth {
            Auth::Open => Authentication::Open,
            Auth::Digest => Authentication::Digest {
                realm: self.realm.clone(),
                algorithms: self.algorithms.clone(),
            },
        }
    }
}

impl Default for Sip {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 5060))],
            tcp: StreamListen::Same,
            tls: Vec::new(),
            ws: Vec::new(),
            wss: Vec::new(),
            ws_origins: Origins::default(),
            ws_ping_seconds: 30,
            tls_certificate: None,
            tls_key: None,
            tls_authorities: None,
            dns_servers: Vec::new(),
            idle_seconds: 7500,
            stalled_seconds: 30,
            handshake_seconds: 10,
            keepalive_seconds: 120,
            unanswered_seconds: 30,
            probe_seconds: 0,
            nat_probe_seconds: 30,
            nat_keep_alive_seconds: 0,
            verify_seconds: 60,
            connections_max: 16_384,
            connections_per_source_max: 1024,
            handshakes_max: 1024,
            handshakes_per_source_max: 100,
            connection_queue_kib: 8192,
            connection_memory_mib: 128,
            connection_memory_per_source_kib: 12_288,
            domains: Vec::new(),
            advertised: Advertised::default(),
            realm: "busyhour".into(),
            auth: Auth::Digest,
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            receive_buffer_kib: 8192,
            send_queue: 65_536,
        }
    }
}

impl Default for Iax2 {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 4569))],
            call_tokens: CallTokens::Required,
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            path: None,
            url: None,
            url_file: None,
            durability: Durability::Full,
            queue: 65_536,
            location_view: false,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 8080))),
            tls_listen: None,
            max_connections: 1024,
            max_connections_per_source: 100,
            requests_per_second: 1000,
            hosts: Vec::new(),
            socket: SocketPlace::Auto,
            telephone: None,
        }
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            workers: None,
            workers_min: None,
            workers_max: None,
            worker_increment: 1,
            growth_threshold: 200,
            worker_idle_seconds: 20,
            buffer_budget_mib: 256,
            trace_one_buffer_in: 0,
            drain_seconds: 10,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Text,
        }
    }
}
