//! The tables of the database and their transactions, without a database.
//!
//! PostgreSQL has the same rules as SQL (`busyhour-store`), and the tests run both side by side.
//! The model runs this.

use crate::{
    Failure, Grant, Life, Member, NodeNumber, NodeView, PARTITION_COUNT, Partition, PartitionView,
    Timing, View,
};
use busyhour::clock::Instant;
use std::collections::BTreeMap;
use thiserror::Error;

/// Nodes, leases and owners. Each method is one transaction, at `now` by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tables {
    timing: Timing,
    nodes: BTreeMap<NodeNumber, NodeRow>,
    partitions: Vec<PartitionView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeRow {
    name: Box<str>,
    epoch: u64,
    /// `None` once this life is over.
    lease_until: Option<Instant>,
    lease_since: Instant,
    is_draining: bool,
    /// How many groups this life has committed.
    groups: u64,
}

/// Somebody lives under this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("another server runs under this name, or ran until a moment ago")]
pub struct InUse;

/// What counting a group has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// It is counted, and may be written in the same transaction.
    Now,
    /// It was counted before: its commit succeeded, and only the answer was lost.
    Before,
    /// The member's life is over, or it does not have one of the grants any more.
    Refused,
}

impl Tables {
    /// Tables without a node.
    pub fn new(timing: Timing) -> Self {
        Self::with_partitions(timing, PARTITION_COUNT)
    }

    /// As [`new`](Self::new), with fewer partitions, for a model.
    pub fn with_partitions(timing: Timing, count: usize) -> Self {
        let orphan = PartitionView {
            owner: None,
            epoch: 0,
            pinned: None,
        };
        Self {
            timing,
            nodes: BTreeMap::new(),
            partitions: vec![orphan; count.min(PARTITION_COUNT)],
        }
    }

    /// Begins a new life of the node with this name.
    ///
    /// # Errors
    ///
    /// While the lease of its last life is current.
    pub fn join(&mut self, now: Instant, name: &str) -> Result<Member, InUse> {
        let known = self.nodes.iter().find(|(_, row)| &*row.name == name);
        let last = self.nodes.keys().next_back().map_or(0, |node| node.0);
        let (node, epoch) = match known {
            Some((_, row)) if row.life(now, self.timing) == Life::Current => return Err(InUse),
            Some((node, row)) => (*node, row.epoch + 1),
            None => (NodeNumber(last + 1), 1),
        };
        let row = NodeRow {
            name: name.into(),
            epoch,
            lease_until: Some(now + self.timing.lease),
            lease_since: now,
            is_draining: false,
            groups: 0,
        };
        self.nodes.insert(node, row);
        Ok(Member { node, epoch })
    }

    /// Renews a member's lease and reads everything.
    ///
    /// # Errors
    ///
    /// When its life is over.
    pub fn beat(&mut self, now: Instant, member: Member) -> Result<View, Failure> {
        let timing = self.timing;
        let row = self.living(member)?;
        if row.life(now, timing) != Life::Current {
            row.lease_since = now;
        }
        row.lease_until = Some(now + timing.lease);
        Ok(self.view(now))
    }

    /// Everything that a beat reads.
    pub fn view(&self, now: Instant) -> View {
        let node = |(node, row): (&NodeNumber, &NodeRow)| NodeView {
            member: Member {
                node: *node,
                epoch: row.epoch,
            },
            name: row.name.clone(),
            life: row.life(now, self.timing),
            is_draining: row.is_draining,
        };
        View {
            nodes: self.nodes.iter().map(node).collect(),
            partitions: self.partitions.clone(),
        }
    }

    /// Ends the life of another member whose lease is not current; `false` if that may not be
    /// done now.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over.
    pub fn fence(&mut self, now: Instant, by: Member, other: Member) -> Result<bool, Failure> {
        let timing = self.timing;
        let is_trusted = self.living(by)?.has_lived(now, timing);
        let Some(row) = self.nodes.get_mut(&other.node) else {
            return Ok(false);
        };
        let is_late = row.epoch == other.epoch && row.life(now, timing) == Life::Late;
        if !(is_trusted && is_late) {
            return Ok(false);
        }
        row.end();
        Ok(true)
    }

