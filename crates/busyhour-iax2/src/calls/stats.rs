//! What a table of calls has done.

use std::ops::AddAssign;

use serde::Serialize;

macro_rules! stats {
    ($($(#[doc = $text:literal])* $field:ident,)*) => {
        /// What the calls of IAX2 hold and have done. Counters only grow;
        /// `*_count` are gauges.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct Iax2Stats {
            $($(#[doc = $text])* pub $field: u64,)*
        }

        impl AddAssign<&Self> for Iax2Stats {
            /// Sums two tables.
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

stats! {
    /// Calls now.
    call_count,
    /// Calls that are over and whose late duplicates are recognised.
    record_count,
    /// Datagrams received.
    received,
    /// Frames sent, retransmissions included.
    sent,
    /// Datagrams that are no frame, or whose elements are cut short.
    malformed,
    /// Media: mini, meta and voice frames, which are ignored.
    media,
    /// Calls begun.
    opened,
    /// Calls ended by the device's ACK of the last frame.
    completed,
    /// Calls given up because the device fell silent.
    timed_out,
    /// Calls that their device ended, by INVAL, HANGUP or REJECT.
    aborted,
    /// Calls whose device began another one of the same number.
    replaced,
    /// Registrations and releases handed to the registrar.
    requests,
    /// REGACK: durable.
    accepted,
    /// REGREJ: no such account, or a wrong password.
    denied,
    /// REGREJ because the registrar refused or could not.
    rejected,
    /// REGREJ because the user name was absent or impossible.
    nameless,
    /// Call tokens issued.
    tokens_issued,
    /// Call tokens that were forged, too old, or of another address.
    tokens_refused,
    /// REGREJ to devices that know no call tokens.
    tokens_missing,
    /// Frames sent again because no acknowledgement came.
    retransmitted,
    /// Frames sent again because the device asked (VNAK).
    vnaks_received,
    /// Frames that came before one that is missing, and were asked for (VNAK).
    vnaks_sent,
    /// Frames that came again while their call lasted.
    duplicates,
    /// Frames that came again after their call was over.
    late_duplicates,
    /// Records dropped early for lack of room.
    records_evicted,
    /// Frames of no known call, answered by INVAL.
    invalid_sent,
    /// Frames that need no answer and belong to no call.
    stray,
    /// Commands answered by UNSUPPORT, and calls by REJECT.
    unsupported,
    /// POKE and PING answered.
    pokes,
    /// LAGRQ answered.
    lag_requests,
    /// Calls not begun because the table was full; nothing was answered.
    refused_table_full,
    /// Calls not begun because their address has too many; nothing was answered.
    refused_source_limit,
}
