//! Changes for testing stores.

use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, EndedBinding, Lease};
use busyhour_sip::{Flow, Transport, auth::Secret};
use busyhour_store::{Account, AccountNews, Change, CommitError, Store, StoredBinding};
use std::sync::mpsc;

/// Commits a batch and waits for its result.
pub fn commit(store: &dyn Store, changes: Vec<Change>) -> Result<(), CommitError> {
    let (told, fate) = mpsc::channel();
    let done = move |outcome| told.send(outcome).unwrap();
    store.commit(changes, Box::new(done)).unwrap();
    fate.recv().unwrap()
}

/// What a store reports about accounts, in the order of the reports.
pub fn follow(store: &dyn Store) -> mpsc::Receiver<AccountNews> {
    let (told, news) = mpsc::channel();
    let revision = store.load().unwrap().account_revision;
    // The receiver may have been dropped before the store.
    let listener = move |one| drop(told.send(one));
    store.watch_accounts(revision, Box::new(listener));
    news
}

pub fn put(id: u64, cseq: u32) -> Change {
    Change::Binding(BindingChange::Put {
        id: BindingId(id),
        aor: aor(id),
        contact: contact(id),
        lease: lease(cseq),
    })
}

pub fn renew(id: u64, cseq: u32) -> Change {
    Change::Binding(BindingChange::Renew {
        id: BindingId(id),
        lease: lease(cseq),
    })
}

/// A binding whose lease ends at the second `until`.
pub fn put_until(id: u64, until: u64) -> Change {
    Change::Binding(BindingChange::Put {
        id: BindingId(id),
        aor: aor(id),
        contact: contact(id),
        lease: lease_until(until),
    })
}

pub fn renew_until(id: u64, until: u64) -> Change {
    Change::Binding(BindingChange::Renew {
        id: BindingId(id),
        lease: lease_until(until),
    })
}

pub fn ended(id: u64, until: u64) -> EndedBinding {
    EndedBinding {
        id: BindingId(id),
        expires_at: lease_until(until).expires_at,
    }
}

/// The second at which a binding's lease ends.
pub fn until(row: &StoredBinding) -> u64 {
    row.lease.expires_at.as_nanos() / 1_000_000_000
}

fn lease_until(until: u64) -> Lease {
    Lease {
        expires_at: UnixTime::from_secs(until),
        ..lease(1)
    }
}

pub fn remove(id: u64) -> Change {
    Change::Binding(BindingChange::Remove { id: BindingId(id) })
}

pub fn aor(number: u64) -> Box<str> {
    format!("sip:user{number}@example.com").into()
}

pub fn contact(number: u64) -> Contact {
    with_user_agent(number, "phone")
}

pub fn with_user_agent(number: u64, user_agent: &str) -> Contact {
    Contact::new(ContactParts {
        uri: &format!("sip:user{number}@192.0.2.1:5062"),
        parameters: ";+sip.instance=\"<urn:uuid:0>\"",
        q_milli: (number % 2 == 1).then_some(500),
        call_id: "call",
        path: "",
        user_agent,
        flow: Flow {
            transport: Transport::Tcp,
            remote: "[2001:db8::1]:5062".parse().unwrap(),
            local: "192.0.2.2:5060".parse().unwrap(),
            connection: 0,
            node: 0,
        },
    })
}

pub fn lease(cseq: u32) -> Lease {
    Lease {
        cseq,
        granted_s: 3600,
        expires_at: UnixTime::from_secs(1_800_000_000),
        removed: cseq > 5,
    }
}

pub fn account(username: &str) -> Account {
    Account {
        username: username.into(),
        realm: "example.com".into(),
        secret: Secret::hashes_of(username, "example.com", "wonder"),
        contacts_max: Some(3),
        mailbox: Some("100".into()),
        hints: vec!["200".into(), "201".into()],
        aliases: vec!["sales".into(), "sales@example.org".into()],
        watchers: Some(vec!["@example.org".into()]),
        is_disabled: true,
    }
}

pub fn remove_account(username: &str) -> Change {
    Change::RemoveAccount {
        username: username.into(),
        realm: "example.com".into(),
    }
}
