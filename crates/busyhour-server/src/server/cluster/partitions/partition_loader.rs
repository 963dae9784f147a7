//! Brings what partitions have into memory when they are granted, and forgets it when they are
//! gone.

use super::partition_inbox::{PartitionInbox, PartitionTasks};
use crate::server::core::Core;
use busyhour_cluster::{Grant, Partition};
use busyhour_sip::Flow;
use busyhour_store::{Contents, SoftState, SoftStateKind};
use std::{collections::BTreeMap, io, sync::Arc, thread, time::Duration};

impl Core {
    /// Begins to have the partitions that the node is granted.
    pub(in crate::server) fn serve_partitions(self: &Arc<Self>) -> io::Result<()> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let (core, inbox) = (Arc::downgrade(self), cluster.partitions.clone());
        let work = move || {
            loop {
                let tasks = inbox.take();
                if tasks.is_over {
                    break;
                }
                // It is not kept while there is nothing to do.
                let Some(core) = core.upgrade() else { break };
                core.follow_tasks(&inbox, tasks);
            }
        };
        thread::Builder::new()
            .name("bh-partitions".into())
            .spawn(work)?;
        Ok(())
    }

    fn follow_tasks(self: &Arc<Self>, inbox: &PartitionInbox, tasks: PartitionTasks) {
        for partition in tasks.unloads {
            self.forget_partition(partition);
        }
        for flow in tasks.over {
            self.flow_ended(flow);
        }
        if !tasks.loads.is_empty() {
            self.load(inbox, tasks.loads);
        }
        for node in tasks.checks {
            self.check_connections_of(node);
        }
        self.check_connections(tasks.flows.into_iter().collect());
    }

    /// The grants are kept while the database is away, so it is tried again; what is to be forgotten
    /// does not wait for that.
    fn load(self: &Arc<Self>, inbox: &PartitionInbox, loads: BTreeMap<Partition, Grant>) {
        let partitions: Vec<Partition> = loads.keys().copied().collect();
        match self.persistence.store().load_partitions(&partitions) {
            Ok(contents) => {
                let grants: Vec<Grant> = loads.into_values().collect();
                self.take_in(contents, &grants);
                if let Some(cluster) = &self.cluster {
                    cluster.loaded(grants);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "partitions cannot be read; trying again");
                inbox.pause(PACE);
                inbox.load_again(loads);
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

const PACE: Duration = Duration::from_millis(200);
