//! The simulated world of devices and watchers.

use crate::{
    client::{ClientNetwork, Context, NEVER, SECOND, address},
    device::Device,
    life,
    network::{Faults, Packet},
    random::Random,
    site::Site,
    watcher::{Belief, Watcher},
};
use busyhour_sip::Message;

pub struct World {
    site: Site,
    plan: Vec<(u64, Step)>,
    devices: Vec<Device>,
    watchers: Vec<Watcher>,
}

/// What happens to the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Start,
    /// The clock is set to a time that is wrong by this many seconds.
    SetClock(i64),
    /// The machine is restarted; no server runs at that time.
    Reboot,
    Crash,
    ShutDown,
    Quiet,
    LastQuestion,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let faults = Faults::draw(&mut random);
        let config = life::config(random.permille(500));
        let plan = plan(&mut random);
        let mut world = Self {
            site: Site::new(seed, random, faults, config),
            plan,
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

    /// Runs to the end and checks; returns a hash of all that happened.
    pub fn run(mut self) -> u64 {
        let last_question = self.plan.last().map_or(0, |(at, _)| *at);
        let random = &mut self.site.random;
        let end = last_question + random.within(20 * SECOND, 200 * SECOND);
        self.run_until(end);
        check_beliefs(&self.devices, &self.watchers, self.site.now);
        self.devices.iter_mut().for_each(Device::stop);
        self.watchers.iter_mut().for_each(Watcher::stop);
        // A subscription without refreshes ends after at most 120 s, its
        // NOTIFYs stay unanswered for 32 s, and answers are kept for 32 s.
        self.site.deafen();
        self.run_until(end + 260 * SECOND);
        self.site.life().assert_nothing_pinned();
        self.site.end()
    }

    fn populate(&mut self) {
        let random = &mut self.site.random;
        let device_count = random.within(1, 7) as usize;
        let watcher_count = random.within(0, 6) as usize;
        for number in 0..device_count {
            let address = address(0, number);
            let begin = |context: &mut Context<'_>| Device::new(number, address, context);
            self.devices.push(self.site.act(address, begin));
        }
        for number in 0..watcher_count {
            let device = self.site.random.within(0, device_count as u64) as usize;
            // A patient watcher refreshes seldom, so it learns changes only by
            // NOTIFY. The network must not be so bad that the server gives it up.
            let is_lossless = self.site.network.faults.loss_permille == 0;
            let is_patient = is_lossless && self.site.random.permille(500);
            let address = address(1, number);
            let begin = |context: &mut Context<'_>| {
                Watcher::new(number, address, device, is_patient, context)
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
            self.site.now = next;
            self.advance();
        }
        self.site.now = end;
        self.site.run_server();
    }

    fn next_event(&self) -> u64 {
        let step = self.plan.first().map_or(NEVER, |(at, _)| *at);
        let devices = self.devices.iter().map(Device::next_wake);
        let watchers = self.watchers.iter().map(Watcher::next_wake);
        let actors = devices.chain(watchers).fold(NEVER, u64::min);
        self.site.next_event().min(step).min(actors)
    }

    /// Does everything that is due now, always in the same order.
    fn advance(&mut self) {
        self.site.run_server();
        while self
            .plan
            .first()
            .is_some_and(|(at, _)| *at <= self.site.now)
        {
            let (_, step) = self.plan.remove(0);
            self.take_step(step);
        }
        while let Some(packet) = self.site.take_packet() {
            self.deliver(&packet);
        }
        self.wake_actors();
        self.site.run_server();
    }

    fn take_step(&mut self, step: Step) {
        self.site.log(|| format!("--- {step:?}"));
        match step {
            Step::Start => self.site.start(),
            Step::SetClock(wrong_by_s) => self.site.set_clock(wrong_by_s),
            Step::Reboot => self.site.reboot(),
            Step::Crash => self.site.crash(),
            Step::ShutDown => self.site.shut_down(),
            Step::Quiet => self.site.quiet(),
            Step::LastQuestion => {
                let now = self.site.now;
                let ask = |device: &mut Device| device.ask_a_last_time(now);
                self.devices.iter_mut().for_each(ask);
            }
        }
    }

    fn wake_actors(&mut self) {
        let now = self.site.now;
        for device in self.devices.iter_mut().filter(|it| it.next_wake() <= now) {
            self.site
                .act(device.address, |context| device.wake(context));
        }
        for watcher in self.watchers.iter_mut().filter(|it| it.next_wake() <= now) {
            self.site
                .act(watcher.address, |context| watcher.wake(context));
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        let message = Message::parse(&packet.bytes).expect("the server sends complete messages");
        let to = packet.to;
        if let Some(device) = self.devices.iter_mut().find(|it| it.address == to) {
            self.site
                .act(to, |context| device.receive(&message, context));
        }
        if let Some(watcher) = self.watchers.iter_mut().find(|it| it.address == to) {
            self.site
                .act(to, |context| watcher.receive(&message, context));
        }
    }
}

/// Every device had an answer to its last request, and every watcher has the right state.
pub fn check_beliefs(devices: &[Device], watchers: &[Watcher], now: u64) {
    for device in devices {
        assert!(
            device.is_done(),
            "{} got no answer to its last request",
            device.user
        );
    }
    for watcher in watchers {
        let device = &devices[watcher.device];
        let agreement = match watcher.belief() {
            Belief::Priorities(told) => {
                let contacts: Vec<_> = told.iter().map(|q| device.contact_of(q)).collect();
                device.knowledge.agrees(&contacts, now, MARGIN)
            }
            Belief::Count(count) => {
                let (least, most) = device.knowledge.count(now, MARGIN);
                let fits = (least..=most).contains(count);
                fits.then_some(())
                    .ok_or(format!("{count} of {least}..{most}"))
            }
            Belief::Nothing => Err("it was told nothing".to_owned()),
        };
        if let Err(error) = agreement {
            panic!("a watcher of {} has a wrong state: {error}", device.user);
        }
    }
}

/// The runs of the server, then a time without faults, then a last request of
/// each device.
fn plan(random: &mut Random) -> Vec<(u64, Step)> {
    let mut plan = vec![(0, set_clock(random)), (0, Step::Start)];
    let mut now = 0;
    for _ in 0..random.within(0, 4) {
        let is_set = random.permille(400);
        if is_set {
            now += random.within(SECOND, 60 * SECOND);
            plan.push((now, set_clock(random)));
        }
        let begun = now;
        now += random.within(5 * SECOND, 90 * SECOND);
        let is_settled = now - begun > SETTLING;
        let end = random.pick(&[Step::Crash, Step::Crash, Step::ShutDown]);
        plan.push((now, end));
        // A shutdown takes as long as the disk needs.
        now = (now / SECOND + random.within(6, 15)) * SECOND;
        match random.within(0, 3) {
            // Only after that time does the disk certainly have the new time.
            0 if is_settled => plan.push((now, Step::Reboot)),
            1 => plan.push((now, set_clock(random))),
            _ => {}
        }
        plan.push((now, Step::Start));
    }
    now += random.within(20 * SECOND, 120 * SECOND);
    plan.push((now, Step::Quiet));
    // In this time old requests end, and every watcher refreshes or learns that
    // its subscription has ended.
    now += 220 * SECOND;
    plan.push((now, Step::LastQuestion));
    plan
}

fn set_clock(random: &mut Random) -> Step {
    Step::SetClock(random.pick(&[0, -86_400, 86_400, -7, 7]))
}

/// The server checks its clock every second. Within this time even the worst
/// disk, which fails nine of ten transactions, has stored the change.
const SETTLING: u64 = 60 * SECOND;
/// If a binding ends so close to the check, the server may report it or not.
const MARGIN: u64 = 3 * SECOND;
