//! An archive rendered by Busyhour: one pass for all series, on as many threads
//! as asked for.

use std::time::{Duration, Instant};

use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_server::archive::{Archive, Counters, RenderOptions, SeriesId, Window};
use kit::{Args, args::refuse, digest::DigestSum};

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "digest" => digest(&args),
        other => refuse(&format!("no scenario {other}")),
    }
}

fn digest(args: &Args) {
    let threads = args.number("threads") as usize;
    let pool = pool_beside_caller(threads);
    let begin = Instant::now();
    let buffers = BufferPool::builder().budget_bytes(BUDGET_BYTES).build();
    let buffers = buffers.expect("a budget");
    let archive = or_refuse(Archive::open(ARCHIVE, &buffers));
    let series = choose(&archive, args.number("metrics") as usize);
    let window = Window::new(archive.start(), archive.end(), STEP);
    let options = RenderOptions {
        // What pmFetch gives.
        counters: Counters::Raw,
        counter_wrap: false,
        threads,
    };
    let rendering = or_refuse(archive.render(&series, window, options, pool.as_ref()));
    let digest_ms = begin.elapsed().as_secs_f64() * 1e3;
    let mut sum = DigestSum::default();
    for index in 0..series.len() {
        for (step, value) in rendering.values(index).iter().enumerate() {
            sum.add(index as u64, step as u64, *value);
        }
    }
    sum.report(digest_ms, series.len() as u64);
}

/// The threads besides the calling one.
fn pool_beside_caller(threads: usize) -> Option<TaskPool> {
    let count = threads - 1;
    let pool = TaskPool::builder()
        .workers(count)
        .minimum(count)
        .maximum(count);
    (count > 0).then(|| pool.build().expect("a pool of this size"))
}

/// The first `count` series, by name, then by instance.
fn choose(archive: &Archive, count: usize) -> Vec<SeriesId> {
    let mut all = archive.series();
    let metrics = archive.metrics();
    all.sort_by_key(|series| {
        let metric = &metrics[series.metric];
        (metric.name(), metric.instances[series.instance].id)
    });
    all.truncate(count);
    all
}

fn or_refuse<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| refuse(&error.to_string()))
}

const ARCHIVE: &str = "../../data/digest";
const STEP: Duration = Duration::from_secs(60);
const BUDGET_BYTES: u64 = 1 << 30;
