//! What goes over the simulated network and broker.

use crate::database::Group;
use busyhour_cluster::{Action, Counted, Failure, Grant, InUse, Member, Reply};
use busyhour_store::StoredBinding;

/// A request of a telephone, and the node to which it came.
#[derive(Clone, Copy)]
pub struct Asked {
    pub device: usize,
    pub cseq: u32,
    pub came_to: usize,
}

/// From node to node.
#[derive(Clone)]
pub enum Letter {
    Live(Vec<u8>),
    /// A question from this node.
    Ask(usize, Vec<u8>),
    Announce,
    Handle(Asked),
    Answer(Asked),
}

/// To the database.
#[derive(Clone)]
pub enum Query {
    /// Of the machine with this number.
    Join(usize),
    Own(Member, Action),
    Load(Grant),
    Commit(Group),
}

/// Its answer.
#[derive(Clone)]
pub enum Answer {
    Joined(Result<Member, InUse>),
    Owned(Reply),
    Loaded(Grant, Vec<StoredBinding>),
    Committed(Counted),
    /// There is none: of whichever kind it was.
    Away(Query),
}

/// What a node is told when an action has no answer.
pub fn away(action: &Action) -> Option<Reply> {
    let failure = Failure::Away;
    Some(match action {
        Action::Beat => Reply::Beaten(Err(failure)),
        Action::Fence(_) => Reply::Ended(Err(failure)),
        Action::Take(_) => Reply::Taken(Err(failure)),
        Action::Give(grant, to) => Reply::Given(*grant, *to, Err(failure)),
        Action::Drain => Reply::Drained(Err(failure)),
        _ => return None,
    })
}
