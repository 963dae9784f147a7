//! Log lines about registrations: who, from where, and why not. The format of the line
//! about a failed login is documented, since other programs read it; packaging/fail2ban
//! has a filter for it.
//!
//! A client that sends much must not fill the disk: the number of lines per second is
//! limited, and a source has its share of it. Suppressed lines are counted by source,
//! and their number is logged once a minute.

use super::{
    counters::{Counter, RegistrarCounters},
    latency::Latency,
};
use crate::server::{
    access::failures::FailureNotes,
    load::shares::{Holders, Shares},
    peer::{
        trusted_peer::TrustedPeer,
        way_failure::{WayFailure, address_of},
    },
};
use busyhour::{clock::Instant, runtime::Runtime};
use busyhour_registrar::{Bindings, Domains, Refusal, Tally};
use busyhour_sip::{DigestCredentials, Flow, HeaderName, Message, Uri, source_of};
use std::{
    borrow::Cow,
    fmt::Display,
    net::IpAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tracing::Level;

/// Counts what became of registrations, says it in the log, and notes those that failed.
pub(in crate::server) struct RegistrationLog {
    pub(in crate::server) counters: RegistrarCounters,
    /// From the datagram to the 200.
    pub(in crate::server) latency: Latency,
    pub(in crate::server) failures: FailureNotes,
    /// Lines that were left out.
    pub(in crate::server) lines_suppressed: Counter,
    runtime: Runtime,
    holders: Holders,
    domains: Domains,
    lines: LogLines,
}

/// The lines of this second, and the lines suppressed since that was last logged.
struct LogLines {
    logins: Shares,
    registrations: Shares,
    suppressed: Mutex<Suppressed>,
    /// Of sources that found no place there.
    elsewhere: AtomicU64,
}

#[derive(Default)]
struct Suppressed {
    by_source: Vec<(IpAddr, u64)>,
    told_at: Option<Instant>,
}

impl RegistrationLog {
    pub(in crate::server) fn new(
        runtime: Runtime,
        (holders, domains): (Holders, Domains),
        failures: FailureNotes,
        lines: impl Fn(usize) -> Shares,
    ) -> Self {
        Self {
            counters: RegistrarCounters::default(),
            latency: Latency::new(),
            failures,
            lines_suppressed: Counter::default(),
            runtime,
            holders,
            domains,
            lines: LogLines::new(lines),
        }
    }

    /// Notes a login that failed, and logs it unless its source has logged enough.
    pub(in crate::server) fn login_failed(
        &self,
        flow: Flow,
        username: &str,
        protocol: &'static str,
        reason: &'static str,
    ) {
        self.failures.note(username, flow, protocol, reason.into());
        if !self.may_log(&self.lines.logins, flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        // The user comes last and escaped: the client chooses it.
        let user = shortened(username);
        tracing::warn!(%source, port, protocol, reason, ?user, "login failed");
    }

    /// Credentials answer another challenge than ours: `ours` are the realm and the algorithms that
    /// were offered.
    pub(in crate::server) fn login_unfit(
        &self,
        flow: Flow,
        (shown, username): (&DigestCredentials<'_>, &str),
        reason: &'static str,
        (realm, offered): (&str, &str),
    ) {
        if !self.may_log_registration(flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let (algorithm, qop) = (shortened(shown.algorithm), shortened(shown.qop));
        let (shown_realm, user) = (shortened(shown.realm), shortened(username));
        tracing::warn!(
            %source, port, reason, realm, offered, ?shown_realm, ?algorithm, ?qop, ?user,
            "credentials do not fit the challenge"
        );
    }

    /// A telephone sends a new request, and has not answered the last challenge, like one that
    /// knows none of the algorithms.
    pub(in crate::server) fn login_unanswered(
        &self,
        flow: Flow,
        (user, has_account): (&str, bool),
        protocol: &'static str,
        offered: &str,
    ) {
        if !self.may_log_registration(flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let user = shortened(user);
        tracing::warn!(
            %source, port, protocol, offered, has_account, ?user,
            "telephone does not answer the challenge"
        );
    }

    /// A REGISTER was refused. A wrong password is logged as a failed login; a refusal
    /// because of a too short expiry is not logged, since the client tries again with a
    /// longer one.
    pub(in crate::server) fn refused(&self, message: &Message<'_>, flow: Flow, refusal: &Refusal) {
        self.counters.count_refused(refusal);
        if matches!(refusal, Refusal::IntervalTooBrief(_)) || *refusal == WRONG_PASSWORD {
            return;
        }
        let to = message.to();
        let aor = to.as_ref().map_or("", |to| to.uri_text);
        let user = to.as_ref().ok().and_then(|to| match &to.uri {
            Uri::Sip(uri) => uri.user,
            _ => None,
        });
        let reason = for_operator(refusal);
        // A lack of room is not the device's mistake; under overload such entries would
        // push out real mistakes.
        if !matches!(refusal, Refusal::Overloaded(_)) {
            self.failures.note(
                user.unwrap_or(""),
                flow,
                "sip",
                reason.clone().into_owned().into(),
            );
        }
        self.log_refused(aor, flow, "sip", &reason);
    }

    /// The same for a registration by IAX2, which has no right to its address of record
    /// or too many contacts.
    pub(in crate::server) fn iax2_forbidden(&self, aor: &str, flow: Flow, reason: &'static str) {
        self.counters.forbidden.increment();
        self.device_refused(aor, flow, "iax2", reason);
    }

    /// Notes and logs a refusal to a device whose address of record is valid.
    pub(in crate::server) fn device_refused(
        &self,
        aor: &str,
        flow: Flow,
        protocol: &'static str,
        reason: &'static str,
    ) {
        self.failures
            .note(self.domains.account_of(aor), flow, protocol, reason.into());
        self.log_refused(aor, flow, protocol, reason);
    }

    /// A call, or another request for a device, was refused.
    pub(in crate::server) fn call_refused(&self, message: &Message<'_>, flow: Flow, reason: &str) {
        if !self.may_log_registration(flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let (transport, method) = (flow.transport, message.method());
        let method = shortened(method.map_or("", |method| method.as_str()));
        let (from, to) = (message.from(), message.to());
        let from = shortened(from.as_ref().map_or("", |from| from.uri_text));
        let to = shortened(to.as_ref().map_or("", |to| to.uri_text));
        tracing::info!(%source, port, %transport, reason, ?method, ?from, ?to, "call refused");
    }

    /// The media of a call that somebody at this flow begins cannot flow, for this reason.
    pub(in crate::server) fn media_obstructed(
        &self,
        invite: &Message<'_>,
        flow: Flow,
        reason: &impl Display,
    ) {
        if !self.may_log_registration(flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let header = |name| shortened(invite.header(name).unwrap_or(""));
        let call_id = header(HeaderName::CallId);
        let (from, to) = (header(HeaderName::From), header(HeaderName::To));
        tracing::warn!(
            %source, port, %reason, ?call_id, ?from, ?to,
            "the media of a call cannot flow; give media.relays"
        );
    }

    /// A request came from the address of a peer, but is not its own.
    pub(in crate::server) fn not_from_peer(&self, peer: &TrustedPeer, flow: Flow) {
        // It is told once a minute for each peer, and takes nothing of the other lines.
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let (transport, reason) = (flow.transport, peer.why_not(flow));
        tracing::info!(
            peer = %peer.name(), %source, port, %transport, reason,
            event = "request_from_the_address_of_a_peer_is_not_of_the_peer",
            "a request from the address of a peer is not of the peer: it is asked for a password"
        );
    }

    /// An address of a peer did not take a request.
    pub(in crate::server) fn way_failed(&self, failure: &WayFailure) {
        if !self.may_log_registration(failure.from) {
            return;
        }
        let (peer, reason) = (&failure.peer, failure.reason());
        let address = address_of(failure.from);
        let caller = shortened(failure.caller.as_deref().unwrap_or(""));
        match failure.to.map(address_of) {
            Some(next) => {
                tracing::info!(%peer, address, next, %reason, ?caller, "request goes on to the next address of a peer");
            }
            None => {
                tracing::warn!(%peer, address, %reason, ?caller, "all addresses of a peer have failed");
            }
        }
    }

    fn log_refused(&self, aor: &str, flow: Flow, protocol: &'static str, reason: &str) {
        if self.may_log_registration(flow) {
            let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
            let (transport, aor) = (flow.transport, shortened(aor));
            tracing::info!(%source, port, protocol, %transport, reason, ?aor, "registration refused");
        }
    }

    /// A registration was answered, so long after it arrived; it is counted already. It is logged if contacts
    /// were added or removed; a refresh is not. `bindings` are the current ones.
    pub(in crate::server) fn accepted(
        &self,
        aor: &str,
        (flow, protocol): (Flow, &'static str),
        tally: Tally,
        bindings: &Bindings,
        took: Duration,
    ) {
        self.latency.record(took);
        let Tally { added, removed, .. } = tally;
        if added + removed == 0 || !self.may_log_registration(flow) {
            return;
        }
        let contacts = bindings.active(self.runtime.clock().now()).count();
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let (transport, aor) = (flow.transport, shortened(aor));
        if added > 0 {
            tracing::info!(%source, port, protocol, %transport, contacts, ?aor, "registration added");
        } else {
            tracing::info!(%source, port, protocol, %transport, contacts, ?aor, "registration removed");
        }
    }

    /// Contacts expired, or ended with their account; the last of them was registered
    /// over this flow.
    pub(in crate::server) fn ended(
        &self,
        aor: &str,
        flow: Flow,
        contacts: usize,
        reason: &'static str,
    ) {
        if !self.may_log_registration(flow) {
            return;
        }
        let (source, port) = (flow.remote.ip().to_canonical(), flow.remote.port());
        let (transport, aor) = (flow.transport, shortened(aor));
        tracing::info!(%source, port, %transport, contacts, reason, ?aor, "registration ended");
    }

    /// Begins a new second, and logs the number of suppressed lines if it is time for
    /// that.
    pub(in crate::server) fn new_second(&self) {
        let lines = &self.lines;
        lines.logins.clear();
        lines.registrations.clear();
        let Some((by_source, elsewhere)) = lines.take_suppressed(self.runtime.clock().now()) else {
            return;
        };
        for (source, count) in by_source {
            let source = source.to_canonical();
            tracing::warn!(%source, count, "log lines suppressed");
        }
        if elsewhere > 0 {
            tracing::warn!(source = "others", count = elsewhere, "log lines suppressed");
        }
    }

    /// Lines that the log level would drop anyway are not counted as suppressed.
    fn may_log_registration(&self, flow: Flow) -> bool {
        tracing::enabled!(Level::INFO) && self.may_log(&self.lines.registrations, flow)
    }

    fn may_log(&self, lines: &Shares, flow: Flow) -> bool {
        let may = lines
            .take(self.holders.of(flow.remote.ip(), None), 1)
            .is_ok();
        if !may {
            self.lines_suppressed.increment();
            self.lines.suppress(source_of(flow.remote.ip()));
        }
        may
    }
}

impl LogLines {
    fn new(lines: impl Fn(usize) -> Shares) -> Self {
        Self {
            logins: lines(LOGINS_PER_SECOND),
            registrations: lines(REGISTRATIONS_PER_SECOND),
            suppressed: Mutex::default(),
            elsewhere: AtomicU64::new(0),
        }
    }

    /// No thread waits here: if the table is in use, a line is counted without its
    /// source.
    fn suppress(&self, source: IpAddr) {
        if let Ok(mut suppressed) = self.suppressed.try_lock() {
            let by_source = &mut suppressed.by_source;
            if let Some((_, count)) = by_source.iter_mut().find(|(one, _)| *one == source) {
                *count += 1;
                return;
            }
            if by_source.len() < SOURCES_MAX {
                return by_source.push((source, 1));
            }
        }
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
    }

    /// The suppressed lines by source, and those of other sources, if it is time to log
    /// them.
    fn take_suppressed(&self, now: Instant) -> Option<(Vec<(IpAddr, u64)>, u64)> {
        let locked = self.suppressed.lock();
        let mut suppressed = locked.unwrap_or_else(PoisonError::into_inner);
        let is_due = suppressed.told_at.is_none_or(|at| now >= at + TOLD_EACH);
        let is_any = !suppressed.by_source.is_empty() || self.elsewhere.load(Ordering::Relaxed) > 0;
        if !is_due || !is_any {
            return None;
        }
        suppressed.told_at = Some(now);
        let by_source = std::mem::take(&mut suppressed.by_source);
        Some((by_source, self.elsewhere.swap(0, Ordering::Relaxed)))
    }
}

/// The reason of a refusal, and what the operator can do where that is not plain.
fn for_operator(refusal: &Refusal) -> Cow<'_, str> {
    match refusal {
        Refusal::NotServed(reason) => {
            format!("{reason}; sip.domains lists the domains of this server").into()
        }
        other => other.reason().into(),
    }
}

/// The client chooses its name, so the name is cut to a length.
pub(in crate::server) fn shortened(text: &str) -> &str {
    match text.char_indices().nth(CHOSEN_LEN_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The answer to a wrong password and to an unknown user.
pub(in crate::server) const WRONG_PASSWORD: Refusal = Refusal::Forbidden("Wrong User Or Password");
/// Of all sources together; one source has its share.
const LOGINS_PER_SECOND: usize = 200;
const REGISTRATIONS_PER_SECOND: usize = 100;
/// Sources whose lines are counted one by one.
const SOURCES_MAX: usize = 16;
const TOLD_EACH: Duration = Duration::from_secs(60);
/// Characters of a name that others choose.
const CHOSEN_LEN_MAX: usize = 128;
