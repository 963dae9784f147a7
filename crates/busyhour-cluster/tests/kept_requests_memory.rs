//! The memory of requests that wait for their partitions, counted in bytes.

use allocation_counter::measure;
use busyhour::clock::Instant;
use busyhour_cluster::{Keeping, KeptPlace, KeptRequests, Partition};
use std::time::Duration;

/// As long as what the server keeps.
type Request = [u64; 30];

#[test]
fn one_that_waits_takes_no_more_than_what_is_said() {
    let said = KeptRequests::<Request>::ENTRY_BYTES as u64;
    // Each order leaves the nodes of the trees filled otherwise.
    for (partitions, order) in [(1, IN_ORDER), (1, SCATTERED), (200, SCATTERED)] {
        let mut kept = KeptRequests::new(Duration::from_secs(2));
        let more = measure(|| {
            for number in 0..COUNT {
                let partition = Partition((number % partitions) as u8);
                let name = u128::from(number.wrapping_mul(order)) << 64;
                let now = Instant::from_nanos(number % 7);
                let request = || Some(Request::default());
                let keeping = match number % 5 {
                    0 => kept.put_back(now, partition, name, KeptPlace::BEHIND, request),
                    _ => kept.keep(now, partition, name, request),
                };
                assert_eq!(keeping, Keeping::Kept);
            }
        });
        let each = more.bytes_max / COUNT;
        println!("{each} bytes each, of {said}");
        assert!((said / 3..=said).contains(&each), "{each} bytes, of {said}");
        let end = measure(|| drop(kept.take_late(Instant::from_nanos(u64::MAX))));
        assert!(kept.is_empty());
        assert!(
            -end.bytes_current as u64 > COUNT * each / 2,
            "they are given back"
        );
    }
}

const COUNT: u64 = 5_000;
const IN_ORDER: u64 = 1;
const SCATTERED: u64 = 0x9e37_79b9_7f4a_7c15;
