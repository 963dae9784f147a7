//! `busyhour top`: what a running server does, second by second, on a terminal.

mod screen;
mod view;

use super::{Failure, running_server::RunningServer, which_server::WhichServer};
use crate::console;
use clap::Args;
use serde_json::Value;
use std::{
    io::{IsTerminal, stdin, stdout},
    time::Duration,
};
use view::View;

/// Watch a running server: rates, latencies, queues, limits
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Top {
    /// How often the server is asked
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,

    /// Print one JSON object a line instead, with the rates of each interval
    #[arg(long)]
    json: bool,

    /// End after so many looks
    #[arg(long, value_name = "LOOKS")]
    count: Option<u64>,

    #[command(flatten)]
    server: WhichServer,
}

impl Top {
    /// Shows until `q` is pressed, the server ends, or there were enough looks.
    ///
    /// # Errors
    ///
    /// If no server answers, or standard output is no terminal.
    pub fn run(self) -> Result<(), Failure> {
        let server = self.server.named().map_or_else(RunningServer::find, Ok);
        let server = server.map_err(Failure::running)?;
        if self.json {
            return self.print(&server);
        }
        if !stdout().is_terminal() || !stdin().is_terminal() {
            return Err(Failure::usage(
                "top draws on a terminal; for programs there are --json and `busyhour show`",
            ));
        }
        screen::run(&server, Duration::from_secs(self.every), self.count)
    }

    fn print(&self, server: &RunningServer) -> Result<(), Failure> {
        let mut before = look(server).map_err(Failure::running)?;
        for _ in 0..self.count.unwrap_or(u64::MAX) {
            std::thread::sleep(Duration::from_secs(self.every));
            let now = look(server).map_err(Failure::running)?;
            let line = View::between(&before, &now).json();
            if !console::print_while_read(line).map_err(Failure::running)? {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

/// The snapshot and the queues.
struct ServerLook {
    stats: Value,
    queues: Value,
    health: String,
}

fn look(server: &RunningServer) -> Result<ServerLook, String> {
    let json = |path: &str| -> Result<Value, String> {
        let body = server.get(path)?;
        serde_json::from_str(&body).map_err(|_| format!("{path} of another program was answered"))
    };
    Ok(ServerLook {
        stats: json("/api/v1/stats")?,
        queues: json("/api/v1/queues")?,
        // It may be unwell, and say so.
        health: server.get("/healthz").unwrap_or_else(|problem| problem),
    })
}

const AFTER_HELP: &str = "\
Keys: q or Escape ends it, p stops and goes on, + and - change how often the server is asked.

Examples:
  busyhour top
  busyhour top --http 192.0.2.1:8080 --token bh_…     of another machine
  busyhour top --json --count 60 > minute.jsonl

Exit codes: 0 ended by a key or --count, 1 no server answers, 2 wrong usage, or no terminal.";
