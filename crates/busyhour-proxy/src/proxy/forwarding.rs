//! Where a request goes next (RFC 3261 §16.5, §16.6).

use super::{
    BranchId, Edge, EventKind, FailureCause, Fallback, NextHop, Occasion, Outbound, Passage,
    Target, TargetSet, Way,
    best_response::Candidate,
    branch::{Cancel, ClientBranch},
    context::{Context, Pending},
    work::{Shared, Work},
};
use crate::{
    routing::{BranchParameter, RouteRest, SessionRequest},
    transaction::ClientTransaction,
};
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_sip::{
    Address, Flow, HeaderName, LastRoute, ListIter, Message, Method, RequestEdit, Start,
    session::SessionExpires,
};
use std::{mem::take, ops::Range, time::Duration};

/// One way to one target, about to be taken.
#[derive(Clone, Copy)]
struct Attempt {
    target: usize,
    hop: usize,
    breadth: u32,
}

impl<P> Context<P> {
    /// The caller has said where the request goes.
    pub fn locate<E: Edge<Data = P>>(&mut self, set: TargetSet, work: &mut Work<'_, E>) {
        if let Some(pending) = self.pending.as_mut().filter(|pending| !pending.is_located) {
            pending.is_located = true;
            pending.ring_due = Instant::FAR_FUTURE;
            pending.targets = set.targets;
            pending.ring_time = set.ring_time;
            pending.fallbacks = set.fallbacks;
            if let Some(late) = set.late {
                pending.late_count = late.count;
                pending.late_due = work.now + late.within;
                pending.late_reason = late.reason;
            }
            self.advance(work);
        }
    }

