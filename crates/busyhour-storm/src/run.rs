//! Runs a storm, from its arguments to its report.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use busyhour::clock::{Clock, Instant};
use serde::Serialize;

use super::Pattern;

use super::agents::iax2_agent::Iax2Agent;
use super::agents::pending::Timing;
use super::agents::registering_agent::RegisteringAgent;
use super::agents::sip_agent::SipAgent;
use super::call_run::{CallStorm, NotBegun};
use super::driver::Driver;
use super::plan::args::{Kind, Protocol, Storm, Transport};
use super::plan::pace::{Pace, Phase};
use super::plan::pattern::PatternError;
use super::plan::users::StormUsers;
use super::results::call_report::CallReport;
use super::results::journal::Journal;
use super::results::peak::PeakMeter;
use super::results::process::{Process, Usage};
use super::results::progress::{Counters, Progress};
use super::results::report::{Report, ServerUse, Setting, WatchUse, ramp_table};
use super::results::tally::Tally;
use super::timer_slack::TimerSlack;
use super::watch_driver::WatchDriver;

/// Why a storm ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum StormError {
    /// The target cannot be reached.
    #[error("cannot reach {target}: {source}")]
    Unreachable {
        /// The target.
        target: std::net::SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The journal can't be opened or written.
    #[error("journal: {0}")]
    Journal(io::Error),
    /// The report can't be written.
    #[error("{0}")]
    Output(String),
    /// IAX2 runs only over UDP.
    #[error("IAX2 does not run over TCP: leave out --transport tcp or --protocol iax2")]
    NoConnections,
    /// `--auth` has no colon.
    #[error("--auth needs USER:PASSWORD")]
    NoColon,
    /// A pattern in `--auth` is invalid.
    #[error("--auth: {0}")]
    Auth(#[from] PatternError),
    /// The report was printed, but registrations failed.
    #[error("{failed} of {sent} registrations failed{advice}")]
    Failed {
        /// Registrations that failed.
        failed: u64,
        /// Registrations begun.
        sent: u64,
        /// What to do, if the reason is known; it begins a new line.
        advice: &'static str,
    },
    /// Not every watcher could subscribe.
    #[error("{failed} of {watchers} watchers could not subscribe")]
    NotSubscribed {
        /// Watchers whose SUBSCRIBE failed.
        failed: u64,
        /// Watchers that tried.
        watchers: u64,
    },
    /// The report was printed, but some watchers had a wrong state at the
    /// end.
    #[error("{wrong} of {watchers} watchers have a wrong state")]
    Untrue {
        /// Watchers with a wrong state.
        wrong: u64,
        /// All watchers.
        watchers: u64,
    },
    /// Calls are made by SIP.
    #[error("IAX2 telephones are not called by --calls: leave out --protocol iax2")]
    NoCalls,
    /// Each lamp has one watcher.
    #[error(
        "{watchers} watchers for {devices} devices: with --calls each device has a watcher, \
        so --watchers is 0 or as many as --devices"
    )]
    OneLampEach {
        /// Watchers wanted.
        watchers: u32,
        /// Called devices.
        devices: u32,
    },
    /// The report was printed, but calls failed on either side, or messages came that
    /// belong to no call.
    #[error("{failed} failures in {calls} calls, {unexpected} unexpected messages{advice}")]
    CallsFailed {
        /// What went wrong on both sides.
        failed: u64,
        /// Calls begun.
        calls: u64,
        /// Messages that belong to no call.
        unexpected: u64,
        /// What to do, if the reason is known; it begins a new line.
        advice: &'static str,
    },
    /// The report was printed, but lamps were wrong.
    #[error("{stale} stale states, {wrong} of {lamps} lamps are wrong at the end")]
    LampsWrong {
        /// States shown after a later one, or too early.
        stale: u64,
        /// Lamps that are wrong at the end.
        wrong: u64,
        /// All lamps.
        lamps: u64,
    },
    /// The first step of a ramp failed already.
    #[error("even the first step of the ramp failed")]
    NoCeiling,
}

/// Takes the report, once.
pub type Print<'a> = &'a dyn Fn(String) -> Result<(), String>;

impl Storm {
    /// Runs the storm, passes the report to `print` and judges the result. If
    /// `print` cannot write, it returns a sentence that says why.
    ///
    /// # Errors
    /// When the storm could not be made, or a registration failed.
    pub fn run(self, print: Print<'_>) -> Result<(), StormError> {
        let _slack = TimerSlack::smallest();
        if self.calls {
            return self.call(print);
        }
        let mut storm = Running::new(self)?;
        storm.warm_up()?;
        storm.subscribe()?;
        if storm.args.ramp {
            storm.ramp(print)
        } else {
            storm.once(print)
        }
    }

