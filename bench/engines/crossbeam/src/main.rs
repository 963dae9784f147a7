//! A simple pool: threads that read one channel.

use crossbeam_channel::{Sender, unbounded};
use kit::{
    Args,
    args::refuse,
    serial::Serializer,
    tasks::{self, Pool},
};

type Task = Box<dyn FnOnce() + Send>;

struct ChannelPool(Sender<Task>);

impl ChannelPool {
    fn start(args: &Args) -> Self {
        let (sender, receiver) = unbounded::<Task>();
        for _ in 0..args.number("workers") {
            let receiver = receiver.clone();
            std::thread::spawn(move || receiver.into_iter().for_each(|task| task()));
        }
        Self(sender)
    }
}

impl Pool for ChannelPool {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        let _ = self.0.send(Box::new(task));
    }
}

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "pool-requeue" => tasks::requeue(&args, ChannelPool::start(&args)),
        "pool-external" => tasks::external(&args, ChannelPool::start(&args)),
        "serializer-pingpong" => pingpong(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn pingpong(args: &Args) {
    let pool: &'static ChannelPool = Box::leak(Box::new(ChannelPool::start(args)));
    tasks::pingpong(args, |_| Serializer::new(pool));
}
