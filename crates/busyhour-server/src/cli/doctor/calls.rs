//! Whether calls for help and to the voicemail lead to somebody, as far as the file and the
//! database tell. What the file alone tells is among the warnings about it.

use super::Finding;
use crate::{
    cli::{device::open_store, service::database},
    config::{
        Config, Durability, Store,
        check::call_targets::{takes_numbers, unreached_emergency, voicemail_without_account},
    },
};
use busyhour_store::has_account;

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let all = [emergency(config), voicemail(config)];
    all.into_iter().flatten().collect()
}

/// Only if there is no gateway at all: then the default of the setting is no mistake.
fn emergency(config: &Config) -> Option<Finding> {
    let users = unreached_emergency(config);
    let is_told = !users.is_empty() && !takes_numbers(config);
    let found = format!(
        "no [[peer]] takes numbers, so calls for help ({}) are answered 404, as others to numbers are",
        users.join(", ")
    );
    is_told.then(|| Finding::good("emergency", found))
}

fn voicemail(config: &Config) -> Option<Finding> {
    let user = voicemail_without_account(config)?;
    let missing = || {
        Finding::warning(
            "voicemail",
            format!("calls.voicemail: there is no account `{user}`, so nobody takes these calls"),
            format!(
                "busyhour device add {user}, and let the voicemail register: peers do not take them"
            ),
        )
    };
    match has_stored(&config.store, user)? {
        true => Some(Finding::good(
            "voicemail",
            format!("`{user}` has an account, and takes calls while it is registered"),
        )),
        false => Some(missing()),
    }
}

/// `None` if that cannot be told, or the warnings about the file tell it.
fn has_stored(store: &Store, user: &str) -> Option<bool> {
    if store.durability == Durability::Memory {
        return None;
    }
    if !store.is_postgres() {
        let database = database(store);
        return match database.exists() {
            true => has_account(&database, user).ok(),
            false => Some(false),
        };
    }
    let accounts = open_store(store).ok()?.all().ok()?;
    Some(accounts.iter().any(|account| account.username == user))
}
