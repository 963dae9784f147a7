//! A connection that may write, with what it needs for that.

use super::{
    PostgresOptions,
    group::{Group, Statements},
    load, schema,
};
use crate::store::{Account, Change, Durability, StoreError, queue::Batch};
use postgres::Client;
use std::time::Duration;

/// A connection that holds the database's lock.
pub(super) struct Session {
    client: Client,
    statements: Statements,
}

impl Session {
    /// Connects, brings the schema up to date, takes the lock.
    pub(super) fn open(options: &PostgresOptions) -> Result<Self, StoreError> {
        let mut client = options.connect()?;
        let wrap = |error| options.failed(&error);
        schema::migrate(&mut client, options)?;
        let row = client.query_one(LOCK, &[]).map_err(wrap)?;
        if !row.try_get::<_, bool>(0).map_err(wrap)? {
            let (path, pid) = (options.path(), None);
            return Err(StoreError::InUse { path, pid });
        }
        let synchronous = match options.durability {
            Durability::Full => "SET synchronous_commit = on",
            Durability::Process => "SET synchronous_commit = off",
        };
        client.batch_execute(synchronous).map_err(wrap)?;
        let statements = Statements::prepare(&mut client).map_err(wrap)?;
        Ok(Self { client, statements })
    }

    /// Writes a group in one transaction. The revisions of accounts before and
    /// after, when it changes some.
    pub(super) fn transact(
        &mut self,
        batches: &[Batch],
    ) -> Result<Option<(u64, u64)>, postgres::Error> {
        let changes = || batches.iter().flat_map(|batch| &batch.changes);
        let group = Group::of(changes());
        let mut transaction = self.client.transaction()?;
        let is_of_accounts = changes().any(Change::is_of_account);
        let from = match is_of_accounts {
            true => Some(load::revision(&mut transaction, load::REVISION_LOCKED)?),
            false => None,
        };
        group.write(&mut transaction, &self.statements)?;
        let to = match is_of_accounts {
            true => Some(load::revision(&mut transaction, load::REVISION)?),
            false => None,
        };
        transaction.commit()?;
        Ok(from.zip(to))
    }

    pub(super) fn revision(&mut self) -> Result<u64, postgres::Error> {
        load::revision(&mut self.client, load::REVISION)
    }

    pub(super) fn accounts(&mut self) -> Result<(Vec<Account>, u64), postgres::Error> {
        load::accounts(&mut self.client)
    }

    /// Whether it can still be talked to; asked after an error.
    pub(super) fn is_alive(&mut self) -> bool {
        !self.client.is_closed() && self.client.is_valid(ANSWER_TIME_MAX).is_ok()
    }
}

/// Held by the session, and so gone with it. The number is for us, and the
/// schema's for those who keep several in one database.
const LOCK: &str = "SELECT pg_try_advisory_lock(1651864440, hashtext(current_schema()))";
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
