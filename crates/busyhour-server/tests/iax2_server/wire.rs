//! IAX2 frames, written from RFC 5456 for the tests: the server's own codec is
//! not used here.

use md5::{Digest, Md5};

pub const PONG: u8 = 3;
pub const ACK: u8 = 4;
pub const INVAL: u8 = 10;
pub const LAGRQ: u8 = 11;
pub const LAGRP: u8 = 12;
pub const REGREQ: u8 = 13;
pub const REGAUTH: u8 = 14;
pub const REGACK: u8 = 15;
pub const REGREJ: u8 = 16;
pub const REGREL: u8 = 17;
pub const VNAK: u8 = 18;
pub const NEW: u8 = 1;
pub const PING: u8 = 2;
pub const REJECT: u8 = 6;
pub const POKE: u8 = 30;
pub const UNSUPPORT: u8 = 33;
pub const CALLTOKEN: u8 = 40;

pub const IE_USERNAME: u8 = 6;
pub const IE_AUTHMETHODS: u8 = 14;
pub const IE_CHALLENGE: u8 = 15;
pub const IE_MD5_RESULT: u8 = 16;
pub const IE_APPARENT_ADDR: u8 = 18;
pub const IE_REFRESH: u8 = 19;
pub const IE_MSGCOUNT: u8 = 24;
pub const IE_CAUSE: u8 = 22;
pub const IE_UNKNOWN: u8 = 23;
pub const IE_DATETIME: u8 = 31;
pub const IE_CAUSECODE: u8 = 42;
pub const IE_CALLTOKEN: u8 = 54;

/// A full frame of type 6.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wire {
    pub scall: u16,
    pub dcall: u16,
    pub is_again: bool,
    pub ts: u32,
    pub oseq: u8,
    pub iseq: u8,
    pub subclass: u8,
    pub elements: Vec<(u8, Vec<u8>)>,
}

impl Wire {
    pub fn encode(&self) -> Vec<u8> {
        let again = u16::from(self.is_again) << 15;
        let mut bytes = Vec::new();
        bytes.extend((0x8000 | self.scall).to_be_bytes());
        bytes.extend((again | self.dcall).to_be_bytes());
        bytes.extend(self.ts.to_be_bytes());
        bytes.extend([self.oseq, self.iseq, 6, self.subclass]);
        for (code, data) in &self.elements {
            bytes.extend([*code, u8::try_from(data.len()).expect("short")]);
            bytes.extend(data);
        }
        bytes
    }

    /// Decodes what the server sent, which must be a valid full frame of type
    /// 6.
    pub fn decode(bytes: &[u8]) -> Self {
        assert!(bytes.len() >= 12, "the header is complete: {bytes:02x?}");
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        assert_eq!((number(0) >> 15, bytes[10]), (1, 6), "{bytes:02x?}");
        assert_eq!(
            bytes[11] & 0x80,
            0,
            "the subclass is not sent as a power of two"
        );
        Self {
            scall: number(0) & 0x7fff,
            dcall: number(2) & 0x7fff,
            is_again: number(2) >> 15 == 1,
            ts: u32::from_be_bytes(bytes[4..8].try_into().expect("four")),
            oseq: bytes[8],
            iseq: bytes[9],
            subclass: bytes[11],
            elements: elements(&bytes[12..]),
        }
    }

    pub fn element(&self, code: u8) -> Option<&[u8]> {
        let found = self.elements.iter().find(|(found, _)| *found == code);
        found.map(|(_, data)| &data[..])
    }

    pub fn text(&self, code: u8) -> String {
        let data = self.element(code);
        let data = data.unwrap_or_else(|| panic!("no element {code} in {self:?}"));
        String::from_utf8(data.to_vec()).expect("text")
    }

    pub fn with(mut self, code: u8, data: impl Into<Vec<u8>>) -> Self {
        self.elements.push((code, data.into()));
        self
    }
}

/// The MD5 RESULT of RFC 5456 §8.6.
pub fn md5_result(challenge: &str, password: &str) -> String {
    let hash = Md5::digest(format!("{challenge}{password}"));
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn elements(mut rest: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut elements = Vec::new();
    while let [code, length, data @ ..] = rest {
        let (data, behind) = data.split_at(usize::from(*length));
        elements.push((*code, data.to_vec()));
        rest = behind;
    }
    assert!(rest.is_empty(), "every element is complete");
    elements
}
