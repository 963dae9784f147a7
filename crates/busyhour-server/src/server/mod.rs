//! The server: the registrar, the watchers and the store wired to the runtime.
//!
//! A datagram goes this way:
//!
//! 1. `sip/receive`: on the network's thread it is parsed in place, in its pinned
//!    buffer; retransmissions are answered from the transactions at once.
//! 2. `sip/route`: is it for us, may its sender (`access`), which device is it?
//! 3. `device`: on the device's strand, a serializer that it shares with few
//!    others, the registrar computes the next bindings and the 200; the changes
//!    go to the store.
//! 4. When the commit is durable the 200 leaves, and if somebody listens the
//!    device's state goes to the topic `device-state`, which keeps it.
//! 5. `watcher`: the watchers of a device share a subscription to that topic; on the
//!    strand of each a NOTIFY is written and sent.
//!
//! `core` is the list of the parts. Each part has its own state, counters and methods.
//! README.md in this folder says what each of them has and uses, who owns whom, and how
//! the server ends.
//!
//! Locks are taken in this order: the table of hints; the subscription of what is watched; a
//! device's or a watcher's state; the table of mailboxes; one shard of a table (devices, watchers,
//! transactions); a hint's lines; who watches something, and what it knows; a lock of a topic or
//! of the store's queue; then none. The locks of
//! nonces, logins, failures, suppressed log lines, the directory of accounts, and of what a
//! service said of credentials may be taken under any but the last, and no lock is taken under
//! them, except as their files say.

mod config;
mod network;
mod http_client;
mod core;
mod start;
mod assemble;
mod random;
mod steady;
mod server_clock;
mod runs;
mod persistence;
mod sip;
mod access;
mod credentials;
mod expiry_timer;
mod device;
mod dns;
mod iax2;
mod peer;
mod push;
mod call;
mod capture;
mod media;
mod change;
mod watcher;
mod cluster;
mod behind;
mod webhook;
mod settings;
mod spans;
mod tenant;
mod load;
mod stats;

pub use access::accounts::{Accounts, NoAccounts};
pub use access::failures::FailureView;
pub use access::provision::AccountError;
pub(crate) use behind::registrar_mistakes;
pub use behind::{RegistrarConfig, RegistrarMistake, RegistrarView, UpstreamStats};
pub use busyhour_media::{MediaStats, MediaWish, RelayConfig};
pub use busyhour_proxy::dialogs::CallOutcome;
pub use call::view::CallView;
pub use capture::message_tap::Direction;
pub use capture::trace::{Trace, TraceListener, TraceRequest, TracedMessage};
pub use change::filter::ChangeFilter;
pub use change::history::Change;
pub use change::reader::{ChangeEvent, ChangeId, ChangeReader, ChangeRequest};
pub use cluster::{
    AddressOwner, ClusterMembership, ClusterNodeView, ClusterStats, NodeLife, NodeQuestion,
    NodeSilence, NodeSocket, OnNodeAnswer, OnNodeQuestion,
};
pub use config::{
    Authentication, CallConfig, CaptureConfig, CaptureServer, Limits, MediaConfig, ServerConfig,
};
pub use credentials::{CredentialsConfig, CredentialsMistake, CredentialsStats};
pub use device::listing::device_search::DeviceSearch;
pub use device::listing::search::{
    DeviceContact, DeviceOrder, DevicePage, DeviceQuery, DeviceReach, DeviceView,
};
pub use device::removal::{RemovalError, RemovalListener};
pub use dns::{AnswerListener, NoResolver, Resolver};
pub use http_client::{
    HttpAnswer, HttpClient, HttpClientStats, HttpFailure, HttpListener, HttpPurpose, HttpRequest,
    HttpUrl, HttpUrlMistake, NoHttpClient,
};
pub use media::view::RelayView;
pub use network::{
    CertificateStats, CredentialJudgement, HolderKey, Network, NetworkStats, ReadMode, SendError,
    ShownCertificate, StreamStats, TlsTarget, Unread,
};
pub(crate) use peer::peer_config::mistakes as peer_mistakes;
pub use peer::peer_config::{
    CertificateFingerprint, NotFingerprint, NotPeerAddress, PeerAddress, PeerConfig, PeerMistake,
};
pub use peer::view::{PeerAddressView, PeerStats, PeerView};
pub use push::{AppleKey, PushConfig, PushMistake, PushService, PushStats, ServiceAccount};
pub use random::RandomError;
pub use settings::hint::HintView;
pub use settings::hints::{HintConfig, HintRefusal};
pub use settings::lists::{ListConfig, ListRefusal, ListView};
pub use settings::live_settings::{LiveRefusal, LiveSettings};
pub use settings::mailboxes::MailboxRefusal;
pub use spans::{SpanExportConfig, SpanExportMistake, SpansStats};
pub use start::StartError;
pub(crate) use stats::listing::is_of_domain;
pub use stats::listing::{Listed, Listing, NamedPage};
pub(crate) use stats::nanos;
pub use stats::queues::{ALL_QUEUES, QueueView};
pub use stats::{
    CallOutcomeStats, CallRecordStats, CallStats, CaptureStats, ChangeStats, DeviceIndexStats,
    DnsStats, HintStats, HistogramBucket, HistogramStats, HttpStats, MailboxStats, PublishStats,
    QueueKindStats, RegistrarStats, ServerStats, TrafficStats, WatchStats,
};
pub(crate) use steady::steady_time;
pub use tenant::{
    tenant_config::TenantConfig,
    tenant_refusal::TenantRefusal,
    tenant_view::{TenantStats, TenantUse, TenantView},
};
pub use watcher::view::{WatcherPage, WatcherView};
pub use webhook::{
    WebhookConfig, WebhookEntry, WebhookMistake, WebhookRefusal, WebhookSecret, WebhookStats,
    WebhookTestResult, WebhookView,
};

