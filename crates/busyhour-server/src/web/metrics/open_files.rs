//! How many files the process has open.
//!
//! Linux 6.2 and later say it as the size of the folder that lists them. An older one has to list
//! them, which takes a tenth of a second where hundreds of thousands of connections are open: so
//! that is done at most once in ten seconds, and on no thread that answers requests.

use std::{fs, time::Duration};
use tokio::{sync::Mutex, task::spawn_blocking, time::Instant};

/// `None` on a system without `/proc`.
pub(in crate::web) async fn open_files() -> Option<u64> {
    match told() {
        Some(count) => Some(count),
        None => listed_lately().await,
    }
}

/// What the kernel says; `None` if it is too old.
fn told() -> Option<u64> {
    let count = fs::metadata(FOLDER).ok()?.len();
    (count > 0).then_some(count)
}

async fn listed_lately() -> Option<u64> {
    // Who comes while they are counted waits for that.
    let mut last = LAST.lock().await;
    if let Some((at, count)) = *last
        && at.elapsed() < COUNTED_FOR
    {
        return Some(count);
    }
    let count = spawn_blocking(listed).await.ok()??;
    *last = Some((Instant::now(), count));
    Some(count)
}

fn listed() -> Option<u64> {
    let files = fs::read_dir(FOLDER).ok()?;
    // Reading the folder opened one.
    Some((files.count() as u64).saturating_sub(1))
}

static LAST: Mutex<Option<(Instant, u64)>> = Mutex::const_new(None);
const FOLDER: &str = "/proc/self/fd";
const COUNTED_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests open files meanwhile, so the two are compared until nobody did between them.
    #[test]
    fn the_kernel_tells_as_many_as_it_lists() {
        let files: Vec<_> = (0..100).map(|_| fs::File::open("/dev/null")).collect();
        assert!(files.iter().all(Result::is_ok));
        assert!(listed() > Some(100));
        let Some(_) = told() else { return };
        assert!((0..10_000).any(|_| told() == listed()));
    }

    #[tokio::test]
    async fn they_are_listed_once_in_ten_seconds() {
        let first = listed_lately().await;
        let file = fs::File::open("/dev/null");
        assert!(first > Some(0) && file.is_ok());
        assert_eq!(listed_lately().await, first);
    }
}