    /// Goes on when no branch is left that could answer: the next group, a fallback, or
    /// the best response.
    pub fn advance<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) {
        let Some(pending) = self.pending.as_ref().filter(|pending| pending.is_located) else {
            return;
        };
        let is_final = self.is_cancelled || pending.best.status() >= 600;
        // Then the end of a branch gives some back.
        let has_breadth = self.free_breadth() > 0;
        let awaits = |branch: &ClientBranch| branch.is_pending() && !branch.is_abandoned;
        if self.branches.iter().any(awaits) {
            return;
        }
        let awaits_late = pending.late_count > 0 && !is_final;
        if !is_final && has_breadth && self.start_group(work) {
            return;
        }
        if awaits_late || !is_final && has_breadth && self.start_fallback(work) {
            return;
        }
        if !self.branches.iter().any(ClientBranch::is_pending) {
            self.finish(work);
        }
    }

    /// Tries the targets of the next group; `false` if there is none, or none of them could
    /// be tried.
    fn start_group<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) -> bool {
        let mut has_begun = false;
        while !has_begun {
            let free = self.free_breadth();
            let Some((group, breadth)) = self.pending.as_mut().and_then(|it| it.take_group(free))
            else {
                return false;
            };
            self.branches.reserve_exact(group.len());
            for (place, target) in group.enumerate() {
                let breadth = breadth.of(place as u32);
                let hop = 0;
                has_begun |= self.attempt(
                    Attempt {
                        target,
                        hop,
                        breadth,
                    },
                    work,
                );
            }
        }
        let is_invite = self.server.is_invite();
        if let Some(pending) = &mut self.pending {
            // What happens to this group says what comes after it.
            pending.has_rung_out = false;
            if is_invite {
                pending.ring(work.now);
            }
        }
        true
    }

    /// Calls a target that has just been found, beside those that ring.
    pub(super) fn begin_late<E: Edge<Data = P>>(
        &mut self,
        target: Target,
        work: &mut Work<'_, E>,
    ) -> bool {
        let (free, is_invite) = (self.free_breadth(), self.server.is_invite());
        let Some(pending) = self.pending.as_mut().filter(|_| free > 0) else {
            return false;
        };
        // Branches know their targets by their places before this one.
        let place = pending.next_target;
        pending.targets.insert(place, target);
        pending.next_target += 1;
        let comes_next = pending.comes_next();
        let breadth = if comes_next { free - free / 2 } else { free };
        let attempt = Attempt {
            target: place,
            hop: 0,
            breadth,
        };
        let has_begun = self.attempt(attempt, work);
        if let Some(pending) = self.pending.as_mut().filter(|_| is_invite && has_begun) {
            pending.ring(work.now);
        }
        has_begun
    }

    /// What is left of Max-Breadth beside the branches that are still pending (RFC 5393
    /// §5.3.3).
    fn free_breadth(&self) -> u32 {
        let used = self.branches.iter().filter(|branch| branch.is_pending());
        let used: u32 = used.map(|branch| branch.breadth).sum();
        let whole = self.pending.as_ref().map_or(0, |it| it.rest.max_breadth);
        whole.saturating_sub(used)
    }

    fn start_fallback<E: Edge<Data = P>>(&mut self, work: &mut Work<'_, E>) -> bool {
        while let Some(pending) = &mut self.pending {
            let Some(fallback) = pending.take_fallback() else {
                return false;
            };
            pending.targets.extend(fallback.targets);
            if self.start_group(work) {
                return true;
            }
        }
        false
    }

    /// Sends the request on the first way that works, beginning with that of `attempt`.
    fn attempt<E: Edge<Data = P>>(&mut self, attempt: Attempt, work: &mut Work<'_, E>) -> bool {
        let Some(pending) = &mut self.pending else {
            return false;
        };
        let target = pending.targets.get(attempt.target);
        let way = target.and_then(|target| pending.way(target, attempt.hop));
        let Some((target, (number, hop))) = target.zip(way) else {
            return false;
        };
        let (label, attempt) = (
            target.label,
            Attempt {
                hop: number,
                ..attempt
            },
        );
        if self.branches.len() >= work.shared.policy.branches_max.min(BRANCHES_MAX) {
            work.shared.stats.targets_left_out += 1;
            return false;
        }
        let number = self.branches.len() as u16;
        let parameter = BranchParameter {
            slot: self.id.slot,
            nonce: work.shared.branch_nonce(self.id, number),
            number,
        };
        let Some(message) = work
            .shared
            .write_forwarded(pending, &self.data, parameter, attempt, hop)
        else {
            pending.best.offer(Candidate {
                status: 503,
                branch: None,
                received: None,
            });
            return false;
        };
        let has_other_way = pending.way(target, attempt.hop + 1).is_some();
        let silence_max = target.silence_max.filter(|_| has_other_way);
        let branch = self.begin_branch(attempt, (hop, silence_max), label, &message, work);
        self.branches.push(branch);
        work.shared.note_flow(hop.flow, self.id.slot);
        work.shared.stats.forwarded += 1;
        work.shared.stats.branch_count += 1;
        work.note(EventKind::Forwarded {
            branch: number,
            label,
            flow: hop.flow,
        });
        self.send_branch(number, message, work);
        true
    }

    fn begin_branch<E: Edge<Data = P>>(
        &self,
        attempt: Attempt,
        (hop, silence_max): (NextHop, Option<Duration>),
        label: u64,
        message: &Buffer,
        work: &Work<'_, E>,
    ) -> ClientBranch {
        let (is_invite, policy) = (self.server.is_invite(), &work.shared.policy);
        let is_reliable = hop.flow.transport.is_reliable();
        let timer_c = match is_invite {
            true => work.now + policy.timer_c,
            false => Instant::FAR_FUTURE,
        };
        // Over a reliable transport only CANCEL and ACK are made of it.
        let resend = (is_invite || !is_reliable).then(|| message.clone());
        ClientBranch {
            label,
            flow: hop.flow.into(),
            is_registered: hop.is_registered,
            target: attempt.target as u32,
            hop: attempt.hop as u32,
            breadth: attempt.breadth,
            client: ClientTransaction::start(
                work.now,
                is_invite,
                is_reliable,
                &policy.timers,
                silence_max,
            ),
            resend,
            cancel: Cancel::No,
            timer_c,
            gives_up_at: Instant::FAR_FUTURE,
            has_provisional: false,
            is_done: false,
            is_abandoned: false,
        }
    }

    /// Sends a message on a branch's way.
    pub fn send_branch<E: Edge<Data = P>>(
        &self,
        number: u16,
        datagram: Buffer,
        work: &mut Work<'_, E>,
    ) {
        let Some(branch) = self.branches.get(usize::from(number)) else {
            return;
        };
        let transaction = self.id;
        work.out.send(Outbound {
            flow: branch.flow.get(),
            datagram,
            may_connect: !branch.is_registered,
            branch: branch.is_pending().then_some(BranchId {
                transaction,
                number,
            }),
        });
    }

    /// A branch has ended without a final response that goes back, or with a 503: the next
    /// way to its target is tried (RFC 3263 §4.3), else `candidate` counts.
    pub fn fail_over<E: Edge<Data = P>>(
        &mut self,
        number: u16,
        candidate: Candidate,
        cause: FailureCause,
        work: &mut Work<'_, E>,
    ) {
        let Some(branch) = self.branches.get(usize::from(number)) else {
            return;
        };
        let (label, from, status) = (branch.label, branch.flow.get(), candidate.status);
        work.note(EventKind::Failed {
            branch: number,
            label,
            status,
            cause,
        });
        let attempt = Attempt {
            target: branch.target as usize,
            hop: branch.hop as usize + 1,
            breadth: branch.breadth,
        };
        let is_decided = self
            .pending
            .as_ref()
            .is_none_or(|it| it.best.status() >= 600);
        let is_over = self.is_cancelled || branch.is_abandoned || is_decided;
        let goes_on = !is_over && self.attempt(attempt, work);
        let next = self.branches.last().filter(|_| goes_on);
        match next.map(|branch| branch.flow.get()) {
            Some(to) => work.note(EventKind::FailedOver {
                label,
                from,
                to,
                status,
                cause,
            }),
            None if is_over => {}
            None => work.note(EventKind::Exhausted {
                label,
                from,
                status,
                cause,
            }),
        }
        if let Some(pending) = self.pending.as_mut().filter(|_| !goes_on) {
            pending.best.offer(candidate);
        }
    }
}