    /// Makes a member the owner of partitions that are orphans, if they still have the epochs
    /// that it has seen. Returns what it was granted.
    ///
    /// # Errors
    ///
    /// When its life is over.
    pub fn take(
        &mut self,
        now: Instant,
        by: Member,
        seen: &[Grant],
    ) -> Result<Vec<Grant>, Failure> {
        self.living(by)?;
        let view = self.view(now);
        let is_orphan = |grant: &&Grant| {
            let found = view.partitions.get(grant.partition.index());
            found.is_some_and(|found| found.epoch == grant.epoch)
                && view.owner(grant.partition).is_none()
        };
        let granted = seen.iter().filter(is_orphan);
        Ok(granted.map(|grant| self.grant(*grant, by)).collect())
    }

    /// Makes another living member the owner of what is granted to `by`. Returns those of the grants
    /// with which that was done: none if it does not live, and none that does not hold any more. A
    /// member that gives to itself gets a new epoch, so that nothing which it sent before is done later.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over.
    pub fn give(
        &mut self,
        by: Member,
        grants: &[Grant],
        to: Member,
    ) -> Result<Vec<Grant>, Failure> {
        self.living(by)?;
        if self.living(to).is_err() {
            return Ok(Vec::new());
        }
        let mut given = grants.to_vec();
        given.retain(|grant| self.holds(by, *grant));
        for grant in &given {
            self.grant(*grant, to);
        }
        Ok(given)
    }

    /// Marks a member as draining, so that nothing is assigned to it.
    ///
    /// # Errors
    ///
    /// When its life is over.
    pub fn drain(&mut self, member: Member) -> Result<(), Failure> {
        self.living(member)?.is_draining = true;
        Ok(())
    }

    /// Lets a member be assigned partitions again: one that was marked while it started, for instance.
    ///
    /// # Errors
    ///
    /// When its life is over.
    pub fn undrain(&mut self, member: Member) -> Result<(), Failure> {
        self.living(member)?.is_draining = false;
        Ok(())
    }

    /// Lets a partition be assigned to a node from now on while that lives; `None` lets it be
    /// assigned as the others are.
    ///
    /// # Errors
    ///
    /// When the life of `by` is over.
    pub fn pin(
        &mut self,
        by: Member,
        partition: Partition,
        to: Option<NodeNumber>,
    ) -> Result<(), Failure> {
        self.living(by)?;
        if let Some(found) = self.partitions.get_mut(partition.index()) {
            found.pinned = to;
        }
        Ok(())
    }

    /// Ends a member's own life.
    ///
    /// # Errors
    ///
    /// When it is over already.
    pub fn leave(&mut self, member: Member) -> Result<(), Failure> {
        self.living(member)?.end();
        Ok(())
    }

    /// Counts a group of changes, of which the member has counted `groups` before. Whoever writes
    /// it does so in the same transaction, and only if the answer is [`Counted::Now`].
    pub fn count(&mut self, member: Member, groups: u64, grants: &[Grant]) -> Counted {
        let holds_all = grants.iter().all(|grant| self.holds(member, *grant));
        match self.living(member) {
            Ok(row) if row.groups == groups && holds_all => {
                row.groups += 1;
                Counted::Now
            }
            Ok(row) if row.groups == groups + 1 => Counted::Before,
            _ => Counted::Refused,
        }
    }

    fn holds(&self, member: Member, grant: Grant) -> bool {
        let found = self.partitions.get(grant.partition.index());
        found.is_some_and(|found| found.epoch == grant.epoch && found.owner == Some(member))
    }

    fn grant(&mut self, seen: Grant, to: Member) -> Grant {
        let epoch = seen.epoch + 1;
        let found = &mut self.partitions[seen.partition.index()];
        (found.owner, found.epoch) = (Some(to), epoch);
        Grant { epoch, ..seen }
    }

    fn living(&mut self, member: Member) -> Result<&mut NodeRow, Failure> {
        let row = self.nodes.get_mut(&member.node);
        let is_its = |row: &&mut NodeRow| row.epoch == member.epoch && row.lease_until.is_some();
        row.filter(is_its).ok_or(Failure::LifeOver)
    }
}

impl NodeRow {
    fn life(&self, now: Instant, timing: Timing) -> Life {
        match self.lease_until {
            None => Life::Over,
            Some(until) if now < until && until <= now + timing.lease => Life::Current,
            Some(_) => Life::Late,
        }
    }

    /// Whether its lease has been current for so long that it may judge others.
    fn has_lived(&self, now: Instant, timing: Timing) -> bool {
        self.life(now, timing) == Life::Current && self.lease_since + timing.lease <= now
    }

    fn end(&mut self) {
        self.epoch += 1;
        self.lease_until = None;
    }
}
