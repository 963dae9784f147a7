//! Routes REGISTER, PUBLISH and SUBSCRIBE to a device or a watcher: checks the domain,
//! the sender's rights and the address of record.

use super::{
    inbound_request::InboundRequest,
    receive::Request,
    transactions::{Begun, Repeated},
};
use crate::server::{
    core::Core,
    device::device_request::DeviceRequest,
    load::shares::Holder,
    tenant::tenant_quota::TenantQuota,
    watcher::{
        Watcher,
        list_watching::{ResolvedList, lamps_of},
    },
};
use busyhour::bus::Name;
use busyhour_registrar::{
    Refusal, address_of_record,
    watch::{Subscribe, Subscription, write_accepted},
};
use busyhour_sip::{HeaderName, Message, Method, SipUri, Status, Uri};
use std::sync::Arc;

impl Core {
    pub(in crate::server) fn register(self: &Arc<Self>, request: &Request<'_>) {
        if let Err(refusal) = self.route_registration(request) {
            let Request { message, flow, .. } = *request;
            request.answered(refusal.status());
            self.devices
                .refuse_registration(message, flow, request.transaction, &refusal);
        }
    }

    pub(in crate::server) fn subscribe(self: &Arc<Self>, request: &Request<'_>) {
        self.watchers.counters.requests.increment();
        if let Err(refusal) = self.route_subscription(request) {
            let Request { message, flow, .. } = *request;
            request.answered(refusal.status());
            self.watchers
                .refuse(message, flow, request.transaction, &refusal);
        }
    }

    pub(in crate::server) fn publish(self: &Arc<Self>, request: &Request<'_>) {
        self.devices.compositor.counters.requests.increment();
        if let Err(refusal) = self.route_publication(request) {
            let Request { message, flow, .. } = *request;
            request.answered(refusal.status());
            self.devices
                .compositor
                .refuse(message, flow, request.transaction, &refusal);
        }
    }

    /// Whether the queue of a device or watcher is full.
    pub(in crate::server) fn is_flooded(&self, queued_len: usize) -> bool {
        queued_len >= self.config.limits.device_queue_max
    }

    fn route_registration(self: &Arc<Self>, request: &Request<'_>) -> Result<(), Refusal> {
        let aor = address_of_record(&request.essentials.to.uri, &self.domains)?;
        self.route_to_device(request, &aor, DeviceRequest::Sip)
    }

    /// The presentity stands in the Request-URI (RFC 3903 §6, step 1).
    fn route_publication(self: &Arc<Self>, request: &Request<'_>) -> Result<(), Refusal> {
        let uri = request.essentials.request_uri;
        let uri = uri.ok_or(Refusal::UnsupportedScheme)?;
        let aor = address_of_record(&uri, &self.domains)?;
        if let Some(uri) = uri.as_sip() {
            self.check_gruu(uri, &aor)?;
        }
        self.route_to_device(request, &aor, DeviceRequest::Publish)
    }

    fn route_to_device(
        self: &Arc<Self>,
        request: &Request<'_>,
        aor: &str,
        device_request: fn(Box<InboundRequest>) -> DeviceRequest,
    ) -> Result<(), Refusal> {
        self.check_request_uri(request)?;
        let is_publication = request.message.method() == Some(Method::Publish);
        let publisher = self
            .peers
            .publisher(request.flow)
            .filter(|_| is_publication);
        if publisher.is_none() && is_publication {
            let other = self
                .peers
                .not_from_peer(request.flow, |peer| peer.may_publish);
            if let Some((peer, true)) = other {
                self.log.not_from_peer(peer, request.flow);
            }
        }
        let proves = || {
            let credentials = request.message.header(HeaderName::Authorization);
            publisher.is_some() || credentials.is_some()
        };
        // A client that proves who it is was challenged already: if it is refused, that was
        // for nothing.
        if self
            .load
            .sheds(|| !proves() && self.devices.table.find(aor).is_none())
        {
            if proves() {
                // It is not the device that stopped.
                let failures = &self.log.failures;
                failures.challenge_answered(self.accounts.account_of(aor), request.flow, "sip");
            }
            return Err(self.responder.overloaded());
        }
        let (holder, account) = match publisher {
            Some(peer) => {
                if self.admission.is_required() && !self.is_user(aor) {
                    return Err(Refusal::NotFound);
                }
                peer.counters.publications.increment();
                self.responder.heard_at(request.flow);
                (peer.holder(), None)
            }
            None if !self.admission.admit_registration(request, aor)? => return Ok(()),
            None => {
                let account = self.accounts.account_of(aor);
                (self.holder(request.flow, Some(account)), Some(account))
            }
        };
        // The transaction begins first: a device that was created for nothing would
        // stay for ever.
        let Some(inbound) = self.begin(request, holder, account)? else {
            return Ok(());
        };
        let device = self.devices.open(aor, holder);
        let device = device.map_err(|excess| {
            let quota = TenantQuota::OtherShare;
            self.responder.no_room(excess, quota, request.flow, account)
        })?;
        self.devices
            .push_to_device(&device, device_request(inbound));
        Ok(())
    }

