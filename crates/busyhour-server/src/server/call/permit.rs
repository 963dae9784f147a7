//! What is kept with a request that the proxy is responsible for.

use super::tracking::Tracking;
use crate::server::load::shares::{Excess, Holder, Shares};
use busyhour_proxy::dialogs::Party;
use std::sync::Arc;

/// What the server keeps with a request of the proxy, and gives back when the proxy
/// forgets the request.
pub(in crate::server) struct Permit {
    pub(super) tracking: Tracking,
    /// Who calls, once that is known.
    pub(super) caller: Option<Party>,
    /// Who sent it: the caller, or within a dialog either side.
    pub(super) sender: Option<Party>,
    /// What the sender asserts of itself is believed.
    pub(super) is_believed: bool,
    /// Who is called, by the labels of the targets.
    pub(super) called: Box<[Party]>,
    /// Its final response was sent.
    is_finished: bool,
    /// The memory of its messages.
    memory: Place,
    _transaction: Place,
}

/// Room for requests: a bound for their number, and one for the memory of their messages.
pub(in crate::server) struct CallRoom {
    places: Arc<Shares>,
    memory: Arc<Shares>,
}

/// A part of a bounded resource, given back when it is dropped.
struct Place {
    shares: Arc<Shares>,
    holder: Holder,
    amount: u64,
}

impl Permit {
    fn new(transaction: Place, memory: Place) -> Self {
        Self {
            tracking: Tracking::None,
            caller: None,
            sender: None,
            is_believed: false,
            called: Box::default(),
            is_finished: false,
            memory,
            _transaction: transaction,
        }
    }

    /// Something happened to it, and it keeps so many bytes now. Once its final response was
    /// sent, it is charged for them alone: they are for retransmissions, and fewer as soon as
    /// the branches that lost have ended, too.
    pub(super) fn note(&mut self, is_final: bool, held_bytes: u64) {
        self.is_finished |= is_final;
        if self.is_finished {
            self.memory.resize(held_bytes);
        }
    }

    /// Whether the request is within a dialog.
    pub(super) fn is_in_dialog(&self) -> bool {
        use Tracking::{Spiral, Unknown, Within};
        matches!(self.tracking, Within(_) | Unknown(_) | Spiral)
    }

    /// The called side of the way to the target with this label.
    pub(super) fn called(&self, label: u64) -> Option<&Party> {
        self.called.get(usize::try_from(label).ok()?)
    }
}

impl CallRoom {
    pub(in crate::server) fn new(places: Shares, memory: Shares) -> Self {
        Self {
            places: Arc::new(places),
            memory: Arc::new(memory),
        }
    }

    /// Room for one request, whose messages have so many bytes.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn take(&self, holder: Holder, bytes: u64) -> Result<Permit, Excess> {
        let place = Place::take(&self.places, holder, 1)?;
        Ok(Permit::new(
            place,
            Place::take(&self.memory, holder, bytes)?,
        ))
    }

    /// The memory of messages, by holder.
    pub(in crate::server) fn memory(&self) -> &Shares {
        &self.memory
    }

    /// The memory of all messages.
    pub(super) fn charged_bytes(&self) -> u64 {
        self.memory.used()
    }
}

impl Place {
    fn take(shares: &Arc<Shares>, holder: Holder, amount: u64) -> Result<Self, Excess> {
        shares.take(holder, amount)?;
        Ok(Self {
            shares: shares.clone(),
            holder,
            amount,
        })
    }

    /// Takes or gives back what it differs by.
    fn resize(&mut self, amount: u64) {
        match amount.checked_sub(self.amount) {
            Some(more) => self.shares.take_anyway(self.holder, more),
            None => self.shares.give_back(self.holder, self.amount - amount),
        }
        self.amount = amount;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shares.give_back(self.holder, self.amount);
    }
}
