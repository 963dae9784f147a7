//! What every durable store must do.

use crate::call_records::{
    old_records_of_calls_are_removed_by_count_and_age,
    records_of_calls_are_found_by_page_user_time_and_outcome,
    records_of_calls_are_read_as_they_were_written,
};
use crate::sample::{
    account, aor, commit, contact, ended, follow, lease, put, put_until, remove, remove_account,
    renew, renew_until, until, with_user_agent,
};
use crate::support::{random::Random, wait_until};
use busyhour::clock::UnixTime;
use busyhour_registrar::BindingId;
use busyhour_sip::auth::Secret;
use busyhour_store::{
    Account, AccountAdmin, AccountNews, Change, CommitError, Refused, SettingKind, SoftState,
    SoftStateKind, Store,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A database that is empty at first and can be opened again.
pub trait Database {
    /// Opens a store whose queue has room for `queue_capacity` changes.
    fn open(&self, queue_capacity: usize) -> Box<dyn Store>;

    /// Waits until nothing is queued and no expired row is left.
    fn settle(&self, store: &dyn Store) {
        wait_until(
            || store.stats().queued_len + store.stats().ended_len == 0,
            || format!("{:?}", store.stats()),
        );
    }

    /// Lets the disk do one operation, if it does none by itself.
    fn step(&self) {
        thread::yield_now();
    }

    /// Ends a store and opens it again; returns it with the acknowledged
    /// changes. Expired rows that were not removed yet stay.
    fn reopen(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        drop(store);
        self.open(ROOM)
    }

    /// The accounts, opened as a command does.
    fn book(&self) -> Box<dyn AccountAdmin>;
}

type Test = fn(&dyn Database);

/// Every test with its name; each gets a database of its own.
pub const TESTS: &[(&str, Test)] = &[
    ("reload", committed_changes_are_loaded_again),
    (
        "fold",
        of_many_changes_of_a_binding_in_a_group_the_last_counts,
    ),
    ("soft", soft_states_are_stored_replaced_and_removed),
    ("odd", odd_characters_do_no_harm),
    ("accounts", accounts_are_added_changed_and_removed),
    (
        "told",
        changes_of_accounts_are_reported_before_their_completion,
    ),
    (
        "tool",
        changes_by_a_command_are_noticed_also_beside_the_stores_own,
    ),
    (
        "many",
        after_many_changes_by_a_command_all_accounts_are_reported,
    ),
    (
        "batches",
        a_change_waits_for_at_most_one_batch_of_reported_accounts,
    ),
    (
        "tokens",
        changed_tokens_are_reported_between_batches_of_accounts,
    ),
    ("sequence", batches_complete_in_order_and_share_transactions),
    ("full", a_full_queue_refuses_and_counts),
    ("closed", a_closed_store_has_drained_and_refuses),
    ("ended", only_the_lease_that_ended_is_removed),
    ("late", late_removals_keep_leases_renewed_meanwhile),
    ("run", each_server_that_opens_it_is_counted),
    ("records", records_of_calls_are_read_as_they_were_written),
    (
        "found",
        records_of_calls_are_found_by_page_user_time_and_outcome,
    ),
    ("old", old_records_of_calls_are_removed_by_count_and_age),
];

const ROOM: usize = 65_536;

fn committed_changes_are_loaded_again(database: &dyn Database) {
    let hint = |value: &str| Change::PutSetting {
        kind: SettingKind::Hint,
        name: "100".into(),
        value: value.into(),
    };
    let mailbox = |name: &str| Change::PutSetting {
        kind: SettingKind::Mailbox,
        name: name.into(),
        value: "{}".into(),
    };
    let forget = Change::RemoveSetting {
        kind: SettingKind::Mailbox,
        name: "200".into(),
    };
    {
        let store = database.open(ROOM);
        let account = Change::from(account("alice"));
        let bindings = vec![put(1, 1), put(2, 1), account];
        commit(&*store, bindings).unwrap();
        let settings = vec![hint("alice"), mailbox("100"), mailbox("200"), hint("bob")];
        commit(&*store, settings).unwrap();
        commit(&*store, vec![renew(1, 9), remove(2), forget]).unwrap();
    }
    let contents = database.open(ROOM).load().unwrap();
    assert_eq!(contents.bindings.len(), 1);
    assert_eq!(contents.bindings[0].id, BindingId(1));
    assert_eq!(contents.bindings[0].contact, contact(1));
    assert_eq!(contents.bindings[0].lease, lease(9));
    assert_eq!(contents.accounts, [account("alice")]);
    let settings = contents.settings.iter();
    let settings = settings.map(|((kind, name), value)| (*kind, &**name, &**value));
    assert!(settings.eq([
        (SettingKind::Mailbox, "100", "{}"),
        (SettingKind::Hint, "100", "bob"),
    ]));
}

fn soft_states_are_stored_replaced_and_removed(database: &dyn Database) {
    let row = |id: u64, value: &str, until: u64| SoftState {
        id: BindingId(id),
        kind: SoftStateKind::from_name(["subscription", "publication"][id as usize % 2]).unwrap(),
        value: value.into(),
        granted_s: 3600,
        expires_at: UnixTime::from_secs(until),
    };
    let put = |id, value, until| Change::PutSoftState(row(id, value, until));
    let store = database.open(ROOM);
    commit(
        &*store,
        vec![put(4, "a", 100), put(5, "b", 100), put(5, "c", 200)],
    )
    .unwrap();
    commit(&*store, vec![put(6, "d", 300), put(7, "e", 300)]).unwrap();
    let gone = Change::RemoveSoftState(BindingId(7));
    commit(&*store, vec![put(6, "f", 400), gone, renew(1, 1)]).unwrap();
    // The first lease has ended; the second was prolonged meanwhile, so its row
    // stays.
    store.purge(&[ended(4, 100), ended(5, 100)]);
    database.settle(&*store);
    let store = database.reopen(store);
    let kept = store.load().unwrap().soft_states;
    assert_eq!(kept, [row(5, "c", 200), row(6, "f", 400)]);
}

/// Reading does not count as opening, and a command is no server.
fn each_server_that_opens_it_is_counted(database: &dyn Database) {
    let store = database.open(ROOM);
    let first = store.load().unwrap().run;
    assert_eq!((first > 0, store.load().unwrap().run), (true, first));
    let store = database.reopen(store);
    let second = store.load().unwrap().run;
    assert!(second > first);
    database.book().all().unwrap();
    let store = database.reopen(store);
    assert_eq!(store.load().unwrap().run - second, second - first);
}

fn of_many_changes_of_a_binding_in_a_group_the_last_counts(database: &dyn Database) {
    let store = database.open(ROOM);
    let changes = vec![
        put(1, 1),
        renew(1, 2),
        renew(1, 3),
        put(2, 1),
        renew(2, 2),
        remove(2),
        put(3, 1),
        put(3, 4),
    ];
    commit(&*store, changes).unwrap();
    let bindings = store.load().unwrap().bindings;
    let seen: Vec<(u64, u32)> = bindings
        .iter()
        .map(|one| (one.id.0, one.lease.cseq))
        .collect();
    assert_eq!(seen, [(1, 3), (3, 4)]);
    assert_eq!(bindings[0].contact.q_milli(), Some(500));
}

fn odd_characters_do_no_harm(database: &dyn Database) {
    let store = database.open(ROOM);
    let odd = with_user_agent(7, "\"'\\ {NULL} \u{1f4de} \0");
    let odd = Change::Binding(busyhour_registrar::BindingChange::Put {
        id: BindingId(7),
        aor: aor(7),
        contact: odd,
        lease: lease(1),
    });
    commit(&*store, vec![odd, put(8, 1)]).unwrap();
    let bindings = store.load().unwrap().bindings;
    assert_eq!(bindings.len(), 2);
    assert!(
        bindings[0]
            .contact
            .user_agent()
            .starts_with("\"'\\ {NULL} \u{1f4de} ")
    );
}

fn accounts_are_added_changed_and_removed(database: &dyn Database) {
    let store = database.open(ROOM);
    let plain = Account {
        secret: Secret::plaintext("kept for IAX2"),
        contacts_max: None,
        mailbox: None,
        hints: Vec::new(),
        aliases: Vec::new(),
        watchers: None,
        is_disabled: false,
        ..account("bob")
    };
    commit(&*store, vec![Change::from(account("bob"))]).unwrap();
    commit(&*store, vec![Change::from(plain.clone())]).unwrap();
    assert_eq!(store.load().unwrap().accounts, [plain]);
    commit(
        &*store,
        vec![remove_account("bob"), remove_account("nobody")],
    )
    .unwrap();
    assert!(store.load().unwrap().accounts.is_empty());
}

fn changes_of_accounts_are_reported_before_their_completion(database: &dyn Database) {
    let store = database.open(ROOM);
    let news = follow(&*store);
    commit(&*store, vec![Change::from(account("carol"))]).unwrap();
    assert_eq!(news.try_recv(), Ok(AccountNews::Put(account("carol"))));
    commit(&*store, vec![put(1, 1), remove_account("carol")]).unwrap();
    assert_eq!(news.try_recv(), Ok(removed("carol")));
    assert!(
        news.try_recv().is_err(),
        "a binding is not reported as an account"
    );
}

fn changes_by_a_command_are_noticed_also_beside_the_stores_own(database: &dyn Database) {
    let store = database.open(ROOM);
    let news = follow(&*store);
    let mut tool = database.book();
    tool.put(&[account("dave"), account("erin")]).unwrap();
    let put = |name| AccountNews::Put(account(name));
    let told: Vec<AccountNews> = news.iter().take(2).collect();
    assert_eq!(told, [put("dave"), put("erin")]);
    assert!(tool.remove("dave", "example.com").unwrap());
    assert!(!tool.remove("dave", "example.com").unwrap());
    assert_eq!(tool.all().unwrap(), [account("erin")]);
    commit(&*store, vec![Change::from(account("frank"))]).unwrap();
    // The news come before the result of the store's own change, or together
    // with it, but not after it.
    let told: Vec<AccountNews> = news.try_iter().collect();
    assert_eq!(told, [removed("dave"), put("frank")]);
}

fn after_many_changes_by_a_command_all_accounts_are_reported(database: &dyn Database) {
    let store = database.open(ROOM);
    let news = follow(&*store);
    let mut tool = database.book();
    let accounts: Vec<Account> = (0..2500).map(|n| account(&format!("{n:04}"))).collect();
    tool.put(&accounts).unwrap();
    let mut told = Vec::new();
    loop {
        let AccountNews::Range(range) = news.recv().unwrap() else {
            panic!("one of these accounts");
        };
        assert_eq!(range.after.map(|key| key.username), last_of(&told));
        told.extend(range.accounts);
        match range.until {
            Some(key) => assert_eq!(Some(key.username), last_of(&told)),
            None => break,
        }
    }
    assert_eq!(told, accounts);
    let changed = [Account {
        mailbox: None,
        ..account("0005")
    }];
    tool.put(&changed).unwrap();
    let [changed] = changed;
    assert_eq!(news.recv().unwrap(), AccountNews::Put(changed));
}

fn last_of(accounts: &[Account]) -> Option<String> {
    accounts.last().map(|account| account.username.clone())
}

/// A change offered while the first batch of accounts is reported is durable
/// before the second batch is read, and the store's own change of an account is
/// reported by then.
fn a_change_waits_for_at_most_one_batch_of_reported_accounts(database: &dyn Database) {
    let store: Arc<dyn Store> = Arc::from(database.open(ROOM));
    let (told, news) = mpsc::channel();
    let batches = Arc::new(AtomicUsize::new(0));
    let (weak, counted) = (Arc::downgrade(&store), batches.clone());
    let (done, durable_after) = mpsc::channel();
    let listener = move |one: AccountNews| {
        if matches!(one, AccountNews::Range(_)) && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            let (done, counted) = (done.clone(), counted.clone());
            let done = move |fate: Result<(), CommitError>| {
                fate.unwrap();
                done.send(counted.load(Ordering::SeqCst)).unwrap();
            };
            let changes = vec![put(1, 1), Change::from(account("frank"))];
            let store = weak.upgrade().expect("the test has it");
            store.commit(changes, Box::new(done)).unwrap();
        }
        // The receiver may have been dropped before the store.
        drop(told.send(one));
    };
    let revision = store.load().unwrap().account_revision;
    store.watch_accounts(revision, Box::new(listener));
    let accounts: Vec<Account> = (0..2500).map(|n| account(&format!("{n:04}"))).collect();
    database.book().put(&accounts).unwrap();

    assert_eq!(durable_after.recv().unwrap(), 1);
    let is_last = |one: &AccountNews| matches!(one, AccountNews::Range(r) if r.until.is_none());
    let told: Vec<AccountNews> = news.iter().take(4).collect();
    assert_eq!(told[1], AccountNews::Put(account("frank")));
    assert!(is_last(&told[3]), "{:?}", told[3]);
    let stats = store.stats();
    assert_eq!(stats.account_portion_len_max, 1000);
    assert!(stats.account_portions >= 3, "{stats:?}");
}

