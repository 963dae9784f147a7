//! Bytes as operations on a pool of pinned buffers, right ones and wrong ones:
//! the pool agrees with a flat list after each.
#![no_main]

#[path = "../../crates/busyhour/tests/model/buffer.rs"]
mod model;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use model::{Address, Driver, Operation};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Ok(budget_kib) = input.choose(&[4_u64, 256, 4096]) else {
        return;
    };
    let mut driver = Driver::new(budget_kib * 1024);
    // The flat list is walked after each operation, so their number is bounded.
    for _ in 0..OPERATIONS_MAX {
        match operation(&mut input) {
            Ok(operation) if !input.is_empty() => driver.apply(operation),
            _ => break,
        }
    }
    driver.finish();
});

fn operation(input: &mut Unstructured<'_>) -> Result<Operation> {
    Ok(match input.int_in_range(0..=15)? {
        0..=2 => Operation::Alloc { len: len(input)? },
        3 => Operation::Find { len: len(input)? },
        4 => Operation::Truncate {
            which: which(input)?,
            len: len(input)?,
        },
        5 | 6 => Operation::Freeze {
            which: which(input)?,
        },
        7 => Operation::Abandon {
            which: which(input)?,
        },
        8 => Operation::Clone {
            which: which(input)?,
        },
        9 => Operation::Slice {
            which: which(input)?,
            start: input.int_in_range(0..=300)?,
            len: len(input)?,
        },
        10 => Operation::Drop {
            which: which(input)?,
        },
        11 | 12 => Operation::Pin(address(input)?),
        13 => Operation::Unpin(address(input)?),
        14 => Operation::BufferAt(address(input)?),
        _ => Operation::Trim,
    })
}

fn which(input: &mut Unstructured<'_>) -> Result<usize> {
    input.arbitrary::<u8>().map(usize::from)
}

/// Mostly small, with the edges of size classes among them.
fn len(input: &mut Unstructured<'_>) -> Result<usize> {
    match input.int_in_range(0..=3)? {
        0 => Ok(64),
        1 => input.arbitrary::<u8>().map(usize::from),
        2 => input
            .choose(&[4096, 65_535, 65_536, 65_537, 131_072, 200_000])
            .copied(),
        _ => input.int_in_range(0..=5000),
    }
}

/// Mostly around the edges of a buffer and of its block.
fn address(input: &mut Unstructured<'_>) -> Result<Address> {
    let which = which(input)?;
    let offset = match input.int_in_range(0..=3)? {
        0 => 0,
        1 => input.arbitrary::<i8>().map(isize::from)?,
        2 => *input.choose(&[63, 64, 65_535, 65_536, -65_536, 199_999])?,
        _ => input.arbitrary()?,
    };
    Ok(Address { which, offset })
}

const OPERATIONS_MAX: usize = 256;
