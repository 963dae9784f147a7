//! The command line of the storm.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::Pattern;
use busyhour_sip::auth::Algorithm;

/// Register many devices at a server and measure how it copes
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Storm {
    /// The protocol of the devices
    #[arg(long, value_enum, default_value_t = Protocol::Sip)]
    pub protocol: Protocol,

    /// The transport of SIP; over TCP each thread has one connection for all its devices
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub transport: Transport,

    /// The server [default: 127.0.0.1, 5060 for SIP and 4569 for IAX2]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub target: Option<SocketAddr>,

    /// The number of devices
    #[arg(long, default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(1..=MOST_DEVICES))]
    pub devices: u32,

    /// The number of the first device
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub first: u64,

    /// The time over which the registrations are spread evenly
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = time)]
    pub over: Duration,

    /// Registrations a second, instead of all devices over the time
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    pub rate: Option<f64>,

    /// Keep this many registrations in progress instead of following the clock
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["rate", "ramp"],
        value_parser = clap::value_parser!(u32).range(1..))]
    pub closed: Option<u32>,

    /// Raise the rate step by step until something fails, and print the highest good rate
    #[arg(long)]
    pub ramp: bool,

    /// How long each step of a ramp lasts
    #[arg(long, default_value = "3s", value_name = "TIME", value_parser = time)]
    pub step: Duration,

    /// New registrations, or refreshes of registrations made beforehand
    #[arg(long, value_enum, default_value_t = Kind::Insert)]
    pub kind: Kind,

    /// User name and password, with the device's number as in --user
    #[arg(long, value_name = "USER:PASSWORD")]
    pub auth: Option<String>,

    /// User name for a server that asks for no password
    #[arg(
        long,
        default_value = "device{n}",
        value_name = "USER",
        conflicts_with = "auth"
    )]
    pub user: Pattern,

    /// Answer only challenges of this algorithm: MD5, SHA-256 or SHA-512-256
    #[arg(long, value_name = "NAME", value_parser = algorithm)]
    pub algorithm: Option<Algorithm>,

    /// The domain of the addresses of record [default: the server's address]
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// The lifetime (Expires) to request
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = time)]
    pub expires: Duration,

    /// RFC 3261's T1: the first retransmission; the last try is 64 times later
    #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = time)]
    pub t1: Duration,

    /// Give a registration up after this time [default: 64 times --t1, 4s in a ramp over UDP]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub patience: Option<Duration>,

    /// The number of threads, each with its own socket
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,

    /// The number of watchers, who subscribe by SIP to the devices in turn, each with its
    /// device's account; at the end each must have the right state
    #[arg(long, default_value_t = 0, value_name = "COUNT", conflicts_with = "ramp",
        value_parser = clap::value_parser!(u32).range(..=MOST_WATCHERS))]
    pub watchers: u32,

    /// The address for subscriptions [default: the server's address, with port 5060 for IAX2]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "watchers")]
    pub watch_target: Option<SocketAddr>,

    /// The watchers subscribe to this list (RFC 4662), which has all devices, instead of to each of
    /// them; with --calls the first watcher's panel shows the lamps
    #[arg(long, value_name = "NAME", requires = "watchers")]
    pub watch_list: Option<String>,

    /// Make calls to the devices, which register first: INVITE, 180, 200, ACK, BYE; --rate,
    /// --closed and --over then count calls, and watchers watch the lamps (dialogs) of the devices;
    /// the callers are the users after the devices, so --auth needs accounts for twice as many
    #[arg(long, conflicts_with_all = ["ramp", "kind", "journal", "threads"])]
    pub calls: bool,

    /// How many contacts each called device has: one answers, and the server must cancel the others
    #[arg(long, default_value_t = 1, value_name = "COUNT", requires = "calls",
        value_parser = clap::value_parser!(u32).range(1..=8))]
    pub forks: u32,

    /// How long a called device rings before it answers
    #[arg(long, default_value = "0s", value_name = "TIME", requires = "calls", value_parser = time)]
    pub ring: Duration,

    /// How long an answered call lasts until its caller ends it
    #[arg(long, default_value = "0s", value_name = "TIME", requires = "calls", value_parser = time)]
    pub talk: Duration,

    /// So many of a hundred callers give up (CANCEL) while it rings, and nobody answers them
    #[arg(long, default_value_t = 0, value_name = "PERCENT", requires = "calls",
        value_parser = clap::value_parser!(u32).range(..=100))]
    pub give_up: u32,

    /// How long after the last call the server's CPU time still counts: until it has freed the
    /// transactions
    #[arg(long, default_value = "5500ms", value_name = "TIME", requires = "calls", value_parser = time)]
    pub settle: Duration,

    /// Process id of the server, to measure its memory and its CPU time, including running children
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Append what was offered and what was acknowledged to this file
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// A datagram each.
    Udp,
    /// A connection, for SIP alone.
    Tcp,
}

