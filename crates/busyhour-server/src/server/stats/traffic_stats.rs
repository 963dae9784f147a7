use crate::server::core::Core;
use serde::Serialize;

/// Datagrams in and out, and what happened to those that were not valid requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TrafficStats {
    /// Datagrams handed to the server.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// Datagrams handed to the network.
    pub sent: u64,
    /// Datagrams that the network had no room for.
    pub send_refused: u64,
    /// Messages that could not be sent because their connection was gone or its peer
    /// does not read.
    pub undeliverable: u64,
    /// Datagrams not sent because no buffer was free.
    pub no_buffer: u64,
    /// Keep-alives in datagrams: line ends, empty ones, and STUN that was answered.
    pub keepalives: u64,
    /// Not SIP at all, or STUN other than a request; not answered.
    pub malformed_silent: u64,
    /// Requests answered with 400.
    pub malformed_answered: u64,
    /// OPTIONS answered.
    pub options: u64,
    /// Compressed bodies that were read.
    pub bodies_decoded: u64,
    /// Requests refused because their body is of an unknown encoding, broken, or too long in plain.
    pub bodies_refused: u64,
    /// Responses that matched no request of ours.
    pub stray_responses: u64,
    /// Requests answered from the cache of responses.
    pub retransmissions_answered: u64,
    /// Retransmissions that came while the first request was still in progress.
    pub retransmissions_absorbed: u64,
    /// Responses kept for retransmissions now.
    pub transaction_count: u64,
    /// Kept responses dropped early because the cache was full.
    pub transactions_evicted: u64,
    /// Requests dropped because their device's queue was full.
    pub dropped_device_queue: u64,
    /// Requests refused with 503 because a table was full.
    pub refused_table_full: u64,
    /// Lines about registrations and failed logins that were left out of the log.
    pub log_lines_suppressed: u64,
    /// Datagrams not answered because their source had shown no right credentials too
    /// often (`limits.unproven_per_second`).
    pub unproven_not_answered: u64,
    /// Requests refused with 503 because their source or account had its share of
    /// something; see docs/limits.md.
    pub refused_share: u64,
    /// Bytes of the responses kept for retransmissions.
    pub transaction_bytes: u64,
    /// Responses not kept because their source or account had its share of them.
    pub answers_not_kept: u64,
    /// Requests refused with 503 because the server could not keep up.
    pub shed: u64,
    /// Sources and users that gave wrong passwords lately.
    pub login_failure_count: u64,
    /// Wrong passwords that found no room in their table.
    pub login_failures_overflowed: u64,
    /// Requests that arrived after shutdown began.
    pub dropped_shutdown: u64,
}

impl Core {
    pub(super) fn traffic_stats(&self) -> TrafficStats {
        let counters = &self.responder.traffic;
        TrafficStats {
            received: counters.received.get(),
            received_bytes: counters.received_bytes.get(),
            sent: counters.sent.get(),
            send_refused: counters.send_refused.get(),
            undeliverable: counters.undeliverable.get(),
            no_buffer: counters.no_buffer.get(),
            keepalives: counters.keepalives.get(),
            malformed_silent: counters.malformed_silent.get(),
            malformed_answered: counters.malformed_answered.get(),
            options: counters.options.get(),
            bodies_decoded: counters.bodies_decoded.get(),
            bodies_refused: counters.bodies_refused.get(),
            stray_responses: counters.stray_responses.get(),
            retransmissions_answered: counters.retransmissions_answered.get(),
            retransmissions_absorbed: counters.retransmissions_absorbed.get(),
            transaction_count: self.responder.transactions().len(),
            transactions_evicted: self.responder.transactions().evicted(),
            dropped_device_queue: counters.dropped_device_queue.get(),
            refused_table_full: counters.refused_table_full.get(),
            log_lines_suppressed: self.log.lines_suppressed.get(),
            unproven_not_answered: counters.unproven_not_answered.get(),
            refused_share: counters.refused_share.get(),
            transaction_bytes: self.responder.transactions().answer_bytes(),
            answers_not_kept: self.responder.transactions().not_kept(),
            shed: self.load.shed.get(),
            login_failure_count: self.admission.logins.len(),
            login_failures_overflowed: self.admission.logins.overflowed(),
            dropped_shutdown: counters.dropped_shutdown.get(),
        }
    }
}
