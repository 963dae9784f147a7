use super::{
    attribute::{bh_attribute, having},
    bh_event_wanted_fn, bh_topic,
    event::{EventKey, bh_event},
    notices::Source,
    pattern::bh_pattern,
};
use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, Process, Threaded, bh_drop_fn, give, guard,
        known_options, live, optional_text, options, quietly, release,
    },
    executor::{bh_executor, executor_of},
    pool::overflow,
    result::bh_result,
};
use busyhour::bus::{Delivery, Event, Subscription, SubscriptionBuilder};
use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

/// A running subscription.
pub struct bh_subscription {
    subscription: Subscription<bh_event>,
    /// Dropped after the subscription, whose end it announces.
    _source: Option<Source>,
    process: Process,
}

/// Options of a subscription; zero means the default: every event from now on.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_subscription_options {
    /// `sizeof(bh_subscription_options)`
    pub size: usize,
    /// Its name in statistics; default: none.
    pub name: *const c_char,
    /// Where the callback runs, one call at a time; NULL: on the thread that publishes.
    pub on: *const bh_executor,
    /// Only events with the key of this one; NULL: of any key.
    pub key: *const bh_event,
    /// Only records that match; NULL: any. The library copies the pattern. Of `key`, `pattern`, `is_wanted` and
    /// `attribute` at most one is set.
    pub pattern: *const bh_pattern,
    /// Only events that are wanted; NULL: any. It runs on the thread that publishes.
    pub is_wanted: bh_event_wanted_fn,
    /// The data of `is_wanted`.
    pub is_wanted_data: *mut c_void,
    /// Frees the data of `is_wanted`.
    pub is_wanted_drop: bh_drop_fn,
    /// How many events may wait; default 1,024.
    pub capacity: u64,
    /// What becomes of an event when so many wait: a `bh_overflow`.
    pub overflow: u32,
    /// Not 0: first the last event of every key, and again after a loss. `BH_INVALID` if the topic is not `cached`.
    pub replay: u32,
    /// Not 0: of the waiting events of a key only the newest.
    pub conflate: u32,
    /// Only events with one value of this attribute; NULL: any. Publishers of other values do not pay for the subscription.
    pub attribute: *const bh_attribute,
    /// The value is that of this event; NULL: the value is a number.
    pub attribute_like: *const bh_event,
    /// The number; for an attribute of an element, one that `bh_record_set_u32` has set.
    pub attribute_number: u64,
}

options!(bh_subscription_options, 112 {
    size,
    name,
    on,
    key,
    pattern,
    is_wanted,
    is_wanted_data,
    is_wanted_drop,
    capacity,
    overflow,
    replay,
    conflate,
    attribute,
    attribute_like,
    attribute_number,
});

/// What a subscription receives; valid until the callback returns.
#[repr(C)]
pub struct bh_delivery {
    /// Which of these it is.
    pub kind: bh_delivery_kind,
    /// The event; NULL for the other kinds. `bh_event_clone` keeps it.
    pub event: *const bh_event,
    /// The node that published or removed.
    pub origin: u64,
    /// How many deliveries were lost since the last such notice.
    pub lost: u64,
    /// A struct of the program with the key that was removed; NULL for records.
    pub removed_object: *const c_void,
    /// The subject of the record that was removed; NULL for structs of the program.
    pub removed_subject: *const c_char,
    /// Its sort.
    pub removed_sort: u16,
}

/// The kinds of deliveries.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_delivery_kind {
    /// An event, replayed or published.
    BH_DELIVERY_EVENT = 0,
    /// A key was removed.
    BH_DELIVERY_REMOVED = 1,
    /// All that was cached has been delivered.
    BH_DELIVERY_REPLAYED = 2,
    /// Deliveries were lost.
    BH_DELIVERY_LOST = 3,
}

/// Receives what a subscription delivers, one call at a time.
pub type bh_delivery_fn =
    Option<unsafe extern "C-unwind" fn(delivery: *const bh_delivery, data: *mut c_void)>;

type DeliveryCall = unsafe extern "C-unwind" fn(*const bh_delivery, *mut c_void);

impl Threaded for bh_subscription {
    fn process(&self) -> Process {
        self.process
    }
}

/// Starts a subscription. `options` may be NULL. `drop` frees `data` when the callback will not run again, or at once if the
/// call fails; the data in the options likewise.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_subscribe(
    topic: *mut bh_topic,
    options: *const bh_subscription_options,
    receive: bh_delivery_fn,
    data: *mut c_void,
    drop: bh_drop_fn,
    out: *mut *mut bh_subscription,
) -> bh_result {
    let data = Data::new(data, drop);
    guard(|| {
        let (options, known) = known_options(options, "options");
        let wanted = Data::new(options.is_wanted_data, options.is_wanted_drop);
        let wanted = Callback::new(options.is_wanted, wanted);
        known?;
        let receive = Callback::new(receive, data).ok_or_else(|| Failure::null("receive"))?;
        let out = Out::required(out, "out")?;
        let topic = live(topic, "topic")?;
        if options.replay != 0 && !topic.is_cached {
            return Err(Failure::invalid(
                "options.replay: the topic is not cached: set `cached` in its options",
            ));
        }
        let builder = queue(topic.topic.subscribe(), &options)?;
        let builder = filter(topic, builder, &options, wanted)?;
        // What is replayed at once may free the topic's handle.
        let source = topic.source.clone();
        let subscription = builder.start(move |delivery| tell(&receive, &delivery));
        give(
            out,
            bh_subscription {
                subscription,
                _source: source,
                process: Process::current(),
            },
        );
        Ok(())
    })
}

