use super::{
    group::{bh_alert_group, bh_group},
    options::number,
    serializer::class,
};
use crate::{
    edge::{
        Callback, Data, Failure, Outcome, bh_drop_fn, known_options, live_or_none, optional_text,
        options,
    },
    result::bh_result,
};
use busyhour::{
    pool::TaskPool,
    run_queue::Class,
    serializer::{
        AlertGroup, QueueAlert, Serializer, SerializerBuildError, SerializerBuilder,
        SerializerTemplate, ShutdownGroup,
    },
    task::{Overflow, Watermark},
};
use std::ffi::{CString, c_char, c_void};

/// Options of a new serializer; zero means the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct bh_serializer_options {
    /// `sizeof(bh_serializer_options)`
    pub size: usize,
    /// Its name, which no other living serializer of the pool has; NULL: none, and then the other options must be zero.
    pub name: *const c_char,
    /// How many tasks may wait; default 65,536.
    pub capacity: u64,
    /// What becomes of a push when so many wait: a `bh_overflow`.
    pub overflow: u32,
    /// 1 to 40, default 20; or 100 to 199: real time.
    pub priority: u32,
    /// Shuts it down together with others; NULL: none.
    pub group: *const bh_group,
    /// So many waiting tasks are too many; 0: no watermarks.
    pub high_watermark: u64,
    /// So many are few enough again.
    pub low_watermark: u64,
    /// Counts it while too many wait; NULL: none.
    pub alert_group: *const bh_alert_group,
    /// Is told of both watermarks.
    pub on_alert: bh_queue_alert_fn,
    /// The data of `on_alert`.
    pub on_alert_data: *mut c_void,
    /// Frees the data of `on_alert`.
    pub on_alert_drop: bh_drop_fn,
}

options!(bh_serializer_options, 88 {
    size,
    name,
    capacity,
    overflow,
    priority,
    group,
    high_watermark,
    low_watermark,
    alert_group,
    on_alert,
    on_alert_data,
    on_alert_drop,
});

/// What a full queue does with one more.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum bh_overflow {
    /// Refuses it.
    BH_OVERFLOW_REJECT = 0,
    /// Makes the producer wait for room.
    BH_OVERFLOW_BLOCK = 1,
    /// Drops the oldest one.
    BH_OVERFLOW_DROP_OLDEST = 2,
    /// Keeps only the newest one of each key, full or not, and refuses new keys when full.
    BH_OVERFLOW_CONFLATE = 3,
}

/// A queue has crossed a watermark; high and low alternate.
#[repr(C)]
pub struct bh_queue_alert {
    /// The serializer's name, or that of its template.
    pub name: *const c_char,
    /// Tells the serializers of a template apart; 0 if it has a name of its own.
    pub number: u64,
    /// How many tasks waited.
    pub queued_len: u64,
    /// How long the first of them has waited.
    pub oldest_waiting_ns: u64,
    /// Alerts before this one that were dropped because the hook had not returned.
    pub missed_before: u64,
    /// Not 0: too many; 0: few enough again.
    pub is_high: u32,
}

/// Is told of an alert. The struct and its text are valid until it returns. It runs on the pushing thread or on a worker, and
/// must be short.
pub type bh_queue_alert_fn =
    Option<unsafe extern "C-unwind" fn(alert: *const bh_queue_alert, data: *mut c_void)>;

type AlertCall = unsafe extern "C-unwind" fn(*const bh_queue_alert, *mut c_void);

/// Options that have been read and checked.
pub(crate) struct SerializerOptions<'a> {
    name: Option<&'a str>,
    capacity: usize,
    overflow: Overflow,
    class: Class,
    group: Option<&'a ShutdownGroup>,
    marks: Option<(usize, usize)>,
    alert_group: Option<&'a AlertGroup>,
    on_alert: Option<Callback<AlertCall>>,
}

impl<'a> SerializerOptions<'a> {
    /// Reads the options that C passed; their data is freed even if they are refused.
    pub(crate) fn of(given: *const bh_serializer_options) -> Outcome<Self> {
        let (options, known) = known_options(given, "options");
        let read = Self::read(&options);
        known.and(read)
    }

