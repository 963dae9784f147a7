//! `busyhour trace`: the messages of one device, live.

use super::{Failure, running_server::RunningServer, which_server::AskedServer};
use crate::console;
use clap::Args;
use serde::Deserialize;
use std::{
    io::{BufRead, BufReader, ErrorKind, stdout},
    time::{Duration, Instant},
};

/// Show the SIP messages of one device, live, as they are on the wire
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TraceCommand {
    /// The user, such as alice, or an address of record
    #[arg(value_name = "USER")]
    user: String,

    /// Leave out the bodies of messages
    #[arg(long)]
    no_bodies: bool,

    /// Print one JSON object a line
    #[arg(long, conflicts_with = "ladder")]
    json: bool,

    /// Print one line a message: an arrow between the server and the other side
    #[arg(long)]
    ladder: bool,

    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,

    /// End after so many messages
    #[arg(long, value_name = "MESSAGES")]
    count: Option<u64>,

    #[command(flatten)]
    server: AskedServer,
}

/// A line of the server: a message, or how many found no room.
#[derive(Deserialize)]
#[serde(untagged)]
enum TraceLine {
    Message(ShownMessage),
    Lost { lost: u64 },
}

#[derive(Deserialize)]
struct ShownMessage {
    at_ns: u64,
    direction: String,
    transport: String,
    local: String,
    remote: String,
    message: String,
}

impl TraceCommand {
    /// Prints messages until the server ends, nobody reads, or there were enough.
    ///
    /// # Errors
    ///
    /// If no server answers, or refuses.
    pub fn run(self) -> Result<(), Failure> {
        let server = self.server.find()?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("user", &self.user);
        if self.no_bodies {
            query.append_pair("bodies", "no");
        }
        let path = format!("/api/v1/trace?{}", query.finish());
        if !self.is_registered(&server) {
            console::print_error(format!(
                "{} is not registered; what it sends is shown when it comes",
                self.user
            ));
        }
        let stream = server.stream(&path).map_err(Failure::running)?;
        self.follow(stream)
    }

    /// Whether it has contacts; also if the server does not say.
    fn is_registered(&self, server: &RunningServer) -> bool {
        #[derive(Deserialize)]
        struct Bindings {
            bindings: Vec<serde::de::IgnoredAny>,
        }
        let user: String = form_urlencoded::byte_serialize(self.user.as_bytes()).collect();
        let listed = server.get(&format!("/api/v1/bindings?user={user}"));
        let listed = listed
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        listed.is_none_or(|listed: Bindings| !listed.bindings.is_empty())
    }

    fn follow(&self, stream: impl std::io::Read) -> Result<(), Failure> {
        let ends_at = self
            .seconds
            .map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let mut reader = BufReader::new(stream);
        let (mut line, mut left) = (Vec::new(), self.count.unwrap_or(u64::MAX));
        while left > 0 && ends_at.is_none_or(|ends_at| Instant::now() < ends_at) {
            // What was read of a line before a timeout stays in it.
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_silence(error.kind()) => continue,
                Err(error) => return Err(Failure::running(format!("the server: {error}"))),
            }
            let text = String::from_utf8_lossy(&line);
            let parsed = serde_json::from_str(&text).map_err(Failure::running)?;
            left -= u64::from(matches!(parsed, TraceLine::Message(_)));
            if !self.print(&parsed, text.trim_end())? {
                return Ok(());
            }
            line.clear();
        }
        Ok(())
    }

    /// Whether somebody still reads.
    fn print(&self, parsed: &TraceLine, line: &str) -> Result<bool, Failure> {
        let is_coloured = console::is_coloured(&stdout());
        let text = match parsed {
            _ if self.json => line.to_owned(),
            // The trace begins.
            TraceLine::Lost { lost: 0 } => return Ok(true),
            TraceLine::Lost { lost } => {
                console::print_error(format!("{lost} messages were lost: they came too fast"));
                return Ok(true);
            }
            TraceLine::Message(message) if self.ladder => message.arrow(is_coloured),
            TraceLine::Message(message) => message.whole(is_coloured),
        };
        console::print_while_read(text).map_err(Failure::running)
    }
}

impl ShownMessage {
    fn whole(&self, has_colours: bool) -> String {
        let (from, to) = self.ends();
        let head = format!("{} {} {from} -> {to}", self.time(), self.transport);
        let head = self.coloured(&head, has_colours);
        let text: String = self.message.chars().map(printable).collect();
        format!("{head}\n{}\n", text.replace("\r\n", "\n").trim_end())
    }

    /// The server is on the left.
    fn arrow(&self, has_colours: bool) -> String {
        let shown = |text: &str| text.chars().map(printable).collect::<String>();
        let first = shown(self.message.lines().next().unwrap_or(""));
        let what = first.strip_prefix("SIP/2.0 ").unwrap_or(&first);
        let what = what.strip_suffix(" SIP/2.0").unwrap_or(what);
        let what = format!(" {what} ");
        let cseq = self
            .message
            .lines()
            .find_map(|line| line.strip_prefix("CSeq: "))
            .map_or(String::new(), shown);
        let arrow = match &*self.direction {
            "in" => format!("<{what:-^ARROW_LEN$}-"),
            _ => format!("-{what:-^ARROW_LEN$}>"),
        };
        let arrow = self.coloured(&arrow, has_colours);
        let Self {
            local,
            remote,
            transport,
            ..
        } = self;
        format!(
            "{} {local} {arrow} {remote} {transport}  {cseq}",
            self.time()
        )
    }

    fn ends(&self) -> (&str, &str) {
        match &*self.direction {
            "in" => (&self.remote, &self.local),
            _ => (&self.local, &self.remote),
        }
    }

    fn time(&self) -> String {
        let at = jiff::Timestamp::from_nanosecond(self.at_ns.into());
        at.map_or(String::new(), |at| format!("{at:.6}"))
    }

    /// What comes is green, what leaves is blue.
    fn coloured(&self, text: &str, has_colours: bool) -> String {
        match (has_colours, &*self.direction) {
            (false, _) => text.to_owned(),
            (true, "in") => format!("\u{1b}[32m{text}\u{1b}[0m"),
            (true, _) => format!("\u{1b}[34m{text}\u{1b}[0m"),
        }
    }
}

/// What a terminal would obey is not for devices to send.
fn printable(one: char) -> char {
    match one.is_control() && !matches!(one, '\r' | '\n' | '\t') {
        true => char::REPLACEMENT_CHARACTER,
        false => one,
    }
}

fn is_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Enough for most Request-URIs.
const ARROW_LEN: usize = 44;

const AFTER_HELP: &str = "\
The messages are those whose Request-URI, From, To or asserted identity names the user, and all
on the connections and addresses from which the user is registered. Responses and nonces of
authentication, and keys of media, are shown as ***. Ctrl-C ends the trace.

The command asks the server over its local socket, or over HTTP with --http and a token of scope
write, since messages are private. At most eight traces run at a time; one that reads too slowly
loses messages, and says how many.

Examples:
  busyhour trace alice                       everything that alice's devices say and are told
  busyhour trace alice --ladder              one line a message
  busyhour trace alice --json --seconds 60   for a program";
