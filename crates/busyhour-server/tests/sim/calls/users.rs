//! The telephones of a few users and a lamp for each user, at one server or at the nodes of a cluster.

use super::{
    dialog::Name,
    lamp::{Told, dialogs_of, tells_twice},
    message::user,
    telephone::{Story, Telephone},
};
use crate::{
    client::{ClientNetwork, Context, SECOND, address},
    network::Packet,
    watcher::Watcher,
};
use busyhour_server::server::{CallView, ServerStats};
use busyhour_sip::Message;
use std::collections::{BTreeMap, BTreeSet};

pub struct Users {
    telephones: Vec<Telephone>,
    lamps: Vec<Watcher>,
    servers: Servers,
    listens_at: u64,
    /// Since when a lamp shows a dialog twice, by its number.
    doubled: BTreeMap<usize, u64>,
}

/// Who carries the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// One from the beginning to the end.
    One,
    /// One after the other: each ends in the middle of calls.
    InTurn,
    /// The nodes of a cluster, which end, too. For a moment two of them may carry one dialog.
    Several,
}

impl Users {
    pub fn new(servers: Servers, network: &mut impl ClientNetwork) -> Self {
        let count = network.random().within(3, 6) as usize;
        let telephone = |number: usize| {
            let user = match number {
                0..3 => number,
                _ => network.random().within(0, USERS as u64) as usize,
            };
            // What lasts beyond a restart is known again by its refresh.
            let knows_timers = servers != Servers::One || network.random().permille(500);
            let address = address(2, number);
            network.act(address, |context| {
                Telephone::new(number, user, address, knows_timers, context)
            })
        };
        let telephones = (0..count).map(telephone).collect();
        let lamp = |number: usize| {
            let address = address(1, number);
            network.act(address, |context| {
                Watcher::new(number, address, number, false, context).of_calls()
            })
        };
        Self {
            telephones,
            lamps: (0..USERS).map(lamp).collect(),
            servers,
            listens_at: LISTEN,
            doubled: BTreeMap::new(),
        }
    }

    pub fn next_wake(&self) -> u64 {
        let telephones = self.telephones.iter().map(Telephone::next_wake);
        let lamps = self.lamps.iter().map(Watcher::next_wake);
        telephones.chain(lamps).fold(self.listens_at, u64::min)
    }

    pub fn receive(&mut self, packet: &Packet, network: &mut impl ClientNetwork) {
        let to = packet.to;
        if let Some(telephone) = self.telephones.iter_mut().find(|it| it.address == to) {
            network.act(to, |context| telephone.receive(&packet.bytes, context));
        }
        if let Some(number) = self.lamps.iter().position(|it| it.address == to) {
            let lamp = &mut self.lamps[number];
            let message = Message::parse(&packet.bytes).expect("a complete message");
            let is_quiet = network.act(to, |context| {
                lamp.receive(&message, context);
                context.is_quiet
            });
            let is_twice = tells_twice(self.lamps[number].document());
            let may_be = self.servers == Servers::Several;
            assert!(!is_twice || may_be, "a dialog is told twice");
            if !is_twice {
                self.doubled.remove(&number);
            } else if is_quiet {
                self.doubled.entry(number).or_insert(network.now());
            }
        }
    }

