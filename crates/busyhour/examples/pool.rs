//! A pool runs tasks in any order, on any worker, and reports at the end what
//! it did.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use busyhour::pool::TaskPool;

fn main() -> Result<(), Box<dyn Error>> {
    let pool = TaskPool::builder().name("example").workers(2).build()?;

    let sum = Arc::new(AtomicU64::new(0));
    for number in 1..=100 {
        let sum = Arc::clone(&sum);
        pool.push(move || {
            sum.fetch_add(number, Ordering::Relaxed);
        })?;
    }

    let answer = pool.push_wait(|| 6 * 7)?;
    let later = pool.spawn(async move { answer + 1 });
    println!("a synchronous push: {answer}, a future: {}", later.wait()?);

    let report = pool.shutdown(Duration::from_secs(5));
    println!("1 + … + 100 = {}", sum.load(Ordering::Relaxed));
    println!("clean: {}, {:?}", report.is_clean(), pool.stats());
    Ok(())
}
