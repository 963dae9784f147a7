//! What holds for any bytes as a journal.

use busyhour_store::{JournalPosition, recover_journal};

/// Nothing panics; records have ascending numbers without a gap, and end within the bytes or their
/// last multiple of 16.
pub fn hold(bytes: &[u8]) {
    let epoch = bytes.get(24..32).and_then(|epoch| epoch.first_chunk());
    let epoch = epoch.map_or(1, |epoch| u64::from_le_bytes(*epoch));
    for number in [0, 1] {
        for end in [512, 512 + 16, bytes.len() as u64, u64::MAX] {
            let position = JournalPosition { epoch, number, end };
            let Ok(found) = recover_journal(bytes, Some(position)) else {
                continue;
            };
            for (record, expected) in found.records.iter().zip(number + 1..) {
                assert_eq!(record.number, expected);
                assert!(record.end <= bytes.len().next_multiple_of(16) as u64);
            }
        }
    }
    let _a_copy_has_no_position = recover_journal(bytes, None);
}
