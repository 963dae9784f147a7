//! A device that is independent of the greedy one.

use crate::support::{ServerProcess, phone::Phone};
use std::time::{Duration, Instant};

/// A device at 127.0.0.`host` registers, subscribes to its own presence and is
/// notified that it is there, all within 8 s, whatever others use.
///
/// A busy machine may delay one attempt, so there are three. A real loss of
/// service lasts far longer: an answer is kept for 32 s.
#[track_caller]
pub fn is_served(server: &ServerProcess, host: u8, user: &str) {
    let attempts: Vec<_> = (0..ATTEMPTS)
        .map_while(|_| attempt(server, host, user).err())
        .collect();
    if attempts.len() == ATTEMPTS {
        panic!("the device is not served: {attempts:?}\n{}", server.stats());
    }
}

fn attempt(server: &ServerProcess, host: u8, user: &str) -> Result<(), String> {
    let deadline = Instant::now() + WITHIN;
    let mut phone = Phone::new(server, host, user);
    let register = phone.register_request();
    check("REGISTER", phone.ask_until(&register, deadline))?;
    let subscribe = phone.subscribe_request(user, "");
    check("SUBSCRIBE", phone.ask_until(&subscribe, deadline))?;
    let notify = phone.notified_until(deadline).ok_or("no NOTIFY")?;
    match notify.contains("<basic>open</basic>") {
        true => Ok(()),
        false => Err(notify),
    }
}

fn check(what: &str, answer: Option<String>) -> Result<(), String> {
    match answer {
        Some(answer) if answer.starts_with("SIP/2.0 200 ") => Ok(()),
        other => Err(format!("{what} was answered {other:?}")),
    }
}

const WITHIN: Duration = Duration::from_secs(8);
const ATTEMPTS: usize = 3;
