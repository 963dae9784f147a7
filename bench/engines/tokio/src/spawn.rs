//! Tasks as spawned futures; a serializer as an actor, which is a task that reads a
//! channel.

use kit::{
    Args,
    tasks::{self, Pool, Serial},
};
use tokio::{
    runtime::Builder,
    sync::mpsc::{UnboundedSender, unbounded_channel},
};

pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    pub fn new(workers: u64) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers as usize)
            .build();
        Self(runtime.expect("a runtime"))
    }
}

impl Pool for Runtime {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn(async move { task() }));
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// An actor, by its mailbox.
struct Actor(UnboundedSender<Task>);

impl Serial for Actor {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        let _ = self.0.send(Box::new(task));
    }
}

pub fn pingpong(args: &Args) {
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime::new(args.number("workers"))));
    tasks::pingpong(args, |_| {
        let (sender, mut receiver) = unbounded_channel::<Task>();
        runtime.0.spawn(async move {
            while let Some(task) = receiver.recv().await {
                task();
            }
        });
        Actor(sender)
    });
}
