//! What a node asks for, and what it is told.

use crate::{Failure, Grant, Member, View};

/// What the program must do for a node. Requests to the database are done in their order, one
/// after the other; each is answered by [`Node::on_reply`](crate::Node::on_reply).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Renew the lease and read the view; answered by [`Reply::Beaten`].
    Beat,
    /// End the life of a member; answered by [`Reply::Ended`].
    Fence(Member),
    /// Take orphans; answered by [`Reply::Taken`].
    Take(Vec<Grant>),
    /// Give partitions to a member, in one transaction; answered by [`Reply::Given`].
    Give(Vec<Grant>, Member),
    /// Mark this node as draining; answered by [`Reply::Drained`].
    Drain,
    /// Have this node assigned its part of the partitions; answered by [`Reply::Undrained`].
    Undrain,
    /// End this life; there is no answer, and the node is over.
    Leave,
    /// Read what is committed to a partition; then call
    /// [`Node::on_loaded`](crate::Node::on_loaded).
    Load(Grant),
    /// Call [`Node::on_settled`](crate::Node::on_settled) with those of these partitions of which no
    /// change is on its way any more: with all of them at once that are so at one moment, since they
    /// are given together. New requests for them are not decided meanwhile.
    Close(Vec<Grant>),
    /// Forget what was loaded of a partition: another node may have it.
    Unload(Grant),
    /// Tell the other nodes that a beat would show them something new. It may be lost.
    Announce,
    /// Tell the other nodes that this one serves a partition that it was granted, for their
    /// [`Node::on_served`](crate::Node::on_served). It may be lost.
    SayServed(Grant),
    /// End the program: this life is over, and what it remembers may be old.
    End,
}

/// What the database said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    /// To [`Action::Beat`].
    Beaten(Result<View, Failure>),
    /// To [`Action::Fence`]: whether it was done.
    Ended(Result<bool, Failure>),
    /// To [`Action::Take`]: what was granted.
    Taken(Result<Vec<Grant>, Failure>),
    /// To [`Action::Give`], with what was asked: which of them were given, as they were asked for.
    Given(Vec<Grant>, Member, Result<Vec<Grant>, Failure>),
    /// To [`Action::Drain`].
    Drained(Result<(), Failure>),
    /// To [`Action::Undrain`].
    Undrained(Result<(), Failure>),
}

/// Who answers for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// This node does; changes are committed with the grant.
    Here(Grant),
    /// Another node does.
    At(Member),
    /// Nobody does at the moment: ask again in a moment, or refuse with Retry-After.
    Wait,
}
