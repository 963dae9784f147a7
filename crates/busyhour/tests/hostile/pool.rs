use crate::{
    bombs::{OnDrop, Sleep, bomb, pool, receive, until, works},
    watchdog::watched,
};
use busyhour::{
    pool::{JoinHandle, PoolBuildError, PushError, TaskPool},
    run_queue::Class,
    serializer::ShutdownGroup,
    task::{Executor, Task},
};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

#[test]
fn an_infinite_deadline_is_no_deadline() {
    watched("a shutdown whose deadline is beyond the clock", || {
        let pool = pool(1);
        let group = ShutdownGroup::new();
        let calls = pool.serializer("calls").group(&group).build();
        let calls = calls.expect("a serializer");
        calls.push(|| ()).expect("room");
        assert!(group.shutdown(Duration::MAX).is_clean());
        assert!(pool.shutdown(Duration::MAX).is_clean());
    });
}

#[test]
fn a_name_with_a_nul_byte_is_refused() {
    let refused = TaskPool::builder().name("a\0b").workers(1).build();
    let error = refused.map(drop).expect_err("no thread can have the name");
    assert!(matches!(&error, PoolBuildError::Name(name) if name == "a\0b"));
    assert!(error.to_string().contains("NUL"), "{error}");
}

/// If a stand-in left for lack of work while its worker is still blocked, later
/// tasks would wait for ever.
#[test]
fn a_stand_in_stays_as_long_as_it_is_needed() {
    watched("a worker blocks for longer than the idle timeout", || {
        let pool = TaskPool::builder().workers(1);
        let pool = pool.idle_timeout(Duration::from_millis(1)).build();
        let pool = pool.expect("a pool");
        let (sender, receiver) = mpsc::channel();
        let (blocks, blocked) = mpsc::channel();
        let inner = pool.clone();
        pool.push(move || {
            inner
                .blocking(|| {
                    blocks.send(()).expect("the test waits");
                    receiver.recv()
                })
                .expect("the later task runs");
        })
        .expect("room");
        receive(&blocked);
        // Long enough that the stand-in was idle many times.
        let began = std::time::Instant::now();
        until(|| began.elapsed() > Duration::from_millis(200));
        assert_eq!(pool.stats().worker_count, 2, "the stand-in has left");
        pool.push(move || sender.send(()).expect("the task waits for this"))
            .expect("room");
        assert!(pool.shutdown(Duration::from_secs(60)).is_clean());
    });
}

/// A worker blocks, returns and blocks again, while idle workers start and
/// leave.
#[test]
fn a_stand_in_that_is_about_to_leave_is_replaced() {
    watched("a worker blocks just as its stand-in retires", || {
        let pool = TaskPool::builder().workers(1).idle_timeout(Duration::ZERO);
        let pool = pool.build().expect("a pool");
        for _ in 0..2_000 {
            let (sender, receiver) = mpsc::channel();
            let inner = pool.clone();
            pool.push(move || {
                inner
                    .blocking(|| receiver.recv())
                    .expect("the message is sent below")
            })
            .expect("room");
            let processed = pool.stats().processed;
            pool.push(move || sender.send(()).expect("the task waits for this"))
                .expect("room");
            until(|| pool.stats().processed >= processed + 2);
        }
        works(&pool, 1);
    });
}

#[test]
fn a_stand_in_leaves_when_it_is_no_longer_needed() {
    watched("a stand-in stays for ever", || {
        let pool = TaskPool::builder().workers(1);
        let pool = pool.idle_timeout(Duration::from_millis(1)).build();
        let pool = pool.expect("a pool");
        let inner = pool.clone();
        let (later, (sender, receiver)) = (pool.clone(), mpsc::channel());
        pool.push(move || {
            inner.blocking(|| {
                let sends = move || sender.send(()).expect("the task waits for this");
                later.push(sends).expect("room");
                receiver.recv().expect("the stand-in sends");
            });
        })
        .expect("room");
        until(|| pool.stats().processed == 2);
        until(|| pool.stats().worker_count == 1);
        works(&pool, 1);
    });
}

