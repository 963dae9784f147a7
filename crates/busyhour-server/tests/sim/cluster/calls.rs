//! The telephones and lamps around a cluster, and the calls that nodes carry for each other.

use super::site::{ClusterSite, Ways};
use crate::{
    calls::users::{Servers, Users, assert_no_calls},
    client::SECOND,
    life,
    network::Faults,
    random::Random,
};

pub struct CallsWorld {
    site: ClusterSite,
    users: Users,
}

impl CallsWorld {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00ca_1157);
        let clients = Faults {
            loss_permille: random.pick(&[0, 20, 100, 200]),
            duplicate_permille: random.pick(&[0, 20, 100, 300]),
            slow_permille: random.pick(&[0, 20, 100, 300]),
            garbage_permille: 0,
        };
        let nodes = Faults {
            loss_permille: random.pick(&[0, 0, 20, 100]),
            duplicate_permille: random.pick(&[0, 20, 300]),
            slow_permille: random.pick(&[0, 20, 100]),
            garbage_permille: 0,
        };
        let mut config = life::config(false);
        config.calls.session_s = random.pick(&[0, 90, 900]);
        let mut site = ClusterSite::new(seed, random, Ways { clients, nodes }, config);
        let users = Users::new(Servers::Several, &mut site);
        Self { site, users }
    }

    /// A world in which nodes are killed in turn, and no datagram is lost on its way.
    pub fn of_killed_nodes(seed: u64) -> Self {
        let random = Random::new(seed ^ 0x0b17_dead);
        let (clients, nodes) = (Faults::NONE, Faults::NONE);
        let config = life::config(false);
        let site = ClusterSite::new(seed, random, Ways { clients, nodes }, config);
        let mut site = site.killing_each_in_turn();
        let users = Users::new(Servers::Several, &mut site);
        Self { site, users }
    }

    /// Makes the run print every datagram.
    pub fn logged(mut self) -> Self {
        self.site.is_logged = true;
        self
    }

    /// Runs to the end and checks; returns a hash of all that happened, and how many dialogs were handed over.
    pub fn run(mut self) -> (u64, u64) {
        let quiet_at = self.site.quiet_at();
        self.run_until(quiet_at + self.users.quiet_time());
        self.users.check_lamps(self.site.now, "after quiet");
        let now = self.site.now;
        self.users.hang_up_all(&mut self.site);
        self.run_until(now + 5 * SECOND);
        let when = "after all have hung up";
        self.users.check_lamps(self.site.now, when);
        self.run_until(now + 100 * SECOND);
        self.check_tables();
        self.check_records(quiet_at);
        self.users.stop();
        self.site.deafen();
        // A subscription without refreshes ends after at most 150 s, its NOTIFYs stay
        // unanswered for 32 s, and answers are kept for 32 s.
        self.run_until(self.site.now + 230 * SECOND);
        let handed_over = self.site.handed_over + self.handed_over_now();
        let (hash, _) = self.site.end();
        (hash, handed_over)
    }

    fn handed_over_now(&self) -> u64 {
        let stats = self.site.nodes().map(|node| node.server.stats().calls);
        stats.map(|calls| calls.dialogs.handed_over).sum()
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let own = self.users.next_wake().max(self.site.now);
            let next = self.site.next_event().min(own);
            if next > end {
                break;
            }
            self.site.set_now(next);
            self.site.advance();
            while let Some(packet) = self.site.take_packet() {
                self.users.receive(&packet, &mut self.site);
            }
            self.users.wake(&mut self.site);
            self.site.run_nodes();
        }
        self.site.set_now(end);
        self.site.run_nodes();
    }

    /// No node has anything of a call any more.
    fn check_tables(&self) {
        for node in self.site.nodes() {
            let server = &node.server;
            assert_no_calls(&server.stats(), &server.calls(usize::MAX));
        }
    }

    /// Each call that began without faults has one record, which says what its caller was told.
    fn check_records(&self, quiet_at: u64) {
        let records = self.site.database.call_records();
        for (call_id, story) in self.users.stories() {
            if story.carried_at <= quiet_at + SETTLED || story.status == 0 {
                continue;
            }
            let of_call = records.iter().filter(|it| *it.call_id == **call_id);
            let statuses: Vec<u16> = of_call.map(|record| record.status).collect();
            let is_refused = story.status >= 300;
            assert!(
                statuses == [story.status] || is_refused && statuses.is_empty(),
                "{call_id} has records of {statuses:?} and ended with {}",
                story.status
            );
        }
    }
}

/// So long after the last fault nodes may still end what they have begun before.
const SETTLED: u64 = 40 * SECOND;
