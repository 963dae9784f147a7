//! The right of a node of a cluster to write: its epoch and those of its partitions, compared in
//! each transaction (`busyhour-cluster`, Commit).
//!
//! As alone (`fencing_token.rs`), a count of groups shows whether a COMMIT whose answer was lost
//! has succeeded.

use super::{fencing_token::Counted, ownership::columns};
use busyhour_cluster::{Grant, Member};
use postgres::{Error, GenericClient, Statement, Transaction};

/// One life of a node, as its commits see it.
#[derive(Debug)]
pub(super) struct MemberToken {
    member: Member,
    /// How many groups it has written.
    groups: i64,
}

impl MemberToken {
    /// A member that has just joined.
    pub(super) fn of(member: Member) -> Self {
        Self { member, groups: 0 }
    }

    /// Whether this life goes on, as far as commits are concerned.
    pub(super) fn lasts(&self, client: &mut impl GenericClient) -> Result<bool, Error> {
        Ok(self.found(client, FOUND)?.is_some())
    }

    /// The same, and it will go on until the transaction ends.
    pub(super) fn holds(&self, transaction: &mut Transaction<'_>) -> Result<bool, Error> {
        Ok(self.found(transaction, FOUND_HELD)?.is_some())
    }

    /// Counts a group in the transaction that writes it, if all grants hold; `advance` is
    /// [`ADVANCE`].
    pub(super) fn count(
        &mut self,
        transaction: &mut Transaction<'_>,
        advance: &Statement,
        grants: &[Grant],
    ) -> Result<Counted, Error> {
        let (partitions, epochs) = columns(grants);
        let (node, epoch) = self.key();
        let row = transaction.query_one(
            advance,
            &[&node, &epoch, &self.groups, &partitions, &epochs],
        )?;
        let (is_counted, lost): (bool, Vec<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if is_counted && lost.is_empty() {
            return Ok(Counted::Now);
        }
        if is_counted {
            let lost = lost
                .iter()
                .filter_map(|place| grants.get(usize::try_from(place - 1).ok()?));
            return Ok(Counted::NotOurs(lost.copied().collect()));
        }
        match self.found(transaction, FOUND)? {
            Some(found) if found == self.groups + 1 => Ok(Counted::Before),
            Some(found) if found < self.groups => {
                let groups = self.groups - found;
                tracing::error!(
                    groups,
                    "the database has lost transactions that it had acknowledged"
                );
                self.groups = found;
                self.count(transaction, advance, grants)
            }
            // Only this life counts here, one group at a time.
            _ => Ok(Counted::ByAnother),
        }
    }

    /// The group is durable.
    pub(super) fn counted(&mut self) {
        self.groups += 1;
    }

    fn found(&self, client: &mut impl GenericClient, sql: &str) -> Result<Option<i64>, Error> {
        let (node, epoch) = self.key();
        let row = client.query_opt(sql, &[&node, &epoch])?;
        row.map(|row| row.try_get(0)).transpose()
    }

    fn key(&self) -> (i16, i64) {
        let Member { node, epoch } = self.member;
        (node.0.cast_signed(), epoch.cast_signed())
    }
}

/// Counts a group behind those that are known, and lists the places of grants that do not hold.
/// Who is to end this life must wait for the row until the transaction ends, so the owners that
/// are read here stay as they are.
pub(super) const ADVANCE: &str = "WITH counted AS (UPDATE cluster_fence SET groups = groups + 1 \
    WHERE node = $1 AND epoch = $2 AND groups = $3 RETURNING 1) \
    SELECT EXISTS (SELECT FROM counted), \
    ARRAY(SELECT place FROM unnest($4::smallint[], $5::bigint[]) WITH ORDINALITY \
    AS named (partition, epoch, place) WHERE NOT EXISTS (SELECT FROM cluster_partition AS found \
    WHERE found.partition = named.partition AND found.epoch = named.epoch \
    AND found.owner = $1 AND found.owner_epoch = $2))";
const FOUND: &str = "SELECT groups FROM cluster_fence WHERE node = $1 AND epoch = $2";
const FOUND_HELD: &str =
    "SELECT groups FROM cluster_fence WHERE node = $1 AND epoch = $2 FOR SHARE";
