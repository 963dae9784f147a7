//! Where each header line lies: offsets instead of copies.

use std::ops::Range;

use crate::sip::text::lex::{self, SPACE, TOKEN};
use crate::sip::{HeaderName, Limits, ParseError};

/// The header lines in order, and for each name the chain of its lines.
///
/// The first [`INLINE`] lines live here, which is more than a usual message
/// has; a longer message moves the rest to the heap.
#[derive(Clone, Debug)]
pub(in crate::sip) struct HeaderIndex {
    inline: [Line; INLINE],
    spilled: Vec<Line>,
    count: u8,
    first: [u8; HeaderName::COUNT],
    last: [u8; HeaderName::COUNT],
}

/// One header line as offsets into the head.
#[derive(Clone, Copy, Debug)]
pub(in crate::sip) struct Line {
    pub name: HeaderName,
    /// The next line of the same name, or [`NONE`].
    next: u8,
    start: u16,
    value: u16,
    end: u16,
}

impl Line {
    /// Where its name begins.
    pub fn start(&self) -> usize {
        self.start.into()
    }

    /// The name as written.
    pub fn name_text<'a>(&self, head: &'a str) -> &'a str {
        let line = head
            .get(self.start as usize..self.value as usize)
            .unwrap_or("");
        lex::trim(line.split(':').next().unwrap_or(""))
    }

    /// Where its value lies in the head.
    pub fn value_range(&self) -> Range<u16> {
        self.value..self.end
    }

    /// The whole line with its line end, if that is `name`, a colon, one space and the value alone.
    #[inline]
    pub fn canonical_line<'a>(&self, head: &'a str, name: &str) -> Option<&'a str> {
        let line = head.get(self.start.into()..usize::from(self.end) + 2)?;
        let is_ours = usize::from(self.value - self.start) == name.len() + 2
            && line.ends_with("\r\n")
            && line.starts_with(name)
            && line.as_bytes().get(name.len()..name.len() + 2) == Some(b": ");
        is_ours.then_some(line)
    }

    /// The trimmed value, folds included.
    #[inline]
    pub fn value<'a>(&self, head: &'a str) -> &'a str {
        head.get(self.value as usize..self.end as usize)
            .unwrap_or("")
    }
}

impl HeaderIndex {
    pub fn new() -> Self {
        Self {
            inline: [BLANK; INLINE],
            spilled: Vec::new(),
            count: 0,
            first: [NONE; HeaderName::COUNT],
            last: [NONE; HeaderName::COUNT],
        }
    }

    /// Reads the lines of `head` from `at` on.
    ///
    /// # Errors
    /// The first line that breaks the grammar or a limit.
    pub fn read(&mut self, head: &str, at: usize, limits: &Limits) -> Result<(), ParseError> {
        let mut at = at;
        while at < head.len() {
            let end = logical_end(head.as_bytes(), at)?;
            self.line(head, at, end, limits)?;
            at = end + 2;
        }
        Ok(())
    }

