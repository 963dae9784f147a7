//! What waits to be sent on all connections, as a list for operators.

use super::engine::EngineShared;
use crate::server::{ALL_QUEUES, QueueView};
use std::{cmp::Reverse, sync::atomic::Ordering};

/// All connections together, and those with the most bytes.
pub(super) fn output_queues(shared: &EngineShared) -> Vec<QueueView> {
    let counters = shared.counters.read();
    let mut all = QueueView {
        kind: CONNECTION,
        name: ALL_QUEUES.into(),
        queued_bytes: Some(shared.waiting_bytes.load(Ordering::Relaxed) as u64),
        capacity_bytes: Some(shared.policy.all_outboxes_bytes_max as u64),
        oldest_waiting_ns: Some(0),
        processed: Some(counters.sent),
        refused: Some(counters.closed_unread + counters.put_off),
        ..QueueView::default()
    };
    let mut waiting = Vec::new();
    for peer in shared.directory.all() {
        if let Some(output) = peer.waiting() {
            let age_ns = u64::try_from(output.age.as_nanos()).unwrap_or(u64::MAX);
            all.queued_len += output.len;
            all.oldest_waiting_ns = all.oldest_waiting_ns.max(Some(age_ns));
            waiting.push((output, age_ns, peer.flow));
        }
    }
    waiting.sort_by_key(|(output, age_ns, _)| Reverse((output.bytes, *age_ns)));
    let named = waiting.into_iter().take(BUSIEST_MAX);
    let named = named.map(|(output, age_ns, flow)| QueueView {
        kind: CONNECTION,
        name: format!("to {} over {}", flow.remote, flow.transport),
        queued_len: output.len,
        queued_bytes: Some(output.bytes),
        capacity_bytes: Some(shared.policy.outbox_bytes_max as u64),
        oldest_waiting_ns: Some(age_ns),
        ..QueueView::default()
    });
    std::iter::once(all).chain(named).collect()
}

const CONNECTION: &str = "connection";
/// So many connections have a line of their own.
const BUSIEST_MAX: usize = 5;
