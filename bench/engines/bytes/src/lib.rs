//! `bytes`: allocate 1 KiB, freeze, clone, drop, drop. There is one program for
//! each allocator.

use std::hint::black_box;

use bytes::BytesMut;
use kit::{
    Args,
    args::refuse,
    buffers::{self, BUFFER_BYTES},
};

/// The engine; each binary chooses its allocator.
pub fn main() {
    let args = Args::from_command_line();
    match args.variant_and_scenario().1 {
        "buffers" => buffers::run_clone_drop(&args, || {
            let mut buffer = BytesMut::with_capacity(BUFFER_BYTES);
            buffer.extend_from_slice(&[1]);
            let first = black_box(buffer.freeze());
            let second = black_box(first.clone());
            drop(first);
            drop(second);
        }),
        other => refuse(&format!("no scenario {other}")),
    }
}
