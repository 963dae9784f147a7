//! Records of calls as CSV (RFC 4180), for spreadsheets and for programs that bill.
//!
//! Times are in UTC as RFC 3339 writes them, durations are in seconds. A text that a
//! spreadsheet would take for a formula begins with an apostrophe: callers choose their
//! Call-IDs and URIs.

use busyhour_store::CallRecordRow;
use csv::{Terminator, WriterBuilder};
use std::borrow::Cow;

/// The records as lines; the first one has the names, if they are wanted.
pub(crate) fn text(records: &[CallRecordRow], has_names: bool) -> String {
    let mut builder = WriterBuilder::new();
    let mut writer = builder.terminator(Terminator::CRLF).from_writer(Vec::new());
    let names = has_names.then(|| COLUMNS.map(Cow::from));
    for line in names.into_iter().chain(records.iter().map(line)) {
        // Writing to memory cannot fail, and each line has as many columns.
        let _ = writer.write_record(line.iter().map(|cell| cell.as_bytes()));
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn line(record: &CallRecordRow) -> [Cow<'_, str>; COLUMNS.len()] {
    let maybe = |text: &'_ Option<Box<str>>| plain(text.as_deref().unwrap_or_default().to_owned());
    [
        record.id.to_string().into(),
        plain(record.call_id.to_string()),
        plain(record.from.to_string()),
        plain(record.to.to_string()),
        maybe(&record.caller),
        maybe(&record.answered_by),
        time(Some(record.began_at_ns)),
        time(record.rang_at_ns),
        time(record.answered_at_ns),
        time(Some(record.ended_at_ns)),
        seconds(record.post_dial_delay_ns),
        seconds(record.talk_time_ns),
        plain(record.outcome.to_string()),
        record.status.to_string().into(),
        plain(record.end.to_string()),
        maybe(&record.ended_by),
        plain(record.caller_flow.to_string()),
        maybe(&record.callee_flow),
        maybe(&record.media_failure),
    ]
}

fn time(ns: Option<u64>) -> Cow<'static, str> {
    let at = ns.and_then(|ns| jiff::Timestamp::from_nanosecond(ns.into()).ok());
    at.map_or("".into(), |at| format!("{at:.3}").into())
}

fn seconds(ns: Option<u64>) -> Cow<'static, str> {
    let text = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000);
    ns.map_or("".into(), |ns| text(ns).into())
}

/// A text that no spreadsheet calculates.
fn plain(text: String) -> Cow<'static, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        true => format!("'{text}").into(),
        false => text.into(),
    }
}

pub(crate) const CONTENT_TYPE: &str = "text/csv; charset=utf-8; header=present";

const COLUMNS: [&str; 19] = [
    "id",
    "call_id",
    "from",
    "to",
    "caller",
    "answered_by",
    "began_at",
    "rang_at",
    "answered_at",
    "ended_at",
    "post_dial_delay_seconds",
    "talk_time_seconds",
    "outcome",
    "status",
    "end",
    "ended_by",
    "caller_flow",
    "callee_flow",
    "media_failure",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_line_whose_texts_are_quoted_and_are_no_formulas() {
        let record = CallRecordRow {
            id: 7,
            call_id: "=cmd|'/c calc'!A1".into(),
            from: "sip:\"a,b\"@example.com".into(),
            to: "+4930".into(),
            began_at_ns: 1_700_000_000_123_456_789,
            ended_at_ns: 1_700_000_012_000_000_000,
            post_dial_delay_ns: Some(1_234_567),
            outcome: "busy".into(),
            status: 486,
            end: "rejected".into(),
            ..CallRecordRow::default()
        };
        let text = text(&[record], true);
        let (names, line) = text.split_once("\r\n").unwrap();
        assert_eq!(names, COLUMNS.join(","));
        assert_eq!(
            line,
            "7,'=cmd|'/c calc'!A1,\"sip:\"\"a,b\"\"@example.com\",'+4930,,,\
             2023-11-14T22:13:20.123Z,,,2023-11-14T22:13:32.000Z,0.001234,,busy,486,rejected,,,,\r\n"
        );
    }
}
