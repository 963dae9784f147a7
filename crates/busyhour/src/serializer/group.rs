use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use super::core::Core;
use crate::{
    pool::{Describes, Entity as _, Leftover, Shared, ShutdownReport, Undelivered},
    stats::SerializerGroupStats,
    sync::{Mutex, lock},
};

/// Serializers that are shut down together, before their pool or without it.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{pool::TaskPool, serializer::ShutdownGroup};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let group = ShutdownGroup::new();
/// let calls = pool.serializer("calls").group(&group).build().unwrap();
/// calls.push(|| ()).unwrap();
///
/// let report = group.shutdown(Duration::from_secs(5));
/// assert!(report.is_clean());
/// assert!(calls.push(|| ()).is_err());
/// ```
#[doc(alias("dispatch_group", "ast_serializer_shutdown_group", "TaskTracker"))]
#[derive(Clone, Default)]
pub struct ShutdownGroup {
    members: Arc<Mutex<GroupMembers>>,
}

#[derive(Default)]
struct GroupMembers {
    name: String,
    is_closed: bool,
    cores: Vec<Weak<Core>>,
    /// Dead members are removed when there are this many members.
    prune_at: usize,
}

impl ShutdownGroup {
    /// A group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group without members that [`Runtime::describe`] shows by this name.
    ///
    /// [`Runtime::describe`]: crate::runtime::Runtime::describe
    pub fn named(name: &str) -> Self {
        let group = Self::default();
        name.clone_into(&mut lock(&group.members).name);
        group
    }

    /// The number of serializers of the group that are still alive.
    pub fn len(&self) -> usize {
        self.living().len()
    }

    /// Whether no serializer of the group is alive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the serializers of the group hold and have done, summed up. Looks
    /// at each of them.
    ///
    /// ```
    /// use busyhour::{pool::TaskPool, serializer::ShutdownGroup};
    ///
    /// let pool = TaskPool::simulated(1, busyhour::clock::Clock::simulated(Default::default()));
    /// let group = ShutdownGroup::new();
    /// let calls = pool.serializer("call").group(&group).template().unwrap();
    /// let calls: Vec<_> = (0..5).map(|_| calls.ephemeral()).collect();
    /// (0..3).for_each(|_| calls[4].push(|| ()).unwrap());
    /// let stats = group.stats();
    /// assert_eq!((stats.serializer_count, stats.busy_count, stats.queued_len), (5, 1, 3));
    /// ```
    pub fn stats(&self) -> SerializerGroupStats {
        self.members.describe()
    }

    /// Shuts the group down within `deadline`:
    ///
    /// 1. Every member refuses further tasks from any thread. Subscriptions
    ///    whose turns run there deliver what they have taken, turn by turn.
    /// 2. The members' tasks run, until none is left or the deadline passes. A
    ///    suspended member keeps its tasks until it is resumed.
    /// 3. What is left is dropped and reported by name: deliveries by the
    ///    subscriptions that lost them, which get no more, and tasks.
    ///
    /// Inside a task of the pool, the calling thread runs the members' tasks
    /// itself. It does not wait for a member whose task is the caller or waits
    /// for the caller: the tasks of that member are dropped.
    ///
    /// In a simulation each step counts as one microsecond of the deadline.
    pub fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let ends_at = Instant::now().checked_add(deadline);
        lock(&self.members).is_closed = true;
        let cores = self.living();
        let ran_before = ran(&cores);
        cores.iter().for_each(|core| core.close());
        let awaited: Vec<_> = cores
            .iter()
            .filter(|core| core.await_idle(deadline, ends_at))
            .collect();
        let undelivered = end_deliveries(&cores);
        let left: Vec<_> = cores.iter().filter_map(leftover).collect();
        ShutdownReport {
            ran: ran(&cores) - ran_before,
            not_run: left.iter().map(|left| left.not_run).sum(),
            left,
            unfinished_workers: awaited.iter().filter(|core| core.is_busy()).count() as u64,
            unfinished: awaited
                .iter()
                .filter_map(|core| core.unfinished())
                .collect(),
            not_delivered: undelivered.iter().map(|one| one.count).sum(),
            undelivered,
        }
    }

    /// Adds a member; if the group is shut down already, closes it instead.
    pub(super) fn join(&self, core: &Arc<Core>) {
        let mut members = lock(&self.members);
        if members.is_closed {
            drop(members);
            core.close();
            return;
        }
        members.prune();
        members.cores.push(Arc::downgrade(core));
    }

    /// Lets descriptions of the pool list the group.
    pub(super) fn list_in(&self, pool: &Shared) {
        let members: Arc<dyn Describes<SerializerGroupStats>> = self.members.clone();
        pool.groups.add(&Arc::downgrade(&members));
    }

    fn living(&self) -> Vec<Arc<Core>> {
        lock(&self.members).living()
    }
}

impl fmt::Debug for ShutdownGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownGroup")
            .field("len", &self.len())
            .finish()
    }
}

impl Describes<SerializerGroupStats> for Mutex<GroupMembers> {
    fn describe(&self) -> SerializerGroupStats {
        let (name, living) = {
            let members = lock(self);
            (members.name.clone(), members.living())
        };
        let mut sum = SerializerGroupStats {
            name,
            ..SerializerGroupStats::default()
        };
        for core in living {
            let stats = core.stats_now();
            sum.serializer_count += 1;
            sum.busy_count += u64::from(!core.is_idle());
            sum.queued_len += stats.queued_len;
            sum.longest_queued_len = sum.longest_queued_len.max(stats.queued_len);
            sum.queued_high_water = sum.queued_high_water.max(stats.queued_high_water);
            sum.processed += stats.processed;
            sum.oldest_waiting_ns = sum.oldest_waiting_ns.max(stats.oldest_waiting_ns);
            sum.running_for_ns = sum.running_for_ns.max(stats.running_for_ns);
        }
        sum
    }
}

impl GroupMembers {
    fn living(&self) -> Vec<Arc<Core>> {
        self.cores.iter().filter_map(Weak::upgrade).collect()
    }

    /// Removes dead members, in constant amortised time per member.
    fn prune(&mut self) {
        if self.cores.len() >= self.prune_at {
            self.cores.retain(|core| core.strong_count() > 0);
            self.prune_at = (self.cores.len() * 2).max(16);
        }
    }
}

/// Ends the subscriptions on the members, which are closed, and returns those
/// that lost deliveries. The members may belong to several pools.
fn end_deliveries(cores: &[Arc<Core>]) -> Vec<Undelivered> {
    let mut pools: Vec<(&Arc<Shared>, HashSet<usize>)> = Vec::new();
    for core in cores {
        let known = pools
            .iter_mut()
            .find(|(pool, _)| Arc::ptr_eq(pool, core.pool()));
        match known {
            Some((_, owners)) => {
                owners.insert(core.address());
            }
            None => pools.push((core.pool(), HashSet::from([core.address()]))),
        }
    }
    let ended = pools.iter().map(|(pool, owners)| {
        let isolate = |end: &mut dyn FnMut()| {
            pool.isolate(end);
        };
        pool.subscriptions.end_of(owners, isolate)
    });
    ended.flatten().collect()
}

fn ran(cores: &[Arc<Core>]) -> u64 {
    cores.iter().map(|core| core.stats_now().processed).sum()
}

fn leftover(core: &Arc<Core>) -> Option<Leftover> {
    let not_run = core.abandon_for_group();
    (not_run > 0).then(|| Leftover {
        serializer: core.name().to_owned(),
        not_run,
    })
}
