use super::{
    StreamPolicy,
    web_socket::{FrameEvent, FrameReader},
};
use busyhour::{
    buffer::{Buffer, BufferMut, BufferPool, Error},
    clock::Instant,
};
use busyhour_sip::{Frame, Limits, ParseError, StreamFramer};
use std::{ops::Range, time::Duration};

/// The receiving half of one connection, without its socket: bytes and time in,
/// messages and a deadline out.
///
/// ```
/// use busyhour::{buffer::BufferPool, clock::Instant};
/// use busyhour_server::net::{Connection, Heard, StreamPolicy};
///
/// let buffers = BufferPool::builder().build()?;
/// let mut connection = Connection::new(&StreamPolicy::default(), Instant::ZERO);
/// let bytes = b"\r\n\r\nOPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\nOPTI";
/// let mut messages = Vec::new();
/// connection.room(&buffers)?[..bytes.len()].copy_from_slice(bytes);
/// connection.filled(bytes.len(), &buffers, Instant::ZERO, &mut |heard| match heard {
///     Heard::Message(message) => messages.push(message),
///     Heard::Ping => {} // answered with a line end
///     Heard::Broken(..) | Heard::Frame(_) => unreachable!(),
/// })?;
/// assert_eq!(&*messages[0], b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n");
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    framing: Framing,
    /// The buffer for received bytes; `None` while no message is incomplete, so that an
    /// idle connection holds no memory.
    room: Option<BufferMut>,
    /// How much of it is filled.
    filled: usize,
    idle: Duration,
    stalled: Duration,
    deadline: Instant,
    /// Since when the connection is silent, between two messages.
    idle_since: Instant,
    phase: Phase,
    /// A whole message came, or need not come.
    has_message: bool,
    /// After how long a silence this side pings, and how long it waits for what comes then; only
    /// on WebSockets.
    ping: Option<(Duration, Duration)>,
    is_pinged: bool,
}

/// How messages follow each other.
#[derive(Debug)]
enum Framing {
    /// By their Content-Length.
    Length(StreamFramer),
    /// In the frames of a WebSocket.
    WebSocket(FrameReader),
}

/// What came in.
#[derive(Debug)]
pub enum Heard {
    /// A whole message, pinned where it landed.
    Message(Buffer),
    /// A keep-alive that wants a line end in return (RFC 5626 §3.5.1).
    Ping,
    /// Bytes that are not a message, and why. Nothing more is read.
    Broken(Buffer, ParseError),
    /// What a WebSocket brought beside messages.
    Frame(FrameEvent),
}

/// Why a connection has to end when its deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It brought nothing for too long.
    Idle,
    /// The first message, or the rest of a message, did not come in time.
    Stalled,
    /// The stream was broken, and the peer has had the time to read the answer.
    Broken,
    /// The peer said that it sends no more, and has had the time to read the answers.
    ByPeer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No message was heard yet.
    New,
    /// Between two messages.
    Between,
    /// Within one.
    Within,
    /// Whatever comes is thrown away.
    Broken,
    /// Nothing will come.
    Ended,
}

impl Connection {
    /// One that was opened at `now`.
    pub fn new(policy: &StreamPolicy, now: Instant) -> Self {
        Self {
            framing: Framing::Length(StreamFramer::new(Limits::default())),
            room: None,
            filled: 0,
            idle: policy.idle,
            stalled: policy.stalled,
            deadline: now + policy.stalled,
            idle_since: now,
            phase: Phase::New,
            has_message: false,
            ping: None,
            is_pinged: false,
        }
    }

    /// One for a WebSocket, which begins with the request that opens it.
    pub fn web_socket(policy: &StreamPolicy, now: Instant) -> Self {
        let reader = FrameReader::new(policy.web_socket_origins.clone());
        Self {
            framing: Framing::WebSocket(reader),
            ping: policy.web_socket_ping.map(|ping| (ping, policy.unanswered)),
            ..Self::new(policy, now)
        }
    }

