//! The span of one request, on its way with the request.

use super::{
    ended_span::{EndedBranch, EndedSpan, EndedStep, SpanKind},
    span_exporter::SpanExporter,
};
use busyhour::clock::Instant;
use busyhour_proxy::EventKind;
use busyhour_sip::Flow;
use std::{fmt, sync::Arc};

/// The span of a request; that of most is empty and costs nothing. It goes to the collector when it
/// is dropped, so whoever has the request last need not know of it.
#[derive(Default)]
pub(in crate::server) struct RequestSpan(Option<Box<OpenSpan>>);

/// What is known of a request from its arrival on.
pub(super) struct OpenSpan {
    pub(super) exporter: Arc<SpanExporter>,
    pub(super) trace_id: u128,
    pub(super) id: u64,
    pub(super) kind: SpanKind,
    pub(super) name: &'static str,
    pub(super) began_at: Instant,
    pub(super) began_unix_ns: u64,
    pub(super) call_id: Box<str>,
    pub(super) aor: Box<str>,
    pub(super) flow: Flow,
    pub(super) steps: Vec<Step>,
    pub(super) answer: Option<(u16, Instant)>,
    /// The status of the answer that leaves if nobody tells of another.
    pub(super) fallback: Option<u16>,
}

pub(super) struct Step {
    name: &'static str,
    began_at: Instant,
    ended_at: Option<Instant>,
    branch: Option<Branch>,
}

struct Branch {
    number: u16,
    flow: Flow,
    progress: Option<(u16, Instant)>,
    status: Option<u16>,
    is_cancelled: bool,
}

impl RequestSpan {
    pub(super) fn open(span: OpenSpan) -> Self {
        Self(Some(Box::new(span)))
    }

    /// Another part takes the request; the one before is done with it.
    #[inline]
    pub(in crate::server) fn step(&mut self, name: &'static str) {
        if let Some(span) = &mut self.0 {
            span.step(name);
        }
    }

    /// The final response leaves. The first one counts.
    #[inline]
    pub(in crate::server) fn answered(&mut self, status: u16) {
        if let Some(span) = &mut self.0 {
            span.answered(status);
        }
    }

    /// If it is dropped before it is answered, this is the answer.
    #[inline]
    pub(in crate::server) fn falls_back_to(&mut self, status: u16) {
        if let Some(span) = &mut self.0 {
            span.fallback = Some(status);
        }
    }

    /// Something happened to the request of a call.
    #[inline]
    pub(in crate::server) fn follow(&mut self, event: EventKind) {
        if let Some(span) = &mut self.0 {
            span.follow(event);
            // The proxy keeps the request for a while, and nothing more is to come of it.
            if span.answer.is_some() {
                self.end();
            }
        }
    }

    /// Nobody is told of it: it is a repetition, or another node's.
    #[inline]
    pub(in crate::server) fn discard(&mut self) {
        self.0 = None;
    }

    /// Takes it out, and leaves an empty one.
    #[inline]
    pub(in crate::server) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    fn end(&mut self) {
        if let Some(span) = self.0.take() {
            let exporter = span.exporter.clone();
            exporter.push(span.ended());
        }
    }
}

impl fmt::Debug for RequestSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.as_ref().map(|span| span.name);
        f.debug_tuple("RequestSpan").field(&name).finish()
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.end();
    }
}

impl OpenSpan {
    fn now(&self) -> Instant {
        self.exporter.now()
    }

    fn step(&mut self, name: &'static str) {
        self.add(name, None);
    }

    fn answered(&mut self, status: u16) {
        if self.answer.is_none() {
            self.answer = Some((status, self.now()));
        }
    }

    fn follow(&mut self, event: EventKind) {
        match event {
            EventKind::Forwarded { branch, flow, .. } => {
                let branch = Branch {
                    number: branch,
                    flow,
                    progress: None,
                    status: None,
                    is_cancelled: false,
                };
                self.add("branch", Some(branch));
            }
            EventKind::Progress { branch, status, .. } => {
                let now = self.now();
                if let Some((_, branch)) = self.branch(branch) {
                    branch.progress.get_or_insert((status, now));
                }
            }
            EventKind::Answered { branch, status, .. } => {
                self.end_branch(branch, status);
                self.cancel_branches();
                self.answered(status);
            }
            EventKind::Failed { branch, status, .. } => self.end_branch(branch, status),
            EventKind::Refused { status, .. } => {
                self.end_step();
                self.cancel_branches();
                self.answered(status);
            }
            _ => {}
        }
    }

    fn add(&mut self, name: &'static str, branch: Option<Branch>) {
        self.end_step();
        if self.steps.len() < STEPS_MAX {
            let began_at = self.now();
            self.steps.push(Step {
                name,
                began_at,
                ended_at: None,
                branch,
            });
        }
    }

    /// Ends the part that has the request; branches last until their response.
    fn end_step(&mut self) {
        let now = self.now();
        let last = self.steps.last_mut();
        if let Some(step) = last.filter(|step| step.branch.is_none()) {
            step.ended_at.get_or_insert(now);
        }
    }

    fn end_branch(&mut self, number: u16, status: u16) {
        let now = self.now();
        if let Some((ended_at, branch)) = self.branch(number) {
            ended_at.get_or_insert(now);
            branch.status.get_or_insert(status);
        }
    }

    fn branch(&mut self, number: u16) -> Option<(&mut Option<Instant>, &mut Branch)> {
        self.steps.iter_mut().find_map(|step| {
            let branch = step.branch.as_mut().filter(|it| it.number == number)?;
            Some((&mut step.ended_at, branch))
        })
    }

    /// Those that ring no more, since the call has its answer. What they say to that, nobody is told.
    fn cancel_branches(&mut self) {
        let now = self.now();
        for step in &mut self.steps {
            let open = step.branch.as_mut().filter(|_| step.ended_at.is_none());
            if let Some(branch) = open {
                branch.is_cancelled = true;
                step.ended_at = Some(now);
            }
        }
    }

    fn ended(self) -> EndedSpan {
        let now = self.now();
        let unix_ns = |at: Instant| {
            let since = (at - self.began_at).as_nanos();
            self.began_unix_ns
                .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
        };
        let step = |step: Step| EndedStep {
            name: step.name,
            began_unix_ns: unix_ns(step.began_at),
            ended_unix_ns: unix_ns(step.ended_at.unwrap_or(now)),
            branch: step.branch.map(|branch| EndedBranch {
                flow: branch.flow,
                progress: branch.progress.map(|(status, at)| (status, unix_ns(at))),
                status: branch.status,
                is_cancelled: branch.is_cancelled,
            }),
        };
        EndedSpan {
            trace_id: self.trace_id,
            id: self.id,
            kind: self.kind,
            name: self.name,
            began_unix_ns: self.began_unix_ns,
            ended_unix_ns: unix_ns(self.answer.map_or(now, |(_, at)| at)),
            status: self.answer.map(|(status, _)| status).or(self.fallback),
            steps: self.steps.into_iter().map(step).collect(),
            call_id: self.call_id,
            aor: self.aor,
            flow: self.flow,
        }
    }
}

/// More than a request has parts and a call has telephones; what comes after it is left out.
const STEPS_MAX: usize = 64;
