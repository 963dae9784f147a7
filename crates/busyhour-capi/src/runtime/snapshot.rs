use super::bh_runtime;
use crate::{
    buffers::bh_buffers_stats,
    edge::{Failure, Out, give_text, guard, live},
    pool::bh_pool_stats,
    result::bh_result,
    timers::bh_timers_stats,
};
use std::ffi::c_char;

/// What a runtime knows about itself at one moment. `bh_runtime_snapshot_json` also has the parts that have names.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_snapshot {
    /// When, by the clock of the runtime.
    pub taken_at_ns: u64,
    /// The buffers.
    pub buffers: bh_buffers_stats,
    /// The workers.
    pub pool: bh_pool_stats,
    /// The timers.
    pub timers: bh_timers_stats,
    /// Named serializers.
    pub serializer_count: u64,
    /// Topics.
    pub topic_count: u64,
}

/// Everything that the runtime knows about itself, as JSON. Free the text with `bh_text_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_snapshot_json(
    runtime: *const bh_runtime,
    out_text: *mut *mut c_char,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_text, "out_text")?;
        let snapshot = live(runtime, "runtime")?.runtime.stats();
        let json = serde_json::to_string(&snapshot);
        give_text(
            out,
            &json.map_err(|error| Failure::invalid(error.to_string()))?,
        );
        Ok(())
    })
}

/// What the runtime knows about itself, as numbers.
#[unsafe(no_mangle)]
pub extern "C" fn bh_runtime_snapshot(
    runtime: *const bh_runtime,
    out: *mut bh_snapshot,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let snapshot = live(runtime, "runtime")?.runtime.stats();
        out.write(bh_snapshot {
            taken_at_ns: snapshot.taken_at_ns,
            buffers: (&snapshot.buffers).into(),
            pool: (&snapshot.pool).into(),
            timers: (&snapshot.timers).into(),
            serializer_count: snapshot.serializers.len() as u64,
            topic_count: snapshot.topics.len() as u64,
        });
        Ok(())
    })
}
