//! The ways to renew the leases of a group on PostgreSQL, over one connection, each group durable before the next one
//! is sent: one statement with arrays, COPY into a temporary table and one UPDATE, and a prepared UPDATE for each row, all of which are sent
//! before the first answer.
//!
//! ```text
//! cargo run --release --locked --bin renew-on-postgres -- postgres://URL ROUNDS [GROUP] [SECONDS]
//! ```
//!
//! The database is an empty one of this machine. The table `renew_on_postgres` is made there, and dropped at the end. In each round, in
//! turn; printed are the processor time of this process and of PostgreSQL's for one lease, and leases a second: of each round, then medians.

use postgres::{Client, NoTls, Statement, types::ToSql};
use rustix::time::{ClockId, clock_gettime};
use std::{
    error::Error,
    fs,
    future::{Future, poll_fn},
    io::Write,
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() {
    if let Err(error) = run() {
        let why = error
            .source()
            .map_or(String::new(), |why| format!(": {why}"));
        eprintln!("renew-on-postgres: {error}{why}");
        std::process::exit(1);
    }
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rounds, rest @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let number =
        |at: usize, otherwise: u64| rest.get(at).map_or(Ok(otherwise), |text| text.parse());
    let rounds: u64 = rounds.parse()?;
    let (group, seconds) = (number(0, 128)?, number(1, 3)?);
    if rounds == 0 || group == 0 || seconds == 0 {
        return Err(format!("ROUNDS, GROUP and SECONDS are 1 at least\n{USAGE}").into());
    }
    refuse_registrar(url)?;
    let measured = measure_ways(url, rounds, group as usize, Duration::from_secs(seconds));
    let dropped = Client::connect(url, NoTls).and_then(|mut client| client.batch_execute(DROP));
    measured?;
    Ok(dropped?)
}

/// The store's own tables have these names.
fn refuse_registrar(url: &str) -> Outcome<()> {
    let sought = "SELECT current_database()::text, schemaname::text, tablename::text FROM pg_tables
                  WHERE tablename IN ('contact', 'lease') ORDER BY 2, 3 LIMIT 1";
    let Some(found) = Client::connect(url, NoTls)?.query_opt(sought, &[])? else {
        return Ok(());
    };
    let [database, schema, table]: [String; 3] = [0_usize, 1, 2].map(|at| found.get(at));
    Err(format!(
        "the database {database} has the table {schema}.{table}, so it may be a registrar's, and nothing was written there; \
         make an empty database (createdb renew) and name that one in the URL"
    )
    .into())
}

fn measure_ways(url: &str, rounds: u64, group: usize, limit: Duration) -> Outcome<()> {
    let mut found: Vec<Vec<Cost>> = WAYS.map(|_| Vec::new()).into();
    for _ in 0..rounds {
        for (at, (name, open)) in WAYS.into_iter().enumerate() {
            make_table(url)?;
            let cost = measure(&mut *open(url)?, group, limit)?;
            println!("{name:<40} {cost}");
            found[at].push(cost);
        }
    }
    println!("medians");
    for ((name, _), costs) in WAYS.iter().zip(&found) {
        let of = |value: fn(&Cost) -> f64| median(costs.iter().map(value).collect());
        let cost = Cost {
            client_us: of(|one| one.client_us),
            server_us: of(|one| one.server_us),
            per_second: of(|one| one.per_second),
        };
        println!("{name:<40} {cost}");
    }
    Ok(())
}

type Open = fn(&str) -> Outcome<Box<dyn Renew>>;

const WAYS: [(&str, Open); 3] = [
    ("one statement with arrays", |url| {
        Ok(Box::new(Arrays::open(url)?))
    }),
    ("COPY into a temporary table, one UPDATE", |url| {
        Ok(Box::new(Copy::open(url)?))
    }),
    ("an UPDATE a row, sent together", |url| {
        Ok(Box::new(Together::open(url)?))
    }),
];

struct Cost {
    client_us: f64,
    server_us: f64,
    per_second: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "client {:5.2} µs, PostgreSQL {:5.2} µs, {:8.0} a second",
            self.client_us, self.server_us, self.per_second
        )
    }
}

/// A way to renew leases.
trait Renew {
    /// Returns when the leases are durable.
    fn renew(&mut self, leases: &[Lease]) -> Outcome<()>;

    /// The process that serves the connection.
    fn server(&mut self) -> Outcome<i32>;
}

#[derive(Clone, Copy)]
struct Lease {
    id: i64,
    cseq: i64,
    granted_s: i64,
    expires_at_ns: i64,
    removed: bool,
}

