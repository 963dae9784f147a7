//! Values and wakers that the hostile cases are made of.

use busyhour::pool::TaskPool;
use std::{
    sync::{Arc, Mutex, PoisonError, mpsc},
    task::{Wake, Waker},
    thread,
    time::{Duration, Instant},
};

/// Runs its closure when it is dropped.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Panics when it is dropped.
pub fn bomb() -> OnDrop<impl FnMut() + Send + Sync> {
    OnDrop(|| panic!("on purpose, in a drop"))
}

/// A waker that panics when it is woken; it may be cloned.
pub fn waker_that_panics() -> Waker {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose, in a waker");
        }
    }
    Waker::from(Arc::new(Panics))
}

/// Keeps a waker, and wakes it only when it is told to.
#[derive(Clone, Default)]
pub struct Sleep(Arc<Mutex<Option<Waker>>>);

impl Sleep {
    /// Never ready; keeps its waker.
    pub async fn sleep(self) {
        std::future::poll_fn(|context| {
            let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some(context.waker().clone());
            std::task::Poll::<()>::Pending
        })
        .await;
    }

    pub fn waker(&self) -> Option<Waker> {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.clone()
    }

    /// Waits until the future sleeps; returns its waker.
    pub fn await_waker(&self) -> Waker {
        loop {
            if let Some(waker) = self.waker() {
                return waker;
            }
            thread::yield_now();
        }
    }
}

pub fn pool(workers: usize) -> TaskPool {
    let pool = TaskPool::builder().workers(workers);
    pool.build().expect("a pool")
}

/// Checks what must work after each case: plain tasks, serializers, futures, and as many
/// workers as before.
pub fn works(pool: &TaskPool, workers: u64) {
    assert_eq!(pool.push_wait(|| 6 * 7), Ok(42));
    assert_eq!(pool.ephemeral().push_wait(|| 6 * 7), Ok(42));
    assert_eq!(pool.spawn(async { 6 * 7 }).wait(), Ok(42));
    // A stand-in may still be there.
    assert!(pool.stats().worker_count >= workers);
}

/// Waits until `is_so`; if that never happens, the watchdog ends the process.
pub fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Waits for a message; panics after a minute.
pub fn receive<T>(receiver: &mpsc::Receiver<T>) -> T {
    let received = receiver.recv_timeout(Duration::from_secs(60));
    received.expect("a message within a minute")
}

/// The number of threads of this process whose name begins with `prefix`.
#[cfg(target_os = "linux")]
pub fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let names = tasks.filter_map(|task| {
        let path = task.ok()?.path().join("comm");
        std::fs::read_to_string(path).ok()
    });
    names.filter(|name| name.starts_with(prefix)).count()
}

/// Waits until no thread has a name that begins with `prefix`; returns false
/// after a minute.
#[cfg(target_os = "linux")]
pub fn all_threads_end(prefix: &str) -> bool {
    let began = Instant::now();
    while threads_named(prefix) > 0 {
        if began.elapsed() > Duration::from_secs(60) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}
