//! The settings of the worker pool, each by what the pool that is built of them does.

use crate::support::{Place, ServerProcess};
use busyhour::pool::TaskPool;
use busyhour_server::config::{Config, Overrides};
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

fn pool(settings: &str) -> TaskPool {
    let text = format!("[runtime]\n{settings}\n");
    let loaded = Config::parse("f.toml", &text, &Overrides::default()).unwrap();
    loaded.config.runtime.pool().build().unwrap()
}

fn count(pool: &TaskPool) -> u64 {
    pool.stats().worker_count
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never is");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A task that blocks its worker until the sender is dropped.
fn held(pool: &TaskPool) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (began, begin) = mpsc::channel();
    let task = move || {
        began.send(()).unwrap();
        let _ = released.recv();
    };
    pool.push(task).unwrap();
    begin.recv().unwrap();
    release
}

#[test]
fn as_many_workers_start_as_the_settings_say() {
    assert_eq!(count(&pool("workers = 3")), 3);
    assert_eq!(
        count(&pool("workers = 3\nmin_workers = 2\nmax_workers = 7")),
        3
    );
    let cores = thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(count(&pool("")), cores);
    // One for each core, within the bounds.
    assert_eq!(count(&pool("max_workers = 1")), 1);
    let more = cores + 3;
    assert_eq!(count(&pool(&format!("min_workers = {more}"))), more);
}

#[test]
fn workers_are_added_above_the_threshold_so_many_at_a_time_up_to_the_maximum() {
    let settings = "workers = 1\nmax_workers = 4\ngrowth_threshold = 2\nworker_increment = 2";
    let pool = pool(settings);
    until(|| pool.stats().idle_worker_count == 1);
    let _held: Vec<_> = [held(&pool)].into();
    // These wait too, so that no new worker is free again.
    let (release, released) = mpsc::channel::<()>();
    let waiting = std::sync::Arc::new(std::sync::Mutex::new(released));
    let push = |expected: u64| {
        let waiting = waiting.clone();
        let task = move || drop(waiting.lock().map(|waiting| waiting.recv()));
        pool.push(task).unwrap();
        assert_eq!(count(&pool), expected);
    };
    push(1);
    push(1);
    push(3);
    (0..8).for_each(|_| pool.push(|| ()).unwrap());
    assert_eq!(count(&pool), 4);
    drop(release);
}

#[test]
fn workers_above_the_minimum_end_when_they_have_been_idle() {
    let short = pool("workers = 3\nmin_workers = 1\nworker_idle_seconds = 1");
    let long = pool("workers = 3\nmin_workers = 1\nworker_idle_seconds = 3600");
    until(|| count(&short) == 1);
    assert_eq!(count(&long), 3);
}

#[test]
fn the_server_runs_on_the_workers_of_its_settings() {
    let place = Place::new();
    let mut command = place.serve();
    command.args(["--runtime-workers", "3", "--runtime-min-workers", "2"]);
    command.args(["--runtime-worker-idle-seconds", "1"]);
    let server = ServerProcess::start(&mut command, &place);
    let workers = || server.stats()["runtime"]["pool"]["worker_count"].as_u64();
    until(|| workers() == Some(2));
    assert!(server.stop().success());
}
