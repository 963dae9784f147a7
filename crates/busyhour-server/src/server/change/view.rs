//! A record as one JSON object.

use super::element::{ChangeKind, ElementShape, element_of};
use busyhour::{
    bus::{Record, Value},
    clock::UnixTime,
};
use serde_json::{Map, Value as Json};

/// The JSON of a change: its kind, when it was told (in nanoseconds since 1970), its subject,
/// and its elements by name.
pub(super) fn json(record: &Record, at: UnixTime) -> String {
    let mut object = Map::new();
    if let Some(kind) = ChangeKind::of_sort(record.sort()) {
        object.insert("kind".into(), kind.name().into());
        object.insert("at_ns".into(), at.as_nanos().into());
        let subject = record.subject().as_str();
        object.insert(kind.subject_name().into(), subject.into());
    }
    for element in record.iter() {
        if let Some((name, shape)) = element_of(element.id) {
            object.insert(name.into(), value(shape, &element.value));
        }
    }
    Json::Object(object).to_string()
}

fn value(shape: ElementShape, value: &Value) -> Json {
    match value {
        Value::U32(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Flags(flags) => (flags & 1 == 1).into(),
        Value::Bits(bits) => bits.iter().collect(),
        Value::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            match shape {
                ElementShape::Lines => text.split_terminator('\n').collect(),
                _ => text.into(),
            }
        }
    }
}
