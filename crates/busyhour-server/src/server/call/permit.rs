//! What is kept with a request that the proxy is responsible for.

use super::tracking::Tracking;
use crate::server::{
    load::shares::{Excess, Holder, Shares},
    spans::request_span::RequestSpan,
};
use busyhour_proxy::dialogs::Party;
use std::sync::Arc;

/// What the server keeps with a request of the proxy, and gives back when the proxy
/// forgets the request.
pub(in crate::server) struct Permit {
    pub(super) tracking: Tracking,
    /// Who takes part, as long as that matters.
    parties: Option<Box<PermitParties>>,
    /// What the sender asserts of itself is believed.
    pub(super) is_believed: bool,
    /// Its final response was sent.
    is_finished: bool,
    pub(super) span: RequestSpan,
    place: Place,
}

/// Who takes part in a request.
#[derive(Default)]
struct PermitParties {
    /// Who calls, once that is known.
    caller: Option<Party>,
    /// Who sent it: the caller, or within a dialog either side.
    sender: Option<Party>,
    /// Who is called, by the labels of the targets.
    called: Box<[Party]>,
}

/// Room for requests: a bound for their number, and one for the memory of their messages.
pub(in crate::server) struct CallRoom(Arc<RoomShares>);

struct RoomShares {
    places: Shares,
    memory: Shares,
}

/// Why there is no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// There are too many requests of all.
    Requests,
    /// The messages of all take too much memory.
    Memory,
    /// The source or the account has its share.
    Share,
}

/// The room of one request, given back when it is dropped.
struct Place {
    shares: Arc<RoomShares>,
    holder: Holder,
    /// The memory of its messages.
    bytes: u64,
}

impl Permit {
    fn new(place: Place) -> Self {
        Self {
            tracking: Tracking::None,
            parties: None,
            is_believed: false,
            is_finished: false,
            span: RequestSpan::default(),
            place,
        }
    }

    /// Says who takes part; the order of `called` is that of the labels of the targets.
    pub(super) fn set_parties(&mut self, caller: Party, sender: Party, called: Box<[Party]>) {
        self.parties = Some(Box::new(PermitParties {
            caller: Some(caller),
            sender: Some(sender),
            called,
        }));
    }

    /// Says who is called, in the place of those before.
    pub(super) fn set_called(&mut self, called: Box<[Party]>) {
        self.parties.get_or_insert_default().called = called;
    }

    /// To whom it is charged.
    pub(super) fn holder(&self) -> Holder {
        self.place.holder
    }

    /// Who calls, once that is known.
    pub(super) fn caller(&self) -> Option<&Party> {
        self.parties.as_ref()?.caller.as_ref()
    }

    /// Who sent it: the caller, or within a dialog either side.
    pub(super) fn sender(&self) -> Option<&Party> {
        self.parties.as_ref()?.sender.as_ref()
    }

    /// Who is called, by the labels of the targets.
    pub(super) fn all_called(&self) -> &[Party] {
        let parties = self.parties.as_ref();
        parties.map_or(&[], |parties| &parties.called)
    }

    /// Something happened to it, and it keeps so many bytes now. Once its final response was
    /// sent, it is charged for them alone: they are for retransmissions, and fewer as soon as
    /// the branches that lost have ended, too. It goes nowhere else then, and of who takes part
    /// only a peer matters: what it says of itself may be passed on with a late 2xx.
    pub(super) fn note(&mut self, is_final: bool, held_bytes: u64) {
        self.is_finished |= is_final;
        if self.is_finished {
            self.place.resize(held_bytes);
            self.parties.take_if(|parties| !parties.have_peer());
        }
    }

    /// Whether the request is within a dialog.
    pub(super) fn is_in_dialog(&self) -> bool {
        use Tracking::{Spiral, Unknown, Within};
        matches!(self.tracking, Within(_) | Unknown(_) | Spiral)
    }

    /// The called side of the way to the target with this label.
    pub(super) fn called(&self, label: u64) -> Option<&Party> {
        self.all_called().get(usize::try_from(label).ok()?)
    }
}

impl PermitParties {
    fn have_peer(&self) -> bool {
        let Self {
            caller,
            sender,
            called,
        } = self;
        let mut all = caller.iter().chain(sender).chain(called);
        all.any(|party| party.peer.is_some())
    }
}

impl NoRoom {
    /// What the operator reads.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Requests => "No Room (limits.calls)",
            Self::Memory => "No Memory For Calls (runtime.buffer_budget_mib)",
            Self::Share => "Share Used Up (limits.source_percent, limits.account_percent)",
        }
    }
}

impl CallRoom {
    pub(in crate::server) fn new(places: Shares, memory: Shares) -> Self {
        Self(Arc::new(RoomShares { places, memory }))
    }

    /// Room for one request, whose messages have so many bytes.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn take(&self, holder: Holder, bytes: u64) -> Result<Permit, NoRoom> {
        let RoomShares { places, memory } = &*self.0;
        let or_share = |excess, whole| match excess {
            Excess::Whole => whole,
            Excess::Share => NoRoom::Share,
        };
        let taken = places.take(holder, 1);
        taken.map_err(|excess| or_share(excess, NoRoom::Requests))?;
        if let Err(excess) = memory.take(holder, bytes) {
            places.give_back(holder, 1);
            return Err(or_share(excess, NoRoom::Memory));
        }
        Ok(Permit::new(Place {
            shares: self.0.clone(),
            holder,
            bytes,
        }))
    }

    /// The memory of messages, by holder.
    pub(in crate::server) fn memory(&self) -> &Shares {
        &self.0.memory
    }

    /// The memory of all messages.
    pub(super) fn charged_bytes(&self) -> u64 {
        self.0.memory.used()
    }
}

impl Place {
    /// Takes or gives back the memory that it differs by.
    fn resize(&mut self, bytes: u64) {
        let memory = &self.shares.memory;
        match bytes.checked_sub(self.bytes) {
            Some(more) => memory.take_anyway(self.holder, more),
            None => memory.give_back(self.holder, self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shares.memory.give_back(self.holder, self.bytes);
        self.shares.places.give_back(self.holder, 1);
    }
}
