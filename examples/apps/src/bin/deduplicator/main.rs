//! Telemetry without repetitions: lines `SENSOR VALUE` come by UDP, and whoever connects by
//! TCP is told the last value of each sensor and then every change, as fast as it reads.
//!
//! `deduplicator serve` runs it; `deduplicator measure` compares it with the version of
//! with_tokio.rs, in this process, with a million sensors and slow subscribers.

mod measure;
mod with_busyhour;
mod with_tokio;

use std::{error::Error, process::ExitCode, str, sync::Arc, time::Instant};
use tokio::{
    io::{AsyncWriteExt, BufWriter},
    net::{TcpListener, TcpStream, UdpSocket},
};

/// A value of a sensor, and when it came.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub sensor: u64,
    pub value: i64,
    pub at: Instant,
}

/// What a subscriber is told.
pub enum Told {
    Change(Reading),
    /// So many changes were lost, since the subscriber was too slow.
    Lost(u64),
}

/// Lets changes through and repetitions not.
pub trait Hub: Send + Sync + 'static {
    type Subscriber: Subscriber;

    /// An empty one.
    fn open() -> Result<Self, Box<dyn Error>>
    where
        Self: Sized;

    /// Tells the subscribers of each reading, unless the sensor had this value already.
    fn offer(&self, readings: impl Iterator<Item = Reading>);

    /// What it tells: the last value of each sensor, then the changes.
    fn subscribe(&self) -> Self::Subscriber;
}

/// One that is told changes.
pub trait Subscriber: Send + 'static {
    /// The next thing to know; nothing once the hub has ended.
    fn next(&mut self) -> impl Future<Output = Option<Told>> + Send;
}

const USAGE: &str = "usage:
  deduplicator serve [UDP-ADDRESS TCP-ADDRESS]   by default 127.0.0.1:8125 and 127.0.0.1:8126
  deduplicator measure [ROUNDS]                  by default 5; each takes some seconds

Try it:  printf '17 20\\n17 20\\n17 21\\n' > /dev/udp/127.0.0.1/8125  while  nc 127.0.0.1 8126  runs";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve"] => serve("127.0.0.1:8125", "127.0.0.1:8126").await,
        ["serve", udp, tcp] => serve(udp, tcp).await,
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
            eprintln!("deduplicator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

async fn serve(udp: &str, tcp: &str) -> Result<(), Box<dyn Error>> {
    let hub = Arc::new(with_busyhour::Changes::open()?);
    let readings = UdpSocket::bind(udp).await;
    let readings = readings.map_err(|error| format!("cannot listen on udp {udp}: {error}"))?;
    let subscribers = TcpListener::bind(tcp).await;
    let subscribers =
        subscribers.map_err(|error| format!("cannot listen on tcp {tcp}: {error}"))?;
    println!("readings: udp {}", readings.local_addr()?);
    println!("changes: tcp {}", subscribers.local_addr()?);
    let mut datagram = vec![0; 65_536];
    loop {
        tokio::select! {
            received = readings.recv(&mut datagram) => {
                hub.offer(parse(&datagram[..received?]));
            }
            accepted = subscribers.accept() => {
                tokio::spawn(tell(hub.subscribe(), accepted?.0));
            }
            done = tokio::signal::ctrl_c() => return Ok(done?),
        }
    }
}

/// The lines of a datagram that are readings; the others are left out.
fn parse(datagram: &[u8]) -> impl Iterator<Item = Reading> {
    let at = Instant::now();
    let lines = datagram.split(|&byte| byte == b'\n');
    lines.filter_map(move |line| {
        let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
        let reading = Reading {
            sensor: words.next()?.parse().ok()?,
            value: words.next()?.parse().ok()?,
            at,
        };
        words.next().is_none().then_some(reading)
    })
}

/// Writes to one who has connected, until either side ends.
async fn tell(mut subscriber: impl Subscriber, connection: TcpStream) {
    let mut lines = BufWriter::new(connection);
    while let Some(told) = subscriber.next().await {
        let line = match told {
            Told::Change(Reading { sensor, value, .. }) => format!("{sensor} {value}\n"),
            Told::Lost(count) => format!("# {count} changes were lost\n"),
        };
        if lines.write_all(line.as_bytes()).await.is_err() || lines.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_two_numbers_are_readings() {
        let found = parse(b"1 2\nx 3\n4\n5 6 7\n8 -9\n\xff 1\n");
        let found: Vec<_> = found
            .map(|reading| (reading.sensor, reading.value))
            .collect();
        assert_eq!(found, [(1, 2), (8, -9)]);
    }

    #[tokio::test]
    async fn both_tell_the_last_value_of_each_sensor_and_then_the_changes() {
        check::<with_busyhour::Changes>().await;
        check::<with_tokio::Changes>().await;
    }

    async fn check<H: Hub>() {
        let hub = H::open().expect("a hub");
        hub.offer(readings([(1, 10), (2, 20), (1, 11)]));
        let mut subscriber = hub.subscribe();
        let mut state = [next(&mut subscriber).await, next(&mut subscriber).await];
        state.sort_unstable();
        assert_eq!(state, [(1, 11), (2, 20)]);
        hub.offer(readings([(2, 20), (1, 11), (2, 21)]));
        assert_eq!(next(&mut subscriber).await, (2, 21));
    }

    fn readings(all: [(u64, i64); 3]) -> impl Iterator<Item = Reading> {
        let at = Instant::now();
        let readings = all.into_iter();
        readings.map(move |(sensor, value)| Reading { sensor, value, at })
    }

    async fn next(subscriber: &mut impl Subscriber) -> (u64, i64) {
        match subscriber.next().await {
            Some(Told::Change(reading)) => (reading.sensor, reading.value),
            Some(Told::Lost(count)) => panic!("{count} lost"),
            None => panic!("the end"),
        }
    }
}
