use super::{bh_topic, record::bh_record};
use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, bh_drop_fn, borrow, give, guard, live, quietly,
        release,
    },
    result::bh_result,
};
use busyhour::bus::{Event, Record, RecordKey};
use std::{
    ffi::c_void,
    hash::{Hash, Hasher},
    ptr,
    sync::Arc,
};

/// An event, which never changes; each handle is one reference.
#[derive(Clone)]
pub struct bh_event(Arc<EventBody>);

/// Hashes the key in a struct of the program: equal keys have equal hashes.
pub type bh_hash_fn =
    Option<unsafe extern "C-unwind" fn(object: *const c_void, data: *mut c_void) -> u64>;

/// Says whether two structs of the program have the same key: 0 if not.
pub type bh_equal_fn = Option<
    unsafe extern "C-unwind" fn(one: *const c_void, other: *const c_void, data: *mut c_void) -> i32,
>;

enum EventBody {
    Record { key: EventKey, record: bh_record },
    Object(EventKey),
}

/// The key of an event. Two keys of different sorts are never equal.
#[derive(Clone)]
pub enum EventKey {
    Record(RecordKey),
    Object(Arc<Object>),
}

/// A struct of the program, which holds its key.
pub struct Object {
    object: Data,
    hash: u64,
    keys: Arc<ObjectKeys>,
}

/// What the events of a topic are.
#[derive(Clone)]
pub(super) enum EventSort {
    Records,
    Objects(Arc<ObjectKeys>),
}

/// How structs of the program are hashed and compared.
pub struct ObjectKeys {
    hash: Callback<unsafe extern "C-unwind" fn(*const c_void, *mut c_void) -> u64>,
    equal: Callback<unsafe extern "C-unwind" fn(*const c_void, *const c_void, *mut c_void) -> i32>,
    /// The addresses of both functions and of their data.
    identity: [usize; 3],
}

/// Makes an event of a struct of the program, for a topic of such structs. The struct belongs to the library from this call on,
/// whatever it returns: `drop` frees it when nothing refers to it any more.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_of_object(
    topic: *const bh_topic,
    object: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_event,
) -> bh_result {
    let object = Data::new(object, drop);
    guard(|| {
        let out = Out::required(out, "out")?;
        give(
            out,
            bh_event::of_object(&live(topic, "topic")?.sort, object)?,
        );
        Ok(())
    })
}

/// Makes an event of a copy of a record.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_of_record(
    record: *const bh_record,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(out, bh_event::of_record(borrow(record, "record")?));
        Ok(())
    })
}

/// Another handle on the same event, for example to keep one that is valid only during a callback.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_clone(event: *const bh_event, out: *mut *mut bh_event) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        give(out, borrow(event, "event")?.clone());
        Ok(())
    })
}

/// Gives the handle up; the last one frees the event.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_free(event: *mut bh_event) {
    quietly((), || drop(release(event)));
}

/// The struct of the program that the event is; NULL if it is a record. It is valid as long as the event.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_object(event: *const bh_event) -> *const c_void {
    quietly(ptr::null(), || {
        match borrow(event, "event").map(|event| &*event.0) {
            Ok(EventBody::Object(EventKey::Object(object))) => object.object.address(),
            _ => ptr::null(),
        }
    })
}

/// The record that the event is; NULL if it is a struct of the program. It is valid as long as the event, and must not be
/// freed.
#[unsafe(no_mangle)]
pub extern "C" fn bh_event_record(event: *const bh_event) -> *const bh_record {
    quietly(ptr::null(), || {
        match borrow(event, "event").map(|event| &*event.0) {
            Ok(EventBody::Record { record, .. }) => &raw const *record,
            _ => ptr::null(),
        }
    })
}

impl Event for bh_event {
    type Key = EventKey;

    fn key(&self) -> &EventKey {
        match &*self.0 {
            EventBody::Record { key, .. } | EventBody::Object(key) => key,
        }
    }
}

impl bh_event {
    pub(super) fn of_record(record: &bh_record) -> Self {
        Self::of(record.record.clone())
    }

    pub(super) fn of(record: Record) -> Self {
        Self(Arc::new(EventBody::Record {
            key: EventKey::Record(record.key().clone()),
            record: bh_record { record },
        }))
    }

    pub(super) fn as_record(&self) -> Option<&Record> {
        match &*self.0 {
            EventBody::Record { record, .. } => Some(&record.record),
            EventBody::Object(_) => None,
        }
    }

    pub(super) fn of_object(sort: &EventSort, object: Data) -> Outcome<Self> {
        Ok(Self(Arc::new(EventBody::Object(EventKey::new(
            sort, object,
        )?))))
    }
}

impl EventKey {
    /// The key in a struct that C keeps, for the duration of a call.
    pub(super) fn borrowed(sort: &EventSort, object: *const c_void) -> Outcome<Self> {
        Self::new(sort, Data::new(object.cast_mut(), None))
    }

    fn new(sort: &EventSort, object: Data) -> Outcome<Self> {
        let EventSort::Objects(keys) = sort else {
            return Err(Failure::invalid("the events of the topic are records"));
        };
        if object.address().is_null() {
            return Err(Failure::null("object"));
        }
        let hash = keys.hash.call_with(object.address().cast_const());
        let keys = Arc::clone(keys);
        Ok(Self::Object(Arc::new(Object { object, hash, keys })))
    }

    pub(super) fn is_of(&self, sort: &EventSort) -> bool {
        match (self, sort) {
            (Self::Record(_), EventSort::Records) => true,
            (Self::Object(object), EventSort::Objects(keys)) => {
                object.keys.identity == keys.identity
            }
            _ => false,
        }
    }

    /// The address of the struct that holds the key; NULL for that of a record.
    pub(super) fn object(&self) -> *const c_void {
        match self {
            Self::Object(object) => object.object.address(),
            Self::Record(_) => ptr::null(),
        }
    }
}

impl PartialEq for EventKey {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Record(one), Self::Record(other)) => one == other,
            (Self::Object(one), Self::Object(other)) => {
                Arc::ptr_eq(one, other) || one.equals(other)
            }
            _ => false,
        }
    }
}

impl Eq for EventKey {}

impl Hash for EventKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Record(key) => key.hash(state),
            Self::Object(object) => state.write_u64(object.hash),
        }
    }
}

impl Object {
    fn equals(&self, other: &Self) -> bool {
        let (one, other_one) = (self.object.address(), other.object.address());
        self.hash == other.hash
            && self.keys.identity == other.keys.identity
            && self
                .keys
                .equal
                .call_with_two(one.cast_const(), other_one.cast_const())
                != 0
    }
}

impl EventSort {
    pub(super) fn new(hash: bh_hash_fn, equal: bh_equal_fn, data: *mut c_void) -> Outcome<Self> {
        let (hash, equal) = match (hash, equal) {
            (None, None) => return Ok(Self::Records),
            (Some(hash), Some(equal)) => (hash, equal),
            _ => return Err(Failure::invalid("options: hash and equal go together")),
        };
        let identity = [hash as usize, equal as usize, data.addr()];
        let hash = Callback::new(Some(hash), Data::new(data, None));
        let equal = Callback::new(Some(equal), Data::new(data, None));
        match (hash, equal) {
            (Some(hash), Some(equal)) => Ok(Self::Objects(Arc::new(ObjectKeys {
                hash,
                equal,
                identity,
            }))),
            _ => Ok(Self::Records),
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Records, Self::Records) => true,
            (Self::Objects(one), Self::Objects(other)) => one.identity == other.identity,
            _ => false,
        }
    }
}
