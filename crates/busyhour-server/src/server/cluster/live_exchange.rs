//! What follows here from what other nodes say of devices, and from partitions that come and go.

use super::live_states::{GrantedRest, LiveEvent, LiveFeeds, LiveStates, SweepRest};
use crate::server::{core::Core, device::dialogs::foreign_dialog_id, watcher::watchers::Watchers};
use busyhour::{
    bus::{Delivery, Name},
    task::{Executor, Task},
};
use busyhour_cluster::{BrokerMessage, Grant, Partition, Report, SharedAction};
use busyhour_registrar::watch::{DeviceState, DialogChange, DialogEnd, DialogStep};
use std::sync::{Arc, atomic::Ordering};

impl Core {
    /// From now on what other nodes say of devices is heard.
    pub(in crate::server) fn hear_live_states(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        let (core, live) = (Arc::downgrade(self), Arc::downgrade(&cluster.live));
        cluster.live.take_with(Box::new(move |event| {
            let Some(live) = live.upgrade() else {
                return false;
            };
            let core = core.clone();
            let is_watched = matches!(event, LiveEvent::Watched(_));
            let task = Task::labelled(&"states of other nodes", move || {
                if let Some(core) = core.upgrade() {
                    core.take_live(event);
                }
            });
            let is_taken = live.serializer.execute(task).is_ok();
            if !is_taken {
                // What another node said is read again, since its number is missing; a beat comes
                // again, and with it what was known of a device that somebody began to watch.
                live.counters.not_taken.increment();
                if is_watched {
                    live.must_recall.store(true, Ordering::SeqCst);
                }
            }
            is_taken
        }));
        for subject in cluster.live.subjects_to_hear() {
            let live = Arc::downgrade(&cluster.live);
            let hear = Box::new(move |message: BrokerMessage| {
                if let Some(live) = live.upgrade() {
                    live.hear(&message.payload, message.reply.as_deref());
                }
            });
            if let Err(error) = cluster.link.broker().subscribe(&subject, hear) {
                tracing::error!(%error, subject, "states of other nodes are not heard");
            }
        }
        cluster.live.send_beacon();
    }

    fn take_live(self: &Arc<Self>, event: LiveEvent) {
        let Some(cluster) = &self.cluster else { return };
        let (live, now) = (&cluster.live, self.clock.now());
        let mut feeds = live.feeds();
        let actions = match event {
            LiveEvent::Said(message) => live.apply(|shared| shared.on_message(now, message)),
            LiveEvent::Watched(device) => live.apply(|shared| shared.recall(&device)),
            LiveEvent::Unanswered(origin) => live.apply(|shared| {
                shared.on_unanswered(origin);
                Vec::new()
            }),
            LiveEvent::PathIsOpen(node) => {
                drop(feeds);
                return self.watchers.path_is_open(node);
            }
            LiveEvent::WayIsOpen => {
                let part = feeds.take_part(Watchers::PARTS);
                drop(feeds);
                if let Some(part) = part {
                    self.watchers.way_is_open(part);
                    live.way_is_open();
                }
                return;
            }
            LiveEvent::Flush => return live.flush(),
            LiveEvent::Granted => return self.tell_of_granted(live, &mut feeds),
            LiveEvent::Sweep(rest) => return live.sweep(self.sweep_wants(live, rest)),
            LiveEvent::Beat(read_at, view) => {
                let is_connected = live.is_connected();
                let has_changed = is_connected != feeds.is_connected;
                feeds.is_connected = is_connected;
                if has_changed && is_connected {
                    feeds.next_part = Some(0);
                }
                // Also if there was no room for the turn after the last one.
                if feeds.next_part.is_some() {
                    live.way_is_open();
                }
                if !feeds.granted.is_empty() {
                    live.tell_of_granted();
                }
                live.sweep(SweepRest {
                    partitions: feeds.sweep.due(now).collect(),
                    names: Vec::new(),
                });
                let must_recall = live.must_recall.swap(false, Ordering::SeqCst);
                live.apply(|shared| {
                    let mut actions = Vec::new();
                    if has_changed {
                        actions.extend(shared.on_connected(now, is_connected));
                    }
                    actions.extend(shared.on_view(now, read_at, &view));
                    actions.extend(shared.on_time(now));
                    if must_recall {
                        actions.extend(shared.recall_all());
                    }
                    actions
                })
            }
        };
        self.follow_live(live, &mut feeds, actions);
    }

