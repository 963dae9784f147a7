//! The right of a node of a cluster to write: its epoch and those of its partitions, compared in
//! each transaction (`busyhour-cluster`, Commit).
//!
//! As alone (`fencing_token.rs`), a count of groups shows whether a COMMIT whose answer was lost
//! has succeeded.

use super::{
    fencing_token::Counted,
    group::{BindingStatements, Group},
    ownership::columns,
};
use busyhour_cluster::{Grant, Member};
use postgres::{Error, GenericClient, Transaction};

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

    pub(super) fn member(&self) -> Member {
        self.member
    }

    /// Whether this life goes on, as far as commits are concerned.
    pub(super) fn lasts(&self, client: &mut impl GenericClient) -> Result<bool, Error> {
        Ok(self.found(client, FOUND)?.is_some())
    }

    /// The same, and it will go on until the transaction ends.
    pub(super) fn holds(&self, transaction: &mut Transaction<'_>) -> Result<bool, Error> {
        Ok(self.found(transaction, FOUND_HELD)?.is_some())
    }

    /// Counts a group and writes its bindings, if all grants hold.
    pub(super) fn count(
        &mut self,
        client: &mut impl GenericClient,
        statements: &BindingStatements,
        group: &Group<'_>,
        grants: &[Grant],
    ) -> Result<Counted, Error> {
        let (partitions, epochs) = columns(grants);
        let (node, epoch) = self.key();
        let row = group.write_bindings(
            client,
            statements,
            &[&node, &epoch, &self.groups, &partitions, &epochs],
        )?;
        if row.is_counted {
            return Ok(Counted::Now);
        }
        match self.found(client, FOUND)? {
            Some(found) if found == self.groups + 1 => Ok(Counted::Before),
            Some(found) if found < self.groups => {
                let groups = self.groups - found;
                tracing::error!(
                    groups,
                    "the database has lost transactions that it had acknowledged"
                );
                self.groups = found;
                self.count(client, statements, group, grants)
            }
            // The life goes on, and only the grants kept the group from being counted.
            Some(found) if found == self.groups && !row.lost.is_empty() => {
                let lost = (row.lost.iter())
                    .filter_map(|place| grants.get(usize::try_from(place - 1).ok()?));
                Ok(Counted::NotOurs(lost.copied().collect()))
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

/// Counts a group behind those that are known, unless grants do not hold, which it lists.
/// Who is to end this life must wait for the row until the transaction ends, so the owners that
/// are read here stay as they are.
pub(super) fn count_sql(first: usize) -> String {
    let [node, epoch, groups, partitions, epochs] = std::array::from_fn(|place| first + place);
    format!(
        "lost AS MATERIALIZED (SELECT place \
        FROM unnest(${partitions}::smallint[], ${epochs}::bigint[]) WITH ORDINALITY \
        AS named (partition, epoch, place) WHERE NOT EXISTS (SELECT FROM cluster_partition AS found \
        WHERE found.partition = named.partition AND found.epoch = named.epoch \
        AND found.owner = ${node} AND found.owner_epoch = ${epoch})), \
        counted AS (UPDATE cluster_fence SET groups = groups + 1 \
        WHERE node = ${node} AND epoch = ${epoch} AND groups = ${groups} \
        AND NOT EXISTS (SELECT FROM lost) RETURNING 1)"
    )
}

const FOUND: &str = "SELECT groups FROM cluster_fence WHERE node = $1 AND epoch = $2";
const FOUND_HELD: &str =
    "SELECT groups FROM cluster_fence WHERE node = $1 AND epoch = $2 FOR SHARE";
