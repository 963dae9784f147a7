//! The broker that is NATS: core messages only, which it may lose.

use crate::{
    Answered, Broker, BrokerError, BrokerMessage, Receive,
    pieces::{Joined, MESSAGE_BYTES_MAX, PieceNumber, Pieces},
};
use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, Message, Request, RequestErrorKind, StatusCode,
};
use std::{
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use thiserror::Error;
use tokio::{
    runtime,
    sync::mpsc::{self, error::TrySendError},
};
use tokio_stream::StreamExt;

/// Where NATS is, and how to connect.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    /// `nats://HOST:PORT` or `tls://HOST:PORT`, one or several servers of one NATS cluster. No
    /// passwords: those are in files.
    pub servers: Vec<String>,
    /// The name by which NATS shows this connection.
    pub name: String,
    /// A file of credentials (JWT and seed), as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// A file with a user on its first line and a password on its second.
    pub user: Option<PathBuf>,
    /// The authorities that may sign the servers' certificates, in PEM, instead of the system's.
    pub authorities: Option<PathBuf>,
    /// The certificate that this client shows, and its key, both in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Called with `true` when the connection stands, and with `false` when it breaks.
    pub on_connected: Option<OnConnected>,
}

/// Told whether there is a connection.
#[derive(Clone)]
pub struct OnConnected(pub Arc<dyn Fn(bool) + Send + Sync>);

/// Why NATS cannot be used as the options say.
#[derive(Debug, Error)]
pub enum NatsError {
    /// A file cannot be read, or has not what it should have.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The addresses are no addresses.
    #[error("{0}")]
    Address(String),
    /// The thread cannot be started.
    #[error("the thread for NATS cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A connection to NATS on a thread of its own, `bh-nats`. It is made again for as long as the
/// broker lives; while there is none, messages are refused and not kept.
pub struct NatsBroker {
    commands: Option<mpsc::Sender<Command>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_connected: AtomicBool,
    /// Messages that came faster than they were received, or of which a piece is missing.
    lost: AtomicU64,
    /// Large messages that were sent.
    large: AtomicU64,
    /// Why it is not connected, as it was logged last.
    last_error: Mutex<String>,
}

impl Shared {
    /// Attempts go on, and an error that is still the same is not told again.
    fn log(&self, error: String) {
        let last = self.last_error.lock();
        let mut last = last.unwrap_or_else(|poisoned| poisoned.into_inner());
        if *last != error {
            tracing::warn!(error, "NATS cannot be reached; trying again");
            *last = error;
        }
    }
}

enum Command {
    Publish(String, Vec<u8>),
    Request(String, Vec<u8>, Duration, Answered),
    Subscribe(String, Receive),
}

impl NatsBroker {
    /// Begins to connect; NATS need not be there yet.
    ///
    /// # Errors
    ///
    /// When a file or an address is wrong.
    pub fn connect(options: NatsOptions) -> Result<Self, NatsError> {
        let shared = Arc::new(Shared::default());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = runtime.block_on(connect(options, shared.clone()))?;
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let connection = Connection {
            client,
            shared: shared.clone(),
            first_message: RandomState::new().hash_one(()),
        };
        let thread = thread::Builder::new()
            .name("bh-nats".into())
            .spawn(move || runtime.block_on(run(connection, received)))?;
        Ok(Self {
            commands: Some(commands),
            shared,
            thread: Some(thread),
        })
    }

    fn send(&self, command: Command) -> Result<(), BrokerError> {
        let commands = self.commands.as_ref().ok_or(BrokerError::Away)?;
        commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => BrokerError::Full,
            TrySendError::Closed(_) => BrokerError::Away,
        })
    }

    fn send_now(&self, command: Command) -> Result<(), BrokerError> {
        match self.is_connected() {
            true => self.send(command),
            false => Err(BrokerError::Away),
        }
    }
}

impl Broker for NatsBroker {
    fn publish(&self, subject: &str, payload: Vec<u8>) -> Result<(), BrokerError> {
        if payload.len() > MESSAGE_BYTES_MAX {
            return Err(BrokerError::TooLarge);
        }
        self.send_now(Command::Publish(subject.into(), payload))
    }

