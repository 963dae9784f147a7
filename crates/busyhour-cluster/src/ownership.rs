//! Where leases and owners are kept.

use crate::{Failure, Grant, Member, NodeNumber, Partition, View};

/// The database, as a member of the cluster asks it. Each method is one transaction, and may
/// block for as long as the database takes; the README has what each one does.
///
/// The errors are the same everywhere: [`Failure::LifeOver`] when the life of the member that
/// asks is over, [`Failure::Away`] when there is no answer, and then it is unknown whether it was
/// done.
pub trait Ownership: Send {
    /// Whether a method may block. Without that a node has no threads of its own, and tasks of the runtime ask instead: only for a
    /// simulated runtime, whose store answers at once as well.
    fn blocks(&self) -> bool {
        true
    }

    /// Renews a member's lease and reads everything.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn beat(&mut self, member: Member) -> Result<View, Failure>;

    /// Ends the life of another member whose lease is not current; `false` if that may not be
    /// done now.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn fence(&mut self, by: Member, other: Member) -> Result<bool, Failure>;

    /// Makes a member the owner of orphans with the epochs that it has seen; returns what it was
    /// granted.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn take(&mut self, by: Member, seen: &[Grant]) -> Result<Vec<Grant>, Failure>;

    /// Makes another living member the owner of what is granted to `by`; returns those of the grants
    /// with which that was done.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn give(&mut self, by: Member, grants: &[Grant], to: Member) -> Result<Vec<Grant>, Failure>;

    /// Marks a member as draining, so that nothing is assigned to it.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn drain(&mut self, member: Member) -> Result<(), Failure>;

    /// Lets a member be assigned partitions again.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn undrain(&mut self, member: Member) -> Result<(), Failure>;

    /// Lets a partition be assigned to a node from now on while that lives; `None` lets it be
    /// assigned as the others are.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn pin(
        &mut self,
        by: Member,
        partition: Partition,
        to: Option<NodeNumber>,
    ) -> Result<(), Failure>;

    /// Ends a member's own life.
    ///
    /// # Errors
    ///
    /// See [`Ownership`].
    fn leave(&mut self, member: Member) -> Result<(), Failure>;
}
