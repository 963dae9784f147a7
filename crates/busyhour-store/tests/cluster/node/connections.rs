//! What a node does with connections of its own clients, and with those of other nodes over which its devices register.

use super::{Life, Then, Write};
use crate::{letter::Letter, node::Out};
use busyhour::clock::{Instant, UnixTime};
use busyhour_cluster::{ConnectionEnds, NodeNumber, Partition, Route};
use busyhour_registrar::{Contact, Now, Reach};
use busyhour_sip::{Flow, Transport};
use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
};

/// Of a node.
#[derive(Default)]
pub struct Connections {
    /// Those of this process.
    own: HashSet<Flow>,
    ends: ConnectionEnds,
    /// Those at other nodes that may have ended, and since when.
    unchecked: BTreeMap<usize, (Instant, Vec<Flow>)>,
    /// Whose contacts end as soon as no change of the device is under way.
    cut_off: Vec<(Box<str>, Flow)>,
    /// The lives of the nodes, by the last view.
    epochs: BTreeMap<usize, u64>,
}

impl Life {
    /// Something came over a connection of this node.
    pub(super) fn note_connection(&mut self, flow: Flow) {
        if flow.transport.is_reliable() {
            self.connections.own.insert(flow);
        }
    }

    /// One has ended.
    pub fn own_connection_ended(&mut self, now: Instant, flow: Flow) {
        if self.connections.own.remove(&flow) {
            let number = self.connections.ends.next(now);
            let letter = Letter::ConnectionEnded(self.number, flow, number);
            self.out.push(Out::ToAll(letter));
            self.connection_ended(now, flow);
        }
    }

    pub(super) fn may_stand(&self, flow: Flow) -> bool {
        let is_own = usize::from(flow.node) == self.number + 1;
        flow.connection != 0 && (!is_own || self.connections.own.contains(&flow))
    }

    /// As it was stored, if its connection may stand.
    pub(super) fn reached_contact(&self, contact: Contact) -> Contact {
        match contact.transport().is_reliable() && !self.may_stand(contact.flow()) {
            true => contact.without_connection(),
            false => contact,
        }
    }

    /// These were read from the database, or a registration came over them that was accepted now.
    pub(super) fn check(&mut self, now: Instant, flows: impl IntoIterator<Item = Flow>) {
        for flow in flows.into_iter().filter(|flow| flow.connection != 0) {
            let node = usize::from(flow.node) - 1;
            if node == self.number {
                if !self.connections.own.contains(&flow) {
                    self.connection_ended(now, flow);
                }
                continue;
            }
            let unchecked = &mut self.connections.unchecked;
            let (since, flows) = unchecked.entry(node).or_insert((now, Vec::new()));
            *since = now;
            if !flows.contains(&flow) {
                flows.push(flow);
            }
            self.ask_whether_they_stand(node);
        }
    }

    /// Of a partition that has come.
    pub(super) fn check_partition(&mut self, now: Instant, partition: Partition) {
        let is_in = |aor: &str| Partition::of(aor) == partition;
        let flows = self.flows_of(is_in, |_| true);
        self.check(now, flows);
    }

    fn check_node(&mut self, now: Instant, node: usize) {
        let flows = self.flows_of(|_| true, |flow| usize::from(flow.node) == node + 1);
        self.check(now, flows);
    }

    /// The connections of devices and their watchers.
    fn flows_of(&self, is_it: impl Fn(&str) -> bool, is_at: impl Fn(&Flow) -> bool) -> Vec<Flow> {
        let devices = self.memory.values().flatten();
        let devices = devices.filter(|(aor, _)| is_it(aor));
        let contacts = devices.flat_map(|(_, bindings)| bindings.all());
        let contacts = contacts.map(|binding| binding.contact.flow());
        let flows = contacts.chain(self.watcher_flows(&is_it));
        flows
            .filter(|flow| flow.connection != 0 && is_at(flow))
            .collect()
    }

    fn ask_whether_they_stand(&mut self, node: usize) {
        if self.lives(node)
            && let Some((_, flows)) = self.connections.unchecked.get(&node)
        {
            let letter = Letter::DoTheyStand(self.number, flows.clone());
            self.out.push(Out::ToNode(node, letter));
        }
    }

    pub(super) fn hear_of_connections(&mut self, now: Instant, letter: Letter) {
        match letter {
            Letter::ConnectionEnded(from, flow, number) => {
                let (node, ends) = (NodeNumber(from as u16 + 1), &mut self.connections.ends);
                let is_missed = match flow.connection {
                    0 => ends.heard_last(node, number),
                    _ => ends.heard_end(node, number),
                };
                if is_missed {
                    self.check_node(now, from);
                }
                self.connection_ended(now, flow);
            }
            Letter::DoTheyStand(from, flows) => {
                let ended = |flow: &Flow| !self.connections.own.contains(flow);
                let ended = flows.iter().copied().filter(ended).collect();
                let letter = Letter::TheyHaveEnded(self.number, flows, ended);
                self.out.push(Out::ToNode(from, letter));
            }
            Letter::TheyHaveEnded(from, asked, ended) => {
                if let Some((_, flows)) = self.connections.unchecked.get_mut(&from) {
                    flows.retain(|flow| !asked.contains(flow));
                }
                for flow in asked {
                    match ended.contains(&flow) {
                        true => self.connection_ended(now, flow),
                        false => self.reach_over(now, flow, Reach::Reachable),
                    }
                }
            }
            _ => unreachable!("it is about connections"),
        }
    }

