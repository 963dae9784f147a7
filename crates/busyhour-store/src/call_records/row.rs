//! One ended call.

use busyhour_registrar::user_of;
use serde::{Deserialize, Serialize};

/// A call that has ended. Times are calendar times in nanoseconds since 1970.
///
/// The store knows nothing of calls: it keeps numbers and texts, and gives them back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecordRow {
    /// Counted up from 1: a call that ended later has a higher one.
    pub id: u64,
    /// Its Call-ID.
    pub call_id: Box<str>,
    /// The URI of the caller; empty if it was too long to be kept.
    pub from: Box<str>,
    /// The URI that was called; empty if it was too long to be kept.
    pub to: Box<str>,
    /// The address of record of the device that called, if it is one of ours.
    pub caller: Option<Box<str>>,
    /// That of the device that answered first.
    pub answered_by: Option<Box<str>>,
    /// When the INVITE came.
    pub began_at_ns: u64,
    /// When it first rang.
    pub rang_at_ns: Option<u64>,
    /// When it was answered.
    pub answered_at_ns: Option<u64>,
    /// When it ended.
    pub ended_at_ns: u64,
    /// From the INVITE to the first response that the caller could hear, in nanoseconds.
    pub post_dial_delay_ns: Option<u64>,
    /// From the answer to the end, in nanoseconds.
    pub talk_time_ns: Option<u64>,
    /// What became of it: `answered`, `busy`, `no-answer`, `cancelled`, `unavailable`,
    /// `refused` or `failed`.
    pub outcome: Box<str>,
    /// The status of the final response; 0 if there was none.
    pub status: u16,
    /// `cancelled`, `rejected`, `replaced`, `local-bye`, `remote-bye`, `error` or `timeout`,
    /// as the caller sees it.
    pub end: Box<str>,
    /// `caller` or `callee`.
    pub ended_by: Option<Box<str>>,
    /// The flow of the caller: transport, our address and its own.
    pub caller_flow: Box<str>,
    /// That of the callee.
    pub callee_flow: Option<Box<str>>,
    /// Why its media could not flow: `web-to-plain`, `plain-to-web`, `sender-behind-nat`,
    /// `recipient-behind-nat`, `no-common-network`, `other-family` or `relay-failed`.
    pub media_failure: Option<Box<str>>,
}

impl CallRecordRow {
    /// The users that took part, without their domains: who called, who was called, and
    /// who answered. Empty texts stand for nobody.
    ///
    /// ```
    /// use busyhour_store::CallRecordRow;
    ///
    /// let row = CallRecordRow {
    ///     from: "sip:anonymous@anonymous.invalid".into(),
    ///     caller: Some("sip:alice@example.com".into()),
    ///     to: "sip:bob@example.com".into(),
    ///     ..CallRecordRow::default()
    /// };
    /// assert_eq!(row.users(), ["alice", "bob", ""]);
    /// ```
    pub fn users(&self) -> [&str; 3] {
        self.addresses().map(user_of)
    }

    /// Their addresses: of devices of ours the address of record, else the URI as it came.
    ///
    /// ```
    /// # use busyhour_store::CallRecordRow;
    /// let row = CallRecordRow { from: "sip:0123@provider.example;user=phone".into(), ..CallRecordRow::default() };
    /// assert_eq!(row.addresses(), ["sip:0123@provider.example;user=phone", "", ""]);
    /// ```
    pub fn addresses(&self) -> [&str; 3] {
        let caller = self.caller.as_deref().unwrap_or(&self.from);
        let answered_by = self.answered_by.as_deref().unwrap_or_default();
        [caller, &self.to, answered_by]
    }
}
