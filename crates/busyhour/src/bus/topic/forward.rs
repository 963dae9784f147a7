use super::{Published, Topic};
use crate::{
    bus::{Event, topic_inner::TopicInner},
    sync::{Mutex, lock},
};
use std::{
    fmt,
    sync::{Arc, LazyLock},
};

/// Everything that happens on one topic happens on another one too, until this
/// is dropped; see [`Topic::forward_to`].
///
/// What was forwarded stays in the cache of the other topic.
#[must_use = "dropping it ends the forwarding"]
pub struct Forward<E: Event> {
    from: Arc<TopicInner<E>>,
    to: Arc<TopicInner<E>>,
    published: Published,
}

/// Why a topic was not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// Events would come back to the topic they started on.
    #[error("forwarding would lead events in a circle")]
    Circle,
    /// The one topic is forwarded to the other already.
    #[error("the topic is forwarded there already")]
    Duplicate,
}

impl<E: Event> Forward<E> {
    pub(in crate::bus) fn new(from: &Topic<E>, to: &Topic<E>) -> Result<Self, ForwardError> {
        let route = (from.0.id(), to.0.id());
        Routes::add(&mut lock(&ROUTES), route)?;
        // Made first, so that it takes the route back if the user's code panics.
        let mut forward = Self {
            from: Arc::clone(&from.0),
            to: Arc::clone(&to.0),
            published: Published::default(),
        };
        forward.published = from.0.add_forward(&to.0);
        Ok(forward)
    }

    /// What became of the events that were cached when forwarding began and
    /// were published on the other topic then.
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
/// There is no circle of ways, so each event comes to an end.
struct Routes(Vec<(u64, u64)>);

// Lazy, since the mutex of a model cannot be made in a constant.
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
