//! Tasks: closures that are moved in one cache line and run on the thread that
//! takes them.
//!
//! `cargo run --example task`

use busyhour::task::{Executor, Reason, Rejected, Task};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

/// An executor in ten lines: a bounded channel to a thread.
struct Mailbox(SyncSender<Task>);

impl Executor for Mailbox {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        self.0.try_send(task).map_err(|error| match error {
            TrySendError::Full(task) => Rejected {
                task,
                reason: Reason::Full,
            },
            TrySendError::Disconnected(task) => Rejected {
                task,
                reason: Reason::ShutDown,
            },
        })
    }
}

fn main() {
    let (sender, receiver) = sync_channel::<Task>(2);
    let mailbox = Mailbox(sender);
    for device in ["6001", "6002", "6003"] {
        let task = Task::labelled(&"greet", move || println!("device {device} registered"));
        if let Err(rejected) = mailbox.execute(task) {
            println!("{}: {:?} runs here instead", rejected.reason, rejected.task);
            rejected.task.run();
        }
    }
    drop(mailbox);
    receiver.into_iter().for_each(Task::run);
}
