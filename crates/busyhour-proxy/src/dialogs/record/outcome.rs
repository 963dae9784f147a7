//! What became of a call, in the words of its caller.

use busyhour_registrar::watch::DialogEnd;

use super::CallRecord;

/// What became of a call.
///
/// ```
/// use busyhour_proxy::dialogs::CallOutcome;
///
/// assert_eq!(CallOutcome::NoAnswer.as_str(), "no-answer");
/// assert_eq!(CallOutcome::from_name("busy"), Some(CallOutcome::Busy));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Somebody answered.
    Answered,
    /// 486, 600.
    Busy,
    /// It rang until a timer ended it (408, 480, or no final response).
    NoAnswer,
    /// The caller hung up before the answer (487).
    Cancelled,
    /// Nobody was reached: 404, 410, 480, 604, or 408 before it rang.
    Unavailable,
    /// The called side, or a server for it, would not take the call: the other 4xx and 6xx.
    Refused,
    /// A server failed (5xx), or what ended it is not known.
    Failed,
}

impl CallOutcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Answered,
        Self::Busy,
        Self::NoAnswer,
        Self::Cancelled,
        Self::Unavailable,
        Self::Refused,
        Self::Failed,
    ];

    /// Its name in records and statistics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Busy => "busy",
            Self::NoAnswer => "no-answer",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    /// The outcome of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == name)
    }

    pub(super) fn of(record: &CallRecord) -> Self {
        let has_rung = record.rang.is_some();
        match (record.status, record.end) {
            _ if record.answered.is_some() => Self::Answered,
            (487, _) | (_, DialogEnd::Cancelled) => Self::Cancelled,
            (486 | 600, _) => Self::Busy,
            (408 | 480, _) | (0, DialogEnd::Timeout) if has_rung => Self::NoAnswer,
            (404 | 408 | 410 | 480 | 604, _) | (0, DialogEnd::Timeout) => Self::Unavailable,
            (400..500 | 600..700, _) => Self::Refused,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::clock::UnixTime;
    use busyhour_registrar::watch::CallNames;
    use std::time::Duration;

    fn outcome(status: u16, end: DialogEnd, rang: bool, answered: bool) -> CallOutcome {
        let at = |is_so: bool| is_so.then_some(UnixTime::from_secs(2));
        let record = CallRecord {
            names: CallNames::new("call", "a", [None; 2])
                .expect("short")
                .into(),
            caller_device: None,
            answered_by: None,
            began: UnixTime::from_secs(1),
            rang: at(rang),
            answered: at(answered),
            ended: UnixTime::from_secs(3),
            post_dial_delay: Some(Duration::from_millis(5)),
            talk_time: None,
            status,
            end,
            ended_by: None,
            caller_flow: "".into(),
            callee_flow: None,
            media_failure: None,
        };
        record.outcome()
    }

    #[test]
    fn each_end_of_a_call_has_its_outcome() {
        use CallOutcome::*;
        for (status, end, rang, answered, expected) in [
            (200, DialogEnd::LocalBye, true, true, Answered),
            (200, DialogEnd::Timeout, true, true, Answered),
            (200, DialogEnd::Error, false, true, Answered),
            (486, DialogEnd::Rejected, true, false, Busy),
            (600, DialogEnd::Rejected, false, false, Busy),
            (408, DialogEnd::Rejected, true, false, NoAnswer),
            (480, DialogEnd::Rejected, true, false, NoAnswer),
            (0, DialogEnd::Timeout, true, false, NoAnswer),
            (408, DialogEnd::Rejected, false, false, Unavailable),
            (480, DialogEnd::Rejected, false, false, Unavailable),
            (404, DialogEnd::Rejected, false, false, Unavailable),
            (487, DialogEnd::Cancelled, true, false, Cancelled),
            (487, DialogEnd::Rejected, true, false, Cancelled),
            (0, DialogEnd::Cancelled, true, false, Cancelled),
            (603, DialogEnd::Rejected, true, false, Refused),
            (488, DialogEnd::Rejected, false, false, Refused),
            (503, DialogEnd::Rejected, false, false, Failed),
            (0, DialogEnd::Error, false, false, Failed),
        ] {
            let found = outcome(status, end, rang, answered);
            assert_eq!(found, expected, "{status} {end:?} {rang} {answered}");
        }
    }

    #[test]
    fn each_outcome_is_found_by_its_name() {
        for outcome in CallOutcome::ALL {
            assert_eq!(CallOutcome::from_name(outcome.as_str()), Some(outcome));
        }
    }
}