/// A worker retires slowly while the last handle is dropped; the others fell
/// asleep when it still counted as one of them.
#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_retires_late_leaves_no_other_asleep() {
    use crate::bombs::{all_threads_end, threads_named};

    watched("a worker retires while the last handle goes", || {
        let (stops, stopping) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let pool = TaskPool::builder().name("leaver").workers(3).minimum(2);
        let pool = pool.idle_timeout(Duration::from_millis(1));
        let pool = pool.on_thread_stop(move || {
            // The first one to stop is delayed; the others find the channel closed.
            stops.send(()).ok();
            held.lock().map(|held| held.recv().ok()).ok();
        });
        let pool = pool.build().expect("a pool");
        receive(&stopping);
        drop(pool);
        // The two others have looked for work and sleep again, until they are woken.
        let began = std::time::Instant::now();
        until(|| began.elapsed() > Duration::from_millis(100));
        assert!(threads_named("leaver") > 0);
        drop(release);
        assert!(all_threads_end("leaver"), "some threads have not ended");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_pool_whose_last_handle_is_dropped_leaves_no_thread() {
    watched("pools come and go", || {
        for round in 0..300 {
            let pool = TaskPool::builder().name("short").workers(3).minimum(1);
            let pool = pool.idle_timeout(Duration::from_micros(round % 50));
            let pool = pool.build().expect("a pool");
            pool.push(|| ()).expect("room");
        }
        assert!(
            crate::bombs::all_threads_end("short"),
            "some threads have not ended"
        );
    });
}

/// The last handle is dropped by a task, which is also the last one to run.
#[test]
fn the_last_handle_may_be_dropped_inside_a_task() {
    watched("a task drops the last handle", || {
        let pool = pool(2);
        let (sender, receiver) = mpsc::channel();
        let (given, own) = (pool.clone(), pool.clone());
        pool.push(move || {
            let sleep = Sleep::default();
            let handle = own.spawn_as(Class::default(), sleep.clone().sleep());
            drop(own);
            let gone = OnDrop(move || sender.send(()).expect("the test waits"));
            given.push(move || drop(gone)).expect("it is open");
            drop(given);
            drop(handle);
        })
        .expect("room");
        drop(pool);
        receive(&receiver);
    });
}

/// What hostile code does, one after the other.
pub type Deed = (&'static str, fn(&TaskPool));

pub const DEEDS: [Deed; 7] = [
    ("panics", |_| panic!("on purpose")),
    ("pushes", |pool| {
        let _refused_once_sealed = pool.push(|| ());
    }),
    ("waits", |pool| drop(pool.push_wait(|| ()))),
    ("spawns and waits", |pool| drop(pool.spawn(async {}).wait())),
    ("blocks", |pool| pool.blocking(|| ())),
    ("makes a serializer", |pool| {
        drop(pool.ephemeral().push_wait(|| ()))
    }),
    ("shuts down", |pool| {
        drop(pool.shutdown(Duration::from_millis(1)));
    }),
];

/// Runs `case` with each deed, at the place of this name; each deed must be
/// done and must end.
fn each_deed(place: &str, case: impl Fn(&TaskPool, Act)) {
    for (deed, act) in DEEDS {
        let name: &'static str = format!("{place} {deed}").leak();
        watched(name, || {
            let pool = pool(2);
            let (inner, called) = (pool.clone(), Arc::new(AtomicU64::new(0)));
            let counts = Arc::clone(&called);
            case(
                &pool,
                Box::new(move || {
                    counts.fetch_add(1, Ordering::SeqCst);
                    act(&inner);
                }),
            );
            until(|| called.load(Ordering::SeqCst) > 0);
            if deed == "shuts down" {
                until(|| pool.push(|| ()) == Err(PushError::ShutDown));
                pool.shutdown(Duration::from_secs(60));
            } else {
                works(&pool, 2);
                until(|| pool.stats().panicked == u64::from(deed == "panics"));
            }
        });
    }
}

#[test]
fn closures_may_do_anything() {
    each_deed("a task", |pool, act| pool.push(act).expect("room"));
    each_deed("a serializer's task", |pool, act| {
        pool.ephemeral().push(act).expect("room");
    });
    each_deed("a task that is waited for", |pool, act| {
        drop(pool.push_wait(act))
    });
}

#[test]
fn captures_may_do_anything_when_dropped() {
    each_deed("a capture of a task", |pool, act| {
        let held = OnDrop(act);
        pool.push(move || drop(held)).expect("room");
    });
    each_deed(
        "a capture of a task that is not its argument",
        |pool, act| {
            let held = OnDrop(act);
            pool.push(move || {
                let _is_captured = &held;
            })
            .expect("room");
        },
    );
}

type Act = Box<dyn Fn() + Send + Sync>;
type Output = Pin<Box<dyn Future<Output = OnDrop<Act>> + Send>>;

/// Spawns a future that is ready once its handle is gone.
fn detach(spawn: impl FnOnce(Output) -> JoinHandle<OnDrop<Act>>, act: Act) {
    let (release, held) = mpsc::channel::<()>();
    let future = Box::pin(async move {
        held.recv().ok();
        OnDrop(act)
    });
    drop(spawn(future));
    drop(release);
}

#[test]
fn outputs_and_futures_may_do_anything_when_dropped() {
    each_deed("an output that nobody wants", |pool, act| {
        detach(|future| pool.spawn(future), act);
    });
    each_deed("an output of a class that nobody wants", |pool, act| {
        detach(|future| pool.spawn_as(Class::default(), future), act);
    });
    each_deed(
        "an output of a serializer that nobody wants",
        |pool, act| {
            detach(|future| pool.ephemeral().spawn(future), act);
        },
    );
    each_deed("a capture of a future", |pool, act| {
        let held = OnDrop(act);
        drop(pool.spawn_as(Class::default(), async move { drop(held) }));
    });
}

#[test]
fn thread_hooks_may_do_anything() {
    // If all workers wait for a worker, they wait for ever; so the hooks must
    // not do this.
    let deeds = DEEDS.iter().filter(|(deed, _)| *deed != "spawns and waits");
    for &(deed, act) in deeds {
        let name: &'static str = format!("a thread's hook {deed}").leak();
        watched(name, || {
            let shared: Arc<std::sync::OnceLock<TaskPool>> = Arc::default();
            let (at_start, at_stop) = (Arc::clone(&shared), Arc::clone(&shared));
            let called = Arc::new(AtomicU64::new(0));
            let (starts, stops) = (Arc::clone(&called), Arc::clone(&called));
            let pool = TaskPool::builder().workers(2);
            let pool = pool.on_thread_start(move || {
                starts.fetch_add(1, Ordering::SeqCst);
                act(at_start.wait());
            });
            let pool = pool.on_thread_stop(move || {
                stops.fetch_add(1, Ordering::SeqCst);
                act(at_stop.wait());
            });
            let pool = pool.build().expect("a pool");
            shared.set(pool.clone()).expect("set once");
            pool.shutdown(Duration::from_secs(60));
            until(|| called.load(Ordering::SeqCst) >= 4);
            until(|| pool.stats().worker_count == 0);
        });
    }
}

/// While a shutdown drops queued tasks, their captures panic, push and wait.
#[test]
fn tasks_that_a_shutdown_drops_may_do_anything() {
    for (deed, act) in DEEDS {
        let name: &'static str = format!("what a shutdown drops {deed}").leak();
        watched(name, || {
            let pool = pool(1);
            let (begun, begins) = mpsc::channel();
            let (release, held) = mpsc::channel::<()>();
            let blocker = move || {
                begun.send(()).expect("the test waits");
                held.recv().ok();
            };
            pool.push(blocker).expect("room");
            receive(&begins);
            let dropped = Arc::new(AtomicU64::new(0));
            let calls = pool.serializer("calls").build().expect("a serializer");
            let nameless = pool.ephemeral();
            for _ in 0..3 {
                let capture = || {
                    let (inner, counts) = (pool.clone(), Arc::clone(&dropped));
                    OnDrop(move || {
                        counts.fetch_add(1, Ordering::SeqCst);
                        act(&inner);
                    })
                };
                let (one, two, three) = (capture(), capture(), capture());
                pool.push(move || drop(one)).expect("room");
                calls.push(move || drop(two)).expect("room");
                nameless.push(move || drop(three)).expect("room");
            }
            let report = pool.shutdown(Duration::from_millis(1));
            assert_eq!(report.unfinished_workers, 1);
            if deed != "shuts down" {
                // Each task is in the report of one shutdown only.
                assert_eq!((report.not_run, report.left[0].not_run), (9, 3));
            }
            drop(release);
            until(|| dropped.load(Ordering::SeqCst) == 9);
            until(|| pool.stats().worker_count == 0);
        });
    }
}

#[test]
fn a_thread_hook_may_panic_when_it_is_dropped() {
    watched("the pool's own memory goes with a hook that panics", || {
        let bomb = bomb();
        let pool = TaskPool::builder().workers(1).on_thread_start(move || {
            let _held = &bomb;
        });
        let pool = pool.build().expect("a pool");
        let (sender, receiver) = mpsc::channel();
        pool.push(move || sender.send(()).expect("the test waits"))
            .expect("room");
        receive(&receiver);
        drop(pool);
    });
}

#[test]
fn a_shutdown_inside_the_only_worker_drains_what_waits_behind_it() {
    watched("the only worker shuts its pool down", || {
        let pool = pool(1);
        let (inner, ran) = (pool.clone(), Arc::new(AtomicU64::new(0)));
        let (queued, (reports, report)) = (Arc::new(thread::current()), mpsc::channel());
        let (begins, begun) = mpsc::channel::<()>();
        pool.push(move || {
            begun.recv().ok();
            let report = inner.shutdown(Duration::from_secs(60));
            reports.send(report).expect("the test waits");
        })
        .expect("room");
        for _ in 0..100 {
            let (ran, _held) = (Arc::clone(&ran), Arc::clone(&queued));
            pool.push(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .expect("room");
        }
        drop(begins);
        assert_eq!(receive(&report).not_run, 0);
        assert_eq!(ran.load(Ordering::SeqCst), 100);
    });
}

/// When a shutdown's deadline passes, its report names the tasks that were not run and
/// those that still run; no other task runs after it.
#[test]
fn a_shutdown_lists_what_it_does_not_run() {
    watched("a shutdown beside 100,000 tasks", || {
        let pool = pool(2);
        let (begun, begins) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let hold = || {
            let (begun, held) = (begun.clone(), Arc::clone(&held));
            move || {
                begun.send(()).expect("the test waits");
                held.lock().map(|held| held.recv().ok()).ok();
            }
        };
        let calls = pool.serializer("calls").capacity(100_000).build();
        let calls = calls.expect("a serializer");
        calls
            .execute(Task::labelled(&"call", hold()))
            .expect("room");
        pool.execute(Task::labelled(&"sweep", hold()))
            .expect("room");
        receive(&begins);
        receive(&begins);
        let nameless = pool.ephemeral();
        let ran = Arc::new(AtomicU64::new(0));
        let count = || {
            let ran = Arc::clone(&ran);
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        (0..99_000).for_each(|_| calls.push(count()).expect("room"));
        (0..600).for_each(|_| pool.push(count()).expect("room"));
        (0..400).for_each(|_| nameless.push(count()).expect("room"));
        let report = pool.shutdown(Duration::from_millis(10));
        assert_eq!((report.ran, report.not_run), (0, 100_000));
        assert_eq!(report.left.len(), 1);
        assert_eq!(
            (&*report.left[0].serializer, report.left[0].not_run),
            ("calls", 99_000)
        );
        assert_eq!(report.unnamed_not_run(), 1_000);
        let mut running: Vec<_> = (report.unfinished.iter())
            .map(|task| (&*task.serializer, task.label.as_deref()))
            .collect();
        running.sort_unstable();
        assert_eq!(running, [("", Some("sweep")), ("calls", Some("call"))]);
        assert_eq!(report.unfinished_workers, 2);
        drop(release);
        until(|| pool.stats().worker_count == 0);
        assert_eq!(ran.load(Ordering::SeqCst), 0, "ran after the deadline");
        let again = pool.shutdown(Duration::from_secs(60));
        assert!(again.is_clean() && again.unfinished.is_empty(), "{again:?}");
    });
}

/// A refused task may be run by the thread that pushed it, as some policies do.
#[test]
fn a_refused_task_run_within_another_keeps_the_label_of_that_one() {
    watched(
        "a task with a label runs a refused one with another",
        || {
            let pool = TaskPool::builder().workers(1).capacity(1).build();
            let pool = pool.expect("a pool");
            let (begins, begun) = mpsc::channel();
            let (release, held) = mpsc::channel::<()>();
            let inner = pool.clone();
            let outer = Task::labelled(&"outer", move || {
                inner.push(|| ()).expect("there is room for one task");
                let refused = inner.execute(Task::labelled(&"inner", || ()));
                refused.expect_err("it is full").task.run();
                begins.send(()).expect("the test waits");
                held.recv().ok();
            });
            pool.execute(outer).expect("room");
            receive(&begun);
            let report = pool.shutdown(Duration::ZERO);
            let labels: Vec<_> = report
                .unfinished
                .iter()
                .map(|one| one.label.as_deref())
                .collect();
            assert_eq!(labels, [Some("outer")]);
            drop(release);
            pool.shutdown(Duration::from_secs(60));
        },
    );
}