/// Ends the subscription: when this returns, the callback is not running and will not run again. Inside of the callback it does
/// not wait.
#[unsafe(no_mangle)]
pub extern "C" fn bh_subscription_free(subscription: *mut bh_subscription) {
    quietly((), || {
        if live(subscription, "subscription").is_ok() {
            drop(release(subscription));
        }
    });
}

/// Delivers the last event of every key again, then `BH_DELIVERY_REPLAYED`; only the latter if the topic is not `cached`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_subscription_replay(subscription: *mut bh_subscription) -> bh_result {
    guard(|| {
        live(subscription, "subscription")?.subscription.replay();
        Ok(())
    })
}

/// Deliveries that the subscription has lost so far; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_subscription_lost(subscription: *const bh_subscription) -> u64 {
    quietly(0, || {
        live(subscription, "subscription").map_or(0, |one| one.subscription.lost())
    })
}

/// 1 if no event waits and the callback is not running, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_subscription_is_idle(subscription: *const bh_subscription) -> i32 {
    quietly(0, || {
        live(subscription, "subscription").map_or(0, |one| i32::from(one.subscription.is_idle()))
    })
}

/// The number of events that wait; with `replay` and `conflate`, of changes that have not been read from the
/// cache yet; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_subscription_len(subscription: *const bh_subscription) -> usize {
    quietly(0, || {
        live(subscription, "subscription").map_or(0, |one| one.subscription.queued_len())
    })
}

fn queue(
    mut builder: SubscriptionBuilder<bh_event>,
    given: &bh_subscription_options,
) -> Outcome<SubscriptionBuilder<bh_event>> {
    builder = builder.overflow(overflow(given.overflow)?);
    if let Some(name) = optional_text(given.name, "options.name")? {
        builder = builder.name(name);
    }
    if !given.on.is_null() {
        builder = builder.on(&executor_of(given.on)?);
    }
    if given.capacity > 0 {
        builder = builder.capacity(usize::try_from(given.capacity).unwrap_or(usize::MAX));
    }
    if given.replay != 0 {
        builder = builder.replay();
    }
    if given.conflate != 0 {
        builder = builder.conflate();
    }
    Ok(builder)
}

fn filter(
    topic: &bh_topic,
    builder: SubscriptionBuilder<bh_event>,
    given: &bh_subscription_options,
    wanted: Option<Callback<unsafe extern "C-unwind" fn(*const bh_event, *mut c_void) -> i32>>,
) -> Outcome<SubscriptionBuilder<bh_event>> {
    if !given.attribute.is_null() {
        let (like, number) = (given.attribute_like, given.attribute_number);
        let is_alone = given.key.is_null() && given.pattern.is_null() && wanted.is_none();
        return match is_alone {
            true => having(builder, given.attribute, like, number),
            false => Err(too_many_filters()),
        };
    }
    match (given.key.is_null(), given.pattern.is_null(), wanted) {
        (true, true, None) => Ok(builder),
        (false, true, None) => Ok(builder.key(topic.checked(given.key)?.key().clone())),
        (true, false, None) => {
            let pattern = crate::edge::borrow(given.pattern, "options.pattern")?
                .pattern
                .clone();
            Ok(builder.matching(move |event| {
                event
                    .as_record()
                    .is_some_and(|record| pattern.matches(record))
            }))
        }
        (true, true, Some(wanted)) => {
            Ok(builder.matching(move |event| wanted.call_with(&raw const *event) != 0))
        }
        _ => Err(too_many_filters()),
    }
}

fn too_many_filters() -> Failure {
    Failure::invalid("options: more than one of key, pattern, is_wanted and attribute is set")
}

fn tell(receive: &Callback<DeliveryCall>, delivery: &Delivery<'_, bh_event>) {
    let mut seen = bh_delivery {
        kind: bh_delivery_kind::BH_DELIVERY_REPLAYED,
        event: ptr::null(),
        origin: 0,
        lost: 0,
        removed_object: ptr::null(),
        removed_subject: ptr::null(),
        removed_sort: 0,
    };
    let mut subject = CString::default();
    match delivery {
        Delivery::Event(event, origin) => {
            seen.kind = bh_delivery_kind::BH_DELIVERY_EVENT;
            seen.event = &raw const **event;
            seen.origin = origin.0;
        }
        Delivery::Removed(key, origin) => {
            seen.kind = bh_delivery_kind::BH_DELIVERY_REMOVED;
            seen.origin = origin.0;
            seen.removed_object = key.object();
            if let EventKey::Record(record) = key {
                subject = CString::new(record.subject.as_str()).unwrap_or_default();
                seen.removed_subject = subject.as_ptr();
                seen.removed_sort = record.sort;
            }
        }
        Delivery::Replayed => {}
        Delivery::Lost(count) => {
            seen.kind = bh_delivery_kind::BH_DELIVERY_LOST;
            seen.lost = *count;
        }
    }
    receive.call_with(&raw const seen);
    drop(subject);
}
