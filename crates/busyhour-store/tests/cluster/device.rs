//! A telephone: it registers with rising CSeqs, sends a request again that is not answered, and asks
//! any node.

use crate::letter::{Asked, flow_of};
use busyhour_cluster::Partition;
use busyhour_sip::Transport;
use std::time::Duration;

pub struct Device {
    pub aor: Box<str>,
    /// The request that waits for its answer, and how often it was sent.
    pub waiting: Option<(u32, u32)>,
    pub cseq: u32,
    /// The newest that was answered with 200.
    pub acknowledged: u32,
    pub acknowledgements: u64,
    /// The node to which its last request went, and when.
    pub asked: usize,
    pub asked_at: Duration,
    /// Of one that registers over connections.
    pub connection: Option<Connection>,
    connection_count: u32,
    /// The connection over which it was answered last.
    registered_over: u32,
    /// It has gone, and does not come back.
    pub is_away: bool,
}

/// A connection of a telephone.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    pub node: usize,
    /// The process of the node that has it.
    pub process: u64,
    pub number: u32,
}

impl Device {
    /// So many, all in the first partitions.
    pub fn some(count: usize, partitions: usize) -> Vec<Self> {
        let names = (0..).map(|number| format!("sip:u{number}@example.com"));
        let aors = names.filter(|aor| Partition::of(aor).index() < partitions);
        aors.take(count)
            .map(|aor| Self {
                aor: aor.into(),
                waiting: None,
                cseq: 0,
                acknowledged: 0,
                acknowledgements: 0,
                asked: 0,
                asked_at: Duration::ZERO,
                connection: None,
                connection_count: 0,
                registered_over: 0,
                is_away: false,
            })
            .collect()
    }

    /// The next request, or the last one again.
    pub fn next(&mut self) -> u32 {
        match &mut self.waiting {
            Some((cseq, sent)) if *sent < SENT_MAX => {
                *sent += 1;
                *cseq
            }
            _ => {
                self.cseq += 1;
                self.waiting = Some((self.cseq, 1));
                self.cseq
            }
        }
    }

    /// It has another connection, over which it registers anew.
    pub fn connect(&mut self, node: usize, process: u64) {
        self.connection_count += 1;
        self.connection = Some(Connection {
            node,
            process,
            number: self.connection_count,
        });
        self.waiting = None;
    }

    /// Whether it was answered over the connection that it has.
    pub fn is_registered_now(&self) -> bool {
        let connection = self.connection.map(|connection| connection.number);
        connection == Some(self.registered_over) && self.waiting.is_none()
    }

    pub fn answered(&mut self, asked: Asked) {
        let cseq = asked.cseq;
        self.acknowledgements += 1;
        self.registered_over = asked.connection.map_or(0, |(_, number)| number);
        self.acknowledged = self.acknowledged.max(cseq);
        if self.waiting.is_some_and(|(waiting, _)| waiting <= cseq) {
            self.waiting = None;
        }
    }
}

/// What the telephone with this number sends.
pub fn register(aor: &str, number: usize, cseq: u32) -> String {
    let address = flow_of(number, 0, (Transport::Udp, 0)).remote;
    let user = aor
        .trim_start_matches("sip:")
        .trim_end_matches("@example.com");
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {address};branch=z9hG4bK{user}x{cseq};rport\r\n\
         From: <{aor}>;tag=a\r\nTo: <{aor}>\r\nCall-ID: {user}@192.0.2.7\r\n\
         CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@{address}>;expires=3600\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// Then the telephone begins anew.
const SENT_MAX: u32 = 5;
