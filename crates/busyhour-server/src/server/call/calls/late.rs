//! Calls that wait for telephones that sleep.

use super::{Calls, SHARDS};
use crate::server::{
    call::target::{Asleep, Located},
    push::pushes::WaitingCall,
};
use busyhour::bus::Name;
use busyhour_proxy::TransactionId;
use busyhour_registrar::Contact;
use busyhour_sip::{HeaderName, Message};
use std::{hash::BuildHasher, sync::Arc};

impl Calls {
    pub(in crate::server::call) fn shard_of(&self, message: &Message<'_>) -> usize {
        self.shard_of_name(message.header(HeaderName::CallId).unwrap_or(""))
    }

    /// The shard of the calls with this Call-ID.
    pub(super) fn shard_of_name(&self, call_id: &str) -> usize {
        self.hasher.hash_one(call_id) as usize % SHARDS
    }

    /// A request waits for these telephones from now on. Called under the lock of its shard.
    pub(super) fn wait_for(
        &self,
        asleep: Option<Box<Asleep>>,
        message: &Message<'_>,
        transaction: TransactionId,
    ) {
        let Some(asleep) = asleep else { return };
        let shard = self.shard_of(message);
        let call_id = message.call_id().unwrap_or_default();
        self.devices.push.begin(
            &asleep.device,
            (asleep.kind, call_id),
            WaitingCall { shard, transaction },
            asleep.wakings,
        );
    }

    /// A telephone that a call waits for has registered this contact.
    pub(in crate::server) fn add_late(
        self: &Arc<Self>,
        call: &WaitingCall,
        device: &Name,
        contact: &Contact,
    ) {
        let Located {
            mut targets,
            called,
            ..
        } = Located::of(device, &[contact]);
        let Some(mut target) = targets.targets.pop() else {
            return;
        };
        let now = self.clock.now();
        self.step_in(call.shard, None, |state, out| {
            let Some(permit) = state.proxy.data_mut(call.transaction) else {
                return;
            };
            target.label = permit.all_called().len() as u64;
            let all = permit.all_called().iter().chain(&called).cloned();
            permit.set_called(all.collect());
            state
                .proxy
                .add_late(now, call.transaction, target, &mut out.proxy);
        });
    }

    /// A telephone that a call waits for will not come.
    pub(in crate::server) fn miss_late(self: &Arc<Self>, call: &WaitingCall, reason: &'static str) {
        let now = self.clock.now();
        self.step_in(call.shard, None, |state, out| {
            state
                .proxy
                .end_late(now, call.transaction, reason, &mut out.proxy);
        });
    }
}