/// A report of a batch of accounts takes two seconds. Meanwhile a look for changed tokens
/// becomes due, and the next look for changed accounts is eight seconds away. A command
/// changes tokens: this is reported between batches, before the next look for accounts.
fn changed_tokens_are_reported_between_batches_of_accounts(database: &dyn Database) {
    let store = database.open(ROOM);
    let (told, tokens) = mpsc::channel();
    store.watch_settings(
        SettingKind::Token,
        Box::new(move |rows| drop(told.send(rows.clone()))),
    );
    assert!(tokens.recv_timeout(PATIENCE).unwrap().is_empty());
    let (batch_told, batches) = mpsc::channel();
    let (go_on, ends) = mpsc::channel::<Instant>();
    let ends = Mutex::new(ends);
    let listener = move |news| {
        if let AccountNews::Range(range) = news {
            let _nobody_asks = batch_told.send(range.until.is_none());
            // A report takes until then; the next one takes until the test ends
            // it.
            if let Ok(end) = ends.lock().unwrap().recv_timeout(PATIENCE) {
                thread::sleep(end.saturating_duration_since(Instant::now()));
            }
        }
    };
    let revision = store.load().unwrap().account_revision;
    store.watch_accounts(revision, Box::new(listener));
    let mut tool = database.book();
    let accounts: Vec<Account> = (0..2500).map(|n| account(&format!("{n:04}"))).collect();
    tool.put(&accounts).unwrap();

    let is_last = batches.recv_timeout(PATIENCE).unwrap();
    assert!(!is_last, "the first of three");
    tool.put_setting(SettingKind::Token, "shop", "{}").unwrap();
    go_on.send(Instant::now() + 2 * LOOK_PERIOD).unwrap();
    let rows = tokens.recv_timeout(PATIENCE).unwrap();
    assert!(rows.contains_key("shop"));
    let is_scan_over = batches.try_iter().any(|is_last| is_last);
    assert!(!is_scan_over, "the change was reported between batches");
    drop(go_on);
    while !batches.recv_timeout(PATIENCE).unwrap() {}
    tool.remove_setting(SettingKind::Token, "shop").unwrap();
    let rows = tokens.recv_timeout(7 * LOOK_PERIOD);
    assert!(
        rows.expect("it was reported well before accounts are read again")
            .is_empty()
    );
}