impl Pending {
    /// The first way to a target from number `hop` on, and its number. A request to a SIPS
    /// URI goes over TLS or not at all (RFC 3261 §26.2.2).
    fn way(&self, target: &Target, hop: usize) -> Option<(usize, NextHop)> {
        let usable = |place: usize, hop: &NextHop| {
            let scheme = self.uri_for(target, place).get(..5);
            let is_secure = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("sips:"));
            !is_secure || hop.flow.transport.is_encrypted()
        };
        let ways = (hop..).map_while(|place| Some((place, target.hops.get(place)?.hop)));
        ways.into_iter().find(|(place, hop)| usable(*place, hop))
    }

    /// The Request-URI for a target on the way of this number.
    fn uri_for<'p>(&'p self, target: &'p Target, hop: usize) -> &'p str {
        let came_with = || self.uri.as_deref().unwrap_or(request_uri(&self.message()));
        target.request_uri(hop).unwrap_or_else(came_with)
    }

    /// The targets of the next group, as many as the breadth allows, and the breadth of
    /// each. If something comes after them, they leave half of it: after the ring time
    /// their branches still have their part.
    fn take_group(&mut self, free: u32) -> Option<(Range<usize>, Breadth)> {
        let (from, rest) = (self.next_target, self.targets.get(self.next_target..)?);
        let group = rest.first()?.group;
        let whole = rest.iter().take_while(|target| target.group == group);
        let count = whole.count().min(free as usize);
        if count == 0 {
            return None;
        }
        self.next_target += count;
        let share = match self.comes_next() {
            true => (free - free / 2).max(count as u32),
            false => free,
        };
        Some((from..from + count, Breadth::divide(share, count as u32)))
    }

    /// Whether targets may come after those that are called.
    fn comes_next(&self) -> bool {
        self.next_target < self.targets.len() || !self.fallbacks.is_empty() || self.late_count > 0
    }

    /// The group rings from now on, as long as something comes after it.
    fn ring(&mut self, now: Instant) {
        let comes_next = self.next_target < self.targets.len()
            || self
                .fallbacks
                .iter()
                .any(|it| it.on.contains(&Occasion::NoAnswer));
        let ring_time = self.ring_time.filter(|_| comes_next);
        self.ring_due = ring_time.map_or(Instant::FAR_FUTURE, |time| now + time);
    }

    fn take_fallback(&mut self) -> Option<Fallback> {
        let has_rung_out = std::mem::take(&mut self.has_rung_out);
        let occasion = match (has_rung_out, self.best.status()) {
            (true, _) => Occasion::NoAnswer,
            (false, 0) => Occasion::Unavailable,
            (false, status) => Occasion::of_status(status)?,
        };
        let place = self
            .fallbacks
            .iter()
            .position(|it| it.on.contains(&occasion))?;
        // What it comes to is the end: it is not called again for another reason.
        self.fallbacks.drain(..).nth(place)
    }
}