    fn call(&self, print: Print<'_>) -> Result<(), StormError> {
        let (watchers, devices) = (self.watchers, self.devices);
        if self.protocol == Protocol::Iax2 {
            return Err(StormError::NoCalls);
        }
        if watchers != 0 && watchers != devices && self.watch_list.is_none() {
            return Err(StormError::OneLampEach { watchers, devices });
        }
        let storm = CallStorm {
            args: self,
            users: self.users()?,
            timing: self.timing(),
            pace: self.pace(),
        };
        let report = storm.run().map_err(|error| self.not_begun(error))?;
        print(text(self.json, &report, || report.to_string())).map_err(StormError::Output)?;
        judge_calls(&report)
    }

    fn not_begun(&self, error: NotBegun) -> StormError {
        let target = self.target();
        match error {
            NotBegun::Unreachable(source) => StormError::Unreachable { target, source },
            NotBegun::NotRegistered(tally) => StormError::Failed {
                failed: tally.sent - tally.acknowledged,
                sent: tally.sent,
                advice: tally.advice(self.auth.is_some()),
            },
            NotBegun::NotSubscribed(failed) => StormError::NotSubscribed {
                failed,
                watchers: self.watchers.into(),
            },
        }
    }

    /// The pace that the arguments request.
    fn pace(&self) -> Pace {
        let even = || f64::from(self.devices) / self.over.as_secs_f64().max(1e-6);
        match self.closed {
            Some(slots) => Pace::Closed {
                slots: slots as usize,
            },
            None => Pace::Open {
                per_second: self.rate.unwrap_or_else(even),
            },
        }
    }

    fn users(&self) -> Result<StormUsers, StormError> {
        let (user, password) = self.names()?;
        Ok(StormUsers {
            user,
            password,
            domain: self
                .domain
                .clone()
                .unwrap_or_else(|| bracketed(self.target().ip())),
            transport: self.transport,
            first: self.first,
            stride: self.threads,
            algorithm: self.algorithm,
            expires_s: self.expires.as_secs(),
            run: random(),
        })
    }

    fn names(&self) -> Result<(Pattern, Option<Pattern>), StormError> {
        let Some(auth) = &self.auth else {
            return Ok((self.user.clone(), None));
        };
        let (user, password) = auth.split_once(':').ok_or(StormError::NoColon)?;
        Ok((user.parse()?, Some(password.parse()?)))
    }

    fn timing(&self) -> Timing {
        let timing = self.usual_timing();
        let give_up = self.patience.unwrap_or(timing.give_up);
        Timing { give_up, ..timing }
    }

    fn usual_timing(&self) -> Timing {
        match self.transport {
            // Over a connection nothing is lost. A late answer there means
            // that the step is over the ceiling, and is not a failure.
            Transport::Tcp => Timing::over_connection(self.t1),
            // If a step is over the ceiling, it must not wait long for timer
            // F to show it.
            Transport::Udp if self.ramp => {
                let timing = Timing::with_t1(self.t1);
                let give_up = timing.give_up.min(RAMP_PATIENCE);
                Timing { give_up, ..timing }
            }
            Transport::Udp => Timing::with_t1(self.t1),
        }
    }
}

/// A storm with its sockets.
struct Running {
    args: Storm,
    clock: Clock,
    drivers: Vec<Driver>,
    watch: Option<WatchDriver>,
    /// Devices that new registrations have used so far, over all threads.
    used: u32,
}

impl Running {
    fn new(args: Storm) -> Result<Self, StormError> {
        if args.protocol == Protocol::Iax2 && args.transport == Transport::Tcp {
            return Err(StormError::NoConnections);
        }
        let clock = Clock::machine();
        let journal = args
            .journal
            .as_deref()
            .map(Journal::open)
            .transpose()
            .map_err(StormError::Journal)?;
        let users = args.users()?;
        let driver = |thread| {
            let users = users.of_thread(thread);
            let (timing, journal) = (args.timing(), journal.clone());
            let agent = |local| -> Box<dyn RegisteringAgent> {
                match args.protocol {
                    Protocol::Sip => Box::new(SipAgent::new(users, local, timing, journal)),
                    Protocol::Iax2 => Box::new(Iax2Agent::new(users, local, timing, journal)),
                }
            };
            Driver::new(args.target(), args.transport, clock.clone(), agent)
        };
        let drivers = (0..args.threads).map(driver).collect::<io::Result<_>>();
        let drivers = drivers.map_err(|source| StormError::Unreachable {
            target: args.target(),
            source,
        })?;
        Ok(Self {
            watch: watch(&args, &clock, &users)?,
            args,
            clock,
            drivers,
            used: 0,
        })
    }

