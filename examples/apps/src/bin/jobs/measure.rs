//! Both versions with the same load: many customers, each of whom offers a job, waits a moment and
//! offers the next; and one who offers as fast as it can.

use crate::{Refused, Work, store::Store, with_busyhour, with_tokio};
use busyhour::timer::Backoff;
use busyhour_apps::{PrintedFigure, print_beside};
use rusqlite::Connection;
use std::{
    error::Error,
    num::NonZero,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time::sleep};

/// Keeps jobs and has them done.
pub trait Queue: Sized + Send + Sync + 'static {
    /// One that begins with the jobs that `store` has.
    fn open(
        store: Store,
        work: Work,
        retry: Backoff,
    ) -> impl Future<Output = Result<Self, Box<dyn Error>>>;

    /// Keeps a job; returns its number once it is in the database.
    fn offer(
        &self,
        customer: &str,
        text: &str,
    ) -> impl Future<Output = Result<i64, Refused>> + Send;

    /// Runs what offers jobs where they are done.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static);
}

impl Queue for with_busyhour::Jobs {
    async fn open(store: Store, work: Work, retry: Backoff) -> Result<Self, Box<dyn Error>> {
        Self::open(store, work, retry).await
    }

    async fn offer(&self, customer: &str, text: &str) -> Result<i64, Refused> {
        self.offer(customer, text).await
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn(future);
    }
}

/// What one run has given.
#[derive(Clone, Copy)]
struct Figures {
    jobs_per_s: f64,
    /// From the offer of a customer that is not greedy until its job is done.
    p99: Duration,
    refused: u64,
    /// Kept, but neither done nor failed at the end.
    lost: i64,
}

pub async fn run(rounds: &str) -> Result<(), Box<dyn Error>> {
    let rounds: NonZero<usize> = rounds.parse()?;
    println!("{CUSTOMERS} customers with {EACH} jobs each, and one that offers {GREEDY} at once");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=rounds.get() {
        // The one that was second before is first, since the machine changes.
        if round % 2 == 1 {
            ours.push(measure::<with_busyhour::Jobs>().await?);
            theirs.push(measure::<with_tokio::Jobs>().await?);
        } else {
            theirs.push(measure::<with_tokio::Jobs>().await?);
            ours.push(measure::<with_busyhour::Jobs>().await?);
        }
        println!("round {round} of {rounds} done");
    }
    print_beside(&PRINTED, &ours, &theirs);
    Ok(())
}

async fn measure<Q: Queue>() -> Result<Figures, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(&folder.path().join("jobs.db"))?;
    let ages = Arc::new(Mutex::new(Vec::with_capacity(CUSTOMERS * EACH)));
    let queue = Arc::new(Q::open(store.clone(), work(&ages), RETRY).await?);
    let begin = Instant::now();
    let refused = Arc::new(AtomicU64::new(0));
    // Nothing is sent; it ends with the last that offers.
    let (offering, mut ended) = mpsc::channel::<()>(1);
    for customer in 0..CUSTOMERS {
        let (offers, offering) = (Arc::clone(&queue), offering.clone());
        queue.spawn(async move {
            let _until_the_end = offering;
            let name = format!("customer-{customer}");
            for _ in 0..EACH {
                let text = begin.elapsed().as_nanos().to_string();
                _ = offers.offer(&name, &text).await;
                sleep(PAUSE).await;
            }
        });
    }
    for _ in 0..GREEDY / BURST {
        let (offers, refused) = (Arc::clone(&queue), Arc::clone(&refused));
        let offering = offering.clone();
        queue.spawn(async move {
            let _until_the_end = offering;
            for _ in 0..BURST {
                if offers.offer("greedy", "-").await == Err(Refused::Busy) {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    drop(offering);
    ended.recv().await;
    // As long as something is done.
    let (mut before, mut still) = (0, 0);
    loop {
        let waiting = store.ask(count_waiting).await;
        let waiting = waiting.ok_or("the database cannot be written")?;
        still = if waiting == before { still + 1 } else { 0 };
        if waiting == 0 || still == 100 {
            break;
        }
        before = waiting;
        sleep(Duration::from_millis(20)).await;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let counts = store.ask(count).await;
    let (waiting, done, failed) = counts.ok_or("the database cannot be written")?;
    let mut ages: Vec<u128> = {
        let ages = ages.lock().map_err(|_| "a job panicked")?;
        let ended = ages.iter().map(|(offered, ended): &(u128, Instant)| {
            (*ended - begin).as_nanos().saturating_sub(*offered)
        });
        ended.collect()
    };
    let at = ages.len() * 99 / 100;
    let p99 = *ages.select_nth_unstable(at).1;
    Ok(Figures {
        jobs_per_s: (done + failed) as f64 / seconds,
        p99: Duration::from_nanos(p99 as u64),
        refused: refused.load(Ordering::Relaxed),
        lost: waiting,
    })
}

/// How many jobs wait. It reads an index of those alone, so that it holds up little.
fn count_waiting(database: &Connection) -> rusqlite::Result<i64> {
    let waiting = "SELECT count(*) FROM job WHERE is_done IS NULL";
    database.query_row(waiting, [], |row| row.get(0))
}

/// How many jobs wait, are done, and have failed.
pub fn count(database: &Connection) -> rusqlite::Result<(i64, i64, i64)> {
    database.query_row(
        "SELECT count(*) FILTER (WHERE is_done IS NULL), count(*) FILTER (WHERE is_done),
                count(*) FILTER (WHERE NOT is_done) FROM job",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}

/// A job waits for something else for a moment; one in twenty fails the first time.
fn work(ages: &Arc<Mutex<Vec<(u128, Instant)>>>) -> Work {
    let ages = Arc::clone(ages);
    let tried = Arc::new(AtomicU64::new(0));
    Arc::new(move |job| {
        let (ages, tried) = (Arc::clone(&ages), Arc::clone(&tried));
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            let fails = tried.fetch_add(1, Ordering::Relaxed).is_multiple_of(20);
            if !fails && let Ok(offered) = job.text.parse() {
                let mut ages = ages.lock().expect("nothing panics with it");
                ages.push((offered, Instant::now()));
            }
            if fails { Err(()) } else { Ok(()) }
        })
    })
}

const PRINTED: [PrintedFigure<Figures>; 4] = [
    PrintedFigure {
        name: "thousand jobs/s",
        decimals: 1,
        of: |figures| figures.jobs_per_s / 1e3,
    },
    PrintedFigure {
        name: "p99 until done, ms",
        decimals: 1,
        of: |figures| figures.p99.as_secs_f64() * 1e3,
    },
    PrintedFigure {
        name: "refused as busy",
        decimals: 0,
        of: |figures| figures.refused as f64,
    },
    PrintedFigure {
        name: "lost",
        decimals: 0,
        of: |figures| figures.lost as f64,
    },
];
const CUSTOMERS: usize = 5_000;
const EACH: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Jobs of the greedy one, by as many tasks as make a burst of each.
const GREEDY: usize = 200_000;
const BURST: usize = 100;
const RETRY: Backoff = Backoff::new(Duration::from_millis(2)).tries(8);
