//! What every part of the server shares.

use super::{
    Limits, ServerConfig,
    access::{account_policy::AccountPolicy, admission::Admission},
    device::{
        compositor::Compositor, device_context::DeviceContext, devices::Devices, flows::Flows,
        state_topics::StateTopics,
    },
    iax2::calls::Iax2Calls,
    load::{
        load_control::LoadControl,
        shares::{Holder, Holders},
    },
    persistence::Persistence,
    server_clock::ServerClock,
    settings::{hints::Hints, mailboxes::Mailboxes},
    sip::{responder::Responder, transactions::Transactions},
    stats::{counters::TrafficCounters, registration_log::RegistrationLog},
    watcher::watchers::Watchers,
};
use busyhour::{clock::Instant, runtime::Runtime};
use busyhour_registrar::{Domains, Now};
use busyhour_sip::Flow;
use busyhour_store::{Store, TokenRows};
use std::sync::{Arc, atomic::AtomicBool};

/// The state of the server, without its handle. Watchers have weak references to it, and
/// devices to their context, so that dropping the handle ends everything at once.
pub(super) struct Core {
    pub(super) parts: CoreParts,
    pub(super) is_closing: AtomicBool,
    pub(super) started_at: Instant,
    /// A walk over what accounts have that have gone waits, and has not begun.
    pub(super) is_revocation_due: AtomicBool,
}

/// What a server is made of, in the order in which it is made.
pub(super) struct CoreParts {
    pub(super) runtime: Runtime,
    pub(super) config: ServerConfig,
    pub(super) responder: Arc<Responder>,
    pub(super) clock: Arc<ServerClock>,
    pub(super) persistence: Arc<Persistence>,
    pub(super) domains: Domains,
    pub(super) admission: Admission,
    pub(super) accounts: Arc<AccountPolicy>,
    pub(super) device_context: Arc<DeviceContext>,
    pub(super) watchers: Arc<Watchers>,
    pub(super) mailboxes: Arc<Mailboxes>,
    pub(super) hints: Hints,
    pub(super) holders: Holders,
    pub(super) log: Arc<RegistrationLog>,
    pub(super) load: Arc<LoadControl>,
    pub(super) iax2: Arc<Iax2Calls>,
    /// As they were in the store at the start.
    pub(super) tokens: TokenRows,
}

impl Core {
    pub(super) fn new(parts: CoreParts) -> Self {
        Self {
            is_closing: AtomicBool::new(false),
            started_at: parts.runtime.clock().now(),
            is_revocation_due: AtomicBool::new(false),
            parts,
        }
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.parts.runtime
    }

    pub(super) fn config(&self) -> &ServerConfig {
        &self.parts.config
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.parts.config.limits
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.parts.persistence.store()
    }

    pub(super) fn persistence(&self) -> &Persistence {
        &self.parts.persistence
    }

    pub(super) fn device_context(&self) -> &Arc<DeviceContext> {
        &self.parts.device_context
    }

    pub(super) fn devices(&self) -> &Devices {
        &self.parts.device_context.devices
    }

    pub(super) fn flows(&self) -> &Flows {
        &self.parts.device_context.flows
    }

    /// What devices tell the bus.
    pub(super) fn topics(&self) -> &StateTopics {
        &self.parts.device_context.topics
    }

    pub(super) fn watchers(&self) -> &Watchers {
        &self.parts.watchers
    }

    pub(super) fn hints(&self) -> &Hints {
        &self.parts.hints
    }

    pub(super) fn admission(&self) -> &Admission {
        &self.parts.admission
    }

    pub(super) fn accounts(&self) -> &AccountPolicy {
        &self.parts.accounts
    }

    pub(super) fn mailboxes(&self) -> &Mailboxes {
        &self.parts.mailboxes
    }

    pub(super) fn compositor(&self) -> &Compositor {
        &self.parts.device_context.compositor
    }

    pub(super) fn load(&self) -> &LoadControl {
        &self.parts.load
    }

    pub(super) fn log(&self) -> &RegistrationLog {
        &self.parts.log
    }

    pub(super) fn responder(&self) -> &Responder {
        &self.parts.responder
    }

    pub(super) fn transactions(&self) -> &Transactions {
        self.parts.responder.transactions()
    }

    /// What happened to datagrams.
    pub(super) fn traffic(&self) -> &TrafficCounters {
        &self.parts.responder.traffic
    }

    pub(super) fn iax2(&self) -> &Arc<Iax2Calls> {
        &self.parts.iax2
    }

    pub(super) fn now(&self) -> Instant {
        self.parts.clock.now()
    }

    pub(super) fn moment(&self) -> Now {
        self.parts.clock.moment()
    }

    /// The holder to which a request's shares are charged.
    pub(super) fn holder(&self, flow: Flow, account: Option<&str>) -> Holder {
        self.parts.holders.of(flow.remote.ip(), account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Authentication, Network, SendError};
    use busyhour::buffer::Buffer;
    use busyhour_store::MemoryStore;

    struct Nowhere;

    impl Network for Nowhere {
        fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
            Ok(())
        }
    }

    impl Core {
        /// One in virtual time that sends nowhere, with room for so many devices.
        pub(in crate::server) fn simulated(runtime: &Runtime, devices_max: usize) -> Arc<Self> {
            let config = ServerConfig {
                domains: vec!["example.com".to_owned()],
                authentication: Authentication::Open,
                limits: Limits {
                    devices_max,
                    ..Limits::default()
                },
                ..ServerConfig::default()
            };
            let store = Box::new(MemoryStore::new());
            Self::start(runtime.clone(), config, Arc::new(Nowhere), store).expect("a server")
        }
    }
}
