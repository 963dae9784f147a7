//! The runtime is shut down, or its last handle dropped, from inside of everything that
//! it runs.

use crate::watchdog::watched;
use busyhour::{
    pool::TaskPool,
    runtime::Runtime,
    task::{Executor, Rejected, Task},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Runtime::builder().workers(2).build().unwrap()
}

/// Runs everything at once, on the driver's thread.
#[derive(Clone)]
struct Inline;

impl Executor for Inline {
    fn execute(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// Runs a closure once, when it is woken or dropped.
struct Once<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Once<F> {
    fn new(run: F) -> Self {
        Self(Mutex::new(Some(run)))
    }

    fn run(&self) {
        let run = self.0.lock().unwrap().take();
        if let Some(run) = run {
            run();
        }
    }
}

impl<F: FnOnce() + Send + 'static> Wake for Once<F> {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

struct OnDrop<F: FnOnce() + Send>(Once<F>);

impl<F: FnOnce() + Send> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0.run();
    }
}

type Deed = Box<dyn FnOnce() + Send>;
/// Makes the runtime run the deed in one kind of place.
type Site = fn(&Runtime, Deed);

const SITES: &[(&str, Site)] = &[
    ("a task", |runtime, deed| runtime.pool().push(deed).unwrap()),
    ("a serializer's task", |runtime, deed| {
        runtime
            .serializer("lane")
            .build()
            .unwrap()
            .push(deed)
            .unwrap();
    }),
    ("a future", |runtime, deed| {
        let _joined = runtime.pool().spawn(async move { deed() });
    }),
    ("a callback on the pool", |runtime, deed| {
        let pool = runtime.pool().clone();
        runtime.timers().after(Duration::ZERO, &pool, deed);
    }),
    ("a callback on the driver's thread", |runtime, deed| {
        runtime.timers().after(Duration::ZERO, &Inline, deed);
    }),
    ("the drop of a callback", |runtime, deed| {
        let held = OnDrop(Once::new(deed));
        let timer = runtime.timers().after(LONG, &Inline, move || drop(held));
        let _prevented = runtime.timers().cancel(&timer);
    }),
    ("a waker", |runtime, deed| {
        let waker = Waker::from(Arc::new(Once::new(deed)));
        let mut sleep = runtime.timers().sleep(Duration::from_millis(50));
        let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            waker.wake();
        } else {
            // Dropping the sleep would cancel it.
            std::mem::forget(sleep);
        }
    }),
];

#[test]
fn a_shutdown_ends_from_anywhere() {
    for &(name, site) in SITES {
        for deadline in [Duration::ZERO, LONG] {
            watched(name, || {
                let (runtime, (done, waiting)) = (runtime(), mpsc::channel());
                let inner = runtime.clone();
                let shut_down = move || {
                    let report = inner.shutdown(deadline);
                    done.send(report.unfinished_workers).unwrap();
                };
                site(&runtime, Box::new(shut_down));
                let _unfinished = waiting.recv().expect("it returns");
                assert!(
                    runtime.pool().push(|| ()).is_err(),
                    "{name}: it is shut down"
                );
                let again = runtime.shutdown(LONG);
                assert_eq!(again.unfinished_workers, 0, "{name}");
            });
        }
    }
}

#[test]
fn the_last_handle_may_be_dropped_anywhere() {
    for &(name, site) in SITES {
        watched(name, || {
            let (runtime, (done, waiting)) = (runtime(), mpsc::channel());
            let last = Arc::new(Mutex::new(Some(runtime.clone())));
            let (held, (gone, is_gone)) = (Arc::clone(&last), mpsc::channel::<()>());
            let drop_it = move || {
                is_gone.recv().unwrap();
                let runtime = held.lock().unwrap().take();
                drop(runtime);
                done.send(()).unwrap();
            };
            if name == "the drop of a callback" {
                gone.send(()).unwrap();
            }
            site(&runtime, Box::new(drop_it));
            drop(runtime);
            let _dropped_already = gone.send(());
            waiting.recv().expect("it returns");
            assert!(last.lock().unwrap().is_none());
        });
    }
}

#[test]
fn several_shutdowns_at_once_all_end() {
    watched("several shutdowns", || {
        let runtime = runtime();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(runtime.shutdown(LONG).unfinished_workers, 0));
            }
        });
    });
}

/// A waker that does not return blocks the driver's thread; it delays no shutdown beyond
/// its deadline.
#[test]
fn a_waker_that_does_not_return_delays_no_shutdown() {
    watched("a waker that does not return", || {
        let runtime = runtime();
        let (begun, begins) = mpsc::channel();
        let (hold, held) = mpsc::channel::<()>();
        runtime.timers().after(Duration::ZERO, &Inline, move || {
            begun.send(()).unwrap();
            let _released = held.recv();
        });
        begins.recv().unwrap();
        let report = runtime.shutdown(Duration::from_millis(10));
        assert_eq!(report.not_run, 0);
        drop(hold);
    });
}

#[test]
fn hooks_of_threads_may_use_the_runtimes_statistics() {
    watched("hooks of threads", || {
        let shared = Arc::new(Mutex::new(None::<Runtime>));
        let inner = Arc::clone(&shared);
        let look = move || {
            if let Some(runtime) = &*inner.lock().unwrap() {
                let _stats = runtime.stats();
            }
        };
        let options = TaskPool::builder().workers(2).on_thread_stop(look);
        let runtime = Runtime::builder().pool(options).build().unwrap();
        *shared.lock().unwrap() = Some(runtime.clone());
        assert!(runtime.shutdown(LONG).is_clean());
        *shared.lock().unwrap() = None;
    });
}
