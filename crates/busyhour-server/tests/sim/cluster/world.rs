//! The telephones and watchers around a cluster.

use super::site::{ClusterSite, Ways};
use crate::{
    client::{ClientNetwork, Context, NEVER, SECOND, address},
    device::Device,
    life,
    network::{Faults, Packet},
    random::Random,
    watcher::Watcher,
    world::check_beliefs,
};
use busyhour_sip::Message;

pub struct ClusterWorld {
    site: ClusterSite,
    devices: Vec<Device>,
    watchers: Vec<Watcher>,
    /// When each device asks a last time.
    last_question_at: u64,
}

impl ClusterWorld {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x00c1_0573);
        let mut clients = Faults::draw(&mut random);
        if random.permille(500) {
            // Only then some watchers are patient.
            clients.loss_permille = 0;
        }
        // A long message goes in pieces, so a network of which each third datagram is lost gives up too many NOTIFYs.
        let nodes = Faults {
            loss_permille: random.pick(&[0, 0, 20, 100]),
            duplicate_permille: random.pick(&[0, 20, 300]),
            slow_permille: random.pick(&[0, 20, 100]),
            garbage_permille: 0,
        };
        let config = life::config(random.permille(500));
        let site = ClusterSite::new(seed, random, Ways { clients, nodes }, config);
        let mut world = Self {
            last_question_at: site.quiet_at() + LAST_QUESTION,
            site,
            devices: Vec::new(),
            watchers: Vec::new(),
        };
        world.populate();
        world
    }

    /// Makes the run print every datagram.
    pub fn logged(mut self) -> Self {
        self.site.is_logged = true;
        self
    }

    /// Runs to the end and checks; returns a hash of all that happened, and how many requests have waited for their partitions.
    pub fn run(mut self) -> (u64, u64) {
        let end = self.last_question_at + self.site.random.within(10 * SECOND, 60 * SECOND);
        self.run_until(end);
        check_beliefs(&self.devices, &self.watchers, self.site.now);
        self.site.count_bindings();
        self.devices.iter_mut().for_each(Device::stop);
        self.watchers.iter_mut().for_each(Watcher::stop);
        // A subscription without refreshes ends after at most 60 s, its
        // NOTIFYs stay unanswered for 32 s, and answers are kept for 32 s.
        self.site.deafen();
        self.run_until(end + 150 * SECOND);
        assert_eq!(self.site.count_bindings(), 0, "all have ended");
        self.site.end()
    }

    fn populate(&mut self) {
        let device_count = self.site.random.within(1, 7) as usize;
        let watcher_count = self.site.random.within(1, 6) as usize;
        for number in 0..device_count {
            let address = address(0, number);
            let begin =
                |context: &mut Context<'_>| Device::new(number, address, context).resting_briefly();
            self.devices.push(self.site.act(address, begin));
        }
        for number in 0..watcher_count {
            let device = self.site.random.within(0, device_count as u64) as usize;
            // A patient watcher refreshes seldom, so it learns changes only by NOTIFY. The networks must not be so bad that
            // the server gives it up.
            let is_patient = self.site.is_lossless() && self.site.random.permille(500);
            let address = address(1, number);
            let begin = |context: &mut Context<'_>| {
                Watcher::new(number, address, device, is_patient, context).refreshing_often()
            };
            self.watchers.push(self.site.act(address, begin));
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let next = self.next_event();
            if next > end {
                break;
            }
            self.site.set_now(next);
            self.advance();
        }
        self.site.set_now(end);
        self.site.run_nodes();
    }

    fn next_event(&self) -> u64 {
        let devices = self.devices.iter().map(Device::next_wake);
        let watchers = self.watchers.iter().map(Watcher::next_wake);
        let actors = devices.chain(watchers).fold(NEVER, u64::min);
        let own = actors.min(self.last_question_at).max(self.site.now);
        self.site.next_event().min(own)
    }

    fn advance(&mut self) {
        let now = self.site.now;
        self.site.advance();
        if self.last_question_at <= now {
            self.last_question_at = NEVER;
            let ask = |device: &mut Device| device.ask_a_last_time(now);
            self.devices.iter_mut().for_each(ask);
        }
        while let Some(packet) = self.site.take_packet() {
            self.deliver(&packet);
        }
        self.wake_actors();
        self.site.run_nodes();
    }

    fn deliver(&mut self, packet: &Packet) {
        let message = Message::parse(&packet.bytes).expect("nodes send complete messages");
        let to = packet.to;
        if let Some(device) = self.devices.iter_mut().find(|it| it.address == to) {
            let receive = |context: &mut Context<'_>| device.receive(&message, context);
            self.site.act(to, receive);
        }
        if let Some(watcher) = self.watchers.iter_mut().find(|it| it.address == to) {
            let receive = |context: &mut Context<'_>| watcher.receive(&message, context);
            self.site.act(to, receive);
        }
    }

    fn wake_actors(&mut self) {
        let now = self.site.now;
        for device in self.devices.iter_mut().filter(|it| it.next_wake() <= now) {
            self.site.perhaps_change_server(device.address);
            self.site
                .act(device.address, |context| device.wake(context));
        }
        for watcher in self.watchers.iter_mut().filter(|it| it.next_wake() <= now) {
            self.site.perhaps_change_server(watcher.address);
            self.site
                .act(watcher.address, |context| watcher.wake(context));
        }
    }
}

/// In this time without faults old requests end, and every watcher refreshes or learns that its subscription has ended.
const LAST_QUESTION: u64 = 150 * SECOND;
