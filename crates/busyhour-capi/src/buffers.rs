//! Pinned buffers: found by length, pinned and unpinned by any address inside of them.

use crate::{
    edge::{
        Callback, Data, Failure, Out, Process, Threaded, give, give_text, guard, live, nanos,
        options, quietly, read_options, release, text,
    },
    result::bh_result,
};
use busyhour::buffer::{BufferPool, Error};
use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

/// A pool of pinned buffers.
pub struct bh_buffers {
    pool: BufferPool,
    process: Process,
}

/// Options of a new pool of buffers; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_buffers_options {
    /// `sizeof(bh_buffers_options)`
    pub size: usize,
    /// The most bytes that live buffers may hold together; default 1 GiB.
    pub budget_bytes: u64,
    /// Keeps a backtrace of where one in so many buffers was found, for the dump; default: none.
    pub trace_one_in: u32,
}

options!(bh_buffers_options, 24 {
    size,
    budget_bytes,
    trace_one_in
});

/// What a pool of buffers holds now and what it has done.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_buffers_stats {
    /// Buffers that are not released.
    pub live_count: u64,
    /// Their bytes, rounding included.
    pub live_bytes: u64,
    /// The bytes charged to the budget.
    pub used_bytes: u64,
    /// The most that `used_bytes` has been.
    pub used_bytes_high_water: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// Memory taken from the operating system, in bytes.
    pub resident_bytes: u64,
    /// Buffers found since the start.
    pub found: u64,
    /// Pins taken by address since the start.
    pub pinned: u64,
    /// Calls refused for want of room.
    pub refused: u64,
    /// Calls with an address of no live buffer.
    pub foreign_addresses: u64,
}

/// A live buffer, as it was when it was looked at.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_live_buffer {
    /// Its first byte.
    pub start: *const c_void,
    /// Its length in bytes; 0 while it is being written by a program in Rust.
    pub len: usize,
    /// The bytes that it occupies, rounding included.
    pub room: usize,
    /// The pins on it.
    pub pins: u64,
    /// How long ago it was found; exact to about 8 ms.
    pub age_ns: u64,
    /// The name of its owner.
    pub owner: *const c_char,
    /// The values of a program in Rust that hold it.
    pub handles: u64,
    /// Where it was found, if that was traced; otherwise NULL.
    pub trace: *const c_char,
}

/// What one owner holds.
#[repr(C)]
pub struct bh_owner_usage {
    /// The name given to `bh_buffers_owned_by`.
    pub owner: *const c_char,
    /// Its live buffers.
    pub live_count: u64,
    /// Their bytes, rounding included.
    pub live_bytes: u64,
    /// The age of the oldest one.
    pub oldest_age_ns: u64,
}

/// Is told of an owner; 0 ends the list. The struct and its text are valid until it returns.
pub type bh_owner_each_fn =
    Option<unsafe extern "C-unwind" fn(usage: *const bh_owner_usage, data: *mut c_void) -> i32>;

/// Is told of a live buffer; 0 ends the list. The struct and its text are valid until it returns.
pub type bh_buffer_each_fn =
    Option<unsafe extern "C-unwind" fn(buffer: *const bh_live_buffer, data: *mut c_void) -> i32>;

impl Threaded for bh_buffers {
    fn process(&self) -> Process {
        self.process
    }
}

/// Makes a pool of buffers. `options` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_new(
    options: *const bh_buffers_options,
    out: *mut *mut bh_buffers,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let options = read_options(options, "options")?;
        let mut builder = BufferPool::builder();
        if options.budget_bytes > 0 {
            builder = builder.budget_bytes(options.budget_bytes);
        }
        if options.trace_one_in > 0 {
            builder = builder.trace_one_in(options.trace_one_in);
        }
        give(out, bh_buffers::new(builder.build()?));
        Ok(())
    })
}

/// Gives the handle up. Buffers that are still pinned stay valid, but no address of them can be pinned or unpinned any
/// more once all handles of the pool are freed.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_free(buffers: *mut bh_buffers) {
    quietly((), || {
        if live(buffers, "buffers").is_ok() {
            drop(release(buffers));
        }
    });
}

/// Another handle on the same pool; the dump and its numbers show what is found with it under the name `owner`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_owned_by(
    buffers: *const bh_buffers,
    owner: *const c_char,
    out: *mut *mut bh_buffers,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let owned = live(buffers, "buffers")?
            .pool
            .owned_by(text(owner, "owner")?)?;
        give(out, bh_buffers::new(owned));
        Ok(())
    })
}

/// Finds a buffer of `len` bytes, which one pin holds: write to it, and release it with `bh_buffers_unpin`. Its content is
/// unspecified. It is aligned for every type of C.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_find(
    buffers: *const bh_buffers,
    len: usize,
    out: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write(live(buffers, "buffers")?.pool.find(len)?.cast());
        Ok(())
    })
}

/// Adds a pin to the buffer that has a byte at `address`. The address is compared, never read.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_pin(buffers: *const bh_buffers, address: *const c_void) -> bh_result {
    guard(|| Ok(live(buffers, "buffers")?.pool.pin(address.cast())?))
}

/// Removes a pin from the buffer that has a byte at `address`; the last one releases it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_unpin(
    buffers: *const bh_buffers,
    address: *const c_void,
) -> bh_result {
    guard(|| Ok(live(buffers, "buffers")?.pool.unpin(address.cast())?))
}