    /// The watchers subscribe before the devices register.
    fn subscribe(&mut self) -> Result<(), StormError> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        watch.subscribe(self.args.watchers);
        match watch.agent.tally.failed {
            0 => Ok(()),
            failed => Err(StormError::NotSubscribed {
                failed,
                watchers: self.args.watchers.into(),
            }),
        }
    }

    /// Registers the devices that will refresh.
    fn warm_up(&mut self) -> Result<(), StormError> {
        if self.args.kind == Kind::Insert {
            return Ok(());
        }
        let pace = Pace::Closed {
            slots: WARM_UP_SLOTS,
        };
        let (tally, _) = self.blow(self.each_device_once(pace))?;
        self.judge(&tally)
    }

    fn once(&mut self, print: Print<'_>) -> Result<(), StormError> {
        let once = self.each_device_once(self.args.pace());
        let paced = self.args.closed.is_some() || self.args.rate.is_some();
        let repeats = paced && self.args.kind == Kind::Refresh;
        let phase = if repeats {
            Phase {
                count: u64::MAX,
                duration: self.args.over,
                ..once
            }
        } else {
            once
        };
        let (report, tally) = self.measured(phase)?;
        print(text(self.args.json, &report, || report.to_string())).map_err(StormError::Output)?;
        self.judge(&tally)?;
        report.watch.map_or(Ok(()), |watch| judge_watchers(&watch))
    }

    /// Raises the rate until a step fails; the last good rate is the ceiling.
    fn ramp(&mut self, print: Print<'_>) -> Result<(), StormError> {
        let mut steps: Vec<Report> = Vec::new();
        let mut per_second = self.args.rate.unwrap_or(RAMP_START_PER_SECOND);
        while steps.last().is_none_or(holds) {
            let phase = self.step(per_second);
            steps.push(self.measured(phase)?.0);
            per_second *= RAMP_FACTOR;
        }
        let ceiling = steps.iter().rev().nth(1).and_then(|step| step.offered);
        let text = text(self.args.json, &steps, || match ceiling {
            Some(ceiling) => format!("{}\nceiling: {ceiling:.0} a second", ramp_table(&steps)),
            None => ramp_table(&steps).to_string(),
        });
        print(text).map_err(StormError::Output)?;
        ceiling.map(drop).ok_or(StormError::NoCeiling)
    }

    fn each_device_once(&self, pace: Pace) -> Phase {
        let devices = self.args.devices;
        let count = u64::from(devices);
        Phase {
            pace,
            after: Duration::ZERO,
            count,
            duration: Duration::MAX,
            first: 0,
            devices,
        }
    }

    /// New registrations use new devices in each step; refreshes use the same
    /// devices.
    fn step(&mut self, per_second: f64) -> Phase {
        let count = (per_second * self.args.step.as_secs_f64()).ceil() as u64;
        let once = self.each_device_once(Pace::Open { per_second });
        if self.args.kind == Kind::Refresh {
            return Phase { count, ..once };
        }
        let devices = u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.used;
        self.used = self
            .used
            .saturating_add(devices.div_ceil(self.args.threads));
        Phase {
            count,
            devices,
            first,
            ..once
        }
    }

    /// Runs a phase, and measures the server's CPU time and memory during it.
    fn measured(&mut self, phase: Phase) -> Result<(Report, Tally), StormError> {
        let process = self.args.pid.map(Process::new);
        let before = process.and_then(Process::usage);
        let meter = process.map(|process| PeakMeter::start(process, &self.clock));
        let begin = self.clock.now();
        let measured = self.watched(phase);
        let after = process.and_then(Process::usage);
        let peak = meter.and_then(PeakMeter::end);
        let (tally, took, watch) = measured?;
        let mut report = Report::new(self.setting(phase.pace), &tally, took);
        report.server = before
            .zip(after)
            .map(|(before, after)| server_use(before, after, peak, &report));
        report.watch = watch.map(|notified_before| self.watch_use(&report, begin, notified_before));
        if let Some(told) = &mut report.watch {
            self.count_forgotten(told);
        }
        Ok((report, tally))
    }

    /// Counts the watchers whose subscription the server has lost without
    /// ending it; they are wrong, too. The server sends one more NOTIFY to
    /// all others, so this comes last.
    fn count_forgotten(&mut self, told: &mut WatchUse) {
        let Some(mut watch) = self.watch.take() else {
            return;
        };
        watch.ask_again(|device| self.is_registered(device));
        let ended = watch.agent.tally.ended;
        told.watchers_wrong += ended - told.watchers_ended;
        told.watchers_ended = ended;
        self.watch = Some(watch);
    }

    /// Runs a phase while the watchers receive, until no more NOTIFYs come.
    /// The last value is the number of NOTIFYs before the phase.
    fn watched(&mut self, phase: Phase) -> Result<(Tally, Duration, Option<u64>), StormError> {
        let Some(mut watch) = self.watch.take() else {
            let (tally, took) = self.blow(phase)?;
            return Ok((tally, took, None));
        };
        let notified_before = watch.agent.tally.notified;
        let stop = AtomicBool::new(false);
        let blown = thread::scope(|scope| {
            scope.spawn(|| watch.listen(&stop));
            let blown = self.blow(phase);
            stop.store(true, Ordering::Relaxed);
            blown
        });
        self.watch = Some(watch);
        blown.map(|(tally, took)| (tally, took, Some(notified_before)))
    }

    fn watch_use(&self, report: &Report, begin: Instant, notified_before: u64) -> WatchUse {
        let tally = self
            .watch
            .as_ref()
            .map_or_else(Default::default, |watch| watch.agent.tally);
        let notified = tally.notified - notified_before;
        let last_s = (tally.last_at - begin).as_secs_f64();
        let each = |server: ServerUse| 1e6 * server.cpu_s / notified.max(1) as f64;
        let agent = self.watch.as_ref().map(|watch| &watch.agent);
        WatchUse {
            watchers: self.args.watchers.into(),
            notified,
            notify_per_s: notified as f64 / last_s.max(f64::MIN_POSITIVE),
            notified_again: tally.again,
            watchers_ended: tally.ended,
            watchers_wrong: agent.map_or(0, |agent| agent.wrong(|d| self.is_registered(d))),
            told_after_ms: (last_s - report.seconds).max(0.0) * 1e3,
            cpu_us_per_notify: report.server.map(each),
        }
    }

    /// The threads take the devices in turn, so the device's number gives its
    /// thread.
    fn is_registered(&self, device: u32) -> Option<bool> {
        let threads = self.drivers.len() as u32;
        let driver = self.drivers.get((device % threads) as usize)?;
        driver.is_registered(device / threads)
    }

    /// Runs a phase on all threads.
    fn blow(&mut self, phase: Phase) -> Result<(Tally, Duration), StormError> {
        let threads = self.drivers.len() as u32;
        let counters: Vec<Counters> = self.drivers.iter().map(|_| Counters::default()).collect();
        let progress = Progress::new(phase.expected());
        let begin = self.clock.now();
        let ends = thread::scope(|scope| {
            let waiting = thread::current();
            let work = self.drivers.iter_mut().zip(&counters).zip(0..);
            let running: Vec<_> = work
                .map(|((driver, counters), thread)| {
                    let waiting = waiting.clone();
                    scope.spawn(move || {
                        let end = driver.run(phase.share(thread, threads), counters);
                        waiting.unpark();
                        end
                    })
                })
                .collect();
            progress.follow(&counters, || {
                running.iter().all(thread::ScopedJoinHandle::is_finished)
            });
            running.into_iter().map(joined).collect::<Vec<_>>()
        });
        progress.finish();
        let mut sum = (Tally::new(), begin);
        for end in ends {
            let (tally, ended) = end.map_err(StormError::Journal)?;
            sum.0.merge(&tally);
            sum.1 = sum.1.max(ended);
        }
        Ok((sum.0, sum.1 - begin))
    }

    fn setting(&self, pace: Pace) -> Setting {
        let (offered, closed) = match pace {
            Pace::Open { per_second } => (Some(per_second), None),
            Pace::Closed { slots } => (None, u32::try_from(slots).ok()),
        };
        Setting {
            protocol: self.args.protocol.as_str(),
            auth: self.args.auth.is_some(),
            kind: self.args.kind.as_str(),
            offered,
            closed,
        }
    }

    fn judge(&self, tally: &Tally) -> Result<(), StormError> {
        match tally.sent - tally.acknowledged {
            0 => Ok(()),
            failed => Err(StormError::Failed {
                failed,
                sent: tally.sent,
                advice: tally.advice(self.args.auth.is_some()),
            }),
        }
    }
}