fn measure(way: &mut dyn Renew, group: usize, limit: Duration) -> Outcome<Cost> {
    let root = parent(way.server()?)?;
    let mut leases = Vec::new();
    let mut next = 0;
    let mut fill = |leases: &mut Vec<Lease>| {
        leases.clear();
        leases.extend((0..group as i64).map(|at| lease((next + at) % DEVICES + 1, next)));
        next += group as i64;
    };
    for _ in 0..WARM_UP {
        fill(&mut leases);
        way.renew(&leases)?;
    }
    let (begun, client, server) = (Instant::now(), cpu_time(), cpu_of(root));
    let mut renewed = 0;
    while begun.elapsed() < limit {
        fill(&mut leases);
        way.renew(&leases)?;
        renewed += leases.len();
    }
    let (took, client) = (begun.elapsed(), cpu_time() - client);
    let each = |duration: Duration| duration.as_secs_f64() * 1e6 / renewed as f64;
    Ok(Cost {
        client_us: each(client),
        server_us: each(cpu_of(root).saturating_sub(server)),
        per_second: renewed as f64 / took.as_secs_f64(),
    })
}

fn lease(id: i64, number: i64) -> Lease {
    Lease {
        id,
        cseq: number,
        granted_s: 3600,
        expires_at_ns: (1_800_000_000 + number) * 1_000_000_000,
        removed: false,
    }
}

fn make_table(url: &str) -> Outcome<()> {
    let table = format!(
        "{DROP};
         CREATE TABLE renew_on_postgres (id BIGINT PRIMARY KEY, cseq BIGINT NOT NULL, granted_s BIGINT NOT NULL,
             expires_at_ns BIGINT NOT NULL, removed BOOLEAN NOT NULL) WITH (fillfactor = 70);
         INSERT INTO renew_on_postgres SELECT id, 1, 3600, 0, false FROM generate_series(1, {DEVICES}) AS id;
         ANALYZE renew_on_postgres;"
    );
    Ok(Client::connect(url, NoTls)?.batch_execute(&table)?)
}

/// As the store does, without the count of groups.
struct Arrays(Client, Statement);

impl Arrays {
    fn open(url: &str) -> Outcome<Self> {
        let mut client = Client::connect(url, NoTls)?;
        let renew = client.prepare(
            "UPDATE renew_on_postgres AS old SET cseq = new.cseq, granted_s = new.granted_s, expires_at_ns = new.expires_at_ns, removed = new.removed
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
                 AS new (id, cseq, granted_s, expires_at_ns, removed) WHERE old.id = new.id",
        )?;
        Ok(Self(client, renew))
    }
}

impl Renew for Arrays {
    fn renew(&mut self, leases: &[Lease]) -> Outcome<()> {
        let of = |value: fn(&Lease) -> i64| leases.iter().map(value).collect::<Vec<i64>>();
        let removed: Vec<bool> = leases.iter().map(|one| one.removed).collect();
        let ids = of(|one| one.id);
        let (cseqs, granted) = (of(|one| one.cseq), of(|one| one.granted_s));
        let expiries = of(|one| one.expires_at_ns);
        let count = self
            .0
            .execute(&self.1, &[&ids, &cseqs, &granted, &expiries, &removed])?;
        all(count, leases)
    }

    fn server(&mut self) -> Outcome<i32> {
        Ok(self.0.query_one("SELECT pg_backend_pid()", &[])?.get(0))
    }
}

struct Copy(Client, Statement);

impl Copy {
    fn open(url: &str) -> Outcome<Self> {
        let mut client = Client::connect(url, NoTls)?;
        client.batch_execute(
            "CREATE TEMPORARY TABLE new (LIKE renew_on_postgres) ON COMMIT DELETE ROWS",
        )?;
        let renew = client.prepare(
            "UPDATE renew_on_postgres AS old SET cseq = new.cseq, granted_s = new.granted_s, expires_at_ns = new.expires_at_ns, removed = new.removed
             FROM new WHERE old.id = new.id",
        )?;
        Ok(Self(client, renew))
    }
}

