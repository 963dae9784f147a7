//! When an account is removed, its bindings, publications and subscriptions end.

use crate::{
    Fixture,
    exchange::{digest_config, ok, proven},
    register_as, subscribe,
};
use busyhour_server::server::{Accounts, ServerConfig};
use busyhour_sip::auth::Secret;
use busyhour_store::AccountEntry;
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

#[test]
fn everything_of_an_account_ends_with_it_and_its_watchers_are_notified() {
    let (mut server, _) = served(&["bob"]);
    server.put("alice");
    server.register_proven("alice");
    server.prove(&publish(), "alice");
    let others = server.watch_as("bob", "others");
    assert!(others.contains("in a meeting"), "{others}");
    server.watch_as("alice", "own");
    assert_eq!(server.disk.contents().soft_states.len(), 3);

    let removed = Box::new(|fate: Result<_, _>| assert!(fate.is_ok()));
    server.server.remove_account("alice", removed).unwrap();
    server.settle();
    let told = server.sent();
    let of = |id: &str| one_of(&told, &format!("Call-ID: {id}\r\n"));
    let own = of("own");
    assert!(own.contains("Subscription-State: terminated;reason=rejected\r\n"));
    assert!(of("others").contains("Subscription-State: active"));
    assert!(of("others").contains("<basic>closed</basic>"), "{told:?}");
    server.receive(&ok(own));
    server.settle();
    let stats = server.stats();
    assert_eq!(
        (stats.registrar.revoked, stats.registrar.binding_count),
        (1, 0)
    );
    assert_eq!(
        (stats.publish.revoked, stats.publish.publication_count),
        (1, 0)
    );
    assert_eq!((stats.watch.revoked, stats.watch.watcher_count), (1, 1));
    assert_eq!(stats.registrar.device_count, 0);
    let stored = server.disk.contents();
    assert_eq!((stored.bindings.len(), stored.soft_states.len()), (0, 1));
}

#[test]
fn an_account_removed_while_no_server_ran_has_nothing_after_the_start() {
    let (mut server, users) = served(&["alice", "bob"]);
    server.register_proven("alice");
    server.register_proven("bob");
    server.prove(&publish(), "alice");
    server.watch_as("bob", "others");
    server.watch_as("alice", "own");
    users.lock().unwrap().remove("alice");
    server.restart(config(&users));
    server.pass(1);
    let told = server.sent();
    let own = one_of(&told, "Call-ID: own\r\n");
    assert!(own.contains("terminated;reason=rejected"), "{told:?}");
    let others = one_of(&told, "Call-ID: others\r\n");
    assert!(others.contains("<basic>closed</basic>"), "{told:?}");
    server.receive(&ok(own));
    server.settle();
    let stored = server.disk.contents();
    assert!(
        stored.bindings.iter().all(|row| row.aor.contains("bob")),
        "{stored:?}"
    );
    assert_eq!(stored.bindings.len(), 1);
    assert!(
        stored
            .soft_states
            .iter()
            .all(|row| !row.value.contains("in a meeting"))
    );
    assert_eq!(server.stats().registrar.binding_count, 1);
}

#[test]
fn a_request_admitted_before_a_removal_does_not_outlive_the_account() {
    let (mut server, users) = served(&["alice"]);
    let request = register_as("alice", 1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    let challenge = server.sent().remove(0);
    server.receive(&proven(&request, &challenge, "alice", "alice", 1));
    assert_eq!(server.sent(), [""; 0], "the change waits for the disk");
    users.lock().unwrap().remove("alice");
    server.server.accounts_changed();
    server.settle();
    assert_eq!(server.stats().registrar.binding_count, 0);
    assert!(server.disk.contents().bindings.is_empty());
    assert_eq!(server.sent().len(), 1);
    // The account is there again, and its earlier bindings are not.
    users.lock().unwrap().insert("alice".into());
    server.register_proven("alice");
    assert_eq!(server.stats().registrar.binding_count, 1);
}

#[test]
fn an_account_that_is_changed_keeps_what_it_has() {
    let (mut server, _) = served(&[]);
    server.put("alice");
    server.register_proven("alice");
    server.put("alice");
    server.server.accounts_changed();
    server.settle();
    let stats = server.stats().registrar;
    assert_eq!((stats.revoked, stats.binding_count), (0, 1));
}

/// The users who have an account; each password is the name.
type Users = Arc<Mutex<BTreeSet<String>>>;

struct Configured(Users);

impl Accounts for Configured {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let is_known = self.0.lock().unwrap().contains(username);
        is_known.then(|| Cow::Owned(Secret::plaintext(username)))
    }
}

fn served(users: &[&str]) -> (Fixture, Users) {
    let users: BTreeSet<_> = users.iter().map(|&user| user.to_owned()).collect();
    let users = Users::new(Mutex::new(users));
    (Fixture::with(config(&users)), users)
}

fn config(users: &Users) -> ServerConfig {
    ServerConfig {
        accounts: Arc::new(Configured(users.clone())),
        ..digest_config()
    }
}

impl Fixture {
    fn put(&mut self, user: &str) {
        let entry = AccountEntry {
            user: user.into(),
            password: Some(user.into()),
            ..AccountEntry::default()
        };
        let stored = Box::new(|fate: Result<_, _>| assert!(fate.is_ok()));
        self.server.put_account(entry, stored).unwrap();
        self.settle();
    }

    /// Sends a request, and again with the password; returns what is sent after
    /// that.
    fn prove(&mut self, request: &str, user: &str) -> Vec<String> {
        self.receive(request);
        let challenge = self.sent().remove(0);
        let proven = proven(request, &challenge, user, user, 1);
        self.ask(&proven.replace("branch=z9hG4bK", "branch=z9hG4bKproven"));
        let sent = self.sent();
        assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
        sent
    }

    fn register_proven(&mut self, user: &str) {
        let cseq = self.stats().registrar.challenged as u32 + 1;
        let contact = format!("Contact: <sip:{user}@192.0.2.7>");
        self.prove(&register_as(user, cseq, &contact), user);
    }

    /// Watches the presence of alice in a dialog with this Call-ID; returns the
    /// first NOTIFY.
    fn watch_as(&mut self, user: &str, id: &str) -> String {
        let request = subscribe(1, "", "Event: presence")
            .replace("Call-ID: watch", &format!("Call-ID: {id}"));
        let request = request.replace("branch=z9hG4bK", &format!("branch=z9hG4bK{id}"));
        let mut sent = self.prove(&request, user);
        self.receive(&ok(&sent[1]));
        sent.remove(1)
    }
}

#[track_caller]
fn one_of<'s>(sent: &'s [String], words: &str) -> &'s str {
    let found = sent.iter().find(|one| one.contains(words));
    found.unwrap_or_else(|| panic!("no {words:?} in {sent:?}"))
}

fn publish() -> String {
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@example.com\">\
        <tuple id=\"t\"><status><basic>open</basic></status><note>in a meeting</note></tuple></presence>";
    format!(
        "PUBLISH sip:alice@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bKpublish;rport\r\n\
         From: <sip:alice@example.com>;tag=f3\r\n\
         To: <sip:alice@example.com>\r\n\
         Call-ID: publish\r\nCSeq: 1 PUBLISH\r\nEvent: presence\r\nExpires: 600\r\n\
         Content-Type: application/pidf+xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
