//! Topics: events with the last one of each key. An event is a record of typed elements, or a struct of the program with
//! its own hash and equality.

mod attribute;
mod event;
mod listing;
mod notices;
mod pattern;
mod record;
mod subscription;

use crate::{
    edge::{
        Callback, Data, Failure, Out, Outcome, Process, Threaded, bh_drop_fn, borrow, give, guard,
        known_options, live, live_or_none, optional_text, options, quietly, release, text,
    },
    executor::{bh_executor, executor_of},
    result::bh_result,
    runtime::bh_runtime,
    timers::bh_timers,
};
use busyhour::bus::{
    Event, Forward, ForwardError, NodeId, Published, RecordKey, Removed, Topic, TtlError,
};
pub use event::bh_event;
use event::{EventKey, EventSort, bh_equal_fn, bh_hash_fn};
use notices::{Source, announcements};
use pattern::bh_pattern;
use record::bh_record;
use std::{
    ffi::{c_char, c_void},
    time::Duration,
};

/// A topic.
pub struct bh_topic {
    topic: Topic<bh_event>,
    sort: EventSort,
    is_cached: bool,
    /// Of a topic of notices, or one that announces its subscriptions.
    source: Option<Source>,
    process: Process,
}

/// Forwards events from one topic to another until it is freed.
pub struct bh_forward {
    forward: Forward<bh_event>,
    _sources: [Option<Source>; 2],
    process: Process,
}

/// Options of a new topic; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_topic_options {
    /// `sizeof(bh_topic_options)`
    pub size: usize,
    /// Its name in statistics; default: none.
    pub name: *const c_char,
    /// How many keys may have a last event; default 16,777,216.
    pub key_limit: u64,
    /// The id of this node, which is the origin of what is published here.
    pub node: u64,
    /// Not 0: keeps the last event of each key.
    pub cached: u32,
    /// Hashes the key in a struct of the program; NULL: the events are records.
    pub hash: bh_hash_fn,
    /// Compares the keys in two structs of the program.
    pub equal: bh_equal_fn,
    /// The last argument of `hash` and `equal`. It must live as long as any event of the topic.
    pub key_data: *mut c_void,
    /// Makes one state of the states of several nodes; NULL: the last event counts, whichever node published it. With it
    /// the topic is cached.
    pub fold: bh_fold_fn,
    /// The data of `fold`.
    pub fold_data: *mut c_void,
    /// Frees the data of `fold`.
    pub fold_drop: bh_drop_fn,
    /// Lets events expire; NULL: `bh_topic_publish_for` is refused.
    pub timers: *const bh_timers,
    /// Where expired keys are removed; NULL: on the thread that delivers the timer.
    pub expire_on: *const bh_executor,
    /// A topic of records on which the subscriptions of this one are announced as they start and end, see
    /// `bh_announcement_element`; NULL: nowhere. If it is cached, it holds those that there are.
    pub announcements: *const bh_topic,
}

options!(bh_topic_options, 112 {
    size,
    name,
    key_limit,
    node,
    cached,
    hash,
    equal,
    key_data,
    fold,
    fold_data,
    fold_drop,
    timers,
    expire_on,
    announcements,
});

/// The state of a key at one node.
#[repr(C)]
pub struct bh_node_state {
    /// The node.
    pub node: u64,
    /// Its state, valid during the call.
    pub event: *const bh_event,
}

/// Makes one state of those of at least two nodes, which are sorted by node: a new event of the same key, which then belongs
/// to the library; not one of `states`, which `bh_event_clone` makes a new one of. NULL, or an event of another key: the
/// first one is taken. It may run more than once for one publish.
pub type bh_fold_fn = Option<
    unsafe extern "C-unwind" fn(
        states: *const bh_node_state,
        count: usize,
        data: *mut c_void,
    ) -> *mut bh_event,
>;

/// What became of a publish or a removal.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_published {
    /// Subscriptions that have it in their queue or have handled it.
    pub delivered: u64,
    /// Deliveries that were lost to full queues.
    pub lost: u64,
    /// Keys of which a state was removed; 0 for a publish.
    pub removed: u64,
    /// Not 0: the topic holds as many keys as it may, and the key is new, so the event was neither cached nor delivered.
    pub refused: u32,
}

/// Says whether an event is meant: 0 if not. The event is valid until it returns.
pub type bh_event_wanted_fn =
    Option<unsafe extern "C-unwind" fn(event: *const bh_event, data: *mut c_void) -> i32>;

impl Threaded for bh_topic {
    fn process(&self) -> Process {
        self.process
    }
}

impl Threaded for bh_forward {
    fn process(&self) -> Process {
        self.process
    }
}

