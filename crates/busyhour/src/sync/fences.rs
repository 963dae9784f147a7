//! A pair of fences whose cost is paid by one side.
//!
//! `light` on one thread and `heavy` on another order their accesses as two
//! sequentially consistent fences do. See the README of `pool`, "The biased lock".

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) use membarrier::{heavy, light, prepare};
#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
pub(crate) use symmetric::{heavy, light, prepare};

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod membarrier {
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

    /// Registers the process; must be called before the first pool is shared.
    pub(crate) fn prepare() {
        let registered = call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        if registered && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            IS_REGISTERED.store(true, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    pub(crate) fn light() {
        if IS_REGISTERED.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
        if IS_REGISTERED.load(Ordering::Relaxed) {
            let fenced = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(fenced, "membarrier worked once and must go on working");
        }
    }

    fn call(command: libc::c_int) -> bool {
        const NO_FLAGS: libc::c_uint = 0;
        const ANY_CPU: libc::c_int = 0;
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS, ANY_CPU) == 0 }
    }

    /// Never goes back, so a thread that reads `true` may rely on it.
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
mod symmetric {
    use crate::sync::atomic::{Ordering, fence};

    pub(crate) fn prepare() {}

    #[inline(always)]
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() {
        fence(Ordering::SeqCst);
    }
}
