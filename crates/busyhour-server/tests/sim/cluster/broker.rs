//! The broker that all nodes share: what one publishes comes to each subscriber in its order, or is lost.

use crate::random::Random;
use busyhour_cluster::{Answered, Broker, BrokerError, BrokerMessage, Receive};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// What all of it is in, for the world and for each node.
#[derive(Clone)]
pub struct SharedBroker(Arc<Mutex<BrokerState>>);

struct BrokerState {
    now: u64,
    random: Random,
    loss_permille: u64,
    /// On their way, by the process that has sent them.
    letters: BTreeMap<u64, VecDeque<Letter>>,
    subscriptions: Vec<Subscription>,
    requests: BTreeMap<String, Request>,
    request_count: u64,
    /// The places that do not reach it.
    away: BTreeSet<usize>,
}

struct Letter {
    at: u64,
    subject: String,
    message: BrokerMessage,
}

struct Subscription {
    process: u64,
    place: usize,
    subject: String,
    receive: Arc<Mutex<Receive>>,
}

struct Request {
    process: u64,
    place: usize,
    late_at: u64,
    done: Answered,
}

/// What comes to a process; nothing of it is done under the broker's lock.
pub enum Arrival {
    Message(Arc<Mutex<Receive>>, BrokerMessage),
    Answer(Answered, Result<Vec<u8>, BrokerError>),
}

impl Arrival {
    pub fn arrive(self) {
        match self {
            Self::Message(receive, message) => {
                let mut receive = receive.lock().unwrap_or_else(|it| it.into_inner());
                receive(message);
            }
            Self::Answer(done, answer) => done(answer),
        }
    }
}

impl SharedBroker {
    pub fn new(random: &mut Random) -> Self {
        let loss_permille = random.pick(&[0, 0, 5, 30]);
        Self(Arc::new(Mutex::new(BrokerState {
            now: 0,
            random: Random::new(random.next()),
            loss_permille,
            letters: BTreeMap::new(),
            subscriptions: Vec::new(),
            requests: BTreeMap::new(),
            request_count: 0,
            away: BTreeSet::new(),
        })))
    }

    pub fn set_now(&self, now: u64) {
        self.lock().now = now;
    }

    pub fn reach(&self, place: usize, reaches: bool) {
        let mut state = self.lock();
        match reaches {
            true => state.away.remove(&place),
            false => state.away.insert(place),
        };
    }

    pub fn quiet(&self) {
        let mut state = self.lock();
        state.away.clear();
        state.loss_permille = 0;
    }

    pub fn open(&self, process: u64, place: usize) -> NodeBroker {
        NodeBroker {
            broker: self.clone(),
            process,
            place,
        }
    }

    /// The process is dead; what it has sent before goes on.
    pub fn close(&self, process: u64) {
        let mut state = self.lock();
        let (gone, rest) = std::mem::take(&mut state.subscriptions)
            .into_iter()
            .partition(|it: &Subscription| it.process == process);
        state.subscriptions = rest;
        let gone: Vec<Subscription> = gone;
        let requests = state.requests.extract_if(.., |_, it| it.process == process);
        let unheard: Vec<_> = requests.collect();
        drop(state);
        // They may hold the server's last handles.
        drop((gone, unheard));
    }

    pub fn next_event(&self) -> Option<u64> {
        let state = self.lock();
        let letters = state.letters.values().filter_map(|it| it.front());
        let late = state.requests.values().map(|request| request.late_at);
        letters.map(|letter| letter.at).chain(late).min()
    }

