//! The frames that come in on one WebSocket (RFC 6455 §5).

use super::{
    CloseCode, Origins,
    upgrade::{REQUEST_LEN_MAX, Upgrade},
};
use busyhour_sip::Limits;
use std::{io::Cursor, ops::Range};
use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

/// What came on a WebSocket beside messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameEvent {
    /// It is open; this answers the request that opened it.
    Opened(Vec<u8>),
    /// It is not opened; this answers, and nothing more is read.
    Refused(Vec<u8>),
    /// A ping with this in it, which wants it back.
    Ping(Vec<u8>),
    /// The answer to a ping.
    Pong,
    /// The other side closes it. This code is said back, and nothing more is read.
    Closed(CloseCode),
    /// The other side broke the protocol. This code is said, and nothing more is read.
    Broken(CloseCode),
}

/// Takes frames off the bytes of one WebSocket, where they lie.
#[derive(Debug)]
pub struct FrameReader {
    origins: Origins,
    /// The request has been answered.
    is_open: bool,
    /// The message whose fragments are coming.
    unfinished: Option<Fragments>,
}

/// What has come of a message in fragments: the first bytes of the room.
#[derive(Debug)]
struct Fragments {
    is_text: bool,
    count: u32,
    /// Bytes so far.
    len: usize,
}

/// What lies in the room.
#[derive(Debug, Default)]
pub struct FoundFrames {
    /// Messages without frames and mask.
    pub messages: Vec<Range<usize>>,
    /// Where what is not complete begins.
    pub end: usize,
    /// Up to where the room is filled now.
    pub filled: usize,
    /// Nothing more is to be read.
    pub is_over: bool,
    /// The other side has closed it.
    pub is_closed: bool,
}

/// One frame that lies in the room, whole.
struct FoundFrame {
    header: FrameHeader,
    body: Range<usize>,
}

impl FrameReader {
    pub fn new(origins: Origins) -> Self {
        Self {
            origins,
            is_open: false,
            unfinished: None,
        }
    }

    /// Whether the request came that opens it.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a message has begun and is not complete, with `rest` behind what was read.
    pub fn is_within(&self, rest: &[u8]) -> bool {
        self.unfinished.is_some() || !rest.is_empty()
    }

    /// How many bytes the room needs at least for what begins in it with `bytes`; `None` if that
    /// is not known yet.
    pub fn wanted_bytes(&self, bytes: &[u8]) -> Option<usize> {
        if !self.is_open {
            return Some(REQUEST_LEN_MAX);
        }
        let begin = self.unfinished.as_ref().map_or(0, |it| it.len);
        let (header, len) = head(bytes.get(begin..)?).ok().flatten()?;
        let len = usize::try_from(len).ok()?.min(message_len_max());
        Some(begin + header.len(len as u64) + len)
    }

    /// Handles all that lies in `room`, takes the frames off, and undoes the mask.
    pub fn read(&mut self, room: &mut [u8], heard: &mut dyn FnMut(FrameEvent)) -> FoundFrames {
        let mut found = FoundFrames {
            filled: room.len(),
            ..FoundFrames::default()
        };
        let mut next = match self.is_open {
            true => self.unfinished.as_ref().map_or(0, |it| it.len),
            false => match self.open(room, &mut found, heard) {
                Some(next) => next,
                None => return found,
            },
        };
        // Where the fragments of an unfinished message begin, if there is one.
        let mut begin = 0;
        let over = loop {
            match self.next_frame(room, next) {
                Ok(None) => break None,
                Err(code) => break Some(FrameEvent::Broken(code)),
                Ok(Some(frame)) => {
                    next = frame.body.end;
                    let taken = self.take(frame, room, &mut begin, &mut found, heard);
                    if let Err(event) = taken {
                        break Some(event);
                    }
                }
            }
        };
        if let Some(event) = over {
            found.is_over = true;
            found.is_closed = matches!(event, FrameEvent::Closed(_));
            heard(event);
        }
        self.compact(room, begin, next, &mut found);
        found
    }

    /// Where the first frame begins, once the request has opened the WebSocket.
    fn open(
        &mut self,
        room: &[u8],
        found: &mut FoundFrames,
        heard: &mut dyn FnMut(FrameEvent),
    ) -> Option<usize> {
        match Upgrade::read(room, &self.origins) {
            Upgrade::Incomplete => None,
            Upgrade::Refused { answer } => {
                found.is_over = true;
                heard(FrameEvent::Refused(answer));
                None
            }
            Upgrade::Opened { bytes, answer } => {
                self.is_open = true;
                heard(FrameEvent::Opened(answer));
                Some(bytes)
            }
        }
    }

