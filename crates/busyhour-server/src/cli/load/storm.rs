//! `busyhour storm`: the load tool, and accounts for its devices if the server asks for passwords.

use super::trial_password;
use crate::cli::{
    Failure,
    device::{AccountLocation, AccountStore},
};
use crate::console;
use busyhour_store::{Account, AccountEntry};
use busyhour_storm::{Protocol, Storm};
use clap::Args;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

/// The load tool, with the place of the server's accounts.
#[derive(Debug, Args)]
pub struct StormCommand {
    #[command(flatten)]
    storm: Storm,

    #[command(flatten)]
    place: AccountLocation,
}

impl StormCommand {
    /// Runs the storm. A server on this machine that asks for passwords gets accounts for the
    /// devices, which are removed at the end.
    ///
    /// # Errors
    ///
    /// What failed, as the load tool tells it.
    pub fn run(self) -> Result<(), Failure> {
        let Self { mut storm, place } = self;
        let Some(accounts) = trial_accounts(&storm, &place)? else {
            let outcome = storm.run(&|report| console::print(report));
            return outcome.map_err(Failure::running);
        };
        storm.auth = Some(format!("{PREFIX}{{n}}:{}", accounts.password));
        accounts.keep_while(|| {
            let outcome = storm.run(&|report| console::print(report));
            outcome.map_err(Failure::running)
        })
    }
}

/// `None` if nobody asks for passwords, or if the accounts were given.
fn trial_accounts<'p>(
    storm: &Storm,
    place: &'p AccountLocation,
) -> Result<Option<TrialAccounts<'p>>, Failure> {
    let target = storm.target();
    let is_possible =
        storm.auth.is_none() && storm.protocol == Protocol::Sip && target.ip().is_loopback();
    if !is_possible || !asks_for_password(target) {
        return Ok(None);
    }
    // Callers are other users than the devices that they call; a ramp never runs out of users.
    let count = match (storm.calls, storm.ramp) {
        (true, _) => 2 * u64::from(storm.devices),
        (_, true) => RAMP_USERS,
        _ => u64::from(storm.devices),
    };
    TrialAccounts::new(place, storm.first..storm.first + count).map(Some)
}

/// Accounts that exist for as long as a storm.
struct TrialAccounts<'p> {
    place: &'p AccountLocation,
    users: Vec<String>,
    password: String,
}

impl<'p> TrialAccounts<'p> {
    fn new(place: &'p AccountLocation, numbers: std::ops::Range<u64>) -> Result<Self, Failure> {
        Ok(Self {
            place,
            users: numbers.map(|number| format!("{PREFIX}{number}")).collect(),
            password: trial_password().map_err(Failure::running)?,
        })
    }

    /// Makes them, runs the storm, and removes them: also when they cannot all be made, and when SIGINT or SIGTERM ends
    /// the program.
    fn keep_while(self, storm: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        // Nothing is made, and so nothing removed, where the database cannot be opened.
        let mut store = self.place.open().map_err(|failure| {
            failure.and("the server asks for passwords: give --auth USER:PASSWORD, or --config FILE so that its accounts are found")
        })?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::running)?;
        let waiting = signals.handle();
        let kept = Mutex::new(Some(&self));
        let remove = || {
            let kept = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
            kept.map_or(Ok(()), Self::remove)
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                if let Some(signal) = signals.forever().next() {
                    report_left(remove());
                    // It ends the program, as if nobody had listened.
                    let _ = emulate_default_handler(signal);
                }
            });
            // Who removes them waits until they are there.
            let making = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let made = self.make(&mut store);
            drop((making, store));
            let outcome = made.and_then(|()| {
                // A running server looks for changes once a second.
                thread::sleep(NOTICE);
                storm()
            });
            report_left(remove());
            waiting.close();
            outcome
        })
    }

    fn make(&self, store: &mut AccountStore) -> Result<(), Failure> {
        let count = self.users.len();
        console::print_error(format_args!(
            "the server asks for passwords, so {count} accounts {PREFIX}… are made in database {} until the end",
            store.store
        ));
        for users in self.users.chunks(GROUP_LEN) {
            let accounts = users.iter().map(|user| self.account(user, store.realm()));
            let accounts = accounts
                .collect::<Result<Vec<_>, _>>()
                .map_err(Failure::running)?;
            store.admin.put(&accounts).map_err(Failure::running)?;
        }
        Ok(())
    }

    fn account(&self, user: &str, realm: &str) -> Result<Account, String> {
        let entry = AccountEntry {
            user: user.to_owned(),
            password: Some(self.password.clone()),
            ..AccountEntry::default()
        };
        entry.check(realm)
    }

    fn remove(&self) -> Result<(), Failure> {
        let mut store = self.place.open()?;
        let realm = store.realm().to_owned();
        for users in self.users.chunks(GROUP_LEN) {
            let removed = store.admin.remove_all(users, &realm);
            removed.map_err(Failure::running)?;
        }
        Ok(())
    }
}

fn report_left(removed: Result<(), Failure>) {
    if let Err(failure) = removed {
        failure
            .and("the accounts that the storm has made are still there")
            .report();
    }
}

/// Sends a REGISTER that changes nothing, and reads the first line of the answer.
fn asks_for_password(target: SocketAddr) -> bool {
    let asked = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((target.ip(), 0))?;
        socket.connect(target)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let own = socket.local_addr()?;
        let request = format!(
            "REGISTER sip:{target} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-storm-probe;rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{PREFIX}1@{target}>;tag=probe\r\nTo: <sip:{PREFIX}1@{target}>\r\n\
             Call-ID: storm-probe-{}\r\nCSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n",
            own.port()
        );
        socket.send(request.as_bytes())?;
        let mut answer = [0; 4096];
        let len = socket.recv(&mut answer)?;
        Ok(answer[..len].starts_with(b"SIP/2.0 401"))
    };
    asked().unwrap_or(false)
}

const PREFIX: &str = "storm-trial-";
/// A running server can write between two groups.
const GROUP_LEN: usize = 1000;
/// A ramp of new devices ends long before it has used them.
const RAMP_USERS: u64 = 200_000;
const NOTICE: Duration = Duration::from_millis(2500);
