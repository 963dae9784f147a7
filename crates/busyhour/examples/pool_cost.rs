//! Repeats one use of a pool of one worker as often as given, and nothing
//! else, for `scripts/count.sh pool`, which counts instructions. The clock
//! stands still, so that every run takes the same turns.
//!
//!     pool_cost WAY COUNT

use busyhour::{
    clock::{Clock, UnixTime},
    keyed::Keyed,
    pool::{JoinHandle, TaskPool, yield_now},
    run_queue::Class,
    serializer::Serializer,
    timer::Timers,
};
use std::{
    env,
    process::exit,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::sleep,
    time::Duration,
};

fn main() {
    let mut words = env::args().skip(1);
    let way = words.next().unwrap_or_default();
    let count = words.next().and_then(|word| word.parse::<u64>().ok());
    let count = count.unwrap_or_else(|| refuse("COUNT is a number"));
    let repeat: fn(&TaskPool, u64) = match way.as_str() {
        "push" => push,
        "requeue" => requeue,
        "push-outside" => push_outside,
        "yield-2" => |pool, count| take_turns(pool, 2, count),
        "yield-4" => |pool, count| take_turns(pool, 4, count),
        "ping-pong" => ping_pong,
        "serializer-outside" => serializer_outside,
        "serializer-run" => serializer_run,
        "keyed" => keyed_push,
        "keyed-handle" => keyed_handle,
        "keyed-run" => keyed_run,
        other => refuse(&format!("no such way: {other:?}")),
    };
    let clock = Clock::simulated(UnixTime::default());
    let builder = TaskPool::builder().workers(1).clock(clock);
    let pool = builder
        .build()
        .unwrap_or_else(|why| refuse(&why.to_string()));
    repeat(&pool, count);
}

/// Each task pushes the next one.
fn push(pool: &TaskPool, count: u64) {
    let (ended, end) = channel();
    push_next(pool.clone(), count, ended);
    let _ended = end.recv();
}

fn push_next(pool: TaskPool, left: u64, ended: Sender<()>) {
    if left == 0 {
        let _main_waits = ended.send(());
        return;
    }
    let next = pool.clone();
    let pushed = pool.push(move || push_next(next, left - 1, ended));
    pushed.unwrap_or_else(|why| refuse(&why.to_string()));
}

/// The same as a program does it that keeps its pool and its counts for good.
fn requeue(pool: &TaskPool, count: u64) {
    static LEFT: AtomicU64 = AtomicU64::new(0);
    static ENDED: AtomicBool = AtomicBool::new(false);
    fn again(pool: &'static TaskPool) {
        if LEFT.fetch_sub(1, Ordering::Relaxed) <= 1 {
            return ENDED.store(true, Ordering::Release);
        }
        let pushed = pool.push(move || again(pool));
        pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    }

    LEFT.store(count, Ordering::Relaxed);
    again(Box::leak(Box::new(pool.clone())));
    while !ENDED.load(Ordering::Acquire) {
        sleep(Duration::from_millis(1));
    }
}

/// The main thread pushes all tasks, then the worker runs them.
fn push_outside(pool: &TaskPool, count: u64) {
    let go = hold(pool);
    for _ in 0..count {
        pool.push(|| ())
            .unwrap_or_else(|why| refuse(&why.to_string()));
    }
    end(pool, go);
}

/// So many futures that yield in a loop; a use is one turn of one of them.
fn take_turns(pool: &TaskPool, futures: u64, count: u64) {
    let go = hold(pool);
    let count_own = || async move {
        for _ in 0..count / futures {
            yield_now().await;
        }
    };
    let handles = (0..futures).map(|_| pool.spawn_as(Class::default(), count_own()));
    let handles: Vec<_> = handles.collect();
    drop(go);
    for handle in handles {
        let ended = handle.wait();
        ended.unwrap_or_else(|why| refuse(&why.to_string()));
    }
}

/// Two serializers push a task to each other; a use is one task.
fn ping_pong(pool: &TaskPool, count: u64) {
    let (ended, end) = channel();
    hit(pool.ephemeral(), pool.ephemeral(), count, ended);
    let _ended = end.recv();
}

