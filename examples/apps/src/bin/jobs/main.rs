//! Jobs by customer: lines `CUSTOMER TEXT` come by TCP and are kept in SQLite. A command runs for
//! each; those of one customer in order and one at a time, and a failed one again, later and later.
//!
//! `jobs serve` runs it; `jobs measure` compares it with the version of with_tokio.rs, in this
//! process, with thousands of customers of whom one offers without end.

mod measure;
mod store;
#[cfg(test)]
mod tests;
mod with_busyhour;
mod with_tokio;

use std::{error::Error, path::Path, pin::Pin, process::ExitCode, sync::Arc, time::Duration};
use store::Store;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};

/// A job that is kept, and for whom it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: i64,
    pub customer: String,
    pub text: String,
}

/// Does one job; `false` if it is to be tried again.
pub type Work = Arc<dyn Fn(Job) -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So many of the customer's jobs wait already.
    Busy,
    /// The database cannot be written, or the queue ends.
    Closed,
}

/// How often and when a job is tried.
#[derive(Clone, Copy)]
pub struct Retry {
    pub tries: u32,
    /// After the first failure; twice as long after each further one.
    pub first_delay: Duration,
}

/// Keeps jobs and has them done.
pub trait Queue: Sized + Send + Sync + 'static {
    /// One that begins with the jobs that `store` has.
    fn open(store: Store, work: Work, retry: Retry) -> Result<Self, Box<dyn Error>>;

    /// Keeps a job; returns its number once it is in the database.
    fn offer(
        &self,
        customer: &str,
        text: &str,
    ) -> impl Future<Output = Result<i64, Refused>> + Send;

    /// Runs what offers jobs where they are done, so that none of the two outruns the other.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static);
}

/// Tries a job until it is done or has failed too often; notes which.
pub async fn carry_out<S: Future<Output = ()>>(
    (job, store): (Job, &Store),
    (work, retry): (&Work, Retry),
    sleep: impl Fn(Duration) -> S,
) {
    let mut delay = retry.first_delay;
    for number in 1..=retry.tries {
        if work(job.clone()).await {
            return store.end(job.id, true).await;
        }
        if number < retry.tries {
            sleep(delay).await;
            delay = (delay * 2).min(DELAY_MAX);
        }
    }
    store.end(job.id, false).await;
}

/// Jobs of one customer that may wait.
pub const WAITING_MAX: usize = 1_000;
const DELAY_MAX: Duration = Duration::from_secs(60);
const RETRY: Retry = Retry {
    tries: 8,
    first_delay: Duration::from_secs(1),
};

const USAGE: &str = "usage:
  jobs serve DATABASE COMMAND [ADDRESS]   by default 127.0.0.1:8127
  jobs measure [ROUNDS]                   by default 5; each takes some seconds

COMMAND is called with the customer and the text of a job; it has done the job if it ends with 0.
Try it:  jobs serve jobs.db ./send-bill.sh  and  printf 'alice bill 17\\n' | nc -N 127.0.0.1 8127
The answer to each line is `kept NUMBER`, `busy`, or `closed`.";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", database, command] => serve(database, command, "127.0.0.1:8127").await,
        ["serve", database, command, address] => serve(database, command, address).await,
        ["measure"] => measure::run(5).await,
        ["measure", rounds] => match rounds.parse() {
            Ok(rounds) if rounds > 0 => measure::run(rounds).await,
            _ => return usage(),
        },
        ["--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jobs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

async fn serve(database: &str, command: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open(Path::new(database))
        .map_err(|error| format!("cannot open the database {database}: {error}"))?;
    let queue = with_busyhour::Jobs::open(store, calls(command), RETRY)?;
    let queue = Arc::new(queue);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    println!("jobs: tcp {}", listener.local_addr()?);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                queue.spawn(answer(Arc::clone(&queue), accepted?.0));
            }
            done = tokio::signal::ctrl_c() => return Ok(done?),
        }
    }
}

/// Runs `command CUSTOMER TEXT`.
fn calls(command: &str) -> Work {
    let command = command.to_owned();
    Arc::new(move |job| {
        let mut call = Command::new(&command);
        call.arg(&job.customer).arg(&job.text);
        Box::pin(async move {
            let status = call.status().await;
            if let Err(error) = &status {
                eprintln!("jobs: job {} cannot be tried: {error}", job.id);
            }
            status.is_ok_and(|status| status.success())
        })
    })
}

/// Answers the lines of one connection.
async fn answer(queue: Arc<impl Queue>, mut connection: TcpStream) {
    let (reader, mut writer) = connection.split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match line.split_once(' ') {
            Some((customer, text)) if !customer.is_empty() => {
                match queue.offer(customer, text).await {
                    Ok(id) => format!("kept {id}\n"),
                    Err(Refused::Busy) => "busy\n".to_owned(),
                    Err(Refused::Closed) => "closed\n".to_owned(),
                }
            }
            _ => "a line is CUSTOMER TEXT\n".to_owned(),
        };
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
