//! Binding a worker to one processor.

#[cfg(target_os = "linux")]
pub(in crate::pool) use linux::{may_use, pin};
#[cfg(not(target_os = "linux"))]
pub(in crate::pool) use other::{may_use, pin};

#[cfg(target_os = "linux")]
mod linux {
    use std::mem;

    /// Whether this process may run on that processor.
    pub(crate) fn may_use(processor: usize) -> bool {
        let mut set = empty();
        // SAFETY: `set` is a processor set of the size that is told.
        let got = unsafe { libc::sched_getaffinity(SELF, size_of_val(&set), &raw mut set) };
        // SAFETY: `CPU_ISSET` only reads the set, and the number is within it.
        got == 0 && processor < PROCESSORS_MAX && unsafe { libc::CPU_ISSET(processor, &set) }
    }

    /// Binds this thread to a processor; `false` if the system refuses.
    pub(crate) fn pin(processor: usize) -> bool {
        if processor >= PROCESSORS_MAX {
            return false;
        }
        let mut set = empty();
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(processor, &mut set) };
        // SAFETY: `set` is a processor set of the size that is told.
        unsafe { libc::sched_setaffinity(SELF, size_of_val(&set), &raw const set) == 0 }
    }

    fn empty() -> libc::cpu_set_t {
        // SAFETY: a processor set is an array of bits, of which all may be 0.
        unsafe { mem::zeroed() }
    }

    const SELF: libc::pid_t = 0;
    const PROCESSORS_MAX: usize = 8 * size_of::<libc::cpu_set_t>();
}

#[cfg(not(target_os = "linux"))]
mod other {
    pub(crate) fn may_use(_processor: usize) -> bool {
        false
    }

    pub(crate) fn pin(_processor: usize) -> bool {
        false
    }
}
