//! Records between two equal lengths, and how to find the next one after damage.

use crate::{Problem, error::Flaw};

/// One whole record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Where it begins in the bytes walked through.
    pub(crate) at: usize,
    /// All of it, with its length in front and behind.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Without the lengths.
    pub(crate) fn body(&self) -> &'a [u8] {
        &self.bytes[LENGTH_BYTES..self.bytes.len() - LENGTH_BYTES]
    }
}

/// How the records of one kind of file lie in it.
#[derive(Clone, Copy)]
pub(crate) struct Framing<F> {
    /// Records begin at multiples of this many bytes.
    pub(crate) alignment: usize,
    /// Whether a body can be one: asked only when looking for the next good
    /// record after a bad one.
    pub(crate) is_plausible: F,
}

impl<F: Fn(&[u8]) -> bool> Framing<F> {
    /// Walks through `bytes` and returns how many belong to whole records, or
    /// to damage that was skipped. Unless `is_all`, a record that the end of
    /// `bytes` cuts off is left for the next walk.
    pub(crate) fn walk<'a>(
        &self,
        bytes: &'a [u8],
        is_all: bool,
        mut on_frame: impl FnMut(Frame<'a>),
        mut on_flaw: impl FnMut(Flaw),
    ) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let problem = match frame(bytes, at) {
                Ok(frame) => {
                    on_frame(frame);
                    at += frame.bytes.len();
                    continue;
                }
                Err(Problem::Truncated) if !is_all => return at,
                Err(problem) => problem,
            };
            let next = self.next_good(bytes, at + self.alignment);
            if next.is_none() && !is_all {
                return at;
            }
            on_flaw(Flaw {
                offset: at as u64,
                problem,
            });
            at = next.unwrap_or(bytes.len());
        }
        at.min(bytes.len())
    }

    fn next_good(&self, bytes: &[u8], from: usize) -> Option<usize> {
        (from..bytes.len())
            .step_by(self.alignment)
            .find(|at| frame(bytes, *at).is_ok_and(|frame| (self.is_plausible)(frame.body())))
    }
}

/// The record that begins at `at`.
pub(crate) fn frame(bytes: &[u8], at: usize) -> Result<Frame<'_>, Problem> {
    let head = word(bytes, at).ok_or(Problem::Truncated)?;
    let len = head as usize;
    if !(RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(&len) {
        return Err(Problem::Length(head));
    }
    let record = bytes.get(at..at + len).ok_or(Problem::Truncated)?;
    let tail = word(record, len - LENGTH_BYTES).ok_or(Problem::Truncated)?;
    if tail != head {
        return Err(Problem::Lengths { head, tail });
    }
    Ok(Frame { at, bytes: record })
}

/// The big-endian word at `at`.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

const LENGTH_BYTES: usize = 4;

/// Two lengths and one word.
const RECORD_BYTES_MIN: usize = 12;

/// No reasonable record is longer; this bounds the lengths that a file may claim.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u32 + 8).to_be_bytes();
        [&len, body, &len].concat()
    }

    fn walk(bytes: &[u8], is_all: bool) -> (Vec<Vec<u8>>, Vec<Flaw>, usize) {
        let framing = Framing {
            alignment: 1,
            is_plausible: |body: &[u8]| body.starts_with(b"good"),
        };
        let (mut bodies, mut flaws) = (Vec::new(), Vec::new());
        let used = framing.walk(
            bytes,
            is_all,
            |frame| bodies.push(frame.body().to_vec()),
            |flaw| flaws.push(flaw),
        );
        (bodies, flaws, used)
    }

    #[test]
    fn complete_records_are_found_and_an_incomplete_one_waits() {
        let bytes = [framed(b"good1"), framed(b"good2")].concat();
        assert_eq!(walk(&bytes, true).0, [b"good1", b"good2"]);
        let (bodies, flaws, used) = walk(&bytes[..20], false);
        assert_eq!((bodies.len(), flaws.len(), used), (1, 0, 13));
    }

    #[test]
    fn after_damage_the_next_good_record_is_found() {
        let mut bytes = [framed(b"good1"), framed(b"good2"), framed(b"good3")].concat();
        bytes[16] ^= 0xff;
        let (bodies, flaws, used) = walk(&bytes, true);
        assert_eq!(bodies, [b"good1", b"good3"]);
        assert_eq!(flaws.len(), 1);
        assert_eq!(flaws[0].offset, 13);
        assert_eq!(used, bytes.len());
    }

    #[test]
    fn a_truncated_file_gives_its_good_records_and_one_error() {
        let bytes = [framed(b"good1"), framed(b"good2")].concat();
        for len in 14..bytes.len() {
            let (bodies, flaws, _) = walk(&bytes[..len], true);
            assert_eq!(bodies, [b"good1"]);
            let expected = Flaw {
                offset: 13,
                problem: Problem::Truncated,
            };
            assert_eq!(flaws, [expected], "{len} bytes");
        }
    }
}
