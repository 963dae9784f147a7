//! Jobs by customer: lines `CUSTOMER TEXT` come by TCP and are kept in SQLite. A command runs for
//! each; those of one customer in order and one at a time, and a failed one again, later and later.
//!
//! `jobs serve` runs it; `jobs measure` compares it with the version of with_tokio.rs.

mod measure;
mod store;
#[cfg(test)]
mod tests;
mod with_busyhour;
mod with_tokio;

use busyhour::timer::Backoff;
use std::{error::Error, path::Path, pin::Pin, process::ExitCode, sync::Arc, time::Duration};
use store::Store;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};
use with_busyhour::Jobs;

/// A job that is kept, and for whom it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: i64,
    pub customer: String,
    pub text: String,
}

/// Does one job, which is tried again if it fails.
pub type Work = Arc<dyn Fn(Job) -> Pin<Box<dyn Future<Output = Done> + Send>> + Send + Sync>;
pub type Done = Result<(), ()>;

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// So many of the customer's jobs wait already.
    Busy,
    /// The database cannot be written, or the queue ends.
    Closed,
}

/// Jobs of one customer that may wait.
pub const WAITING_MAX: usize = 1_000;
const RETRY: Backoff = Backoff::new(Duration::from_secs(1)).tries(8);
const USAGE: &str = "usage:
  jobs serve DATABASE COMMAND [ADDRESS]   by default 127.0.0.1:8127
  jobs measure [ROUNDS]                   by default 5; each takes some seconds

COMMAND is called with the customer and the text of a job; it has done the job if it ends with 0.
Try it:  jobs serve jobs.db ./send-bill.sh  and  printf 'alice bill 17\\n' | nc -N 127.0.0.1 8127
The answer to each line is `kept NUMBER`, `busy`, or `closed`.";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", database, command] => serve(database, command, "127.0.0.1:8127").await,
        ["serve", database, command, address] => serve(database, command, address).await,
        ["measure"] => measure::run("5").await,
        ["measure", rounds] => measure::run(rounds).await,
        _ => Err(USAGE.into()),
    };
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    eprintln!("jobs: {error}");
    ExitCode::FAILURE
}

async fn serve(database: &str, command: &str, address: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open(Path::new(database))
        .map_err(|error| format!("cannot open the database {database}: {error}"))?;
    let queue = Arc::new(Jobs::open(store, calls(command), RETRY).await?);
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    println!("jobs: tcp {}", listener.local_addr()?);
    loop {
        tokio::select! {
            accepted = listener.accept() => queue.spawn(answer(Arc::clone(&queue), accepted?.0)),
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
            let say = |error| eprintln!("jobs: job {} cannot be tried: {error}", job.id);
            let status = call.status().await.map_err(say);
            status.and_then(|status| status.success().then_some(()).ok_or(()))
        })
    })
}

/// Answers the lines of one connection.
async fn answer(queue: Arc<Jobs>, mut connection: TcpStream) {
    let (reader, mut writer) = connection.split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match line.split_once(' ').filter(|job| !job.0.is_empty()) {
            Some((customer, text)) => match queue.offer(customer, text).await {
                Ok(id) => format!("kept {id}\n"),
                Err(Refused::Busy) => "busy\n".to_owned(),
                Err(Refused::Closed) => "closed\n".to_owned(),
            },
            None => "a line is CUSTOMER TEXT\n".to_owned(),
        };
        if writer.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