/// How often a store looks for changes by other programs.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn removed(username: &str) -> AccountNews {
    AccountNews::Removed {
        username: username.into(),
        realm: "example.com".into(),
    }
}

fn batches_complete_in_order_and_share_transactions(database: &dyn Database) {
    let store = database.open(ROOM);
    let (told, order) = mpsc::channel();
    for number in 0..2_000_u64 {
        let told = told.clone();
        let done = move |fate: Result<(), CommitError>| told.send((number, fate)).unwrap();
        store.commit(vec![put(number, 1)], Box::new(done)).unwrap();
    }
    for expected in 0..2_000 {
        assert_eq!(order.recv().unwrap(), (expected, Ok(())));
    }
    let stats = store.stats();
    assert_eq!((stats.committed, stats.queued_len), (2_000, 0));
    assert!(stats.transactions < 2_000, "{stats:?}");
    assert!(stats.transaction_len_max > 1, "{stats:?}");
}

fn a_full_queue_refuses_and_counts(database: &dyn Database) {
    let store = database.open(2);
    let never =
        Box::new(|_: Result<(), CommitError>| panic!("the result of a refused batch was reported"));
    let too_many = vec![put(1, 1), put(2, 1), put(3, 1)];
    assert_eq!(store.commit(too_many, never), Err(Refused::Full));
    assert_eq!(store.stats().refused, 1);
}