use self::{core::Core, device::listing::search::address_named};
use busyhour::{buffer::Buffer, bus::Name, runtime::Runtime};
use busyhour_cluster::Partition;
use busyhour_registrar::watch::{Mailbox, MessageSummary};
use busyhour_sip::{Flow, ParseError};
use busyhour_store::{
    CallRecordQuery, CallRecordRow, Completion, Refused, SettingKind, SettingListener, Store,
    StoreError,
};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// A running server; a clone is another handle on the same one.
///
/// It ends with its last handle, at once; [`Server::shutdown`] ends it gracefully.
///
/// # Examples
///
/// ```
/// use busyhour::{buffer::Buffer, runtime::Runtime};
/// use busyhour_server::server::{Authentication, Network, SendError, Server, ServerConfig};
/// use busyhour_store::MemoryStore;
/// use busyhour_sip::Flow;
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Default)]
/// struct Sent(Mutex<Vec<Buffer>>);
///
/// impl Network for Sent {
///     fn send(&self, _flow: Flow, datagram: Buffer) -> Result<(), SendError> {
///         self.0.lock().unwrap().push(datagram);
///         Ok(())
///     }
/// }
///
/// let runtime = Runtime::simulated(1);
/// let network = Arc::new(Sent::default());
/// let config = ServerConfig { authentication: Authentication::Open, ..ServerConfig::default() };
/// let store = Box::new(MemoryStore::new());
/// let server = Server::start(runtime.clone(), config, network.clone(), store)?;
///
/// let register = runtime.buffers().copy_from(
///     b"REGISTER sip:example.com SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;rport\r\n\
///     From: <sip:alice@example.com>;tag=1\r\n\
///     To: <sip:alice@example.com>\r\n\
///     Call-ID: 1@192.0.2.1\r\n\
///     CSeq: 1 REGISTER\r\n\
///     Contact: <sip:alice@192.0.2.1>\r\n\r\n",
/// )?;
/// let flow = Flow::udp("192.0.2.9:5060".parse()?, "192.0.2.1:5060".parse()?);
/// server.message(flow, &register);
/// runtime.simulation().unwrap().run_until_idle();
/// assert!(network.0.lock().unwrap()[0].starts_with(b"SIP/2.0 200 OK\r\n"));
/// assert_eq!(server.stats().registrar.binding_count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
}

