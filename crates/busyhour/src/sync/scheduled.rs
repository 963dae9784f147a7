//! Atomics of the standard library that let shuttle's scheduler choose the next
//! thread before each operation.
//!
//! They have the size and the zero value of the real ones, which shuttle's own
//! atomics do not, so tables in zeroed memory are modelled as they are.

use std::ops::{Deref, DerefMut};
use std::sync::atomic;
pub(crate) use std::sync::atomic::{Ordering, fence};

macro_rules! scheduled {
    ($($name:ident of $value:ty,)*) => {$(
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name(atomic::$name);

        #[allow(dead_code)]
        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }
        }

        impl Deref for $name {
            type Target = atomic::$name;

            fn deref(&self) -> &atomic::$name {
                let_others_run();
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut atomic::$name {
                &mut self.0
            }
        }
    )*};
}

scheduled! {
    AtomicBool of bool,
    AtomicU8 of u8,
    AtomicU16 of u16,
    AtomicU32 of u32,
    AtomicU64 of u64,
    AtomicUsize of usize,
}

/// Like the others, for any type.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

impl<T> Deref for AtomicPtr<T> {
    type Target = atomic::AtomicPtr<T>;

    fn deref(&self) -> &atomic::AtomicPtr<T> {
        let_others_run();
        &self.0
    }
}

impl<T> DerefMut for AtomicPtr<T> {
    fn deref_mut(&mut self) -> &mut atomic::AtomicPtr<T> {
        &mut self.0
    }
}

/// A step of the schedule, if this is inside a model: shuttle's `sleep` is such
/// a step and nothing else.
fn let_others_run() {
    if shuttle::current::try_get_current_task().is_some() {
        shuttle::thread::sleep(std::time::Duration::ZERO);
    }
}

/// Runs `model` in up to `schedules` orders of its steps: half of that with few
/// switches in places that matter (probabilistic concurrency testing), and a
/// twentieth chosen at random, which has found nothing that the others do not find
/// sooner (docs/checks.md). Under shuttle a wait never times out, so what only a
/// timeout ends is a deadlock, which is a failure like any other.
///
/// A failure prints its schedule, which `shuttle::replay` can repeat.
/// `BUSYHOUR_TEST_SCALE=10` runs ten times as many.
#[cfg(test)]
pub(crate) fn explore(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    let schedules = schedules * scale.map_or(1, |scale| scale.parse().expect("a number"));
    let model = std::sync::Arc::new(model);
    let [random, few_switches] = [&model, &model].map(std::sync::Arc::clone);
    let runner = shuttle::Runner::new(RandomScheduler::new(schedules / 20), config());
    runner.run(move || random());
    let runner = shuttle::Runner::new(PctScheduler::new(SWITCHES, schedules / 2), config());
    runner.run(move || few_switches());
}

#[cfg(test)]
fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    config
}

/// Changes of priority in one run: two find most races, and three nearly all.
#[cfg(test)]
const SWITCHES: usize = 3;

/// A debug build needs more than shuttle's default.
#[cfg(test)]
const STACK_BYTES: usize = 1 << 20;