    pub fn wake(&mut self, network: &mut impl ClientNetwork) {
        let now = network.now();
        for (number, since) in &self.doubled {
            let document = self.lamps[*number].document();
            assert!(
                *since + DOUBLED_MAX >= now,
                "told twice for long:\n{document}"
            );
        }
        let is_time_to_listen = self.listens_at <= now;
        let talks = match is_time_to_listen {
            true => self.all_talks(),
            false => BTreeSet::new(),
        };
        for telephone in &mut self.telephones {
            if telephone.next_wake() > now && !is_time_to_listen {
                continue;
            }
            // It may move, and what it sent comes from its new address.
            let before = telephone.address;
            network.perhaps_change_server(before);
            let act = |context: &mut Context<'_>| {
                if is_time_to_listen {
                    telephone.listen(&talks, context);
                }
                telephone.wake(context);
                (telephone.address, std::mem::take(context.sent))
            };
            let (address, sent) = network.act(before, act);
            network.act(address, |context| context.sent.extend(sent));
        }
        if is_time_to_listen {
            self.listens_at = now + LISTEN;
        }
        for lamp in self.lamps.iter_mut().filter(|it| it.next_wake() <= now) {
            network.perhaps_change_server(lamp.address);
            network.act(lamp.address, |context| lamp.wake(context));
        }
    }

    pub fn hang_up_all(&mut self, network: &mut impl ClientNetwork) {
        for telephone in &mut self.telephones {
            let address = telephone.address;
            network.act(address, |context| telephone.hang_up_all(context));
        }
    }

    /// After so long without faults the lamps are right.
    pub fn quiet_time(&self) -> u64 {
        match self.telephones.iter().all(Telephone::knows_timers) {
            true => SESSION_QUIET,
            false => PROBING_QUIET,
        }
    }

    /// Each lamp shows the dialogs that the telephones say they have.
    pub fn check_lamps(&self, now: u64, when: &str) {
        let restarts = self.servers != Servers::One;
        for (number, lamp) in self.lamps.iter().enumerate() {
            let telephones = self.telephones.iter().filter(|it| it.user == number);
            let mut truth = BTreeMap::new();
            for telephone in telephones {
                let is_settled = !telephone.is_off(now) && !telephone.is_undecided();
                assert!(
                    is_settled,
                    "a telephone of {} has not settled",
                    user(number)
                );
                for (name, holds) in telephone.talks() {
                    let told = Told {
                        state: "confirmed".to_owned(),
                        // A refresh need not say who held whom before a restart.
                        holds: if restarts { [false; 2] } else { holds },
                    };
                    truth.insert(name.clone(), told);
                }
            }
            let mut shown = dialogs_of(lamp.document());
            if restarts {
                shown.values_mut().for_each(|told| told.holds = [false; 2]);
            }
            assert_eq!(shown, truth, "the lamp of {} {when}", user(number));
        }
    }

    /// How each call went, as its caller knows it.
    pub fn stories(&self) -> impl Iterator<Item = (&String, &Story)> {
        self.telephones.iter().flat_map(|it| &it.stories)
    }

    /// Nobody sends anything any more.
    pub fn stop(&mut self) {
        self.lamps.iter_mut().for_each(Watcher::stop);
        self.telephones.clear();
    }

    fn all_talks(&self) -> BTreeSet<Name> {
        let talks = self.telephones.iter().flat_map(Telephone::talks);
        talks.map(|(name, _)| name.clone()).collect()
    }
}

/// A server has nothing of a call any more.
pub fn assert_no_calls(stats: &ServerStats, lasting: &[CallView]) {
    let (calls, proxy, dialogs) = (&stats.calls, &stats.calls.proxy, &stats.calls.dialogs);
    let left = [
        calls.charged_bytes,
        proxy.transaction_count,
        proxy.branch_count,
        proxy.held_bytes,
        dialogs.call_count,
        dialogs.lingering_count,
    ];
    assert_eq!(left, [0; 6], "{calls:#?}");
    assert!(lasting.is_empty());
}

const USERS: usize = 4;
/// Longer than a session lasts that is not refreshed.
const SESSION_QUIET: u64 = 420 * SECOND;
/// Longer than it takes to ask about a dialog of which nothing is heard.
const PROBING_QUIET: u64 = 1_000 * SECOND;
/// Without faults nodes agree by then on who carries a dialog.
const DOUBLED_MAX: u64 = SECOND;
/// How often telephones notice whether media come.
const LISTEN: u64 = 20 * SECOND;
