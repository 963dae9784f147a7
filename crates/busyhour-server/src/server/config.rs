//! The settings of the server, checked and typed.

use super::{
    Accounts, CredentialsConfig, HintConfig, HttpClient, ListConfig, NoAccounts, NoHttpClient,
    NoResolver, PeerConfig, PushConfig, RegistrarConfig, Resolver, SpanExportConfig, TenantConfig,
    WebhookConfig,
};
use busyhour_iax2::CallTokens;
use busyhour_media::{MediaWish, RelayConfig};
use busyhour_registrar::{Advertised, Domains, RegistrationPolicy, watch::WatchPolicy};
use busyhour_sip::auth::Algorithm;
use std::{net::IpAddr, net::SocketAddr, sync::Arc, time::Duration};

/// The whole configuration of a [`Server`](super::Server).
///
/// ```
/// use busyhour_server::server::{Authentication, ServerConfig};
///
/// let config = ServerConfig {
///     domains: vec!["example.com".to_owned()],
///     authentication: Authentication::Open,
///     ..ServerConfig::default()
/// };
/// assert_eq!(config.registration.expires_default.as_secs(), 3600);
/// ```
#[derive(Clone)]
pub struct ServerConfig {
    /// Domains of our addresses of record. If empty, every host that a request names is
    /// accepted.
    pub domains: Vec<String>,
    /// The host of the users in hints if `domains` is empty.
    pub home: Option<IpAddr>,
    /// Who may register and watch.
    pub authentication: Authentication,
    /// Accounts beside those in the store, which take precedence.
    pub accounts: Arc<dyn Accounts>,
    /// Asks other servers over HTTP.
    pub http: Arc<dyn HttpClient>,
    /// Addresses to name in Contact and Via where they differ from the one that a
    /// request came to, as they do behind a port forwarding.
    pub advertised: Advertised,
    /// Whether devices of IAX2 must show that they receive at their address.
    pub call_tokens: CallTokens,
    /// Lifetimes and counts of bindings.
    pub registration: RegistrationPolicy,
    /// Lifetimes and retries of subscriptions.
    pub watch: WatchPolicy,
    /// How often a silent device that registered over datagrams is probed; zero turns
    /// probes off.
    pub probe_interval: Duration,
    /// The same for a device behind an address translation; zero leaves it to
    /// `probe_interval`.
    pub nat_probe_interval: Duration,
    /// How often a silent device behind an address translation is sent a keep-alive over datagrams,
    /// which it does not answer; zero is never.
    pub nat_keep_alive: Duration,
    /// Within which time after the start the devices of restored contacts over datagrams are
    /// asked whether they are still there; zero: they are not.
    pub verify_within: Duration,
    /// Calls between devices.
    pub calls: CallConfig,
    /// Who gets copies of messages.
    pub capture: CaptureConfig,
    /// Media relays, and which calls use one.
    pub media: MediaConfig,
    /// Other servers and gateways that are trusted; of those that have a request's source,
    /// the first one counts.
    pub peers: Vec<PeerConfig>,
    /// Asks DNS for the servers of names.
    pub resolver: Arc<dyn Resolver>,
    /// Extensions that stand for devices.
    pub hints: Vec<HintConfig>,
    /// Servers behind this one, at which addresses of record are registered.
    pub registrars: Vec<RegistrarConfig>,
    /// Who is asked for the credentials of users without an account here.
    pub credentials: Option<CredentialsConfig>,
    /// A collector that is told how long requests took.
    pub spans: Option<SpanExportConfig>,
    /// Services that wake telephones.
    pub push: Vec<PushConfig>,
    /// Where changes are posted to, by name.
    pub webhooks: Vec<(String, WebhookConfig)>,
    /// Lists of resources that watchers subscribe to by one URI.
    pub lists: Vec<ListConfig>,
    /// Domains with settings of their own, beside those in the store.
    pub tenants: Vec<TenantConfig>,
    /// Bounds of every table.
    pub limits: Limits,
}

impl ServerConfig {
    /// The hosts whose addresses of record are ours, and where users without one are.
    pub fn domains(&self) -> Domains {
        let domains = Domains::new(self.domains.iter().cloned()).at(self.home);
        let tenants = self.tenants.iter();
        domains.replace_tenants(tenants.map(|tenant| tenant.tenant(&domains)));
        domains
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            domains: Vec::new(),
            home: None,
            authentication: Authentication::default(),
            accounts: Arc::new(NoAccounts),
            http: Arc::new(NoHttpClient),
            advertised: Advertised::default(),
            call_tokens: CallTokens::default(),
            registration: RegistrationPolicy::default(),
            watch: WatchPolicy::default(),
            probe_interval: Duration::ZERO,
            nat_probe_interval: Duration::ZERO,
            nat_keep_alive: Duration::ZERO,
            verify_within: Duration::ZERO,
            calls: CallConfig::default(),
            capture: CaptureConfig::default(),
            media: MediaConfig::default(),
            peers: Vec::new(),
            resolver: Arc::new(NoResolver),
            hints: Vec::new(),
            registrars: Vec::new(),
            credentials: None,
            spans: None,
            push: Vec::new(),
            webhooks: Vec::new(),
            lists: Vec::new(),
            tenants: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// Media relays, and which calls use one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaConfig {
    /// Each rtpengine, where it takes commands.
    pub relays: Vec<RelayConfig>,
    /// Which calls use one, unless a peer has a rule of its own.
    pub wish: MediaWish,
    /// A call that needs a relay is refused when none answers; else it goes on without one.
    pub refuses: bool,
}

impl Default for MediaConfig {
    /// There are none.
    fn default() -> Self {
        Self {
            relays: Vec::new(),
            wish: MediaWish::Auto,
            refuses: true,
        }
    }
}

/// Who gets copies of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureConfig {
    /// A capture server.
    pub hep: Option<CaptureServer>,
}

