//! Who owns what, in a real PostgreSQL: the same as in `busyhour_cluster::Tables`, and what only a
//! database with several connections can show.

use crate::{
    postgres::Url,
    proxy::{Proxy, Way},
    sample::{commit, lease, put, renew},
    suite::Database,
    support::{postgres::Postgres, random::Random},
};
use busyhour::clock::{Instant, UnixTime};
use busyhour_cluster::{Failure, Grant, Life, Member, NodeNumber, Partition, Tables, Timing, View};
use busyhour_registrar::BindingId;
use busyhour_store::{
    Change, CommitError, JoinError, PostgresOwnership, PostgresStore, SoftState, SoftStateKind,
    Store, StoreError, StoredBinding,
};
use std::{sync::mpsc, time::Duration};

/// Random transactions of three nodes, on a clock that also jumps, have the same results in
/// PostgreSQL and in the tables that the model runs.
#[test]
fn postgres_has_the_rules_of_the_model() {
    let postgres = Postgres::start();
    let url = postgres.database("rules");
    give_it_a_clock(&postgres, "rules");
    Comparison::new(&url).run(600);
}

/// PostgreSQL looks for functions in its own catalogue last, and finds this one before.
fn give_it_a_clock(postgres: &Postgres, name: &str) {
    for sql in [
        "CREATE TABLE test_clock (now TIMESTAMPTZ)",
        "INSERT INTO test_clock VALUES ('epoch')",
        "CREATE FUNCTION clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE sql VOLATILE \
            AS 'SELECT now FROM public.test_clock'",
        &format!("ALTER DATABASE {name} SET search_path = public, pg_catalog"),
    ] {
        postgres.sql(name, sql);
    }
}

/// PostgreSQL ends a transaction whose client does nothing for a second, as where it gets no processor, and undoes it. So what
/// was asked for is asked for again; if it had been done after all, its answer would be another one.
fn answered<T>(mut ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 0..ASKED_AGAIN_MAX {
        match ask() {
            Err(Failure::Away) => {}
            answer => return answer,
        }
    }
    ask()
}

struct Comparison {
    random: Random,
    tables: Tables,
    ownership: PostgresOwnership,
    clock: postgres::Client,
    now: Instant,
    /// Every life that there was.
    members: Vec<Member>,
    view: View,
}

impl Comparison {
    fn new(url: &str) -> Self {
        let options = Url(url.into()).options();
        let ownership = PostgresOwnership::open(options, TIMING).unwrap();
        let (tables, now) = (Tables::new(TIMING), Instant::from_nanos(1_000_000_000));
        let mut comparison = Self {
            random: Random::new(),
            view: tables.view(now),
            tables,
            ownership,
            clock: postgres::Client::connect(url, postgres::NoTls).unwrap(),
            now,
            members: Vec::new(),
        };
        comparison.set_clock();
        comparison
    }

    fn run(&mut self, steps: usize) {
        self.join();
        for step in 0..steps {
            match self.random.below(21) {
                0..=5 => self.pass_time(),
                6 => self.join(),
                7..=10 => self.beat(),
                11 | 12 => self.fence(),
                13..=15 => self.take(),
                16..=18 => self.give(),
                19 => self.pin(),
                _ => self.leave(),
            }
            self.look(step);
        }
        let owned = self.view.partitions.iter().filter(|found| found.epoch > 1);
        assert!(owned.count() > 1, "too little has happened");
    }

    /// Now and then the clock is set, forward or back.
    fn pass_time(&mut self) {
        let by = Duration::from_millis(self.random.below(15) as u64 * 100);
        self.now = match self.random.below(12) {
            0 => Instant::from_nanos((1 + self.random.below(60) as u64) * 1_000_000_000),
            _ => self.now + by,
        };
        self.set_clock();
    }