/// Where the buffer begins that has a byte at `address`, and how long it is. The caller must hold a pin on it, since it
/// may be released otherwise before it reads the answer. `out_len` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_at(
    buffers: *const bh_buffers,
    address: *const c_void,
    out_start: *mut *mut c_void,
    out_len: *mut usize,
) -> bh_result {
    guard(|| {
        let out_start = Out::required(out_start, "out_start")?;
        let buffer = live(buffers, "buffers")?.pool.buffer_at(address.cast())?;
        out_start.write(buffer.as_ptr().cast_mut().cast());
        Out::optional(out_len).write(buffer.len());
        Ok(())
    })
}

/// Lets `len` bytes at `address` survive without the rest of a large buffer, on which the caller has a pin. If they are a small
/// part of it, that pin is removed, and `out` is a copy of them in a buffer of their own, which one pin holds. Otherwise `out` is
/// `address`, and nothing has changed. `BH_FULL`: the copy has to fit before the large one goes.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_compact(
    buffers: *const bh_buffers,
    address: *const c_void,
    len: usize,
    out: *mut *mut c_void,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let pool = &live(buffers, "buffers")?.pool;
        let whole = pool.buffer_at(address.cast())?;
        let begin = address.addr() - whole.as_ptr().addr();
        if len == 0 || len > whole.len() - begin {
            return Err(Failure::invalid("the bytes do not lie in one buffer"));
        }
        let survivor = pool.compact(whole.slice(begin..begin + len))?;
        if survivor.as_ptr().addr() != address.addr() {
            pool.unpin(address.cast())?;
            pool.pin(survivor.as_ptr())?;
        }
        out.write(survivor.as_ptr().cast_mut().cast());
        Ok(())
    })
}

/// Gives memory without a live buffer back to the operating system. `out_bytes`, how much, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_trim(buffers: *const bh_buffers, out_bytes: *mut usize) -> bh_result {
    guard(|| {
        Out::optional(out_bytes).write(live(buffers, "buffers")?.pool.trim());
        Ok(())
    })
}

/// What the pool holds now and what it has done.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_get_stats(
    buffers: *const bh_buffers,
    out: *mut bh_buffers_stats,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write((&live(buffers, "buffers")?.pool.stats()).into());
        Ok(())
    })
}

/// What is live now, as a table for people: by owner, and the oldest buffers with their pins. It looks at every block ever
/// used. Free the text with `bh_text_free`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_dump(
    buffers: *const bh_buffers,
    out_text: *mut *mut c_char,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_text, "out_text")?;
        give_text(out, &live(buffers, "buffers")?.pool.dump().to_string());
        Ok(())
    })
}

/// Tells `each` of every live buffer, the oldest first, until it returns 0. It looks at every block ever used.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_each(
    buffers: *const bh_buffers,
    each: bh_buffer_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each: Callback<EachCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        for buffer in live(buffers, "buffers")?.pool.live_buffers() {
            let owner = CString::new(buffer.owner).unwrap_or_default();
            let trace = buffer.trace.and_then(|trace| CString::new(trace).ok());
            let live = bh_live_buffer {
                start: ptr::without_provenance(buffer.address),
                len: buffer.len,
                room: buffer.room,
                pins: buffer.pins,
                age_ns: nanos(buffer.age),
                owner: owner.as_ptr(),
                handles: buffer.handles,
                trace: trace.as_ref().map_or(ptr::null(), |trace| trace.as_ptr()),
            };
            if each.call_with(&raw const live) == 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Tells `each` of every owner with a live buffer, that with the most bytes first, until it returns 0. It looks at every block
/// ever used.
#[unsafe(no_mangle)]
pub extern "C" fn bh_buffers_owners(
    buffers: *const bh_buffers,
    each: bh_owner_each_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each: Callback<OwnerCall> =
            Callback::new(each, Data::new(data, None)).ok_or_else(|| Failure::null("each"))?;
        for usage in live(buffers, "buffers")?.pool.dump().owners {
            let owner = CString::new(usage.owner).unwrap_or_default();
            let seen = bh_owner_usage {
                owner: owner.as_ptr(),
                live_count: usage.live_count,
                live_bytes: usage.live_bytes,
                oldest_age_ns: nanos(usage.oldest_age),
            };
            if each.call_with(&raw const seen) == 0 {
                break;
            }
        }
        Ok(())
    })
}

type OwnerCall = unsafe extern "C-unwind" fn(*const bh_owner_usage, *mut c_void) -> i32;
type EachCall = unsafe extern "C-unwind" fn(*const bh_live_buffer, *mut c_void) -> i32;

impl bh_buffers {
    pub(crate) fn new(pool: BufferPool) -> Self {
        let process = Process::current();
        Self { pool, process }
    }
}

impl From<&busyhour::stats::BufferStats> for bh_buffers_stats {
    fn from(stats: &busyhour::stats::BufferStats) -> Self {
        Self {
            live_count: stats.live_count,
            live_bytes: stats.live_bytes,
            used_bytes: stats.used_bytes,
            used_bytes_high_water: stats.used_bytes_high_water,
            budget_bytes: stats.budget_bytes,
            resident_bytes: stats.resident_bytes,
            found: stats.found,
            pinned: stats.pinned,
            refused: stats.refused,
            foreign_addresses: stats.foreign_addresses,
        }
    }
}

impl From<Error> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: Error) -> Self {
        let code = match error {
            Error::OverBudget { .. } | Error::TooManyOwners => bh_result::BH_FULL,
            Error::TooManyPins { .. } => bh_result::BH_FULL,
            Error::TooLong { .. } | Error::Empty | Error::NotInside => bh_result::BH_INVALID,
            Error::Foreign { .. } => bh_result::BH_FOREIGN,
            Error::NotLive { .. } => bh_result::BH_NOT_LIVE,
            Error::NotPinned { .. } => bh_result::BH_NOT_PINNED,
            Error::NoAddressSpace { .. } => bh_result::BH_SYSTEM,
        };
        Self::new(code, error.to_string())
    }
}
