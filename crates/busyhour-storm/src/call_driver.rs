//! Moves bytes between the callers, the callees, the watchers of lamps and their sockets.
//! One thread plays all of them, so what happened and what a watcher was told are in
//! order.

use std::time::Duration;

use busyhour::clock::{Clock, Instant};

use super::agents::callee_agent::CalleeAgent;
use super::agents::caller_agent::CallerAgent;
use super::agents::lamps::{Happened, Lamps};
use super::plan::pace::{Phase, Schedule};
use super::results::call_tally::CallTally;
use super::results::live_calls::LiveCalls;
use super::watch_driver::WatchDriver;
use super::wire::batch::{BATCH, Inbox, Outbox};
use super::wire::socket::StormSocket;

/// Both sides of all calls, and the watchers of the called devices.
pub(super) struct CallDriver {
    pub caller: (StormSocket, CallerAgent),
    pub callees: Vec<(StormSocket, CalleeAgent)>,
    pub watch: Option<WatchDriver>,
    pub live: LiveCalls,
    pub clock: Clock,
}

/// When the calls of a phase began and ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// How long calls began.
    pub offering: Duration,
    /// How many calls had been answered, or given up, by then.
    pub done_while_offering: u64,
    /// How long until the last call was over.
    pub all: Duration,
}

impl CallDriver {
    /// Makes the calls of a phase, and waits until they are over and `settle` has passed.
    pub fn run(&mut self, phase: Phase, settle: Duration) -> Took {
        let begin = self.clock.now();
        let mut schedule = Schedule::new(phase, begin);
        let (mut inbox, mut out) = (Inbox::new(), Outbox::default());
        let mut offering: Option<(Duration, u64)> = None;
        let mut over: Option<Instant> = None;
        loop {
            let idle = !self.receive(&mut inbox, &mut out);
            let now = self.clock.now();
            self.begin_due(&mut schedule, now, &mut out);
            self.expire(now, &mut out);
            self.live.note(now, self.caller.1.talking());
            let tally = &self.caller.1.tally;
            let done = tally.answered + tally.given_up;
            if schedule.is_over(now) {
                offering.get_or_insert((now - begin, done));
                if self.caller.1.in_flight() == 0 {
                    over.get_or_insert(now);
                }
            }
            if let Some(over) = over.filter(|over| now >= *over + settle) {
                let (offering, done_while_offering) = offering.unwrap_or_default();
                return Took {
                    offering,
                    done_while_offering,
                    all: over - begin,
                };
            }
            if idle {
                let due = schedule.next_due(now, self.caller.1.in_flight());
                self.wait(now, due.or(over.map(|over| over + settle)));
            }
        }
    }

    /// The counts of all sides; a contact whose call is not over counts as a failure.
    pub fn finish(&mut self) -> CallTally {
        let mut sum = self.caller.1.tally.clone();
        for (_, callee) in &mut self.callees {
            callee.finish();
            sum.merge(&callee.tally);
        }
        sum
    }

    /// Whether anything came.
    fn receive(&mut self, inbox: &mut Inbox, out: &mut Outbox) -> bool {
        let mut is_any = false;
        for (socket, callee) in &mut self.callees {
            let clock = &self.clock;
            let mut now = None;
            let received = socket.receive(inbox, &mut |message| {
                let now = *now.get_or_insert_with(|| clock.now());
                callee.receive(now, message, out);
            });
            is_any |= *received.as_ref().unwrap_or(&0) > 0;
            callee.tally.socket_errors += u64::from(received.is_err());
            callee.tally.socket_errors += sent(socket, out);
            let now = now.unwrap_or_else(|| clock.now());
            show(&mut self.watch, now, &mut callee.happened);
        }
        let (socket, caller) = &mut self.caller;
        let clock = &self.clock;
        let mut now = None;
        let received = socket.receive(inbox, &mut |message| {
            let now = *now.get_or_insert_with(|| clock.now());
            caller.receive(now, message, out);
        });
        is_any |= *received.as_ref().unwrap_or(&0) > 0;
        caller.tally.socket_errors += u64::from(received.is_err());
        caller.tally.socket_errors += sent(socket, out);
        let now = now.unwrap_or_else(|| clock.now());
        show(&mut self.watch, now, &mut caller.happened);
        if let Some(watch) = &mut self.watch {
            is_any |= watch.poll(self.clock.now(), inbox) > 0;
        }
        is_any
    }

    fn begin_due(&mut self, schedule: &mut Schedule, now: Instant, out: &mut Outbox) {
        let (socket, caller) = &mut self.caller;
        for _ in 0..BATCH {
            let Some((device, due)) = schedule.next(now, caller.in_flight()) else {
                break;
            };
            let mut lamps = lamps(&mut self.watch);
            let is_dark = lamps.as_ref().is_none_or(|lamps| lamps.is_dark(device));
            if caller.is_engaged(device) || !is_dark {
                caller.tally.skipped += 1;
                continue;
            }
            if let Some(lamps) = &mut lamps {
                lamps.begin(device, caller.next_call());
            }
            caller.call(now, due, device, out);
        }
        caller.tally.socket_errors += sent(socket, out);
    }

    fn expire(&mut self, now: Instant, out: &mut Outbox) {
        let (socket, caller) = &mut self.caller;
        caller.expire(now, out);
        caller.tally.socket_errors += sent(socket, out);
        show(&mut self.watch, now, &mut caller.happened);
        for (socket, callee) in &mut self.callees {
            callee.expire(now, out);
            callee.tally.socket_errors += sent(socket, out);
            show(&mut self.watch, now, &mut callee.happened);
        }
    }

    /// Sleeps until a message comes or something is due.
    fn wait(&self, now: Instant, due: Option<Instant>) {
        let callees = self.callees.iter();
        let deadlines = callees.map(|(_, callee)| callee.next_deadline());
        let watch = self.watch.as_ref();
        let watched = watch.and_then(|watch| watch.agent.next_deadline());
        let all = deadlines.chain([self.caller.1.next_deadline(), due, watched]);
        let next = all.flatten().min();
        let timeout = next.map_or(LONGEST_WAIT, |next| (next - now).min(LONGEST_WAIT));
        let sockets = self.callees.iter().map(|(socket, _)| socket);
        let sockets = sockets.chain([&self.caller.0]);
        let sockets = sockets.chain(watch.map(WatchDriver::socket));
        StormSocket::wait_for_any(sockets, timeout);
    }
}

/// Tells the lamps what happened.
fn show(watch: &mut Option<WatchDriver>, now: Instant, happened: &mut Vec<Happened>) {
    let Some(lamps) = lamps(watch) else {
        return happened.clear();
    };
    for one in happened.drain(..) {
        lamps.happened(now, one);
    }
}

fn lamps(watch: &mut Option<WatchDriver>) -> Option<&mut Lamps> {
    watch.as_mut()?.agent.lamps.as_mut()
}

/// Sends what there is; returns the number of lost messages.
fn sent(socket: &mut StormSocket, out: &mut Outbox) -> u64 {
    match out.is_empty() {
        true => 0,
        false => socket.send(out),
    }
}

const LONGEST_WAIT: Duration = Duration::from_millis(20);