    fn set_clock(&mut self) {
        let seconds = self.now.as_nanos() as f64 / 1e9;
        let set = "UPDATE test_clock SET now = to_timestamp($1)";
        self.clock.execute(set, &[&seconds]).unwrap();
    }

    fn join(&mut self) {
        let name = ["alpha", "beta", "gamma"][self.random.below(3)];
        let is_starting = self.random.below(2) == 0;
        let expected = self.tables.join(self.now, name);
        if let (Ok(member), true) = (&expected, is_starting) {
            self.tables.drain(*member).unwrap();
        }
        let found = match is_starting {
            true => self.ownership.join_draining(name),
            false => self.ownership.join(name),
        };
        let found = match found {
            Ok(member) => Ok(member),
            Err(JoinError::InUse(error)) => Err(error),
            Err(JoinError::Store(error)) => panic!("{error}"),
        };
        assert_eq!(found, expected);
        self.members.extend(found);
    }

    fn pin(&mut self) {
        let (member, partition) = (self.member(), Partition(self.random.below(256) as u8));
        let to = [None, Some(NodeNumber(1)), Some(NodeNumber(2))][self.random.below(3)];
        let expected = self.tables.pin(member, partition, to);
        let found = answered(|| self.ownership.pin(member, partition, to));
        assert_eq!(found, expected);
    }

    fn beat(&mut self) {
        let member = self.member();
        let expected = self.tables.beat(self.now, member);
        assert_eq!(answered(|| self.ownership.beat(member)), expected);
    }

    fn fence(&mut self) {
        let (by, other) = (self.member(), self.member());
        let expected = self.tables.fence(self.now, by, other);
        assert_eq!(answered(|| self.ownership.fence(by, other)), expected);
    }

    fn take(&mut self) {
        let by = self.member();
        let seen = self.grants();
        let expected = self.tables.take(self.now, by, &seen);
        let found = answered(|| self.ownership.take(by, &seen));
        assert_eq!(sorted(found), sorted(expected));
    }

    fn give(&mut self) {
        let (grants, to) = (self.grants(), self.member());
        let owner = self.view.partitions[grants[0].partition.index()].owner;
        let by = owner.unwrap_or_else(|| self.member());
        let expected = self.tables.give(by, &grants, to);
        let found = answered(|| self.ownership.give(by, &grants, to));
        assert_eq!(sorted(found), sorted(expected));
    }

    fn leave(&mut self) {
        let member = self.member();
        let (found, expected) = match self.random.below(5) {
            3 | 4 => (
                answered(|| self.ownership.undrain(member)),
                self.tables.undrain(member),
            ),
            0 => (
                answered(|| self.ownership.leave(member)),
                self.tables.leave(member),
            ),
            _ => (
                answered(|| self.ownership.drain(member)),
                self.tables.drain(member),
            ),
        };
        assert_eq!(found, expected);
    }

    /// What a node that lives reads is all that there is.
    fn look(&mut self, step: usize) {
        self.view = self.tables.view(self.now);
        let living = self.view.nodes.iter().map(|node| node.member);
        let Some(member) = living
            .clone()
            .find(|one| self.tables.clone().drain(*one).is_ok())
        else {
            return self.join();
        };
        self.view = self.tables.beat(self.now, member).unwrap();
        let found = answered(|| self.ownership.beat(member));
        assert_eq!(found.as_ref(), Ok(&self.view), "step {step}");
    }

    /// A life, old or new; lives that go on are asked for more often.
    fn member(&mut self) -> Member {
        let living: Vec<Member> = self.view.nodes.iter().map(|node| node.member).collect();
        let is_any = self.random.below(4) == 0 || living.is_empty();
        let from = if is_any { self.members.clone() } else { living };
        from[self.random.below(from.len())]
    }

    /// Some partitions with their epochs.
    fn grants(&mut self) -> Vec<Grant> {
        let mut grants: Vec<Grant> = (0..4).map(|_| self.grant()).collect();
        grants.sort();
        grants.dedup_by_key(|grant| grant.partition);
        grants
    }

