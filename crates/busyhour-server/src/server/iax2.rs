//! IAX2 on the network's threads: registrations on the way from their calls to devices.

pub(super) mod calls;

use super::{
    config::Limits,
    core::Core,
    device::{
        device_request::{DeviceRequest, Iax2InboundRequest},
        flows::ack_of_pong,
    },
    tenant::tenant_quota::TenantQuota,
};
use busyhour::buffer::Buffer;
use busyhour_iax2::{CallId, Credentials, Policy, Request, RequestKind, RequestOutcome};
use busyhour_registrar::{Iax2Registration, Refusal, address_of_record};
use busyhour_sip::{Flow, Uri, push_ip_address};
use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
};

impl Core {
    /// Takes a datagram of IAX2.
    pub(super) fn receive_iax2(self: &Arc<Self>, flow: Flow, datagram: &Buffer) {
        let traffic = &self.responder.traffic;
        traffic.received.increment();
        traffic.received_bytes.add(datagram.len() as u64);
        if self.is_closing.load(Ordering::Acquire) {
            return traffic.dropped_shutdown.increment();
        }
        self.devices.note_life(flow);
        if self.devices.flows.may_probe()
            && let Some(ack) = ack_of_pong(datagram)
        {
            self.devices.flows.answered(&flow, self.devices.clock.now());
            let ack = self.responder.write(|out| ack.write(out));
            return ack.map_or((), |ack| self.responder.send(flow, ack));
        }
        let check = |credentials: &Credentials<'_>| self.admission.login(credentials, flow);
        let received = self.iax2.receive(flow, datagram, &check);
        for (flow, username) in received.challenged {
            self.admission
                .note_challenge(&username, flow, "iax2", false);
        }
        for request in received.requests {
            self.register_by_iax2(request);
        }
    }

    fn register_by_iax2(self: &Arc<Self>, request: Request) {
        let call = request.call;
        match self.iax2_registration(request) {
            Ok(registration) => self.push_registration(call, registration),
            Err(_) => {
                self.log
                    .iax2_forbidden("", call.flow(), "Not A User Of This Server");
                self.iax2.conclude(&call, &RequestOutcome::Forbidden);
            }
        }
    }

    fn push_registration(self: &Arc<Self>, call: CallId, registration: Iax2Registration) {
        // It was challenged, where anybody is.
        let aor = registration.aor.as_str();
        if self
            .load
            .sheds(|| !self.admission.is_required() && self.devices.table.find(aor).is_none())
        {
            return self.iax2.conclude(&call, &RequestOutcome::Failed);
        }
        let now = self.clock.now();
        let tenant = self.tenants.of_aor(aor);
        if tenant.is_some_and(|tenant| !tenant.admits_registration(now)) {
            return self.iax2.conclude(&call, &RequestOutcome::Failed);
        }
        let flow = registration.flow;
        let holder = self.holder(flow, Some(&registration.username));
        match self.devices.open(&registration.aor, holder) {
            Ok(device) => {
                let arrived_at = self.clock.now();
                let frame = match registration.refresh_s {
                    Some(_) => "REGREQ",
                    None => "REGREL",
                };
                let mut span = self.spans.iax2(frame, &registration.aor, flow);
                span.step("queue");
                let inbound = Iax2InboundRequest {
                    span,
                    registration,
                    call,
                    arrived_at,
                };
                let request = DeviceRequest::Iax2(Box::new(inbound));
                self.devices.push_to_device(&device, request);
            }
            Err(excess) => {
                self.responder.count_excess(
                    excess,
                    TenantQuota::OtherShare,
                    flow,
                    Some(&registration.username),
                );
                self.iax2.conclude(&call, &RequestOutcome::Failed);
            }
        }
    }

    /// IAX2 names no domain: we take our first domain, or the address that the frame
    /// came to. A user name may have a domain behind it that has accounts of its own.
    fn iax2_registration(&self, request: Request) -> Result<Iax2Registration, Refusal> {
        let flow = request.call.flow();
        let (tenant, user) = self.domains.parts_of(&request.username);
        let domain = match &tenant {
            Some(tenant) => Some(tenant.name.as_str()),
            None => self.config.domains.first().map(String::as_str),
        };
        let uri = uri_of(user, domain, flow.local.ip());
        let uri = Uri::parse(&uri).ok_or(Refusal::NotFound)?;
        let named = uri.as_sip().and_then(|uri| uri.user);
        if named != Some(user) {
            return Err(Refusal::NotFound);
        }
        Ok(Iax2Registration {
            aor: address_of_record(&uri, &self.domains)?.into(),
            username: request.username,
            refresh_s: match request.wish {
                RequestKind::Register { refresh_s } => Some(refresh_s),
                RequestKind::Release => None,
            },
            flow,
        })
    }
}

/// The policy of a server: what the configuration says of it.
pub(super) fn policy(tokens: busyhour_iax2::CallTokens, is_open: bool, limits: &Limits) -> Policy {
    Policy {
        call_tokens: tokens,
        is_open,
        calls_max: limits.iax2_calls_max,
        calls_per_source_max: limits.iax2_calls_per_source_max,
        records_max: limits.iax2_records_max,
    }
}

/// The URI of a user in a domain, or at our address.
fn uri_of(user: &str, domain: Option<&str>, here: IpAddr) -> String {
    let host_len = domain.map_or(ADDRESS_LEN, str::len);
    let mut uri = String::with_capacity("sip:@".len() + user.len() + host_len);
    for part in ["sip:", user, "@"] {
        uri.push_str(part);
    }
    match domain {
        Some(domain) => uri.push_str(domain),
        None => push_ip_address(&mut uri, here.to_canonical()),
    }
    uri
}

/// An IPv4 address has no more bytes; what is longer grows.
const ADDRESS_LEN: usize = 15;