    /// The frame that begins at `at`, unmasked; `None` if it is not complete.
    fn next_frame(&self, room: &mut [u8], at: usize) -> Result<Option<FoundFrame>, CloseCode> {
        let rest = room.get(at..).unwrap_or_default();
        let Some((header, len)) = head(rest)? else {
            return Ok(None);
        };
        self.check(&header, len)?;
        // It is at most that of a message.
        let len = len as usize;
        let begin = at + header.len(len as u64);
        let Some(body) = room.get_mut(begin..begin + len) else {
            return Ok(None);
        };
        unmask(body, header.mask.unwrap_or_default());
        Ok(Some(FoundFrame {
            header,
            body: begin..begin + len,
        }))
    }

    /// What a head may say (RFC 6455 §5.1 to §5.5), before its body has come.
    fn check(&self, header: &FrameHeader, len: u64) -> Result<(), CloseCode> {
        let has_extension = header.rsv1 || header.rsv2 || header.rsv3;
        let is_control = matches!(header.opcode, OpCode::Control(_));
        let is_bad_control = is_control && (!header.is_final || len > CONTROL_LEN_MAX);
        let continues = header.opcode == OpCode::Data(Data::Continue);
        let is_misplaced = !is_control && continues != self.unfinished.is_some();
        if header.mask.is_none() || has_extension || is_bad_control || is_misplaced {
            return Err(CloseCode::Protocol);
        }
        let (before, count) = match &self.unfinished {
            Some(fragments) if !is_control => (fragments.len, fragments.count),
            _ => (0, 0),
        };
        let is_too_long = len > (message_len_max() - before) as u64;
        match is_too_long || count >= FRAGMENTS_MAX {
            true => Err(CloseCode::TooBig),
            false => Ok(()),
        }
    }

    /// Takes a frame in.
    fn take(
        &mut self,
        frame: FoundFrame,
        room: &mut [u8],
        begin: &mut usize,
        found: &mut FoundFrames,
        heard: &mut dyn FnMut(FrameEvent),
    ) -> Result<(), FrameEvent> {
        let body = room.get(frame.body.clone()).unwrap_or_default();
        match frame.header.opcode {
            OpCode::Control(Control::Ping) => heard(FrameEvent::Ping(body.to_vec())),
            OpCode::Control(Control::Pong) => heard(FrameEvent::Pong),
            OpCode::Control(_) => return Err(FrameEvent::Closed(CloseCode::answering(body))),
            OpCode::Data(kind) => {
                let is_final = frame.header.is_final;
                let whole = self.join(kind, frame, room, begin);
                if is_final {
                    found.messages.push(whole.map_err(FrameEvent::Broken)?);
                }
            }
        }
        Ok(())
    }

    /// Puts a fragment behind those before it. The message, once the last one is there.
    ///
    /// # Errors
    ///
    /// When a text is no text.
    fn join(
        &mut self,
        kind: Data,
        frame: FoundFrame,
        room: &mut [u8],
        begin: &mut usize,
    ) -> Result<Range<usize>, CloseCode> {
        let len = frame.body.len();
        let mut fragments = match self.unfinished.take() {
            Some(fragments) => {
                room.copy_within(frame.body, *begin + fragments.len);
                fragments
            }
            None => {
                *begin = frame.body.start;
                Fragments {
                    is_text: kind == Data::Text,
                    count: 0,
                    len: 0,
                }
            }
        };
        fragments.len += len;
        fragments.count += 1;
        let whole = *begin..*begin + fragments.len;
        if !frame.header.is_final {
            self.unfinished = Some(fragments);
            return Ok(whole);
        }
        let is_text = || std::str::from_utf8(room.get(whole.clone()).unwrap_or_default()).is_ok();
        match !fragments.is_text || is_text() {
            true => Ok(whole),
            false => Err(CloseCode::NotText),
        }
    }

    /// Moves what has not been read behind the fragments, so that both lie together.
    fn compact(&self, room: &mut [u8], begin: usize, next: usize, found: &mut FoundFrames) {
        let Some(fragments) = &self.unfinished else {
            found.end = next;
            return;
        };
        let end = begin + fragments.len;
        room.copy_within(next..found.filled, end);
        found.filled -= next - end;
        found.end = begin;
    }
}

/// The head of a frame, and the length of its body; `None` if it is not complete.
fn head(bytes: &[u8]) -> Result<Option<(FrameHeader, u64)>, CloseCode> {
    let parsed = FrameHeader::parse(&mut Cursor::new(bytes));
    parsed.map_err(|_| CloseCode::Protocol)
}

fn unmask(body: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = body.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

/// As that of any message of SIP.
fn message_len_max() -> usize {
    Limits::default().message_bytes
}

/// RFC 6455 §5.5.
const CONTROL_LEN_MAX: u64 = 125;
/// Fragments of one message; browsers send one.
pub(super) const FRAGMENTS_MAX: u32 = 256;
