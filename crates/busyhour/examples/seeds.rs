//! A service of one's own, run through ten thousand seeds; the first that fails is shrunk, and
//! its smallest form printed as a timeline.
//!
//!     cargo run --release --example seeds                10,000 seeds, all good
//!     cargo run --release --example seeds -- --fault     with a service that counts copies twice
//!     cargo run --release --example seeds -- --fault 1 5 seed 1 with five payments
//!
//! The service adds up payments. A client repeats a payment until it is acknowledged, and the
//! network between them loses, doubles and delays. Yours are in the place of `Service`, `Message`
//! and `Network`; `run` and `shrink` can stay as they are.

use busyhour::{runtime::Runtime, serializer::StatefulSerializer};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    process::ExitCode,
    sync::{Arc, Mutex, OnceLock},
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

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Sent,
    Lost,
    Doubled,
}

/// What it says, and how often that was said before. So it has the same identity in a smaller run.
type MessageId = (String, u64);

/// A run that can be repeated, and made smaller.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    seed: u64,
    payments: BTreeSet<u32>,
    /// Messages that arrive once and at once whatever the seed says.
    calm: BTreeSet<MessageId>,
    is_faulty: bool,
}

impl Plan {
    fn new(seed: u64, payments: u32, is_faulty: bool) -> Self {
        Self {
            seed,
            payments: (1..=payments).collect(),
            calm: BTreeSet::new(),
            is_faulty,
        }
    }
}

/// The test's network: what it does depends on the plan alone. It writes down what happens.
struct BadNetwork {
    runtime: Runtime,
    plan: Plan,
    parties: OnceLock<(StatefulSerializer<Service>, Client)>,
    timeline: Mutex<Vec<String>>,
    /// How often each message was sent.
    counts: Mutex<HashMap<String, u64>>,
    /// Those that were not simply delivered.
    troubled: Mutex<Vec<MessageId>>,
}

/// What is on its way holds the network.
#[derive(Clone)]
struct Link(Arc<BadNetwork>);

impl Network for Link {
    fn send(&self, to: Party, message: Message) {
        let network = &self.0;
        let id = network.identify(message);
        // Each message has chances of its own, so that what is left out changes no other.
        let mut random = Random(network.plan.seed ^ hash(&id));
        let is_calm = network.plan.calm.contains(&id);
        let fate = match random.below(10) {
            _ if is_calm => Fate::Sent,
            0 => Fate::Lost,
            1 | 2 => Fate::Doubled,
            _ => Fate::Sent,
        };
        network.note(&format!("{fate:?}"), to, message);
        for _ in 0..[1, 0, 2][fate as usize] {
            let delay = if is_calm { 10 } else { random.below(1_500) };
            let link = self.clone();
            let arrives = move || link.0.deliver(to, message);
            let (timers, pool) = (network.runtime.timers(), network.runtime.pool());
            timers.after(Duration::from_millis(delay), pool, arrives);
        }
        if !is_calm {
            lock(&network.troubled).push(id);
        }
    }
}

impl BadNetwork {
    fn identify(&self, message: Message) -> MessageId {
        let text = format!("{message:?}");
        let mut counts = lock(&self.counts);
        let count = counts.entry(text.clone()).or_default();
        *count += 1;
        (text, *count)
    }

    fn deliver(self: &Arc<Self>, to: Party, message: Message) {
        let Some((service, client)) = self.parties.get() else {
            return;
        };
        self.note("Arrives", to, message);
        let network = Link(Arc::clone(self));
        _ = match (to, message) {
            (Party::Service, _) => service.push(move |it| it.receive(message, &network)),
            (Party::Client, Message::Paid { number }) => {
                client.push(move |it| _ = it.insert(number))
            }
            (Party::Client, Message::Pay { .. }) => Ok(()),
        };
    }

    fn note(&self, what: &str, to: Party, message: Message) {
        let at = self.runtime.clock().now().as_nanos() / 1_000_000;
        let line = format!("{at:>7} ms  {what:<8} {to:?} <- {message:?}");
        lock(&self.timeline).push(line);
    }
}

/// How a run failed.
struct Failure {
    what: String,
    timeline: Vec<String>,
    /// The messages that were not simply delivered.
    troubled: Vec<MessageId>,
}