    /// A partition with its epoch, or an older one.
    fn grant(&mut self) -> Grant {
        let partition = Partition([0, 1, 100, 255][self.random.below(4)]);
        let epoch = self.view.partitions[partition.index()].epoch;
        let older = u64::from(self.random.below(5) == 0);
        Grant {
            partition,
            epoch: epoch.saturating_sub(older),
        }
    }
}

/// The database answers in no order.
fn sorted(grants: Result<Vec<Grant>, Failure>) -> Result<Vec<Grant>, Failure> {
    grants.map(|mut grants| {
        grants.sort();
        grants
    })
}

/// The database is another server's, or a cluster's, never both.
#[test]
fn a_server_alone_and_a_cluster_exclude_each_other() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("alone"));
    let open = || PostgresOwnership::open(url.options(), TIMING);
    let alone = url.open(8);
    assert!(matches!(open(), Err(StoreError::InUse { .. })));
    drop(alone);
    let (mut first, mut second) = (open().unwrap(), open().unwrap());
    let (alpha, beta) = (first.join("alpha").unwrap(), second.join("beta").unwrap());
    assert_ne!(alpha.node, beta.node);
    assert!(matches!(second.join("alpha"), Err(JoinError::InUse(_))));
    let mut options = url.options();
    options.lock_patience = Duration::ZERO;
    let error = PostgresStore::open(options).err().unwrap();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
}

/// Many nodes take everything at once: each partition has one owner.
#[test]
fn nodes_that_take_at_once_share_the_partitions() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("race"));
    let mut nodes: Vec<(PostgresOwnership, Member)> = (0..4)
        .map(|node| {
            let mut ownership = PostgresOwnership::open(url.options(), TIMING).unwrap();
            let member = ownership.join(&format!("node {node}")).unwrap();
            (ownership, member)
        })
        .collect();
    let seen: Vec<Grant> = (0..=255)
        .map(|number| Grant {
            partition: Partition(number),
            epoch: 0,
        })
        .collect();
    let granted: Vec<Vec<Grant>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (nodes.iter_mut())
            .map(|(ownership, member)| scope.spawn(|| taken(ownership, *member, &seen)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut all: Vec<Grant> = granted.concat();
    all.sort();
    let expected: Vec<Grant> = seen
        .iter()
        .map(|seen| Grant { epoch: 1, ..*seen })
        .collect();
    assert_eq!(all, expected);
}

/// In eight portions, so that the nodes meet; after a deadlock it is asked again, as a node does.
fn taken(ownership: &mut PostgresOwnership, member: Member, seen: &[Grant]) -> Vec<Grant> {
    let take = |portion: &[Grant]| loop {
        match ownership.take(member, portion) {
            Ok(granted) => break granted,
            Err(Failure::Away) => {}
            Err(error) => panic!("{error}"),
        }
    };
    seen.chunks(32).map(take).collect::<Vec<_>>().concat()
}

/// A node writes what it was granted, and nothing else; what is refused takes nothing with it.
#[test]
fn a_commit_is_written_only_with_its_grant() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("grants"));
    let mut alpha = Living::join(&url, "alpha");
    let beta = Living::join(&url, "beta");
    let [first, second] = alpha.take([7, 8]);
    let store = alpha.store(&url);
    assert_eq!(granted(&store, first, vec![put(1, 1)]), Ok(()));
    assert_eq!(granted(&store, second, vec![put(2, 1)]), Ok(()));
    assert_eq!(
        alpha.ownership.give(alpha.member, &[second], beta.member),
        Ok(vec![second])
    );
    // Both are in one group, or not; only one of them is written in any case.
    let (told, fates) = mpsc::channel();
    for (grant, change) in [(first, renew(1, 2)), (second, renew(2, 2))] {
        let told = told.clone();
        let done = move |outcome: Result<(), CommitError>| told.send((grant, outcome)).unwrap();
        store
            .commit_granted(grant, vec![change], Box::new(done))
            .unwrap();
    }
    let mut fates = [fates.recv().unwrap(), fates.recv().unwrap()];
    fates.sort_by_key(|(grant, _)| *grant);
    assert_eq!(fates[0], (first, Ok(())));
    let error = fates[1].1.as_ref().unwrap_err().to_string();
    assert_eq!(error, "another node has this partition");
    let bindings = rows(&store);
    assert_eq!(
        bindings.iter().map(|one| one.lease).collect::<Vec<_>>(),
        [lease(2), lease(1)]
    );
    // An epoch that was ours before is not ours now.
    let older = Grant {
        epoch: first.epoch - 1,
        ..first
    };
    assert!(granted(&store, older, vec![renew(1, 3)]).is_err());
    assert_eq!(granted(&store, first, vec![renew(1, 3)]), Ok(()));
    // What belongs to no partition needs no grant.
    assert_eq!(commit(&store, vec![put(9, 1)]), Ok(()));
}

