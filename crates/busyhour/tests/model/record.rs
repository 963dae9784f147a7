//! The property that must hold for any bytes as a record of the bus; tests and fuzzer
//! share it.

use busyhour::bus::{Limits, Record, RecordPattern};

const TIGHT: Limits = Limits {
    element_count: 4,
    value_bytes: 64,
    record_bytes: 256,
};

/// Nothing panics, the record that was read is within the limits, and it is written back
/// byte by byte.
pub fn hold(bytes: &[u8]) {
    let record = Record::decode(bytes, &Limits::default());
    if let Ok(record) = &record {
        is_sound(record, bytes);
    }
    if let Ok(tight) = Record::decode(bytes, &TIGHT) {
        assert_eq!(
            Some(&tight),
            record.as_ref().ok(),
            "a limit changes no record; it only refuses some"
        );
        assert!(bytes.len() <= TIGHT.record_bytes);
        assert!(tight.iter().count() <= TIGHT.element_count);
    }
}

/// A record has one encoding, is found by each of its elements, and equals the
/// record made of its elements.
fn is_sound(record: &Record, bytes: &[u8]) {
    assert_eq!(record.encode().as_deref(), Ok(bytes));
    assert!(record.iter().is_sorted_by(|one, next| one.id < next.id));
    let mut copy = Record::new(record.sort(), record.subject().clone());
    for element in record.iter() {
        assert_eq!(record.get(element.id), Some(&element.value));
        assert_eq!(copy.set(element.id, element.value.clone()), None);
        let pattern = RecordPattern::new().having(element.id, element.value.clone());
        assert!(pattern.exists(element.id).matches(record));
    }
    assert_eq!(&copy, record);
    for element in record.iter() {
        assert!(copy.remove(element.id).is_some());
    }
    assert_eq!(copy.iter().count(), 0);
}