    fn route_subscription(self: &Arc<Self>, request: &Request<'_>) -> Result<(), Refusal> {
        let tag = request.essentials.to.tag();
        // An existing subscription is never shed: its watcher would have to subscribe
        // anew.
        if tag.is_none() && self.load.sheds(|| true) {
            return Err(self.responder.overloaded());
        }
        let Some(tag) = tag else {
            return self.open_subscription(request);
        };
        let watcher = self.watchers.find(tag);
        // Within a dialog the Request-URI is our Contact.
        let device = watcher.as_ref().map(|watcher| watcher.device());
        let watched = device
            .as_ref()
            .map_or("", |device| self.accounts.account_of(device));
        let admitted = match watcher.as_ref().is_some_and(|watcher| watcher.is_of_list()) {
            true => {
                let lists = self.watching.lists.snapshot();
                let list = Some(watched).filter(|list| lists.contains_key(*list));
                self.admission.admit_list_subscription(request, list)?
            }
            false => self.admission.admit_subscription(request, watched)?,
        };
        let Some(sender) = admitted else {
            return Ok(());
        };
        let watcher = watcher.ok_or(Refusal::NoSubscription)?;
        let account = sender.account();
        let holder = self.holder(request.flow, account);
        if let Some(inbound) = self.begin(request, holder, account)? {
            self.push_to_watcher(&watcher, inbound);
        }
        Ok(())
    }

    /// With accounts, only they and hints have a state to watch.
    fn check_known(&self, aor: &str) -> Result<(), Refusal> {
        let user = self.accounts.account_of(aor);
        let is_known = || self.accounts.may_exist(user) || self.hints.contain(user);
        match !self.admission.is_required() || is_known() {
            true => Ok(()),
            false => Err(Refusal::NotFound),
        }
    }

    fn push_to_watcher(self: &Arc<Self>, watcher: &Arc<Watcher>, inbound: Box<InboundRequest>) {
        if self.is_flooded(watcher.queued_len()) {
            return self.responder.drop_arrival(&inbound);
        }
        let transaction = inbound.transaction;
        // Refused when the server ends, or when 65,536 turns wait for its strand: then the client sends it again.
        if !watcher.push(inbound) {
            self.responder.abandon(transaction);
        }
    }

    /// The Request-URI names the watched resource (RFC 3261 §8.2.2.1, RFC 6665 §4.2.1);
    /// To may name anything.
    fn open_subscription(self: &Arc<Self>, request: &Request<'_>) -> Result<(), Refusal> {
        let Request { message, flow, .. } = *request;
        let uri = self.check_request_uri(request)?;
        if let Some(wanted) = self.wanted_list(message, &uri)? {
            return self.open_list_subscription(request, &uri, wanted);
        }
        let device = address_of_record(&Uri::Sip(uri), &self.domains)?;
        let Some(sender) = self
            .admission
            .admit_subscription(request, self.accounts.account_of(&device))?
        else {
            return Ok(());
        };
        self.check_known(&device)?;
        self.check_gruu(&uri, &device)?;
        let subscribe = Subscribe::read(message, &self.config.watch, flow)?;
        self.watchers.check_kept_len(&subscribe)?;
        let account = sender.account();
        let holder = self.holder(flow, account);
        match self.begin(request, holder, account)? {
            Some(inbound) => {
                let username = sender.username();
                let subscription = self.subscription(&subscribe, device.into(), username);
                self.start_watcher(message, &subscribe, subscription, None, holder, inbound)
            }
            None => Ok(()),
        }
    }

    /// A subscription with a new tag.
    pub(super) fn subscription(
        &self,
        subscribe: &Subscribe<'_>,
        device: Name,
        account: Option<&str>,
    ) -> (u64, Subscription) {
        let (id, tag) = self.watchers.new_tag();
        let advertised = self.config.advertised.clone();
        let now = self.clock.now();
        let subscription = Subscription::open(subscribe, device, &tag, advertised, now);
        (id, subscription.opened_by(account))
    }