fn a_closed_store_has_drained_and_refuses(database: &dyn Database) {
    let store = database.open(ROOM);
    let (told, fate) = mpsc::channel();
    let done = move |outcome: Result<(), CommitError>| told.send(outcome).unwrap();
    store.commit(vec![put(1, 1)], Box::new(done)).unwrap();
    assert!(store.close(Duration::from_secs(60)));
    assert_eq!(fate.recv().unwrap(), Ok(()));
    let late = store.commit(vec![put(2, 1)], Box::new(|_| ()));
    assert_eq!(late, Err(Refused::Closed));
    assert_eq!(store.load().unwrap().bindings.len(), 1);
}

fn only_the_lease_that_ended_is_removed(database: &dyn Database) {
    let store = database.open(ROOM);
    commit(
        &*store,
        vec![put_until(1, 10), put_until(2, 10), put_until(3, 10)],
    )
    .unwrap();
    commit(&*store, vec![renew_until(2, 20)]).unwrap();
    store.purge(&[ended(1, 10), ended(2, 10), ended(3, 9), ended(4, 10)]);
    database.settle(&*store);
    let seen: Vec<u64> = store
        .load()
        .unwrap()
        .bindings
        .iter()
        .map(|one| one.id.0)
        .collect();
    assert_eq!(seen, [2, 3]);
    assert_eq!(store.stats().ended_removed, 4, "all results were checked");
    assert_eq!(store.stats().ended_high_water, 4);
}