impl Renew for Copy {
    fn renew(&mut self, leases: &[Lease]) -> Outcome<()> {
        let mut transaction = self.0.transaction()?;
        let mut rows = transaction.copy_in("COPY new FROM STDIN (FORMAT binary)")?;
        let mut bytes = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for one in leases {
            bytes.extend(5_i16.to_be_bytes());
            for value in [one.id, one.cseq, one.granted_s, one.expires_at_ns] {
                bytes.extend(8_i32.to_be_bytes());
                bytes.extend(value.to_be_bytes());
            }
            bytes.extend(1_i32.to_be_bytes());
            bytes.push(one.removed.into());
        }
        bytes.extend((-1_i16).to_be_bytes());
        rows.write_all(&bytes)?;
        rows.finish()?;
        let count = transaction.execute(&self.1, &[])?;
        transaction.commit()?;
        all(count, leases)
    }

    fn server(&mut self) -> Outcome<i32> {
        Ok(self.0.query_one("SELECT pg_backend_pid()", &[])?.get(0))
    }
}

/// All messages of a group are sent before the first answer is read, from `BEGIN` to `COMMIT`.
struct Together {
    runtime: Runtime,
    client: tokio_postgres::Client,
    begin: Statement,
    renew: Statement,
    commit: Statement,
}

impl Together {
    fn open(url: &str) -> Outcome<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (client, begin, renew, commit) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let begin = client.prepare("BEGIN").await?;
            let renew = client
                .prepare("UPDATE renew_on_postgres SET cseq = $2, granted_s = $3, expires_at_ns = $4, removed = $5 WHERE id = $1")
                .await?;
            let commit = client.prepare("COMMIT").await?;
            Ok::<_, tokio_postgres::Error>((client, begin, renew, commit))
        })?;
        Ok(Self {
            runtime,
            client,
            begin,
            renew,
            commit,
        })
    }
}

impl Renew for Together {
    fn renew(&mut self, leases: &[Lease]) -> Outcome<()> {
        let client = &self.client;
        let (begin, commit) = (&self.begin, &self.commit);
        let renew = &self.renew;
        type Answer<'a> = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + 'a>>;
        let mut answers: Vec<Option<Answer<'_>>> = vec![Some(Box::pin(client.execute(begin, &[])))];
        answers.extend(leases.iter().map(|one| -> Option<Answer<'_>> {
            Some(Box::pin(async move {
                let Lease {
                    id,
                    cseq,
                    granted_s,
                    expires_at_ns,
                    removed,
                } = one;
                let values: [&(dyn ToSql + Sync); 5] =
                    [id, cseq, granted_s, expires_at_ns, removed];
                client.execute(renew, &values).await
            }))
        }));
        answers.push(Some(Box::pin(client.execute(commit, &[]))));
        let mut count = 0;
        // A statement is sent when it is polled for the first time: so all are, before any is waited for. The answers come in order.
        let mut is_sent = false;
        self.runtime.block_on(poll_fn(|context| {
            for answer in &mut answers {
                match answer.as_mut().map(|answer| answer.as_mut().poll(context)) {
                    None => continue,
                    Some(Poll::Ready(rows)) => match rows {
                        Ok(rows) => count += rows,
                        Err(error) => return Poll::Ready(Err(error)),
                    },
                    Some(Poll::Pending) if is_sent => return Poll::Pending,
                    Some(Poll::Pending) => continue,
                }
                *answer = None;
            }
            if std::mem::replace(&mut is_sent, true) {
                return Poll::Ready(Ok(()));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }))?;
        drop(answers);
        all(count, leases)
    }

    fn server(&mut self) -> Outcome<i32> {
        let asked = self.client.query_one("SELECT pg_backend_pid()", &[]);
        Ok(self.runtime.block_on(asked)?.get(0))
    }
}

fn all(count: u64, leases: &[Lease]) -> Outcome<()> {
    match count == leases.len() as u64 {
        true => Ok(()),
        false => Err(format!("{count} leases of {} were renewed", leases.len()).into()),
    }
}

fn parent(process: i32) -> Outcome<i32> {
    parent_in(&fs::read_to_string(format!("/proc/{process}/stat"))?).ok_or("no parent".into())
}

fn parent_in(stat: &str) -> Option<i32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// What a process and its children have had of the processors, by the scheduler's count.
fn cpu_of(root: i32) -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let nanos = processes.filter_map(|process| {
        let id: i32 = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        if id != root && parent_in(&stat)? != root {
            return None;
        }
        let told = fs::read_to_string(process.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

const USAGE: &str = "usage: renew-on-postgres postgres://URL ROUNDS [GROUP] [SECONDS]
The URL is that of an empty database of this machine. The table renew_on_postgres is made there, and dropped at the end.";
const DROP: &str = "DROP TABLE IF EXISTS renew_on_postgres";
const DEVICES: i64 = 1000;
/// Groups before the clock begins.
const WARM_UP: usize = 200;
