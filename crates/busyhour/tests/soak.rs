//! All operations at once, at random, with exact counts: every accepted task runs
//! once or is reported as lost, and every refused task is handed back or dropped.
//!
//! A round is short. `BUSYHOUR_TEST_SCALE=60` makes the test take a minute or so,
//! and `BUSYHOUR_TEST_SEED` repeats a round's choices (not the timing of its
//! threads).

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use busyhour::{
    pool::{Selector, TaskPool},
    serializer::Serializer,
    task::Overflow,
};

const ROUNDS: u64 = 12;
const PRODUCERS: u64 = 3;
const PUSHES: u64 = 2_000;

#[test]
fn nothing_is_lost_without_being_counted() {
    let scale = number("BUSYHOUR_TEST_SCALE").unwrap_or(1);
    let first = number("BUSYHOUR_TEST_SEED").unwrap_or(0);
    for seed in first..first + ROUNDS * scale {
        round(seed);
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// The counts of what happened to the tasks, which the tasks themselves make.
#[derive(Default)]
struct Ledger {
    accepted: AtomicU64,
    refused: AtomicU64,
    ran: AtomicU64,
    dropped: AtomicU64,
}

/// Belongs to one task, and counts whether it was run or dropped.
struct Voucher(Option<Arc<Ledger>>);

impl Voucher {
    fn redeem(mut self) {
        if let Some(ledger) = self.0.take() {
            ledger.ran.fetch_add(1, SeqCst);
        }
    }
}

impl Drop for Voucher {
    fn drop(&mut self) {
        if let Some(ledger) = self.0.take() {
            ledger.dropped.fetch_add(1, SeqCst);
        }
    }
}

#[derive(Clone)]
struct Site {
    pool: TaskPool,
    serializers: Arc<Vec<Serializer>>,
    ledger: Arc<Ledger>,
}

impl Site {
    fn task(&self) -> impl FnOnce() + Send + 'static {
        let voucher = Voucher(Some(Arc::clone(&self.ledger)));
        move || voucher.redeem()
    }

    fn note<E>(&self, outcome: Result<(), E>) {
        let counter = match outcome {
            Ok(()) => &self.ledger.accepted,
            Err(_) => &self.ledger.refused,
        };
        counter.fetch_add(1, SeqCst);
    }

    fn any(&self, random: &mut Random) -> &Serializer {
        &self.serializers[random.below(self.serializers.len() as u64) as usize]
    }

    fn act(&self, random: &mut Random) {
        match random.below(16) {
            0..4 => self.note(self.pool.push(self.task())),
            4..9 => self.note(self.any(random).push(self.task())),
            9 => self.note(self.any(random).push_keyed(random.below(8), self.task())),
            10 => self.note(self.any(random).try_push(self.task())),
            11 => self.push_a_chain(random),
            12 => self.push_a_panic(random),
            13 => self.suspend_for_a_while(random),
            14 => self.note(self.any(random).push_wait(self.task())),
            _ => self.spawn_and_perhaps_abort(random),
        }
    }

    /// Pushes a task that pushes to another serializer, as the processing of a
    /// packet does.
    fn push_a_chain(&self, random: &mut Random) {
        let (site, target, task) = (self.clone(), self.any(random).clone(), self.task());
        self.note(self.any(random).push(move || {
            task();
            site.note(target.try_push(site.task()));
        }));
    }

    fn push_a_panic(&self, random: &mut Random) {
        let task = self.task();
        self.note(self.any(random).push(move || {
            task();
            // This unwinds without the message of the panic hook.
            std::panic::resume_unwind(Box::new("on purpose"));
        }));
    }

    /// Suspends a serializer; a task of the pool resumes it. If the pool
    /// refuses the task, dropping it resumes.
    fn suspend_for_a_while(&self, random: &mut Random) {
        let suspension = self.any(random).suspend();
        let task = self.task();
        self.note(self.pool.push(move || {
            task();
            suspension.resume();
        }));
    }

    fn spawn_and_perhaps_abort(&self, random: &mut Random) {
        let handle = self.any(random).spawn(async { 1 });
        if random.below(2) == 0 {
            handle.abort();
        }
    }
}

fn round(seed: u64) {
    let mut random = Random(seed);
    let site = site(&mut random);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|number| {
            let (site, mut random) = (site.clone(), Random(seed ^ (number + 1) << 32));
            thread::spawn(move || match number % 2 {
                0 => (0..PUSHES).for_each(|_| site.act(&mut random)),
                _ => act_as_inline_runner(&site, &mut random),
            })
        })
        .collect();
    let closer = close_early(&mut random, &site);
    producers
        .into_iter()
        .for_each(|producer| producer.join().unwrap());
    closer.join().unwrap();
    check(site, seed);
}

