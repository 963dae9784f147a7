//! The pure queue: values in the exact order of their deadlines.

mod timer_queue;
mod slots;
mod range_timer;
mod chunk;
mod order;
mod first_timer;
mod top;
mod ranges;
mod run;
mod gathered;
mod places;
mod rung;
mod slot_list;
mod bucket;
mod entry;

pub use slots::QueueHandle;
pub use timer_queue::TimerQueue;
