//! The parts of the server, and who owns them: README.md in this folder explains both.

use super::{
    CredentialsStats, ServerConfig,
    access::{account_policy::AccountPolicy, admission::Admission},
    call::{call_log::CallLog, calls::Calls},
    change::changes::Changes,
    cluster::{cluster_node::ClusterNode, flows::own_flows::OwnFlows},
    credentials::http_credentials::HttpCredentials,
    device::device_context::DeviceContext,
    dns::lookups::Lookups,
    iax2::calls::Iax2Calls,
    load::{
        load_control::LoadControl,
        shares::{Holder, Holders},
    },
    peer::peers::Peers,
    persistence::Persistence,
    server_clock::ServerClock,
    settings::{hints::Hints, mailboxes::Mailboxes},
    sip::responder::Responder,
    spans::span_source::SpanSource,
    stats::{queue_alert_log::QueueAlertLog, registration_log::RegistrationLog},
    tenant::tenants::Tenants,
    watcher::{watcher_context::WatcherContext, watchers::Watchers},
    webhook::webhooks::Webhooks,
};
use busyhour::{clock::Instant, runtime::Runtime};
use busyhour_registrar::Domains;
use busyhour_sip::Flow;
use busyhour_store::SettingRows;
use std::sync::{Arc, atomic::AtomicBool};

/// The state of the server, without its handle: the parts, each with its own state,
/// counters and methods. Watchers and devices have weak references to their contexts, so
/// that dropping the handle ends everything at once.
pub(super) struct Core {
    pub(super) runtime: Runtime,
    pub(super) config: ServerConfig,
    pub(super) domains: Domains,
    pub(super) tenants: Arc<Tenants>,
    pub(super) clock: Arc<ServerClock>,
    pub(super) changes: Arc<Changes>,
    pub(super) persistence: Arc<Persistence>,
    /// Nothing in a server alone.
    pub(super) cluster: Option<Arc<ClusterNode>>,
    pub(super) own_flows: OwnFlows,
    pub(super) responder: Arc<Responder>,
    pub(super) spans: Arc<SpanSource>,
    pub(super) holders: Holders,
    pub(super) admission: Admission,
    pub(super) credentials: Option<Arc<HttpCredentials>>,
    pub(super) accounts: Arc<AccountPolicy>,
    pub(super) load: Arc<LoadControl>,
    pub(super) log: Arc<RegistrationLog>,
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) iax2: Arc<Iax2Calls>,
    pub(super) devices: Arc<DeviceContext>,
    pub(super) call_log: Arc<CallLog>,
    pub(super) lookups: Arc<Lookups>,
    pub(super) peers: Arc<Peers>,
    pub(super) calls: Arc<Calls>,
    pub(super) watchers: Arc<Watchers>,
    pub(super) hints: Arc<Hints>,
    pub(super) watching: Arc<WatcherContext>,
    pub(super) webhooks: Webhooks,
    /// Logs while it is here.
    pub(super) _queue_alert_log: QueueAlertLog,
    /// As they were in the store at the start.
    pub(super) tokens: SettingRows,
    pub(super) started_at: Instant,
    pub(super) is_closing: AtomicBool,
    /// A walk over what accounts have that have gone waits, and has not begun.
    pub(super) is_revocation_due: AtomicBool,
}

impl Core {
    /// A flow of our network, as it is known in the whole cluster.
    pub(super) fn own(&self, flow: Flow) -> Flow {
        self.own_flows.named(flow)
    }

    /// The holder to which a request's shares are charged.
    pub(super) fn holder(&self, flow: Flow, account: Option<&str>) -> Holder {
        self.holders.of(flow.remote.ip(), account)
    }

    /// Nothing without a service for credentials.
    pub(super) fn credential_stats(&self) -> CredentialsStats {
        let credentials = self.credentials.as_ref();
        credentials.map(|it| it.stats()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Authentication, Limits, Network, SendError};
    use busyhour::buffer::Buffer;
    use busyhour_store::{MemoryStore, Store};

    struct Nowhere;

    impl Network for Nowhere {
        fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
            Ok(())
        }
    }

    impl Core {
        /// One in virtual time that sends nowhere, with room for so many devices.
        pub(in crate::server) fn simulated(runtime: &Runtime, devices_max: usize) -> Arc<Self> {
            Self::simulated_with(runtime, devices_max, Box::new(MemoryStore::new()))
        }

        pub(in crate::server) fn simulated_with(
            runtime: &Runtime,
            devices_max: usize,
            store: Box<dyn Store>,
        ) -> Arc<Self> {
            let config = ServerConfig {
                domains: vec!["example.com".to_owned()],
                authentication: Authentication::Open,
                limits: Limits {
                    devices_max,
                    ..Limits::default()
                },
                ..ServerConfig::default()
            };
            Self::start(runtime.clone(), config, Arc::new(Nowhere), store, None).expect("a server")
        }
    }
}
