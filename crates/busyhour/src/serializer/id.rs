use std::{fmt, sync::Arc};

/// Which serializer of a pool has sent an alert.
///
/// ```
/// use busyhour::serializer::SerializerId;
///
/// let calls = SerializerId::from("calls");
/// assert_eq!((calls.number, &*calls.to_string()), (0, "calls"));
/// let third = SerializerId { name: "device".into(), number: 3 };
/// assert_eq!(third.to_string(), "device #3");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SerializerId {
    /// The serializer's name, or the name of its
    /// [template](super::SerializerTemplate).
    pub name: Arc<str>,
    /// Tells the serializers of templates apart, from 1 on in each pool; 0 if
    /// the serializer has a name of its own.
    pub number: u64,
}

/// The serializer that has this name of its own.
impl From<&str> for SerializerId {
    fn from(name: &str) -> Self {
        let name = name.into();
        Self { name, number: 0 }
    }
}

/// The name; for a serializer of a template with its number, as `device #3`.
impl fmt::Display for SerializerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => out.write_str(&self.name),
            number => write!(out, "{} #{number}", self.name),
        }
    }
}
