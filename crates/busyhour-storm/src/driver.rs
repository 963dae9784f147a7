//! Moves bytes between one agent and one socket until a phase is over.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use busyhour::clock::{Clock, Instant};

use super::agents::registering_agent::RegisteringAgent;
use super::plan::args::Transport;
use super::plan::pace::{Phase, Schedule};
use super::results::progress::Counters;
use super::results::tally::Tally;
use super::wire::batch::{BATCH, Inbox, Outbox};
use super::wire::socket::StormSocket;

/// The agent and the socket of one thread.
pub(super) struct Driver {
    socket: StormSocket,
    agent: Box<dyn RegisteringAgent>,
    clock: Clock,
    outbox: Outbox,
}

impl Driver {
    /// `agent` makes the agent for the local address of the new socket.
    ///
    /// # Errors
    /// When no socket can be had or the target can't be reached from here.
    pub fn new(
        target: SocketAddr,
        transport: Transport,
        clock: Clock,
        agent: impl FnOnce(SocketAddr) -> Box<dyn RegisteringAgent>,
    ) -> io::Result<Self> {
        let socket = StormSocket::new(target, transport)?;
        let agent = agent(socket.local_addr()?);
        Ok(Self {
            socket,
            agent,
            clock,
            outbox: Outbox::default(),
        })
    }

    /// Runs one phase to its end: all registrations begun and ended. Gives the
    /// counts and the time of the end.
    ///
    /// # Errors
    /// When the journal can't be written.
    pub fn run(&mut self, phase: Phase, counters: &Counters) -> io::Result<(Tally, Instant)> {
        self.socket.make_ready();
        let begin = self.clock.now();
        let mut schedule = Schedule::new(phase, begin);
        let mut inbox = Inbox::new();
        loop {
            // Reads all answers that have arrived before anything counts as
            // late. If the storm itself is too slow, the offered rate must
            // show it.
            let idle = self.receive_all(&mut inbox) == 0;
            let now = self.clock.now();
            self.begin_due(&mut schedule, now);
            self.agent.expire(now, &mut self.outbox);
            self.send();
            self.agent.flush_journal()?;
            counters.show(self.agent.tally());
            if schedule.is_over(now) {
                self.agent.tally().end_offering(now - begin);
                if self.agent.in_flight() == 0 {
                    return Ok((self.agent.take_tally(), self.clock.now()));
                }
            }
            if idle {
                self.wait(&schedule);
            }
        }
    }

    /// Whether the last registration of a device was acknowledged, if that is
    /// known.
    pub fn is_registered(&self, index: u32) -> Option<bool> {
        self.agent.is_registered(index)
    }

    /// The socket, to go on with it when the devices have registered.
    pub fn into_socket(self) -> StormSocket {
        self.socket
    }

    fn begin_due(&mut self, schedule: &mut Schedule, now: Instant) {
        for _ in 0..BATCH {
            let Some((index, due)) = schedule.next(now, self.agent.in_flight()) else {
                return;
            };
            self.agent.register(now, due, index, &mut self.outbox);
        }
    }

    fn send(&mut self) {
        if !self.outbox.is_empty() {
            self.agent.tally().socket_errors += self.socket.send(&mut self.outbox);
        }
    }

    fn receive_all(&mut self, inbox: &mut Inbox) -> usize {
        let mut sum = 0;
        for _ in 0..BATCHES {
            let received = self.receive(inbox);
            sum += received;
            if received < BATCH {
                break;
            }
        }
        sum
    }

    /// A refused port usually means that the server was killed. Answers may
    /// still come after a restart, so the error is only counted.
    fn receive(&mut self, inbox: &mut Inbox) -> usize {
        let Self {
            socket,
            agent,
            clock,
            outbox,
        } = self;
        let mut now = None;
        let received = socket.receive(inbox, &mut |message| {
            let now = *now.get_or_insert_with(|| clock.now());
            agent.receive(now, message, outbox);
        });
        if received.is_err() {
            self.agent.tally().socket_errors += 1;
        }
        self.send();
        received.unwrap_or(0)
    }

    /// Sleeps until a datagram comes or something is due.
    fn wait(&self, schedule: &Schedule) {
        let now = self.clock.now();
        let due = schedule.next_due(now, self.agent.in_flight());
        let next = [due, self.agent.next_deadline()]
            .into_iter()
            .flatten()
            .min();
        let timeout = next.map_or(LONGEST_WAIT, |next| (next - now).min(LONGEST_WAIT));
        self.socket.wait(timeout);
    }
}

/// The most batches that are received for each batch that is sent.
const BATCHES: usize = 16;
/// The longest sleep; the counts for the progress bar are updated after it.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
