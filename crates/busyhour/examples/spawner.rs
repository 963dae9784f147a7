//! The pool as the executor of libraries that want one: hyper's `Executor`, and `Spawn` of the
//! `futures` crates. What computes runs there too, with a priority of its own, so that it holds
//! up no connection.
//!
//!     cargo run --release --example spawner

use busyhour::{
    pool::{JoinHandle, TaskPool},
    run_queue::{Class, Priority},
    runtime::Runtime,
};
use futures_task::{FutureObj, Spawn, SpawnError};
use std::{error::Error, future::Future, time::Duration};

/// Spawns on a pool in a class. hyper and the `futures` crates know it as their executor.
#[derive(Clone)]
struct OnPool {
    pool: TaskPool,
    class: Class,
}

/// hyper keeps no handle of what it spawns: a dropped handle lets the future go on.
impl<F> hyper::rt::Executor<F> for OnPool
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.pool.spawn_as(self.class, future));
    }
}

impl Spawn for OnPool {
    fn spawn_obj(&self, future: FutureObj<'static, ()>) -> Result<(), SpawnError> {
        // The bound of the pool holds here, as the trait can tell of it.
        let spawned = self.pool.try_spawn(future).map(drop);
        spawned.map_err(|_| SpawnError::shutdown())
    }
}

/// Work of the processor: behind all that serves connections, on what they leave over.
fn compute<R: Send + 'static>(
    pool: &TaskPool,
    work: impl FnOnce() -> R + Send + 'static,
) -> JoinHandle<R> {
    pool.spawn_as(Class::Normal(Priority::MIN), async move { work() })
}

/// Stands for a library that takes any executor of hyper's kind.
fn serve(executor: &impl hyper::rt::Executor<JoinHandle<u64>>, request: JoinHandle<u64>) {
    executor.execute(request);
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let connections = OnPool {
        pool: runtime.pool().clone(),
        class: Class::Normal(Priority::MAX),
    };
    let squares = compute(runtime.pool(), || (1..=1_000_u64).map(|n| n * n).sum());
    serve(&connections, runtime.pool().spawn(async { 1 }));
    let (sender, receiver) = std::sync::mpsc::channel();
    let answer = async move {
        let sum = squares.await.unwrap_or(0);
        _ = sender.send(sum);
    };
    let spawned = connections.spawn_obj(FutureObj::new(Box::new(answer)));
    // The error is one of the standard library's only with the feature `std` of its crate.
    spawned.map_err(|error| error.to_string())?;
    println!("the sum of a thousand squares is {}", receiver.recv()?);
    println!("{}", runtime.describe());
    assert!(runtime.shutdown(Duration::from_secs(5)).is_clean());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_runs() {
        super::main().unwrap();
    }
}
