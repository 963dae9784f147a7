//! Where a request goes: to the contacts of a device, to a peer, or to the servers of a domain.

use super::NOT_SERVED;
use crate::server::{
    call::target::{Asleep, Located, NameLookup, Unavailable, domain_of},
    core::Core,
    load::shares::Holder,
    peer::trusted_peer::{TrustedPeer, Unreachable},
    sip::receive::Request,
};
use busyhour::bus::Name;
use busyhour_proxy::{TargetSet, dialogs::Party, dns::HopName};
use busyhour_registrar::{Binding, Refusal, address_of_record, user_of};
use busyhour_sip::{Method, SipUri, Uri};

impl Core {
    /// Only who is authenticated may call beyond our own devices.
    pub(super) fn locate_for_user(
        &self,
        request: &Request<'_>,
        called: &SipUri<'_>,
        abroad: Option<&TrustedPeer>,
        account: Option<&str>,
    ) -> Result<Located, Refusal> {
        let is_authenticated = account.is_some();
        // It would choose the next hop (RFC 3261 §19.1.1), ours or that of a peer who does as the
        // URI says.
        let goes_elsewhere = called.param("maddr").is_some();
        if abroad.is_some() && is_authenticated && goes_elsewhere {
            return Err(NO_MADDR);
        }
        if let Some(peer) = abroad.filter(|_| is_authenticated) {
            return match peer.config().looks_up {
                true => self.locate_domain((request, account), peer, called),
                false => self.locate_peer(peer, called),
            };
        }
        let aor = address_of_record(&Uri::Sip(*called), &self.domains)?;
        let beyond = self.peers.of_user(user_of(&aor));
        match beyond.filter(|_| is_authenticated && !self.is_here(&aor)) {
            Some(_) if goes_elsewhere => Err(NO_MADDR),
            Some(peer) => self.locate_peer(peer, called),
            None => self.locate(request, &aor, called),
        }
    }

    /// Whether somebody has registered there, or has an account in the store or the file. Whether
    /// a service has one is not asked for a call: numbers that a peer takes are of nobody there.
    fn is_here(&self, aor: &str) -> bool {
        let accounts = &self.accounts;
        accounts.directory.knows(accounts.account_of(aor)) || !self.bindings_at(aor).is_empty()
    }

