//! Futures that yield, polled in a ring: what a turn costs that only polls inside a catch, with a
//! waker that notes whether the future goes on.

use std::{
    cell::Cell,
    collections::VecDeque,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use kit::{Args, run_queue::Switches};

thread_local! {
    static WOKEN: Cell<bool> = const { Cell::new(false) };
}

pub fn run(args: &Args) {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let stop = Arc::new(AtomicBool::new(false));
    let total = Arc::new(AtomicU64::new(0));
    let watch = std::thread::spawn({
        let (stop, total) = (Arc::clone(&stop), Arc::clone(&total));
        move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(ms)
                || total.load(Ordering::Relaxed) < 2 * rq
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        }
    });
    let ring =
        (0..rq).map(|_| -> Yielder { Box::pin(count(Arc::clone(&stop), Arc::clone(&total))) });
    let begin = Instant::now();
    let counts = poll_in_turns(ring.collect());
    let spent = begin.elapsed();
    watch.join().expect("it only waits");
    Switches { counts, spent }.report(None);
}

type Yielder = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Polls each until it ends; returns what they counted.
fn poll_in_turns(mut ring: VecDeque<Yielder>) -> Vec<u64> {
    let waker = Waker::from(Arc::new(Note));
    let mut context = Context::from_waker(&waker);
    let mut counts = Vec::new();
    while let Some(mut future) = ring.pop_front() {
        let poll = || future.as_mut().poll(&mut context);
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(count)) => counts.push(count),
            Ok(Poll::Pending) if WOKEN.take() => ring.push_back(future),
            _ => unreachable!("each wakes itself, and none panics"),
        }
    }
    counts
}

struct Note;

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        WOKEN.set(true);
    }
}

/// Counts how often the future was switched to.
async fn count(stop: Arc<AtomicBool>, total: Arc<AtomicU64>) -> u64 {
    let mut own_count = 0;
    while !stop.load(Ordering::Relaxed) {
        own_count += 1;
        total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Yield(false).await;
    }
    own_count
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
