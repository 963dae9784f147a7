//! Who owns what in a cluster: the transactions of `busyhour_cluster::Tables` as SQL.
//!
//! Times are the database's. The connection is apart from the one that writes, so that a commit
//! that waits for a standby does not keep the lease from being renewed.

use super::{PostgresOptions, cluster_schema, session};
use crate::StoreError;
use busyhour_cluster::{
    Failure, Grant, InUse, Life, Member, NodeNumber, NodeView, Ownership, Partition, PartitionView,
    Timing, View,
};
use postgres::{Client, Error, Row, Statement, Transaction, error::SqlState};
use thiserror::Error;

/// A node's connection for leases and owners.
///
/// Each method is one transaction. While the database is away each call tries to connect again,
/// which takes as long as the URL's `connect_timeout` at most.
///
/// ```no_run
/// use busyhour_cluster::Timing;
/// use busyhour_store::{PostgresOptions, PostgresOwnership};
///
/// let options = PostgresOptions::new("postgres://busyhour@localhost/busyhour")?;
/// let mut ownership = PostgresOwnership::open(options, Timing::default())?;
/// let member = ownership.join("alpha")?;
/// println!("{} nodes", ownership.beat(member)?.nodes.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PostgresOwnership {
    options: PostgresOptions,
    timing: Timing,
    session: Option<OwnershipSession>,
}

/// The connection, with what each beat asks, and what moves partitions.
struct OwnershipSession {
    client: Client,
    beat: Statement,
    take: Statement,
    give: Statement,
}

