//! A connection that may write, with what it needs for that.

use super::{
    PostgresOptions, call_records,
    fencing_token::{Counted, FencingToken},
    group::{Group, Statements, remove_ended},
    load, location_view, schema,
};
use crate::{
    Account, AccountKey, AccountNews, CallRecordLimits, Change, Durability, StoreError,
    queue::Batch,
};
use busyhour_cluster::Grant;
use busyhour_registrar::EndedBinding;
use postgres::Client;
use std::{collections::BTreeSet, time::Duration};

/// A connection that holds the database's lock.
pub(super) struct Session {
    client: Client,
    statements: Statements,
}

/// What became of a group.
pub(super) enum Outcome {
    /// It is durable: the revisions of accounts before and after, when it changed some.
    Written(Option<(u64, u64)>),
    /// It was durable already, and later changes of others stay.
    WrittenBefore,
    /// It is not written, and nothing else will be: another server has the database.
    TakenOver,
    /// It is not written: other nodes have these partitions.
    NotOurs(Vec<Grant>),
}

impl Session {
    /// The first session of a server, which takes the database over.
    pub(super) fn first(options: &PostgresOptions) -> Result<(Self, FencingToken), StoreError> {
        let wrap = |error| options.failed(&error);
        let mut client = options.connect()?;
        schema::migrate(&mut client, options)?;
        lock(&mut client, options)?;
        // This commit is always synchronous, whatever the durability of other commits.
        client.batch_execute(SYNCHRONOUS).map_err(wrap)?;
        let fencing_token = FencingToken::begin(&mut client, options.member).map_err(wrap)?;
        location_view::set(&mut client, options.location_view).map_err(wrap)?;
        Ok((Self::new(client, options)?, fencing_token))
    }

    /// A later session, for as long as no other server took the database over.
    pub(super) fn open(
        options: &PostgresOptions,
        fencing_token: &FencingToken,
    ) -> Result<Self, StoreError> {
        let mut client = options.connect()?;
        schema::migrate(&mut client, options)?;
        // Checked before the lock: a server that took the database over may hold the
        // lock for years.
        let lasts = fencing_token.lasts(&mut client);
        if !lasts.map_err(|error| options.failed(&error))? {
            let path = options.path();
            return Err(StoreError::TakenOver { path });
        }
        lock(&mut client, options)?;
        Self::new(client, options)
    }

    fn new(mut client: Client, options: &PostgresOptions) -> Result<Self, StoreError> {
        let wrap = |error| options.failed(&error);
        let synchronous = match options.durability {
            Durability::Full => SYNCHRONOUS,
            Durability::Process => "SET synchronous_commit = off",
        };
        client.batch_execute(synchronous).map_err(wrap)?;
        if options.member.is_some() {
            client.batch_execute(END_IF_IDLE).map_err(wrap)?;
        }
        let count = FencingToken::count_sql(options.member);
        let statements = Statements::prepare(&mut client, count).map_err(wrap)?;
        Ok(Self { client, statements })
    }

    /// Writes a group in one transaction, if it is still our turn.
    pub(super) fn transact(
        &mut self,
        batches: &[Batch],
        fencing_token: &mut FencingToken,
    ) -> Result<Outcome, postgres::Error> {
        let changes = || batches.iter().flat_map(|batch| &batch.changes);
        let group = Group::of(changes());
        let grants: BTreeSet<Grant> = batches.iter().filter_map(|batch| batch.grant).collect();
        let grants: Vec<Grant> = grants.into_iter().collect();
        let bindings = &self.statements.bindings;
        if group.is_of_bindings() {
            let counted = fencing_token.count(&mut self.client, bindings, &group, &grants)?;
            return Ok(outcome_of(counted, fencing_token, None));
        }
        let mut transaction = self.client.transaction()?;
        let is_of_accounts = changes().any(Change::is_of_account);
        let counted = fencing_token.count(&mut transaction, bindings, &group, &grants)?;
        if counted != Counted::Now {
            return Ok(outcome_of(counted, fencing_token, None));
        }
        let from = match is_of_accounts {
            true => Some(load::revision(&mut transaction, load::REVISION_LOCKED)?),
            false => None,
        };
        group.write_rest(&mut transaction, &self.statements)?;
        let to = match is_of_accounts {
            true => Some(load::revision(&mut transaction, load::REVISION)?),
            false => None,
        };
        transaction.commit()?;
        Ok(outcome_of(counted, fencing_token, from.zip(to)))
    }