    fn request(
        &self,
        subject: &str,
        payload: Vec<u8>,
        patience: Duration,
        done: Answered,
    ) -> Result<(), BrokerError> {
        self.send_now(Command::Request(subject.into(), payload, patience, done))
    }

    fn subscribe(&self, subject: &str, receive: Receive) -> Result<(), BrokerError> {
        self.send(Command::Subscribe(subject.into(), receive))
    }

    fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Acquire)
    }

    /// How often messages came faster than they were received and some were lost, or a piece of a
    /// large one was.
    fn lost_count(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for NatsBroker {
    /// Sends what waits, and ends the thread.
    fn drop(&mut self) {
        self.commands = None;
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !is_own(thread)) {
            // Its own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for OnConnected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnConnected")
    }
}

/// The first attempt goes on in the background, as later ones do.
async fn connect(options: NatsOptions, shared: Arc<Shared>) -> Result<Client, NatsError> {
    let mut connect = ConnectOptions::new()
        .name(&options.name)
        .retry_on_initial_connect()
        .ping_interval(PING_INTERVAL)
        .connection_timeout(CONNECT_TIME_MAX)
        .reconnect_delay_callback(|attempt| RECONNECT_MAX.min(RECONNECT_MIN * attempt as u32));
    if let Some(path) = &options.credentials {
        let read = connect.credentials_file(path).await;
        connect = read.map_err(|error| wrong_file(path, &error))?;
    }
    if let Some(path) = &options.user {
        let (user, password) = user_and_password(path)?;
        connect = connect.user_and_password(user, password);
    }
    if let Some(path) = options.authorities {
        connect = connect.add_root_certificates(path);
    }
    if let Some((certificate, key)) = options.certificate {
        connect = connect.add_client_certificate(certificate, key);
    }
    let on_connected = options.on_connected;
    let connect = connect.event_callback(move |event| {
        note(&event, &shared, on_connected.as_ref());
        std::future::ready(())
    });
    let client = connect.connect(options.servers).await;
    client.map_err(|error| NatsError::Address(error.to_string()))
}

fn note(event: &Event, shared: &Shared, on_connected: Option<&OnConnected>) {
    let is_connected = match event {
        Event::Connected => true,
        Event::Disconnected | Event::Closed => false,
        Event::SlowConsumer(_) => {
            shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        Event::ClientError(error) => return shared.log(error.to_string()),
        _ => return,
    };
    tracing::info!(is_connected, "the connection to NATS has changed");
    shared.is_connected.store(is_connected, Ordering::Release);
    if let Some(OnConnected(tell)) = on_connected {
        tell(is_connected);
    }
}

fn user_and_password(path: &Path) -> Result<(String, String), NatsError> {
    let text = std::fs::read_to_string(path).map_err(|error| wrong_file(path, &error))?;
    let mut lines = text.lines().map(str::to_owned);
    let both = lines.next().zip(lines.next());
    both.ok_or_else(|| {
        wrong_file(
            path,
            &"give the user on the first line and the password on the second",
        )
    })
}

fn wrong_file(path: &Path, reason: &dyn std::fmt::Display) -> NatsError {
    NatsError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// What the thread sends over.
#[derive(Clone)]
struct Connection {
    client: Client,
    shared: Arc<Shared>,
    /// Random, so that no two senders give one number to their large messages.
    first_message: u64,
}

/// Until the last handle is gone.
async fn run(connection: Connection, mut commands: mpsc::Receiver<Command>) {
    let tasks = tokio::task::LocalSet::new();
    let serve = async {
        while let Some(command) = commands.recv().await {
            connection.follow(command).await;
        }
        // What was published should leave before the connection ends. Without a connection that
        // never happens.
        let flushed = connection.client.flush();
        let _left_or_lost = tokio::time::timeout(END_PATIENCE, flushed).await;
    };
    tasks.run_until(serve).await;
}

impl Connection {
    async fn follow(&self, command: Command) {
        match command {
            Command::Publish(subject, payload) => self.publish(subject, payload).await,
            Command::Request(subject, payload, patience, done) => {
                let connection = self.clone();
                tokio::task::spawn_local(async move {
                    done(connection.ask(subject, payload, patience).await);
                });
            }
            Command::Subscribe(subject, mut receive) => {
                let Ok(mut messages) = self.client.subscribe(subject).await else {
                    return;
                };
                let (shared, mut pieces) = (self.shared.clone(), Pieces::default());
                tokio::task::spawn_local(async move {
                    while let Some(message) = messages.next().await {
                        let reply = message.reply.as_ref().map(|reply| reply.to_string());
                        if let Some(payload) = shared.join(&mut pieces, message) {
                            receive(BrokerMessage { payload, reply });
                        }
                    }
                });
            }
        }
    }

    /// Sending fails only when the client has ended.
    async fn publish(&self, subject: String, payload: Vec<u8>) {
        let room = self.room();
        if payload.len() <= room {
            let _ended = self.client.publish(subject, payload.into()).await;
            return;
        }
        let piece_len = room.saturating_sub(HEADER_BYTES).max(1);
        let number = self.shared.large.fetch_add(1, Ordering::Relaxed);
        let count = payload.len().div_ceil(piece_len);
        for index in 0..count {
            let number = PieceNumber {
                message: self.first_message.wrapping_add(number),
                index: index as u32,
                count: count as u32,
            };
            let mut headers = HeaderMap::new();
            headers.insert(PIECE, number.to_string());
            let until = payload.len().min((index + 1) * piece_len);
            let piece = payload[index * piece_len..until].to_vec().into();
            let sent = (self.client).publish_with_headers(subject.clone(), headers, piece);
            let _ended = sent.await;
        }
    }

    /// The largest message that the server takes, as far as it is known.
    fn room(&self) -> usize {
        match self.client.server_info().max_payload {
            0 => usize::MAX,
            max => max,
        }
    }

    async fn ask(
        &self,
        subject: String,
        payload: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, BrokerError> {
        if payload.len() > self.room() {
            return Err(BrokerError::TooLarge);
        }
        let request = Request::new()
            .payload(payload.clone().into())
            .timeout(Some(patience));
        let answer = self.client.send_request(subject.clone(), request).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => BrokerError::Nobody,
            RequestErrorKind::TimedOut => BrokerError::Late,
            _ => BrokerError::Away,
        })?;
        match piece_of(&answer) {
            None => Ok(answer.payload.into()),
            // The client takes one message for an answer, so the large ones are asked for again.
            Some(_) => {
                let asked = self.ask_in_pieces(subject, payload);
                let answered = tokio::time::timeout(patience, asked).await;
                answered.unwrap_or(Err(BrokerError::Late))
            }
        }
    }

    async fn ask_in_pieces(
        &self,
        subject: String,
        payload: Vec<u8>,
    ) -> Result<Vec<u8>, BrokerError> {
        let (client, inbox) = (&self.client, self.client.new_inbox());
        let answers = client.subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|_| BrokerError::Away)?;
        let asked = client
            .publish_with_reply(subject, inbox, payload.into())
            .await;
        asked.map_err(|_| BrokerError::Away)?;
        let mut pieces = Pieces::default();
        while let Some(answer) = answers.next().await {
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                return Err(BrokerError::Nobody);
            }
            if let Some(payload) = self.shared.join(&mut pieces, answer) {
                return Ok(payload);
            }
        }
        Err(BrokerError::Away)
    }
}

impl Shared {
    /// The payload, once it is whole.
    fn join(&self, pieces: &mut Pieces, message: Message) -> Option<Vec<u8>> {
        let Some(number) = piece_of(&message) else {
            return Some(message.payload.into());
        };
        match pieces.take(number, &message.payload) {
            Joined::Whole(payload) => Some(payload),
            Joined::Waiting => None,
            Joined::Lost => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

fn piece_of(message: &Message) -> Option<PieceNumber> {
    let number = message.headers.as_ref()?.get(PIECE)?;
    number.as_str().parse().ok()
}

/// The header that says which piece it is.
const PIECE: &str = "Busyhour-Piece";
/// Room for it, which the server counts with the payload.
const HEADER_BYTES: usize = 256;
const END_PATIENCE: Duration = Duration::from_secs(1);
/// Messages that may wait for the thread.
const COMMANDS_MAX: usize = 16_384;
/// A broker that is silent for two of them is gone.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
const RECONNECT_MIN: Duration = Duration::from_millis(50);
/// States must be whole within five seconds of the return.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