/// Makes a topic. `runtime`, whose snapshot then lists it, and `options` may be NULL. The fold in the options belongs to the
/// library from this call on, whatever it returns.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_new(
    runtime: *const bh_runtime,
    options: *const bh_topic_options,
    out: *mut *mut bh_topic,
) -> bh_result {
    guard(|| {
        let (options, known) = known_options(options, "options");
        let fold = Callback::new(
            options.fold,
            Data::new(options.fold_data, options.fold_drop),
        );
        known?;
        let out = Out::required(out, "out")?;
        let name = optional_text(options.name, "options.name")?.unwrap_or_default();
        let mut builder = match live_or_none(runtime, "runtime")? {
            Some(runtime) => runtime.runtime.topic(name),
            None => Topic::builder(name),
        };
        builder = builder.node(NodeId(options.node));
        if options.cached != 0 {
            builder = builder.cached();
        }
        if options.key_limit > 0 {
            builder = builder.key_limit(usize::try_from(options.key_limit).unwrap_or(usize::MAX));
        }
        if let Some(timers) = live_or_none(options.timers, "options.timers")? {
            builder = builder.with_ttl(&timers.timers, &executor_of(options.expire_on)?);
        }
        let sort = EventSort::new(options.hash, options.equal, options.key_data)?;
        let is_cached = options.cached != 0 || fold.is_some();
        if let Some(fold) = fold {
            let of = sort.clone();
            let fold = move |states: &[(NodeId, bh_event)]| folded(&fold, &of, states);
            builder = builder.fold(NodeId(options.node), fold);
        }
        let mut source = None;
        if let Some(on) = live_or_none(options.announcements, "options.announcements")? {
            if !on.sort.is_same(&EventSort::Records) {
                return Err(Failure::invalid(
                    "options.announcements: its events are not records",
                ));
            }
            let (announced, fills) = announcements(on.topic.clone());
            builder = builder.announce_subscriptions(&announced);
            source = Some(fills);
        }
        give(
            out,
            bh_topic::filled(builder.build(), sort, is_cached, source),
        );
        Ok(())
    })
}

/// Gives the handle up. The topic lives as long as a handle, a subscription or a forward of it.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_free(topic: *mut bh_topic) {
    quietly((), || {
        if live(topic, "topic").is_ok() {
            drop(release(topic));
        }
    });
}

/// Publishes a struct of the program, which belongs to the library from this call on, whatever it returns: `drop` frees it
/// when nothing refers to it any more. It must not change. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_publish(
    topic: *mut bh_topic,
    object: *mut c_void,
    drop: bh_drop_fn,
    out: *mut bh_published,
) -> bh_result {
    let object = Data::new(object, drop);
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = bh_event::of_object(&topic.sort, object)?;
        Out::optional(out).write(topic.topic.clone().publish(event).into());
        Ok(())
    })
}

/// Publishes a copy of a record. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_publish_record(
    topic: *mut bh_topic,
    record: *const bh_record,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = bh_event::of_record(borrow(record, "record")?);
        topic.check(&event)?;
        Out::optional(out).write(topic.topic.clone().publish(event).into());
        Ok(())
    })
}

/// Publishes an event on behalf of another node. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_publish_from(
    topic: *mut bh_topic,
    node: u64,
    event: *const bh_event,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        Out::optional(out).write(topic.topic.clone().publish_from(NodeId(node), event).into());
        Ok(())
    })
}

/// Publishes an event that is removed after `ns`, unless a newer one of its key comes before. The topic must have timers.
/// `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_publish_for(
    topic: *mut bh_topic,
    ns: u64,
    event: *const bh_event,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        let published = topic
            .topic
            .clone()
            .publish_with_ttl(event, Duration::from_nanos(ns))?;
        Out::optional(out).write(published.into());
        Ok(())
    })
}

/// The last event with the key of `object`, of which only the key is read, as a new handle; `BH_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_get(
    topic: *const bh_topic,
    object: *const c_void,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let topic = live(topic, "topic")?;
        let key = EventKey::borrowed(&topic.sort, object)?;
        give(out, topic.topic.get(&key).ok_or_else(no_event)?);
        Ok(())
    })
}

/// The last record of a sort about a subject, as a new handle; `BH_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_get_record(
    topic: *const bh_topic,
    sort: u16,
    subject: *const c_char,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let topic = live(topic, "topic")?;
        let key = EventKey::Record(RecordKey::new(sort, text(subject, "subject")?));
        give(out, topic.topic.get(&key).ok_or_else(no_event)?);
        Ok(())
    })
}