    fn read(given: &bh_serializer_options) -> Outcome<Self> {
        // First, so that its data is freed whatever happens.
        let on_alert = Data::new(given.on_alert_data, given.on_alert_drop);
        let on_alert = Callback::new(given.on_alert, on_alert);
        let group = live_or_none(given.group, "options.group")?;
        let alert_group = live_or_none(given.alert_group, "options.alert_group")?;
        let high = number(given.high_watermark);
        Ok(Self {
            name: optional_text(given.name, "options.name")?,
            capacity: number(given.capacity),
            overflow: overflow(given.overflow)?,
            class: class(given.priority)?,
            group: group.map(|group| &group.group),
            marks: (high > 0).then(|| (number(given.low_watermark), high)),
            alert_group: alert_group.map(|group| &group.group),
            on_alert,
        })
    }

    pub(super) fn build(self, pool: &TaskPool) -> Outcome<Serializer> {
        if self.name.is_some() {
            return self.build_from(|name| pool.serializer(name));
        }
        match self.is_plain() {
            true => Ok(pool.ephemeral()),
            false => Err(Failure::invalid(
                "options.name is NULL: a serializer with other options needs a name, or a template",
            )),
        }
    }

    /// With the options that a pool or a runtime begins with.
    pub(crate) fn build_from(
        self,
        begin: impl FnOnce(&str) -> SerializerBuilder,
    ) -> Outcome<Serializer> {
        Ok(self.builder(begin).build()?)
    }

    pub(crate) fn template_from(
        self,
        begin: impl FnOnce(&str) -> SerializerBuilder,
    ) -> Outcome<SerializerTemplate> {
        Ok(self.builder(begin).template()?)
    }

    fn is_plain(&self) -> bool {
        self.capacity == 0
            && self.overflow == Overflow::Reject
            && self.class == Class::default()
            && self.group.is_none()
            && self.marks.is_none()
            && self.alert_group.is_none()
            && self.on_alert.is_none()
    }

    fn builder(self, begin: impl FnOnce(&str) -> SerializerBuilder) -> SerializerBuilder {
        let mut builder = begin(self.name.unwrap_or_default()).overflow(self.overflow);
        builder = match self.class {
            Class::Normal(priority) => builder.priority(priority),
            Class::RealTime(priority) => builder.real_time(priority),
        };
        if self.capacity > 0 {
            builder = builder.capacity(self.capacity);
        }
        if let Some(group) = self.group {
            builder = builder.group(group);
        }
        if let Some(group) = self.alert_group {
            builder = builder.alert_group(group);
        }
        match (self.marks, self.on_alert) {
            (None, _) => builder,
            (Some((low, high)), None) => builder.watermarks(low, high),
            (Some((low, high)), Some(hook)) => {
                builder.on_alert(low, high, move |alert| tell(&hook, alert))
            }
        }
    }
}

fn tell(hook: &Callback<AlertCall>, alert: &QueueAlert) {
    let name = CString::new(&*alert.serializer.name).unwrap_or_default();
    let seen = bh_queue_alert {
        name: name.as_ptr(),
        number: alert.serializer.number,
        queued_len: alert.queued_len as u64,
        oldest_waiting_ns: alert.oldest_waiting_ns,
        missed_before: alert.missed_before,
        is_high: u32::from(alert.mark == Watermark::High),
    };
    hook.call_with(&raw const seen);
}

pub(crate) fn overflow(given: u32) -> Outcome<Overflow> {
    const REJECT: u32 = bh_overflow::BH_OVERFLOW_REJECT as u32;
    const BLOCK: u32 = bh_overflow::BH_OVERFLOW_BLOCK as u32;
    const DROP_OLDEST: u32 = bh_overflow::BH_OVERFLOW_DROP_OLDEST as u32;
    const CONFLATE: u32 = bh_overflow::BH_OVERFLOW_CONFLATE as u32;
    match given {
        REJECT => Ok(Overflow::Reject),
        BLOCK => Ok(Overflow::Block),
        DROP_OLDEST => Ok(Overflow::DropOldest),
        CONFLATE => Ok(Overflow::Conflate),
        other => Err(Failure::invalid(format!(
            "options.overflow: {other} is no bh_overflow"
        ))),
    }
}

impl From<SerializerBuildError> for Failure {
    #[cold]
    #[inline(never)]
    fn from(error: SerializerBuildError) -> Self {
        match error {
            SerializerBuildError::NameTaken(_) => {
                Self::new(bh_result::BH_EXISTS, error.to_string())
            }
            SerializerBuildError::NameEmpty => Self::invalid(
                "options.name is missing or empty: bh_serializer_new without options makes a serializer without a name",
            ),
            _ => Self::invalid(error.to_string()),
        }
    }
}
