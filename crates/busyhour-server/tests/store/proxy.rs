//! A proxy for PostgreSQL that can stop forwarding, break connections, or lose
//! one answer.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
};

/// Accepts connections on loopback and forwards them to a socket.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What happens to the bytes of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They are forwarded.
    Open,
    /// They are forwarded up to and including the next COMMIT, or the next statement that writes a
    /// group without one, then as with `Silent`.
    OpenUntilCommit,
    /// They are read and not forwarded.
    Silent,
    /// There is no connection: each one ends at once.
    Closed,
}

struct Shared {
    database: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    way: Way,
    is_over: bool,
    /// The number of answers that were read and not forwarded.
    lost_answers: u64,
    /// The names of statements that write a group.
    writing: Vec<Vec<u8>>,
    open: Vec<(TcpStream, UnixStream)>,
}

impl Proxy {
    /// A proxy for the socket `database`.
    pub fn to(database: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = State {
            way: Way::Open,
            is_over: false,
            lost_answers: 0,
            writing: Vec::new(),
            open: Vec::new(),
        };
        let shared = Arc::new(Shared {
            database,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let accepting = shared.clone();
        let acceptor = thread::spawn(move || accept(&listener, &accepting));
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// The URL of a database through this proxy.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://busyhour@{}/{name}", self.address)
    }

    /// From now on bytes are treated in this way, also on open connections.
    pub fn set(&self, way: Way) {
        self.shared.lock().way = way;
    }

    /// Ends all open connections, and then treats bytes in this way.
    pub fn cut(&self, way: Way) {
        let mut state = self.shared.lock();
        state.way = way;
        for (client, server) in state.open.drain(..) {
            end(&client, &server);
        }
    }

    /// Waits until an answer was read and not forwarded.
    pub fn wait_for_a_lost_answer(&self) {
        let state = self.shared.lock();
        let none = |state: &mut State| state.lost_answers == 0;
        drop(self.shared.changed.wait_while(state, none).unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.cut(Way::Closed);
        // Wakes the thread that accepts; it may have ended already.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Whether these bytes of a client are forwarded. A client sends whole messages at once.
    fn passes(&self, bytes: &[u8], is_in_transaction: &mut bool) -> bool {
        let mut state = self.lock();
        if bytes.starts_with(PARSE) && has(bytes, WRITES_GROUP) {
            let name = texts(bytes).next().unwrap().to_vec();
            state.writing.push(name);
        }
        *is_in_transaction |= has(bytes, BEGIN) && !bytes.starts_with(PARSE);
        let statement = texts(bytes).nth(1).filter(|_| bytes.starts_with(BIND));
        let is_write = statement.is_some_and(|name| state.writing.iter().any(|one| one == name));
        let is_commit = has(bytes, COMMIT) || is_write && !*is_in_transaction;
        *is_in_transaction &= !has(bytes, COMMIT) && !has(bytes, ROLLBACK);
        match state.way {
            Way::Open => true,
            Way::OpenUntilCommit => {
                if is_commit {
                    state.way = Way::Silent;
                }
                true
            }
            Way::Silent | Way::Closed => false,
        }
    }

    /// Whether an answer is forwarded.
    fn answers(&self) -> bool {
        let mut state = self.lock();
        let passes = matches!(state.way, Way::Open | Way::OpenUntilCommit);
        state.lost_answers += u64::from(!passes);
        self.changed.notify_all();
        passes
    }
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|found| found == word)
}

/// The texts at the beginning of a message.
fn texts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let behind_length = bytes.get(5..).unwrap_or_default();
    behind_length.split(|byte| *byte == 0)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().unwrap();
        let mut state = shared.lock();
        if state.is_over {
            return;
        }
        if state.way == Way::Closed {
            continue;
        }
        let Ok(server) = UnixStream::connect(&shared.database) else {
            continue;
        };
        let (ours, theirs) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        state.open.push((ours, theirs));
        drop(state);
        let (client_too, server_too) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (there, back) = (shared.clone(), shared.clone());
        let mut is_in_transaction = false;
        thread::spawn(move || {
            carry(client, server, |bytes| {
                there.passes(bytes, &mut is_in_transaction)
            })
        });
        thread::spawn(move || carry(server_too, client_too, |_| back.answers()));
    }
}

fn carry(mut from: impl Read, mut to: impl Write + Ends, mut passes: impl FnMut(&[u8]) -> bool) {
    let mut bytes = [0; 65_536];
    // An error ends the connection, too.
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if passes(&bytes[..length]) && to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    to.end();
}

fn end(client: &TcpStream, server: &UnixStream) {
    client.end();
    server.end();
}

trait Ends {
    fn end(&self);
}

impl Ends for TcpStream {
    fn end(&self) {
        // It may have ended by itself.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Ends for UnixStream {
    fn end(&self) {
        // It may have ended by itself.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// The types of messages: <https://www.postgresql.org/docs/current/protocol-message-formats.html>.
const PARSE: &[u8] = b"P";
const BIND: &[u8] = b"B";
const BEGIN: &[u8] = b"START TRANSACTION";
const COMMIT: &[u8] = b"COMMIT";
const ROLLBACK: &[u8] = b"ROLLBACK";
/// How a statement begins that counts and writes a group.
const WRITES_GROUP: &[u8] = b"counted AS";
