//! A chat hub over WebSocket: who joins a room is told the last line of each of its users, and
//! then every line, as fast as it reads. What it is too slow for is left out and counted.
//!
//! `chat serve` runs it; `chat measure` compares it with the version of with_tokio.rs, with a
//! thousand connections of which some are slow.

mod measure;
#[cfg(test)]
mod tests;
mod with_busyhour;
mod with_tokio;

use axum::{
    Router,
    extract::{
        Path, State,
        ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use std::{error::Error, process::ExitCode, sync::Arc};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// What a user has said, as each member of the room is told.
#[derive(Clone, Debug)]
pub struct Line {
    pub user: Arc<str>,
    pub text: Utf8Bytes,
}

/// What a member is told.
pub enum Told {
    Line(Line),
    /// So many lines were left out, since the member was too slow.
    Lost(u64),
}

/// Rooms by name.
pub trait Hub: Sized + Send + Sync + 'static {
    type Room: Room;

    /// One without rooms.
    fn open() -> Result<Self, Box<dyn Error>>;

    /// The room of that name, which is made if need be; nothing if there are too many.
    fn room(&self, name: &str) -> Option<Self::Room>;
}

pub trait Room: Send + 'static {
    type Member: Member;

    /// Tells all members; `false` if the room has too many users.
    fn say(&self, line: Line) -> bool;

    /// What a new member is told: the last line of each user, then every line.
    fn join(&self) -> Self::Member;
}

pub trait Member: Send + 'static {
    /// The next thing to know; nothing once the hub has ended.
    fn next(&mut self) -> impl Future<Output = Option<Told>> + Send;
}

const USAGE: &str = "usage:
  chat serve [ADDRESS]     by default 127.0.0.1:8128; members connect to ws://ADDRESS/ROOM/USER
  chat measure [ROUNDS]    by default 5; each takes some seconds";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve"] => serve("127.0.0.1:8128").await,
        ["serve", address] => serve(address).await,
        ["measure"] => measure::run(5).await,
        ["measure", rounds] => match rounds.parse() {
            Ok(rounds) if rounds > 0 => measure::run(rounds).await,
            _ => return usage(),
        },
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    println!("chat: ws://{}/ROOM/USER", listener.local_addr()?);
    let hub = with_busyhour::Rooms::open()?;
    tokio::select! {
        served = axum::serve(listener, routes(Arc::new(hub))) => Ok(served?),
        done = tokio::signal::ctrl_c() => Ok(done?),
    }
}

/// The hub, and how many more may connect.
struct Shared<H> {
    hub: Arc<H>,
    places: Arc<Semaphore>,
}

pub fn routes<H: Hub>(hub: Arc<H>) -> Router {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let shared = Arc::new(Shared { hub, places });
    Router::new()
        .route("/{room}/{user}", get(connect::<H>))
        .with_state(shared)
}

async fn connect<H: Hub>(
    State(shared): State<Arc<Shared<H>>>,
    Path((room, user)): Path<(String, String)>,
    upgrade: WebSocketUpgrade,
) -> Response {
    if room.len().max(user.len()) > NAME_LEN_MAX {
        return StatusCode::URI_TOO_LONG.into_response();
    }
    let place = Arc::clone(&shared.places).try_acquire_owned();
    let (Ok(place), Some(room)) = (place, shared.hub.room(&room)) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let upgrade = upgrade.max_message_size(TEXT_LEN_MAX);
    upgrade.on_upgrade(move |socket| talk(socket, room, user.into(), place))
}

/// Serves one connection, until either side ends it.
async fn talk(socket: WebSocket, room: impl Room, user: Arc<str>, _place: OwnedSemaphorePermit) {
    let (writer, reader) = socket.split();
    let member = room.join();
    tokio::select! {
        () = tell(member, writer) => {}
        () = hear(reader, room, user) => {}
    }
}

async fn hear(
    mut reader: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
    room: impl Room,
    user: Arc<str>,
) {
    while let Some(Ok(message)) = reader.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let text = format!("{user}: {text}").into();
        let user = Arc::clone(&user);
        if !room.say(Line { user, text }) {
            return;
        }
    }
}

/// Writes what the member is told; what waits together is sent together.
async fn tell(mut member: impl Member, mut writer: impl Sink<Message> + Unpin) {
    while let Some(told) = member.next().await {
        if writer.feed(message(told)).await.is_err() {
            return;
        }
        for _ in 1..TOGETHER_MAX {
            let Some(Some(told)) = member.next().now_or_never() else {
                break;
            };
            if writer.feed(message(told)).await.is_err() {
                return;
            }
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
}

fn message(told: Told) -> Message {
    match told {
        Told::Line(line) => Message::Text(line.text),
        Told::Lost(count) => Message::Text(format!("* {count} lines were left out").into()),
    }
}

/// Members that are connected at a time.
const CONNECTIONS_MAX: usize = 10_000;
pub const ROOMS_MAX: usize = 1_000;
/// Users of a room whose last line is kept.
pub const USERS_MAX: usize = 10_000;
/// Lines that may wait for a member.
pub const WAITING_MAX: usize = 256;
const NAME_LEN_MAX: usize = 64;
const TEXT_LEN_MAX: usize = 4_096;
const TOGETHER_MAX: usize = 32;
