//! A side of a call, as it is kept with the call.

use busyhour::bus::Name;
use busyhour_sip::Flow;

use super::Party;
use crate::routing::CompactFlow;

/// A [`Party`] in little memory.
#[derive(Debug, Clone)]
pub(in crate::dialogs) struct KeptParty {
    pub device: Option<Name>,
    pub peer: Option<Name>,
    flow: CompactFlow,
}

impl KeptParty {
    pub fn get(&self) -> Party {
        Party {
            device: self.device.clone(),
            peer: self.peer.clone(),
            flow: self.flow(),
        }
    }

    pub fn flow(&self) -> Flow {
        self.flow.get()
    }

    pub fn set_flow(&mut self, flow: Flow) {
        self.flow = flow.into();
    }

    /// Nobody in particular is known by its flow alone.
    pub fn has_name(&self) -> bool {
        self.device.is_some() || self.peer.is_some()
    }
}

impl From<Party> for KeptParty {
    fn from(party: Party) -> Self {
        let Party { device, peer, flow } = party;
        Self {
            device,
            peer,
            flow: flow.into(),
        }
    }
}
