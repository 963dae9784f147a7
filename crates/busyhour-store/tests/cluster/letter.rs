//! What goes over the simulated network and broker.

use crate::database::Group;
use busyhour_cluster::{Action, Counted, Failure, Grant, InUse, Member, Reply};
use busyhour_registrar::EndedBinding;
use busyhour_sip::{Flow, Transport};
use busyhour_store::{SoftState, StoredBinding};
use std::net::SocketAddr;

/// A request of a telephone, and the node to which it came.
#[derive(Clone, Copy)]
pub struct Asked {
    pub device: usize,
    pub cseq: u32,
    pub came_to: usize,
    /// The process that has its connection, and the number of that; datagrams have none.
    pub connection: Option<(u64, u32)>,
}

impl Asked {
    pub fn flow(&self) -> Flow {
        let way = match self.connection {
            Some((_, number)) => (Transport::Tcp, number),
            None => (Transport::Udp, 0),
        };
        flow_of(self.device, self.came_to, way)
    }
}

/// The end of a dialog, as a telephone sends it: to any node.
#[derive(Clone)]
pub struct Bye {
    pub aor: Box<str>,
    pub id: u64,
    /// Who carries the dialog.
    pub carrier: usize,
    pub came_to: usize,
}

impl Bye {
    pub fn to_text(&self) -> Vec<u8> {
        let (id, carrier, came_to) = (self.id, self.carrier, self.came_to);
        format!("{id} {carrier} {came_to} {}", self.aor).into_bytes()
    }

    pub fn of_text(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).expect("as it was written");
        let mut words = text.split(' ');
        let mut number = || words.next().and_then(|it| it.parse().ok()).expect("one");
        Self {
            id: number(),
            carrier: number() as usize,
            came_to: number() as usize,
            aor: words.next().expect("one").into(),
        }
    }
}

/// From node to node.
#[derive(Clone)]
pub enum Letter {
    Live(Vec<u8>),
    /// A question from this node.
    Ask(usize, Vec<u8>),
    Announce,
    /// A node serves this partition.
    Served(Grant),
    Handle(Asked),
    Answer(Asked),
    Bye(Bye),
    ByeAnswer(Bye),
    /// It went on from this life of a node, and this is the number of the notice.
    Ended(Member, u64, Bye),
    Known(Member, u64),
    /// A connection of this node has ended, and how many ends it has told; without a connection, only that.
    ConnectionEnded(usize, Flow, u64),
    /// Asks for this node whether these connections stand.
    DoTheyStand(usize, Vec<Flow>),
    /// Those of this node that were asked for, and those of them that have ended.
    TheyHaveEnded(usize, Vec<Flow>, Vec<Flow>),
    /// A SIP message from this node, and the flow that it is about; without one, the client of the flow is there.
    Sip(SipVerb, usize, Flow, String),
}

/// What the other node is to do with it.
#[derive(Debug, Clone, Copy)]
pub enum SipVerb {
    /// Handle the request.
    Handle,
    /// Take in the response to what was sent over our flow.
    Response,
    /// Send it over its flow.
    Send,
}

/// Between a client and a node.
pub fn flow_of(client: usize, node: usize, (transport, connection): (Transport, u32)) -> Flow {
    let address = |last: usize, port| SocketAddr::from(([192, 0, 2, last as u8], port));
    Flow {
        transport,
        connection,
        node: node as u16 + 1,
        ..Flow::udp(
            address(node + 1, 5060),
            address(100, 10_000 + client as u16),
        )
    }
}

/// The client at the other end of a flow.
pub fn client_of(flow: Flow) -> usize {
    usize::from(flow.remote.port() - 10_000)
}

impl Letter {
    /// Whether it goes from node to node without the broker.
    pub fn is_direct(&self) -> bool {
        match self {
            Self::Handle(asked) | Self::Answer(asked) => asked.connection.is_none(),
            Self::Bye(_) | Self::ByeAnswer(_) => true,
            Self::Sip(_, _, flow, _) => !flow.transport.is_reliable(),
            _ => false,
        }
    }
}

/// To the database.
#[derive(Clone)]
pub enum Query {
    /// Of the machine with this number.
    Join(usize),
    Own(Member, Action),
    Load(Grant),
    Commit(Group),
    /// A subscription is over, and its row goes if the life of who says so lasts.
    Purge(Member, EndedBinding),
}

/// Its answer.
#[derive(Clone)]
pub enum Answer {
    Joined(Result<Member, InUse>),
    Owned(Reply),
    Loaded(Grant, Vec<StoredBinding>, Vec<SoftState>),
    Purged,
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
        Action::Give(grants, to) => Reply::Given(grants.clone(), *to, Err(failure)),
        Action::Drain => Reply::Drained(Err(failure)),
        Action::Undrain => Reply::Undrained(Err(failure)),
        _ => return None,
    })
}