    /// The 200 leaves before the feed starts, and so before the first NOTIFY.
    pub(super) fn start_watcher(
        self: &Arc<Self>,
        message: &Message<'_>,
        subscribe: &Subscribe<'_>,
        (id, subscription): (u64, Subscription),
        list: Option<ResolvedList>,
        holder: Holder,
        mut inbound: Box<InboundRequest>,
    ) -> Result<(), Refusal> {
        inbound.span.step("watcher");
        let (tag, account) = (subscription.dialog().local_tag(), subscription.account());
        let (tag, account) = (tag.to_owned(), account.map(str::to_owned));
        let recipients = subscription.recipients().cloned();
        let (granted_s, flow) = (subscribe.granted_s, inbound.flow);
        let answer = self
            .responder
            .write(|out| write_accepted(out, message, &subscription, granted_s, flow));
        let Some(answer) = answer else {
            self.responder.abandon(inbound.transaction);
            return Ok(());
        };
        let mut span = inbound.span.take();
        let mut no_room = |excess| {
            let quota = TenantQuota::Watchers;
            let refusal = (self.responder).no_room(excess, quota, flow, account.as_deref());
            span.answered(refusal.status().code());
            refusal
        };
        let mut watcher = Watcher::new(id, &tag, holder, &self.watching, subscription);
        if let Some(list) = list {
            let count = lamps_of(&list.list, recipients.as_deref());
            let taken = self.watching.resource_feeds.lamps.take(holder, count);
            taken.map_err(&mut no_room)?;
            watcher = watcher.with_list(list, count);
        }
        let watcher = Arc::new(watcher);
        if let Err(excess) = self.watchers.insert(&watcher) {
            watcher.forget_lamps(&self.watching);
            return Err(no_room(excess));
        }
        self.watchers.counters.created.increment();
        inbound.span = span;
        if granted_s > 0 && !self.persistence.store().is_immediate() {
            watcher.begin(&self.watching, granted_s, inbound, answer);
        } else {
            let flow = inbound.answer_flow();
            inbound.span.step("answer");
            self.responder.accept(inbound.transaction, flow, answer);
            inbound.span.answered(Status::OK.code());
            watcher.start(&self.watching);
        }
        Ok(())
    }

    /// Begins the transaction; `None` when another thread was quicker with a
    /// duplicate.
    pub(super) fn begin(
        &self,
        request: &Request<'_>,
        holder: Holder,
        account: Option<&str>,
    ) -> Result<Option<Box<InboundRequest>>, Refusal> {
        let (key, len) = (request.transaction, request.datagram.len());
        let arrived_at = self.clock.now();
        let transactions = self.responder.transactions();
        let repeated = match request.message.method() {
            // The bindings know the CSeq that made them.
            Some(Method::Register) => Repeated::Same,
            _ => Repeated::Other,
        };
        request.step("queue");
        match transactions.begin(key, arrived_at, holder, len, repeated) {
            // Made only now: a duplicate and a refusal need no copy.
            Begun::New => Ok(Some(request.inbound(arrived_at))),
            Begun::Known => {
                request.discard_span();
                self.responder.traffic.retransmissions_absorbed.increment();
                Ok(None)
            }
            Begun::Refused(excess) => {
                let quota = TenantQuota::Memory;
                Err((self.responder).no_room(excess, quota, request.flow, account))
            }
        }
    }

    /// The server is not a proxy, so it refuses a request for another domain (RFC 3261
    /// §10.3, step 1).
    fn check_request_uri<'a>(&self, request: &Request<'a>) -> Result<SipUri<'a>, Refusal> {
        let uri = request.essentials.request_uri.as_ref();
        let uri = uri
            .and_then(Uri::as_sip)
            .ok_or(Refusal::UnsupportedScheme)?;
        match self.domains.contain(&uri.host) {
            true => Ok(*uri),
            false => Err(Refusal::Forbidden("Domain Not Served Here")),
        }
    }

    /// A GRUU is of a device that is registered (RFC 5627 §5.3); those that we
    /// give have a value.
    pub(in crate::server) fn check_gruu(&self, uri: &SipUri<'_>, aor: &str) -> Result<(), Refusal> {
        let Some(instance) = uri.param("gr") else {
            return Ok(());
        };
        let wanted = instance.map(|instance| format!("{aor};gr={instance}"));
        let device = self.devices.table.find(aor);
        let bindings = device.map(|device| device.active_bindings(self.clock.now()));
        let mut gruus =
            (bindings.iter().flatten()).filter_map(|binding| binding.contact.public_gruu(aor));
        match wanted.is_some_and(|wanted| gruus.any(|gruu| gruu == wanted)) {
            true => Ok(()),
            false => Err(Refusal::NotFound),
        }
    }
}
