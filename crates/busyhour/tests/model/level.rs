//! The event of most tests of the bus: the volume level of a line.

use busyhour::bus::{Event, Published, Topic};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub line: u32,
    pub level: u32,
}

impl Event for Level {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.line
    }
}

pub fn level(line: u32, level: u32) -> Level {
    Level { line, level }
}

pub fn cached() -> Topic<Level> {
    Topic::builder("levels").cached().build()
}

pub const fn delivered(delivered: u64) -> Published {
    Published {
        delivered,
        lost: 0,
        refused: false,
    }
}