    /// One that this side makes: the other side need not say anything by itself.
    ///
    /// ```
    /// # use busyhour::clock::Instant;
    /// # use busyhour_server::net::{Connection, Ending, StreamPolicy};
    /// let connection = Connection::outgoing(&StreamPolicy::default(), Instant::ZERO);
    /// assert_eq!(connection.ending(), Ending::Idle);
    /// ```
    pub fn outgoing(policy: &StreamPolicy, now: Instant) -> Self {
        Self {
            deadline: now + policy.idle,
            phase: Phase::Between,
            has_message: true,
            ..Self::new(policy, now)
        }
    }

    /// Where the next bytes go; never empty.
    ///
    /// # Errors
    ///
    /// When there is no memory for packets: the connection has to end.
    pub fn room(&mut self, buffers: &BufferPool) -> Result<&mut [u8], Error> {
        let len = self.room.as_ref().map_or(0, |room| room.len());
        if self.filled == len {
            // The room grows as bytes come: a client cannot get memory by an
            // announcement alone.
            let announced = match &self.framing {
                Framing::Length(framer) => framer.message_bytes(),
                Framing::WebSocket(reader) => reader.wanted_bytes(self.bytes()),
            };
            let announced = announced.unwrap_or(usize::MAX);
            self.grow((2 * len).min(announced).max(ROOM_LEN), buffers)?;
        }
        let room = self.room.as_deref_mut().unwrap_or_default();
        Ok(room.get_mut(self.filled..).unwrap_or_default())
    }

    /// Handles the first `count` bytes of the last [`room`](Self::room).
    ///
    /// # Errors
    ///
    /// When there is no memory for packets: the connection has to end.
    pub fn filled(
        &mut self,
        count: usize,
        buffers: &BufferPool,
        now: Instant,
        heard: &mut dyn FnMut(Heard),
    ) -> Result<(), Error> {
        if matches!(self.phase, Phase::Broken | Phase::Ended) {
            return Ok(());
        }
        self.filled += count;
        self.is_pinged = false;
        let found = self.find(heard);
        self.schedule(&found, now);
        self.hand_on(found, buffers, heard)
    }

    /// Frees the memory of [`room`](Self::room) for bytes that did not come.
    pub fn nothing_came(&mut self) {
        if self.filled == 0 {
            self.room = None;
        }
    }

    /// Bytes of memory that it holds for an incomplete message.
    pub fn held_bytes(&self) -> usize {
        self.room.as_ref().map_or(0, |room| room.len())
    }

    /// The peer has closed its sending direction. `true` if the connection stays for a
    /// moment, so that the last request is still answered.
    pub fn no_more_comes(&mut self, now: Instant) -> bool {
        let asked = matches!(self.phase, Phase::Between | Phase::Within);
        if asked {
            (self.room, self.filled) = (None, 0);
            self.phase = Phase::Ended;
            self.deadline = now + ANSWERING.min(self.stalled);
        }
        asked
    }

    /// When it has to end, or [wants a ping](Self::wants_ping), unless more comes before.
    pub fn deadline(&self) -> Instant {
        match (self.phase, self.ping) {
            (Phase::Between, Some((silence, answer))) => {
                let waits = if self.is_pinged {
                    answer
                } else {
                    Duration::ZERO
                };
                self.deadline.min(self.idle_since + silence + waits)
            }
            _ => self.deadline,
        }
    }

    /// Whether a ping is to be sent now; the connection has to end if nothing comes for some time
    /// after it. A browser answers a ping by itself, and its page has no other means to keep the
    /// ways through NAT and proxies open.
    pub fn wants_ping(&mut self, now: Instant) -> bool {
        let is_due = |(silence, _)| now >= self.idle_since + silence;
        let wants =
            self.phase == Phase::Between && !self.is_pinged && self.ping.is_some_and(is_due);
        self.is_pinged |= wants;
        wants
    }