    /// Looks who lives by the last view, and goes on with what waits.
    pub(super) fn follow_connections(&mut self, now: Instant, is_connected: bool) {
        let view = self.core.view().into_iter().flat_map(|view| &view.nodes);
        let live = view.filter(|node| node.life != busyhour_cluster::Life::Over);
        let live = live.map(|node| (usize::from(node.member.node.0) - 1, node.member.epoch));
        let live: BTreeMap<usize, u64> = live.collect();
        let before = std::mem::replace(&mut self.connections.epochs, live.clone());
        for (node, epoch) in before {
            if live.get(&node) == Some(&epoch) {
                continue;
            }
            let number = NodeNumber(node as u16 + 1);
            self.connections.ends.begins_anew(number);
            self.check_node(now, node);
        }
        let read_at = self.core.view_read_at();
        self.connections
            .unchecked
            .retain(|_, (_, flows)| !flows.is_empty());
        let waiting = self.connections.unchecked.iter();
        let waiting: Vec<_> = waiting.map(|(node, (since, _))| (*node, *since)).collect();
        for (node, since) in waiting {
            match live.contains_key(&node) {
                true => self.ask_whether_they_stand(node),
                // They were entered before, so the life that had them is over.
                false if read_at >= since => self.they_are_over(now, node),
                false => {}
            }
        }
        if let Some(last) = self.connections.ends.due(now, is_connected) {
            let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
            let transport = Transport::Tcp;
            let flow = Flow {
                transport,
                ..Flow::udp(nobody, nobody)
            };
            let letter = Letter::ConnectionEnded(self.number, flow, last);
            self.out.push(Out::ToAll(letter));
        }
    }

    fn they_are_over(&mut self, now: Instant, node: usize) {
        let flows = self.connections.unchecked.remove(&node);
        for flow in flows.into_iter().flat_map(|(_, flows)| flows) {
            self.connection_ended(now, flow);
        }
    }

    fn connection_ended(&mut self, now: Instant, flow: Flow) {
        if flow.connection == 0 {
            return;
        }
        self.cut_watchers(flow);
        for aor in self.devices_over(flow) {
            self.connections.cut_off.push((aor, flow));
        }
        self.reach_over(now, flow, Reach::Unreachable);
    }

    /// The flows of those who watch these.
    fn watcher_flows(&self, is_it: impl Fn(&str) -> bool) -> impl Iterator<Item = Flow> {
        let watchers = self.presence.watchers.values();
        let theirs = watchers.filter(move |it| is_it(it.subscription.device()));
        theirs.map(|watched| watched.subscription.dialog().flow())
    }

    fn cut_watchers(&mut self, flow: Flow) {
        for watched in self.presence.watchers.values_mut() {
            if watched.subscription.dialog().flow() == flow {
                watched.subscription.connection_ended(flow);
            }
        }
    }

    fn devices_over(&self, flow: Flow) -> Vec<Box<str>> {
        let devices = self.memory.values().flatten();
        let over = devices.filter(|(_, bindings)| {
            let mut all = bindings.all();
            all.any(|binding| !binding.is_removed() && binding.contact.flow() == flow)
        });
        over.map(|(aor, _)| aor.clone()).collect()
    }

    fn reach_over(&mut self, now: Instant, flow: Flow, reach: Reach) {
        for aor in self.devices_over(flow) {
            let memory = self.memory.get_mut(&Partition::of(&aor));
            let bindings = memory.and_then(|memory| memory.get_mut(&aor));
            if bindings.is_some_and(|it| it.set_reach(flow, reach).is_some()) {
                self.tell(now, &aor);
            }
        }
    }

    /// Contacts that nothing brings back end, each behind the change of its device that is under way.
    pub(super) fn end_cut_off(&mut self, now: Instant, unix: UnixTime) {
        let at = Now {
            now,
            unix,
            steady: unix,
        };
        for (aor, flow) in std::mem::take(&mut self.connections.cut_off) {
            if self.waits(&aor) {
                self.connections.cut_off.push((aor, flow));
                continue;
            }
            let partition = Partition::of(&aor);
            // If it is not ours any more, the next owner finds it out.
            let Route::Here(grant) = self.core.route(now, partition) else {
                continue;
            };
            let bindings = self.memory.get(&partition).and_then(|it| it.get(&aor));
            let Some(update) = bindings.map(|bindings| bindings.remove_cut_off(flow, at)) else {
                continue;
            };
            if !update.changes.is_empty() {
                self.writes.push_back(Write {
                    aor,
                    grant,
                    changes: update.changes,
                    soft: Vec::new(),
                    then: Then::CutOff(update.bindings),
                });
                self.write();
            }
        }
    }

    /// Whether somebody who calls it is sent to it.
    pub fn reaches(&self, now: Instant, aor: &str) -> bool {
        let memory = self.memory.get(&Partition::of(aor));
        let bindings = memory.and_then(|memory| memory.get(aor));
        bindings.is_some_and(|bindings| bindings.reachable(now).next().is_some())
    }
}
