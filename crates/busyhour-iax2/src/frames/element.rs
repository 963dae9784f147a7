//! Information elements (RFC 5456 §8.6): type, length, data.

use std::net::SocketAddr;

use super::{DateTime, apparent_address, codes::codes, put_apparent_address};
use busyhour_sip::Output;

codes! {
    /// What an information element tells.
    Element:
    CalledNumber = 0x01 "CALLED NUMBER";
    CallingNumber = 0x02 "CALLING NUMBER";
    Username = 0x06 "USERNAME";
    Password = 0x07 "PASSWORD";
    Version = 0x0b "VERSION";
    AuthMethods = 0x0e "AUTHMETHODS: 1 plain text, 2 MD5, 4 RSA";
    Challenge = 0x0f "CHALLENGE";
    Md5Result = 0x10 "MD5 RESULT";
    RsaResult = 0x11 "RSA RESULT";
    ApparentAddress = 0x12 "APPARENT ADDR";
    Refresh = 0x13 "REFRESH, in seconds";
    Cause = 0x16 "CAUSE";
    IaxUnknown = 0x17 "IAX UNKNOWN: the subclass that was not understood";
    MessageCount = 0x18 "MSGCOUNT: old messages above new ones, a byte each";
    DateTime = 0x1f "DATETIME";
    CauseCode = 0x2a "CAUSECODE";
    CallToken = 0x36 "CALLTOKEN";
}

/// The elements of a frame, known to be well formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements<'a> {
    bytes: &'a [u8],
}

/// Elements in order: what it is, and its data.
#[derive(Clone, Debug)]
pub struct ElementIter<'a> {
    rest: &'a [u8],
}

/// Appends elements.
#[derive(Debug)]
pub struct ElementWriter<'o, O> {
    out: &'o mut O,
}

impl<'a> Elements<'a> {
    /// Reads a payload; `None` when an element is cut short.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut iter = ElementIter { rest: payload };
        while iter.next().is_some() {}
        iter.rest.is_empty().then_some(Self { bytes: payload })
    }

    /// All elements in order.
    pub fn iter(&self) -> ElementIter<'a> {
        ElementIter { rest: self.bytes }
    }

    /// The data of the first element of this kind.
    pub fn data(&self, element: Element) -> Option<&'a [u8]> {
        self.iter()
            .find(|(found, _)| *found == element)
            .map(|(_, data)| data)
    }

    /// A text; `None` also when it is not UTF-8.
    pub fn text(&self, element: Element) -> Option<&'a str> {
        std::str::from_utf8(self.data(element)?).ok()
    }

    /// A number of one, two or four octets.
    pub fn number(&self, element: Element) -> Option<u32> {
        match *self.data(element)? {
            [a] => Some(u32::from(a)),
            [a, b] => Some(u32::from(u16::from_be_bytes([a, b]))),
            [a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None,
        }
    }

    /// The address that a server saw a registration come from.
    pub fn apparent_address(&self) -> Option<SocketAddr> {
        apparent_address(self.data(Element::ApparentAddress)?)
    }

    /// The server's clock.
    pub fn date_time(&self) -> Option<DateTime> {
        DateTime::from_wire(self.number(Element::DateTime)?)
    }
}

impl<'a> Iterator for ElementIter<'a> {
    type Item = (Element, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[code, length], rest) = self.rest.split_first_chunk::<2>()?;
        let (data, rest) = rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        Some((Element::new(code), data))
    }
}

impl<'o, O: Output> ElementWriter<'o, O> {
    /// Appends to `out`.
    pub fn new(out: &'o mut O) -> Self {
        Self { out }
    }

    /// Adds an element; data beyond 255 octets, the most there can be, is cut.
    pub fn data(self, element: Element, data: &[u8]) -> Self {
        let data = data.get(..usize::from(u8::MAX)).unwrap_or(data);
        self.out.put(&[element.code(), data.len() as u8]);
        self.out.put(data);
        self
    }

    /// Adds a text, cut between characters where it must be.
    pub fn text(self, element: Element, text: &str) -> Self {
        let end = boundary_before(text, usize::from(u8::MAX));
        self.data(element, text.as_bytes().get(..end).unwrap_or(&[]))
    }

    /// Adds a number of one octet.
    pub fn number8(self, element: Element, number: u8) -> Self {
        self.data(element, &[number])
    }

    /// Adds a number of two octets.
    pub fn number16(self, element: Element, number: u16) -> Self {
        self.data(element, &number.to_be_bytes())
    }

    /// Adds a number of four octets.
    pub fn number32(self, element: Element, number: u32) -> Self {
        self.data(element, &number.to_be_bytes())
    }

    /// Adds APPARENT ADDR.
    pub fn apparent_address(self, address: SocketAddr) -> Self {
        let mut data = Vec::with_capacity(28);
        put_apparent_address(&mut data, address);
        self.data(Element::ApparentAddress, &data)
    }

    /// Adds DATETIME.
    pub fn date_time(self, date_time: DateTime) -> Self {
        self.number32(Element::DateTime, date_time.to_wire())
    }
}

/// The largest cut between characters that is not beyond `length`.
fn boundary_before(text: &str, length: usize) -> usize {
    let mut end = length.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}
