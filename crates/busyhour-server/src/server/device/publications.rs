//! What a device publishes about itself, in turn with its registrations.

use super::{Device, State};
use crate::{
    proto::sip::Message,
    server::{core::Core, job::Arrival},
    watch::Package,
};

impl Device {
    /// The 200 leaves before the bus is told, and so before any NOTIFY.
    pub(super) fn take_publication(&self, core: &Core, state: &mut State, arrival: &Arrival) {
        // It was parsed when it arrived, so it parses again.
        let Ok(message) = Message::parse(&arrival.datagram) else {
            return;
        };
        let publications = &mut state.rare().publications;
        let accepted = core.take_publication(&self.name(), publications, &message, arrival);
        let accepted = match accepted {
            Ok(Some(accepted)) => accepted,
            Ok(None) => return core.abandon(arrival.transaction),
            Err(refusal) => return core.refuse_publication(&message, arrival, &refusal),
        };
        let flow = core.answer_flow(&message, arrival.flow);
        core.accept(arrival.transaction, flow, accepted.answer);
        if let Some(package) = accepted.changed {
            self.tell(core, state, package);
        }
    }

    /// Tells the watchers of a package what the device publishes now.
    fn tell(&self, core: &Core, state: &State, package: Package) {
        match package {
            Package::Presence | Package::Dialog => self.publish(core, state),
            Package::MessageSummary => core.publish_mailbox(&self.name(), state.messages()),
            // Nobody publishes it.
            Package::Registration => {}
        }
    }

    pub(super) fn expire_publications(&self, core: &Core, state: &mut State) {
        let Some(rare) = &mut state.rare else {
            return;
        };
        let ended = rare.publications.expire(core.now());
        core.count_ended_publications(ended.len());
        // Presence and dialogs are told as one.
        let is_mailbox = |package: &Package| *package == Package::MessageSummary;
        if ended.iter().any(is_mailbox) {
            self.tell(core, state, Package::MessageSummary);
        }
        if !ended.iter().all(is_mailbox) {
            self.publish(core, state);
        }
    }
}
