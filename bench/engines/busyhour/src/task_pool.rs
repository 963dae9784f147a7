//! The pool and its serializers.

use busyhour::{pool::TaskPool, serializer::Serializer};
use kit::{Args, tasks};

pub struct Pool(TaskPool);

impl Pool {
    pub fn start(args: &Args) -> Self {
        let workers = args.number("workers") as usize;
        let pool = TaskPool::builder()
            .workers(workers)
            .minimum(workers)
            .maximum(workers);
        // Whoever pushes from outside is never told to wait, as in pools without a bound.
        let pool = match args.optional("n") {
            Some(tasks) => pool.capacity(tasks as usize),
            None => pool,
        };
        Self(pool.build().expect("a pool of this size"))
    }
}

impl tasks::Pool for Pool {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.push(task).expect("room in the pool");
    }
}

struct Ordered(Serializer);

impl tasks::Serial for Ordered {
    fn push(&'static self, task: impl FnOnce() + Send + 'static) {
        self.0.push(task).expect("room in the serializer");
    }
}

pub fn unordered_pingpong(args: &Args) {
    let pool: &'static Pool = Box::leak(Box::new(Pool::start(args)));
    tasks::pingpong(args, |_| tasks::Unordered(pool));
}

pub fn pingpong(args: &Args) {
    let pool: &'static Pool = Box::leak(Box::new(Pool::start(args)));
    tasks::pingpong(args, |number| {
        let serializer = pool.0.serializer(&format!("station-{number}")).build();
        Ordered(serializer.expect("a name of its own"))
    });
}
