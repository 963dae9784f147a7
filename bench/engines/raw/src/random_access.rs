//! Dependent loads: the address of each load depends on the result of the one
//! before, so that no two overlap.

use std::{hint::black_box, time::Instant};

use kit::{Args, Output, Random};

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

pub fn run(args: &Args) {
    let (bytes, loads) = (args.number("bytes"), args.number("loads"));
    let count = (bytes / size_of::<Line>() as u64)
        .max(1)
        .next_power_of_two();
    // Each page is written; otherwise all of them would be one page of zeros.
    let lines: Vec<Line> = (0..count).map(|_| Line([black_box(0); 8])).collect();
    let mut random = Random::new(args.optional("seed").unwrap_or(1));
    let begin = Instant::now();
    let found = chase(&lines, loads, &mut random);
    let spent = begin.elapsed();
    let mut output = Output::default();
    output.figure(
        "random_access_ns",
        spent.as_nanos() as f64 / loads as f64 - generator_ns(loads),
    );
    output.check("loads", loads - found);
    output.finish();
}

/// The sum of the loaded values, which is zero. The compiler does not know that, so each
/// address waits for the load before.
fn chase(lines: &[Line], loads: u64, random: &mut Random) -> u64 {
    let mask = lines.len() - 1;
    let mut found = 0;
    for _ in 0..loads {
        let at = (random.next().wrapping_add(found) as usize) & mask;
        found += black_box(lines[at].0[0]);
    }
    found
}

/// The cost of the random numbers themselves.
fn generator_ns(loads: u64) -> f64 {
    let mut random = Random::new(2);
    let begin = Instant::now();
    let sum = (0..loads).fold(0, |sum: u64, _| sum.wrapping_add(random.next()));
    black_box(sum);
    begin.elapsed().as_nanos() as f64 / loads as f64
}