    /// Reads what lines it can and skips the others.
    pub fn salvage(&mut self, head: &str, at: usize, limits: &Limits) {
        let mut at = at;
        while let Ok(end) = logical_end(head.as_bytes(), at) {
            let skipped = self.line(head, at, end, limits);
            if skipped == Err(ParseError::TooManyHeaders) {
                return;
            }
            at = end + 2;
        }
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub fn get(&self, at: usize) -> Option<&Line> {
        if at < INLINE {
            self.inline[..self.len().min(INLINE)].get(at)
        } else {
            self.spilled.get(at - INLINE)
        }
    }

    #[inline]
    pub fn first(&self, name: HeaderName) -> Option<&Line> {
        self.get(self.first[name as usize] as usize)
    }

    /// The number of the first line of this name.
    pub fn first_number(&self, name: HeaderName) -> Option<usize> {
        self.number(self.first[name as usize])
    }

    /// The number of the last line of this name.
    pub fn last_number(&self, name: HeaderName) -> Option<usize> {
        self.number(self.last[name as usize])
    }

    #[inline]
    pub fn next(&self, line: &Line) -> Option<&Line> {
        self.get(line.next as usize)
    }

    fn number(&self, at: u8) -> Option<usize> {
        Some(usize::from(at)).filter(|at| *at < self.len())
    }

    fn line(
        &mut self,
        head: &str,
        start: usize,
        end: usize,
        limits: &Limits,
    ) -> Result<(), ParseError> {
        if end - start > limits.line_bytes {
            return Err(ParseError::LineTooLong);
        }
        let line = head.as_bytes().get(..end).unwrap_or(&[]);
        let (name, value) = match known_name(line, start) {
            Some((name, colon)) => (name, value_of(line, colon)),
            None => {
                let (name_end, value) = split_line(line, start).ok_or(ParseError::HeaderLine)?;
                let name = line.get(start..name_end).unwrap_or(&[]);
                (HeaderName::of_bytes(name), value)
            }
        };
        self.push(name, start, value, limits)
    }

    fn push(
        &mut self,
        name: HeaderName,
        start: usize,
        value: Range<usize>,
        limits: &Limits,
    ) -> Result<(), ParseError> {
        let number = self.count;
        if number == LINES_MAX || self.len() >= limits.headers {
            return Err(ParseError::TooManyHeaders);
        }
        let line = Line {
            name,
            next: NONE,
            start: start as u16,
            value: value.start as u16,
            end: value.end as u16,
        };
        match self.inline.get_mut(number as usize) {
            Some(slot) => *slot = line,
            None => self.spilled.push(line),
        }
        self.count += 1;
        self.chain(name, number);
        Ok(())
    }

    fn chain(&mut self, name: HeaderName, number: u8) {
        let before = std::mem::replace(&mut self.last[name as usize], number) as usize;
        let before = match before < INLINE {
            true => self.inline.get_mut(before),
            false => self.spilled.get_mut(before.wrapping_sub(INLINE)),
        };
        match before {
            Some(line) => line.next = number,
            None => self.first[name as usize] = number,
        }
    }
}

/// A name that we know, right before the first colon: it needs no look at each of its letters.
#[inline]
fn known_name(line: &[u8], start: usize) -> Option<(HeaderName, usize)> {
    let colon = lex::find(line, start, b':')?;
    let name = HeaderName::of_bytes(line.get(start..colon)?);
    (name != HeaderName::Other).then_some((name, colon))
}

/// Where in `line`, which begins at `start`, its name ends and its value lies,
/// without the white space around them; `None` without a name or a colon.
fn split_line(line: &[u8], start: usize) -> Option<(usize, Range<usize>)> {
    let name_end = lex::run_end(line, start, TOKEN);
    let mut colon = name_end;
    while matches!(line.get(colon), Some(b' ' | b'\t')) {
        colon += 1;
    }
    if name_end == start || line.get(colon) != Some(&b':') {
        return None;
    }
    Some((name_end, value_of(line, colon)))
}

/// Where the value behind the colon lies.
#[inline]
fn value_of(line: &[u8], colon: usize) -> Range<usize> {
    let value = lex::run_end(line, colon + 1, SPACE);
    let mut end = line.len();
    while end > value && lex::is(line[end - 1], SPACE) {
        end -= 1;
    }
    value..end
}

/// Where the line that starts at `at` ends, its folded continuations included
/// and its last CRLF not.
fn logical_end(head: &[u8], at: usize) -> Result<usize, ParseError> {
    let mut from = at;
    loop {
        let feed = lex::find(head, from, b'\n').ok_or(ParseError::HeaderLine)?;
        if feed == at || head.get(feed - 1) != Some(&b'\r') {
            return Err(ParseError::HeaderLine);
        }
        if !matches!(head.get(feed + 1), Some(b' ' | b'\t')) {
            return Ok(feed - 1);
        }
        from = feed + 1;
    }
}

/// Lines kept without the heap.
const INLINE: usize = 32;
/// The highest number of lines; [`NONE`] is no line's number.
const LINES_MAX: u8 = 250;
const NONE: u8 = u8::MAX;
const BLANK: Line = Line {
    name: HeaderName::Other,
    next: NONE,
    start: 0,
    value: 0,
    end: 0,
};
const _: () = assert!(size_of::<Line>() == 8);
