//! Many devices and watchers behind one socket, driven by one thread.

use crate::{
    call::{Context, Plan},
    device::Device,
    support::{
        random::Random,
        relay::{socket, wait_for_any},
    },
    watcher::Watcher,
};
use busyhour_sip::{HeaderName, Message, Method};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A running fleet.
pub struct Fleet {
    shared: Arc<Mutex<Crew>>,
    thread: Option<JoinHandle<()>>,
}

/// All devices and watchers of a fleet, and what happened to them.
pub struct Crew {
    pub devices: Vec<Device>,
    pub watchers: Vec<Watcher>,
    plan: Plan,
    random: Random,
    /// When a device or watcher may have something to do; devices have the
    /// first indexes, then watchers.
    alarms: BinaryHeap<Reverse<(Instant, u32)>>,
    pub acknowledged: u64,
    pub notified: u64,
    /// The `Date` header of the last registration's answer.
    pub date: String,
    /// The first thing that the server did and no server may do.
    pub complaint: Option<String>,
    is_frozen: bool,
    is_over: bool,
}

impl Fleet {
    /// Starts devices numbered from 1, and watchers of some of `device_count`
    /// devices.
    pub fn start(
        server: SocketAddr,
        device_count: u32,
        watched: impl Iterator<Item = u32>,
        plan: Plan,
        random: Random,
    ) -> Self {
        let crew = Crew::new(device_count, watched, plan, random);
        let shared = Arc::new(Mutex::new(crew));
        let (socket, working) = (socket(), shared.clone());
        socket.connect(server).expect("loopback");
        let thread = thread::spawn(move || run(&socket, &working));
        Self {
            shared,
            thread: Some(thread),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Crew> {
        self.shared
            .lock()
            .expect("no thread panicked with the lock")
    }

    /// While the fleet is frozen it neither reads nor sends. Afterwards it
    /// reads what came meanwhile.
    pub fn freeze(&self, is_frozen: bool) {
        self.lock().is_frozen = is_frozen;
    }

    /// Ends all traffic; the state is kept.
    pub fn stop(&mut self) {
        self.lock().is_over = true;
        self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Ok(mut crew) = self.shared.lock() {
            crew.is_over = true;
        }
        self.thread.take().map(JoinHandle::join);
    }
}

impl Crew {
    fn new(
        device_count: u32,
        watched: impl Iterator<Item = u32>,
        plan: Plan,
        mut random: Random,
    ) -> Self {
        let now = Instant::now();
        let mut moment = |within: Duration| {
            now + Duration::from_micros(random.below(within.as_micros() as usize) as u64)
        };
        let devices = (1..=device_count).map(|number| Device::new(number, moment(plan.pause)));
        let devices: Vec<Device> = devices.collect();
        let watcher = |(number, device)| Watcher::new(number, device, moment(plan.refresh));
        let watchers = (0..).zip(watched).map(watcher).collect();
        let mut crew = Self {
            devices,
            watchers,
            plan,
            random,
            alarms: BinaryHeap::new(),
            acknowledged: 0,
            notified: 0,
            date: String::new(),
            complaint: None,
            is_frozen: false,
            is_over: false,
        };
        (0..crew.len()).for_each(|index| crew.set_alarm(index));
        crew
    }

    /// Lets watchers refresh again.
    pub fn refresh_again(&mut self) {
        self.plan.is_last = false;
    }

    /// Each device makes one more request, and watchers only receive.
    pub fn end_well(&mut self) {
        let now = Instant::now();
        self.plan.is_last = true;
        let each = self.plan.pause / (self.devices.len() as u32).max(1);
        for index in 0..self.devices.len() as u32 {
            self.devices[index as usize].end_well(now + each * index);
            self.set_alarm(index);
        }
    }

    fn len(&self) -> u32 {
        (self.devices.len() + self.watchers.len()) as u32
    }

    fn set_alarm(&mut self, index: u32) {
        let at = self.next_wake(index);
        self.alarms.extend(at.map(|at| Reverse((at, index))));
    }

    /// Wakes all that are due; returns when the next one is.
    fn wake(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) -> Option<Instant> {
        while let Some(Reverse((at, index))) = self.alarms.peek().copied() {
            if at > now {
                return Some(at);
            }
            self.alarms.pop();
            // The time of an alarm may have been changed since it was set.
            if self.next_wake(index).is_some_and(|at| at <= now) {
                self.act(index, now, out, |actor, context| {
                    match actor {
                        Actor::Device(device) => device.wake(context),
                        Actor::Watcher(watcher) => watcher.wake(context),
                    }
                    Ok(())
                });
            }
        }
        None
    }

    fn next_wake(&self, index: u32) -> Option<Instant> {
        match self.devices.get(index as usize) {
            Some(device) => device.next_wake(),
            None => Some(self.watchers[index as usize - self.devices.len()].next_wake()),
        }
    }

    fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Vec<Vec<u8>>) {
        let Ok(message) = Message::parse(datagram) else {
            return self.complain("the server wrote what is no message".to_owned());
        };
        let is_notify = message.method() == Some(Method::Notify);
        let Some((index, generation)) = self.addressee(&message, is_notify) else {
            return self.complain(format!("a message to nobody: {message:?}"));
        };
        self.notified += u64::from(is_notify);
        let before = self.acknowledged;
        self.act(index, now, out, |actor, context| match actor {
            Actor::Device(device) => device.receive(&message, context),
            Actor::Watcher(watcher) if is_notify => {
                watcher.notified(&message, generation, context);
                Ok(())
            }
            Actor::Watcher(watcher) => watcher.receive(&message, context),
        });
        if self.acknowledged > before {
            let date = message.header(HeaderName::Date);
            self.date = date.unwrap_or_default().to_owned();
        }
    }

    /// To whom a message belongs, and to which dialog of a watcher.
    fn addressee(&self, message: &Message<'_>, is_notify: bool) -> Option<(u32, u32)> {
        let name = match is_notify {
            true => message.call_id().ok()?,
            false => message.via().ok()?.branch()?.strip_prefix("z9hG4bK")?,
        };
        let mut numbers = name.get(1..)?.split('.').map(str::parse);
        let (number, generation): (u32, u32) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let index = match name.starts_with('w') {
            true => self.devices.len() as u32 + number,
            false => number.checked_sub(1)?,
        };
        (index < self.len()).then_some((index, generation))
    }

    fn act(
        &mut self,
        index: u32,
        now: Instant,
        out: &mut Vec<Vec<u8>>,
        act: impl FnOnce(Actor<'_>, &mut Context<'_>) -> Result<(), String>,
    ) {
        let mut context = Context {
            now,
            random: &mut self.random,
            out,
            plan: self.plan,
            acknowledged: &mut self.acknowledged,
        };
        let device_count = self.devices.len();
        let actor = match self.devices.get_mut(index as usize) {
            Some(device) => Actor::Device(device),
            None => Actor::Watcher(&mut self.watchers[index as usize - device_count]),
        };
        if let Err(complaint) = act(actor, &mut context) {
            self.complain(complaint);
        }
        self.set_alarm(index);
    }

    fn complain(&mut self, complaint: String) {
        self.complaint.get_or_insert(complaint);
    }
}

/// A device or a watcher.
enum Actor<'a> {
    Device(&'a mut Device),
    Watcher(&'a mut Watcher),
}

fn run(socket: &UdpSocket, crew: &Mutex<Crew>) {
    let mut room = vec![0; 65536];
    let mut out = Vec::new();
    loop {
        let mut crew = crew.lock().expect("no thread panicked with the lock");
        if crew.is_over {
            return;
        }
        if crew.is_frozen {
            drop(crew);
            thread::sleep(FROZEN_PACE);
            continue;
        }
        let now = Instant::now();
        let mut is_idle = true;
        for _ in 0..BATCH {
            // While there is no server, receiving returns an error.
            let Ok(count) = socket.recv(&mut room) else {
                break;
            };
            is_idle = false;
            crew.receive(now, &room[..count], &mut out);
        }
        let next = crew.wake(now, &mut out);
        drop(crew);
        for datagram in out.drain(..) {
            // A datagram that cannot be sent counts as lost, and is
            // retransmitted.
            let _ = socket.send(&datagram);
        }
        if is_idle {
            wait_for_any(&[socket], next).expect("a valid socket");
        }
    }
}

const BATCH: usize = 64;
/// The time between two checks whether the fleet is still frozen.
const FROZEN_PACE: Duration = Duration::from_millis(20);
