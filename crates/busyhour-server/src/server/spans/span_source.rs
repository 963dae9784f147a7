//! The part of the server that chooses which requests are followed.

use super::{
    SpanExportConfig, SpansStats,
    ended_span::SpanKind,
    request_span::{OpenSpan, RequestSpan},
    span_exporter::SpanExporter,
};
use crate::server::{HttpClient, random::Numbers, server_clock::ServerClock};
use busyhour::runtime::Runtime;
use busyhour_sip::{Essentials, Flow, Message, Method};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Begins the spans of requests; those of none without a collector.
pub(in crate::server) struct SpanSource(Option<Box<SpanSampling>>);

struct SpanSampling {
    /// A request whose number is not above it is followed.
    threshold: u64,
    numbers: Numbers,
    /// Requests that might have been followed.
    requests: AtomicU64,
    followed: AtomicU64,
    clock: Arc<ServerClock>,
    exporter: Arc<SpanExporter>,
}

impl SpanSource {
    pub(in crate::server) fn new(
        runtime: &Runtime,
        config: Option<&SpanExportConfig>,
        http: Arc<dyn HttpClient>,
        seed: u64,
        clock: Arc<ServerClock>,
    ) -> Self {
        let sampling = config.filter(|config| config.one_in > 0).map(|config| {
            Box::new(SpanSampling {
                threshold: u64::MAX / config.one_in,
                numbers: Numbers::new(seed),
                requests: AtomicU64::new(0),
                followed: AtomicU64::new(0),
                clock: clock.clone(),
                exporter: Arc::new(SpanExporter::new(runtime, config, http, clock)),
            })
        });
        Self(sampling)
    }

    /// The span of a request that has come, which is empty for most.
    #[inline]
    pub(in crate::server) fn begin(
        &self,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        flow: Flow,
    ) -> RequestSpan {
        match &self.0 {
            Some(sampling) => sampling.begin(message, essentials, flow),
            None => RequestSpan::default(),
        }
    }

    /// The span of a NOTIFY that leaves, about this address.
    #[inline]
    pub(in crate::server) fn notify(&self, call_id: &str, aor: &str, flow: Flow) -> RequestSpan {
        match &self.0 {
            Some(sampling) => sampling.open(SpanKind::Sent, "NOTIFY", (call_id, aor), flow),
            None => RequestSpan::default(),
        }
    }

    /// The span of a registration by IAX2, which waits for the device of this address now; `name`
    /// is that of its frame.
    #[inline]
    pub(in crate::server) fn iax2(&self, name: &'static str, aor: &str, flow: Flow) -> RequestSpan {
        match &self.0 {
            Some(sampling) => sampling.open(SpanKind::Iax2, name, ("", aor), flow),
            None => RequestSpan::default(),
        }
    }

    pub(in crate::server) fn stats(&self) -> SpansStats {
        let sampling = self.0.as_ref();
        sampling.map(|it| it.exporter.stats()).unwrap_or_default()
    }
}

impl SpanSampling {
    /// Registrations, subscriptions, publications, and the requests that begin a call.
    fn begin(&self, message: &Message<'_>, essentials: &Essentials<'_>, flow: Flow) -> RequestSpan {
        let (name, aor) = match message.method() {
            Some(Method::Register) => ("REGISTER", essentials.to.uri),
            Some(Method::Invite) if essentials.to.tag().is_none() => (
                "INVITE",
                essentials.request_uri.unwrap_or(essentials.to.uri),
            ),
            Some(Method::Publish) => (
                "PUBLISH",
                essentials.request_uri.unwrap_or(essentials.to.uri),
            ),
            // Within its dialog the Request-URI is our Contact.
            Some(Method::Subscribe) if essentials.to.tag().is_some() => {
                ("SUBSCRIBE", essentials.to.uri)
            }
            Some(Method::Subscribe) => (
                "SUBSCRIBE",
                essentials.request_uri.unwrap_or(essentials.to.uri),
            ),
            _ => return RequestSpan::default(),
        };
        if !self.chooses() {
            return RequestSpan::default();
        }
        let call_id = message.call_id().unwrap_or_default();
        let names = (call_id, &*aor.to_string());
        let mut span = self.begun(SpanKind::Received, name, names, flow);
        span.step("receive");
        span
    }

    /// The span of another request, if it is followed.
    fn open(
        &self,
        kind: SpanKind,
        name: &'static str,
        names: (&str, &str),
        flow: Flow,
    ) -> RequestSpan {
        match self.chooses() {
            true => self.begun(kind, name, names, flow),
            false => RequestSpan::default(),
        }
    }

    /// Whether the next request is followed.
    fn chooses(&self) -> bool {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        self.numbers.at(number * NUMBERS_EACH) <= self.threshold
    }

    fn begun(
        &self,
        kind: SpanKind,
        name: &'static str,
        (call_id, aor): (&str, &str),
        flow: Flow,
    ) -> RequestSpan {
        let followed = self.followed.fetch_add(1, Ordering::Relaxed) * NUMBERS_EACH;
        let [high, low, id] = [1, 2, 3].map(|place| self.numbers.at(followed + place));
        RequestSpan::open(OpenSpan {
            exporter: self.exporter.clone(),
            trace_id: u128::from(high) << 64 | u128::from(low.max(1)),
            id: id.max(1),
            kind,
            name,
            began_at: self.clock.now(),
            began_unix_ns: self.clock.unix_time().as_nanos(),
            call_id: call_id.into(),
            aor: aor.into(),
            flow,
            steps: Vec::new(),
            answer: None,
            fallback: None,
        })
    }
}

/// One that decides, two for the trace, one for the span.
const NUMBERS_EACH: u64 = 4;
