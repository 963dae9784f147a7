//! A small storm against the running server itself, started over HTTP: operators see what their server does with it.

use super::load::trial_password;
use crate::{
    server::{Accounts, Server},
    web::{StormPlan, StormRefusal, StormView},
};
use busyhour_sip::auth::Secret;
use busyhour_storm::Storm;
use clap::Parser;
use serde_json::Value;
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// At most one storm at a time, and how the last one was.
pub(super) struct TrialStorms {
    server: Server,
    /// Where the server takes SIP over UDP.
    target: Option<SocketAddr>,
    /// The domain of its users, if it has some of its own.
    domain: Option<String>,
    /// Of its users, if the server asks for passwords.
    accounts: Option<Arc<SmallStormAccounts>>,
    state: Arc<Mutex<StormView>>,
}

/// The accounts of a server, and those of the devices of the storm that lasts. These are in memory alone, so nothing is left of
/// them, however the storm or the server ends.
pub(super) struct SmallStormAccounts {
    others: Arc<dyn Accounts>,
    trial: RwLock<Option<TrialUsers>>,
}

struct TrialUsers {
    count: u32,
    secret: Secret,
}

impl SmallStormAccounts {
    pub(super) fn beside(others: Arc<dyn Accounts>) -> Self {
        Self {
            others,
            trial: RwLock::default(),
        }
    }

    fn set(&self, trial: Option<TrialUsers>) {
        *self.trial.write().unwrap_or_else(PoisonError::into_inner) = trial;
    }
}

impl Accounts for SmallStormAccounts {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        if let Some(secret) = self.others.secret(username) {
            return Some(secret);
        }
        let number = username.strip_prefix(PREFIX)?;
        let trial = self.trial.read().unwrap_or_else(PoisonError::into_inner);
        let users = trial.as_ref()?;
        let is_one = |one: &u32| (1..=users.count).contains(one) && number == one.to_string();
        let is_known = number.parse().is_ok_and(|one| is_one(&one));
        is_known.then(|| Cow::Owned(users.secret.clone()))
    }

    fn mailbox(&self, username: &str) -> Option<String> {
        self.others.mailbox(username)
    }
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
        accounts: Option<Arc<SmallStormAccounts>>,
    ) -> Self {
        Self {
            server,
            target,
            domain,
            accounts,
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
        let lasting = Lasting {
            state: self.state.clone(),
            outcome: None,
        };
        let users = self
            .accounts
            .as_ref()
            .map(|accounts| (accounts.clone(), self.server.clone()));
        let domain = self.domain.clone();
        let run = move || lasting.until(|| run(users, (target, domain), plan));
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

/// Dropped when the storm ends, also by a panic.
struct Lasting {
    state: Arc<Mutex<StormView>>,
    outcome: Option<Result<Value, String>>,
}

impl Lasting {
    fn until(mut self, storm: impl FnOnce() -> Result<Value, String>) {
        self.outcome = Some(storm());
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.is_running = false;
        match self.outcome.take() {
            Some(Ok(report)) => state.report = Some(report),
            Some(Err(problem)) => state.problem = Some(problem),
            None => state.problem = Some(PANICKED.to_owned()),
        }
    }
}

/// Accounts for as long as this value; what has registered with them ends with them.
struct KeptUsers {
    accounts: Arc<SmallStormAccounts>,
    server: Server,
}

impl Drop for KeptUsers {
    fn drop(&mut self) {
        self.accounts.set(None);
        self.server.accounts_changed();
    }
}

fn run(
    users: Option<(Arc<SmallStormAccounts>, Server)>,
    (target, domain): (SocketAddr, Option<String>),
    plan: StormPlan,
) -> Result<Value, String> {
    let password = users.as_ref().map(|_| trial_password()).transpose();
    let password = password.map_err(|error| error.to_string())?;
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
    let kept = users.zip(password).map(|((accounts, server), password)| {
        accounts.set(Some(TrialUsers {
            count: plan.devices,
            secret: Secret::plaintext(password),
        }));
        KeptUsers { accounts, server }
    });
    let told = Mutex::new(None);
    let outcome = flags.storm.run(&|report| {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = serde_json::from_str(&report).ok();
        Ok(())
    });
    drop(kept);
    let report = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (report, outcome) {
        (Some(report), _) => Ok(report),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(())) => Err("the storm has told nothing".into()),
    }
}

const THREAD: &str = "bh-storm";
const PREFIX: &str = "storm-small-";
const PANICKED: &str =
    "the storm has ended by a panic, which is a fault of the program; standard error says where";
/// A contact of a storm outlives it by so much.
const LEFT_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::NoAccounts;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_ends_a_storm() {
        let state = Arc::new(Mutex::new(StormView {
            is_running: true,
            ..StormView::default()
        }));
        let lasting = || Lasting {
            state: state.clone(),
            outcome: None,
        };
        let panicking = || lasting().until(|| panic!("a fault"));
        assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
        assert!(!lock(&state).is_running);
        assert_eq!(lock(&state).problem.as_deref(), Some(PANICKED));
        lasting().until(|| Ok(Value::Null));
        assert_eq!(lock(&state).report, Some(Value::Null));
    }

    #[test]
    fn only_the_devices_of_a_storm_have_its_password() {
        let accounts = SmallStormAccounts::beside(Arc::new(NoAccounts));
        let known = |user: &str| accounts.secret(user).is_some();
        assert!(!known("storm-small-1"));
        let secret = Secret::plaintext("p");
        accounts.set(Some(TrialUsers { count: 12, secret }));
        assert!(known("storm-small-1") && known("storm-small-12"));
        for other in ["0", "13", "+1", "01", "1 ", ""] {
            assert!(!known(&format!("storm-small-{other}")), "{other}");
        }
        assert!(!known("alice"));
        accounts.set(None);
        assert!(!known("storm-small-1"));
    }
}
