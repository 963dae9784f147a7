//! What is kept with a request that the proxy is responsible for.

use crate::server::load::shares::{Holder, Shares};
use busyhour::bus::Name;
use busyhour_proxy::dialogs::{CallHandle, DialogRequest, Party, Role};
use busyhour_sip::Flow;
use std::sync::Arc;

/// What the server keeps with a request of the proxy, and gives back when the proxy
/// forgets the request.
pub(in crate::server) struct Permit {
    pub(super) tracking: Tracking,
    /// The device that calls.
    pub(super) caller: Option<Name>,
    /// The address of record that is called, and the flows of its targets by their labels.
    pub(super) callee: Option<Name>,
    pub(super) flows: Box<[Flow]>,
    _place: Place,
}

/// What the table of dialogs calls the request.
#[derive(Debug, Clone)]
pub(in crate::server) enum Tracking {
    /// It is not of a dialog that is known.
    None,
    /// The INVITE of a call.
    Call(CallHandle),
    /// A request within a dialog.
    Within(DialogRequest),
    /// A request within a dialog that is not known, between these sides.
    Unknown(Box<([Party; 2], Role)>),
}

/// One of the transactions that the server may have at a time.
pub(super) struct Place {
    places: Arc<Shares>,
    holder: Holder,
}

impl Permit {
    pub(super) fn new(place: Place) -> Self {
        Self {
            tracking: Tracking::None,
            caller: None,
            callee: None,
            flows: Box::default(),
            _place: place,
        }
    }

    /// The called device, on the way to the target with this label.
    pub(super) fn device(&self, _label: u64) -> Option<Name> {
        self.callee.clone()
    }

    /// The called side of a branch.
    pub(super) fn party(&self, label: u64) -> Option<Party> {
        let flow = *self.flows.get(usize::try_from(label).ok()?)?;
        Some(Party {
            device: self.callee.clone(),
            flow,
        })
    }
}

impl Place {
    /// `places` has counted it.
    pub(super) fn taken(places: Arc<Shares>, holder: Holder) -> Self {
        Self { places, holder }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(self.holder, 1);
    }
}