/// The state of one node for the key of `event`, as a new handle; `BH_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_get_from(
    topic: *const bh_topic,
    node: u64,
    event: *const bh_event,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        give(
            out,
            topic
                .topic
                .get_from(NodeId(node), event.key())
                .ok_or_else(no_event)?,
        );
        Ok(())
    })
}

/// The first record that matches a pattern, by whatever elements it names, in the order of `bh_topic_each`, as a new handle;
/// `BH_NOT_FOUND` if there is none. It looks at every key; `bh_topic_get_record` finds a key at once.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_find_record(
    topic: *const bh_topic,
    pattern: *const bh_pattern,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let pattern = &borrow(pattern, "pattern")?.pattern;
        let found = live(topic, "topic")?.topic.find(|event| {
            event
                .as_record()
                .is_some_and(|record| pattern.matches(record))
        });
        give(out, found.ok_or_else(no_event)?);
        Ok(())
    })
}

/// Removes every key whose last record matches a pattern. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_remove_records(
    topic: *mut bh_topic,
    pattern: *const bh_pattern,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        // A callback may free both.
        let pattern = borrow(pattern, "pattern")?.pattern.clone();
        let topic = live(topic, "topic")?.topic.clone();
        let removed = topic.remove_matching(|event| {
            event
                .as_record()
                .is_some_and(|record| pattern.matches(record))
        });
        Out::optional(out).write(removed.into());
        Ok(())
    })
}

/// The first event that is wanted, in the order of `bh_topic_each`, as a new handle; `BH_NOT_FOUND` if there is none. It looks
/// at every key.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_find(
    topic: *const bh_topic,
    is_wanted: bh_event_wanted_fn,
    data: *mut c_void,
    out: *mut *mut bh_event,
) -> bh_result {
    guard(|| {
        let is_wanted = Callback::new(is_wanted, Data::new(data, None));
        let is_wanted = is_wanted.ok_or_else(|| Failure::null("is_wanted"))?;
        let out = Out::required(out, "out")?;
        let topic = live(topic, "topic")?.topic.clone();
        let found = topic.find(|event| is_wanted.call_with(&raw const *event) != 0);
        give(out, found.ok_or_else(no_event)?);
        Ok(())
    })
}

/// Tells `each` of the last event of every key, until it returns 0; every run that published the same events has the same
/// order.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_each(
    topic: *const bh_topic,
    each: bh_event_wanted_fn,
    data: *mut c_void,
) -> bh_result {
    guard(|| {
        let each = Callback::new(each, Data::new(data, None));
        let each = each.ok_or_else(|| Failure::null("each"))?;
        let events = live(topic, "topic")?.topic.snapshot();
        let _ended = events
            .iter()
            .find(|event| each.call_with(&raw const **event) == 0);
        Ok(())
    })
}

/// Removes the last event of the key of `event`, and tells the subscriptions. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_remove(
    topic: *mut bh_topic,
    event: *const bh_event,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        Out::optional(out).write(topic.topic.clone().remove(event.key()).into());
        Ok(())
    })
}

/// Removes the state of another node for the key of `event`; on a topic without `fold`, the last event, whichever node published
/// it. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_remove_from(
    topic: *mut bh_topic,
    node: u64,
    event: *const bh_event,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        let topic = topic.topic.clone();
        Out::optional(out).write(topic.remove_from(NodeId(node), event.key()).into());
        Ok(())
    })
}

/// The node that published last for the key of `event`; `BH_NOT_FOUND` if the key has no last event.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_origin_of(
    topic: *const bh_topic,
    event: *const bh_event,
    out_node: *mut u64,
) -> bh_result {
    guard(|| {
        let out = Out::required(out_node, "out_node")?;
        let topic = live(topic, "topic")?;
        let event = topic.checked(event)?;
        let origin = topic.topic.origin_of(event.key()).ok_or_else(no_event)?;
        out.write(origin.0);
        Ok(())
    })
}

/// 1 if any subscription may want an event with the key of this one, otherwise 0: before an event is made that is expensive to
/// make.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_would_deliver(topic: *const bh_topic, event: *const bh_event) -> i32 {
    quietly(0, || {
        let Ok(topic) = live(topic, "topic") else {
            return 0;
        };
        let event = topic.checked(event);
        event.map_or(0, |event| i32::from(topic.topic.would_deliver(event.key())))
    })
}

/// Removes every key whose last event is wanted. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_remove_where(
    topic: *mut bh_topic,
    is_wanted: bh_event_wanted_fn,
    data: *mut c_void,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let is_wanted = Callback::new(is_wanted, Data::new(data, None));
        let is_wanted = is_wanted.ok_or_else(|| Failure::null("is_wanted"))?;
        let topic = live(topic, "topic")?.topic.clone();
        let removed = topic.remove_matching(|event| is_wanted.call_with(&raw const *event) != 0);
        Out::optional(out).write(removed.into());
        Ok(())
    })
}