/// How the breadth of a group is divided among its targets.
#[derive(Clone, Copy)]
struct Breadth {
    each: u32,
    /// So many of them get one more.
    more: u32,
}

impl Breadth {
    fn divide(whole: u32, count: u32) -> Self {
        Self {
            each: whole / count,
            more: whole % count,
        }
    }

    fn of(self, place: u32) -> u32 {
        self.each + u32::from(place < self.more)
    }
}

impl<E: Edge> Shared<E> {
    /// The request as it goes to a target (RFC 3261 §16.6).
    fn write_forwarded(
        &mut self,
        pending: &Pending,
        data: &E::Data,
        parameter: BranchParameter,
        attempt: Attempt,
        hop: NextHop,
    ) -> Option<Buffer> {
        let (message, rest) = (pending.message(), pending.rest);
        let target = pending.targets.get(attempt.target)?;
        let uri = pending.uri_for(target, attempt.hop);
        let route = target.hops.get(attempt.hop)?.route.as_deref();
        self.put_via(hop.flow);
        parameter.write(rest.loop_hash, &mut self.via);
        let passage = Passage {
            request: &message,
            from: pending.from,
            to: hop.flow,
            data,
            label: target.label,
        };
        self.put_record_route(&passage);
        let drops_identity = !self.edge.passes_identity(&passage);
        let realms = self.policy.realms_in(&message);
        let (via, record_route) = (take(&mut self.via), take(&mut self.record_route));
        let edit = RequestEdit {
            via: &via,
            source: Some(pending.from.remote),
            max_forwards: rest.max_forwards,
            max_breadth: Some(attempt.breadth),
            record_route: &record_route,
            realms: &realms,
            drops_identity,
            ..RequestEdit::default()
        };
        let edit = with_routes(edit, &message, uri, route, rest);
        let edit = with_session(edit, &message, self.policy.session_s);
        let written = self.write(|out| message.forward_request(&edit, out));
        (self.via, self.record_route) = (via, record_route);
        written
    }

    /// An ACK to a 2xx, which belongs to no transaction (RFC 3261 §16.11). It has the credentials
    /// of its INVITE (RFC 3261 §22.1).
    pub fn write_ack(
        &mut self,
        message: &Message<'_>,
        from: Flow,
        (way, uri): (&Way, &str),
        rest: RouteRest,
        received_branch: u64,
    ) -> Option<Buffer> {
        let realms = self.policy.realms_in(message);
        self.put_via(way.hop.flow);
        BranchParameter::write_stateless(rest.loop_hash, received_branch, &mut self.via);
        let via = take(&mut self.via);
        let edit = RequestEdit {
            via: &via,
            source: Some(from.remote),
            max_forwards: rest.max_forwards,
            realms: &realms,
            // It has no meaning there (RFC 3325 §9.1).
            drops_identity: true,
            ..RequestEdit::default()
        };
        let edit = with_routes(edit, message, uri, way.route.as_deref(), rest);
        let written = self.write(|out| message.forward_request(&edit, out));
        self.via = via;
        written
    }

