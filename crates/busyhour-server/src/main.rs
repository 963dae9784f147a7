//! The `busyhour` program; everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    join_free_blocks_at_once();
    busyhour_server::cli::main(option_env!("BUSYHOUR_COMMIT"))
}

/// Otherwise glibc keeps small free blocks in lists of their own (fast bins) until somebody asks for a larger block, and then joins
/// all of them under the lock of the heap: after a million registrations have ended, everybody waits for 100 to 350 ms.
fn join_free_blocks_at_once() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function takes no pointers, and there is only this thread yet. A value that it does not know has no effect.
    unsafe {
        nix::libc::mallopt(nix::libc::M_MXFAST, 0);
    }
}
