use crate::Units;
use std::{fmt, sync::Arc};

/// What the archive says about one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name, and others for the same identifier if there are any.
    pub names: Vec<String>,
    /// Its identifier.
    pub id: MetricId,
    /// Of its values.
    pub value_type: ValueType,
    /// How its values relate to each other.
    pub semantics: Semantics,
    /// Of its values; of a counter's rate see [`Units::per_second`].
    pub units: Units,
    /// The instance domain; `None` for a metric with one value.
    pub domain: Option<u32>,
    /// All instances that the archive ever names for it, in the order in which
    /// they came; one without a name when there is no domain.
    pub instances: Arc<[Instance]>,
}

impl Metric {
    /// The first of its names.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Whether its values are numbers, which can be rendered.
    pub fn is_numeric(&self) -> bool {
        self.value_type.is_numeric()
    }
}

/// A member of an instance domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// As result records name it; −1 for the value of a metric without a domain.
    pub id: i32,
    /// As people name it, such as `1 minute`; empty without a domain.
    pub name: String,
}

impl Instance {
    /// The one instance of a metric without a domain.
    pub(crate) fn only() -> Self {
        Self {
            id: -1,
            name: String::new(),
        }
    }
}

/// One instance of one metric of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId {
    /// Its place in [`Archive::metrics`](crate::Archive::metrics).
    pub metric: usize,
    /// Its place in [`Metric::instances`].
    pub instance: usize,
}

/// A PMID. Shown as `domain.cluster.item`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricId(pub u32);

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(id) = self;
        write!(
            f,
            "{}.{}.{}",
            id >> 22 & 0x1ff,
            id >> 10 & 0xfff,
            id & 0x3ff
        )
    }
}

/// PMAPI(3), `PM_TYPE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// 32 bits with a sign.
    I32,
    /// 32 bits.
    U32,
    /// 64 bits with a sign.
    I64,
    /// 64 bits.
    U64,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Text.
    String,
    /// Bytes that only their maker understands.
    Aggregate,
    /// Event records.
    Event,
    /// Event records with nanoseconds.
    HighResolutionEvent,
    /// A number that no version of PCP gives.
    Unknown(i32),
}

impl ValueType {
    pub(crate) fn from_code(code: i32) -> Self {
        match code {
            0 => Self::I32,
            1 => Self::U32,
            2 => Self::I64,
            3 => Self::U64,
            4 => Self::F32,
            5 => Self::F64,
            6 => Self::String,
            7 | 8 => Self::Aggregate,
            9 => Self::Event,
            10 => Self::HighResolutionEvent,
            other => Self::Unknown(other),
        }
    }

    /// Whether it can be plotted.
    pub fn is_numeric(self) -> bool {
        use ValueType::{F32, F64, I32, I64, U32, U64};
        matches!(self, I32 | U32 | I64 | U64 | F32 | F64)
    }

    /// Whether it is a text or events, which [`Archive::annotations`](crate::Archive::annotations)
    /// gives.
    pub fn is_annotation(self) -> bool {
        use ValueType::{Event, HighResolutionEvent, String};
        matches!(self, String | Event | HighResolutionEvent)
    }
}

/// PMAPI(3), `PM_SEM_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantics {
    /// Grows; its rate is what people look at, and between two samples it is
    /// taken to grow evenly.
    Counter,
    /// Valid at the moment of the sample; between two it is taken to be the
    /// earlier one.
    Instant,
    /// Valid until the next sample, however late that is.
    Discrete,
}

impl Semantics {
    pub(crate) fn from_code(code: i32) -> Self {
        match code {
            1 => Self::Counter,
            4 => Self::Discrete,
            _ => Self::Instant,
        }
    }
}

/// As `pminfo -d` names it.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "32-bit int",
            Self::U32 => "32-bit unsigned int",
            Self::I64 => "64-bit int",
            Self::U64 => "64-bit unsigned int",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::String => "string",
            Self::Aggregate => "aggregate",
            Self::Event => "event record array",
            Self::HighResolutionEvent => "highres event record array",
            Self::Unknown(number) => return write!(f, "unknown ({number})"),
        })
    }
}