impl Server {
    /// Reads the store, restores its bindings and is then ready to serve.
    ///
    /// The server stops no runtime and closes no network: both are the
    /// caller's.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start(
        runtime: Runtime,
        config: ServerConfig,
        network: Arc<dyn Network>,
        store: Box<dyn Store>,
    ) -> Result<Self, StartError> {
        let core = Core::start(runtime, config, network, store, None)?;
        Ok(Self { core })
    }

    /// As [`start`](Self::start), as a node of a cluster that has joined: it has the partitions
    /// that it is granted, and nothing else of the store's bindings.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start_in_cluster(
        runtime: Runtime,
        config: ServerConfig,
        network: Arc<dyn Network>,
        store: Box<dyn Store>,
        membership: ClusterMembership,
    ) -> Result<Self, StartError> {
        let core = Core::start(runtime, config, network, store, Some(membership))?;
        Ok(Self { core })
    }

    /// The nodes of the cluster, by their numbers; none if the server is alone.
    pub fn cluster_nodes(&self) -> Vec<ClusterNodeView> {
        let cluster = self.core.cluster.as_ref();
        cluster.map_or_else(Vec::new, |cluster| cluster.list())
    }

    /// Which node of the cluster has an address of record: if it is another one, this one knows
    /// nothing of it.
    pub fn owner_of(&self, aor: &str) -> AddressOwner {
        let cluster = self.core.cluster.as_ref();
        cluster.map_or(AddressOwner::Here, |cluster| cluster.owner_of(aor))
    }

    /// Calls `told` when a node of the cluster has an address of record, which is at once unless it is on its way from one
    /// to another; without a call it is dropped if nobody has it within 2 s. If another node asks (`is_of_node`), which takes this
    /// one for the owner, this waits as well while this one knows of another owner.
    pub fn tell_of_owner(&self, aor: &str, is_of_node: bool, told: Box<dyn FnOnce() + Send>) {
        match &self.core.cluster {
            Some(cluster) => cluster.tell_of_owner(aor, is_of_node, told),
            None => told(),
        }
    }

    /// Lets a node of the cluster give its partitions to the others, until it starts again; it
    /// goes on handing requests on. `false` if no node of this name lives; otherwise `done` is told
    /// when that is in the database.
    ///
    /// # Errors
    ///
    /// When too many such wishes wait, or the life of this node is over.
    pub fn drain_node(&self, name: &str, done: Completion) -> Result<bool, Refused> {
        let cluster = self.core.cluster.as_ref();
        cluster.map_or(Ok(false), |cluster| cluster.drain(name, done))
    }

    /// Lets a node of the cluster have one of the 256 partitions from now on, as long as it lives and
    /// does not drain, or with `None` whoever it falls to. `false` if there is no such node; otherwise
    /// `done` is told when that is in the database.
    ///
    /// # Errors
    ///
    /// As for [`drain_node`](Self::drain_node).
    pub fn move_partition(
        &self,
        partition: u8,
        to: Option<&str>,
        done: Completion,
    ) -> Result<bool, Refused> {
        let cluster = self.core.cluster.as_ref();
        let partition = Partition(partition);
        cluster.map_or(Ok(false), |cluster| {
            cluster.move_partition(partition, to, done)
        })
    }

    /// Gives all partitions to other nodes, and ends the life of this node; `false` if the
    /// deadline passed first. A server alone has nothing to give.
    pub fn leave_cluster(&self, deadline: Duration) -> bool {
        let cluster = self.core.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.leave(deadline))
    }

    /// Which datagrams a receiver should hand on now.
    pub fn read_mode(&self) -> ReadMode {
        self.core.load.read_mode()
    }

    /// Handles a message that came over `flow`: a datagram, or a message of a
    /// connection. Any thread may call this, several at a time. It parses and
    /// authenticates, and leaves the rest to the pool. The answer goes back on the same
    /// flow.
    pub fn message(&self, flow: Flow, message: &Buffer) {
        self.core.receive(self.core.own(flow), message);
    }

    /// Handles a datagram that came to the socket for other nodes
    /// ([`NodeSocket`](ClusterMembership::direct)). Any thread may call this.
    pub fn node_datagram(&self, datagram: &[u8]) {
        self.core.node_datagram(datagram);
    }

    /// Handles bytes of a connection that are not a message: counts them, and answers
    /// if possible. The beginning of the next message is unknown, so the connection has
    /// to end.
    pub fn broken_stream(&self, flow: Flow, bytes: &Buffer, error: ParseError) {
        self.core.broken_stream(self.core.own(flow), bytes, error);
    }

    /// A connection with an accepted request has ended: the contacts that were
    /// registered over it are unreachable until they register again, and their watchers
    /// are notified.
    pub fn flow_failed(&self, flow: Flow) {
        // A server that shuts down only asks its watchers to subscribe again.
        if !self.core.is_closing.load(Ordering::Acquire) {
            let flow = self.core.own(flow);
            self.core.tell_flow_ended(flow);
            self.core.peers.flow_failed(flow);
            self.core.devices.flow_failed(flow);
            self.core.watchers.connection_ended(flow);
            self.core.calls.connection_ended(flow);
        }
    }

    /// As [`message`](Self::message), for a datagram that came to an address of IAX2.
    pub fn iax2_datagram(&self, flow: Flow, datagram: &Buffer) {
        self.core.receive_iax2(flow, datagram);
    }

    /// Everything the server knows about itself.
    pub fn stats(&self) -> ServerStats {
        self.core.stats()
    }

    /// Every queue. It visits every watcher, so it is meant for operators.
    pub fn queues(&self) -> Vec<QueueView> {
        self.core.queues()
    }

    /// The calls that last, at most `limit` of them: those first that have been longest in
    /// their state.
    pub fn calls(&self, limit: usize) -> Vec<CallView> {
        self.core.calls.live(limit)
    }

    /// Records of calls that ended, the last one first. It reads the store, so it may block
    /// for as long as the database needs.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        self.core.call_log.read(query)
    }

    /// Gives `listener` a copy of each message of a device from now on, until the trace is
    /// dropped; `None` if eight traces last already. While there is none, a message costs one
    /// relaxed load.
    pub fn trace(&self, request: TraceRequest, listener: TraceListener) -> Option<Trace> {
        self.core.trace(request, listener)
    }

    /// Each address of each peer, and whether it is there.
    pub fn peers(&self) -> Vec<PeerView> {
        self.core.peers.list()
    }

    /// Each media relay, and whether it answers.
    pub fn relays(&self) -> Vec<RelayView> {
        self.core.calls.relays.list()
    }

    /// Takes what a media relay has answered.
    pub fn media_reply(&self, from: std::net::SocketAddr, reply: &[u8]) {
        self.core.calls.relay_replied(from, reply);
    }

    /// Begins to read what changes from now on: registrations, devices, mailboxes, hints and
    /// calls. While nobody reads, nothing is told.
    pub fn changes(&self, request: ChangeRequest) -> ChangeReader {
        self.core.changes.read(request)
    }

    /// The runtime that it was started on.
    pub fn runtime(&self) -> &Runtime {
        &self.core.runtime
    }

    /// Valid bindings in the order of their addresses of record, beginning after
    /// the address of record `after`: as many as make up `limit`, and then the
    /// rest of the last one's. With `domain`, only those of one.
    pub fn bindings(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> Listing {
        self.core.devices.bindings(after, limit, domain)
    }

    /// Valid bindings of every address of record of `user`.
    pub fn bindings_of(&self, user: &str) -> Listing {
        self.core.devices.bindings_of(user, &self.core.domains)
    }

    /// The address of record that a text names: `sip:alice@example.com`, `alice@example.com`,
    /// or `alice` at the first domain; `None` if it names none of ours.
    pub fn address_of_record(&self, text: &str) -> Option<String> {
        address_named(text, &self.core.domains)
    }

    /// Valid bindings of this canonical address of record.
    pub fn bindings_at(&self, aor: &str) -> Listing {
        self.core.devices.bindings_at(aor)
    }

    /// Removes the contacts of a canonical address of record that have this URI, or all of
    /// them without one, and tells the watchers. The device's next registration brings its
    /// contact back.
    pub fn remove_bindings(&self, aor: &str, contact: Option<&str>, listener: RemovalListener) {
        self.core.devices.remove_bindings(aor, contact, listener);
    }

    /// The message counts of a mailbox; `None` if nobody has set or published them.
    pub fn mailbox(&self, id: &str) -> Option<Mailbox> {
        self.core.mailboxes.get(&Name::new(id))
    }

    /// Sets the message counts of a mailbox and notifies its watchers; returns whether
    /// they were not set before. They last until they are set again or removed, and
    /// survive the process once `done` reports success; a device's publication for the
    /// mailbox overrides them.
    ///
    /// # Errors
    ///
    /// See [`MailboxRefusal`]; then `done` is dropped without having been called.
    pub fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        self.core.mailboxes.set(id, summary, done)
    }

    /// Removes the message counts of a mailbox and notifies its watchers; `false` if
    /// nothing is known of the mailbox, and then `done` is not called.
    ///
    /// # Errors
    ///
    /// [`MailboxRefusal::Published`] if only a device publishes it.
    pub fn remove_mailbox(&self, id: &str, done: Completion) -> Result<bool, MailboxRefusal> {
        self.core.mailboxes.remove(id, done)
    }

    /// At most `limit` mailboxes in the order of their names, beginning after
    /// the name `after`; with `domain`, only those of one.
    pub fn mailboxes(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<Mailbox> {
        self.core.mailboxes.list(after, limit, domain)
    }

    /// Registrations of a user that failed lately, the last one first.
    pub fn failures_of(&self, user: &str) -> Vec<FailureView> {
        self.core.log.failures.of(user)
    }

    /// The last registrations that failed, of all users: `limit` at most.
    pub fn failures(&self, limit: usize) -> Vec<FailureView> {
        self.core.log.failures.all(limit)
    }

    /// A hint; `None` when the extension has none.
    pub fn hint(&self, extension: &str) -> Option<HintView> {
        self.core.hints.get(extension)
    }

    /// Sets the devices of an extension and notifies its watchers of their combined
    /// state; returns whether it had none before. They last until they are set again or
    /// removed, and survive the process once `done` reports success. Devices whose
    /// stored accounts name the extension are added.
    ///
    /// # Errors
    ///
    /// See [`HintRefusal`]; then `done` is dropped without having been called.
    pub fn set_hint(&self, hint: &HintConfig, done: Completion) -> Result<bool, HintRefusal> {
        self.core.hints.set(hint, done)
    }

    /// Removes the devices that were set for a hint; `false` if there is no such hint,
    /// and then `done` is not called. Devices whose accounts name the extension stay;
    /// if none are left, the watchers are asked to subscribe again.
    ///
    /// # Errors
    ///
    /// [`HintRefusal::Configured`] when it stands in the configuration,
    /// [`HintRefusal::InAccounts`] when only accounts name it.
    pub fn remove_hint(&self, extension: &str, done: Completion) -> Result<bool, HintRefusal> {
        self.core.hints.remove(extension, done)
    }

    /// At most `limit` hints in the order of their extensions, beginning after
    /// the extension `after`; with `domain`, only those of one.
    pub fn hints(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<HintView> {
        self.core.hints.list(after, limit, domain)
    }

    /// The servers behind this one, and what they have.
    pub fn registrars(&self) -> Vec<RegistrarView> {
        self.core.devices.upstream.list()
    }

    /// The webhooks in the order of their names, and how they go.
    pub fn webhooks(&self) -> Vec<WebhookView> {
        self.core.webhooks.list()
    }

    /// Posts what changes to a URL from now on; returns whether there was no webhook of this
    /// name, and the secret if it was made here. It survives the process once `done` reports
    /// success.
    ///
    /// # Errors
    ///
    /// See [`WebhookRefusal`]; then `done` is dropped without having been called.
    pub fn set_webhook(
        &self,
        name: &str,
        entry: WebhookEntry,
        done: Completion,
    ) -> Result<(bool, Option<String>), WebhookRefusal> {
        self.core.webhooks.set(name, entry, done)
    }

    /// Removes a webhook that was set; `false` if there is none, and then `done` is not called.
    ///
    /// # Errors
    ///
    /// [`WebhookRefusal::Configured`] when it stands in the configuration.
    pub fn remove_webhook(&self, name: &str, done: Completion) -> Result<bool, WebhookRefusal> {
        self.core.webhooks.remove(name, done)
    }

    /// Posts a test event at once, beside what waits, and calls `listener` with what became of
    /// it; `false` if there is no such webhook.
    pub fn test_webhook(
        &self,
        name: &str,
        listener: Box<dyn FnOnce(WebhookTestResult) + Send>,
    ) -> bool {
        self.core.webhooks.test(name, listener)
    }

    /// A list of resources; `None` if there is none of this name.
    pub fn list(&self, name: &str) -> Option<ListView> {
        self.core.watching.lists.get(name)
    }

    /// Sets a list and stores it; returns whether there was none before. Those who watch it are
    /// told its full state. It survives the process once `done` reports success.
    ///
    /// # Errors
    ///
    /// See [`ListRefusal`]; then `done` is dropped without having been called.
    pub fn set_list(&self, list: &ListConfig, done: Completion) -> Result<bool, ListRefusal> {
        self.core.watching.lists.set(list, done)
    }

    /// Removes a list; `false` if there is none, and then `done` is not called. Its watchers are
    /// told that it is gone.
    ///
    /// # Errors
    ///
    /// [`ListRefusal::Configured`] when it stands in the configuration.
    pub fn remove_list(&self, name: &str, done: Completion) -> Result<bool, ListRefusal> {
        self.core.watching.lists.remove(name, done)
    }

    /// At most `limit` lists in the order of their names, beginning after the name `after`.
    pub fn lists(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<ListView> {
        self.core.watching.lists.list(after, limit, domain)
    }

    /// Accounts that the store holds for the server's realm.
    pub fn stored_account_count(&self) -> usize {
        self.core.accounts.directory.stored_count()
    }

    /// Calls `listener` with the tokens in the store: at once, and whenever any program
    /// changes them.
    pub fn watch_tokens(&self, listener: SettingListener) {
        listener(&self.core.tokens);
        let store = self.core.persistence.store();
        store.watch_settings(SettingKind::Token, listener);
    }

    /// Replaces what came of the configuration before and can change while the server runs.
    ///
    /// # Errors
    ///
    /// See [`LiveRefusal`]; then nothing has changed.
    pub fn reconfigure(&self, live: &LiveSettings) -> Result<(), LiveRefusal> {
        self.core.reconfigure(live)
    }

    /// The accounts of the configuration have changed: the bindings, publications and
    /// subscriptions of removed accounts end, and watchers are notified. The store
    /// reports its own accounts.
    pub fn accounts_changed(&self) {
        self.core.revoke();
    }

    /// Whether [`Server::shutdown`] was called.
    pub fn is_closing(&self) -> bool {
        self.core.is_closing.load(Ordering::Acquire)
    }

    /// Ends gracefully; `false` if the deadline passed first.
    ///
    /// 1. Datagrams are dropped and counted from now on.
    /// 2. Watchers get a last NOTIFY that tells them to come again. Those that have
    ///    not answered the one before are left as they are: the store keeps their
    ///    subscriptions, as after a crash.
    /// 3. The store makes durable what it was given, and then refuses.
    /// 4. Kept responses are dropped, and so are requests that wait for their partition.
    ///
    /// The pool sends the answers to the durable changes: shut down the runtime after
    /// this, and then close the network.
    pub fn shutdown(&self, deadline: Duration) -> bool {
        self.core.is_closing.store(true, Ordering::Release);
        self.core.watching.end_subscriptions();
        self.core.call_log.finish();
        let is_drained = self.core.persistence.store().close(deadline);
        self.core.responder.transactions().clear();
        if let Some(cluster) = &self.core.cluster {
            cluster.kept.close();
        }
        is_drained
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("device_count", &self.core.devices.table.len())
            .field("watcher_count", &self.core.watchers.len())
            .finish_non_exhaustive()
    }
}
