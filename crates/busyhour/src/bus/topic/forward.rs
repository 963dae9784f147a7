use super::{Published, Topic};
use crate::{
    bus::{Event, topic_inner::TopicInner},
    sync::{Mutex, lock},
};
use std::{
    fmt,
    sync::{Arc, LazyLock},
};

/// Forwards the changes of one topic to another one until it is dropped; see
/// [`Topic::forward_to`].
///
/// Events that were forwarded stay in the cache of the other topic.
///
/// ```
/// use busyhour::bus::{Event, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let (one, all) = (Topic::builder("one").cached().build(), Topic::builder("all").cached().build());
/// _ = one.publish(Tick(1));
/// let forward = one.forward_to(&all)?;
/// _ = one.publish(Tick(2));
/// drop(forward);
/// _ = one.publish(Tick(3));
/// assert_eq!(all.len(), 2);
/// # Ok::<(), busyhour::bus::ForwardError>(())
/// ```
#[must_use = "dropping it ends the forwarding"]
pub struct Forward<E: Event> {
    from: Arc<TopicInner<E>>,
    to: Arc<TopicInner<E>>,
    published: Published,
}

/// Why a topic cannot be forwarded.
///
/// ```
/// use busyhour::bus::{Event, ForwardError, Topic};
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let (one, all) = (Topic::<Tick>::builder("one").build(), Topic::builder("all").build());
/// let _forward = one.forward_to(&all)?;
/// assert_eq!(all.forward_to(&one).err(), Some(ForwardError::Circle));
/// # Ok::<(), ForwardError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardError {
    /// Events would come back to the topic where they were published.
    Circle,
    /// The topic is forwarded to the other one already.
    Duplicate,
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Circle => "forwarding would lead events in a circle",
            Self::Duplicate => "the topic is forwarded there already",
        })
    }
}

impl std::error::Error for ForwardError {}

impl<E: Event> Forward<E> {
    pub(in crate::bus) fn new(from: &Topic<E>, to: &Topic<E>) -> Result<Self, ForwardError> {
        let route = (from.0.id(), to.0.id());
        Routes::add(&mut lock(&ROUTES), route)?;
        // Made first, so that the route is removed if user code panics.
        let mut forward = Self {
            from: Arc::clone(&from.0),
            to: Arc::clone(&to.0),
            published: Published::default(),
        };
        forward.published = from.0.add_forward(&to.0);
        Ok(forward)
    }

    /// The result of publishing, on the other topic, the events that were
    /// cached here when forwarding began.
    pub fn published(&self) -> Published {
        self.published
    }
}

impl<E: Event> Drop for Forward<E> {
    fn drop(&mut self) {
        self.from.remove_forward(&self.to);
        let route = (self.from.id(), self.to.id());
        lock(&ROUTES).0.retain(|other| *other != route);
    }
}

impl<E: Event> fmt::Debug for Forward<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Forward")
            .field("from", &self.from.name())
            .field("to", &self.to.name())
            .finish()
    }
}

/// Which topic is forwarded to which, by number.
///
/// The routes have no cycle, so each event is forwarded a limited number of
/// times.
struct Routes(Vec<(u64, u64)>);

// Lazy, since loom's mutex has no const constructor.
static ROUTES: LazyLock<Mutex<Routes>> = LazyLock::new(|| Mutex::new(Routes(Vec::new())));

impl Routes {
    fn add(&mut self, (from, to): (u64, u64)) -> Result<(), ForwardError> {
        if self.0.contains(&(from, to)) {
            return Err(ForwardError::Duplicate);
        }
        if self.leads(to, from) {
            return Err(ForwardError::Circle);
        }
        self.0.push((from, to));
        Ok(())
    }

    fn leads(&self, from: u64, to: u64) -> bool {
        let (mut known, mut next) = (vec![from], 0);
        while let Some(&here) = known.get(next) {
            if here == to {
                return true;
            }
            next += 1;
            for &(start, end) in &self.0 {
                if start == here && !known.contains(&end) {
                    known.push(end);
                }
            }
        }
        false
    }
}
