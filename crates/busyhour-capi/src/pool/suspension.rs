use super::bh_serializer;
use crate::{
    edge::{Out, Process, Threaded, give, guard, live, quietly, release},
    result::bh_result,
};
use busyhour::serializer::Suspension;

/// As long as it is not freed, its serializer starts no task.
pub struct bh_suspension {
    _suspension: Suspension,
    process: Process,
}

impl Threaded for bh_suspension {
    fn process(&self) -> Process {
        self.process
    }
}

/// Prevents further tasks from starting; one that runs goes on. Suspensions count: tasks continue when all are freed.
#[unsafe(no_mangle)]
pub extern "C" fn bh_serializer_suspend(
    serializer: *mut bh_serializer,
    out: *mut *mut bh_suspension,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let suspension = bh_suspension {
            _suspension: live(serializer, "serializer")?.serializer.suspend(),
            process: Process::current(),
        };
        give(out, suspension);
        Ok(())
    })
}

/// Ends a suspension.
#[unsafe(no_mangle)]
pub extern "C" fn bh_suspension_free(suspension: *mut bh_suspension) {
    quietly((), || {
        if live(suspension, "suspension").is_ok() {
            drop(release(suspension));
        }
    });
}
