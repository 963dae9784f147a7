//! Who says live states.

use crate::Member;

/// A process that says live states.
///
/// The database counts the lives of a node, and gives a number twice if it has lost its last commits, as
/// after a failover to an asynchronous standby. So each process adds a random number of its own. Of two
/// with one member, others take over what the one says that they have heard last.
///
/// ```
/// use busyhour_cluster::{Member, NodeNumber, Incarnation};
///
/// let member = Member { node: NodeNumber(1), epoch: 7 };
/// assert_ne!(Incarnation::new(member, 4), Incarnation::new(member, 8));
/// assert!(Incarnation::new(member, 0).is_known() && !Incarnation::unknown(member).is_known());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation {
    /// Which life of which node, as the database counts.
    pub member: Member,
    /// Below 2^63; 0 while nobody has heard it.
    pub(super) number: u64,
}

impl Incarnation {
    /// A process with a random number.
    pub fn new(member: Member, random: u64) -> Self {
        let number = (random >> 1).max(1);
        Self { member, number }
    }

    /// Whichever process is this member.
    pub fn unknown(member: Member) -> Self {
        Self { member, number: 0 }
    }

    /// Whether its number has been heard.
    pub fn is_known(self) -> bool {
        self.number > 0
    }

    /// Whether a question to `asked` is one to this process.
    pub(super) fn is_meant_by(self, asked: Self) -> bool {
        self == asked || asked == Self::unknown(self.member)
    }

    /// Whether another process, of the same life or a later one, has spoken instead of this one.
    pub(super) fn gives_way_to(self, other: Self) -> bool {
        let are_known = self.is_known() && other.is_known();
        self.member.epoch < other.member.epoch
            || self.member == other.member && are_known && self.number != other.number
    }
}
