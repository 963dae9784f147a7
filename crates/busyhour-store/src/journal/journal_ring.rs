//! Where records lie: one behind the other, and again from the begin when the rest is too short.

/// Which bytes of a journal have records that are still needed.
#[derive(Debug, Clone)]
pub(crate) struct JournalRing {
    len: u64,
    /// Where the next record goes, if there is room.
    head: u64,
    /// Where the oldest record begins that is needed, or the one before it ended.
    tail: u64,
    is_empty: bool,
}

impl JournalRing {
    /// In a file of `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        Self {
            len,
            head: RING_BEGIN,
            tail: RING_BEGIN,
            is_empty: true,
        }
    }

    /// Where a record of `len` bytes may be written; `None` if there is no room.
    pub(crate) fn place(&self, len: u64) -> Option<u64> {
        let is_wrapped = !self.is_empty && self.tail >= self.head;
        let end = if is_wrapped { self.tail } else { self.len };
        if len <= end.saturating_sub(self.head) {
            return Some(self.head);
        }
        let room_at_begin = match (is_wrapped, self.is_empty) {
            (true, _) => 0,
            (false, true) => self.len.saturating_sub(RING_BEGIN),
            (false, false) => self.tail.saturating_sub(RING_BEGIN),
        };
        (len <= room_at_begin).then_some(RING_BEGIN)
    }

    /// A record was written where [`place`](Self::place) said. Returns where it ends.
    pub(crate) fn fill(&mut self, at: u64, len: u64) -> u64 {
        if self.is_empty {
            self.tail = at;
        }
        self.head = at + len;
        self.is_empty = false;
        self.head
    }

    /// Records that end there, or before, are needed no more; `is_all` says that there is no newer one. The
    /// places cannot tell: the newest record of a full ring ends where one ended that was released before.
    pub(crate) fn release_until(&mut self, end: u64, is_all: bool) {
        self.tail = end;
        self.is_empty = is_all;
    }

    /// From the oldest record that is needed to the end of the newest.
    pub(crate) fn used(&self) -> u64 {
        match (self.is_empty, self.head > self.tail) {
            (true, _) => 0,
            (false, true) => self.head - self.tail,
            (false, false) => self.room() - (self.tail - self.head),
        }
    }

    /// All that records can have.
    pub(crate) fn room(&self) -> u64 {
        self.len.saturating_sub(RING_BEGIN)
    }
}

/// Behind the header, which has the first sector.
pub(crate) const RING_BEGIN: u64 = 512;
