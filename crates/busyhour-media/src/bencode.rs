//! Bencode, in which rtpengine's NG protocol writes its dictionaries: `d4:pingl1:a1:bei7ee`.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// Bytes; texts in NG.
    Text(Cow<'a, [u8]>),
    /// A whole number.
    Number(i64),
    /// Values in order.
    List(Vec<Value<'a>>),
    /// Values by their names.
    Dictionary(BTreeMap<Cow<'a, [u8]>, Value<'a>>),
}

/// The bytes are no value, or nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not bencode at byte {at}")]
pub struct NotBencode {
    /// Where.
    pub at: usize,
}

impl<'a> Value<'a> {
    /// A text.
    pub fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text.as_bytes()))
    }

    /// A list of texts.
    pub fn texts<'t: 'a>(texts: &[&'t str]) -> Self {
        Self::List(texts.iter().map(|text| Value::text(text)).collect())
    }

    /// A dictionary of these.
    pub fn dictionary(entries: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let entries = entries.into_iter();
        Self::Dictionary(
            entries
                .map(|(name, value)| (Cow::Borrowed(name.as_bytes()), value))
                .collect(),
        )
    }

    /// Reads one value that fills `bytes`.
    ///
    /// # Errors
    ///
    /// Where it is malformed.
    ///
    /// ```
    /// use busyhour_media::bencode::Value;
    ///
    /// let value = Value::read(b"d6:result4:ponge")?;
    /// assert_eq!(value.get("result").and_then(Value::as_text), Some("pong"));
    /// # Ok::<(), busyhour_media::bencode::NotBencode>(())
    /// ```
    pub fn read(bytes: &'a [u8]) -> Result<Self, NotBencode> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        match reader.at == bytes.len() {
            true => Ok(value),
            false => Err(reader.wrong()),
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_text(text, out),
            Self::Number(number) => out.extend(format!("i{number}e").into_bytes()),
            Self::List(values) => {
                out.push(b'l');
                values.iter().for_each(|value| value.write(out));
                out.push(b'e');
            }
            Self::Dictionary(entries) => {
                out.push(b'd');
                for (name, value) in entries {
                    write_text(name, out);
                    value.write(out);
                }
                out.push(b'e');
            }
        }
    }

    /// The value of this name in a dictionary.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Self::Dictionary(entries) => entries.get(name.as_bytes()),
            _ => None,
        }
    }

    /// The bytes of a text.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text, if it is UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    let mut len = String::new();
    // Writing to a string does not fail.
    let _ = write!(len, "{}:", text.len());
    out.extend(len.into_bytes());
    out.extend_from_slice(text);
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: u32) -> Result<Value<'a>, NotBencode> {
        if depth > DEPTH_MAX {
            return Err(self.wrong());
        }
        match self.peek()? {
            b'i' => {
                self.at += 1;
                self.number(b'e').map(Value::Number)
            }
            b'l' => {
                self.at += 1;
                let mut values = Vec::new();
                while self.peek()? != b'e' {
                    values.push(self.value(depth + 1)?);
                }
                self.at += 1;
                Ok(Value::List(values))
            }
            b'd' => {
                self.at += 1;
                let mut entries = BTreeMap::new();
                while self.peek()? != b'e' {
                    let name = self.text()?;
                    entries.insert(Cow::Borrowed(name), self.value(depth + 1)?);
                }
                self.at += 1;
                Ok(Value::Dictionary(entries))
            }
            _ => self.text().map(|text| Value::Text(Cow::Borrowed(text))),
        }
    }

    fn text(&mut self) -> Result<&'a [u8], NotBencode> {
        let len = self.number(b':')?;
        let len = usize::try_from(len).map_err(|_| self.wrong())?;
        let end = self.at.checked_add(len).ok_or_else(|| self.wrong())?;
        let text = self.bytes.get(self.at..end).ok_or_else(|| self.wrong())?;
        self.at = end;
        Ok(text)
    }

    fn number(&mut self, end: u8) -> Result<i64, NotBencode> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|byte| *byte == end);
        let digits = len.and_then(|len| rest.get(..len));
        let number = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| !digits.starts_with('+'))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| self.wrong())?;
        self.at += len.unwrap_or(0) + 1;
        Ok(number)
    }

    fn peek(&self) -> Result<u8, NotBencode> {
        self.bytes.get(self.at).copied().ok_or_else(|| self.wrong())
    }

    fn wrong(&self) -> NotBencode {
        NotBencode { at: self.at }
    }
}

/// Answers of rtpengine nest five deep.
const DEPTH_MAX: u32 = 32;
