//! The right to write: a number in the database that each server raises when it takes
//! the database over, and that each written group raises.
//!
//! A lock alone is not enough. A session, and with it the lock, may break while its
//! server still runs. Another server then takes the database over and acknowledges
//! registrations, and when the first one reconnects, its memory is out of date. So a
//! group is written only if the number is as the server left it. The number also shows
//! whether a COMMIT whose answer was lost has succeeded: then the group is not written
//! a second time, which would undo later changes of others.

use super::{
    group::{BindingStatements, Group},
    member_token::{self, MemberToken},
};
use busyhour_cluster::{Grant, Member};
use postgres::{Client, Error, GenericClient, Transaction};

/// Who writes: one server that has the database for itself, or a node of a cluster.
#[derive(Debug)]
pub(super) enum FencingToken {
    Alone(Turn),
    Member(MemberToken),
}

/// One server's turn, from its first session to its end.
#[derive(Debug)]
pub(super) struct Turn {
    /// Which turn it is in the upper bits, how many groups it has written below.
    last: i64,
}

/// What counting a group has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// It is counted, and its bindings are written, once the transaction is committed.
    Now,
    /// It was counted before: its COMMIT succeeded, and only the answer was lost.
    Before,
    /// Another server has had a turn since.
    ByAnother,
    /// It names these grants, which this node does not have.
    NotOurs(Vec<Grant>),
}

impl FencingToken {
    /// Takes the database over, or begins to write as a member that has joined. The lock must
    /// be held.
    pub(super) fn begin(client: &mut Client, member: Option<Member>) -> Result<Self, Error> {
        match member {
            None => Ok(Self::Alone(Turn::begin(client)?)),
            Some(member) => Ok(Self::Member(MemberToken::of(member))),
        }
    }

    /// Whether no other server has had a turn since.
    pub(super) fn lasts(&self, client: &mut Client) -> Result<bool, Error> {
        match self {
            Self::Alone(turn) => turn.lasts(client),
            Self::Member(token) => token.lasts(client),
        }
    }

    /// Whether the turn still lasts, and will last until the transaction ends.
    pub(super) fn holds(&self, transaction: &mut Transaction<'_>) -> Result<bool, Error> {
        match self {
            Self::Alone(turn) => turn.holds(transaction),
            Self::Member(token) => token.holds(transaction),
        }
    }

    /// Which life of a node writes, if it is a cluster's.
    pub(super) fn member(&self) -> Option<Member> {
        match self {
            Self::Alone(_) => None,
            Self::Member(token) => Some(token.member()),
        }
    }

    /// Counts a group and writes its bindings. Nothing is written unless it is counted
    /// [now](Counted::Now).
    pub(super) fn count(
        &mut self,
        client: &mut impl GenericClient,
        statements: &BindingStatements,
        group: &Group<'_>,
        grants: &[Grant],
    ) -> Result<Counted, Error> {
        match self {
            Self::Alone(turn) => turn.count(client, statements, group),
            Self::Member(token) => token.count(client, statements, group, grants),
        }
    }

    /// The group is durable.
    pub(super) fn counted(&mut self) {
        match self {
            Self::Alone(turn) => turn.counted(),
            Self::Member(token) => token.counted(),
        }
    }

    /// How the statement begins that counts a group, if its first parameter has a number: see
    /// [`BindingStatements`].
    pub(super) fn count_sql(member: Option<Member>) -> fn(usize) -> String {
        match member {
            None => count_sql,
            Some(_) => member_token::count_sql,
        }
    }
}

impl Turn {
    /// Takes the database over. The lock must be held.
    fn begin(client: &mut Client) -> Result<Self, Error> {
        let last = client.query_one(BEGIN, &[])?.try_get(0)?;
        Ok(Self { last })
    }

    /// Whether no other server has had a turn since.
    fn lasts(&self, client: &mut Client) -> Result<bool, Error> {
        Ok(number_of(found(client)?) == number_of(self.last))
    }

    /// Whether the turn still lasts, and will last until the transaction ends.
    fn holds(&self, transaction: &mut Transaction<'_>) -> Result<bool, Error> {
        let found: i64 = transaction.query_one(FOUND_HELD, &[])?.try_get(0)?;
        Ok(number_of(found) == number_of(self.last))
    }

    fn count(
        &mut self,
        client: &mut impl GenericClient,
        statements: &BindingStatements,
        group: &Group<'_>,
    ) -> Result<Counted, Error> {
        let row = group.write_bindings(client, statements, &[&self.last])?;
        if row.is_counted {
            return Ok(Counted::Now);
        }
        let found = found(client)?;
        if number_of(found) != number_of(self.last) {
            return Ok(Counted::ByAnother);
        }
        match found - self.last {
            1 => Ok(Counted::Before),
            ..=0 => self.step_back(found, client, statements, group),
            // Only this server counts in its turn, one group at a time.
            2.. => Ok(Counted::ByAnother),
        }
    }

    /// The group is durable.
    fn counted(&mut self) {
        self.last += 1;
    }

    /// The database has fewer of our groups than it acknowledged: after a crash without
    /// `synchronous_commit`, or after failover to a standby that did not have all of
    /// them.
    fn step_back(
        &mut self,
        found: i64,
        client: &mut impl GenericClient,
        statements: &BindingStatements,
        group: &Group<'_>,
    ) -> Result<Counted, Error> {
        let groups = self.last - found;
        tracing::error!(
            groups,
            "the database has lost transactions that it had acknowledged"
        );
        self.last = found;
        let row = group.write_bindings(client, statements, &[&self.last])?;
        match row.is_counted {
            true => Ok(Counted::Now),
            false => Ok(Counted::ByAnother),
        }
    }
}

/// How many servers have taken the database over.
pub(super) fn run(client: &mut impl GenericClient) -> Result<u64, Error> {
    found(client).map(|count| number_of(count).cast_unsigned())
}

fn found(client: &mut impl GenericClient) -> Result<i64, Error> {
    client.query_one(FOUND, &[])?.try_get(0)
}

/// Which turn a count is of.
fn number_of(count: i64) -> i64 {
    count >> 40
}

/// Counts one group behind those that are known. Alone, nothing is granted, and nothing is lost.
fn count_sql(first: usize) -> String {
    format!(
        "counted AS (UPDATE revision SET count = count + 1 \
        WHERE name = 'group' AND count = ${first} RETURNING 1), \
        lost AS (SELECT 1::bigint AS place WHERE FALSE)"
    )
}

/// A trillion groups a turn, eight million turns.
const BEGIN: &str = "UPDATE revision SET count = ((count >> 40) + 1) << 40 \
    WHERE name = 'group' RETURNING count";
const FOUND: &str = "SELECT count FROM revision WHERE name = 'group'";
/// The row lock keeps other servers from taking the database over until the transaction
/// ends.
const FOUND_HELD: &str = "SELECT count FROM revision WHERE name = 'group' FOR SHARE";
