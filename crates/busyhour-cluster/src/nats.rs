//! The broker that is NATS: core messages only, which it may lose.

use crate::{Answered, Broker, BrokerError, BrokerMessage, Receive};
use async_nats::{Client, ConnectOptions, Event, Request, RequestErrorKind};
use std::{
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
    /// Messages that came faster than they were received.
    lost: AtomicU64,
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
        let thread = thread::Builder::new()
            .name("bh-nats".into())
            .spawn(move || runtime.block_on(run(client, received)))?;
        Ok(Self {
            commands: Some(commands),
            shared,
            thread: Some(thread),
        })
    }

    /// How often messages came faster than they were received, and some were lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
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

/// Until the last handle is gone.
async fn run(client: Client, mut commands: mpsc::Receiver<Command>) {
    let tasks = tokio::task::LocalSet::new();
    let serve = async {
        while let Some(command) = commands.recv().await {
            follow(&client, command).await;
        }
        // What was published should leave before the connection ends. Without a connection that
        // never happens.
        let _left_or_lost = tokio::time::timeout(END_PATIENCE, client.flush()).await;
    };
    tasks.run_until(serve).await;
}

async fn follow(client: &Client, command: Command) {
    match command {
        // It fails only when the client has ended.
        Command::Publish(subject, payload) => drop(client.publish(subject, payload.into()).await),
        Command::Request(subject, payload, patience, done) => {
            let client = client.clone();
            tokio::task::spawn_local(async move {
                done(ask(&client, subject, payload, patience).await);
            });
        }
        Command::Subscribe(subject, mut receive) => {
            let Ok(mut messages) = client.subscribe(subject).await else {
                return;
            };
            tokio::task::spawn_local(async move {
                while let Some(message) = messages.next().await {
                    receive(BrokerMessage {
                        payload: message.payload.into(),
                        reply: message.reply.map(|reply| reply.to_string()),
                    });
                }
            });
        }
    }
}

async fn ask(
    client: &Client,
    subject: String,
    payload: Vec<u8>,
    patience: Duration,
) -> Result<Vec<u8>, BrokerError> {
    let request = Request::new()
        .payload(payload.into())
        .timeout(Some(patience));
    let answer = client.send_request(subject, request).await;
    let answer = answer.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => BrokerError::Nobody,
        RequestErrorKind::TimedOut => BrokerError::Late,
        _ => BrokerError::Away,
    })?;
    Ok(answer.payload.into())
}

const END_PATIENCE: Duration = Duration::from_secs(1);
/// Messages that may wait for the thread.
const COMMANDS_MAX: usize = 16_384;
/// A broker that is silent for two of them is gone.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
const RECONNECT_MIN: Duration = Duration::from_millis(50);
/// States must be whole within five seconds of the return.
const RECONNECT_MAX: Duration = Duration::from_secs(1);
