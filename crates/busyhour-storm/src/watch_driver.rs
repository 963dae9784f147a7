//! Moves bytes between the watchers and their socket.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use busyhour::clock::{Clock, Instant};

use super::agents::pending::Timing;
use super::agents::watch_agent::WatchAgent;
use super::plan::args::Transport;
use super::plan::users::StormUsers;
use super::wire::batch::{Inbox, Outbox};
use super::wire::socket::StormSocket;

/// The watching agent and its socket.
pub(super) struct WatchDriver {
    socket: StormSocket,
    pub agent: WatchAgent,
    clock: Clock,
    outbox: Outbox,
}

impl WatchDriver {
    /// # Errors
    /// When no socket can be had or the target can't be reached from here.
    pub fn new(
        target: SocketAddr,
        clock: Clock,
        users: StormUsers,
        devices: u32,
        timing: Timing,
    ) -> io::Result<Self> {
        let socket = StormSocket::new(target, Transport::Udp)?;
        let agent = WatchAgent::new(users, devices, socket.local_addr()?, timing);
        Ok(Self::with(socket, agent, clock))
    }

    /// As [`WatchDriver::new`], for watchers of lamps.
    ///
    /// # Errors
    /// When no socket can be had or the target can't be reached from here.
    pub fn of_lamps(
        target: SocketAddr,
        clock: Clock,
        users: StormUsers,
        devices: u32,
        timing: Timing,
    ) -> io::Result<Self> {
        let socket = StormSocket::new(target, Transport::Udp)?;
        let agent = WatchAgent::of_lamps(users, devices, socket.local_addr()?, timing);
        Ok(Self::with(socket, agent, clock))
    }

    fn with(socket: StormSocket, agent: WatchAgent, clock: Clock) -> Self {
        Self {
            socket,
            agent,
            clock,
            outbox: Outbox::default(),
        }
    }

    /// Takes what has come, without waiting. Returns the number of messages.
    pub fn poll(&mut self, now: Instant, inbox: &mut Inbox) -> usize {
        self.agent.expire(now, &mut self.outbox);
        let received = self.take(now, inbox);
        self.send();
        received
    }

    pub fn socket(&self) -> &StormSocket {
        &self.socket
    }

    /// Lets `count` watchers subscribe, and waits until each has received a
    /// NOTIFY or failed. The wait is limited, for a server that sends no
    /// NOTIFY.
    pub fn subscribe(&mut self, count: u32) {
        self.ask(count, |agent, now, _, out| agent.subscribe(now, out));
        if self.agent.watches_list() {
            self.settle();
        }
    }

    /// The full state of a list may come in many NOTIFYs, and a change is told after it.
    fn settle(&mut self) {
        let (begin, mut inbox) = (self.clock.now(), Inbox::new());
        loop {
            let now = self.clock.now();
            let quiet_since = self.agent.tally.last_at;
            if now >= quiet_since + SETTLED || now >= begin + PATIENCE {
                return;
            }
            self.step(now, &mut inbox);
        }
    }

    /// Lets each watcher whose state is correct ask whether the server still
    /// has its subscription, and waits as [`WatchDriver::subscribe`] does.
    pub fn ask_again(&mut self, truth: impl Fn(u32) -> Option<bool>) {
        self.ask(self.agent.len(), |agent, now, index, out| {
            agent.ask_again(now, index, &truth, out);
        });
        if self.agent.watches_list() {
            self.settle();
        }
    }

    /// Calls `one` for `count` watchers, a limited number at a time.
    fn ask(&mut self, count: u32, one: impl Fn(&mut WatchAgent, Instant, u32, &mut Outbox)) {
        let mut inbox = Inbox::new();
        let (mut asked, mut heard_at) = (0, self.clock.now());
        while asked < count || self.agent.in_flight() > 0 {
            let now = self.clock.now();
            heard_at = heard_at.max(self.agent.tally.last_at);
            if now >= heard_at + PATIENCE {
                return;
            }
            while asked < count && self.agent.in_flight() < SLOTS {
                one(&mut self.agent, now, asked, &mut self.outbox);
                asked += 1;
            }
            self.step(now, &mut inbox);
        }
    }

    /// Answers NOTIFYs until `stop` is set and none has come for a while.
    pub fn listen(&mut self, stop: &AtomicBool) {
        let mut inbox = Inbox::new();
        let mut stopped_at: Option<Instant> = None;
        loop {
            let now = self.clock.now();
            self.step(now, &mut inbox);
            if !stop.load(Ordering::Relaxed) {
                continue;
            }
            let stopped_at = *stopped_at.get_or_insert(now);
            let quiet_since = self.agent.tally.last_at.max(stopped_at);
            if now >= quiet_since + QUIET || now >= stopped_at + PATIENCE {
                return;
            }
        }
    }

    fn step(&mut self, now: Instant, inbox: &mut Inbox) {
        self.agent.expire(now, &mut self.outbox);
        self.send();
        match self.take(now, inbox) {
            0 => self.wait(now),
            _ => self.send(),
        }
    }

    fn take(&mut self, now: Instant, inbox: &mut Inbox) -> usize {
        let (agent, outbox) = (&mut self.agent, &mut self.outbox);
        let mut take = |datagram: &[u8]| agent.receive(now, datagram, outbox);
        let received = self.socket.receive(inbox, &mut take);
        received.unwrap_or_else(|_| {
            self.agent.tally.socket_errors += 1;
            0
        })
    }

    fn send(&mut self) {
        if !self.outbox.is_empty() {
            self.agent.tally.socket_errors += self.socket.send(&mut self.outbox);
        }
    }

    /// Sleeps until a datagram comes or something is due.
    fn wait(&self, now: Instant) {
        let next = self.agent.next_deadline();
        let timeout = next.map_or(LONGEST_WAIT, |next| (next - now).min(LONGEST_WAIT));
        self.socket.wait(timeout);
    }
}

/// If no NOTIFY of a list has come for this time, its full state has come.
const SETTLED: Duration = Duration::from_secs(1);
/// Subscriptions in progress at a time.
const SLOTS: usize = 64;
/// If no NOTIFY has come for this time, all have come: lost ones are
/// retransmitted within four seconds.
const QUIET: Duration = Duration::from_secs(5);
/// A lost request is retransmitted for 32 s (timer F of RFC 3261).
const PATIENCE: Duration = Duration::from_secs(40);
const LONGEST_WAIT: Duration = Duration::from_millis(20);
