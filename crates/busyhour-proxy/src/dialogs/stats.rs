//! What a table of dialogs has done.

use std::ops::AddAssign;

use serde::Serialize;

macro_rules! stats {
    ($($(#[doc = $text:literal])* $field:ident,)*) => {
        /// What the dialogs of the proxy hold and have done. Counters only grow; `*_count`
        /// are gauges.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct DialogStats {
            $($(#[doc = $text])* pub $field: u64,)*
        }

        impl AddAssign<&Self> for DialogStats {
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
    /// Ended calls whose late messages are recognised.
    lingering_count,
    /// Calls begun.
    begun,
    /// Calls answered.
    answered,
    /// Calls that ended without an answer.
    unanswered,
    /// Dialogs that ended because nothing was heard of them for too long.
    timed_out,
    /// Dialogs that ended because a side did not know them any more, or was gone.
    lost,
    /// Dialogs of an earlier process, or of calls beyond the bounds, known from a
    /// successful re-INVITE or UPDATE.
    adopted,
    /// Adopted dialogs that another server of the cluster carries from then on.
    handed_over,
    /// The same INVITE came again by another way (a spiral, RFC 3261 §16.3).
    spirals,
    /// Probes asked for.
    probes,
    /// Calls not tracked because there are as many as may be.
    untracked_full,
    /// Calls not tracked because their source has too many.
    untracked_source,
    /// Calls not tracked because their account has too many.
    untracked_account,
    /// Calls not tracked because their Call-ID or tag is too long or missing, or because
    /// another device has a call of these names.
    untracked_malformed,
    /// Early dialogs not tracked because their INVITE has too many.
    untracked_forks,
    /// Ended calls that were forgotten early for lack of room.
    lingering_evicted,
}