    /// Deletes ended rows, if it is still our turn. They are not counted as a group,
    /// since nothing depends on whether their COMMIT succeeded.
    pub(super) fn purge(
        &mut self,
        batch: &[EndedBinding],
        fencing_token: &FencingToken,
    ) -> Result<Outcome, postgres::Error> {
        let mut transaction = self.client.transaction()?;
        if !fencing_token.holds(&mut transaction)? {
            return Ok(Outcome::TakenOver);
        }
        let member = fencing_token.member();
        remove_ended(&mut transaction, &self.statements, batch, member)?;
        transaction.commit()?;
        Ok(Outcome::Written(None))
    }

    /// Deletes a batch of old records of calls in the same way.
    pub(super) fn remove_old_call_records(
        &mut self,
        limits: CallRecordLimits,
        fencing_token: &FencingToken,
    ) -> Result<(Outcome, usize), postgres::Error> {
        let mut transaction = self.client.transaction()?;
        if !fencing_token.holds(&mut transaction)? {
            return Ok((Outcome::TakenOver, 0));
        }
        let removed = call_records::remove_old(&mut transaction, limits)?;
        transaction.commit()?;
        Ok((Outcome::Written(None), removed))
    }

    pub(super) fn revision(&mut self) -> Result<u64, postgres::Error> {
        load::revision(&mut self.client, &self.statements.account_revision)
    }

    /// The changes of accounts since the revision `known`, and the current revision.
    /// `None` if there are too many.
    pub(super) fn news(
        &mut self,
        known: u64,
    ) -> Result<(Option<Vec<AccountNews>>, u64), postgres::Error> {
        load::news(&mut self.client, known)
    }

    /// Some of all accounts, behind `after`.
    pub(super) fn accounts(
        &mut self,
        after: Option<&AccountKey>,
    ) -> Result<Vec<Account>, postgres::Error> {
        load::batch(&mut self.client, after)
    }

    /// Whether it can still be talked to; asked after an error.
    pub(super) fn is_alive(&mut self) -> bool {
        !self.client.is_closed() && self.client.is_valid(ANSWER_TIME_MAX).is_ok()
    }
}

/// What the count of a group says of the group, now that its transaction has ended.
fn outcome_of(
    counted: Counted,
    fencing_token: &mut FencingToken,
    revisions: Option<(u64, u64)>,
) -> Outcome {
    match counted {
        Counted::Now => {
            fencing_token.counted();
            Outcome::Written(revisions)
        }
        Counted::Before => {
            fencing_token.counted();
            Outcome::WrittenBefore
        }
        Counted::ByAnother => Outcome::TakenOver,
        Counted::NotOurs(grants) => Outcome::NotOurs(grants),
    }
}

fn lock(client: &mut Client, options: &PostgresOptions) -> Result<(), StoreError> {
    match options.member {
        None => try_lock(client, options, LOCK),
        Some(_) => lock_with_others(client, options),
    }
}

/// As a node of a cluster: other nodes may have the database, too, but no server alone.
pub(super) fn lock_with_others(
    client: &mut Client,
    options: &PostgresOptions,
) -> Result<(), StoreError> {
    try_lock(client, options, LOCK_WITH_OTHERS)
}

fn try_lock(client: &mut Client, options: &PostgresOptions, lock: &str) -> Result<(), StoreError> {
    let wrap = |error| options.failed(&error);
    let row = client.query_one(lock, &[]).map_err(wrap)?;
    if row.try_get::<_, bool>(0).map_err(wrap)? {
        return Ok(());
    }
    let (path, pid) = (options.path(), None);
    Err(StoreError::InUse { path, pid })
}

/// The session holds the lock, so it ends with the session. The first number stands for
/// this program, the second for the schema, since one database may have several
/// schemas.
const LOCK: &str = "SELECT pg_try_advisory_lock(1651864440, hashtext(current_schema()))";
const LOCK_WITH_OTHERS: &str =
    "SELECT pg_try_advisory_lock_shared(1651864440, hashtext(current_schema()))";
/// A node that stands still within a transaction must not keep others from taking over.
const END_IF_IDLE: &str = "SET idle_in_transaction_session_timeout = '1s'";
const SYNCHRONOUS: &str = "SET synchronous_commit = on";
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