/// A subscription can end at the node that gives its partition away, and the next owner has it from its row.
#[test]
fn a_node_removes_no_rows_of_a_partition_that_it_has_given_away() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("removed"));
    let mut alpha = Living::join(&url, "alpha");
    let beta = Living::join(&url, "beta");
    let devices = ["sip:alice@example.com", "sip:bob@example.com"];
    let partitions = devices.map(Partition::of);
    let [kept, given] = alpha.take(partitions.map(|it| it.0));
    let (kept, given) = match kept.partition == partitions[0] {
        true => (kept, given),
        false => (given, kept),
    };
    let store = alpha.store(&url);
    let rows = [1, 2].map(|id| subscription(id, devices[id as usize - 1]));
    for (grant, row) in [kept, given].into_iter().zip(rows.clone()) {
        assert_eq!(
            granted(&store, grant, vec![Change::PutSoftState(row)]),
            Ok(())
        );
    }
    let gave = alpha.ownership.give(alpha.member, &[given], beta.member);
    assert_eq!(gave, Ok(vec![given]));
    store.purge(&rows.map(|row| row.ended()));
    while store.stats().ended_removed < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let read = partitions.map(|partition| Grant {
        partition,
        epoch: 0,
    });
    let left = store.load_partitions(&read).unwrap().soft_states;
    let left: Vec<u64> = left.iter().map(|row| row.id.0).collect();
    assert_eq!(left, [2]);
}

/// One portion after the other comes, and each new connection costs the database more than a portion.
#[test]
fn partitions_are_read_over_one_connection_until_the_store_rests_or_the_database_ends_it() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("read"));
    let mut alpha = Living::join(&url, "alpha");
    let grants = alpha.take([1, 2]);
    let store = alpha.store(&url);
    let mut watch = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
    let mut readers = || {
        let rows = watch.query(READERS, &[]).unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>()
    };
    let mut read_over = || {
        assert!(store.load_partitions(&grants).is_ok());
        let [reader] = readers()[..] else {
            panic!("one connection");
        };
        reader
    };
    let first = read_over();
    assert_eq!(read_over(), first);
    postgres.sql(
        "read",
        &format!("SELECT pg_terminate_backend({first}, 5000)"),
    );
    let second = read_over();
    assert_ne!(second, first);
    store.close_partition_reader();
    let given_up_at = std::time::Instant::now() + Duration::from_secs(10);
    while !readers().is_empty() {
        assert!(std::time::Instant::now() < given_up_at, "it is open still");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As a primary that another one has replaced.
#[test]
fn partitions_are_not_read_from_a_database_that_does_not_know_who_was_granted_them() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("behind"));
    let mut alpha = Living::join(&url, "alpha");
    let [granted] = alpha.take([1]);
    let store = alpha.store(&url);
    assert!(store.load_partitions(&[granted]).is_ok());
    let later = Grant {
        epoch: granted.epoch + 1,
        ..granted
    };
    let refused = store.load_partitions(&[later]).unwrap_err().to_string();
    assert!(
        refused.contains("earlier owner of partition 1"),
        "{refused}"
    );
    postgres.sql("behind", "UPDATE cluster_partition SET epoch = epoch + 1");
    assert!(store.load_partitions(&[later]).is_ok());
}