/// A capture server such as Homer, which takes HEP version 3 over UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Our number there.
    pub capture_id: u32,
    /// The password that it wants; empty for none.
    pub password: String,
}

/// What happens to calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallConfig {
    /// The user who takes calls that are not answered: a voicemail that registers as any
    /// device does.
    pub voicemail: Option<String>,
    /// How long a device rings before the voicemail takes the call; without one, as long as
    /// the caller waits.
    pub ring_time: Duration,
    /// The session interval that the proxy asks for in seconds (RFC 4028), 90 or more; 0 asks
    /// for none.
    pub session_s: u32,
    /// Users whose calls are never refused for lack of time or of room: emergency numbers.
    pub emergency: Vec<String>,
    /// For how many days records of calls are kept.
    pub records_days: u32,
    /// How many of them are kept; 0 keeps none.
    pub records_max: u64,
}

impl Default for CallConfig {
    fn default() -> Self {
        Self {
            voicemail: None,
            ring_time: Duration::from_secs(25),
            session_s: 900,
            emergency: ["112", "911", "999"].map(str::to_owned).into(),
            records_days: 30,
            records_max: 1_000_000,
        }
    }
}

/// Who may register and watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Anybody, by the operator's explicit choice.
    Open,
    /// Users of this realm who know their password (RFC 7616, RFC 8760).
    Digest {
        /// The realm named in the challenge.
        realm: String,
        /// The algorithms offered, the preferred one first.
        algorithms: Vec<Algorithm>,
    },
}

impl Authentication {
    /// The realm; empty for an open server.
    pub fn realm(&self) -> &str {
        match self {
            Self::Open => "",
            Self::Digest { realm, .. } => realm,
        }
    }

    /// The algorithms offered, the preferred one first; none for an open server.
    pub fn algorithms(&self) -> &[Algorithm] {
        match self {
            Self::Open => &[],
            Self::Digest { algorithms, .. } => algorithms,
        }
    }
}

impl Default for Authentication {
    fn default() -> Self {
        Self::Digest {
            realm: "busyhour".to_owned(),
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
        }
    }
}

/// The bounds of all tables; what does not fit is refused and counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Addresses of record with bindings or work in progress.
    pub devices_max: usize,
    /// Responses kept for retransmitted requests.
    pub transactions_max: usize,
    /// Nonces whose last use is remembered.
    pub nonces_max: usize,
    /// Subscriptions.
    pub watchers_max: usize,
    /// Mailboxes.
    pub mailboxes_max: usize,
    /// Hints; those of the configuration count, and are never refused.
    pub hints_max: usize,
    /// Lists; those of the configuration count, and are never refused.
    pub lists_max: usize,
    /// Resources that subscriptions to lists watch, each as often as it is watched.
    pub list_lamps_max: usize,
    /// Publications.
    pub publications_max: usize,
    /// Publications of one address of record.
    pub publications_per_device_max: usize,
    /// Datagrams that may wait for one device.
    pub device_queue_max: usize,
    /// Calls through the proxy at a time, and requests that it is responsible for.
    pub calls_max: usize,
    /// Calls of IAX2 at a time.
    pub iax2_calls_max: usize,
    /// Calls of IAX2 at a time from one IP address.
    pub iax2_calls_per_source_max: usize,
    /// Ended IAX2 calls whose late duplicates are recognised.
    pub iax2_records_max: usize,
    /// The part of each of these, and of the packet memory, that one source may
    /// hold, in percent; 100 is all of it. See docs/limits.md.
    pub source_percent: u64,
    /// The same of one account.
    pub account_percent: u64,
    /// The same of all accounts of one domain that has its own.
    pub domain_percent: u64,
    /// Domains with settings of their own.
    pub domains_max: usize,
    /// Bytes that one subscription keeps of the SUBSCRIBE that opened it: the route,
    /// the addresses, the tags. A longer one is answered 513.
    pub dialog_bytes_max: usize,
    /// Datagrams in a second, and ten times as many at once, to one source that has not
    /// proved that it receives them: answers to requests without right credentials, and
    /// NOTIFYs before the first answer. 0 means no limit.
    pub unproven_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            devices_max: 2_000_000,
            transactions_max: 65_536,
            nonces_max: 1_048_576,
            watchers_max: 200_000,
            mailboxes_max: 1_000_000,
            hints_max: 100_000,
            lists_max: 10_000,
            list_lamps_max: 2_000_000,
            publications_max: 200_000,
            publications_per_device_max: 8,
            device_queue_max: 32,
            calls_max: 65_536,
            iax2_calls_max: 65_536,
            iax2_calls_per_source_max: 4_096,
            iax2_records_max: 262_144,
            source_percent: 10,
            account_percent: 10,
            domain_percent: 50,
            domains_max: 10_000,
            dialog_bytes_max: 4096,
            unproven_per_second: 100,
        }
    }
}