    /// Our Via up to the value of its branch.
    fn put_via(&mut self, flow: Flow) {
        self.via.clear();
        self.via.push_str("SIP/2.0/");
        self.via.push_str(flow.transport.name());
        self.via.push(' ');
        self.edge.put_sent_by(flow, &mut self.via);
        if !flow.transport.is_reliable() {
            self.via.push_str(";rport");
        }
        self.via.push_str(";branch=");
    }

    fn put_record_route(&mut self, passage: &Passage<'_, '_, E::Data>) {
        self.record_route.clear();
        if makes_dialog(passage.request) {
            self.edge.put_record_route(passage, &mut self.record_route);
        }
    }
}

fn request_uri<'a>(message: &Message<'a>) -> &'a str {
    match message.start() {
        Start::Request { uri, .. } => uri,
        Start::Response { .. } => "",
    }
}

/// RFC 3261 §16.6 step 4. Within a dialog as well, for an end that has lost its state.
fn makes_dialog(message: &Message<'_>) -> bool {
    use Method::{Invite, Notify, Refer, Subscribe};
    matches!(message.method(), Some(Invite | Subscribe | Refer | Notify))
}

/// Request-URI and Route (RFC 3261 §16.6 steps 2 and 6).
fn with_routes<'e>(
    edit: RequestEdit<'e>,
    message: &Message<'e>,
    uri: &'e str,
    added: Option<&'e str>,
    rest: RouteRest,
) -> RequestEdit<'e> {
    let skip_routes = usize::from(rest.skip_routes);
    let last_route = match rest.drops_last {
        true => LastRoute::Removed,
        false => LastRoute::Stays,
    };
    let edit = RequestEdit {
        uri,
        route: added.unwrap_or(""),
        skip_routes,
        last_route,
        ..edit
    };
    match (strict_router(added), added.is_none() && rest.is_strict) {
        (Some((router, others)), _) => RequestEdit {
            uri: router,
            route: others,
            last_route: after(last_route, uri),
            ..edit
        },
        (None, true) => {
            let router = message.routes(HeaderName::Route).nth(skip_routes);
            RequestEdit {
                uri: router
                    .and_then(Result::ok)
                    .map_or(uri, |router| router.text),
                skip_routes: skip_routes + 1,
                last_route: after(last_route, uri),
                ..edit
            }
        }
        (None, false) => edit,
    }
}

/// Session-Expires and Min-SE (RFC 4028 §8.1).
fn with_session<'e>(
    edit: RequestEdit<'e>,
    message: &Message<'_>,
    wanted_s: u32,
) -> RequestEdit<'e> {
    let Ok(Some(asked)) = SessionRequest::of(message, wanted_s) else {
        return edit;
    };
    let came_with = SessionExpires::of(message);
    let is_there = came_with.is_some_and(|it| it.interval_s == asked.interval_s);
    RequestEdit {
        session_expires_s: (!is_there).then_some(asked.interval_s),
        min_se_s: asked.min_se_s,
        ..edit
    }
}

/// The Request-URI goes to the end of Route. If it came from there, it stays there.
fn after<'e>(last_route: LastRoute<'e>, uri: &'e str) -> LastRoute<'e> {
    match last_route {
        LastRoute::Removed => LastRoute::Stays,
        _ => LastRoute::Before(uri),
    }
}

/// The URI of the first of these values of Route if it is a strict router's, and the
/// others.
fn strict_router(routes: Option<&str>) -> Option<(&str, &str)> {
    let routes = routes?;
    let first = ListIter::new(routes).next()?;
    let router = Address::parse(first)?.uri.as_request_uri()?;
    let others = routes.trim_start().strip_prefix(first)?;
    let others = others.trim_start_matches([' ', ',', '\t']);
    router
        .param("lr")
        .is_none()
        .then_some((router.text, others))
}

/// As many as the branch parameter can number.
const BRANCHES_MAX: usize = u16::MAX as usize;
