//! Both versions with the same load: two threads offer readings of a million sensors, a datagram's at
//! a time, as fast as they can, half of them repetitions; some subscribers read at once, some are slow.

use crate::{Hub, Reading, Subscriber, Told, with_busyhour, with_tokio};
use busyhour_apps::{PrintedFigure, print_beside};
use std::{
    error::Error,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::{task::JoinHandle, time::sleep};

/// What one run has given.
#[derive(Clone, Copy)]
struct Figures {
    offers_per_s: f64,
    /// The same until each subscriber has been told all that it is to be told.
    told_offers_per_s: f64,
    /// The same until the memory of all is free again.
    freed_offers_per_s: f64,
    /// From the offer until a subscriber that is not slow has it.
    p99: Duration,
    /// Told to subscribers as lost, by all of them.
    lost: u64,
    /// Sensors of which a subscriber has another value at the end than the last one.
    wrong: u64,
}

/// What a subscriber has seen.
struct Seen {
    /// By sensor.
    values: Vec<i64>,
    ages: Vec<Duration>,
    lost: u64,
    /// When it had been told everything.
    told_at: Instant,
}

pub async fn run(rounds: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "{SENSORS} sensors, {} offers a round, {FAST} subscribers at once and {SLOW} slow ones",
        OFFERS * THREADS
    );
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // The one that was second before is first, since the machine changes.
        if round % 2 == 1 {
            ours.push(measure::<with_busyhour::Changes>().await?);
            theirs.push(measure::<with_tokio::Changes>().await?);
        } else {
            theirs.push(measure::<with_tokio::Changes>().await?);
            ours.push(measure::<with_busyhour::Changes>().await?);
        }
        println!("round {round} of {rounds} done");
    }
    print_beside(&PRINTED, &ours, &theirs);
    Ok(())
}

async fn measure<H: Hub>() -> Result<Figures, Box<dyn Error>> {
    let hub = Arc::new(H::open()?);
    let mut subscribers: Vec<JoinHandle<Seen>> = Vec::new();
    let is_over = Arc::new(AtomicBool::new(false));
    for index in 0..FAST + SLOW {
        let slow_until = (index >= FAST).then(|| Arc::clone(&is_over));
        subscribers.push(tokio::spawn(listen(hub.subscribe(), slow_until)));
    }
    let begin = Instant::now();
    let threads = (0..THREADS).map(|number| {
        let hub = Arc::clone(&hub);
        thread::spawn(move || {
            let mut readings = readings(number, OFFERS);
            for _ in 0..OFFERS / DATAGRAM_READINGS {
                let at = Instant::now();
                let datagram = readings.by_ref().take(DATAGRAM_READINGS as usize);
                hub.offer(datagram.map(|(sensor, value)| Reading { sensor, value, at }));
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        tokio::task::spawn_blocking(|| thread.join())
            .await?
            .map_err(|_| "a thread panicked")?;
    }
    let offers_per_s_until =
        |end: Instant| (OFFERS * THREADS) as f64 / end.duration_since(begin).as_secs_f64();
    let offers_per_s = offers_per_s_until(Instant::now());
    is_over.store(true, Ordering::Relaxed);
    // Ends the subscribers, once they know all.
    tokio::task::spawn_blocking(|| drop(hub)).await?;
    let mut seen = Vec::new();
    for subscriber in subscribers {
        seen.push(subscriber.await?);
    }
    let told_at = seen.iter().map(|seen| seen.told_at).max().unwrap_or(begin);
    let mut figures = Figures {
        offers_per_s,
        told_offers_per_s: offers_per_s_until(told_at),
        freed_offers_per_s: offers_per_s_until(Instant::now()),
        p99: Duration::ZERO,
        lost: 0,
        wrong: 0,
    };
    let mut last = vec![NONE; SENSORS as usize];
    for (sensor, value) in (0..THREADS).flat_map(|number| readings(number, OFFERS)) {
        last[sensor as usize] = value;
    }
    for (index, mut seen) in seen.into_iter().enumerate() {
        figures.lost += seen.lost;
        let pairs = seen.values.iter().zip(&last);
        figures.wrong += pairs.filter(|(seen, last)| seen != last).count() as u64;
        if index < FAST && !seen.ages.is_empty() {
            let at = seen.ages.len() * 99 / 100;
            figures.p99 = figures.p99.max(*seen.ages.select_nth_unstable(at).1);
        }
    }
    Ok(figures)
}

/// Reads until the end, slowly until all has been offered or at once.
async fn listen(mut subscriber: impl Subscriber, slow_until: Option<Arc<AtomicBool>>) -> Seen {
    let is_slow = || (slow_until.as_ref()).is_some_and(|is_over| !is_over.load(Ordering::Relaxed));
    let mut seen = Seen {
        values: vec![NONE; SENSORS as usize],
        ages: Vec::new(),
        lost: 0,
        told_at: Instant::now(),
    };
    let mut count: u64 = 0;
    while let Some(told) = subscriber.next().await {
        match told {
            Told::Change(reading) => {
                let value = &mut seen.values[reading.sensor as usize];
                let is_news = mem::replace(value, reading.value) != reading.value;
                count += 1;
                if is_news && count.is_multiple_of(SAMPLE) {
                    seen.ages.push(reading.at.elapsed());
                }
                if count.is_multiple_of(SLOW_BATCH) && is_slow() {
                    sleep(Duration::from_millis(1)).await;
                }
            }
            Told::Lost(lost) => seen.lost += lost,
        }
    }
    // The last one of the subscribers frees what the hub had, which is a figure of its own.
    seen.told_at = Instant::now();
    seen
}

/// The sensors and values that one thread offers: no other one has its sensors, and each value comes
/// twice.
fn readings(thread: u64, count: u64) -> impl Iterator<Item = (u64, i64)> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
    (0..count).map(move |number| {
        if number.is_multiple_of(2) {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
        }
        let sensor = random % (SENSORS / THREADS) * THREADS + thread;
        (sensor, (number / 2) as i64)
    })
}

const PRINTED: [PrintedFigure<Figures>; 6] = [
    PrintedFigure {
        name: "million offers/s",
        decimals: 2,
        of: |figures| figures.offers_per_s / 1e6,
    },
    PrintedFigure {
        name: "until all are told",
        decimals: 2,
        of: |figures| figures.told_offers_per_s / 1e6,
    },
    PrintedFigure {
        name: "until all is freed",
        decimals: 2,
        of: |figures| figures.freed_offers_per_s / 1e6,
    },
    PrintedFigure {
        name: "p99 until told, ms",
        decimals: 2,
        of: |figures| figures.p99.as_secs_f64() * 1e3,
    },
    PrintedFigure {
        name: "told as lost",
        decimals: 0,
        of: |figures| figures.lost as f64,
    },
    PrintedFigure {
        name: "wrong at the end",
        decimals: 0,
        of: |figures| figures.wrong as f64,
    },
];
const SENSORS: u64 = 1_000_000;
/// No value yet.
const NONE: i64 = -1;
/// By each thread.
const OFFERS: u64 = 2_000_000;
const THREADS: u64 = 2;
/// As the lines of a datagram that fits into a frame of Ethernet; they are offered together.
const DATAGRAM_READINGS: u64 = 50;
const _: () = assert!(OFFERS.is_multiple_of(DATAGRAM_READINGS));
const FAST: usize = 2;
const SLOW: usize = 2;
/// Changes that a slow subscriber takes in a millisecond.
const SLOW_BATCH: u64 = 200;
/// The age of every so manieth change is noted, if the subscriber did not know it yet.
const SAMPLE: u64 = 16;
