use std::{any::Any, fmt};

use crate::sync::{Mutex, lock};

/// What a panic was called with, kept for the handle of the future that
/// panicked; see [`JoinError::into_panic`](super::JoinError::into_panic).
///
/// Two payloads compare equal whatever they hold, since values of unknown types
/// cannot be compared.
///
/// ```
/// use busyhour::pool::{JoinError, TaskPool};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let error = pool.spawn(async { panic!("no such call") }).wait().unwrap_err();
/// let JoinError::Panicked(payload) = error else { panic!("{error:?}") };
/// assert_eq!(payload.message().as_deref(), Some("no such call"));
/// ```
pub struct PanicPayload(
    /// The mutex makes it shareable, which a payload need not be.
    Mutex<Box<dyn Any + Send>>,
);

impl PanicPayload {
    pub(in crate::pool) fn new(payload: Box<dyn Any + Send>) -> Self {
        Self(Mutex::new(payload))
    }

    /// The payload itself, for
    /// [`resume_unwind`](std::panic::resume_unwind).
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        (self.0.into_inner()).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The text of a panic that was called with one, as by `panic!`.
    pub fn message(&self) -> Option<String> {
        let payload = lock(&self.0);
        let literal = payload.downcast_ref::<&'static str>();
        let literal = literal.map(|message| (*message).to_owned());
        literal.or_else(|| payload.downcast_ref::<String>().cloned())
    }
}

impl PartialEq for PanicPayload {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for PanicPayload {}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload")
            .field(&self.message())
            .finish()
    }
}

/// As the end of a sentence.
impl fmt::Display for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message()
            .map_or(Ok(()), |message| write!(f, ": {message}"))
    }
}