fn run(plan: &Plan) -> Result<(), Failure> {
    let runtime = Runtime::simulated(plan.seed);
    let serializer = |name| runtime.serializer(name).build().expect("the pool is open");
    let service = serializer("service").with_state(Service {
        is_faulty: plan.is_faulty,
        ..Service::default()
    });
    let client = serializer("client").with_state(HashSet::new());
    let network = Arc::new(BadNetwork {
        runtime: runtime.clone(),
        plan: plan.clone(),
        parties: OnceLock::new(),
        timeline: Mutex::default(),
        counts: Mutex::default(),
        troubled: Mutex::default(),
    });
    _ = network.parties.set((service.clone(), client.clone()));
    let link: Arc<dyn Network> = Arc::new(Link(Arc::clone(&network)));
    for number in &plan.payments {
        pay(&runtime, &client, &link, *number);
    }
    runtime
        .simulation()
        .expect("simulated")
        .run_for(Duration::from_secs(120));

    let wanted: u64 = plan
        .payments
        .iter()
        .map(|number| u64::from(*number) * 10)
        .sum();
    let total = service.push_wait(|service| service.total);
    let paid = client.push_wait(|paid| paid.len());
    let (total, paid) = total
        .and_then(|total| Ok((total, paid?)))
        .expect("the pool is open");
    runtime.shutdown(Duration::ZERO);
    if (total, paid) == (wanted, plan.payments.len()) {
        return Ok(());
    }
    Err(Failure {
        what: format!("the total is {total} instead of {wanted}, {paid} acknowledged"),
        timeline: lock(&network.timeline).clone(),
        troubled: lock(&network.troubled).clone(),
    })
}

/// Makes a plan that fails smaller as long as it still fails: without one payment after the other,
/// then with one troubled message after the other delivered simply.
fn shrink(mut plan: Plan) -> Plan {
    loop {
        let Err(failure) = run(&plan) else {
            return plan;
        };
        let fewer = plan.payments.iter().map(|number| {
            let mut fewer = plan.clone();
            fewer.payments.remove(number);
            fewer
        });
        let calmer = failure.troubled.iter().map(|id| {
            let mut calmer = plan.clone();
            calmer.calm.insert(id.clone());
            calmer
        });
        let smaller = fewer.chain(calmer).find(|smaller| run(smaller).is_err());
        match smaller {
            Some(smaller) => plan = smaller,
            None => return plan,
        }
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
    let begin = Instant::now();
    for seed in seeds.clone() {
        let plan = Plan::new(seed, payments, is_faulty);
        if run(&plan).is_err() {
            return tell(&shrink(plan));
        }
    }
    let count = seeds.end - seeds.start;
    let took = begin.elapsed();
    println!("{count} seeds with {payments} payments each: all good, in {took:.1?}");
    ExitCode::SUCCESS
}

fn tell(smallest: &Plan) -> ExitCode {
    let seed = smallest.seed;
    let Err(failure) = run(smallest) else {
        println!("seed {seed} fails, and then does not: something is not in the plan");
        return ExitCode::FAILURE;
    };
    println!("seed {seed} fails: {}", failure.what);
    let (payments, troubled) = (smallest.payments.len(), failure.troubled.len());
    println!("its smallest form: {payments} payment(s), trouble for {troubled} message(s)");
    failure.timeline.iter().for_each(|line| println!("{line}"));
    ExitCode::FAILURE
}

const SEEDS: u64 = 10_000;
const PAYMENTS: u32 = 5;

fn hash(id: &MessageId) -> u64 {
    let mut hasher = DefaultHasher::new(); // without a random key
    id.hash(&mut hasher);
    hasher.finish()
}

/// splitmix64, whose seed may be zero.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_is_right_for_a_hundred_seeds() {
        for seed in 0..100 {
            assert!(
                run(&Plan::new(seed, PAYMENTS, false)).is_ok(),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_faulty_one_is_found_and_shrunk_to_one_payment_and_one_cause() {
        let found = (0..100)
            .map(|seed| Plan::new(seed, PAYMENTS, true))
            .find(|plan| run(plan).is_err());
        let smallest = shrink(found.expect("within a hundred seeds"));
        let failure = run(&smallest).expect_err("it still fails");
        assert_eq!((smallest.payments.len(), failure.troubled.len()), (1, 1));
        let again = run(&smallest).expect_err("the same each time");
        assert_eq!(failure.timeline, again.timeline);
    }
}
