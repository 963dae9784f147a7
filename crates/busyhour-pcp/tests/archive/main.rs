//! Archives that PCP's own tools write, read by those tools and by this crate:
//! every description and every value must be the same.

mod annotations;
#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod dump;
mod jobs;
mod live;
mod live_properties;
mod logger;
mod maker;
mod mutation;
mod peer;
mod pmcd;
#[path = "../../../busyhour-server/tests/support/ports.rs"]
#[allow(dead_code)] // others use the rest
mod ports;
mod properties;
mod render;
mod seek;
mod volumes;

use busyhour::buffer::BufferPool;
use busyhour_pcp::Archive;
use std::path::Path;

/// An archive opened with a buffer pool of its own.
fn open(base: &Path) -> Archive {
    let buffers = BufferPool::builder()
        .build()
        .expect("there is address space");
    Archive::open(base, &buffers).expect("a valid archive")
}
