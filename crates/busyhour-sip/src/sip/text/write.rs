//! Outputs for messages, which prevent injected lines.

use std::fmt::{self, Write};
use std::net::IpAddr;

use crate::sip::text::digits::Ipv4Text;
use crate::sip::text::lex::{self, SPACE};

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

    /// Appends `text`; line ends inside of it become spaces.
    fn put_text(&mut self, text: &str)
    where
        Self: Sized,
    {
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
            let (before, after) = rest.split_at(at);
            self.put(before.as_bytes());
            self.put(b" ");
            rest = after.get(1..).unwrap_or("");
        }
        self.put(rest.as_bytes());
    }

    /// Appends a number in decimal digits.
    fn put_decimal(&mut self, number: u64)
    where
        Self: Sized,
    {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends an address as it is usually written, IPv6 without brackets.
    fn put_ip(&mut self, address: IpAddr)
    where
        Self: Sized,
    {
        match address {
            IpAddr::V4(address) => self.put(Ipv4Text::new(address).as_str().as_bytes()),
            IpAddr::V6(address) => self.put_display(address),
        }
    }

    /// Appends the text of `value`; line ends inside of it become spaces.
    fn put_display(&mut self, value: impl fmt::Display)
    where
        Self: Sized,
    {
        // The adapter itself never fails; if a `Display` fails, its text is cut short.
        let _ = write!(OneLine(self), "{value}");
    }
}

/// A header value that writes itself. The headers of every response use it, since it
/// costs much less than [`Display`](fmt::Display).
///
/// ```
/// use busyhour_sip::{HeaderValue, Output};
///
/// struct Lamp<'a>(&'a str, u64);
///
/// impl HeaderValue for Lamp<'_> {
///     fn write_to(&self, out: &mut impl Output) {
///         out.put_text(self.0);
///         out.put(b";level=");
///         out.put_decimal(self.1);
///     }
/// }
/// assert_eq!(Lamp("desk\r\nX: 1", 3).text(), "desk  X: 1;level=3");
/// ```
pub trait HeaderValue {
    /// Appends the value, which must not contain a line end: write input from outside
    /// with [`Output::put_text`].
    fn write_to(&self, out: &mut impl Output);

    /// The value as text of its own.
    fn text(&self) -> String {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
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
/// use busyhour_sip::{Output, SliceOutput};
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
        self.0.put_text(text);
        Ok(())
    }
}

/// Appends `value` as it is if it `is_plain`, without a line end inside, and
/// else unfolded.
pub(in crate::sip) fn put_value(out: &mut impl Output, value: &str, is_plain: bool) {
    match is_plain {
        true => out.put(value.as_bytes()),
        false => put_unfolded(out, value),
    }
}

/// Appends `value`, each run of white space that holds a line end as one space.
pub(in crate::sip) fn put_unfolded(out: &mut impl Output, value: &str) {
    let mut rest = value;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
        let (before, after) = rest.split_at(at);
        out.put(before.trim_end_matches([' ', '\t']).as_bytes());
        out.put(b" ");
        rest = after.trim_start_matches(|c: char| c.is_ascii() && lex::is(c as u8, SPACE));
    }
    out.put(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        put(&mut bytes);
        String::from_utf8(bytes).expect("a text")
    }

    proptest! {
        #[test]
        fn values_are_written_as_by_display(
            number in any::<u64>(),
            address in any::<IpAddr>(),
            text in "[a-zé\r\n ]{0,40}",
        ) {
            prop_assert_eq!(written(|out| out.put_decimal(number)), number.to_string());
            prop_assert_eq!(written(|out| out.put_ip(address)), address.to_string());
            let one_line = text.replace(['\r', '\n'], " ");
            prop_assert_eq!(written(|out| out.put_text(&text)), &*one_line);
            prop_assert_eq!(written(|out| out.put_display(&text)), one_line);
        }
    }
}
