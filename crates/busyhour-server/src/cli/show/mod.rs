//! `busyhour show`: what a running server holds and does, as tables or JSON.

mod call_records;
mod subjects;
mod table;

use super::{Failure, running_server::RunningServer, which_server::AskedServer};
use crate::{console, percent_encoding::put_percent_encoded};
use call_records::ShowCallRecords;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    io::{IsTerminal, stdout},
    time::Duration,
};
use subjects::Subject;
use table::TableOptions;

/// Show what a running server holds: queues, timers, topics, buffers, alerts …
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, subcommand_required = true, arg_required_else_help = true)]
pub struct Show {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Queues: how many tasks wait, for how long, and what runs
    #[command(after_help = subjects::QUEUES.help())]
    Queues(ShowList),
    /// Calls that last: who calls whom, and how far they are
    #[command(after_help = subjects::CALLS.help())]
    Calls(ShowList),
    /// Calls that ended, and how
    #[command(after_help = subjects::CALL_RECORDS.help())]
    CallRecords(ShowCallRecords),
    /// Other servers and gateways that are trusted, and which of their addresses are up
    #[command(after_help = subjects::PEERS.help())]
    Peers(ShowList),
    /// Servers behind this one, at which addresses of record are registered
    #[command(after_help = subjects::REGISTRARS.help())]
    Registrars(ShowList),
    /// Webhooks: where changes are posted to, and how that goes
    #[command(after_help = subjects::WEBHOOKS.help())]
    Webhooks(ShowList),
    /// Domains with settings of their own: what they have, and what they may have
    #[command(after_help = subjects::TENANTS.help())]
    Tenants(ShowList),
    /// Certificates that peers are shown over TLS, and until when they are valid
    #[command(after_help = subjects::CERTIFICATES.help())]
    Certificates(ShowList),
    /// Extensions (hints), their devices and their states
    #[command(after_help = subjects::HINTS.help())]
    Hints(ShowList),
    /// Lists of resources that watchers subscribe to by one URI
    #[command(after_help = subjects::LISTS.help())]
    Lists(ShowList),
    /// The media relays, and whether they answer
    #[command(after_help = subjects::MEDIA.help())]
    Media(ShowList),
    /// Pending timers: what is due, and when
    #[command(after_help = subjects::TIMERS.help())]
    Timers(ShowList),
    /// Topics of the event bus: cached keys, subscribers, events
    #[command(after_help = subjects::TOPICS.help())]
    Topics(ShowList),
    /// Subscriptions to topics, the slowest ones first
    #[command(after_help = subjects::SUBSCRIPTIONS.help())]
    Subscriptions(ShowList),
    /// Packet buffers in use, by owner
    #[command(after_help = subjects::BUFFERS.help())]
    Buffers(ShowBuffers),
    /// Worker threads of the pool
    #[command(after_help = subjects::WORKERS.help())]
    Workers(ShowList),
    /// The store: what waits for the disk, and how long transactions take
    #[command(after_help = subjects::STORES.help())]
    Stores(ShowList),
    /// Limits that were reached, and how often
    #[command(after_help = subjects::ALERTS.help())]
    Alerts(ShowList),
    /// One device: its contacts and why it may not be registered
    #[command(after_help = subjects::DEVICE.help())]
    Device(ShowDevice),
}

#[derive(Debug, Args)]
struct ShowDevice {
    /// The user of its address of record, such as alice
    #[arg(value_name = "USER")]
    user: String,

    #[command(flatten)]
    list: ShowList,
}

#[derive(Debug, Args)]
struct ShowBuffers {
    /// Show the oldest buffers one by one, and where they were taken
    #[arg(long)]
    oldest: bool,

    #[command(flatten)]
    list: ShowList,
}

#[derive(Debug, Args)]
pub(super) struct ShowList {
    #[command(flatten)]
    table: TableOptions,

    /// Ask again every SECONDS, until the command is ended
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    watch: Option<u32>,

    /// Print one JSON array of objects, with times in nanoseconds
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: AskedServer,
}

impl Show {
    /// Asks the server and prints its answer.
    ///
    /// # Errors
    ///
    /// If no server answers, or if a column does not exist.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Queues(list) => list.run(&subjects::QUEUES, ""),
            What::Calls(list) => list.run(&subjects::CALLS, ""),
            What::CallRecords(records) => records.run(),
            What::Peers(list) => list.run(&subjects::PEERS, ""),
            What::Registrars(list) => list.run(&subjects::REGISTRARS, ""),
            What::Webhooks(list) => list.run(&subjects::WEBHOOKS, ""),
            What::Tenants(list) => list.run(&subjects::TENANTS, ""),
            What::Certificates(list) => list.run(&subjects::CERTIFICATES, ""),
            What::Hints(list) => list.run(&subjects::HINTS, ""),
            What::Lists(list) => list.run(&subjects::LISTS, ""),
            What::Media(list) => list.run(&subjects::MEDIA, ""),
            What::Timers(list) => list.run(&subjects::TIMERS, ""),
            What::Topics(list) => list.run(&subjects::TOPICS, ""),
            What::Subscriptions(list) => list.run(&subjects::SUBSCRIPTIONS, ""),
            What::Buffers(buffers) if buffers.oldest => {
                buffers.list.run(&subjects::OLDEST_BUFFERS, "")
            }
            What::Buffers(buffers) => buffers.list.run(&subjects::BUFFERS, ""),
            What::Workers(list) => list.run(&subjects::WORKERS, ""),
            What::Stores(list) => list.run(&subjects::STORES, ""),
            What::Alerts(list) => list.run(&subjects::ALERTS, ""),
            What::Device(device) => device.run(),
        }
    }
}

