use crate::timer::queue::QueueHandle;

/// The timers of one owner or one label in one shard, so that clearing them
/// looks at no others.
///
/// A timer that leaves stays in the list as a handle that names nothing; such
/// handles are dropped together once they are more than the others.
#[derive(Debug, Default)]
pub(in crate::timer) struct TimerSet {
    handles: Vec<QueueHandle>,
    /// How many of the handles name a timer.
    count: usize,
}

impl TimerSet {
    #[inline]
    pub(in crate::timer) fn add(&mut self, timer: QueueHandle) {
        self.handles.push(timer);
        self.count += 1;
    }

    /// Notes that one has left; `is_there` knows which have not.
    #[inline]
    pub(in crate::timer) fn left(&mut self, is_there: impl Fn(QueueHandle) -> bool) {
        self.count -= 1;
        if self.handles.len() > 2 * self.count + GONE_MIN {
            self.handles.retain(|&timer| is_there(timer));
            // What a burst took goes back; what comes and goes stays.
            let wanted = 2 * self.count + GONE_MIN;
            if self.handles.capacity() > 4 * wanted {
                self.handles.shrink_to(2 * wanted);
            }
        }
    }

    pub(in crate::timer) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them, and some that have left.
    pub(in crate::timer) fn handles(&self) -> &[QueueHandle] {
        &self.handles
    }
}

/// So few handles that name nothing are not worth a walk.
const GONE_MIN: usize = 16;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{clock::Instant, timer::TimerQueue};

    #[test]
    fn the_list_stays_short_while_timers_come_and_go() {
        let (mut queue, mut members) = (TimerQueue::new(), TimerSet::default());
        let add = |queue: &mut TimerQueue<()>, members: &mut TimerSet| {
            let timer = queue.add(Instant::ZERO, ());
            members.add(timer);
            timer
        };
        let stays = add(&mut queue, &mut members);
        for _ in 0..1_000 {
            let goes = add(&mut queue, &mut members);
            queue.cancel(goes);
            members.left(|timer| queue.get(timer).is_some());
            assert!(members.handles().contains(&stays));
            assert!(members.handles().len() <= 3 + GONE_MIN);
        }
        queue.cancel(stays);
        members.left(|timer| queue.get(timer).is_some());
        assert!(members.is_empty());
    }
}
