//! What a durable commit costs, beside the least that it can cost on this disk.
//!
//! ```text
//! cargo run --release -p busyhour-store --example commit_cost -- 3 [FOLDER | postgres://URL]
//! ```
//!
//! In each of so many rounds, in turn: an append and `fdatasync` on a file of fixed size and on one that grows; SQLite alone,
//! where each transaction changes one page and its log does not grow; and the store, with one refresh
//! at a time, 200 new bindings a second, and refreshes of 256 bindings with one of each under way. Printed are
//! the processor time of the whole process for each, and the time until the commit; medians of the rounds.
//!
//! With the URL of an empty database: the rows of the store, on PostgreSQL. Its own processor time is not in them.

use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;
use busyhour_store::{Change, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, Store};
use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};
use std::{
    error::Error,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// A row of the result.
struct Cost {
    name: &'static str,
    cpu_us: f64,
    p50_us: f64,
    p99_us: f64,
    per_second: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(3), |count| count.parse())?;
    let place = arguments.next();
    let mut costs = Vec::new();
    for _ in 0..rounds {
        costs.extend(match place.as_deref() {
            Some(url) if url.starts_with("postgres://") => on_postgres(url)?,
            Some(folder) => on_disk(Path::new(folder))?,
            None => on_disk(&std::env::current_dir()?)?,
        });
    }
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>9}",
        "", "CPU µs", "p50 µs", "p99 µs", "a second"
    );
    let names: Vec<&str> = costs
        .iter()
        .take(costs.len() / rounds)
        .map(|one| one.name)
        .collect();
    for name in names {
        let of = |value: fn(&Cost) -> f64| {
            let same = costs.iter().filter(|one| one.name == name);
            median(same.map(value).collect())
        };
        println!(
            "{name:<44} {:>9.1} {:>9.0} {:>9.0} {:>9.0}",
            of(|one| one.cpu_us),
            of(|one| one.p50_us),
            of(|one| one.p99_us),
            of(|one| one.per_second)
        );
    }
    Ok(())
}

fn on_postgres(url: &str) -> Result<Vec<Cost>, Box<dyn Error>> {
    // One after the other, since a database is one store's at a time.
    let with = |measure: fn(&PostgresStore) -> Result<Cost, Box<dyn Error>>| {
        measure(&PostgresStore::open(PostgresOptions::new(url)?)?)
    };
    Ok(vec![
        with(|store| one_at_a_time("PostgreSQL, one refresh at a time", store))?,
        with(|store| at_a_pace("PostgreSQL, 200 new a second", store))?,
        with(|store| many_under_way("PostgreSQL, 256 refreshes under way", store))?,
    ])
}

fn on_disk(around: &Path) -> Result<Vec<Cost>, Box<dyn Error>> {
    let folder = &around.join(format!("commit-cost-{}", std::process::id()));
    let mut costs = vec![
        in_folder(folder, |folder| {
            appends("floor: append + fdatasync, fixed size", folder, true)
        })?,
        in_folder(folder, |folder| {
            appends("floor: append + fdatasync, growing", folder, false)
        })?,
    ];
    costs.push(in_folder(folder, |folder| {
        one_page_at_a_time("SQLite alone, one page, log of fixed size", folder)
    })?);
    let open = |folder: &Path| SqliteStore::open(SqliteOptions::new(folder.join("busyhour.db")));
    costs.push(in_folder(folder, |folder| {
        one_at_a_time("store, one refresh at a time", &open(folder)?)
    })?);
    costs.push(in_folder(folder, |folder| {
        at_a_pace("store, 200 new a second", &open(folder)?)
    })?);
    costs.push(in_folder(folder, |folder| {
        many_under_way("store, 256 refreshes under way", &open(folder)?)
    })?);
    Ok(costs)
}

fn in_folder(
    folder: &Path,
    measure: impl FnOnce(&Path) -> Result<Cost, Box<dyn Error>>,
) -> Result<Cost, Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let cost = measure(folder);
    fs::remove_dir_all(folder)?;
    cost
}

fn appends(name: &'static str, folder: &Path, is_fixed: bool) -> Result<Cost, Box<dyn Error>> {
    let file = File::create(folder.join("log"))?;
    let record = [7; RECORD_LEN];
    if is_fixed {
        file.write_all_at(&vec![0; COMMITS * RECORD_LEN], 0)?;
        file.sync_all()?;
    }
    let mut samples = Samples::begin(name);
    for number in 0..COMMITS {
        let begun = Instant::now();
        file.write_all_at(&record, (number * RECORD_LEN) as u64)?;
        file.sync_data()?;
        samples.took.push(begun.elapsed());
    }
    Ok(samples.end())
}