    /// As [`deadline`](Self::deadline), for a client that was told to send something at
    /// least this often (RFC 5626 §4.4.1).
    ///
    /// ```
    /// # use busyhour::{buffer::BufferPool, clock::Instant};
    /// # use busyhour_server::net::{Connection, StreamPolicy};
    /// # use std::time::Duration;
    /// let buffers = BufferPool::builder().build()?;
    /// let mut connection = Connection::new(&StreamPolicy::default(), Instant::ZERO);
    /// let message = b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 0\r\n\r\n";
    /// connection.room(&buffers)?[..message.len()].copy_from_slice(message);
    /// connection.filled(message.len(), &buffers, Instant::ZERO, &mut |_| {})?;
    /// let told = Duration::from_secs(130);
    /// assert_eq!(connection.deadline_within(told), Instant::ZERO + told);
    /// # Ok::<(), busyhour::buffer::Error>(())
    /// ```
    pub fn deadline_within(&self, silence_max: Duration) -> Instant {
        match self.phase {
            Phase::Between => self.deadline().min(self.idle_since + silence_max),
            _ => self.deadline(),
        }
    }

    /// Whether it is a WebSocket that was opened: before that, the other side reads HTTP.
    pub fn is_open_web_socket(&self) -> bool {
        matches!(&self.framing, Framing::WebSocket(reader) if reader.is_open())
    }

    /// Why it has to end when the deadline has passed.
    pub fn ending(&self) -> Ending {
        match self.phase {
            Phase::Between => Ending::Idle,
            Phase::New | Phase::Within => Ending::Stalled,
            Phase::Broken => Ending::Broken,
            Phase::Ended => Ending::ByPeer,
        }
    }

    fn grow(&mut self, len: usize, buffers: &BufferPool) -> Result<(), Error> {
        let mut larger = buffers.alloc(len)?;
        let old = self.bytes();
        if let Some(begin) = larger.get_mut(..old.len()) {
            begin.copy_from_slice(old);
        }
        self.room = Some(larger);
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        let room = self.room.as_deref().unwrap_or_default();
        room.get(..self.filled).unwrap_or_default()
    }

    /// Finds the messages in the room, and reports keep-alives.
    fn find(&mut self, heard: &mut dyn FnMut(Heard)) -> Found {
        match self.framing {
            Framing::Length(framer) => self.find_by_length(framer, heard),
            Framing::WebSocket(_) => self.find_in_frames(heard),
        }
    }

    fn find_in_frames(&mut self, heard: &mut dyn FnMut(Heard)) -> Found {
        let room = self.room.as_deref_mut().unwrap_or_default();
        let room = room.get_mut(..self.filled).unwrap_or_default();
        let Framing::WebSocket(reader) = &mut self.framing else {
            return Found::default();
        };
        let mut frames = reader.read(room, &mut |event| heard(Heard::Frame(event)));
        // A message of line ends is a keep-alive here, too (RFC 7118 §6).
        frames.messages.retain(|place| {
            let message = room.get(place.clone()).unwrap_or_default();
            let is_message = message.iter().any(|byte| !b"\r\n".contains(byte));
            if message == PING {
                heard(Heard::Ping);
            }
            is_message
        });
        self.filled = frames.filled;
        Found {
            messages: frames.messages,
            error: None,
            end: frames.end,
            over: match (frames.is_over, frames.is_closed) {
                (true, true) => Some(Phase::Ended),
                (true, false) => Some(Phase::Broken),
                (false, _) => None,
            },
            is_within: reader.is_within(room.get(frames.end..frames.filled).unwrap_or_default()),
        }
    }

