//! A service of one's own, run through ten thousand seeds; the first that fails is shrunk, and
//! its smallest form printed as a timeline.
//!
//!     cargo run --release --example seeds                10,000 seeds, all good
//!     cargo run --release --example seeds -- --fault     with a service that counts copies twice
//!     cargo run --release --example seeds -- --fault 1 5 seed 1 with five payments
//!
//! The service adds up payments. A client repeats a payment until it is acknowledged, and the
//! network between them loses, doubles and delays. Yours are in the place of `Service`, `Message`
//! and `BadNetwork`.

use busyhour::{
    runtime::{Runtime, Trial, explore},
    serializer::StatefulSerializer,
};
use std::{
    collections::HashSet,
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// The service's own idea of a network. In production it is a socket.
trait Network: Send + Sync {
    fn send(&self, to: Party, message: Message);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Party {
    Service,
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Message {
    Pay { number: u32, amount: u64 },
    Paid { number: u32 },
}

/// What runs in production and here: no sockets, no threads, no clock of its own.
#[derive(Default)]
struct Service {
    total: u64,
    known: HashSet<u32>,
    /// Counts each copy of a payment: the fault to be found.
    is_faulty: bool,
}

impl Service {
    fn receive(&mut self, message: Message, network: &dyn Network) {
        let Message::Pay { number, amount } = message else {
            return;
        };
        if self.known.insert(number) || self.is_faulty {
            self.total += amount;
        }
        network.send(Party::Client, Message::Paid { number });
    }
}

/// The payments that were acknowledged.
type Client = StatefulSerializer<HashSet<u32>>;

/// Sends a payment now, and again every second until it is acknowledged.
fn pay(runtime: &Runtime, client: &Client, network: &Arc<dyn Network>, number: u32) {
    let (client, network) = (client.clone(), Arc::clone(network));
    let timer = runtime.timers().timer().on(runtime.pool());
    let timer = timer.run_with_next_delay(move || {
        let is_paid = client.push_wait(move |paid| paid.contains(&number));
        if is_paid != Ok(false) {
            return Duration::ZERO; // no further run
        }
        let amount = u64::from(number) * 10;
        network.send(Party::Service, Message::Pay { number, amount });
        Duration::from_secs(1)
    });
    timer.expect("the timers are open");
}

/// The test's network: what it does, the trial chooses. It writes down what happens.
struct BadNetwork {
    trial: Trial,
    parties: OnceLock<(StatefulSerializer<Service>, Client)>,
}

/// `BadNetwork` behind a pointer of its own, so that what is on its way can hold it.
#[derive(Clone)]
struct Link(Arc<BadNetwork>);

impl Network for Link {
    fn send(&self, to: Party, message: Message) {
        let trial = &self.0.trial;
        trial.note(format!("sent     {to:?} <- {message:?}"));
        if trial.happens(format!("lost     {to:?} <- {message:?}"), 10) {
            return;
        }
        let is_doubled = trial.happens(format!("doubled  {to:?} <- {message:?}"), 10);
        for _ in 0..1 + u32::from(is_doubled) {
            let delay = 10 + trial.number_below(format!("delay {to:?} {message:?}"), 1_500);
            let link = self.clone();
            let arrives = move || link.deliver(to, message);
            let (timers, pool) = (trial.runtime().timers(), trial.runtime().pool());
            timers.after(Duration::from_millis(delay), pool, arrives);
        }
    }
}

impl Link {
    fn deliver(&self, to: Party, message: Message) {
        let Some((service, client)) = self.0.parties.get() else {
            return;
        };
        self.0.trial.note(format!("arrives  {to:?} <- {message:?}"));
        let network = self.clone();
        _ = match (to, message) {
            (Party::Service, _) => service.push(move |it| it.receive(message, &network)),
            (Party::Client, Message::Paid { number }) => {
                client.push(move |it| _ = it.insert(number))
            }
            (Party::Client, Message::Pay { .. }) => Ok(()),
        };
    }
}

fn run(trial: &Trial, payments: u32, is_faulty: bool) -> Result<(), String> {
    let runtime = trial.runtime().clone();
    let serializer = |name| runtime.serializer(name).build().expect("the pool is open");
    let service = serializer("service").with_state(Service {
        is_faulty,
        ..Service::default()
    });
    let client = serializer("client").with_state(HashSet::new());
    let parties = OnceLock::from((service.clone(), client.clone()));
    let trial = trial.clone();
    let link = Link(Arc::new(BadNetwork { trial, parties }));
    let trial = &link.0.trial;
    let network: Arc<dyn Network> = Arc::new(link.clone());
    let numbers = (1..=payments).filter(|number| trial.includes(format!("payment {number}")));
    let numbers: Vec<u32> = numbers.collect();
    for number in &numbers {
        pay(&runtime, &client, &network, *number);
    }
    trial.run_for(Duration::from_secs(120));

    let wanted: u64 = numbers.iter().map(|number| u64::from(*number) * 10).sum();
    let total = service.push_wait(|service| service.total);
    let paid = client.push_wait(|paid| paid.len());
    runtime.shutdown(Duration::ZERO);
    match (total, paid) {
        (Ok(total), Ok(paid)) if (total, paid) == (wanted, numbers.len()) => Ok(()),
        (total, paid) => Err(format!(
            "the total is {total:?} instead of {wanted}, {paid:?} acknowledged"
        )),
    }
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_faulty = words.first().is_some_and(|word| word == "--fault");
    words.drain(..usize::from(is_faulty));
    let numbers: Result<Vec<u32>, _> = words.iter().map(|word| word.parse()).collect();
    let (seeds, payments) = match numbers.as_deref() {
        Ok([]) => (0..SEEDS, PAYMENTS),
        Ok(&[seed, payments]) if payments > 0 => (seed.into()..u64::from(seed) + 1, payments),
        _ => {
            eprintln!("usage: seeds [--fault] [SEED PAYMENTS]");
            return ExitCode::from(2);
        }
    };
    let (begin, count) = (Instant::now(), seeds.end - seeds.start);
    if let Err(smallest) = explore(seeds, |trial| run(trial, payments, is_faulty)) {
        println!("{smallest}");
        return ExitCode::FAILURE;
    }
    let took = begin.elapsed();
    println!("{count} seeds with {payments} payments each: all good, in {took:.1?}");
    ExitCode::SUCCESS
}

const SEEDS: u64 = 10_000;
const PAYMENTS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_right_for_a_hundred_seeds() {
        let outcome = explore(0..100, |trial| run(trial, PAYMENTS, false));
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    #[test]
    fn a_faulty_one_is_found_and_shrunk_to_one_payment_and_one_cause() {
        let faulty = |trial: &Trial| run(trial, PAYMENTS, true);
        let smallest = explore(0..100, faulty).expect_err("within a hundred seeds");
        let lines = || smallest.timeline.iter().map(|(_, line)| &**line);
        let count = |word: &str| lines().filter(|line| line.starts_with(word)).count();
        assert_eq!(count("payment"), 1, "{smallest}");
        assert!(count("lost") + count("doubled") <= 1, "{smallest}");
        assert_eq!(explore([smallest.seed], faulty), Err(smallest), "each time");
    }
}
