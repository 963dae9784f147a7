use super::event::bh_event;
use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, bh_drop_fn, borrow, give, guard, quietly, release,
    },
    result::bh_result,
};
use busyhour::bus::{Attribute, ElementId, SubscriptionBuilder, Value};
use std::{ffi::c_void, sync::Arc};

/// A property of events that many subscriptions of a topic ask for, each with a value of its own: a publisher computes it once,
/// and does not ask each of them. All of them must use the same attribute.
pub struct bh_attribute {
    attribute: Attribute<bh_event, Property>,
    of: Arc<dyn Fn(&bh_event) -> Property + Send + Sync>,
    is_number: bool,
}

/// Computes the property of an event: the same for an event each time. It runs on the thread that publishes.
pub type bh_attribute_fn =
    Option<unsafe extern "C-unwind" fn(event: *const bh_event, data: *mut c_void) -> u64>;

#[derive(PartialEq, Eq, Hash)]
enum Property {
    Number(u64),
    Element(Option<Value>),
}

/// Makes an attribute that `of` computes as a number. `drop` frees `data` with the last subscription, or at once if the call
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn bh_attribute_new(
    of: bh_attribute_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_attribute,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let of: Callback<unsafe extern "C-unwind" fn(*const bh_event, *mut c_void) -> u64> =
            Callback::new(of, data).ok_or_else(|| Failure::null("of"))?;
        let out = Out::required(out, "out")?;
        let of = move |event: &bh_event| Property::Number(of.call_with(&raw const *event));
        give(out, bh_attribute::new(true, of));
        Ok(())
    })
}

/// Makes an attribute of records: the value of an element, of whatever type, which a record may also lack.
#[unsafe(no_mangle)]
pub extern "C" fn bh_attribute_of_element(id: u16, out: *mut *mut bh_attribute) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let of = move |event: &bh_event| {
            let value = event
                .as_record()
                .and_then(|record| record.get(ElementId(id)));
            Property::Element(value.cloned())
        };
        give(out, bh_attribute::new(false, of));
        Ok(())
    })
}

/// Gives the handle up; its subscriptions go on.
#[unsafe(no_mangle)]
pub extern "C" fn bh_attribute_free(attribute: *mut bh_attribute) {
    quietly((), || drop(release(attribute)));
}

/// The filter by `attribute`: the value is that of the event `like`, or `number` if that is NULL.
pub(super) fn having(
    builder: SubscriptionBuilder<bh_event>,
    attribute: *const bh_attribute,
    like: *const bh_event,
    number: u64,
) -> Outcome<SubscriptionBuilder<bh_event>> {
    let attribute = borrow(attribute, "options.attribute")?;
    let wanted = match (like.is_null(), attribute.is_number) {
        (false, _) => (attribute.of)(borrow(like, "options.attribute_like")?),
        (true, true) => Property::Number(number),
        (true, false) => {
            Property::Element(Some(Value::U32(u32::try_from(number).map_err(|_| {
                Failure::invalid("options.attribute_number: an element has 32 bits")
            })?)))
        }
    };
    Ok(builder.having(&attribute.attribute, wanted))
}

impl bh_attribute {
    fn new(is_number: bool, of: impl Fn(&bh_event) -> Property + Send + Sync + 'static) -> Self {
        let of: Arc<dyn Fn(&bh_event) -> Property + Send + Sync> = Arc::new(of);
        let shared = Arc::clone(&of);
        Self {
            attribute: Attribute::new(move |event| shared(event)),
            of,
            is_number,
        }
    }
}
