//! Who should own which partition.

use crate::{Member, Partition, View};
use std::collections::BTreeMap;

/// The owner that each partition should have, by a rule that all nodes share; `None` if no node
/// may have one.
///
/// A partition that is pinned to a candidate is assigned to it. Each candidate gets its part of all,
/// and more only if more is pinned to it; the parts differ by one at most. An owner keeps its
/// partitions as far as they fit into its part, so as few as possible move.
///
/// ```
/// use busyhour::clock::Instant;
/// use busyhour_cluster::{Tables, Timing, assignment};
///
/// let (mut tables, now) = (Tables::new(Timing::default()), Instant::from_nanos(0));
/// let alpha = tables.join(now, "alpha").unwrap();
/// let beta = tables.join(now, "beta").unwrap();
/// let wanted = assignment(&tables.view(now));
/// assert_eq!(wanted.iter().filter(|owner| **owner == Some(alpha)).count(), 128);
/// assert_eq!(wanted.iter().filter(|owner| **owner == Some(beta)).count(), 128);
/// ```
pub fn assignment(view: &View) -> Vec<Option<Member>> {
    let mut room = parts(view);
    let mut wanted: Vec<Option<Member>> = view
        .iter()
        .map(|(p, _)| pinned(view, p, &mut room))
        .collect();
    for (partition, _) in view.iter() {
        let owner = &mut wanted[partition.index()];
        *owner = owner.or_else(|| keep(view, partition, &mut room));
    }
    let mut free = room
        .iter()
        .flat_map(|(member, count)| std::iter::repeat_n(*member, *count));
    for owner in wanted.iter_mut().filter(|owner| owner.is_none()) {
        *owner = free.next();
    }
    wanted
}

/// How many partitions each candidate should have. Where they cannot be equal, who has most
/// already has one more.
fn parts(view: &View) -> BTreeMap<Member, usize> {
    let mut candidates: Vec<Member> = view.candidates().collect();
    let owned = |member: Member| {
        let is_its = |(partition, _): &(Partition, _)| view.owner(*partition) == Some(member);
        view.iter().filter(is_its).count()
    };
    candidates.sort_by_cached_key(|member| (std::cmp::Reverse(owned(*member)), *member));
    let (partitions, nodes) = (view.partitions.len(), candidates.len().max(1));
    let part = |index: usize| partitions / nodes + usize::from(index < partitions % nodes);
    (candidates.into_iter().enumerate())
        .map(|(index, member)| (member, part(index)))
        .collect()
}

/// The node that an operator wants, as long as it lives and does not drain.
fn pinned(view: &View, partition: Partition, room: &mut BTreeMap<Member, usize>) -> Option<Member> {
    let node = view.partitions.get(partition.index())?.pinned?;
    let (member, left) = room.iter_mut().find(|(member, _)| member.node == node)?;
    *left = left.saturating_sub(1);
    Some(*member)
}

/// The owner, if it has room for what it has.
fn keep(view: &View, partition: Partition, room: &mut BTreeMap<Member, usize>) -> Option<Member> {
    let owner = view.owner(partition)?;
    let left = room.get_mut(&owner).filter(|left| **left > 0)?;
    *left -= 1;
    Some(owner)
}
