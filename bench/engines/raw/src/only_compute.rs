//! Threads that share nothing and touch no memory: how much of each the machine gives.

use std::{hint::black_box, thread, time::Instant};

use kit::{Args, Output, Random};

pub fn run(args: &Args) {
    let (threads, steps) = (args.number("threads"), args.number("steps"));
    let begin = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|index| {
            (
                index,
                steps * index / threads..steps * (index + 1) / threads,
            )
        })
        .map(|(index, part)| thread::spawn(move || compute(index, part.end - part.start)))
        .collect();
    let done: u64 = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    let mut output = Output::default();
    output.figure("compute_ms", begin.elapsed().as_secs_f64() * 1e3);
    output.check("steps", done);
    output.finish();
}

/// Draws so many random numbers, and counts them.
fn compute(seed: u64, steps: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut done = 0;
    while done < steps {
        black_box(random.next());
        done += 1;
    }
    done
}
