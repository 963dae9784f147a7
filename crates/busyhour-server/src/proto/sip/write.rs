//! Where messages are written to, and the guard against injected lines.

use std::fmt::{self, Write};

use super::lex::{self, SPACE};

/// Takes the bytes of a message in order.
pub trait Output {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends each text in turn.
    fn put_all(&mut self, texts: &[&str])
    where
        Self: Sized,
    {
        texts.iter().for_each(|text| self.put(text.as_bytes()));
    }

    /// Appends one line; line ends inside of it become spaces.
    fn put_line(&mut self, line: impl fmt::Display)
    where
        Self: Sized,
    {
        self.put_display(line);
        self.put(b"\r\n");
    }

    /// Appends a header line with its folds joined.
    fn put_header(&mut self, name: &str, value: &str)
    where
        Self: Sized,
    {
        self.put_all(&[name, ": "]);
        put_unfolded(self, value);
        self.put(b"\r\n");
    }

    /// Appends the text of `value`; line ends inside of it become spaces.
    fn put_display(&mut self, value: impl fmt::Display)
    where
        Self: Sized,
    {
        // The adapter itself never fails; a Display that does is cut short.
        let _ = write!(OneLine(self), "{value}");
    }
}

impl Output for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes into a slice, for a buffer that is already allocated.
///
/// ```
/// use busyhour_server::proto::sip::{Output, SliceOutput};
/// let mut room = [0; 4];
/// let mut out = SliceOutput::new(&mut room);
/// out.put(b"abc");
/// assert_eq!(out.written(), Some(3));
/// out.put(b"de");
/// assert_eq!(out.written(), None, "it did not fit");
/// ```
#[derive(Debug)]
pub struct SliceOutput<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl<'a> SliceOutput<'a> {
    /// Writes from the beginning of `room`.
    pub fn new(room: &'a mut [u8]) -> Self {
        Self { room, length: 0 }
    }

    /// How many bytes were written; `None` when they did not fit, and then
    /// the content is of no use.
    pub fn written(&self) -> Option<usize> {
        (self.length <= self.room.len()).then_some(self.length)
    }
}

impl Output for SliceOutput<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.length.saturating_add(bytes.len());
        if let Some(room) = self.room.get_mut(self.length..end) {
            room.copy_from_slice(bytes);
        }
        self.length = end;
    }
}

/// Passes text on as one line, so that no value can begin a header of its own.
struct OneLine<'a, O>(&'a mut O);

impl<O: Output> Write for OneLine<'_, O> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_none() {
            self.0.put(text.as_bytes());
            return Ok(());
        }
        let mut pieces = text.split(['\r', '\n']);
        self.0.put(pieces.next().unwrap_or("").as_bytes());
        for piece in pieces {
            self.0.put(b" ");
            self.0.put(piece.as_bytes());
        }
        Ok(())
    }
}

/// Appends `value`, each run of white space that holds a line end as one space.
pub(super) fn put_unfolded(out: &mut impl Output, value: &str) {
    let mut rest = value;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (before, after) = rest.split_at(at);
        out.put(before.trim_end_matches([' ', '\t']).as_bytes());
        out.put(b" ");
        rest = after.trim_start_matches(|c: char| c.is_ascii() && lex::is(c as u8, SPACE));
    }
    out.put(rest.as_bytes());
}
