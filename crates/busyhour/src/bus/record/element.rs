use crate::bus::Name;

/// The number of an information element. Senders and receivers of records agree
/// on its meaning.
///
/// ```
/// use busyhour::bus::{ElementId, Record, Value};
///
/// const CALLS: ElementId = ElementId(2);
/// let record = Record::new(7, "SIP/door").with(CALLS, Value::U32(2));
/// assert_eq!(record.get(CALLS), Some(&Value::U32(2)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u16);

/// One information element.
///
/// ```
/// use busyhour::bus::{Element, ElementId, Record, Value};
///
/// let record = Record::new(7, "SIP/door").with(ElementId(2), Value::U32(5));
/// let only = Element { id: ElementId(2), value: Value::U32(5) };
/// assert!(record.iter().eq([&only]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Element {
    /// Its number, which no other element of the record has.
    pub id: ElementId,
    /// Its value.
    pub value: Value,
}

/// The value of an information element.
///
/// ```
/// use busyhour::bus::Value;
///
/// assert!(Value::Flags(0b110).matches(&Value::Flags(0b100)), "all that are wanted are set");
/// assert!(!Value::U32(6).matches(&Value::U32(4)));
/// assert!(!Value::U32(6).matches(&Value::Flags(6)), "another type");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    U32(u32),
    /// A text, interned.
    Text(Name),
    /// Bytes that the bus does not interpret.
    Bytes(Box<[u8]>),
    /// Up to 32 switches.
    Flags(u32),
    /// Any number of switches.
    Bits(BitField),
}

impl Value {
    /// Whether this value satisfies `wanted`: flags and bits when all those
    /// wanted are set, other values when they are equal. Values of different
    /// types never match.
    pub fn matches(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Flags(flags), Self::Flags(wanted)) => flags & wanted == *wanted,
            (Self::Bits(bits), Self::Bits(wanted)) => bits.contains_all(wanted),
            _ => self == wanted,
        }
    }
}

/// A set of small numbers, each a bit.
///
/// ```
/// use busyhour::bus::BitField;
///
/// let lines: BitField = [1, 70].into_iter().collect();
/// assert!(lines.contains(70) && !lines.contains(2));
/// assert_eq!(lines.iter().collect::<Vec<_>>(), [1, 70]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct BitField {
    /// Bit 0 is the lowest of the first byte; the last byte is not zero.
    bytes: Vec<u8>,
}

impl BitField {
    /// Sets a bit.
    pub fn insert(&mut self, bit: u16) {
        let byte = usize::from(bit / 8);
        if self.bytes.len() <= byte {
            self.bytes.resize(byte + 1, 0);
        }
        self.bytes[byte] |= 1 << (bit % 8);
    }

    /// Whether a bit is set.
    pub fn contains(&self, bit: u16) -> bool {
        let byte = self.bytes.get(usize::from(bit / 8));
        byte.is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
    }

    /// Whether every bit of `other` is set here.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.iter().all(|bit| self.contains(bit))
    }

    /// The bits that are set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (0..=u16::MAX)
            .take(self.bytes.len() * 8)
            .filter(|bit| self.contains(*bit))
    }

    /// The bits as bytes, the lowest first, without zeros at the end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bits that these bytes hold; `None` when there are more than 65,536
    /// or a zero at the end.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() <= 65_536 / 8 && bytes.last() != Some(&0);
        fits.then(|| Self {
            bytes: bytes.to_vec(),
        })
    }
}

impl FromIterator<u16> for BitField {
    fn from_iter<I: IntoIterator<Item = u16>>(bits: I) -> Self {
        let mut field = Self::default();
        bits.into_iter().for_each(|bit| field.insert(bit));
        field
    }
}
