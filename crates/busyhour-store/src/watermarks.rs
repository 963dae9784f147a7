//! The length of a store's queue, and the watermarks between which an alert begins and
//! ends.

use super::StoreStats;

impl StoreStats {
    /// Of an empty queue with room for `capacity` changes: an alert begins where half of
    /// the room is taken, since devices are refused where all is.
    pub(super) fn of_queue(capacity: u64) -> Self {
        Self {
            queue_capacity: capacity,
            high_watermark: capacity / 2,
            low_watermark: capacity / 8,
            ..Self::default()
        }
    }

    /// The queue has this length now.
    pub(super) fn set_queued_len(&mut self, queued_len: u64) {
        self.queued_len = queued_len;
        self.queued_high_water = self.queued_high_water.max(queued_len);
        if self.is_high {
            self.is_high = queued_len > self.low_watermark;
        } else if self.high_watermark > 0 && queued_len >= self.high_watermark {
            self.is_high = true;
            self.alerts_raised += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_begins_at_half_of_the_room_and_ends_at_an_eighth() {
        let mut stats = StoreStats::of_queue(64);
        let alerts: Vec<_> = [31, 32, 60, 9, 8, 31, 8, 40]
            .map(|len| {
                stats.set_queued_len(len);
                (stats.is_high, stats.alerts_raised)
            })
            .into();
        let (none, first) = ((false, 0), (true, 1));
        let over = (false, 1);
        let second = (true, 2);
        assert_eq!(
            alerts,
            [none, first, first, first, over, over, over, second]
        );
        assert_eq!(stats.queued_high_water, 60);
        let mut unbounded = StoreStats::default();
        unbounded.set_queued_len(7);
        assert!(!unbounded.is_high, "without a capacity there is no mark");
    }
}
