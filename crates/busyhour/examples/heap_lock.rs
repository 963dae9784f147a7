//! Whether a lock for readers would be worth it for `heap::Locked`: threads that look at the
//! top of a shared heap under a mutex and under a reader-writer lock, and change it now and
//! then. Prints the time of a look, and the ratio of both.
//!
//!     cargo run --release --package busyhour --example heap_lock

use busyhour::heap::Heap;
use std::{
    hint::black_box,
    sync::{Arc, Mutex, RwLock},
    thread,
    time::Instant,
};

fn main() {
    for looks_a_change in [0, 100, 10] {
        for threads in [1, 2] {
            let mut runs: Vec<[f64; 2]> = (0..RUNS)
                .map(|_| {
                    [
                        mutex(threads, looks_a_change),
                        shared(threads, looks_a_change),
                    ]
                })
                .collect();
            runs.sort_by(|one, other| (one[1] / one[0]).total_cmp(&(other[1] / other[0])));
            let ratio = |run: [f64; 2]| run[1] / run[0];
            println!(
                "{threads} threads, a change every {looks_a_change} looks (0: none): mutex {:.1} ns, \
                 reader-writer lock {:.1} ns, {:.2} times as long ({:.2}–{:.2})",
                runs[RUNS / 2][0],
                runs[RUNS / 2][1],
                ratio(runs[RUNS / 2]),
                ratio(runs[0]),
                ratio(runs[RUNS - 1])
            );
        }
    }
}

fn heap() -> Heap<u64> {
    let mut heap = Heap::min();
    for entry in 0..1000 {
        heap.push(entry);
    }
    heap
}

fn change(heap: &mut Heap<u64>) {
    if let Some(first) = heap.pop() {
        heap.push(first + 1);
    }
}

fn look(heap: &Heap<u64>) {
    black_box(heap.peek());
}

fn mutex(threads: usize, looks_a_change: u64) -> f64 {
    let heap = Arc::new(Mutex::new(heap()));
    time(threads, move |number| {
        match is_change(number, looks_a_change) {
            true => change(&mut heap.lock().expect("no panic")),
            false => look(&heap.lock().expect("no panic")),
        }
    })
}

fn shared(threads: usize, looks_a_change: u64) -> f64 {
    let heap = Arc::new(RwLock::new(heap()));
    time(threads, move |number| {
        match is_change(number, looks_a_change) {
            true => change(&mut heap.write().expect("no panic")),
            false => look(&heap.read().expect("no panic")),
        }
    })
}

fn is_change(number: u64, looks_a_change: u64) -> bool {
    looks_a_change > 0 && number % looks_a_change == 0
}

/// Nanoseconds of one.
fn time(threads: usize, one: impl Fn(u64) + Clone + Send + 'static) -> f64 {
    let begin = Instant::now();
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let one = one.clone();
            thread::spawn(move || (0..LOOKS).for_each(one))
        })
        .collect();
    let count = threads.len();
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    begin.elapsed().as_nanos() as f64 / (LOOKS * count as u64) as f64
}

const LOOKS: u64 = 2_000_000;
const RUNS: usize = 7;
