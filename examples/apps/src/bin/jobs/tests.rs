//! Both versions, in real databases.

use crate::{
    WAITING_MAX, Work,
    measure::{self, Queue},
    store::Store,
    with_busyhour, with_tokio,
};
use busyhour::timer::Backoff;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{task::JoinSet, time::sleep};

const QUICK: Backoff = Backoff::new(Duration::from_millis(1)).tries(3);

#[tokio::test(flavor = "multi_thread")]
async fn both_do_each_customers_jobs_in_order_and_the_failed_ones_again() {
    check::<with_busyhour::Jobs>().await;
    check::<with_tokio::Jobs>().await;
}

/// The first try of each job fails, and each of those with "never".
async fn check<Q: Queue>() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    let tried = Arc::new(Mutex::new(Vec::<(String, String)>::new()));
    let trying = Arc::clone(&tried);
    let work: Work = Arc::new(move |job| {
        let mut tried = trying.lock().expect("sound");
        let call = (job.customer, job.text);
        let again = tried.contains(&call);
        tried.push(call.clone());
        let is_done = again && call.1 != "never";
        Box::pin(async move { is_done.then_some(()).ok_or(()) })
    });
    let queue = Q::open(Store::open(&path).expect("a store"), work.clone(), QUICK).await;
    let queue = queue.expect("a queue");
    for (customer, text) in [("ann", "1"), ("bob", "never"), ("ann", "2"), ("bob", "3")] {
        queue.offer(customer, text).await.expect("taken");
    }
    let reader = Store::open(&path).expect("a store");
    while counts(&reader).await != (0, 3, 1) {
        sleep(Duration::from_millis(5)).await;
    }
    let tried = tried.lock().expect("sound").clone();
    let of = |name: &str| {
        let calls = tried.iter().filter(|call| call.0 == name);
        calls.map(|call| call.1.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("ann"), ["1", "1", "2", "2"]);
    assert_eq!(of("bob"), ["never", "never", "never", "3", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_done_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.db");
    let never = never();
    let queue = with_busyhour::Jobs::open(Store::open(&path).expect("a store"), never, QUICK).await;
    let queue = queue.expect("a queue");
    queue.offer("ann", "1").await.expect("taken");
    queue.offer("ann", "2").await.expect("taken");
    drop(queue); // as if the process had ended

    let done = Arc::new(Mutex::new(Vec::new()));
    let doing = Arc::clone(&done);
    let work: Work = Arc::new(move |job| {
        doing.lock().expect("sound").push(job.text);
        Box::pin(async { Ok(()) })
    });
    let store = Store::open(&path).expect("a store");
    let _queue = with_busyhour::Jobs::open(store, work, QUICK)
        .await
        .expect("a queue");
    let reader = Store::open(&path).expect("a store");
    while counts(&reader).await != (0, 2, 0) {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(*done.lock().expect("sound"), ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_offers_without_end_is_refused_and_nobody_else() {
    check_bound::<with_busyhour::Jobs>().await;
    check_bound::<with_tokio::Jobs>().await;
}

async fn check_bound<Q: Queue>() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("jobs.db")).expect("a store");
    let never = never();
    let queue = Arc::new(Q::open(store, never, QUICK).await.expect("a queue"));
    let mut offers = JoinSet::new();
    for _ in 0..WAITING_MAX + 100 {
        let queue = Arc::clone(&queue);
        offers.spawn(async move { queue.offer("ann", "x").await });
    }
    let answers = offers.join_all().await;
    let taken = answers.iter().filter(|answer| answer.is_ok()).count();
    // The one that is being done waits no more.
    assert!(
        (WAITING_MAX..=WAITING_MAX + 1).contains(&taken),
        "{taken} were taken"
    );
    assert!(queue.offer("bob", "x").await.is_ok());
}

/// Work that does not end. Something must be left that could wake it: a section that nothing can
/// wake any more is dropped.
fn never() -> Work {
    Arc::new(|_| {
        Box::pin(async {
            sleep(Duration::from_secs(86_400)).await;
            Err(())
        })
    })
}

/// How many jobs wait, are done, and have failed.
async fn counts(store: &Store) -> (i64, i64, i64) {
    store.ask(measure::count).await.expect("an answer")
}
