//! A topic: what a user gives it to call, in [`code`] by itself, and in the others together with the threads, executors
//! and wakers that bring it there.

mod around;
mod code;
mod waiting;
