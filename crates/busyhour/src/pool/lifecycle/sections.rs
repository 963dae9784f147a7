//! Exclusive sections that wait, and are in no queue meanwhile. See README.md,
//! "Shutting down".

use crate::sync::atomic::{AtomicU64, Ordering};

/// How many there are, in the low half; how many have begun, in the high half.
#[derive(Default)]
pub(crate) struct Sections(AtomicU64);

const BEGUN: u64 = 1 << 32;

impl Sections {
    pub(in crate::pool) fn begin(&self) {
        self.0.fetch_add(BEGUN + 1, Ordering::SeqCst);
    }

    /// Called after what the section has left is in a queue again.
    pub(in crate::pool) fn end(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether `is_quiet`, and there was no section before, meanwhile or after.
    pub(super) fn none_while(&self, is_quiet: impl FnOnce() -> bool) -> bool {
        let before = self.0.load(Ordering::SeqCst);
        before as u32 == 0 && is_quiet() && self.0.load(Ordering::SeqCst) == before
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::atomic::AtomicBool;
    use loom::sync::Arc;

    /// A task that becomes a section, sleeps, is woken by its own thread here,
    /// and ends. The forbidden outcome: the pool counts as quiet before that.
    #[test]
    fn loom_a_pool_with_a_section_is_not_quiet() {
        loom::model(|| {
            let pool = Arc::new((Sections::default(), AtomicBool::new(true)));
            let ended = Arc::new(AtomicBool::new(false));
            let section = {
                let (pool, ended) = (Arc::clone(&pool), Arc::clone(&ended));
                loom::thread::spawn(move || {
                    let (sections, has_work) = &*pool;
                    sections.begin();
                    has_work.store(false, Ordering::SeqCst);
                    has_work.store(true, Ordering::SeqCst);
                    sections.end();
                    ended.store(true, Ordering::SeqCst);
                    has_work.store(false, Ordering::SeqCst);
                })
            };
            let (sections, has_work) = &*pool;
            let is_quiet = sections.none_while(|| !has_work.load(Ordering::SeqCst));
            assert!(
                !is_quiet || ended.load(Ordering::SeqCst),
                "sealed too early"
            );
            section.join().unwrap();
        });
    }
}
