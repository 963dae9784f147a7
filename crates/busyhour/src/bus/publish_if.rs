//! Publishing under a condition on the last value: one search decides and finds the slot.
//!
//! The condition is user code, so it runs before the lock, on a value that the pin keeps. The
//! search notes the version of that value before it reads it. Each change of a key gives its slot
//! a version that no other change of the shard has, so if the slot has the noted version when the
//! lock is held, the value is the one that was judged. If not, the new value is judged.

use super::{
    Event, Published,
    cache::{Expected, Incoming, Judged},
    publish_options::PublishOptions,
    publish_result::PublishResult,
    shard::{FastPath, Known, Shard},
    topic_inner::TopicInner,
};
use std::mem;

impl<E: Event> TopicInner<E> {
    /// Publishes an event of this node if its key has no last value or one that the event may
    /// replace; `None` if it may not. The condition gets the last value and the event.
    #[inline(always)]
    pub(super) fn publish_if(
        &self,
        event: E,
        may_replace: &impl Fn(&E, &E) -> bool,
    ) -> Option<Published> {
        let at = self.locate(event.key());
        self.publish_located_if(at, event, may_replace)
    }

    /// The same for an event whose shard and hash are known.
    #[inline(always)]
    pub(super) fn publish_located_if(
        &self,
        (index, hash): (usize, u64),
        event: E,
        may_replace: &impl Fn(&E, &E) -> bool,
    ) -> Option<Published> {
        let shard = &self.shards()[index];
        let judged = shard.judge((hash, event.key()), &|last| may_replace(last, &event));
        let Judged::May(expected) = judged else {
            return None;
        };
        let mut event = self.incoming(event);
        let locked = match shard.try_fast_path_if(self, (hash, &mut event), expected) {
            FastPath::Published { swept, .. } => {
                swept.drop_all();
                event.drop_overdue();
                return Some(Published::default());
            }
            FastPath::Locked(locked) => Some(locked),
            FastPath::NotApplicable => None,
        };
        let mut result = PublishResult::new();
        let to = (hash, &mut event);
        if locked.is_some_and(|locked| shard.publish_in(locked, self, to, &mut result)) {
            event.drop_overdue();
        } else {
            let to = (shard, hash, &mut event);
            self.publish_if_apart(to, expected, may_replace, &mut result)?;
        }
        let published = Published::from(&result);
        result.wake_all();
        Some(published)
    }

    /// Also where the value changes meanwhile, user code must be asked, or a subscription has no
    /// room and is to be waited for.
    #[cold]
    #[inline(never)]
    fn publish_if_apart(
        &self,
        (shard, hash, event): (&Shard<E>, u64, &mut Incoming<E>),
        expected: Expected,
        may_replace: &impl Fn(&E, &E) -> bool,
        result: &mut PublishResult<E>,
    ) -> Option<()> {
        let mut known = Known::new();
        let mut options = PublishOptions::expecting(expected);
        loop {
            while let Err(full) = shard.publish(self, (hash, event), options, &mut known, result) {
                options.may_wait = self.wait_for_room(&full);
            }
            if !mem::take(&mut result.is_outdated) {
                event.drop_overdue();
                return Some(());
            }
            let event = event.given.get()?.event();
            let mut judged = Judged::Stays;
            known.ask(self.id(), |_| {
                judged = shard.judge((hash, event.key()), &|last| may_replace(last, event))
            });
            match judged {
                Judged::Stays => return None,
                Judged::May(expected) => options.expected = Some(expected),
            }
        }
    }
}