impl ShowDevice {
    /// A device that is not registered, never failed to register and has no account is not known.
    fn run(&self) -> Result<(), Failure> {
        let user = form_urlencoded::byte_serialize(self.user.as_bytes());
        let query = format!("?user={}", user.collect::<String>());
        let subject = &subjects::DEVICE;
        let server = self.list.server.find()?;
        let Rows { rows: found, .. } =
            rows(subject, &server, &query, 1).map_err(Failure::running)?;
        if found.is_empty() && self.list.watch.is_none() {
            let mut path = "/api/v1/devices/".to_owned();
            put_percent_encoded(&mut path, &self.user);
            server.get(&path).map_err(Failure::running)?;
        }
        self.list.run(subject, &query)
    }
}

impl ShowList {
    /// The nodes of the cluster.
    pub(super) fn run_cluster(&self) -> Result<(), Failure> {
        self.run(&subjects::CLUSTER, "")
    }

    fn run(&self, subject: &Subject, query: &str) -> Result<(), Failure> {
        self.table.check(subject).map_err(Failure::usage)?;
        let server = self.server.find()?;
        loop {
            if self.watch.is_some() && stdout().is_terminal() && !self.json {
                console::print(CLEAR).map_err(Failure::running)?;
            }
            let is_read = self.print(subject, &server, query)?;
            let Some(seconds) = self.watch.filter(|_| is_read) else {
                return Ok(());
            };
            std::thread::sleep(Duration::from_secs(seconds.max(1).into()));
        }
    }

    /// Whether somebody has read it.
    fn print(
        &self,
        subject: &Subject,
        server: &RunningServer,
        query: &str,
    ) -> Result<bool, Failure> {
        let Rows {
            rows,
            not_sent,
            silent,
        } = rows(subject, server, query, self.table.asked_len()).map_err(Failure::running)?;
        for node in silent {
            console::print_error(format_args!(
                "node {node} of the cluster gives no answer: what it has is missing"
            ));
        }
        let (rows, left_out) = self.table.select(subject, rows);
        let left_out = left_out + not_sent;
        let text = match self.json {
            true => serde_json::to_string_pretty(&rows).map_err(Failure::running)?,
            false => self.table.draw(subject, &rows, left_out),
        };
        console::print_while_read(text).map_err(Failure::running)
    }
}

/// What the server has sent.
struct Rows {
    rows: Vec<Map<String, Value>>,
    /// How many more there are.
    not_sent: usize,
    /// Nodes of the cluster whose part is missing.
    silent: BTreeSet<String>,
}

/// The rows of a subject, from all its routes one after the other.
fn rows(
    subject: &Subject,
    server: &RunningServer,
    query: &str,
    asked_len: usize,
) -> Result<Rows, String> {
    let mut all = Rows {
        rows: Vec::new(),
        not_sent: 0,
        silent: BTreeSet::new(),
    };
    for route in subject.routes {
        let path = match route.count {
            Some(_) => format!("{}?limit={asked_len}", route.path),
            None => format!("{}{query}", route.path),
        };
        let body = server.get(&path)?;
        let not_ours = || format!("{} of another program or version was answered", route.path);
        let mut answer: Map<String, Value> = serde_json::from_str(&body).map_err(|_| not_ours())?;
        let Some(Value::Array(list)) = answer.remove(route.list) else {
            return Err(not_ours());
        };
        let silent = answer.get("unanswered_nodes").and_then(Value::as_array);
        let silent = silent.into_iter().flatten().filter_map(Value::as_str);
        all.silent.extend(silent.map(str::to_owned));
        let count = route.count.and_then(|name| answer.get(name)?.as_u64());
        all.not_sent += (count.unwrap_or(0) as usize).saturating_sub(list.len());
        for row in list {
            let Value::Object(mut row) = row else {
                return Err(not_ours());
            };
            if let Some(state) = route.state {
                row.insert("state".into(), state.into());
            }
            all.rows.push(row);
        }
    }
    Ok(all)
}

/// Moves to the upper left corner and clears what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

const AFTER_HELP: &str = "\
The command asks the server over its local socket (http.socket), which only the server's
user and root may use, or over HTTP with --http and, from another machine, --token.

Examples:
  busyhour show queues                            where work waits, the longest queue first
  busyhour show queues --filter kind=strand       only the strands of devices
  busyhour show timers --sort due_in --limit 20   the next twenty timers
  busyhour show subscriptions --watch             the slowest subscribers, every two seconds
  busyhour show hints                             which lamps are on
  busyhour show device alice                      where alice is registered, or why not
  busyhour show alerts --json                     for a script
  busyhour show call-records --user alice         alice's calls that ended
  busyhour show call-records --csv > calls.csv    all of them, for a spreadsheet

Whoever knows Asterisk finds `core show taskprocessors`, `sched show`, `core show hints` and
`database show` in docs/asterisk.md.";
