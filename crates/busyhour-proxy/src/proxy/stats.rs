//! What a table has done.

use serde::Serialize;
use std::ops::AddAssign;

macro_rules! stats {
    ($($(#[doc = $text:literal])* $field:ident,)*) => {
        /// What a table of transactions holds and has done. Counters only grow;
        /// `*_count` and `held_bytes` are gauges.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct ProxyStats {
            $($(#[doc = $text])* pub $field: u64,)*
        }

        impl AddAssign<&Self> for ProxyStats {
            /// Sums two tables.
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

stats! {
    /// Requests in the table.
    transaction_count,
    /// Branches of them.
    branch_count,
    /// Bytes of messages that they hold.
    held_bytes,
    /// Requests begun.
    requests,
    /// INVITE among them.
    invites,
    /// Requests sent to targets, without retransmissions.
    forwarded,
    /// ACKs to 2xx forwarded.
    acks_forwarded,
    /// Provisional responses forwarded.
    provisional,
    /// 2xx forwarded, retransmissions included.
    successes,
    /// Final responses other than 2xx sent.
    refused,
    /// Requests other than INVITE that got no response, since it would come too late.
    unanswered,
    /// Requests cancelled by their sender.
    cancelled,
    /// CANCELs that match no request.
    cancels_unknown,
    /// CANCELs sent.
    cancels_sent,
    /// Requests and ACKs that came again and were absorbed or answered from memory.
    retransmissions_absorbed,
    /// Requests and responses sent again because nothing came back.
    retransmitted,
    /// Responses that match no branch; nothing was forwarded (RFC 6026 §7.3).
    stray_responses,
    /// Responses that their branch had no use for.
    responses_absorbed,
    /// Branches to which nothing came back in time.
    timed_out,
    /// INVITE that rang too long (timer C).
    rang_too_long,
    /// Groups that nobody answered within their ring time.
    no_answer,
    /// Targets that were found late, and called.
    late_targets,
    /// Late targets that did not come.
    late_missed,
    /// Messages that could not be sent.
    transport_errors,
    /// Refusals to INVITE without ACK.
    unacknowledged,
    /// Requests refused because the table was full.
    refused_full,
    /// Targets left out because of `branches_max`.
    targets_left_out,
    /// Messages not written for lack of buffers.
    no_buffer,
}
