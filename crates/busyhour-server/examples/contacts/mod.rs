//! Contacts in a database, as a server would have written them.

use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, Lease};
use busyhour_sip::{Flow, Transport};
use busyhour_store::{Change, SqliteOptions, SqliteStore, Store};
use std::{
    error::Error,
    path::Path,
    sync::mpsc,
    time::{Duration, SystemTime},
};

/// Writes so many, each of a device of its own, which all end at `end`, counted
/// from the beginning of 1970.
pub fn write(database: &Path, count: u64, end: Duration) -> Result<(), Box<dyn Error>> {
    let store = SqliteStore::open(SqliteOptions::new(database))?;
    let (told, fates) = mpsc::channel();
    for first in (1..=count).step_by(BATCH as usize) {
        let last = (first + BATCH).min(count + 1);
        let told = told.clone();
        let done = move |fate| drop(told.send(fate));
        let puts = (first..last).map(|number| put(number, end)).collect();
        store.commit(puts, Box::new(done))?;
        // One at a time: the queue has an end.
        fates.recv()??;
    }
    Ok(())
}

fn put(number: u64, end: Duration) -> Change {
    let [_, high, middle, low] = (number as u32).to_be_bytes();
    let address = format!("10.{high}.{middle}.{low}:5060");
    Change::Binding(BindingChange::Put {
        id: BindingId(number),
        aor: format!("sip:device{number}@busyhour.test").into(),
        contact: Contact::new(ContactParts {
            uri: &format!("sip:device{number}@{address}"),
            parameters: "",
            q_milli: None,
            call_id: &format!("{number:016x}@busyhour.test"),
            path: "",
            user_agent: "phone 1.0",
            flow: Flow {
                transport: Transport::Udp,
                remote: address.parse().expect("an address"),
                local: "10.255.255.255:5060".parse().expect("an address"),
                connection: 0,
                node: 0,
            },
        }),
        lease: Lease {
            cseq: 1,
            granted_s: 3600,
            expires_at: UnixTime::from_nanos(end.as_nanos() as u64),
            removed: false,
        },
    })
}

pub fn unix_now() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

const BATCH: u64 = 10_000;
