//! Runs a storm of calls, from its arguments to its report.

use std::io;
use std::time::Duration;

use busyhour::clock::Clock;

use super::agents::callee_agent::CalleeAgent;
use super::agents::caller_agent::CallerAgent;
use super::agents::lamps::Lamps;
use super::agents::pending::Timing;
use super::agents::sip_agent::SipAgent;
use super::call_driver::{CallDriver, Took};
use super::driver::Driver;
use super::plan::args::{Storm, Transport};
use super::plan::call_plan::CallPlan;
use super::plan::pace::{Pace, Phase};
use super::plan::users::StormUsers;
use super::results::call_report::{CallReport, CallSetting, LampUse, micros};
use super::results::live_calls::LiveCalls;
use super::results::process::Process;
use super::results::progress::Counters;
use super::results::tally::Tally;
use super::watch_driver::WatchDriver;
use super::wire::socket::StormSocket;

/// A storm of calls, before it begins.
pub(super) struct CallStorm<'a> {
    pub args: &'a Storm,
    pub users: StormUsers,
    pub timing: Timing,
    pub pace: Pace,
}

/// Why a storm of calls did not begin.
pub(super) enum NotBegun {
    /// The server cannot be reached.
    Unreachable(io::Error),
    /// Devices could not register.
    NotRegistered(Box<Tally>),
    /// So many watchers could not subscribe.
    NotSubscribed(u64),
}

impl From<io::Error> for NotBegun {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl CallStorm<'_> {
    /// Registers the devices, subscribes to their lamps, makes the calls and measures
    /// them.
    ///
    /// # Errors
    /// When the storm could not begin.
    pub fn run(&self) -> Result<CallReport, NotBegun> {
        let mut driver = self.driver()?;
        if let Some(watch) = &mut driver.watch {
            watch.subscribe(self.args.watchers);
            let failed = watch.agent.tally.failed;
            if failed > 0 {
                return Err(NotBegun::NotSubscribed(failed));
            }
        }
        let process = self.args.pid.map(Process::new);
        driver.live = LiveCalls::new(process);
        let cpu_s = || Some(process?.usage()?.cpu.as_secs_f64());
        let before = cpu_s();
        let took = driver.run(self.phase(), self.args.settle);
        let used = before.zip(cpu_s()).map(|(before, after)| after - before);
        let mut report = CallReport::new(self.setting(took), &driver.finish());
        if let Some(used) = used {
            report.used(used);
        }
        report.live = driver.live.finish();
        report.lamps = driver.watch.as_mut().map(lamp_use);
        Ok(report)
    }

    fn driver(&self) -> Result<CallDriver, NotBegun> {
        let clock = Clock::machine();
        let plan = CallPlan {
            run: self.users.run,
            forks: self.args.forks,
            ring: self.args.ring,
            talk: self.args.talk,
            given_up_percent: self.args.give_up,
        };
        let target = self.args.target();
        let callees = (0..plan.forks).map(|fork| self.callee(plan, fork, &clock));
        let callees = callees.collect::<Result<_, _>>()?;
        let socket = StormSocket::new(target, self.args.transport)?;
        let (users, devices) = (self.users.clone(), self.args.devices);
        let local = socket.local_addr()?;
        let caller = CallerAgent::new(users, plan, devices, local, self.timing);
        let watch = match self.args.watchers {
            0 => None,
            _ => Some(self.watch(&clock)?),
        };
        Ok(CallDriver {
            caller: (socket, caller),
            callees,
            watch,
            live: LiveCalls::new(None),
            clock,
        })
    }

