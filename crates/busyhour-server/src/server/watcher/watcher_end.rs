//! How a watcher ends: by itself or by an order, since its partition has moved, or since it was brought back meanwhile.
//!
//! When a partition goes, its watchers are told to subscribe again, and each one stays until its watcher has answered that, for 32 s at
//! most. Its row in the store belongs to who has the partition, which brings the subscription back from it. That may be this node,
//! within these 32 s: then the one that is brought back has the id, the place and the connection of the former one, which
//! gives way. So whatever a watcher gives up at its end is its own, and not what has its id.

use super::{Inner, StateSubscription, Watcher, watcher_context::WatcherContext};
use busyhour::task::{Executor, Task};
use busyhour_registrar::watch::End;
use std::sync::Arc;

impl Watcher {
    /// Ends the subscription with a last NOTIFY.
    pub(in crate::server) fn push_end(self: &Arc<Self>, end: End) {
        let watcher = self.clone();
        self.push_task(Task::labelled(&"end of a subscription", move || {
            watcher.with(|context, state| state.subscription.end(end, context.clock.now()));
        }));
    }

    /// Another node has its partition, and its row: it is told to subscribe again.
    pub(super) fn push_moved(self: &Arc<Self>) {
        let watcher = self.clone();
        let give_away = move || {
            watcher.with(|context, state| {
                state.give_row_away();
                let now = context.clock.now();
                state.subscription.end(End::Deactivated, now);
            });
        };
        // However much waits: it must not keep the row. It is refused only when the server ends.
        let task = Task::labelled(&"another node has it", give_away);
        let _ = self.strand.execute_unbounded(task);
    }

    /// It has ended, and those who watch its resource are told so.
    pub(super) fn close(
        self: &Arc<Self>,
        context: &WatcherContext,
        state: &mut Inner,
        end: End,
    ) -> Option<StateSubscription> {
        let counters = &context.watchers.counters;
        match end {
            End::Unsubscribed => counters.unsubscribed.increment(),
            End::Expired => counters.expired.increment(),
            End::Refused(_) | End::Unanswered => counters.given_up.increment(),
            End::Rejected => counters.revoked.increment(),
            End::Deactivated | End::NoResource => {}
        }
        // Another one may have come back in its place, whose id is on those lists.
        if context.watchers.has(self) {
            self.unlist(context, state, end);
        }
        if let Some(row) = state.row.take() {
            context.persistence.store().purge(&[row.ended]);
        }
        self.let_go(context, state)
    }

    /// Another one was brought back in its place, and has its row.
    pub(super) fn push_superseded(self: &Arc<Self>) {
        let watcher = self.clone();
        let give_way = move || {
            let Some(context) = watcher.context.upgrade() else {
                return;
            };
            let mut state = watcher.lock();
            state.give_row_away();
            if state.is_over {
                return;
            }
            let feed = watcher.let_go(&context, &mut state);
            drop(state);
            watcher.leave_feed(feed);
        };
        // It is refused only when the server ends.
        let task = Task::labelled(&"another one in its place", give_way);
        let _ = self.strand.execute_unbounded(task);
    }

    /// Gives up all that it has; the feed is dropped outside the lock.
    pub(super) fn let_go(
        &self,
        context: &WatcherContext,
        state: &mut Inner,
    ) -> Option<StateSubscription> {
        state.is_over = true;
        // Of one that is not answered any more.
        drop(state.notify_span.take());
        self.charge(context, &mut state.notify_bytes, 0);
        state.expiry_timer.clear(&context.timers);
        self.leave_connection(context, state);
        self.leave_path(context, state);
        context.watchers.remove(self);
        self.forget_lamps(context);
        state.feed.take()
    }

    /// Under no lock: the feed may be the caller.
    pub(super) fn leave_feed(&self, feed: Option<StateSubscription>) {
        match &feed {
            Some(StateSubscription::List(hub)) => hub.leave(self),
            Some(StateSubscription::Resource(feed)) => feed.remove_watcher(self),
            Some(StateSubscription::Registration(_) | StateSubscription::Watchers(..)) | None => {}
        }
    }
}

impl Inner {
    /// From now on its row belongs to somebody else, also what is still on its way to the disk.
    fn give_row_away(&mut self) {
        self.row = None;
        self.is_row_given_away = true;
    }
}
