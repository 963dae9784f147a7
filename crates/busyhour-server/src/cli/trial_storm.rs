//! A small storm against the running server itself, started over HTTP: operators see what their server does with it.

use crate::{
    server::{AccountError, Server},
    web::{StormPlan, StormRefusal, StormView},
};
use busyhour_store::{AccountEntry, Completion};
use busyhour_storm::Storm;
use clap::Parser;
use serde_json::Value;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// At most one storm at a time, and how the last one was.
pub(super) struct TrialStorms {
    server: Server,
    /// Where the server takes SIP over UDP.
    target: Option<SocketAddr>,
    /// The domain of its users, if it has some of its own.
    domain: Option<String>,
    asks_for_passwords: bool,
    state: Arc<Mutex<StormView>>,
}

/// Flags as on the command line, whose defaults they have.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    storm: Storm,
}

impl TrialStorms {
    pub(super) fn new(
        server: Server,
        target: Option<SocketAddr>,
        domain: Option<String>,
        asks_for_passwords: bool,
    ) -> Self {
        Self {
            server,
            target,
            domain,
            asks_for_passwords,
            state: Arc::default(),
        }
    }

    pub(super) fn view(&self) -> StormView {
        lock(&self.state).clone()
    }

    /// Begins; the storm runs on a thread of its own.
    pub(super) fn start(&self, plan: StormPlan) -> Result<StormView, StormRefusal> {
        let target = self.target.ok_or(StormRefusal::NoTarget)?;
        let mut state = lock(&self.state);
        if state.is_running {
            return Err(StormRefusal::Running);
        }
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        *state = StormView {
            is_running: true,
            plan: Some(plan),
            begun_unix_ms: Some(since_1970.as_millis() as u64),
            report: None,
            problem: None,
        };
        let begun = state.clone();
        drop(state);
        let (server, shared) = (self.server.clone(), self.state.clone());
        let accounts = self.asks_for_passwords.then_some(plan.devices);
        let domain = self.domain.clone();
        let run = move || {
            let outcome = run(&server, (target, domain), plan, accounts);
            let mut state = lock(&shared);
            state.is_running = false;
            match outcome {
                Ok(report) => state.report = Some(report),
                Err(problem) => state.problem = Some(problem),
            }
        };
        let started = thread::Builder::new().name(THREAD.into()).spawn(run);
        if let Err(error) = started {
            *lock(&self.state) = StormView::default();
            return Err(StormRefusal::NoThread(error.to_string()));
        }
        tracing::info!(
            devices = plan.devices,
            seconds = plan.seconds,
            "a trial storm begins"
        );
        Ok(begun)
    }
}

fn lock(state: &Mutex<StormView>) -> MutexGuard<'_, StormView> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(
    server: &Server,
    (target, domain): (SocketAddr, Option<String>),
    plan: StormPlan,
    accounts: Option<u32>,
) -> Result<Value, String> {
    let password = accounts.map(|_| password()).transpose()?;
    let (devices, watchers) = (plan.devices.to_string(), plan.watchers.to_string());
    let (target, over) = (target.to_string(), format!("{}s", plan.seconds));
    // Contacts go by themselves, where there is no account whose end takes them along.
    let expires = format!("{}s", plan.seconds + LEFT_SECONDS);
    let (name, user) = match &password {
        Some(password) => ("--auth", format!("{PREFIX}{{n}}:{password}")),
        None => ("--user", format!("{PREFIX}{{n}}")),
    };
    let words_of_plan = [
        ["--target", target.as_str()],
        ["--devices", &devices],
        ["--over", &over],
        ["--watchers", &watchers],
        ["--expires", &expires],
        [name, &user],
    ];
    let domain = domain
        .iter()
        .flat_map(|domain| ["--domain", domain.as_str()]);
    let words = ["storm", "--json"].into_iter().chain(domain);
    let words = words.chain(words_of_plan.into_iter().flatten());
    let flags = Flags::try_parse_from(words).map_err(|error| error.to_string())?;
    let made = StormAccounts {
        server,
        count: accounts.unwrap_or(0),
    };
    made.put(password.as_deref().unwrap_or_default())?;
    let told = Mutex::new(None);
    let outcome = flags.storm.run(&|report| {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = serde_json::from_str(&report).ok();
        Ok(())
    });
    drop(made);
    let report = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (report, outcome) {
        (Some(report), _) => Ok(report),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(())) => Err("the storm has told nothing".into()),
    }
}

/// Accounts that exist for as long as the storm.
struct StormAccounts<'s> {
    server: &'s Server,
    count: u32,
}

impl StormAccounts<'_> {
    fn put(&self, password: &str) -> Result<(), String> {
        self.each(|user, done| {
            let entry = AccountEntry {
                user,
                password: Some(password.to_owned()),
                ..AccountEntry::default()
            };
            self.server.put_account(entry, done)
        })
    }

    /// Waits until all changes are durable.
    fn each(
        &self,
        change: impl Fn(String, Completion) -> Result<(), AccountError>,
    ) -> Result<(), String> {
        let (told, outcomes) = mpsc::channel();
        for first in (1..=self.count).step_by(GROUP_LEN) {
            let group = first..=self.count.min(first + GROUP_LEN as u32 - 1);
            let len = group.clone().count();
            for number in group {
                let told = told.clone();
                let done = Box::new(move |outcome| drop(told.send(outcome)));
                change(format!("{PREFIX}{number}"), done).map_err(|error| error.to_string())?;
            }
            for _ in 0..len {
                let outcome = outcomes.recv_timeout(PATIENCE);
                let outcome = outcome.map_err(|_| "the store does not answer".to_owned())?;
                outcome.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

impl Drop for StormAccounts<'_> {
    fn drop(&mut self) {
        let removed = self.each(|user, done| self.server.remove_account(&user, done));
        if let Err(problem) = removed {
            tracing::warn!(%problem, "accounts of a trial storm are still there");
        }
    }
}

fn password() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

const THREAD: &str = "bh-storm";
const PREFIX: &str = "storm-trial-";
/// As many as may wait for the store without a refusal.
const GROUP_LEN: usize = 256;
const PATIENCE: Duration = Duration::from_secs(30);
/// A contact of a storm outlives it by so much.
const LEFT_SECONDS: u32 = 60;
