use super::{
    AccountsApi, BindingPage, CertificatesApi, SettingsApi, TenantsApi, WebhooksApi,
    on_worker::Portions,
};
use crate::server::{
    AddressOwner, CallView, ChangeReader, ChangeRequest, ClusterNodeView, DevicePage, DeviceQuery,
    DeviceView, FailureView, NodeSilence, OnNodeAnswer, OnNodeQuestion, PeerView, QueueView,
    RegistrarView, RelayView, RemovalListener, Server, ServerStats, WatcherPage,
};
use crate::server::{Trace, TraceListener, TraceRequest};
use busyhour::runtime::Runtime;
use busyhour_store::{CallRecordQuery, CallRecordRow, Completion, Refused};
use std::sync::Arc;

/// The backend of the pages: the server, or a fake in tests.
pub trait Backend: Send + Sync + 'static {
    /// The one snapshot.
    fn stats(&self) -> ServerStats;

    /// At least `limit` bindings, if there are as many, sorted by address of record,
    /// beginning after the address of record `after`; only those of `domain`, if given.
    fn bindings(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> BindingPage;

    /// All bindings of the addresses of record of `user`.
    fn bindings_of(&self, _user: &str) -> BindingPage {
        BindingPage::default()
    }

    /// The canonical address of record that a text names, if it is one of ours.
    fn address_of_record(&self, _text: &str) -> Option<String> {
        None
    }

    /// Which node of a cluster has an address of record.
    fn owner_of(&self, _aor: &str) -> AddressOwner {
        AddressOwner::Here
    }

    /// Calls this when a node has an address of record, or drops it if none has it in time.
    fn tell_of_owner(&self, _aor: &str, _is_of_node: bool, told: Box<dyn FnOnce() + Send>) {
        told();
    }

    /// Whether what is in memory of devices may be told.
    fn has_lease(&self) -> bool {
        true
    }

    /// Asks another node of the cluster.
    ///
    /// # Errors
    ///
    /// When it is certainly not asked; then `done` is dropped.
    fn ask_node(
        &self,
        _node: &str,
        _question: Vec<u8>,
        _done: OnNodeAnswer,
    ) -> Result<(), NodeSilence> {
        Err(NodeSilence::NotAsked)
    }

    /// From now on questions of other nodes are heard.
    fn hear_nodes(&self, _hear: OnNodeQuestion) {}

    /// The bindings of a canonical address of record.
    fn bindings_at(&self, _aor: &str) -> BindingPage {
        BindingPage::default()
    }

    /// A page of devices for operators, in portions of a few milliseconds.
    fn find_devices(&self, _query: DeviceQuery) -> Portions<DevicePage> {
        Box::new(|| Some(DevicePage::default()))
    }

    /// The device of a canonical address of record, if it is registered or has an account in the
    /// store.
    fn device(&self, _aor: &str) -> Option<DeviceView> {
        None
    }

    /// Watchers for operators. It may take long.
    fn find_watchers(
        &self,
        _text: Option<&str>,
        _after: Option<u64>,
        _limit: usize,
    ) -> WatcherPage {
        WatcherPage::default()
    }

    /// Removes those of its contacts that have this URI, or all of them.
    fn remove_bindings(&self, _aor: &str, _contact: Option<&str>, listener: RemovalListener) {
        listener(Ok(0));
    }

    /// Every queue.
    fn queues(&self) -> Vec<QueueView> {
        Vec::new()
    }

    /// The calls that last, at most `limit` of them.
    fn calls(&self, _limit: usize) -> Vec<CallView> {
        Vec::new()
    }

    /// Records of calls that ended, the last one first. It may block.
    ///
    /// # Errors
    ///
    /// Why they cannot be read.
    fn call_records(&self, _query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, String> {
        Ok(Vec::new())
    }

    /// Begins a trace; `None` if there are as many as may be.
    fn trace(&self, _request: TraceRequest, _listener: TraceListener) -> Option<Trace> {
        None
    }

    /// The certificates; `None` if there is nothing to read again.
    fn certificates(&self) -> Option<&dyn CertificatesApi> {
        None
    }

    /// Each address of each peer.
    fn peers(&self) -> Vec<PeerView> {
        Vec::new()
    }

    /// Lets a node of the cluster give its partitions away; `false` if there is none.
    ///
    /// # Errors
    ///
    /// When too many such wishes wait, or this node ends.
    fn drain_node(&self, _name: &str, _done: Completion) -> Result<bool, Refused> {
        Ok(false)
    }

    /// Lets a node of the cluster have a partition, or whoever it falls to; `false` if there is no
    /// such node.
    ///
    /// # Errors
    ///
    /// As for [`drain_node`](Self::drain_node).
    fn move_partition(
        &self,
        _partition: u8,
        _to: Option<&str>,
        _done: Completion,
    ) -> Result<bool, Refused> {
        Ok(false)
    }

    /// The nodes of the cluster.
    fn cluster_nodes(&self) -> Vec<ClusterNodeView> {
        Vec::new()
    }

    /// Each media relay.
    fn relays(&self) -> Vec<RelayView> {
        Vec::new()
    }

    /// The servers behind this one.
    fn registrars(&self) -> Vec<RegistrarView> {
        Vec::new()
    }

    /// Begins to read what changes; `None` if nothing is told.
    fn changes(&self, _request: ChangeRequest) -> Option<ChangeReader> {
        None
    }

    /// The runtime of the server, if there is one.
    fn runtime(&self) -> Option<&Runtime> {
        None
    }

    /// Whether a shutdown has begun.
    fn is_draining(&self) -> bool;

    /// The backend for accounts; `None` if there are no accounts.
    fn accounts(&self) -> Option<&dyn AccountsApi> {
        None
    }

    /// The backend for domains with settings of their own; `None` if there are none.
    fn tenants(&self) -> Option<&dyn TenantsApi> {
        None
    }

    /// At most `limit` registrations that failed recently, the last one first; only
    /// those of `user`, if given.
    fn failures(&self, _user: Option<&str>, _limit: usize) -> Vec<FailureView> {
        Vec::new()
    }

    /// The backend for webhooks; `None` if there are no such paths.
    fn webhooks(&self) -> Option<&dyn WebhooksApi> {
        None
    }

    /// The backend for mailboxes and hints; `None` if there are no such paths.
    fn api(&self) -> Option<Arc<dyn SettingsApi>> {
        None
    }
}

impl Backend for Server {
    fn stats(&self) -> ServerStats {
        self.stats()
    }

    fn bindings(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> BindingPage {
        self.bindings(after, limit, domain).into()
    }

    fn bindings_of(&self, user: &str) -> BindingPage {
        self.bindings_of(user).into()
    }

    fn address_of_record(&self, text: &str) -> Option<String> {
        self.address_of_record(text)
    }

    fn owner_of(&self, aor: &str) -> AddressOwner {
        self.owner_of(aor)
    }

    fn tell_of_owner(&self, aor: &str, is_of_node: bool, told: Box<dyn FnOnce() + Send>) {
        self.tell_of_owner(aor, is_of_node, told);
    }

    fn has_lease(&self) -> bool {
        self.has_lease()
    }

    fn ask_node(
        &self,
        node: &str,
        question: Vec<u8>,
        done: OnNodeAnswer,
    ) -> Result<(), NodeSilence> {
        self.ask_node(node, question, done)
    }

    fn hear_nodes(&self, hear: OnNodeQuestion) {
        self.hear_nodes(hear);
    }

    fn bindings_at(&self, aor: &str) -> BindingPage {
        self.bindings_at(aor).into()
    }

    fn find_devices(&self, query: DeviceQuery) -> Portions<DevicePage> {
        let mut search = self.search_devices(query);
        Box::new(move || search.go_on())
    }

    fn device(&self, aor: &str) -> Option<DeviceView> {
        self.device(aor)
    }

    fn find_watchers(&self, text: Option<&str>, after: Option<u64>, limit: usize) -> WatcherPage {
        self.find_watchers(text, after, limit)
    }

    fn remove_bindings(&self, aor: &str, contact: Option<&str>, listener: RemovalListener) {
        self.remove_bindings(aor, contact, listener);
    }

    fn queues(&self) -> Vec<QueueView> {
        self.queues()
    }

    fn calls(&self, limit: usize) -> Vec<CallView> {
        self.calls(limit)
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, String> {
        self.call_records(query).map_err(|error| error.to_string())
    }

    fn trace(&self, request: TraceRequest, listener: TraceListener) -> Option<Trace> {
        self.trace(request, listener)
    }

    fn peers(&self) -> Vec<PeerView> {
        self.peers()
    }

    fn drain_node(&self, name: &str, done: Completion) -> Result<bool, Refused> {
        self.drain_node(name, done)
    }

    fn move_partition(
        &self,
        partition: u8,
        to: Option<&str>,
        done: Completion,
    ) -> Result<bool, Refused> {
        self.move_partition(partition, to, done)
    }

    fn cluster_nodes(&self) -> Vec<ClusterNodeView> {
        self.cluster_nodes()
    }

    fn relays(&self) -> Vec<RelayView> {
        self.relays()
    }

    fn registrars(&self) -> Vec<RegistrarView> {
        self.registrars()
    }

    fn changes(&self, request: ChangeRequest) -> Option<ChangeReader> {
        Some(self.changes(request))
    }

    fn runtime(&self) -> Option<&Runtime> {
        Some(self.runtime())
    }

    fn is_draining(&self) -> bool {
        self.is_closing()
    }

    fn failures(&self, user: Option<&str>, limit: usize) -> Vec<FailureView> {
        let Some(user) = user else {
            return self.failures(limit);
        };
        let mut failures = self.failures_of(user);
        failures.truncate(limit);
        failures
    }

    fn accounts(&self) -> Option<&dyn AccountsApi> {
        Some(self)
    }

    fn webhooks(&self) -> Option<&dyn WebhooksApi> {
        Some(self)
    }

    fn tenants(&self) -> Option<&dyn TenantsApi> {
        Some(self)
    }

    fn api(&self) -> Option<Arc<dyn SettingsApi>> {
        Some(Arc::new(self.clone()))
    }
}