    /// Registers one contact of each device, and plays it from then on.
    fn callee(
        &self,
        plan: CallPlan,
        fork: u32,
        clock: &Clock,
    ) -> Result<(StormSocket, CalleeAgent), NotBegun> {
        let users = StormUsers {
            run: self.users.run.wrapping_add(1 + fork),
            ..self.users.clone()
        };
        let mut local = None;
        let (target, transport) = (self.args.target(), self.args.transport);
        let mut driver = Driver::new(target, transport, clock.clone(), |address| {
            local = Some(address);
            Box::new(SipAgent::new(users.clone(), address, self.timing, None))
        })?;
        let devices = self.args.devices;
        let once = Phase {
            pace: Pace::Closed {
                slots: REGISTERING_SLOTS,
            },
            after: Duration::ZERO,
            count: devices.into(),
            duration: Duration::MAX,
            first: 0,
            devices,
        };
        let (tally, _) = driver.run(once, &Counters::default())?;
        if tally.acknowledged < tally.sent {
            return Err(NotBegun::NotRegistered(Box::new(tally)));
        }
        let socket = driver.into_socket();
        let local = local.map_or_else(|| socket.local_addr(), Ok)?;
        let callee = CalleeAgent::new(users, plan, fork, local, self.timing);
        Ok((socket, callee))
    }

    fn watch(&self, clock: &Clock) -> Result<WatchDriver, NotBegun> {
        let users = StormUsers {
            transport: Transport::Udp,
            run: self.users.run.wrapping_add(1 + self.args.forks),
            ..self.users.clone()
        };
        let (target, devices) = (self.args.watch_target(), self.args.devices);
        let mut watch = WatchDriver::of_lamps(target, clock.clone(), users, devices, self.timing)?;
        if let Some(list) = &self.args.watch_list {
            watch.agent.watch_list(list);
        }
        Ok(watch)
    }

    /// The devices are called in turn: at a rate for a time, or as fast as calls end.
    fn phase(&self) -> Phase {
        let over = self.args.over;
        let (count, duration) = match self.pace {
            Pace::Open { per_second } => {
                let count = (per_second * over.as_secs_f64()).round();
                (count as u64, Duration::MAX)
            }
            Pace::Closed { .. } => (u64::MAX, over),
        };
        Phase {
            pace: self.pace,
            after: Duration::ZERO,
            count,
            duration,
            first: 0,
            devices: self.args.devices,
        }
    }

    fn setting(&self, took: Took) -> CallSetting {
        let (offered, closed) = match self.pace {
            Pace::Open { per_second } => (Some(per_second), None),
            Pace::Closed { slots } => (None, u32::try_from(slots).ok()),
        };
        CallSetting {
            auth: self.args.auth.is_some(),
            forks: self.args.forks,
            offered,
            closed,
            seconds: took.all.as_secs_f64(),
            offering_s: took.offering.as_secs_f64(),
            done_while_offering: took.done_while_offering,
        }
    }
}

/// Asks for each lamp once more, so that a lost subscription or a state that was never
/// told shows.
fn lamp_use(watch: &mut WatchDriver) -> LampUse {
    // What is told because it is asked for has no time.
    let lamps = watch.agent.lamps.as_ref();
    let told_ns = lamps.map(|lamps| lamps.tally.told_ns.clone());
    let quantile = |quantile| micros(told_ns.as_ref()?, quantile);
    watch.ask_again(|_| None);
    let agent = &watch.agent;
    let lamps = agent.lamps.as_ref();
    let tally = lamps.map(|lamps| &lamps.tally);
    LampUse {
        lamps: lamps.map_or(0, Lamps::len),
        lamps_told: tally.map_or(0, |tally| tally.told),
        lamps_repeated: tally.map_or(0, |tally| tally.repeated),
        lamps_skipped: lamps.map_or(0, Lamps::skipped),
        lamps_stale: tally.map_or(0, |tally| tally.stale),
        lamps_wrong: lamps.map_or(0, |lamps| lamps.wrong()) + agent.tally.ended,
        notify_p50_us: quantile(0.5),
        notify_p99_us: quantile(0.99),
    }
}

/// Registrations in progress at a time before the calls.
const REGISTERING_SLOTS: usize = 64;