    fn find_by_length(&mut self, mut framer: StreamFramer, heard: &mut dyn FnMut(Heard)) -> Found {
        let mut found = Found::default();
        loop {
            let rest = self.bytes().get(found.end..).unwrap_or_default();
            match framer.next(rest) {
                Ok(Frame::Incomplete) => break,
                Ok(Frame::KeepAlive { bytes, is_ping }) => {
                    if is_ping {
                        heard(Heard::Ping);
                    }
                    found.end += bytes;
                }
                Ok(Frame::Message { bytes }) => {
                    found.messages.push(found.end..found.end + bytes);
                    found.end += bytes;
                }
                Err(error) => {
                    found.error = Some(error);
                    found.over = Some(Phase::Broken);
                    break;
                }
            }
        }
        self.framing = Framing::Length(framer);
        let rest = self.bytes().get(found.end..).unwrap_or_default();
        // Line ends between messages are no beginning of one (RFC 3261 §7.5).
        found.is_within = rest.iter().any(|byte| !b"\r\n".contains(byte));
        found
    }

    fn schedule(&mut self, found: &Found, now: Instant) {
        let is_whole = !found.messages.is_empty();
        self.has_message |= is_whole;
        let was = self.phase;
        self.phase = match (found.over, found.is_within) {
            (Some(over), _) => over,
            (None, true) => Phase::Within,
            (None, false) if self.has_message => Phase::Between,
            (None, false) => Phase::New,
        };
        // A client that sends a byte now and then does not extend its time.
        let goes_on = self.phase == was && !is_whole && was != Phase::Between;
        let is_first = matches!(self.phase, Phase::New | Phase::Within) && !self.has_message;
        if goes_on || is_first {
            return;
        }
        self.idle_since = now;
        self.deadline = match self.phase {
            Phase::Between => now + self.idle,
            Phase::New | Phase::Within | Phase::Broken | Phase::Ended => now + self.stalled,
        };
    }

    /// Hands the messages on as parts of the room, and keeps what is left over.
    fn hand_on(
        &mut self,
        found: Found,
        buffers: &BufferPool,
        heard: &mut dyn FnMut(Heard),
    ) -> Result<(), Error> {
        let Some(mut room) = self.room.take() else {
            return Ok(());
        };
        let filled = std::mem::take(&mut self.filled);
        if found.over.is_some() && found.messages.is_empty() && found.error.is_none() {
            return Ok(());
        }
        if found.messages.is_empty() && found.error.is_none() {
            self.filled = filled - found.end;
            if self.filled > 0 {
                room.copy_within(found.end..filled, 0);
                self.room = Some(room);
            }
            return Ok(());
        }
        room.truncate(filled);
        let room = room.freeze();
        for message in found.messages {
            heard(Heard::Message(room.slice(message)));
        }
        let rest = room.slice(found.end..);
        match found.error {
            Some(error) => heard(Heard::Broken(rest, error)),
            None if rest.is_empty() || found.over.is_some() => {}
            None => self.keep(&rest, buffers)?,
        }
        Ok(())
    }

    /// The beginning of the next message moves to a new room, so that the earlier
    /// messages can be handed on and freed.
    fn keep(&mut self, rest: &[u8], buffers: &BufferPool) -> Result<(), Error> {
        self.grow(rest.len().max(ROOM_LEN), buffers)?;
        let begin = self.room.as_deref_mut().unwrap_or_default();
        if let Some(begin) = begin.get_mut(..rest.len()) {
            begin.copy_from_slice(rest);
            self.filled = rest.len();
        }
        Ok(())
    }
}

/// What lies in the room.
#[derive(Debug, Default)]
struct Found {
    messages: Vec<Range<usize>>,
    error: Option<ParseError>,
    /// Where what is not complete begins.
    end: usize,
    /// Nothing more is to be read, and how the connection goes on.
    over: Option<Phase>,
    /// A message has begun and is not complete.
    is_within: bool,
}

/// An answer waits for a commit at most, and that is short or fails.
const ANSWERING: Duration = Duration::from_secs(2);
/// What a client sends to be answered with a line end (RFC 5626 §3.5.1).
const PING: &[u8] = b"\r\n\r\n";
/// Room for nearly every message, as in a datagram's slot.
const ROOM_LEN: usize = 2048;
