//! Brings what partitions have into memory when they are granted, and forgets it when they are
//! gone.

use super::partition_inbox::{PartitionInbox, PartitionTasks};
use crate::{lock::lock, server::core::Core};
use busyhour::timer::TimerHandle;
use busyhour_cluster::{Grant, Partition};
use busyhour_sip::Flow;
use busyhour_store::{Contents, SoftState, SoftStateKind};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, Weak},
    thread,
    time::Duration,
};

impl Core {
    /// Begins to have the partitions that the node is granted.
    pub(in crate::server) fn serve_partitions(self: &Arc<Self>) -> io::Result<()> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        if cluster.turns.is_some() {
            self.take_turns_with_partitions(&cluster.partitions);
            return Ok(());
        }
        let (core, inbox) = (Arc::downgrade(self), cluster.partitions.clone());
        let work = move || {
            loop {
                let tasks = inbox.take_within(READ_SOON).unwrap_or_else(|| {
                    if let Some(core) = core.upgrade() {
                        core.persistence.store().close_partition_reader();
                    }
                    inbox.take()
                });
                if tasks.is_over {
                    break;
                }
                // It is not kept while there is nothing to do.
                let Some(core) = core.upgrade() else { break };
                if core.follow_tasks(&inbox, tasks) == Followed::TryAgain {
                    drop(core);
                    inbox.pause(PACE);
                }
            }
        };
        thread::Builder::new()
            .name("bh-partitions".into())
            .spawn(work)?;
        Ok(())
    }

    /// The database answers at once: tasks do what the thread would.
    fn take_turns_with_partitions(self: &Arc<Self>, inbox: &PartitionInbox) {
        let (core, pool) = (Arc::downgrade(self), self.runtime.pool().clone());
        let turns = Arc::new(PartitionTurns::default());
        let woken = turns.clone();
        inbox.wake_with(Box::new(move || {
            let (core, turns) = (core.clone(), woken.clone());
            // A pool that takes nothing any more has ended, and the server with it.
            let _ = pool.push(move || take_turn(&core, &turns));
        }));
        self.turn_to_partitions(&turns);
    }

    fn turn_to_partitions(self: &Arc<Self>, turns: &Arc<PartitionTurns>) {
        let Some(cluster) = &self.cluster else { return };
        let mut again = lock(&turns.again);
        let timers = self.runtime.timers();
        if let Some(earlier) = again.take() {
            // If it still goes off, a turn finds nothing to do.
            let _ = timers.cancel(&earlier);
        }
        let tasks = cluster.partitions.take_now();
        if self.follow_tasks(&cluster.partitions, tasks) == Followed::TryAgain {
            let (core, turns) = (Arc::downgrade(self), turns.clone());
            let turn = move || take_turn(&core, &turns);
            let timer = timers.timer().label("cluster").after(PACE);
            // Without room for a timer the next thing that comes takes the turn.
            *again = timer.on(self.runtime.pool()).run(turn).ok();
        }
    }

    fn follow_tasks(self: &Arc<Self>, inbox: &PartitionInbox, tasks: PartitionTasks) -> Followed {
        let mut followed = Followed::All;
        let mut loads = tasks.loads;
        for partition in tasks.unloads {
            self.forget_partition(partition);
        }
        for flow in tasks.over {
            self.flow_ended(flow);
        }
        // Of many, as those of a node that is dead, half at a time: nobody serves them before, and each reading looks through an index anew.
        let at_once = READ_AT_ONCE.max(loads.len().div_ceil(2));
        if let Some((later, _)) = loads.iter().nth(at_once) {
            // They are served as soon as they are read, and what is to be forgotten does not wait for all of them.
            inbox.load_next(loads.split_off(&later.clone()));
        }
        if !loads.is_empty() {
            followed = self.load(inbox, loads);
        }
        for node in tasks.checks {
            self.check_connections_of(node);
        }
        self.check_connections(tasks.flows.into_iter().collect());
        followed
    }

    /// The grants are kept while the database is away, so it is tried again; what is to be forgotten
    /// does not wait for that.
    fn load(
        self: &Arc<Self>,
        inbox: &PartitionInbox,
        loads: BTreeMap<Partition, Grant>,
    ) -> Followed {
        let grants: Vec<Grant> = loads.values().copied().collect();
        match self.persistence.store().load_partitions(&grants) {
            Ok(contents) => {
                self.take_in(contents, &grants);
                if let Some(cluster) = &self.cluster {
                    cluster.loaded(grants);
                }
                Followed::All
            }
            Err(error) => {
                tracing::warn!(%error, "partitions cannot be read; trying again");
                inbox.load_again(loads);
                Followed::TryAgain
            }
        }
    }

    /// What was acknowledged for these partitions, by whichever node, is in memory then.
    fn take_in(self: &Arc<Self>, contents: Contents, grants: &[Grant]) {
        self.persistence.number_after(contents.highest_id());
        grants
            .iter()
            .for_each(|grant| self.persistence.runs().begin(*grant));
        let network = self.responder.network();
        let bindings = contents.bindings.iter();
        let contacts = bindings.filter(|row| !row.lease.removed);
        let flows = contacts.map(|row| row.contact.flow());
        let mut connections: Vec<Flow> = flows.filter(|it| network.may_stand(*it)).collect();
        self.devices.restore_bindings(contents.bindings);
        let is_subscription = |row: &SoftState| row.kind == SoftStateKind::Subscription;
        let (subscriptions, publications) =
            contents.soft_states.into_iter().partition(is_subscription);
        self.devices.restore_publications(publications);
        // Watchers that come back are told at once what is so.
        self.speak_for(grants);
        connections.extend(self.watching.restore_subscriptions(subscriptions));
        self.check_connections(connections);
    }

    /// Another node may have it. Watchers find that one when they subscribe again.
    fn forget_partition(self: &Arc<Self>, partition: Partition) {
        self.watchers.end_all_in(partition);
        self.hand_over_devices(partition);
    }
}

fn take_turn(core: &Weak<Core>, turns: &Arc<PartitionTurns>) {
    if let Some(core) = core.upgrade() {
        core.turn_to_partitions(turns);
    }
}

/// One turn at a time.
#[derive(Default)]
struct PartitionTurns {
    /// Goes off when partitions that could not be read are tried again.
    again: Mutex<Option<TimerHandle>>,
}

/// What has become of what had to be done.
#[derive(PartialEq, Eq)]
enum Followed {
    All,
    /// Partitions could not be read, and wait to be read after a pause.
    TryAgain,
}

/// Partitions that are read together, if there are not many more.
const READ_AT_ONCE: usize = 8;
/// How long the store is ready to read more.
const READ_SOON: Duration = Duration::from_secs(2);
/// The pause before partitions that could not be read are tried again.
const PACE: Duration = Duration::from_millis(200);
