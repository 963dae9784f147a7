//! A topic: what a user gives it to call, in [`code`] and [`small`] by itself, and in the others together with the threads, executors
//! and wakers that bring it there.

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