    /// What comes to somebody now, each with the process and the place to which it comes.
    pub fn take_due(&self) -> Vec<(u64, usize, Arrival)> {
        let mut state = self.lock();
        let now = state.now;
        let late = state.requests.extract_if(.., |_, it| it.late_at <= now);
        let mut arrivals: Vec<(u64, usize, Arrival)> = late
            .map(|(_, it)| {
                let arrival = Arrival::Answer(it.done, Err(BrokerError::Late));
                (it.process, it.place, arrival)
            })
            .collect();
        let mut due = Vec::new();
        for letters in state.letters.values_mut() {
            while let Some(letter) = letters.pop_front_if(|it| it.at <= now) {
                due.push(letter);
            }
        }
        for letter in due {
            arrivals.extend(state.arrivals(letter));
        }
        arrivals
    }

    fn lock(&self) -> MutexGuard<'_, BrokerState> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl BrokerState {
    fn arrivals(&mut self, letter: Letter) -> Vec<(u64, usize, Arrival)> {
        let Letter {
            subject, message, ..
        } = letter;
        if let Some(request) = self.requests.remove(&subject) {
            if self.away.contains(&request.place) {
                // Nobody else is told: it is late in its time.
                self.requests.insert(subject, request);
                return Vec::new();
            }
            let arrival = Arrival::Answer(request.done, Ok(message.payload));
            return vec![(request.process, request.place, arrival)];
        }
        let heard = self.subscriptions.iter().filter(|it| it.subject == subject);
        let heard = heard.filter(|it| !self.away.contains(&it.place));
        let arrivals: Vec<_> = heard
            .map(|it| {
                let arrival = Arrival::Message(it.receive.clone(), message.clone());
                (it.process, it.place, arrival)
            })
            .collect();
        let unheard = (message.reply.as_ref()).filter(|_| arrivals.is_empty());
        let nobody = unheard.and_then(|reply| self.requests.remove(reply));
        let nobody = nobody.map(|it| {
            let arrival = Arrival::Answer(it.done, Err(BrokerError::Nobody));
            (it.process, it.place, arrival)
        });
        arrivals.into_iter().chain(nobody).collect()
    }

    fn send(&mut self, process: u64, subject: &str, message: BrokerMessage) {
        if self.random.permille(self.loss_permille) {
            return;
        }
        let way = self.random.within(100_000, 5_000_000);
        let letters = self.letters.entry(process).or_default();
        let before = letters.back().map_or(0, |letter| letter.at);
        letters.push_back(Letter {
            at: before.max(self.now + way),
            subject: subject.to_owned(),
            message,
        });
    }
}

/// The broker, as a node uses it.
pub struct NodeBroker {
    broker: SharedBroker,
    process: u64,
    place: usize,
}

impl Broker for NodeBroker {
    fn publish(&self, subject: &str, payload: Vec<u8>) -> Result<(), BrokerError> {
        let mut state = self.broker.lock();
        if state.away.contains(&self.place) {
            return Err(BrokerError::Away);
        }
        let reply = None;
        state.send(self.process, subject, BrokerMessage { payload, reply });
        Ok(())
    }

    fn request(
        &self,
        subject: &str,
        payload: Vec<u8>,
        patience: Duration,
        done: Answered,
    ) -> Result<(), BrokerError> {
        let mut state = self.broker.lock();
        if state.away.contains(&self.place) {
            return Err(BrokerError::Away);
        }
        state.request_count += 1;
        // In the order of asking.
        let reply = format!("reply.{:08}", state.request_count);
        let request = Request {
            process: self.process,
            place: self.place,
            late_at: state.now + patience.as_nanos() as u64,
            done,
        };
        state.requests.insert(reply.clone(), request);
        let reply = Some(reply);
        state.send(self.process, subject, BrokerMessage { payload, reply });
        Ok(())
    }

    fn subscribe(&self, subject: &str, receive: Receive) -> Result<(), BrokerError> {
        self.broker.lock().subscriptions.push(Subscription {
            process: self.process,
            place: self.place,
            subject: subject.to_owned(),
            receive: Arc::new(Mutex::new(receive)),
        });
        Ok(())
    }

    fn is_connected(&self) -> bool {
        !self.broker.lock().away.contains(&self.place)
    }
}