/// The report in the requested format.
fn text(json: bool, value: &impl Serialize, table: impl FnOnce() -> String) -> String {
    match json {
        // Reports contain only numbers and names, which JSON can always represent.
        true => serde_json::to_string_pretty(value).unwrap_or_default(),
        false => table(),
    }
}

fn judge_calls(report: &CallReport) -> Result<(), StormError> {
    let is_refused = report.failures.contains_key("INVITE 407");
    if report.failed > 0 || report.unexpected > 0 {
        return Err(StormError::CallsFailed {
            failed: report.failed,
            calls: report.calls,
            unexpected: report.unexpected,
            advice: if is_refused { CHALLENGED } else { "" },
        });
    }
    let lamps = report
        .lamps
        .filter(|lamps| lamps.lamps_stale + lamps.lamps_wrong > 0);
    lamps.map_or(Ok(()), |lamps| {
        Err(StormError::LampsWrong {
            stale: lamps.lamps_stale,
            wrong: lamps.lamps_wrong,
            lamps: lamps.lamps,
        })
    })
}

/// Whether the server kept up in a step of a ramp.
fn holds(step: &Report) -> bool {
    let offered = step.offered.unwrap_or(0.0);
    step.is_clean()
        && step.register_per_s >= offered * RAMP_KEEPS_UP
        && step.p99_us.is_some_and(|p99_us| p99_us < RAMP_P99_US_MAX)
}

