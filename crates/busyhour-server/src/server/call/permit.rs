//! What is kept with a request that the proxy is responsible for.

use crate::server::load::shares::{Excess, Holder, Shares};
use busyhour::bus::Name;
use busyhour_proxy::dialogs::{CallHandle, DialogRequest, Party, Role};
use std::sync::Arc;

/// What the server keeps with a request of the proxy, and gives back when the proxy
/// forgets the request.
pub(in crate::server) struct Permit {
    pub(super) tracking: Tracking,
    /// The device that calls.
    pub(super) caller: Option<Name>,
    /// Who is called, by the labels of the targets.
    pub(super) called: Box<[Party]>,
    /// The memory of its messages, until its final response.
    memory: Option<Place>,
    _transaction: Place,
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

/// A part of a bounded resource, given back when it is dropped.
pub(super) struct Place {
    shares: Arc<Shares>,
    holder: Holder,
    amount: u64,
}

impl Permit {
    pub(super) fn new(transaction: Place, memory: Place) -> Self {
        Self {
            tracking: Tracking::None,
            caller: None,
            called: Box::default(),
            memory: Some(memory),
            _transaction: transaction,
        }
    }

    /// Its final response was sent, so its messages are kept no longer.
    pub(super) fn finish(&mut self) {
        self.memory = None;
    }

    /// Whether the request is within a dialog.
    pub(super) fn is_in_dialog(&self) -> bool {
        matches!(self.tracking, Tracking::Within(_) | Tracking::Unknown(_))
    }

    /// The called side of the way to the target with this label.
    pub(super) fn called(&self, label: u64) -> Option<&Party> {
        self.called.get(usize::try_from(label).ok()?)
    }
}

impl Place {
    /// # Errors
    ///
    /// Why there is no room.
    pub(super) fn take(shares: &Arc<Shares>, holder: Holder, amount: u64) -> Result<Self, Excess> {
        shares.take(holder, amount)?;
        Ok(Self {
            shares: shares.clone(),
            holder,
            amount,
        })
    }

    /// As [`take`](Self::take), for what must not be refused.
    pub(super) fn take_anyway(
        shares: &Arc<Shares>,
        holder: Holder,
        amount: u64,
    ) -> Result<Self, Excess> {
        shares.take_anyway(holder, amount);
        Ok(Self {
            shares: shares.clone(),
            holder,
            amount,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shares.give_back(self.holder, self.amount);
    }
}