/// Why a server cannot join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// Somebody lives under this name.
    #[error(transparent)]
    InUse(#[from] InUse),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PostgresOwnership {
    /// Connects, and makes the tables of a cluster if there are none.
    ///
    /// # Errors
    ///
    /// When there is no connection, or a server without a cluster holds the database.
    pub fn open(options: PostgresOptions, timing: Timing) -> Result<Self, StoreError> {
        let session = connect(&options)?;
        Ok(Self {
            options,
            timing,
            session: Some(session),
        })
    }

    /// A text that all nodes of this cluster know, and nobody who cannot read the database.
    ///
    /// # Errors
    ///
    /// When the database cannot be used.
    pub fn secret(&mut self) -> Result<String, StoreError> {
        let session = connected(&mut self.session, &self.options)?;
        let row = session.client.query_one(SECRET, &[]);
        let text = row.and_then(|row| row.try_get(0));
        text.map_err(|error| self.options.failed(&error))
    }

    /// Begins a new life of the node with this name.
    ///
    /// # Errors
    ///
    /// While the lease of its last life is current or a commit of it is on its way, and when the
    /// database cannot be used.
    pub fn join(&mut self, name: &str) -> Result<Member, JoinError> {
        self.join_as(name, false)
    }

    /// As [`join`](Self::join), and marks the member as draining in the same transaction: nothing is assigned to a program
    /// that cannot serve it yet, until it says that it can ([`undrain`](Self::undrain)).
    ///
    /// # Errors
    ///
    /// As for [`join`](Self::join).
    pub fn join_draining(&mut self, name: &str) -> Result<Member, JoinError> {
        self.join_as(name, true)
    }

    fn join_as(&mut self, name: &str, is_draining: bool) -> Result<Member, JoinError> {
        let lease_ms = self.lease_ms();
        let session = connected(&mut self.session, &self.options)?;
        let joined = transact(session, |transaction| {
            let joined = join(transaction, name, lease_ms)?;
            if let Some(member) = joined.filter(|_| is_draining) {
                transaction.execute(DRAIN, &[&number(member), &epoch(member)])?;
            }
            Ok(joined)
        });
        match joined {
            Ok(Some(member)) => Ok(member),
            Ok(None) => Err(InUse.into()),
            Err(error) if is_locked(&error) => Err(InUse.into()),
            Err(error) => {
                self.session = None;
                Err(self.options.failed(&error).into())
            }
        }
    }

    /// Renews a member's lease and reads everything.
    ///
    /// # Errors
    ///
    /// When its life is over, and when the database gives no answer.
    pub fn beat(&mut self, member: Member) -> Result<View, Failure> {
        let lease_ms = self.lease_ms();
        self.ask_session(|session| {
            let OwnershipSession { client, beat, .. } = session;
            let row = client.query_one(beat, &[&number(member), &epoch(member), &lease_ms])?;
            view(&row, member).map(|view| view.ok_or(Failure::LifeOver))
        })
    }

    /// Ends the life of another member whose lease is not current. `false` if that may not be
    /// done now.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over; and when the database gives no answer, or a commit of the
    /// other member is on its way for longer than half a second.
    pub fn fence(&mut self, by: Member, other: Member) -> Result<bool, Failure> {
        let lease_ms = self.lease_ms();
        self.ask(|transaction| {
            let lived = transaction.query_opt(LIVED, &[&number(by), &epoch(by), &lease_ms])?;
            let Some(lived) = lived else {
                return Ok(Err(Failure::LifeOver));
            };
            let is_ended = lived.try_get(0)? && end(transaction, other, lease_ms)?;
            Ok(Ok(is_ended))
        })
    }

    /// Makes a member the owner of partitions that are orphans and have the epochs that it has
    /// seen. Returns what it was granted.
    ///
    /// # Errors
    ///
    /// When its life is over, and when the database gives no answer.
    pub fn take(&mut self, by: Member, seen: &[Grant]) -> Result<Vec<Grant>, Failure> {
        let (partitions, epochs) = columns(seen);
        self.ask_session(|session| {
            let OwnershipSession { client, take, .. } = session;
            let row = client.query_one(take, &[&number(by), &epoch(by), &partitions, &epochs])?;
            moved(&row).map(|granted| granted.ok_or(Failure::LifeOver))
        })
    }

    /// Makes another living member the owner of what is granted to `by`. Returns those of the grants
    /// with which that was done: none if it does not live, and none that does not hold.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over, and when the database gives no answer.
    pub fn give(
        &mut self,
        by: Member,
        grants: &[Grant],
        to: Member,
    ) -> Result<Vec<Grant>, Failure> {
        let (partitions, epochs) = columns(grants);
        self.ask_session(|session| {
            let OwnershipSession { client, give, .. } = session;
            let (giver, taker) = (number(by), number(to));
            let row = client.query_one(
                give,
                &[&giver, &epoch(by), &partitions, &epochs, &taker, &epoch(to)],
            )?;
            moved(&row).map(|given| given.ok_or(Failure::LifeOver))
        })
    }

    /// Marks a member as draining, so that nothing is assigned to it.
    ///
    /// # Errors
    ///
    /// When its life is over, and when the database gives no answer.
    pub fn drain(&mut self, member: Member) -> Result<(), Failure> {
        self.change(member, DRAIN)
    }

    /// Lets a member be assigned partitions again.
    ///
    /// # Errors
    ///
    /// When its life is over, and when the database gives no answer.
    pub fn undrain(&mut self, member: Member) -> Result<(), Failure> {
        self.change(member, UNDRAIN)
    }

    /// Lets a partition be assigned to a node from now on while that lives; `None` lets it be
    /// assigned as the others are.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over, and when the database gives no answer.
    pub fn pin(
        &mut self,
        by: Member,
        partition: Partition,
        to: Option<NodeNumber>,
    ) -> Result<(), Failure> {
        self.ask(|transaction| {
            if !is_living(transaction, by)? {
                return Ok(Err(Failure::LifeOver));
            }
            let (partition, to) = (i16::from(partition.0), to.map(|to| to.0.cast_signed()));
            transaction.execute(PIN, &[&partition, &to])?;
            Ok(Ok(()))
        })
    }

    /// Ends a member's own life.
    ///
    /// # Errors
    ///
    /// When it is over already, and when the database gives no answer.
    pub fn leave(&mut self, member: Member) -> Result<(), Failure> {
        self.change(member, LEAVE)
    }

    fn change(&mut self, member: Member, sql: &str) -> Result<(), Failure> {
        self.ask(|transaction| {
            let changed = transaction.execute(sql, &[&number(member), &epoch(member)])?;
            Ok((changed == 1).then_some(()).ok_or(Failure::LifeOver))
        })
    }

    fn ask<T>(
        &mut self,
        run: impl FnOnce(&mut Transaction<'_>) -> Result<Result<T, Failure>, Error>,
    ) -> Result<T, Failure> {
        self.ask_session(|session| transact(session, run))
    }

    /// Runs a transaction. After an error nobody knows whether it was done, and the connection is
    /// closed, since what it was asked for may still be on its way.
    fn ask_session<T>(
        &mut self,
        run: impl FnOnce(&mut OwnershipSession) -> Result<Result<T, Failure>, Error>,
    ) -> Result<T, Failure> {
        let session = connected(&mut self.session, &self.options).map_err(|_| Failure::Away)?;
        run(session).unwrap_or_else(|error| {
            if !is_locked(&error) {
                let reason = super::options::reason(&error);
                tracing::warn!(reason, "the database did not answer for the cluster");
                self.session = None;
            }
            Err(Failure::Away)
        })
    }

    fn lease_ms(&self) -> f64 {
        self.timing.lease.as_secs_f64() * 1e3
    }
}

impl Ownership for PostgresOwnership {
    fn beat(&mut self, member: Member) -> Result<View, Failure> {
        self.beat(member)
    }

    fn fence(&mut self, by: Member, other: Member) -> Result<bool, Failure> {
        self.fence(by, other)
    }

    fn take(&mut self, by: Member, seen: &[Grant]) -> Result<Vec<Grant>, Failure> {
        self.take(by, seen)
    }

    fn give(&mut self, by: Member, grants: &[Grant], to: Member) -> Result<Vec<Grant>, Failure> {
        self.give(by, grants, to)
    }

    fn drain(&mut self, member: Member) -> Result<(), Failure> {
        self.drain(member)
    }

    fn undrain(&mut self, member: Member) -> Result<(), Failure> {
        self.undrain(member)
    }

    fn pin(
        &mut self,
        by: Member,
        partition: Partition,
        to: Option<NodeNumber>,
    ) -> Result<(), Failure> {
        self.pin(by, partition, to)
    }

    fn leave(&mut self, member: Member) -> Result<(), Failure> {
        self.leave(member)
    }
}

fn transact<T>(
    session: &mut OwnershipSession,
    run: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut transaction = session.client.transaction()?;
    let done = run(&mut transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn connected<'c>(
    session: &'c mut Option<OwnershipSession>,
    options: &PostgresOptions,
) -> Result<&'c mut OwnershipSession, StoreError> {
    match session {
        Some(session) => Ok(session),
        None => Ok(session.insert(connect(options)?)),
    }
}

fn connect(options: &PostgresOptions) -> Result<OwnershipSession, StoreError> {
    let wrap = |error| options.failed(&error);
    let mut client = options.connect()?;
    cluster_schema::make(&mut client, options)?;
    session::lock_with_others(&mut client, options)?;
    client.batch_execute(SESSION).map_err(wrap)?;
    let beat = client.prepare(BEAT).map_err(wrap)?;
    let [take, give] = [TAKE, GIVE].map(|sql| client.prepare(sql).map_err(wrap));
    Ok(OwnershipSession {
        beat,
        take: take?,
        give: give?,
        client,
    })
}

/// Whether a row was locked for too long; then nothing was done.
fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

fn join(
    transaction: &mut Transaction<'_>,
    name: &str,
    lease_ms: f64,
) -> Result<Option<Member>, Error> {
    transaction.batch_execute(PATIENCE)?;
    // Two nodes with new names must not get one number.
    transaction.batch_execute(LOCK_JOINS)?;
    let Some(row) = transaction.query_opt(JOIN, &[&name, &lease_ms])? else {
        return Ok(None);
    };
    let joined = member(row.try_get(0)?, row.try_get(1)?);
    transaction.execute(BEGIN_COMMITS, &[&number(joined), &epoch(joined)])?;
    Ok(Some(joined))
}

/// Ends the life of a member, unless its lease is current.
fn end(transaction: &mut Transaction<'_>, other: Member, lease_ms: f64) -> Result<bool, Error> {
    transaction.batch_execute(PATIENCE)?;
    let ended = transaction.execute(FENCE, &[&number(other), &epoch(other), &lease_ms])?;
    if ended == 1 {
        transaction.execute(END_COMMITS, &[&number(other)])?;
    }
    Ok(ended == 1)
}

/// What a beat has read, all of one moment; `None` if the life of `beaten` is over.
fn view(row: &Row, beaten: Member) -> Result<Option<View>, Error> {
    if !row.try_get(0)? {
        return Ok(None);
    }
    Ok(Some(View {
        nodes: nodes(row, beaten)?,
        partitions: partitions(row)?,
    }))
}

fn nodes(row: &Row, beaten: Member) -> Result<Vec<NodeView>, Error> {
    let (numbers, epochs): (Vec<i16>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let names: Vec<Box<str>> = row.try_get(3)?;
    let (live, current): (Vec<bool>, Vec<bool>) = (row.try_get(4)?, row.try_get(5)?);
    let draining: Vec<bool> = row.try_get(6)?;
    let members = numbers.into_iter().zip(epochs);
    let lives = live.into_iter().zip(current);
    let nodes = members.zip(names).zip(lives).zip(draining);
    let node = |(((of, name), life), is_draining): (((_, _), _), _)| {
        let (number, epoch) = of;
        let member = member(number, epoch);
        let life = match life {
            // The lease was read before it was renewed.
            _ if member == beaten => Life::Current,
            (false, _) => Life::Over,
            (true, true) => Life::Current,
            (true, false) => Life::Late,
        };
        NodeView {
            member,
            name,
            life,
            is_draining,
        }
    };
    Ok(nodes.map(node).collect())
}

fn partitions(row: &Row) -> Result<Vec<PartitionView>, Error> {
    let owners: Vec<Option<i16>> = row.try_get(7)?;
    let (owner_epochs, epochs): (Vec<i64>, Vec<i64>) = (row.try_get(8)?, row.try_get(9)?);
    let pinned: Vec<Option<i16>> = row.try_get(10)?;
    let owners = owners.into_iter().zip(owner_epochs);
    let partition = |(((owner, owner_epoch), epoch), pinned): (((Option<i16>, _), i64), _)| {
        let pinned: Option<i16> = pinned;
        PartitionView {
            owner: owner.map(|node| member(node, owner_epoch)),
            epoch: epoch.cast_unsigned(),
            pinned: pinned.map(|node| NodeNumber(node.cast_unsigned())),
        }
    };
    Ok(owners.zip(epochs).zip(pinned).map(partition).collect())
}

/// What was taken or given; `None` if the life of who asked for that is over.
fn moved(row: &Row) -> Result<Option<Vec<Grant>>, Error> {
    if !row.try_get(0)? {
        return Ok(None);
    }
    let (partitions, epochs): (Vec<i16>, Vec<i64>) = (row.try_get(1)?, row.try_get(2)?);
    let grants = partitions.into_iter().zip(epochs);
    let grant = |(partition, epoch): (i16, i64)| Grant {
        partition: Partition(partition.to_le_bytes()[0]),
        epoch: epoch.cast_unsigned(),
    };
    Ok(Some(grants.map(grant).collect()))
}

/// Whether a member lives; its life cannot end before the transaction does.
fn is_living(transaction: &mut Transaction<'_>, member: Member) -> Result<bool, Error> {
    let row = transaction.query_opt(LIVES, &[&number(member), &epoch(member)])?;
    Ok(row.is_some())
}

fn member(node: i16, epoch: i64) -> Member {
    Member {
        node: NodeNumber(node.cast_unsigned()),
        epoch: epoch.cast_unsigned(),
    }
}

fn number(member: Member) -> i16 {
    member.node.0.cast_signed()
}

fn epoch(member: Member) -> i64 {
    member.epoch.cast_signed()
}

/// Grants as columns of a statement.
pub(super) fn columns(grants: &[Grant]) -> (Vec<i16>, Vec<i64>) {
    let column = |grant: &Grant| (i16::from(grant.partition.0), grant.epoch.cast_signed());
    grants.iter().map(column).unzip()
}

const SECRET: &str = "SELECT value FROM setting WHERE kind = 'server' AND name = 'route-key'";
/// A node that stands still within a transaction must not keep others from ending its life.
const SESSION: &str = "SET synchronous_commit = on; SET statement_timeout = '5s'; \
    SET idle_in_transaction_session_timeout = '1s'";
/// A commit of a node that waits for a standby holds its row.
const PATIENCE: &str = "SET LOCAL lock_timeout = '500ms'";
const LOCK_JOINS: &str = "SELECT pg_advisory_xact_lock(1651864442, hashtext(current_schema()))";
/// A lease is current if it ends between now and a lease time from now.
const JOIN: &str = "INSERT INTO cluster_node AS old (node, name, epoch, lease_until, lease_since) \
    SELECT coalesce(max(node), 0) + 1, $1, 1, \
    clock_timestamp() + $2 * interval '1 millisecond', clock_timestamp() FROM cluster_node \
    ON CONFLICT (name) DO UPDATE SET epoch = old.epoch + 1, is_draining = FALSE, \
    lease_until = excluded.lease_until, lease_since = excluded.lease_since \
    WHERE NOT coalesce(old.lease_until > clock_timestamp() AND \
    old.lease_until <= clock_timestamp() + $2 * interval '1 millisecond', FALSE) \
    RETURNING node, epoch";
const BEGIN_COMMITS: &str = "INSERT INTO cluster_fence (node, epoch, groups) VALUES ($1, $2, 0) \
    ON CONFLICT (node) DO UPDATE SET epoch = excluded.epoch, groups = 0";
/// Renews the lease and reads everything, as it was right before that, in one statement: a node that stands still meanwhile
/// holds no lock. Its commit is not waited for, since its loss ends a lease early, which is safe.
const BEAT: &str = "WITH beaten AS (UPDATE cluster_node SET \
    lease_since = CASE WHEN lease_until > clock_timestamp() AND \
    lease_until <= clock_timestamp() + $3 * interval '1 millisecond' \
    THEN lease_since ELSE clock_timestamp() END, \
    lease_until = clock_timestamp() + $3 * interval '1 millisecond' \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL RETURNING node), \
    nodes AS (SELECT array_agg(node) AS node, array_agg(epoch) AS epoch, array_agg(name) AS name, \
    array_agg(lease_until IS NOT NULL) AS lives, array_agg(coalesce(lease_until > clock_timestamp() AND \
    lease_until <= clock_timestamp() + $3 * interval '1 millisecond', FALSE)) AS is_current, \
    array_agg(is_draining) AS is_draining FROM (SELECT node, epoch, name, lease_until, is_draining \
    FROM cluster_node ORDER BY node) AS each), \
    partitions AS (SELECT array_agg(owner) AS owner, array_agg(owner_epoch) AS owner_epoch, \
    array_agg(epoch) AS epoch, array_agg(pinned) AS pinned \
    FROM (SELECT owner, owner_epoch, epoch, pinned FROM cluster_partition ORDER BY partition) AS each) \
    SELECT EXISTS (SELECT FROM beaten), nodes.node, nodes.epoch, nodes.name, nodes.lives, nodes.is_current, \
    nodes.is_draining, partitions.owner, partitions.owner_epoch, partitions.epoch, partitions.pinned, \
    set_config('synchronous_commit', 'off', true) FROM nodes, partitions";
/// Whether a member may judge others.
const LIVED: &str = "SELECT lease_until > clock_timestamp() AND \
    lease_until <= clock_timestamp() + $3 * interval '1 millisecond' AND \
    lease_since + $3 * interval '1 millisecond' <= clock_timestamp() \
    FROM cluster_node WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL";
const FENCE: &str = "UPDATE cluster_node SET epoch = epoch + 1, lease_until = NULL \
    WHERE node = $1 AND epoch = $2 AND NOT (lease_until > clock_timestamp() AND \
    lease_until <= clock_timestamp() + $3 * interval '1 millisecond')";
/// Waits for the commit that is on its way; later ones find another epoch.
const END_COMMITS: &str = "UPDATE cluster_fence SET epoch = epoch + 1 WHERE node = $1";
const LIVES: &str = "SELECT 1 FROM cluster_node \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL FOR SHARE";
/// Whether the taker lives, which it does until the end of this, and what it has been granted. Owners that were dead when the
/// statement began are dead for ever, and a partition that another one has taken meanwhile has another epoch.
const TAKE: &str = "WITH taker AS (SELECT FROM cluster_node \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL FOR SHARE), \
    taken AS (UPDATE cluster_partition AS taken SET owner = $1, owner_epoch = $2, \
    epoch = taken.epoch + 1 FROM unnest($3::smallint[], $4::bigint[]) AS seen (partition, epoch) \
    WHERE taken.partition = seen.partition AND taken.epoch = seen.epoch AND NOT EXISTS ( \
    SELECT FROM cluster_node WHERE node = taken.owner AND cluster_node.epoch = taken.owner_epoch \
    AND lease_until IS NOT NULL) AND EXISTS (SELECT FROM taker) RETURNING taken.partition, taken.epoch) \
    SELECT EXISTS (SELECT FROM taker), \
    coalesce((SELECT array_agg(partition) FROM taken), '{}'), \
    coalesce((SELECT array_agg(epoch) FROM taken), '{}')";
/// Whether the giver lives, and the epochs with which it has given; both members live until the end of it. In one statement, so
/// one round trip and one wait for the disk: while partitions move, nobody serves them.
const GIVE: &str = "WITH giver AS (SELECT FROM cluster_node \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL FOR SHARE), \
    taker AS (SELECT FROM cluster_node \
    WHERE node = $5 AND epoch = $6 AND lease_until IS NOT NULL FOR SHARE), \
    given AS (UPDATE cluster_partition AS given SET owner = $5, owner_epoch = $6, \
    epoch = given.epoch + 1 FROM unnest($3::smallint[], $4::bigint[]) AS seen (partition, epoch) \
    WHERE given.partition = seen.partition AND given.epoch = seen.epoch \
    AND given.owner = $1 AND given.owner_epoch = $2 \
    AND EXISTS (SELECT FROM giver) AND EXISTS (SELECT FROM taker) \
    RETURNING given.partition, seen.epoch) \
    SELECT EXISTS (SELECT FROM giver), \
    coalesce((SELECT array_agg(partition) FROM given), '{}'), \
    coalesce((SELECT array_agg(epoch) FROM given), '{}')";
const PIN: &str = "UPDATE cluster_partition SET pinned = $2 WHERE partition = $1";
const DRAIN: &str = "UPDATE cluster_node SET is_draining = TRUE \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL";
const UNDRAIN: &str = "UPDATE cluster_node SET is_draining = FALSE \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL";
const LEAVE: &str = "UPDATE cluster_node SET epoch = epoch + 1, lease_until = NULL \
    WHERE node = $1 AND epoch = $2 AND lease_until IS NOT NULL";