/// Acts from time to time as an inline runner, with several operations in each
/// inline run.
fn act_as_inline_runner(site: &Site, random: &mut Random) {
    let mut runner = site.pool.inline_runner();
    let mut left = PUSHES;
    while left > 0 {
        let acts = left.min(1 + random.below(8) / 6 * random.below(4));
        runner.run(|| (0..acts).for_each(|_| site.act(random)));
        left -= acts;
    }
}

fn site(random: &mut Random) -> Site {
    let workers = 1 + random.below(3) as usize;
    let selectors = [Selector::Default, Selector::LeastFull, Selector::Sequential];
    let pool = TaskPool::builder()
        .minimum(1)
        .workers(workers)
        .maximum(workers + random.below(3) as usize)
        .growth_threshold(random.below(20) as usize)
        .idle_timeout(Duration::from_micros(200))
        .selector(selectors[random.below(3) as usize])
        .capacity(1 + random.below(1000) as usize)
        .build()
        .unwrap();
    let serializers = (0..6)
        .map(|number| serializer(&pool, number, random))
        .collect();
    Site {
        pool,
        serializers: Arc::new(serializers),
        ledger: Arc::default(),
    }
}

fn serializer(pool: &TaskPool, number: usize, random: &mut Random) -> Serializer {
    let policies = [
        Overflow::Reject,
        Overflow::DropOldest,
        Overflow::Conflate,
        Overflow::Block,
    ];
    match policies.get(number) {
        None => pool.ephemeral(),
        Some(policy) => (pool.serializer(&format!("serializer {number}")))
            .capacity(1 + random.below(50) as usize)
            .overflow(*policy)
            .build()
            .unwrap(),
    }
}

/// In half of the rounds, shuts the pool down while all this happens.
fn close_early(random: &mut Random, site: &Site) -> thread::JoinHandle<()> {
    let pool = site.pool.clone();
    let after = random.below(2 * PUSHES * PRODUCERS);
    let deadline = Duration::from_micros(random.below(5000));
    let ledger = Arc::clone(&site.ledger);
    thread::spawn(move || {
        let total = PUSHES * PRODUCERS;
        let offered = || ledger.accepted.load(SeqCst) + ledger.refused.load(SeqCst);
        while offered() < after.min(total / 2) {
            thread::yield_now();
        }
        if after < total {
            pool.shutdown(deadline);
        }
    })
}

fn check(site: Site, seed: u64) {
    let Site {
        pool,
        serializers,
        ledger,
    } = site;
    let report = pool.shutdown(Duration::from_secs(60));
    assert_eq!(report.unfinished_workers, 0, "seed {seed}");
    drop(serializers);
    let (stats, count) = (pool.stats(), |counter: &AtomicU64| counter.load(SeqCst));
    assert_eq!(
        stats.pushed,
        stats.processed + stats.dropped,
        "seed {seed}: {stats:?}"
    );
    let (accepted, refused) = (count(&ledger.accepted), count(&ledger.refused));
    let (ran, dropped) = (count(&ledger.ran), count(&ledger.dropped));
    assert_eq!(accepted + refused, ran + dropped, "seed {seed}");
    assert!(
        accepted <= ran + stats.dropped,
        "seed {seed}: {accepted} {ran} {stats:?}"
    );
    assert!(stats.panicked > 0 || stats.processed < 100, "seed {seed}");
}

/// splitmix64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
