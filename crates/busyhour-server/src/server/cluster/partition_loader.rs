//! Brings what partitions have into memory when they are granted, and forgets it when they are
//! gone.

use super::cluster_node::PartitionTask;
use crate::server::core::Core;
use busyhour_cluster::{Grant, Partition};
use busyhour_store::{Contents, SoftState, SoftStateKind};
use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

impl Core {
    /// Begins to have the partitions that the node is granted.
    pub(in crate::server) fn serve_partitions(self: &Arc<Self>) -> io::Result<()> {
        let tasks = self
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.take_tasks());
        let Some(tasks) = tasks else { return Ok(()) };
        let core = Arc::downgrade(self);
        let work = move || {
            while let Ok(task) = tasks.recv() {
                match task {
                    PartitionTask::Load(grants) => load(&core, grants),
                    PartitionTask::Unload(partition) => {
                        if let Some(core) = core.upgrade() {
                            core.forget_partition(partition);
                        }
                    }
                    PartitionTask::NodeGone(node) => {
                        if let Some(core) = core.upgrade() {
                            core.devices.node_gone(node);
                        }
                    }
                }
            }
        };
        thread::Builder::new()
            .name("bh-partitions".into())
            .spawn(work)?;
        Ok(())
    }

    /// What was acknowledged for these partitions, by whichever node, is in memory then.
    fn take_in(self: &Arc<Self>, contents: Contents, grants: &[Grant]) {
        self.persistence.number_after(contents.highest_id());
        self.devices.restore_partitions(contents.bindings);
        let is_subscription = |row: &SoftState| row.kind == SoftStateKind::Subscription;
        let (subscriptions, publications) =
            contents.soft_states.into_iter().partition(is_subscription);
        self.devices.restore_publications(publications);
        // Watchers that come back are told at once what is so.
        self.speak_for(grants);
        self.watching.restore_subscriptions(subscriptions);
    }

    /// Another node may have it. Watchers find that one when they subscribe again.
    fn forget_partition(self: &Arc<Self>, partition: Partition) {
        let is_of_it = |aor: &str| Partition::of(aor) == partition;
        self.watchers.end_all_of(is_of_it);
        self.hand_over_devices(partition);
    }
}

/// The grants are kept while the database is away, so it is tried again.
fn load(core: &Weak<Core>, grants: Vec<Grant>) {
    let partitions: BTreeSet<Partition> = grants.iter().map(|grant| grant.partition).collect();
    let partitions: Vec<Partition> = partitions.into_iter().collect();
    while let Some(core) = core.upgrade() {
        match core.persistence.store().load_partitions(&partitions) {
            Ok(contents) => {
                core.take_in(contents, &grants);
                if let Some(cluster) = &core.cluster {
                    cluster.loaded(grants);
                }
                return;
            }
            Err(error) => tracing::warn!(%error, "partitions cannot be read; trying again"),
        }
        drop(core);
        thread::sleep(PACE);
    }
}

const PACE: Duration = Duration::from_millis(200);
