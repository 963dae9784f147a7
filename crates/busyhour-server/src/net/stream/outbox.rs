use busyhour::buffer::Buffer;
use std::{collections::VecDeque, io::IoSlice};

/// What waits to be sent on one connection, in order and bounded.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: VecDeque<Buffer>,
    /// Bytes of the first that have left.
    gone: usize,
    len_bytes: usize,
    bytes_max: usize,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            gone: 0,
            len_bytes: 0,
            bytes_max,
        }
    }

    /// `false`, and nothing is taken, when it would not fit.
    pub(super) fn push(&mut self, message: Buffer) -> bool {
        let len_bytes = self.len_bytes + message.len();
        let fits = len_bytes <= self.bytes_max;
        if fits && !message.is_empty() {
            self.len_bytes = len_bytes;
            self.waiting.push_back(message);
        }
        fits
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first pieces, for one system call.
    pub(super) fn pieces(&self) -> Vec<IoSlice<'_>> {
        let mut gone = self.gone;
        let pieces = self.waiting.iter().take(PIECES_MAX);
        let rest = pieces.map(|message| {
            let rest = message.get(gone..).unwrap_or_default();
            gone = 0;
            IoSlice::new(rest)
        });
        rest.collect()
    }

    /// Forgets the first `count` bytes, which have left.
    pub(super) fn advance(&mut self, count: usize) {
        self.gone += count;
        self.len_bytes -= count.min(self.len_bytes);
        while let Some(first) = self.waiting.front().filter(|one| one.len() <= self.gone) {
            self.gone -= first.len();
            self.waiting.pop_front();
        }
    }
}

const PIECES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::buffer::BufferPool;

    #[test]
    fn it_is_bounded_and_goes_on_within_a_message() {
        let buffers = BufferPool::builder().build().unwrap();
        let mut outbox = Outbox::new(6);
        assert!(outbox.push(buffers.copy_from(b"abcd").unwrap()));
        assert!(!outbox.push(buffers.copy_from(b"xyz").unwrap()));
        assert!(outbox.push(buffers.copy_from(b"ef").unwrap()));
        outbox.advance(3);
        let left: Vec<u8> = outbox.pieces().iter().flat_map(|p| p.to_vec()).collect();
        assert_eq!(left, b"def");
        assert!(outbox.push(buffers.copy_from(b"gh").unwrap()));
        outbox.advance(5);
        assert!(outbox.is_empty());
        drop(outbox);
        assert_eq!(buffers.live_count(), 0);
    }
}
