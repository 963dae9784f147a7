//! Allocates, pins and releases at random, by addresses inside of buffers,
//! beyond the used part, of released buffers and of other memory; compares with
//! a flat list of live buffers.

#[path = "../../../fuzz/any_bytes.rs"]
mod any_bytes;
#[path = "model/buffer.rs"]
mod model;

use model::{Address, Driver, Operation};
use proptest::prelude::*;

fn operation() -> impl Strategy<Value = Operation> {
    let which = || any::<usize>();
    prop_oneof![
        6 => len().prop_map(|len| Operation::Alloc { len }),
        3 => len().prop_map(|len| Operation::Find { len }),
        2 => (which(), len()).prop_map(|(which, len)| Operation::Truncate { which, len }),
        5 => which().prop_map(|which| Operation::Freeze { which }),
        1 => which().prop_map(|which| Operation::Abandon { which }),
        2 => which().prop_map(|which| Operation::Clone { which }),
        2 => (which(), 0..300usize, len())
            .prop_map(|(which, start, len)| Operation::Slice { which, start, len }),
        5 => which().prop_map(|which| Operation::Drop { which }),
        6 => address().prop_map(Operation::Pin),
        8 => address().prop_map(Operation::Unpin),
        2 => address().prop_map(Operation::BufferAt),
        1 => Just(Operation::Trim),
    ]
}

/// Mostly one small size, so that neighbours and full blocks are common.
fn len() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => Just(64usize),
        2 => 0..130usize,
        1 => 0..5000usize,
        1 => prop::sample::select(vec![4096usize, 65535, 65536, 65537, 131072, 200_000]),
    ]
}

/// Mostly near the ends of a buffer and of its block.
fn address() -> impl Strategy<Value = Address> {
    let offset = prop_oneof![
        4 => Just(0isize),
        4 => -2..200isize,
        1 => prop::sample::select(vec![63isize, 64, 65535, 65536, -65536, 199_999]),
        1 => any::<isize>(),
    ];
    (any::<usize>(), offset).prop_map(|(which, offset)| Address { which, offset })
}

/// How many cases to try: many more in a long run than in every build, and
/// fewer under a memory checker.
fn cases() -> u32 {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|number| number.parse().ok())
    };
    let (scale, divisor) = (
        number("BUSYHOUR_TEST_SCALE"),
        number("BUSYHOUR_TEST_DIVISOR"),
    );
    (128 * scale.unwrap_or(1) / divisor.unwrap_or(1)).max(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_pool_agrees_with_a_flat_list(
        budget_kib in prop::sample::select(vec![4u64, 256, 4096]),
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let mut driver = Driver::new(budget_kib * 1024);
        for operation in operations {
            driver.apply(operation);
        }
        driver.finish();
    }
}

#[test]
fn operations_made_of_any_bytes_agree_with_a_flat_list() {
    any_bytes::hold_for("buffer_addresses", cases() as usize, model::hold);
}
