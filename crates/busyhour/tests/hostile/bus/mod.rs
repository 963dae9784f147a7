//! A topic and hostile user code: [`code`] and [`small`] test what a topic calls, alone;
//! the other files test it together with threads, executors and wakers.

mod around;
mod code;
mod small;
mod waiting;

use busyhour::bus::Event;

/// An event that does nothing by itself.
#[derive(Clone)]
struct Number(u32);

impl Event for Number {
    type Key = u32;

    fn key(&self) -> &u32 {
        &self.0
    }
}