/// Sessions whose last statement was the end of such a reading.
const READERS: &str = "SELECT pid FROM pg_stat_activity WHERE query = 'ROLLBACK' \
    AND datname = current_database() AND pid <> pg_backend_pid()";

fn subscription(id: u64, device: &str) -> SoftState {
    SoftState {
        id: BindingId(id),
        kind: SoftStateKind::Subscription,
        value: format!(r#"{{"device":"{device}"}}"#).into(),
        granted_s: 600,
        expires_at: UnixTime::from_nanos(1_900_000_000_000_000_000),
    }
}

/// A node that stops for longer than its lease writes nothing any more.
#[test]
fn a_node_that_others_declared_dead_writes_nothing() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("dead"));
    let mut alpha = Living::join(&url, "alpha");
    let mut beta = Living::join(&url, "beta");
    let [grant] = alpha.take([7]);
    let store = alpha.store(&url);
    let (told, end) = mpsc::channel();
    store.watch_end(Box::new(move |error| told.send(error).unwrap()));
    assert_eq!(granted(&store, grant, vec![put(1, 1)]), Ok(()));
    beta.fence_until_dead(alpha.member);
    let [taken] = beta.take_seen([grant]);
    let heir = beta.store(&url);
    assert_eq!(granted(&heir, taken, vec![renew(1, 2)]), Ok(()));
    assert!(granted(&store, grant, vec![renew(1, 3)]).is_err());
    assert!(
        end.recv()
            .unwrap()
            .to_string()
            .contains("another server has taken it over")
    );
    assert_eq!(rows(&heir)[0].lease, lease(2));
    // It comes back as a new life, and may write what it is granted then.
    let mut again = Living::join(&url, "alpha");
    assert_eq!(again.member.node, alpha.member.node);
    let [other] = again.take([9]);
    assert_eq!(granted(&again.store(&url), other, vec![put(3, 1)]), Ok(()));
}

/// A commit on its way holds up the end of its node, and nobody's lease.
#[test]
fn a_node_is_not_ended_in_the_middle_of_its_commit() {
    let postgres = Postgres::start();
    let url = Url(postgres.database("middle"));
    let mut alpha = Living::join(&url, "alpha");
    let mut beta = Living::join(&url, "beta");
    let [grant] = alpha.take([7]);
    let mut session = postgres::Client::connect(&url.0, postgres::NoTls).unwrap();
    let mut commit = session.transaction().unwrap();
    let advance = "UPDATE cluster_fence SET groups = groups + 1 WHERE node = $1";
    commit
        .execute(advance, &[&alpha.member.node.0.cast_signed()])
        .unwrap();
    // Beta may not judge before it has lived for a lease time itself.
    while beta.ownership.fence(beta.member, alpha.member) != Err(Failure::Away) {
        beta.ownership.beat(beta.member).unwrap();
        std::thread::sleep(TIMING.beat);
    }
    assert_eq!(beta.ownership.take(beta.member, &[grant]), Ok(vec![]));
    let view = beta.ownership.beat(beta.member).unwrap();
    assert_eq!(
        (view.nodes[0].life, view.nodes[1].life),
        (Life::Late, Life::Current)
    );
    commit.commit().unwrap();
    beta.fence_until_dead(alpha.member);
    assert_eq!(beta.take_seen([grant]), [Grant { epoch: 2, ..grant }]);
}

