//! rayon's pool; it has no serializers, so this adds a simple one.

use kit::{
    Args,
    args::refuse,
    serial::Serializer,
    tasks::{self, Pool},
};
use rayon::{ThreadPool, ThreadPoolBuilder};

struct Rayon(ThreadPool);

impl Rayon {
    fn new(args: &Args) -> Self {
        let pool = ThreadPoolBuilder::new()
            .num_threads(args.number("workers") as usize)
            .build();
        Self(pool.expect("a pool"))
    }
}

impl Pool for Rayon {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn_fifo(task);
    }
}

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "pool-requeue" => tasks::requeue(&args, Rayon::new(&args)),
        "pool-external" => tasks::external(&args, Rayon::new(&args)),
        "serializer-pingpong" => pingpong(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn pingpong(args: &Args) {
    let pool: &'static Rayon = Box::leak(Box::new(Rayon::new(args)));
    tasks::pingpong(args, |_| Serializer::new(pool));
}