/// The least that SQLite needs for a transaction.
fn one_page_at_a_time(name: &'static str, folder: &Path) -> Result<Cost, Box<dyn Error>> {
    let connection = Connection::open(folder.join("alone.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 0)")?;
    let mut update = connection.prepare("UPDATE t SET n = ?1 WHERE id = 1")?;
    // The log has all its length from here on.
    for number in 0..=COMMITS {
        update.execute([number as i64])?;
    }
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
    let mut samples = Samples::begin(name);
    for number in 0..COMMITS {
        let begun = Instant::now();
        update.execute([number as i64])?;
        samples.took.push(begun.elapsed());
    }
    Ok(samples.end())
}

fn one_at_a_time(name: &'static str, store: &impl Store) -> Result<Cost, Box<dyn Error>> {
    let (sender, committed) = mpsc::channel();
    let commit = |change: Change| -> Result<(), Box<dyn Error>> {
        let sender = sender.clone();
        store.commit(
            vec![change],
            Box::new(move |outcome| drop(sender.send(outcome))),
        )?;
        Ok(committed.recv()??)
    };
    for id in 0..DEVICES {
        commit(put(id))?;
    }
    let mut samples = Samples::begin(name);
    for number in 0..COMMITS as u64 {
        let begun = Instant::now();
        commit(renew(number % DEVICES, number as u32))?;
        samples.took.push(begun.elapsed());
    }
    store.load()?;
    Ok(samples.end())
}

fn at_a_pace(name: &'static str, store: &impl Store) -> Result<Cost, Box<dyn Error>> {
    let (sender, committed) = mpsc::channel();
    let mut samples = Samples::begin(name);
    let mut next = Instant::now();
    for number in 0..PACED {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += Duration::from_millis(5);
        let begun = Instant::now();
        let sender = sender.clone();
        let told = move |_| {
            let _nobody_waits = sender.send(begun.elapsed());
        };
        store.commit(vec![put(number)], Box::new(told))?;
        samples.took.push(committed.recv()?);
    }
    store.load()?;
    Ok(samples.end())
}

fn many_under_way(name: &'static str, store: &impl Store) -> Result<Cost, Box<dyn Error>> {
    let (sender, committed) = mpsc::channel();
    let send = |change: Change, id: u64| -> Result<(), Box<dyn Error>> {
        let sender = sender.clone();
        let begun = Instant::now();
        let told = move |outcome| drop(sender.send((id, begun.elapsed(), outcome)));
        Ok(store.commit(vec![change], Box::new(told))?)
    };
    for id in 0..DEVICES {
        send(put(id), id)?;
    }
    for _ in 0..DEVICES {
        committed.recv()?.2?;
    }
    let mut samples = Samples::begin(name);
    for id in 0..DEVICES {
        send(renew(id, 1), id)?;
    }
    for number in 0..MANY {
        let (id, took, outcome) = committed.recv()?;
        outcome?;
        samples.took.push(took);
        if number + DEVICES < MANY {
            send(renew(id, number as u32), id)?;
        }
    }
    store.load()?;
    Ok(samples.end())
}

struct Samples {
    name: &'static str,
    begun: Instant,
    cpu: Duration,
    took: Vec<Duration>,
}

impl Samples {
    fn begin(name: &'static str) -> Self {
        Self {
            name,
            begun: Instant::now(),
            cpu: cpu_time(),
            took: Vec::new(),
        }
    }

    fn end(mut self) -> Cost {
        let count = self.took.len() as f64;
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        self.took.sort();
        Cost {
            name: self.name,
            cpu_us: us(cpu_time() - self.cpu) / count,
            p50_us: us(self.took[self.took.len() / 2]),
            p99_us: us(self.took[self.took.len() * 99 / 100]),
            per_second: count / self.begun.elapsed().as_secs_f64(),
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn put(id: u64) -> Change {
    BindingChange::Put {
        id: BindingId(id + 1),
        aor: format!("sip:device{id}@example.com").into(),
        contact: Contact::new(ContactParts {
            uri: &format!("sip:device{id}@192.0.2.1:5062"),
            parameters: "",
            q_milli: None,
            call_id: &format!("{id}-call@192.0.2.1"),
            path: "",
            user_agent: "a telephone of some make",
            flow: Flow::udp(([192, 0, 2, 1], 5062).into(), ([192, 0, 2, 2], 5060).into()),
        }),
        lease: lease(1),
    }
    .into()
}

fn renew(id: u64, cseq: u32) -> Change {
    BindingChange::Renew {
        id: BindingId(id + 1),
        lease: lease(cseq),
    }
    .into()
}

fn lease(cseq: u32) -> Lease {
    Lease {
        cseq,
        granted_s: 3600,
        expires_at: UnixTime::from_secs(1_800_000_000 + u64::from(cseq)),
        removed: false,
    }
}

const COMMITS: usize = 2000;
const PACED: u64 = 1000;
const MANY: u64 = 200_000;
const DEVICES: u64 = 256;
/// As long as a record of one refresh.
const RECORD_LEN: usize = 64;
