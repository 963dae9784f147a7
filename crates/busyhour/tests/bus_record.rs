//! The schemaless event against a map as its oracle, and its decoder against
//! arbitrary bytes.

#[path = "../../../fuzz/any_bytes.rs"]
mod any_bytes;
#[path = "model/record.rs"]
mod model;

use busyhour::bus::{
    BitField, DecodeError, Delivery, ElementId, Limits, Name, Record, RecordKey, RecordPattern,
    Topic, Value,
};
use proptest::{collection::vec, prelude::*};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u32>().prop_map(Value::U32),
        ".{0,20}".prop_map(|text| Value::Text(Name::from(text))),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bytes(bytes.into())),
        any::<u32>().prop_map(Value::Flags),
        vec(0..500_u16, 0..8).prop_map(|bits| Value::Bits(bits.into_iter().collect())),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let elements = vec((0..40_u16, values()), 0..12);
    (any::<u16>(), ".{0,20}", elements).prop_map(|(sort, subject, elements)| {
        let mut record = Record::new(sort, subject);
        for (id, value) in elements {
            record.set(ElementId(id), value);
        }
        record
    })
}

proptest! {
    #[test]
    fn a_record_behaves_like_a_map(steps in vec((0..6_u16, prop::option::of(values())), 0..40)) {
        let (mut record, mut oracle) = (Record::new(1, "subject"), BTreeMap::new());
        for (id, value) in steps {
            match value {
                Some(value) => prop_assert_eq!(
                    record.set(ElementId(id), value.clone()),
                    oracle.insert(id, value)
                ),
                None => prop_assert_eq!(record.remove(ElementId(id)), oracle.remove(&id)),
            }
            let elements = record.iter().map(|element| (element.id.0, element.value.clone()));
            prop_assert_eq!(elements.collect::<BTreeMap<_, _>>(), oracle.clone());
            prop_assert!(record.iter().is_sorted_by_key(|element| element.id));
        }
    }

    #[test]
    fn an_encoded_record_is_decoded_to_the_same_record(record in records()) {
        let bytes = record.encode().unwrap();
        prop_assert_eq!(Record::decode(&bytes, &Limits::default()), Ok(record.clone()));
        model::hold(&bytes);
        for cut in 0..bytes.len() {
            prop_assert!(Record::decode(&bytes[..cut], &Limits::default()).is_err());
        }
    }

    #[test]
    fn damaged_bytes_are_an_error_or_another_record(
        record in records(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = record.encode().unwrap();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        model::hold(&bytes);
    }

    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..200)) {
        model::hold(&bytes);
    }
}

#[test]
fn limits_are_kept() {
    let large = Record::new(1, "s").with(ElementId(1), Value::Bytes([0; 100].into()));
    let bytes = large.encode().unwrap();
    let decode = |limits| Record::decode(&bytes, &limits);
    let limits = Limits::default();
    assert!(decode(limits).is_ok());
    let too_large = Err(DecodeError::TooLarge);
    let value_bytes = 99;
    assert_eq!(
        decode(Limits {
            value_bytes,
            ..limits
        }),
        too_large
    );
    let element_count = 0;
    assert_eq!(
        decode(Limits {
            element_count,
            ..limits
        }),
        too_large
    );
    let record_bytes = bytes.len() - 1;
    assert_eq!(
        decode(Limits {
            record_bytes,
            ..limits
        }),
        too_large
    );
    let garbage = b"these are the bytes of no record";
    let refused = Record::decode(garbage, &limits);
    assert_eq!(refused, Err(DecodeError::CutOff));
    let many_elements = [0, 1, 0, 0, 255, 255, 0];
    let refused = Record::decode(&many_elements, &limits);
    assert_eq!(refused, Err(DecodeError::CutOff));
    let long = Record::new(1, "x".repeat(70_000));
    assert_eq!(long.encode(), Err(DecodeError::TooLarge));
}

#[test]
fn each_kind_of_damage_has_its_name() {
    let good = Record::new(1, "s").with(ElementId(3), Value::Text("é".into()));
    let bytes = good.encode().unwrap();
    let with = |index: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[index] = byte;
        Record::decode(&bytes, &Limits::default())
    };
    assert_eq!(with(4, 0xFF), Err(DecodeError::BadSubject));
    assert_eq!(with(9, 77), Err(DecodeError::UnknownType(3, 77)));
    assert_eq!(with(bytes.len() - 1, b'x'), Err(DecodeError::BadValue(3)));
    let longer = [bytes.as_slice(), &[0]].concat();
    let decoded = Record::decode(&longer, &Limits::default());
    assert_eq!(decoded, Err(DecodeError::TrailingBytes));
    let twice = [&bytes[..5], &[0, 2], &bytes[7..], &bytes[7..]].concat();
    let decoded = Record::decode(&twice, &Limits::default());
    assert_eq!(decoded, Err(DecodeError::OutOfOrder(3)));
}