    fn follow_live(
        self: &Arc<Self>,
        live: &Arc<LiveStates>,
        feeds: &mut LiveFeeds,
        actions: Vec<SharedAction>,
    ) {
        for action in actions {
            match action {
                // It has left.
                SharedAction::Send(_) => {}
                SharedAction::Ask(request) => live.ask(request),
                SharedAction::Begin(aor) => self.tell_others(live, feeds, aor),
                SharedAction::Stop(aor) => drop(feeds.by_aor.remove(&aor)),
                SharedAction::Ours(aor) => self.devices.show(&aor),
                SharedAction::State(aor, state) => self.show_state(&aor, state.as_deref()),
                SharedAction::Report(report) => self.take_report(live, report),
            }
        }
    }

    /// Tells other nodes what a device of ours does.
    fn tell_others(self: &Arc<Self>, live: &Arc<LiveStates>, feeds: &mut LiveFeeds, aor: Box<str>) {
        let (states, name) = (&self.devices.topics.states, Name::new(&aor));
        let listen = || {
            let feed = states.subscribe().key(name.clone()).replay().conflate();
            let feed = feed.name("other nodes").on(&live.serializer);
            let (live, states, name) = (Arc::downgrade(live), states.clone(), name.clone());
            feed.start(move |delivery| {
                let Some(live) = live.upgrade() else { return };
                match delivery {
                    Delivery::Event(state, _) => live.tell(&name, Some(state)),
                    Delivery::Removed(..) => live.tell(&name, None),
                    Delivery::Replayed => live.tell(&name, states.get(&name).as_ref()),
                    Delivery::Lost(_) => {}
                }
            })
        };
        let feed = self.devices.subscribe_for_others(&name, listen);
        feeds.by_aor.insert(aor, feed);
    }

    /// What a device of another node does.
    fn show_state(&self, aor: &str, state: Option<&[u8]>) {
        let (states, name) = (&self.devices.topics.states, Name::new(aor));
        let Some(state) = state else {
            // A watcher that lags is brought up to date from the cache.
            let _ = states.remove(&name);
            return;
        };
        match DeviceState::from_shared(&name, state) {
            Some(state) => drop(states.publish(state)),
            None => tracing::warn!(aor, "another node tells a state that cannot be read"),
        }
    }

    /// A dialog of a device of ours, which another node carries or carried.
    fn take_report(self: &Arc<Self>, live: &LiveStates, report: Report) {
        let name = Name::new(&report.aor);
        let id = match report.by == live.member() {
            true => report.id,
            false => foreign_dialog_id(report.by, report.id),
        };
        let change = match report.value {
            Some(value) => DialogChange::from_shared(&name, id, &value),
            None => Some(DialogChange {
                device: name,
                id,
                version: u64::MAX,
                step: DialogStep::Ended {
                    end: match report.is_withdrawn {
                        true => DialogEnd::Error,
                        false => DialogEnd::RemoteBye,
                    },
                    code: None,
                },
            }),
        };
        match change {
            Some(change) => self.devices.apply_dialog_here(change),
            None => tracing::warn!(
                aor = &*report.aor,
                "another node tells an unreadable dialog"
            ),
        }
    }

