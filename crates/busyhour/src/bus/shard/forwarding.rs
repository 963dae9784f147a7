//! How a shard's changes reach the topics that its topic is forwarded to.

use super::{outbox::Duty, *};
use crate::sync::thread_token;
use std::collections::VecDeque;

impl<E: Event> Shard<E> {
    /// Forwards the cached events, and from now on every change.
    pub(in crate::bus) fn add_forward(
        &self,
        topic: &TopicInner<E>,
        to: &Arc<TopicInner<E>>,
        result: &mut PublishResult<E>,
    ) {
        let mut state = self.state.lock();
        let cache = self.cache(&mut state);
        let cached = cache.map(|(table, writer)| table.changes_since(writer, 0));
        let (mut live, removed): (Vec<_>, Vec<_>) = cached
            .unwrap_or_default()
            .into_iter()
            .partition(|change| !change.is_removed());
        live.sort_unstable_by_key(CachedChange::version);
        for change in live {
            let origin = state
                .origin_of_version(change.version())
                .unwrap_or(topic.local());
            let item = Item::Event(change.event);
            let to = Arc::clone(to);
            state.outbox.push(ForwardedChange { to, item, origin });
        }
        state.forwards.push(Arc::clone(to));
        drop(state);
        drop_each(removed);
        self.serve_outbox(result);
    }

    pub(in crate::bus) fn remove_forward(&self, to: &Arc<TopicInner<E>>) {
        let mut state = self.state.lock();
        let (gone, kept): (Vec<_>, _) = mem::take(&mut state.forwards)
            .into_iter()
            .partition(|topic| Arc::ptr_eq(topic, to));
        state.forwards = kept;
        drop(state);
        drop(gone);
    }

    /// Hands over what is to be forwarded, unless another thread is doing so,
    /// or this thread further up its stack.
    #[cold]
    #[inline(never)]
    pub(super) fn serve_outbox(&self, result: &mut PublishResult<E>) {
        if !self.is_to_serve() {
            return;
        }
        let mut panics = Panics::default();
        let mut is_first = true;
        while let Some(changes) = self.take_parcels() {
            // Other threads may add changes without end; the consumers must not
            // sleep meanwhile.
            if !mem::replace(&mut is_first, false) {
                panics.catch(|| result.wake_so_far());
            }
            for change in changes {
                change.hand_over(result, &mut panics);
            }
        }
    }

    fn take_parcels(&self) -> Option<VecDeque<ForwardedChange<E>>> {
        self.state.lock().outbox.take()
    }

    /// Whether this thread has to serve the outbox. Waits a little if another
    /// thread serves it and it is long.
    fn is_to_serve(&self) -> bool {
        let thread = thread_token();
        let mut duty = self.state.lock().outbox.enter(thread);
        let mut yields_left = YIELDS_MAX;
        while matches!(duty, Duty::Wait) {
            thread::yield_now();
            yields_left = yields_left.saturating_sub(1);
            duty = self.state.lock().outbox.look_again(thread, yields_left);
        }
        matches!(duty, Duty::Serve)
    }
}

/// Drops events one by one, so that a panic of one does not leak the others.
fn drop_each<E>(changes: Vec<CachedChange<E>>) {
    let mut panics = Panics::default();
    for change in changes {
        panics.drop(change);
    }
}

/// How often a publisher yields its processor while it waits for a thread that
/// forwards more slowly than others publish.
const YIELDS_MAX: u32 = 1024;
