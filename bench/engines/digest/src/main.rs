//! Archives rendered by Busyhour: one pass for all series, on as many threads
//! as asked for; of a folder each archive by one thread.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_pcp::{
    Archive, Counters, RenderOptions, Rendering, SeriesId, Window, archives_in, in_order,
};
use kit::{Args, args::refuse, digest::DigestSum};

fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "digest" => digest(&args),
        "digest-folder" => folder(&args),
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
    let rendering = render(&archive, &series, threads, pool.as_ref());
    let digest_ms = begin.elapsed().as_secs_f64() * 1e3;
    let mut sum = DigestSum::default();
    add(&mut sum, 0, &rendering);
    sum.report(digest_ms, "metrics", series.len() as u64);
}

/// As a Graphite view of many archives does: several at once, joined in order.
fn folder(args: &Args) {
    let (count, threads) = (args.number("archives") as usize, args.number("threads"));
    let threads = threads as usize;
    let pool = pool_beside_caller(threads);
    let begin = Instant::now();
    let buffers = BufferPool::builder().budget_bytes(BUDGET_BYTES).build();
    let buffers = buffers.expect("a budget");
    let mut paths = or_refuse(archives_in(Path::new(FOLDER)));
    paths.truncate(count);
    let renderings = in_order(
        paths,
        threads,
        pool.as_ref(),
        Vec::new(),
        move |path| whole(&path, &buffers),
        |renderings: &mut Vec<Rendering>, rendering| {
            renderings.push(rendering);
            ControlFlow::Continue(())
        },
    );
    let renderings = or_refuse(renderings);
    let digest_ms = begin.elapsed().as_secs_f64() * 1e3;
    let (mut sum, mut series) = (DigestSum::default(), 0);
    for rendering in &renderings {
        add(&mut sum, series, rendering);
        series += rendering.series().len() as u64;
    }
    sum.report(digest_ms, "archives", renderings.len() as u64);
}

fn whole(path: &PathBuf, buffers: &BufferPool) -> Rendering {
    let archive = or_refuse(Archive::open(path, buffers));
    let series = choose(&archive, usize::MAX);
    render(&archive, &series, 1, None)
}

fn render(
    archive: &Archive,
    series: &[SeriesId],
    threads: usize,
    pool: Option<&TaskPool>,
) -> Rendering {
    let window = Window::new(archive.start(), archive.end(), STEP);
    let options = RenderOptions {
        // What pmFetch gives.
        counters: Counters::Raw,
        counter_wrap: false,
        threads,
    };
    or_refuse(archive.render(series, window, options, pool))
}

/// The series of `rendering` are numbered from `first` on.
fn add(sum: &mut DigestSum, first: u64, rendering: &Rendering) {
    for index in 0..rendering.series().len() {
        for (step, value) in rendering.values(index).iter().enumerate() {
            sum.add(first + index as u64, step as u64, *value);
        }
    }
}

/// The threads besides the calling one. They run before it returns: that they start is
/// no cost of a digest, since a server's pool has started long before.
fn pool_beside_caller(threads: usize) -> Option<TaskPool> {
    let count = threads - 1;
    if count == 0 {
        return None;
    }
    let pool = TaskPool::builder()
        .workers(count)
        .minimum(count)
        .maximum(count);
    let pool = pool.build().expect("a pool of this size");
    let all_run = Arc::new(Barrier::new(threads));
    for _ in 0..count {
        let all_run = Arc::clone(&all_run);
        let push = pool.push(move || drop(all_run.wait()));
        push.expect("a pool that takes tasks");
    }
    all_run.wait();
    Some(pool)
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
const FOLDER: &str = "../../data/archives";
const STEP: Duration = Duration::from_secs(60);
const BUDGET_BYTES: u64 = 1 << 30;
