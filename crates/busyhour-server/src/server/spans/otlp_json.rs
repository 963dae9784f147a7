//! The one message of OTLP that is sent, `ExportTraceServiceRequest`, in the JSON that the protocol
//! defines: ids in hexadecimal, 64-bit numbers as texts, enumerations as numbers.

use super::ended_span::{EndedBranch, EndedSpan, EndedStep, SpanKind};
use busyhour_sip::{Flow, Transport};
use serde::Serialize;
use std::borrow::Cow;

/// Writes it, for the spans of a batch.
pub(super) fn write(batch: &[EndedSpan], instance: Option<&str>) -> Vec<u8> {
    let mut resource = vec![
        text("service.name", "busyhour"),
        text("service.version", VERSION),
    ];
    resource.extend(instance.map(|name| text("service.instance.id", name)));
    let request = ExportRequest {
        resource_spans: [ResourceSpans {
            resource: Resource {
                attributes: resource,
            },
            scope_spans: [ScopeSpans {
                scope: InstrumentationScope {
                    name: "busyhour",
                    version: VERSION,
                },
                spans: batch.iter().flat_map(spans_of).collect(),
            }],
        }],
    };
    // Nothing in it can fail to be written.
    serde_json::to_vec(&request).unwrap_or_default()
}

fn spans_of(ended: &EndedSpan) -> impl Iterator<Item = Span<'_>> {
    let steps = ended.steps.iter().zip(1..);
    std::iter::once(whole(ended)).chain(steps.map(|(one, number)| step(ended, one, number)))
}

fn whole(ended: &EndedSpan) -> Span<'_> {
    let mut attributes = match ended.kind {
        SpanKind::Iax2 => iax2_attributes(ended),
        SpanKind::Received | SpanKind::Sent => sip_attributes(ended),
    };
    attributes.push(text("sip.address_of_record", &*ended.aor));
    Span {
        trace_id: trace_id(ended),
        span_id: span_id(ended.id),
        parent_span_id: String::new(),
        name: ended.name,
        kind: match ended.kind {
            SpanKind::Sent => CLIENT,
            SpanKind::Received | SpanKind::Iax2 => SERVER,
        },
        start_time_unix_nano: ended.began_unix_ns.to_string(),
        end_time_unix_nano: ended.ended_unix_ns.to_string(),
        attributes,
        events: Vec::new(),
        status: status_of(ended.status),
    }
}

fn sip_attributes(ended: &EndedSpan) -> Vec<Attribute<'_>> {
    let mut attributes = vec![
        text("sip.method", ended.name),
        text("sip.call_id", &*ended.call_id),
    ];
    attributes.extend(flow_attributes(ended.flow));
    attributes.extend(ended.status.map(|status| status_attribute(status.into())));
    attributes
}

fn iax2_attributes(ended: &EndedSpan) -> Vec<Attribute<'_>> {
    let answer = ended.status.map(|status| match status {
        200..300 => "REGACK",
        _ => "REGREJ",
    });
    let mut attributes = vec![text("iax2.frame", ended.name)];
    let of_flow = flow_attributes(ended.flow).into_iter();
    attributes.extend(of_flow.map(|attribute| match attribute.key {
        PROTOCOL => text(PROTOCOL, "iax2"),
        _ => attribute,
    }));
    attributes.extend(answer.map(|answer| text("iax2.answer", answer)));
    attributes
}

fn step<'e>(ended: &'e EndedSpan, step: &'e EndedStep, number: u64) -> Span<'e> {
    let branch = step.branch.as_ref();
    Span {
        trace_id: trace_id(ended),
        span_id: span_id(ended.id.wrapping_add(number)),
        parent_span_id: span_id(ended.id),
        name: step.name,
        kind: if branch.is_some() { CLIENT } else { INTERNAL },
        start_time_unix_nano: step.began_unix_ns.to_string(),
        end_time_unix_nano: step.ended_unix_ns.to_string(),
        attributes: branch.map(branch_attributes).unwrap_or_default(),
        events: branch.and_then(progress).into_iter().collect(),
        status: branch.map_or(StatusCode::default(), |branch| status_of(branch.status)),
    }
}

fn branch_attributes(branch: &EndedBranch) -> Vec<Attribute<'_>> {
    let mut attributes: Vec<_> = flow_attributes(branch.flow).into();
    attributes.extend(branch.status.map(|status| status_attribute(status.into())));
    attributes.extend(branch.is_cancelled.then_some(Attribute {
        key: "sip.cancelled",
        value: Value::Truth(true),
    }));
    attributes
}

fn progress(branch: &EndedBranch) -> Option<Event<'_>> {
    let (status, at_unix_ns) = branch.progress?;
    Some(Event {
        time_unix_nano: at_unix_ns.to_string(),
        name: "provisional response",
        attributes: vec![status_attribute(status.into())],
    })
}

/// In the names of OpenTelemetry's conventions.
fn flow_attributes(flow: Flow) -> [Attribute<'static>; 4] {
    let transport = match flow.transport {
        Transport::Udp => "udp",
        _ => "tcp",
    };
    [
        text("network.transport", transport),
        text(PROTOCOL, flow.transport.parameter()),
        text("network.peer.address", flow.remote.ip().to_string()),
        number("network.peer.port", flow.remote.port().into()),
    ]
}

/// Only what the server could not do is an error: a wrong password is none of it.
fn status_of(status: Option<u16>) -> StatusCode {
    let is_error = status.is_some_and(|status| (500..600).contains(&status));
    StatusCode {
        code: if is_error { ERROR } else { UNSET },
    }
}

fn status_attribute(status: u64) -> Attribute<'static> {
    number("sip.status_code", status)
}

fn trace_id(ended: &EndedSpan) -> String {
    format!("{:032x}", ended.trace_id)
}

/// No id is zero.
fn span_id(id: u64) -> String {
    format!("{:016x}", if id == 0 { u64::MAX } else { id })
}

fn text<'e>(key: &'static str, value: impl Into<Cow<'e, str>>) -> Attribute<'e> {
    Attribute {
        key,
        value: Value::Text(value.into()),
    }
}

fn number(key: &'static str, value: u64) -> Attribute<'static> {
    Attribute {
        key,
        value: Value::Whole(value.to_string()),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'e> {
    resource_spans: [ResourceSpans<'e>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'e> {
    resource: Resource<'e>,
    scope_spans: [ScopeSpans<'e>; 1],
}

#[derive(Serialize)]
struct Resource<'e> {
    attributes: Vec<Attribute<'e>>,
}

#[derive(Serialize)]
struct ScopeSpans<'e> {
    scope: InstrumentationScope,
    spans: Vec<Span<'e>>,
}

#[derive(Serialize)]
struct InstrumentationScope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'e> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    parent_span_id: String,
    name: &'static str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'e>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event<'e>>,
    status: StatusCode,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'e> {
    time_unix_nano: String,
    name: &'static str,
    attributes: Vec<Attribute<'e>>,
}

#[derive(Serialize, Default)]
struct StatusCode {
    code: u8,
}

#[derive(Serialize)]
struct Attribute<'e> {
    key: &'static str,
    value: Value<'e>,
}

#[derive(Serialize)]
enum Value<'e> {
    #[serde(rename = "stringValue")]
    Text(Cow<'e, str>),
    /// A number of 64 bits.
    #[serde(rename = "intValue")]
    Whole(String),
    #[serde(rename = "boolValue")]
    Truth(bool),
}

const PROTOCOL: &str = "network.protocol.name";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// `Span.SpanKind`.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// `Status.StatusCode`.
const UNSET: u8 = 0;
const ERROR: u8 = 2;