fn hit(to: Serializer, from: Serializer, left: u64, ended: Sender<()>) {
    if left == 0 {
        let _main_waits = ended.send(());
        return;
    }
    let target = to.clone();
    let pushed = target.push(move || hit(from, to, left - 1, ended));
    pushed.unwrap_or_else(|why| refuse(&why.to_string()));
}

/// As `push_outside`, to one of 64 serializers after the other.
fn serializer_outside(pool: &TaskPool, count: u64) {
    let go = hold(pool);
    let serializers: Vec<_> = (0..64).map(|_| pool.ephemeral()).collect();
    for serializer in serializers.iter().cycle().take(count as usize) {
        let pushed = serializer.push(|| ());
        pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    }
    end(pool, go);
}

/// As `serializer_outside`, with the result of each task, which is taken once all have run.
fn serializer_run(pool: &TaskPool, count: u64) {
    let go = hold(pool);
    let serializers: Vec<_> = (0..64).map(|_| pool.ephemeral()).collect();
    let mut handles = Vec::with_capacity(count as usize);
    for serializer in serializers.iter().cycle().take(count as usize) {
        let handle = serializer.run(|| 1_u64);
        handles.push(handle.unwrap_or_else(|why| refuse(&why.to_string())));
    }
    end(pool, go);
    take(handles, count);
}

/// As `serializer_outside`, by 64 keys that are there.
fn keyed_push(pool: &TaskPool, count: u64) {
    let keys = keys(pool);
    let go = hold(pool);
    for key in (0..KEYS).cycle().take(count as usize) {
        let pushed = keys.push(&key, |runs| *runs += 1);
        pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    }
    end(pool, go);
}

/// The same by handles of the keys, which need no search.
fn keyed_handle(pool: &TaskPool, count: u64) {
    let keys = keys(pool);
    let handles = (0..KEYS).map(|key| keys.key(&key));
    let handles: Result<Vec<_>, _> = handles.collect();
    let handles = handles.unwrap_or_else(|why| refuse(&why.to_string()));
    let go = hold(pool);
    for handle in handles.iter().cycle().take(count as usize) {
        let pushed = handle.push(|runs| *runs += 1);
        pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    }
    end(pool, go);
}

/// As `serializer_run`, by 64 keys that are there.
fn keyed_run(pool: &TaskPool, count: u64) {
    let keys = keys(pool);
    let go = hold(pool);
    let mut handles = Vec::with_capacity(count as usize);
    for key in (0..KEYS).cycle().take(count as usize) {
        let handle = keys.run(&key, |runs| {
            *runs += 1;
            1_u64
        });
        handles.push(handle.unwrap_or_else(|why| refuse(&why.to_string())));
    }
    end(pool, go);
    take(handles, count);
}

/// Each with a count of its tasks.
fn keys(pool: &TaskPool) -> Keyed<u64, u64> {
    let clock = Clock::simulated(UnixTime::default());
    let timers = Timers::builder().clock(clock).build();
    let template = pool.serializer("key").template();
    let template = template.unwrap_or_else(|why| refuse(&why.to_string()));
    let keys = Keyed::<u64>::builder(&template, &timers).with_state(|_| 0_u64);
    let keys = keys.build();
    for key in 0..KEYS {
        let pushed = keys.push_wait(&key, |runs| *runs += 1);
        pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    }
    keys
}

fn take(handles: Vec<JoinHandle<u64>>, count: u64) {
    let results = handles.into_iter().filter_map(|handle| handle.wait().ok());
    if results.sum::<u64>() != count {
        refuse("a task has not run");
    }
}

const KEYS: u64 = 64;

/// Keeps the worker busy until the sender is dropped.
fn hold(pool: &TaskPool) -> Sender<()> {
    let (go, wait): (Sender<()>, Receiver<()>) = channel();
    let (begun, begins) = channel();
    let pushed = pool.push(move || {
        let _main_waits = begun.send(());
        let _dropped = wait.recv();
    });
    pushed.unwrap_or_else(|why| refuse(&why.to_string()));
    let _begun = begins.recv();
    go
}

fn end(pool: &TaskPool, go: Sender<()>) {
    drop(go);
    let _report = pool.shutdown(Duration::from_secs(60));
}

fn refuse(why: &str) -> ! {
    eprintln!("{why}; usage: pool_cost WAY COUNT");
    exit(2)
}