/// Removes all states of a node that is gone. `out`, what became of it, may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_remove_node(
    topic: *mut bh_topic,
    node: u64,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let topic = live(topic, "topic")?.topic.clone();
        Out::optional(out).write(topic.remove_node(NodeId(node)).into());
        Ok(())
    })
}

/// The number of keys with a last event; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_len(topic: *const bh_topic) -> usize {
    quietly(0, || {
        live(topic, "topic").map_or(0, |topic| topic.topic.len())
    })
}

/// Forwards every change of `from` to `to`, until `out` is freed; what is cached goes there at once. `BH_INVALID` if events
/// would come back, or if the two have different keys; `BH_EXISTS` if it is forwarded there already.
#[unsafe(no_mangle)]
pub extern "C" fn bh_topic_forward(
    from: *mut bh_topic,
    to: *mut bh_topic,
    out: *mut *mut bh_forward,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let (from, to) = (live(from, "from")?, live(to, "to")?);
        if !from.sort.is_same(&to.sort) {
            return Err(Failure::invalid(
                "from and to have events of different sorts",
            ));
        }
        // A subscription of `to` may free both handles.
        let sources = [from.source.clone(), to.source.clone()];
        let (from, to) = (from.topic.clone(), to.topic.clone());
        let forward = from.forward_to(&to)?;
        give(
            out,
            bh_forward {
                forward,
                _sources: sources,
                process: Process::current(),
            },
        );
        Ok(())
    })
}

/// What became of the events that were cached when forwarding began.
#[unsafe(no_mangle)]
pub extern "C" fn bh_forward_published(
    forward: *const bh_forward,
    out: *mut bh_published,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        out.write(live(forward, "forward")?.forward.published().into());
        Ok(())
    })
}

/// Ends a forward.
#[unsafe(no_mangle)]
pub extern "C" fn bh_forward_free(forward: *mut bh_forward) {
    quietly((), || {
        if live(forward, "forward").is_ok() {
            drop(release(forward));
        }
    });
}

impl bh_topic {
    fn filled(
        topic: Topic<bh_event>,
        sort: EventSort,
        is_cached: bool,
        source: Option<Source>,
    ) -> Self {
        Self {
            topic,
            sort,
            is_cached,
            source,
            process: Process::current(),
        }
    }

    /// An event of C, if it is of the topic's sort.
    fn checked(&self, event: *const bh_event) -> Outcome<bh_event> {
        let event = borrow(event, "event")?.clone();
        self.check(&event)?;
        Ok(event)
    }

    fn check(&self, event: &bh_event) -> Outcome {
        match event.key().is_of(&self.sort) {
            true => Ok(()),
            false => Err(Failure::invalid(
                "the event is not of the sort of the topic's events",
            )),
        }
    }
}

type FoldCall =
    unsafe extern "C-unwind" fn(*const bh_node_state, usize, *mut c_void) -> *mut bh_event;

fn folded(fold: &Callback<FoldCall>, sort: &EventSort, states: &[(NodeId, bh_event)]) -> bh_event {
    let first = &states[0].1;
    let seen: Vec<bh_node_state> = states
        .iter()
        .map(|(node, event)| bh_node_state {
            node: node.0,
            event: &raw const *event,
        })
        .collect();
    match release(fold.call_with_two(seen.as_ptr(), seen.len())) {
        Some(event) if event.key().is_of(sort) && event.key() == first.key() => *event,
        _ => first.clone(),
    }
}

fn no_event() -> Failure {
    Failure::not_found("the topic has no such event")
}

impl From<Published> for bh_published {
    fn from(published: Published) -> Self {
        Self {
            delivered: published.delivered,
            lost: published.lost,
            removed: 0,
            refused: u32::from(published.refused),
        }
    }
}

impl From<Removed> for bh_published {
    fn from(removed: Removed) -> Self {
        Self {
            delivered: removed.delivered,
            lost: removed.lost,
            removed: removed.key_count,
            refused: 0,
        }
    }
}

impl From<ForwardError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: ForwardError) -> Self {
        let code = match error {
            ForwardError::Duplicate => bh_result::BH_EXISTS,
            _ => bh_result::BH_INVALID,
        };
        Self::new(code, error.to_string())
    }
}

impl From<TtlError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: TtlError) -> Self {
        match error {
            TtlError::NoTimer(error) => error.into(),
            error => Self::invalid(error.to_string()),
        }
    }
}
