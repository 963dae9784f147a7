//! Spans: how long each part took with a request, for a collector of OpenTelemetry.
//!
//! A registration, a subscription, a publication, a NOTIFY or a call out of so many is followed: its span travels with the request, each
//! part says when it begins, and the last owner hands the span to the exporter by dropping it. So
//! a request that is refused, dropped or forgotten is told as well, and no table has to be swept.
//!
//! ```text
//! REGISTER:  receive → digest → queue → registrar → store → answer
//! SUBSCRIBE: receive → digest → queue → watcher → store → answer
//! PUBLISH:   receive → digest → queue → publication → store → answer
//! INVITE:    receive → digest → location → (DNS) → a span for each branch, until the answer
//! NOTIFY:    from its leaving to its answer
//! REGREQ, REGREL of IAX2: queue → registrar → store → answer
//! ```
//!
//! In a cluster a request that waits for its partition has a step `partition` before those of whoever goes on with it.
//!
//! Without a collector no request is followed: a part looks at an `Option` that is empty.
//!
//! Spans leave as OTLP over HTTP, in JSON, through the HTTP client that webhooks use. The crates of
//! OpenTelemetry (0.33) would bring nine more, among them a second parser of protocol buffers and an
//! exporter with a thread, a clock and counters of its own; the one message that is needed here
//! stands in `otlp_json.rs`.

mod ended_span;
mod otlp_json;
mod span_exporter;
mod span_export_config;
mod spans_stats;
pub(super) mod request_span;
pub(super) mod span_source;

pub use span_export_config::{SpanExportConfig, SpanExportMistake};
pub use spans_stats::SpansStats;
