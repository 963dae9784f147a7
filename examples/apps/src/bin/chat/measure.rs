//! Both versions with the same load, over real WebSockets: in each room some users speak as fast as
//! the hub takes their lines, more than the members can be told; some members are slow.

use crate::{Hub, routes, with_busyhour, with_tokio};
use busyhour_apps::{PrintedFigure, print_beside};
use futures_util::{SinkExt, StreamExt};
use std::{
    collections::HashMap,
    error::Error,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

/// What one run has given.
#[derive(Clone, Copy)]
struct Figures {
    /// Lines that members were told, without the slow ones, until the last of those.
    told_per_s: f64,
    /// From the speaker's write until a member that is not slow has read it.
    p99: Duration,
    /// As members were told.
    left_out: u64,
    /// Neither told nor told as left out.
    uncounted: u64,
    /// Speakers whose last line a member does not know in the end.
    wrong: u64,
}

/// What a member has seen.
#[derive(Default)]
struct Seen {
    /// The last line's number, by speaker.
    last: HashMap<String, u64>,
    ages: Vec<Duration>,
    told: u64,
    left_out: u64,
    ended: Option<Instant>,
}

/// When the speakers began, and how many still speak.
struct Run {
    begin: Instant,
    speaking: AtomicUsize,
}

pub async fn run(rounds: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "{ROOMS} rooms of {MEMBERS} members, {SLOW} of them slow; {SPEAKERS} say {LINES} lines"
    );
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        // The one that was second before is first, since the machine changes.
        if round % 2 == 1 {
            ours.push(measure::<with_busyhour::Rooms>().await?);
            theirs.push(measure::<with_tokio::Rooms>().await?);
        } else {
            theirs.push(measure::<with_tokio::Rooms>().await?);
            ours.push(measure::<with_busyhour::Rooms>().await?);
        }
        println!("round {round} of {rounds} done");
    }
    print_beside(&PRINTED, &ours, &theirs);
    Ok(())
}

async fn measure<H: Hub>() -> Result<Figures, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(axum::serve(listener, routes(Arc::new(H::open()?))).into_future());
    let mut connections = Vec::new();
    for room in 0..ROOMS {
        for member in 0..MEMBERS {
            connections.push((member, join(address, &format!("{room}/{member}")).await?));
        }
    }
    let run = Arc::new(Run {
        begin: Instant::now(),
        speaking: AtomicUsize::new(ROOMS * SPEAKERS),
    });
    let mut members = JoinSet::new();
    for (member, connection) in connections {
        let is_slow = (SPEAKERS..SPEAKERS + SLOW).contains(&member);
        members.spawn(take_part(
            connection,
            member < SPEAKERS,
            is_slow,
            Arc::clone(&run),
        ));
    }
    let seen = members.join_all().await;
    server.abort();
    Ok(figures(seen, run.begin))
}

fn figures(seen: Vec<Seen>, begin: Instant) -> Figures {
    let quick = || seen.iter().filter(|seen| !seen.ages.is_empty());
    let told: u64 = quick().map(|seen| seen.told).sum();
    let ended = quick().filter_map(|seen| seen.ended).max();
    let took = ended.unwrap_or(begin) - begin;
    let all = (SPEAKERS as u64) * LINES;
    let known = |seen: &Seen| seen.last.values().filter(|last| **last == LINES).count() as u64;
    let wrong = seen.iter().map(|seen| SPEAKERS as u64 - known(seen)).sum();
    let uncounted = seen
        .iter()
        .map(|seen| all.saturating_sub(seen.told + seen.left_out));
    let uncounted = uncounted.sum();
    let left_out = seen.iter().map(|seen| seen.left_out).sum();
    let mut ages: Vec<Duration> = seen.into_iter().flat_map(|seen| seen.ages).collect();
    let at = ages.len() * 99 / 100;
    Figures {
        told_per_s: told as f64 / took.as_secs_f64(),
        p99: *ages.select_nth_unstable(at).1,
        left_out,
        uncounted,
        wrong,
    }
}

pub async fn join(
    address: SocketAddr,
    path: &str,
) -> Result<WebSocketStream<TcpStream>, Box<dyn Error>> {
    let socket = TcpStream::connect(address).await?;
    Ok(client_async(format!("ws://{address}/{path}"), socket)
        .await?
        .0)
}

/// Reads what the member is told until nothing more comes; a speaker speaks meanwhile.
async fn take_part(
    connection: WebSocketStream<TcpStream>,
    speaks: bool,
    is_slow: bool,
    run: Arc<Run>,
) -> Seen {
    let (mut writer, mut reader) = connection.split();
    let speaking = Arc::clone(&run);
    let speaker = speaks.then(|| {
        tokio::spawn(async move {
            for number in 1..=LINES {
                let at = speaking.begin.elapsed().as_nanos();
                let sent = writer
                    .send(Message::text(format!("{number} {at} {TEXT}")))
                    .await;
                if sent.is_err() {
                    break;
                }
            }
            speaking.speaking.fetch_sub(1, Ordering::SeqCst);
            writer // a connection ends with its writer
        })
    });
    let mut seen = Seen::default();
    loop {
        let next = match timeout(QUIET, reader.next()).await {
            Ok(Some(Ok(next))) => next,
            Ok(_) => break,
            Err(_) if run.speaking.load(Ordering::SeqCst) == 0 => break,
            Err(_) => continue,
        };
        let Message::Text(text) = next else { continue };
        seen.note(&text, (!is_slow).then_some(run.begin));
        if is_slow && seen.told.is_multiple_of(SLOW_BATCH) {
            sleep(SLOW_PAUSE).await;
        }
    }
    if let Some(speaker) = speaker {
        _ = speaker.await;
    }
    seen
}

impl Seen {
    fn note(&mut self, text: &str, begin: Option<Instant>) {
        self.ended = Some(Instant::now());
        let mut words = text.split(' ');
        let (user, number) = (words.next().unwrap_or_default(), words.next());
        let number = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        if user == "*" {
            self.left_out += number;
            return;
        }
        self.told += 1;
        self.last.insert(user.to_owned(), number);
        let at = words.next().and_then(|at| at.parse().ok());
        if let (Some(begin), Some(at)) = (begin, at) {
            let age = begin.elapsed().saturating_sub(Duration::from_nanos(at));
            self.ages.push(age);
        }
    }
}

const PRINTED: [PrintedFigure<Figures>; 5] = [
    PrintedFigure {
        name: "thousand told/s",
        decimals: 1,
        of: |figures| figures.told_per_s / 1e3,
    },
    PrintedFigure {
        name: "p99 until told, ms",
        decimals: 1,
        of: |figures| figures.p99.as_secs_f64() * 1e3,
    },
    PrintedFigure {
        name: "left out",
        decimals: 0,
        of: |figures| figures.left_out as f64,
    },
    PrintedFigure {
        name: "uncounted",
        decimals: 0,
        of: |figures| figures.uncounted as f64,
    },
    PrintedFigure {
        name: "wrong at the end",
        decimals: 0,
        of: |figures| figures.wrong as f64,
    },
];
const ROOMS: usize = 20;
const MEMBERS: usize = 50;
/// The first members of each room.
const SPEAKERS: usize = 4;
/// The next members; the others read at once.
const SLOW: usize = 5;
/// By each speaker.
const LINES: u64 = 500;
const TEXT: &str = "which is as long as what people say in rooms like this one";
const SLOW_BATCH: u64 = 20;
const SLOW_PAUSE: Duration = Duration::from_millis(200);
/// Nothing more comes.
const QUIET: Duration = Duration::from_secs(2);
