//! Records as bytes. All numbers are big-endian:
//!
//! ```text
//! record:  sort u16 | subject length u16 | subject | element count u16 | elements
//! element: id u16 | type u8 | length u32 | value
//! ```
//!
//! Elements come in the order of their ids, each once, so that a record has
//! exactly one encoding.

use super::{BitField, Element, ElementId, Record, Value};
use crate::bus::Name;
use std::{fmt, str};

/// The limits for a record from outside.
///
/// ```
/// use busyhour::bus::{DecodeError, Limits, Record};
///
/// let bytes = Record::new(7, "SIP/door").encode()?;
/// let narrow = Limits { record_bytes: 4, ..Limits::default() };
/// assert_eq!(Record::decode(&bytes, &narrow), Err(DecodeError::TooLarge));
/// # Ok::<(), DecodeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Elements per record.
    pub element_count: usize,
    /// Bytes of one value, and of the subject.
    pub value_bytes: usize,
    /// Bytes of the whole record.
    pub record_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            element_count: 256,
            value_bytes: 16 * 1024,
            record_bytes: 64 * 1024,
        }
    }
}

/// Why bytes are not a valid record.
///
/// ```
/// use busyhour::bus::{DecodeError, Limits, Record};
///
/// let bytes = Record::new(7, "SIP/door").encode()?;
/// let cut = Record::decode(&bytes[..3], &Limits::default());
/// assert_eq!(cut, Err(DecodeError::CutOff));
/// # Ok::<(), DecodeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end too early.
    CutOff,
    /// Bytes follow the record.
    TrailingBytes,
    /// The record exceeds [`Limits`], or a length that the format can express.
    TooLarge,
    /// A type that is not one of the five.
    UnknownType(u16, u8),
    /// A value that its type does not allow.
    BadValue(u16),
    /// The subject is not UTF-8.
    BadSubject,
    /// Elements out of order, or two with one id.
    OutOfOrder(u16),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff => f.write_str("the record is cut off"),
            Self::TrailingBytes => f.write_str("bytes follow the record"),
            Self::TooLarge => f.write_str("the record is too large"),
            Self::UnknownType(id, kind) => write!(f, "element {id} is of the unknown type {kind}"),
            Self::BadValue(id) => {
                write!(f, "element {id} has a value that its type does not allow")
            }
            Self::BadSubject => f.write_str("the subject is not UTF-8"),
            Self::OutOfOrder(id) => write!(f, "element {id} is out of order"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Record {
    /// Encodes the record.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooLarge`] if a length does not fit the format.
    pub fn encode(&self) -> Result<Vec<u8>, DecodeError> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(self.sort().to_be_bytes());
        bytes.extend(length(self.subject().len(), u16::to_be_bytes)?);
        bytes.extend(self.subject().as_bytes());
        bytes.extend(length(self.elements.len(), u16::to_be_bytes)?);
        for element in &self.elements {
            element.encode(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Decodes a record.
    ///
    /// A length beyond the end of `bytes` is [`DecodeError::CutOff`], whatever the limits say, since bytes that are no
    /// record at all mostly look like that.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] describes the first error in the bytes. Any bytes may be
    /// given; decoding uses at most a small multiple of their length as memory.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Self, DecodeError> {
        if bytes.len() > limits.record_bytes {
            return Err(DecodeError::TooLarge);
        }
        let mut input = Input { bytes, limits };
        let sort = input.u16()?;
        let subject_len = usize::from(input.u16()?);
        let subject = str::from_utf8(input.value(subject_len)?);
        let subject = subject.map_err(|_| DecodeError::BadSubject)?;
        let mut record = Self::new(sort, Name::new(subject));
        let count = usize::from(input.u16()?);
        if input.bytes.len() / ELEMENT_BYTES_MIN < count {
            return Err(DecodeError::CutOff);
        }
        if count > limits.element_count {
            return Err(DecodeError::TooLarge);
        }
        for _ in 0..count {
            record.append(input.element()?)?;
        }
        if !input.bytes.is_empty() {
            return Err(DecodeError::TrailingBytes);
        }
        Ok(record)
    }

    fn append(&mut self, element: Element) -> Result<(), DecodeError> {
        let last = self.elements.last();
        if last.is_some_and(|last| last.id >= element.id) {
            return Err(DecodeError::OutOfOrder(element.id.0));
        }
        self.elements.push(element);
        Ok(())
    }
}

impl Element {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), DecodeError> {
        bytes.extend(self.id.0.to_be_bytes());
        match &self.value {
            Value::U32(number) => put(bytes, Type::U32, &number.to_be_bytes()),
            Value::Text(text) => put(bytes, Type::Text, text.as_bytes()),
            Value::Bytes(raw) => put(bytes, Type::Bytes, raw),
            Value::Flags(flags) => put(bytes, Type::Flags, &flags.to_be_bytes()),
            Value::Bits(bits) => put(bytes, Type::Bits, bits.as_bytes()),
        }
    }
}

fn put(bytes: &mut Vec<u8>, kind: Type, value: &[u8]) -> Result<(), DecodeError> {
    bytes.push(kind as u8);
    bytes.extend(length(value.len(), u32::to_be_bytes)?);
    bytes.extend(value);
    Ok(())
}

fn length<N: TryFrom<usize>, const WIDTH: usize>(
    length: usize,
    to_bytes: impl Fn(N) -> [u8; WIDTH],
) -> Result<[u8; WIDTH], DecodeError> {
    let length = N::try_from(length).map_err(|_| DecodeError::TooLarge)?;
    Ok(to_bytes(length))
}

/// An element without a value: id, type and length.
const ELEMENT_BYTES_MIN: usize = 7;

/// The types and their numbers on the wire.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Type {
    U32 = 1,
    Text = 2,
    Bytes = 3,
    Flags = 4,
    Bits = 5,
}

impl Type {
    const ALL: [Self; 5] = [Self::U32, Self::Text, Self::Bytes, Self::Flags, Self::Bits];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    fn value(self, bytes: &[u8]) -> Option<Value> {
        Some(match self {
            Self::U32 => Value::U32(u32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Text => Value::Text(Name::new(str::from_utf8(bytes).ok()?)),
            Self::Bytes => Value::Bytes(bytes.into()),
            Self::Flags => Value::Flags(u32::from_be_bytes(bytes.try_into().ok()?)),
            Self::Bits => Value::Bits(BitField::from_bytes(bytes)?),
        })
    }
}

/// The bytes not read yet.
struct Input<'a> {
    bytes: &'a [u8],
    limits: &'a Limits,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or(DecodeError::CutOff)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], DecodeError> {
        let taken = self.take(LEN)?;
        taken.try_into().map_err(|_| DecodeError::CutOff)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    fn value(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.take(len)?;
        if len > self.limits.value_bytes {
            return Err(DecodeError::TooLarge);
        }
        Ok(taken)
    }

    fn element(&mut self) -> Result<Element, DecodeError> {
        let id = self.u16()?;
        let [number] = self.array()?;
        let kind = Type::from_number(number).ok_or(DecodeError::UnknownType(id, number))?;
        let len = self.array().map(u32::from_be_bytes)?;
        let len = usize::try_from(len).map_err(|_| DecodeError::TooLarge)?;
        let value = kind
            .value(self.value(len)?)
            .ok_or(DecodeError::BadValue(id))?;
        let id = ElementId(id);
        Ok(Element { id, value })
    }
}
