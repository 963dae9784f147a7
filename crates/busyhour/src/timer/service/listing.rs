//! The timers that are not over, a few at a time.

use super::{
    record::{OtherWork, TimerPhase, TimerRecord, Work, panics},
    shard::{TimerShard, TimerShardState},
    timer_service::Service,
};
use crate::{
    task::Executor,
    timer::{
        handle::TimerHandle,
        pending::{PendingPhase, PendingTimer, TimerKind},
        queue::QueueHandle,
        rule::Rule,
    },
};
use std::sync::Arc;

/// How far a list of all timers has come.
#[derive(Debug, Default)]
pub(in crate::timer) struct ListCursor {
    shard: usize,
    /// The next slot of that shard's queue.
    slot: u32,
    /// The end of the slots when the list came to the shard, so that a list
    /// ends although timers are added.
    slot_end: Option<u32>,
}

impl Service {
    /// The timers of the next few slots, perhaps none; `None` at the end. A
    /// shard is locked for these slots only.
    pub(in crate::timer) fn next_page(&self, cursor: &mut ListCursor) -> Option<Vec<PendingTimer>> {
        let shard = self.shards.get(cursor.shard)?;
        let state = shard.lock();
        let slot_end = *cursor.slot_end.get_or_insert(state.queue.slot_end());
        let page_end = slot_end.min(cursor.slot + PAGE_SLOTS);
        let timers = state.queue.iter_slots(cursor.slot..page_end);
        let page: Vec<Listed> = timers
            .map(|(timer, record)| Listed::new(&state, timer, record))
            .collect();
        drop(state);
        cursor.slot = page_end;
        let shard = cursor.shard as u32;
        if page_end == slot_end {
            *cursor = ListCursor {
                shard: cursor.shard + 1,
                ..ListCursor::default()
            };
        }
        let describe = |listed: Listed| self.describe(shard, listed);
        Some(page.into_iter().map(describe).collect())
    }

    pub(in crate::timer) fn get(&self, handle: &TimerHandle) -> Option<PendingTimer> {
        let state = self.shard_of(handle)?.lock();
        let record = state.queue.get(handle.timer)?;
        let listed = Listed::new(&state, handle.timer, record);
        drop(state);
        Some(self.describe(handle.shard, listed))
    }

    /// Cancels each timer that `is_wanted`; returns how many runs were
    /// prevented. A panic of `is_wanted` is counted, and that timer stays.
    pub(in crate::timer) fn cancel_where(
        &self,
        mut is_wanted: impl FnMut(&PendingTimer) -> bool,
    ) -> usize {
        let (mut cursor, mut count) = (ListCursor::default(), 0);
        loop {
            let shard = cursor.shard;
            let Some(page) = self.next_page(&mut cursor) else {
                return count;
            };
            let mut wanted = Vec::new();
            for timer in &page {
                let ask = || wanted.extend(is_wanted(timer).then_some(timer.handle.timer));
                self.count_panics(panics(ask));
            }
            if !wanted.is_empty() {
                let shard: &TimerShard = &self.shards[shard];
                count += self.cancel_in_batches(shard, &wanted);
            }
        }
    }

    /// Asks the executor for its name and drops it, both without a lock.
    fn describe(&self, shard: u32, listed: Listed) -> PendingTimer {
        let Listed {
            timer,
            mut pending,
            executor,
        } = listed;
        if let Some(executor) = executor {
            self.count_panics(panics(|| pending.executor = executor.name()));
            self.count_panics(panics(|| drop(executor)));
        }
        pending.handle = TimerHandle {
            service: self.number,
            shard,
            timer,
        };
        pending
    }
}

/// A timer as it was read under the lock.
struct Listed {
    timer: QueueHandle,
    /// Without handle and executor.
    pending: PendingTimer,
    executor: Option<Arc<dyn Executor>>,
}

impl Listed {
    fn new(state: &TimerShardState, timer: QueueHandle, record: &TimerRecord) -> Self {
        let pending = PendingTimer {
            handle: TimerHandle::NEVER,
            label: state.labels.name(record.label),
            owner: record.owner(),
            due: state.queue.deadline(timer),
            phase: phase(record.phase),
            kind: kind(&record.work),
            executor: String::new(),
        };
        Self {
            timer,
            pending,
            executor: record.work.executor().cloned(),
        }
    }
}

fn phase(phase: TimerPhase) -> PendingPhase {
    match phase {
        TimerPhase::Waiting => PendingPhase::Waiting,
        TimerPhase::Delivered => PendingPhase::Delivered,
        TimerPhase::Running(_) => PendingPhase::Running,
    }
}

fn kind(work: &Work) -> Option<TimerKind> {
    Some(match work {
        Work::Once { .. } | Work::Other(OtherWork::Pooled { .. }) => TimerKind::Once,
        Work::Other(OtherWork::Repeat(repeat)) => match repeat.rule {
            Rule::Rate { period, .. } => TimerKind::Every(period),
            Rule::FixedDelay(gap) => TimerKind::FixedDelay(gap),
            Rule::ReturnedDelay => TimerKind::NextDelay,
        },
        Work::Other(OtherWork::Wake(_)) => TimerKind::Future,
        Work::Other(OtherWork::Away(_)) => return None,
    })
}

/// How many slots a list looks at under one lock: some microseconds.
const PAGE_SLOTS: u32 = 256;