    /// These partitions are in memory, and this node speaks for their devices from now on. What the devices do was told by their last
    /// owner, so it is told again later: nobody waits for that to be served.
    pub(super) fn speak_for(self: &Arc<Self>, grants: &[Grant]) {
        let Some(cluster) = &self.cluster else { return };
        let live = &cluster.live;
        // What others say takes effect before or after all of them.
        let mut feeds = live.feeds();
        let is_told_of_others = !feeds.granted.is_empty();
        for grant in grants {
            let moving = live.move_partitions();
            let (later, now) = live.granted(*grant).into_iter().partition(is_told_later);
            self.follow_live(live, &mut feeds, now);
            drop(moving);
            feeds.granted.push_back(GrantedRest {
                grant: *grant,
                actions: later,
            });
        }
        if !is_told_of_others {
            live.tell_of_granted();
        }
    }

    /// Tells of some devices whose partitions were granted, and of the rest in later turns. What is not the case any more is left out: the
    /// partition may have gone, and who wanted to know a device may not want it now.
    fn tell_of_granted(self: &Arc<Self>, live: &Arc<LiveStates>, feeds: &mut LiveFeeds) {
        let mut room = GRANTED_AT_ONCE;
        while room > 0
            && let Some(mut rest) = feeds.granted.pop_front()
        {
            if !live.has_grant(rest.grant) {
                continue;
            }
            let count = rest.actions.len().min(room);
            room -= count;
            let mut now: Vec<_> = rest.actions.drain(..count).collect();
            now.retain(|action| match action {
                SharedAction::Begin(aor) => live.is_wanted(aor),
                _ => true,
            });
            self.follow_live(live, feeds, now);
            if !rest.actions.is_empty() {
                feeds.granted.push_front(rest);
            }
        }
        if !feeds.granted.is_empty() {
            live.tell_of_granted();
        }
    }

    /// Another node speaks for the devices of a partition, and they leave memory. What they did
    /// last is what watchers here know until that node has spoken.
    pub(super) fn hand_over_devices(self: &Arc<Self>, partition: Partition) {
        let Some(cluster) = &self.cluster else { return };
        let live = &cluster.live;
        let mut feeds = live.feeds();
        let moving = live.move_partitions();
        // Those that a call begins to use now are not forgotten: it waits for the end of the move.
        let devices = self.devices.table.of_partition(partition);
        let actions = live.lost(partition);
        self.follow_live(live, &mut feeds, actions);
        for device in devices {
            for (id, dialog) in device.own_dialogs() {
                live.report_as(device.aor(), id, Some(dialog));
            }
            device.forget(&self.devices);
        }
        drop(moving);
    }

    /// Other nodes need not tell of devices that nobody watches here any more. Looks at some of them, under the lock of
    /// the feeds, and returns the others.
    fn sweep_wants(&self, live: &LiveStates, mut rest: SweepRest) -> SweepRest {
        let states = &self.devices.topics.states;
        while rest.names.is_empty() {
            let Some(partition) = rest.partitions.pop() else {
                break;
            };
            rest.names = live.watched(partition);
        }
        let kept = rest.names.len().saturating_sub(SWEPT_AT_ONCE);
        for name in rest.names.drain(kept..) {
            if states.would_deliver(&name) {
                continue;
            }
            live.apply(|shared| shared.unwant(&name));
            if !live.speaks_for(&name) {
                let _ = states.remove(&name);
            }
            // Somebody who has begun to listen meanwhile wants it after that, or is seen here.
            if states.would_deliver(&name) {
                live.want(&name);
            }
        }
        rest
    }
}

/// Whether it repeats what the last owner of a partition has told.
fn is_told_later(action: &SharedAction) -> bool {
    matches!(action, SharedAction::Begin(_) | SharedAction::Ours(_))
}

/// Devices of a granted partition that are told in one turn: some milliseconds.
const GRANTED_AT_ONCE: usize = 64;
/// Devices for which one turn looks whether somebody watches them: a tenth of a millisecond.
const SWEPT_AT_ONCE: usize = 128;