fn judge_watchers(watch: &WatchUse) -> Result<(), StormError> {
    match watch.watchers_wrong {
        0 => Ok(()),
        wrong => Err(StormError::Untrue {
            wrong,
            watchers: watch.watchers,
        }),
    }
}

/// Makes the watchers with their own socket, if any are wanted.
fn watch(
    args: &Storm,
    clock: &Clock,
    users: &StormUsers,
) -> Result<Option<WatchDriver>, StormError> {
    if args.watchers == 0 {
        return Ok(None);
    }
    let target = args.watch_target();
    let users = StormUsers {
        stride: 1,
        transport: Transport::Udp,
        run: users.run.wrapping_add(args.threads),
        ..users.clone()
    };
    let driver = WatchDriver::new(target, clock.clone(), users, args.devices, args.timing());
    let unreachable = |source| StormError::Unreachable { target, source };
    let mut driver = driver.map_err(unreachable)?;
    if let Some(list) = &args.watch_list {
        driver.agent.watch_list(list);
    }
    Ok(Some(driver))
}

fn server_use(before: Usage, after: Usage, peak: Option<f64>, report: &Report) -> ServerUse {
    let cpu_s = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    ServerUse {
        cpu_s,
        cpu_percent: 100.0 * cpu_s / report.seconds.max(f64::MIN_POSITIVE),
        cpu_percent_max: peak,
        cpu_us_per_register: 1e6 * cpu_s / (report.acknowledged.max(1) as f64),
        rss_bytes: after.rss_bytes,
        rss_bytes_max: after.rss_bytes_max,
    }
}

type End = io::Result<(Tally, Instant)>;

fn joined(thread: thread::ScopedJoinHandle<'_, End>) -> End {
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("a storm thread panicked")))
}

fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// The standard library's hasher takes its keys from the operating system's
/// random numbers.
fn random() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

const CHALLENGED: &str = "\nthe server asks callers for passwords: give --auth USER:PASSWORD, with accounts for twice \
    as many users as --devices, since the callers are other users";

/// Registrations in progress at a time while the devices that will refresh
/// are registered.
const WARM_UP_SLOTS: usize = 64;
const RAMP_START_PER_SECOND: f64 = 1_000.0;
const RAMP_FACTOR: f64 = 1.5;
/// A step fails if less than this part of the offered rate was acknowledged.
const RAMP_KEEPS_UP: f64 = 0.9;
/// A step fails if its 99th percentile reaches the time of the first
/// retransmission.
const RAMP_P99_US_MAX: f64 = 500_000.0;
/// Timer F of a ramp over datagrams.
const RAMP_PATIENCE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        storm: Storm,
    }

    #[test]
    fn a_ramp_waits_longer_if_nothing_is_lost() {
        let give_up = |flags: &[&str]| {
            let words = [&["storm"], flags].concat();
            Alone::parse_from(words).storm.timing().give_up
        };
        let timer_f = Duration::from_secs(32);
        assert_eq!(give_up(&["--ramp", "--transport", "tcp"]), timer_f);
        assert_eq!(give_up(&["--ramp"]), RAMP_PATIENCE);
        assert_eq!(give_up(&[]), timer_f);
        let asked = Duration::from_secs(2);
        assert_eq!(give_up(&["--patience", "2s"]), asked);
        assert_eq!(give_up(&["--ramp", "--patience", "2s"]), asked);
    }
}
