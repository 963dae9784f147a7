//! What a device gets of the server. README.md in the folder above says what a device
//! does with each part.
//!
//! The context owns the table, the table owns the devices, and each device has a weak
//! reference to the context. So all of them end with the server's last handle, but for a
//! turn that has begun: it has every part that it needs until it is done.

use super::{
    Device, compositor::Compositor, devices::Devices, flows::Flows,
    listing::device_index::DeviceIndex, state_topics::StateTopics,
};
use crate::server::{
    access::account_policy::AccountPolicy,
    behind::upstream::Upstream,
    change::changes::Changes,
    cluster::{kept::kept_messages::KeptMessages, live_states::LiveStates},
    iax2::calls::Iax2Calls,
    load::load_control::LoadControl,
    persistence::Persistence,
    push::pushes::Pushes,
    server_clock::ServerClock,
    settings::mailboxes::Mailboxes,
    sip::responder::Responder,
    stats::registration_log::RegistrationLog,
};
use busyhour_sip::Flow;
use std::sync::{Arc, OnceLock};

/// All devices, and the parts that they use: those that are for devices alone, and those
/// that they share with the rest of the server.
pub(in crate::server) struct DeviceContext {
    pub(in crate::server) table: Devices,
    /// What people search.
    pub(in crate::server) index: DeviceIndex,
    pub(in crate::server) flows: Flows,
    pub(in crate::server) topics: StateTopics,
    pub(in crate::server) compositor: Compositor,
    pub(in crate::server) changes: Arc<Changes>,
    pub(in crate::server) clock: Arc<ServerClock>,
    pub(in crate::server) responder: Arc<Responder>,
    pub(in crate::server) persistence: Arc<Persistence>,
    pub(in crate::server) accounts: Arc<AccountPolicy>,
    pub(in crate::server) mailboxes: Arc<Mailboxes>,
    pub(in crate::server) iax2: Arc<Iax2Calls>,
    pub(in crate::server) log: Arc<RegistrationLog>,
    pub(in crate::server) load: Arc<LoadControl>,
    pub(in crate::server) push: Arc<Pushes>,
    pub(in crate::server) upstream: Arc<Upstream>,
    /// In a cluster: for which devices this node speaks, and what it knows of the others.
    pub(in crate::server) live: Option<Arc<LiveStates>>,
    /// In a cluster: requests that wait for whoever has their partition next.
    pub(in crate::server) kept: Option<Arc<KeptMessages>>,
    /// Who is told that a device is not reached over a flow any more. Called under no
    /// lock.
    pub(in crate::server) calls: OnceLock<FlowEnded>,
}

/// Tells of a device and its flow.
pub(in crate::server) type FlowEnded = Box<dyn Fn(&Device, Flow) + Send + Sync>;
