//! Targets that are found later: a device that sleeps and has been woken (RFC 8599).

use super::{Actions, Edge, Proxy, TransactionId};
use crate::proxy::{Target, context::Context, work::Work};
use busyhour::clock::Instant;

impl<E: Edge> Proxy<E> {
    /// A [late target](crate::Late) has been found: the request goes there at once, beside those
    /// that ring already. Returns whether it was sent; not if the request has ended or was
    /// answered or cancelled.
    pub fn add_late(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        target: Target,
        out: &mut Actions,
    ) -> bool {
        self.drop_ended();
        self.is_known(transaction)
            && self.step(now, transaction.slot, out, |context, work| {
                context.add_late(target, work)
            })
    }

    /// One of the late targets will not come; `reason` is said if nobody else answers.
    pub fn end_late(
        &mut self,
        now: Instant,
        transaction: TransactionId,
        reason: &'static str,
        out: &mut Actions,
    ) {
        self.drop_ended();
        if self.is_known(transaction) {
            self.step(now, transaction.slot, out, |context, work| {
                context.end_late(1, reason, work);
            });
        }
    }
}

impl<P> Context<P> {
    fn add_late<E: Edge<Data = P>>(&mut self, target: Target, work: &mut Work<'_, E>) -> bool {
        let is_open = self.final_status == 0 && !self.is_cancelled;
        let Some(pending) = self
            .pending
            .as_mut()
            .filter(|it| is_open && it.late_count > 0)
        else {
            return false;
        };
        pending.late_count -= 1;
        let has_begun = self.begin_late(target, work);
        if has_begun {
            work.shared.stats.late_targets += 1;
        }
        self.advance(work);
        has_begun
    }

    /// So many late targets will not come.
    pub fn end_late<E: Edge<Data = P>>(
        &mut self,
        count: u32,
        reason: &'static str,
        work: &mut Work<'_, E>,
    ) {
        let Some(pending) = self.pending.as_mut().filter(|it| it.late_count > 0) else {
            return;
        };
        pending.late_count = pending.late_count.saturating_sub(count);
        pending.own_reason = Some(reason);
        work.shared.stats.late_missed += 1;
        self.advance(work);
    }
}