#[test]
fn bits_and_flags_match_when_all_wanted_ones_are_set() {
    let bits = |bits: &[u16]| Value::Bits(bits.iter().copied().collect());
    assert!(bits(&[1, 9, 300]).matches(&bits(&[9])));
    assert!(!bits(&[1, 9]).matches(&bits(&[9, 10])));
    assert!(Value::Flags(0b110).matches(&Value::Flags(0)));
    assert!(!Value::Flags(1).matches(&Value::U32(1)));
    assert!(BitField::default().iter().next().is_none());
    assert_eq!(BitField::from_bytes(&[1, 0]), None);
}

#[test]
fn two_kinds_of_event_about_one_subject_have_two_keys() {
    let records: Topic<Record> = Topic::builder("records").cached().build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let of_first = records.subscribe().key(RecordKey::new(1, "SIP/door"));
    let _subscription = of_first.start(move |delivery| {
        log.lock().unwrap().push(match delivery {
            Delivery::Event(record, _) => (record.sort(), record.len()),
            _ => (0, 0),
        });
    });
    for sort in [1, 2] {
        let record = Record::new(sort, "SIP/door").with(ElementId(sort), Value::U32(7));
        assert_eq!(records.publish(record).delivered, u64::from(sort == 1));
    }
    assert_eq!(records.len(), 2);
    for sort in [1, 2] {
        let record = records.get(&RecordKey::new(sort, "SIP/door")).unwrap();
        assert_eq!(record.get(ElementId(sort)), Some(&Value::U32(7)));
    }
    assert_eq!(records.remove(&RecordKey::new(1, "SIP/door")).key_count, 1);
    assert_eq!(records.snapshot().len(), 1);
    assert_eq!(*heard.lock().unwrap(), [(1, 1), (0, 0)]);
}

#[test]
fn a_pattern_matches_by_kind_subject_existence_and_values() {
    let (caller, flags) = (ElementId(1), ElementId(2));
    let record = Record::new(7, "line/1")
        .with(caller, Value::Text("555".into()))
        .with(flags, Value::Flags(0b0110));
    let any = RecordPattern::new;
    let matching = [
        any(),
        any().sort(7).subject("line/1"),
        any().exists(caller).exists(flags),
        any().having(flags, Value::Flags(0b0010)).exists(caller),
        any().having(caller, Value::Text("555".into())),
    ];
    assert!(matching.iter().all(|pattern| pattern.matches(&record)));
    let others = [
        any().sort(8),
        any().subject("line/2"),
        any().exists(ElementId(3)),
        any().exists(caller).exists(ElementId(3)),
        any().having(flags, Value::Flags(0b1000)),
        any().having(caller, Value::Text("556".into())),
        any().having(caller, Value::Flags(0)),
        any().sort(7).subject("line/1").exists(ElementId(0)),
    ];
    assert!(!others.iter().any(|pattern| pattern.matches(&record)));
}

#[test]
fn a_cached_record_is_found_by_any_of_its_elements() {
    let records: Topic<Record> = Topic::builder("records").cached().build();
    let number = |line: u32| Value::U32(line);
    for line in 0..200 {
        let record = Record::new(7, format!("line/{line}")).with(ElementId(1), number(line));
        _ = records.publish(record);
    }
    for line in [0, 57, 199] {
        let wanted = RecordPattern::new().having(ElementId(1), number(line));
        let found = records.find(|record| wanted.matches(record)).unwrap();
        assert_eq!(*found.subject(), Name::from(format!("line/{line}")));
    }
    let newer = Record::new(7, "line/57").with(ElementId(1), number(1_000));
    _ = records.publish(newer);
    _ = records.remove(&RecordKey::new(7, "line/199"));
    for gone in [57, 199, 200] {
        let wanted = RecordPattern::new().having(ElementId(1), number(gone));
        assert!(records.find(|record| wanted.matches(record)).is_none());
    }
    let with_text = Topic::<Record>::builder("not cached").build();
    _ = with_text.publish(Record::new(1, "x"));
    assert!(with_text.find(|_| true).is_none());
}

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("bus_record", 20_000, model::hold);
}