impl Transport {
    /// The name of the transport in Via.
    pub(crate) fn in_via(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }

    /// The parameter for this transport in the URI of a contact.
    pub(crate) fn uri_suffix(self) -> &'static str {
        match self {
            Self::Udp => "",
            Self::Tcp => ";transport=tcp",
        }
    }
}

/// What the devices speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// RFC 3261.
    Sip,
    /// RFC 5456, with call token and MD5.
    Iax2,
}

impl Protocol {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sip => "sip",
            Self::Iax2 => "iax2",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Sip => 5060,
            Self::Iax2 => 4569,
        }
    }
}

impl Storm {
    /// The server.
    pub fn target(&self) -> SocketAddr {
        let here = || SocketAddr::from(([127, 0, 0, 1], self.protocol.port()));
        self.target.unwrap_or_else(here)
    }

    /// Where watchers subscribe.
    pub(crate) fn watch_target(&self) -> SocketAddr {
        let target = self.target();
        let same = match self.protocol {
            Protocol::Sip => target,
            Protocol::Iax2 => SocketAddr::new(target.ip(), Protocol::Sip.port()),
        };
        self.watch_target.unwrap_or(same)
    }
}

/// What a registration is to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Each device registers once.
    Insert,
    /// Devices that are registered register again, round and round.
    Refresh,
}

impl Kind {
    /// The name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Refresh => "refresh",
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "give a time such as 500ms, 90s or 1h".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().map_err(|_| "give a number")?;
    let sound = f64::is_finite(rate) && rate > 0.0 && rate <= 10_000_000.0;
    if sound {
        Ok(rate)
    } else {
        Err("more than 0, at most 10000000".into())
    }
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    let known = || Algorithm::ALL.map(Algorithm::name).join(", ");
    let named = Algorithm::from_name(text).filter(|_| !text.is_empty());
    named.ok_or_else(|| format!("known are {}", known()))
}

/// A device has a number of 32 bits and takes some 40 bytes.
const MOST_DEVICES: i64 = 100_000_000;
/// A watcher takes some 200 bytes, and all watchers share one socket.
const MOST_WATCHERS: i64 = 1_000_000;

/// clap replaces `{n}` by a line break. An escape sequence without effect
/// inside of the braces prevents that; clap removes it where the output is no
/// terminal.
const AFTER_HELP: &str = "\
Examples:
  busyhour storm                                 12,000 devices over one minute
  busyhour storm --auth 'device{\x1b[0mn}:busyhour'     with digest authentication
  busyhour storm --protocol iax2 --auth 'device{\x1b[0mn}:busyhour'
  busyhour storm --transport tcp --closed 64
  busyhour storm --rate 10000 --pid $(pidof busyhour)
  busyhour storm --closed 64 --kind refresh --over 10s
  busyhour storm --devices 1 --watchers 10000    one change for many watchers
  busyhour storm --ramp --kind refresh           find the highest rate without a failure
  busyhour storm --rate 100000 --kind refresh --over 10s --patience 2s
                                                 overload: how much gets through
  busyhour storm --calls --devices 1000 --rate 200 --over 10s --watchers 1000
                                                 calls, and the lamps of the called devices
  busyhour storm --calls --devices 5000 --rate 50 --over 10s --watchers 1 --watch-list panel
                                                 the same lamps on one list
  busyhour storm --calls --devices 1000 --closed 64 --over 10s --forks 2 --ring 50ms --give-up 10

In user names and passwords {\x1b[0mn} stands for the number of the device, {n:06} for the number with six digits.

A server on this machine that asks for passwords gets accounts storm-trial-… for the devices;
they are removed at the end, also at one by Ctrl-C or a signal.

Exit codes:
  0  every registration was acknowledged, every call went as planned on both sides, and every
     watcher has the right state
  1  registrations or calls failed, watchers have a wrong state, or the network failed";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        _storm: Storm,
    }

    #[test]
    fn the_help_shows_the_number_of_a_device_as_it_is_written() {
        let help = Alone::command().render_long_help().to_string();
        assert_eq!(help.matches("--auth 'device{n}:busyhour'").count(), 2);
        assert!(help.contains("[default: device{n}]"), "{help}");
        assert!(help.contains("passwords {n} stands"), "{help}");
        assert!(!help.contains('\x1b'), "{help}");
    }
}