/// The answer to COMMIT is lost: the group is written once, by the same count as alone.
#[test]
fn a_group_of_a_node_is_not_written_twice() {
    let postgres = Postgres::start();
    let proxy = Proxy::to(postgres.socket());
    let url = Url(postgres.database("answer"));
    let mut alpha = Living::join(&url, "alpha");
    let [grant] = alpha.take([7]);
    let store = alpha.store(&Url(proxy.url("answer")));
    assert_eq!(granted(&store, grant, vec![put(1, 1)]), Ok(()));
    proxy.set(Way::OpenUntilCommit);
    let (told, fate) = mpsc::channel();
    let done = move |outcome| told.send(outcome).unwrap();
    store
        .commit_granted(grant, vec![renew(1, 2)], Box::new(done))
        .unwrap();
    proxy.wait_for_a_lost_answer();
    proxy.cut(Way::Open);
    assert_eq!(fate.recv().unwrap(), Ok(()));
    postgres.sql(
        "answer",
        "DO $$ BEGIN ASSERT (SELECT groups FROM cluster_fence) = 2; END $$",
    );
    assert_eq!(granted(&store, grant, vec![renew(1, 3)]), Ok(()));
    assert_eq!(rows(&store)[0].lease, lease(3));
}

/// A node with its connection.
pub struct Living {
    pub ownership: PostgresOwnership,
    pub member: Member,
}

impl Living {
    pub fn join(url: &Url, name: &str) -> Self {
        let mut ownership = PostgresOwnership::open(url.options(), TIMING).unwrap();
        let member = ownership.join(name).unwrap();
        Self { ownership, member }
    }

    /// The next life of a node whose last one may not be over yet.
    pub fn join_when_free(url: &Url, name: &str) -> Self {
        let mut ownership = PostgresOwnership::open(url.options(), TIMING).unwrap();
        loop {
            match ownership.join(name) {
                Ok(member) => return Self { ownership, member },
                Err(JoinError::InUse(_)) => std::thread::sleep(TIMING.beat),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Partitions that nobody had before.
    pub fn take<const N: usize>(&mut self, partitions: [u8; N]) -> [Grant; N] {
        self.take_seen(partitions.map(|number| Grant {
            partition: Partition(number),
            epoch: 0,
        }))
    }

    pub fn take_seen<const N: usize>(&mut self, seen: [Grant; N]) -> [Grant; N] {
        let mut granted = self.ownership.take(self.member, &seen).unwrap();
        granted.sort();
        granted.try_into().unwrap()
    }

    pub fn store(&self, url: &Url) -> PostgresStore {
        let mut options = url.options();
        options.member = Some(self.member);
        PostgresStore::open(options).unwrap()
    }

    fn fence_until_dead(&mut self, other: Member) {
        while self.ownership.fence(self.member, other) != Ok(true) {
            self.ownership.beat(self.member).unwrap();
            std::thread::sleep(TIMING.beat);
        }
    }
}

pub fn granted(
    store: &PostgresStore,
    grant: Grant,
    changes: Vec<Change>,
) -> Result<(), CommitError> {
    let (told, fate) = mpsc::channel();
    let done = move |outcome| told.send(outcome).unwrap();
    match store.commit_granted(grant, changes, Box::new(done)) {
        Ok(()) => fate.recv().unwrap(),
        Err(refused) => Err(CommitError::new(refused.to_string())),
    }
}

const ASKED_AGAIN_MAX: usize = 5;

/// Short, so that a death does not take long; beats of a busy machine may still be late.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(2),
    beat: Duration::from_millis(400),
    margin: Duration::from_millis(200),
};

/// What all partitions have.
pub fn rows(store: &PostgresStore) -> Vec<StoredBinding> {
    let of = |number| Grant {
        partition: Partition(number),
        epoch: 0,
    };
    let all: Vec<Grant> = (0..=u8::MAX).map(of).collect();
    store.load_partitions(&all).unwrap().bindings
}