    /// DNS says where the domain's servers are.
    fn locate_domain(
        &self,
        (request, account): (&Request<'_>, Option<&str>),
        peer: &TrustedPeer,
        called: &SipUri<'_>,
    ) -> Result<Located, Refusal> {
        let name = HopName::of_uri(called).ok_or(NOT_SERVED)?;
        Ok(Located::after(NameLookup {
            domain: domain_of(called, &name),
            name,
            peer: peer.name().clone(),
            is_named: self.peers.is_named(peer, called),
            uri: peer.uri_for(called),
            holder: self.holder(request.flow, account),
            account: account.map(str::to_owned),
            from: request.flow,
        }))
    }

    /// The addresses of a peer that are not down.
    fn locate_peer(&self, peer: &TrustedPeer, called: &SipUri<'_>) -> Result<Located, Refusal> {
        let hops = self.peers.hops(peer).map_err(|reason| match reason {
            Unreachable::Down => Refusal::Unavailable("Peer Is Down"),
            Unreachable::NoSocket => Refusal::Unavailable("No Socket For Peer"),
            Unreachable::NotLocated => Refusal::Unavailable("DNS Does Not Know Peer"),
        })?;
        let party = Party::peer(peer.name().clone(), hops.first().flow);
        Ok(Located::peer(peer, party, peer.uri_for(called), hops))
    }

    /// The contacts of the called device, and those of the voicemail behind them.
    pub(super) fn locate(
        &self,
        request: &Request<'_>,
        aor: &str,
        called: &SipUri<'_>,
    ) -> Result<Located, Refusal> {
        let (awake, asleep) = self.awake_and_asleep(request, aor);
        let located = Located::contacts(&Name::new(aor), &awake, called);
        let voicemail = self.voicemail(request, aor);
        let mut located = match (located, &voicemail) {
            (Ok(located), _) => located,
            (Err(_), _) if asleep.is_some() => Located::default(),
            (Err(reason), Some(_)) if self.is_user(aor) || reason != Unavailable::NotRegistered => {
                Located::default()
            }
            (Err(reason), _) => return Err(self.unavailable(aor, reason)),
        };
        if let Some((name, bindings)) = voicemail {
            located.fall_back(&name, &bindings, called, self.config.calls.ring_time);
        }
        located.asleep = asleep;
        Ok(located)
    }

    /// The contacts of a device, without those that a call or a message has to wake.
    fn awake_and_asleep(
        &self,
        request: &Request<'_>,
        aor: &str,
    ) -> (Vec<Binding>, Option<Box<Asleep>>) {
        let bindings = self.bindings_at(aor);
        let kind = match request.message.method() {
            Some(Method::Invite) => "call",
            Some(Method::Message) => "message",
            _ => return (bindings, None),
        };
        let (awake, found) = self.devices.push.sort(bindings);
        let asleep = (!found.is_empty()).then(|| Asleep {
            device: Name::new(aor),
            kind,
            found,
            wakings: Vec::new(),
        });
        (awake, asleep.map(Box::new))
    }

    /// Lets a request wait for the telephones that may be woken for it.
    pub(super) fn wake(&self, located: &mut Located, holder: Holder) -> Result<(), Refusal> {
        let Some(asleep) = &mut located.asleep else {
            return Ok(());
        };
        let found = std::mem::take(&mut asleep.found);
        match self.devices.push.admit(&asleep.device, found, holder) {
            Ok((wakings, late)) => {
                asleep.wakings = wakings;
                located.targets.late = late;
                Ok(())
            }
            Err(reason) => {
                located.asleep = None;
                let TargetSet {
                    targets, fallbacks, ..
                } = &located.targets;
                match targets.is_empty() && fallbacks.is_empty() {
                    true => Err(Refusal::Unavailable(reason)),
                    false => Ok(()),
                }
            }
        }
    }

    /// Who takes the calls that nobody answers, and where that is.
    fn voicemail(&self, request: &Request<'_>, aor: &str) -> Option<(Name, Vec<Binding>)> {
        let user = self.config.calls.voicemail.as_deref()?;
        let (_, domain) = aor.rsplit_once('@')?;
        let voicemail = format!("sip:{user}@{domain}");
        let is_call = request.message.method() == Some(Method::Invite) && voicemail != aor;
        let bindings = is_call.then(|| self.bindings_at(&voicemail))?;
        (!bindings.is_empty()).then(|| (Name::new(&voicemail), bindings))
    }

    /// Whether there is such an account.
    pub(in crate::server) fn is_user(&self, aor: &str) -> bool {
        self.admission.is_required() && self.accounts.may_exist(self.accounts.account_of(aor))
    }

    pub(in crate::server::call) fn unavailable(&self, aor: &str, reason: Unavailable) -> Refusal {
        match reason {
            Unavailable::NotRegistered if !self.is_user(aor) => Refusal::NotFound,
            Unavailable::NotRegistered => Refusal::Unavailable("Not Registered"),
            Unavailable::OnlyIax2 => Refusal::Unavailable("Registered By IAX2 Only"),
            Unavailable::NoTls => Refusal::Unavailable("Not Registered By TLS"),
            Unavailable::NoInstance => Refusal::Unavailable("This Instance Is Not Registered"),
        }
    }

    pub(in crate::server::call) fn bindings_at(&self, aor: &str) -> Vec<Binding> {
        let device = self.devices.table.find(aor);
        let bindings = device.map(|device| device.active_bindings(self.clock.now()));
        bindings.unwrap_or_default()
    }
}

const NO_MADDR: Refusal = Refusal::Forbidden("URI Must Not Have maddr");