/// Runs [`race`] for some steps.
fn late_removals_keep_leases_renewed_meanwhile(database: &dyn Database) {
    race(database, &mut Random::new(), 1_000);
}

/// Leases are granted, renewed and ended in any order; their rows are removed some
/// time later, and sometimes the store ends before that. At the end, every
/// acknowledged lease that has not ended is there, and no other.
pub fn race(database: &dyn Database, random: &mut Random, steps: u64) {
    let seed = random.seed;
    let mut store = database.open(ROOM);
    let mut leases: BTreeMap<u64, Lease> = BTreeMap::new();
    for now in 1..=steps {
        let id = random.below(IDS) as u64;
        match (leases.get_mut(&id), random.below(1000)) {
            (_, 0..2) => {
                store = database.reopen(store);
                forget_what_is_over(&*store, &leases);
            }
            (_, 2..4) => database.settle(&*store),
            (_, 4..200) => database.step(),
            (Some(lease), 200..600) if !lease.is_over => {
                // A lease can only end after it was acknowledged.
                while !lease.is_acknowledged.load(Ordering::Acquire) {
                    database.step();
                }
                store.purge(&[ended(id, lease.until)]);
                lease.is_over = true;
            }
            (lease, _) => {
                let change = match lease.is_some_and(|lease| !lease.is_over) {
                    true => renew_until(id, now),
                    false => put_until(id, now),
                };
                leases.insert(id, Lease::offered(&*store, change, now));
            }
        }
    }
    database.settle(&*store);
    let rows = store.load().unwrap().bindings;
    let rows: BTreeMap<u64, u64> = rows.iter().map(|one| (one.id.0, until(one))).collect();
    let living = leases.iter().filter(|(_, lease)| !lease.is_over);
    let living: BTreeMap<u64, u64> = living.map(|(id, lease)| (*id, lease.until)).collect();
    assert_eq!(rows, living, "seed {seed}");
}

/// The last lease of a binding.
struct Lease {
    until: u64,
    is_acknowledged: Arc<AtomicBool>,
    is_over: bool,
}

impl Lease {
    fn offered(store: &dyn Store, change: Change, until: u64) -> Self {
        let is_acknowledged: Arc<AtomicBool> = Arc::default();
        let acknowledged = is_acknowledged.clone();
        let done = move |fate: Result<(), CommitError>| {
            fate.expect("the store accepts changes");
            acknowledged.store(true, Ordering::Release);
        };
        store.commit(vec![change], Box::new(done)).expect("room");
        Self {
            until,
            is_acknowledged,
            is_over: false,
        }
    }
}

/// Removes expired rows, as a server does when it starts.
fn forget_what_is_over(store: &dyn Store, leases: &BTreeMap<u64, Lease>) {
    for row in &store.load().unwrap().bindings {
        let last = &leases[&row.id.0];
        assert_eq!(
            until(row),
            last.until,
            "the change that was acknowledged last"
        );
        if last.is_over {
            store.purge(&[ended(row.id.0, last.until)]);
        }
    }
}

const IDS: usize = 100;
