//! The dialog of a subscription, and the head of the requests sent in it
//! (RFC 3261 §12).

use crate::registrar::{Advertised, Refusal};
use crate::watch::{
    NotRestored, Subscribe,
    notifier::next_hop::next_hop,
    stored::{RunNumber, StoredDialog, last_cseq_used},
};
use busyhour_sip::{Flow, HeaderName, Method, Output, RequestBuilder, Uri};
use std::{fmt::Display, net::SocketAddr};

/// Our half of a dialog, opened by a watcher's SUBSCRIBE.
#[derive(Debug, Clone)]
pub struct Dialog {
    call_id: Box<str>,
    local_uri: Box<str>,
    local_tag: Box<str>,
    remote_uri: Box<str>,
    remote_tag: Box<str>,
    target: Box<str>,
    routes: Box<[Box<str>]>,
    local_cseq: u32,
    remote_cseq: u32,
    /// Which way our requests go.
    flow: Flow,
    /// The address for our Contact and Via, if it is not the address that requests come
    /// to.
    advertised: Advertised,
    /// It was restored from a row of the other count of runs, which has to be written again.
    is_counted_otherwise: bool,
}

impl Dialog {
    pub(in crate::watch) fn open(
        subscribe: &Subscribe<'_>,
        local_tag: &str,
        advertised: Advertised,
    ) -> Self {
        let routes = subscribe.routes.iter().map(|route| Box::from(*route));
        let first = subscribe.routes.first().unwrap_or(&subscribe.target);
        Self {
            call_id: subscribe.call_id.into(),
            local_uri: subscribe.to.into(),
            local_tag: local_tag.into(),
            remote_uri: subscribe.from.into(),
            remote_tag: subscribe.from_tag.into(),
            target: subscribe.target.into(),
            routes: routes.collect(),
            local_cseq: 0,
            remote_cseq: subscribe.cseq,
            flow: next_hop(subscribe.flow, subscribe.keeps_flow, first),
            advertised,
            is_counted_otherwise: false,
        }
    }

    /// As it is stored in this run.
    pub(in crate::watch) fn stored(&self, run: RunNumber) -> StoredDialog {
        // Field by field, so that the code does not compile if one is forgotten.
        let Self {
            call_id,
            local_uri,
            local_tag,
            remote_uri,
            remote_tag,
            target,
            routes,
            local_cseq,
            remote_cseq,
            flow,
            // The configuration may have changed until then.
            advertised: _,
            is_counted_otherwise: _,
        } = self;
        let (run, epoch) = run.stored();
        StoredDialog {
            call_id: call_id.to_string(),
            local_uri: local_uri.to_string(),
            local_tag: local_tag.to_string(),
            remote_uri: remote_uri.to_string(),
            remote_tag: remote_tag.to_string(),
            target: target.to_string(),
            routes: routes.iter().map(|route| route.to_string()).collect(),
            local_cseq: *local_cseq,
            remote_cseq: *remote_cseq,
            run,
            epoch,
            local: flow.local_text(),
            remote: flow.remote.to_string(),
            connection: flow.connection,
        }
    }

    /// A dialog that continues in this run, with higher numbers than any that were
    /// used.
    pub(in crate::watch) fn restore(
        stored: StoredDialog,
        run: RunNumber,
        advertised: Advertised,
    ) -> Result<Self, NotRestored> {
        let flow = Flow::from_texts(&stored.local, &stored.remote);
        let no_flow = || NotRestored::Flow(stored.local.clone(), stored.remote.clone());
        let connection = stored.connection;
        let flow = Flow {
            connection,
            ..flow.ok_or_else(no_flow)?
        };
        let local_cseq = last_cseq_used(stored.local_cseq, run.since(&stored));
        Ok(Self {
            is_counted_otherwise: run.counts_otherwise(&stored),
            call_id: stored.call_id.into(),
            local_uri: stored.local_uri.into(),
            local_tag: stored.local_tag.into(),
            remote_uri: stored.remote_uri.into(),
            remote_tag: stored.remote_tag.into(),
            target: stored.target.into(),
            routes: stored.routes.into_iter().map(Box::from).collect(),
            local_cseq: local_cseq.ok_or(NotRestored::CSeq)?,
            remote_cseq: stored.remote_cseq,
            flow,
            advertised,
        })
    }

    /// Whether its row is of the other count of runs.
    pub(in crate::watch) fn is_counted_otherwise(&self) -> bool {
        self.is_counted_otherwise
    }

    /// The CSeq number of the last request.
    pub(in crate::watch) fn last_cseq(&self) -> u32 {
        self.local_cseq
    }

    /// Whether a request belongs to this dialog and is not older than the last one. The
    /// last request may come again after its answer was dropped: it asks for what is
    /// already done, and RFC 3261 §12.2.2 refuses only lower numbers.
    pub(in crate::watch) fn check(&self, subscribe: &Subscribe<'_>) -> Result<(), Refusal> {
        let ours = *self.call_id == *subscribe.call_id
            && *self.remote_tag == *subscribe.from_tag
            && subscribe.to_tag == Some(&self.local_tag);
        if !ours {
            return Err(Refusal::NoSubscription);
        }
        if subscribe.cseq < self.remote_cseq {
            return Err(Refusal::OutOfOrder);
        }
        Ok(())
    }

    /// Accepts a later request of the watcher: checks its order, and takes its Contact
    /// and flow as the new target (RFC 3261 §12.2.2).
    pub(in crate::watch) fn follow(&mut self, subscribe: &Subscribe<'_>) -> Result<(), Refusal> {
        self.check(subscribe)?;
        self.remote_cseq = subscribe.cseq;
        self.target = subscribe.target.into();
        // The route set stays what it was at first.
        let first = self.routes.first().unwrap_or(&self.target);
        self.flow = next_hop(subscribe.flow, subscribe.keeps_flow, first);
        Ok(())
    }

    /// Its Call-ID.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Who subscribed, as From said.
    pub(in crate::watch) fn remote_uri(&self) -> &str {
        &self.remote_uri
    }

    /// The flow for requests of this dialog: to the first of its route set or to its
    /// target, or back on the flow of the last request, which works through NAT.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Our tag.
    pub fn local_tag(&self) -> &str {
        &self.local_tag
    }

    /// The address that our Contact names.
    pub fn contact(&self) -> SocketAddr {
        self.contact_at(self.flow)
    }

    /// What stands in our Contact where a request came: the address, and how it is reached.
    pub(in crate::watch) fn contact_address(&self, flow: Flow) -> impl Display + use<> {
        let (address, transport) = (self.contact_at(flow), flow.transport);
        format!("{address}{}", transport.uri_suffix())
    }

    fn contact_at(&self, flow: Flow) -> SocketAddr {
        self.advertised.for_flow(flow)
    }

    /// The CSeq number of the next request.
    pub(in crate::watch) fn next_cseq(&mut self) -> u32 {
        self.local_cseq += 1;
        self.local_cseq
    }

    /// The request with the last number was not sent, so the next one gets that number.
    pub(in crate::watch) fn take_back_cseq(&mut self) {
        self.local_cseq -= 1;
    }

    /// Writes a NOTIFY up to where its own headers begin.
    pub(in crate::watch) fn notify<'o, O: Output>(
        &self,
        out: &'o mut O,
        cseq: u32,
    ) -> RequestBuilder<'o, O> {
        let loose = self.routes.first().is_none_or(|route| is_loose(route));
        let (uri, skipped, last) = match (loose, self.routes.first()) {
            (false, Some(first)) => (&**first, 1, Some(&self.target)),
            _ => (&*self.target, 0, None),
        };
        let contact = self.contact();
        let tag = &self.local_tag;
        let transport = self.flow.transport;
        let via = format_args!("SIP/2.0/{transport} {contact};branch={BRANCH}{tag}.{cseq};rport");
        let mut request =
            RequestBuilder::new(out, Method::Notify, uri).header(HeaderName::Via, via);
        for route in self.routes.iter().skip(skipped) {
            request = request.header(HeaderName::Route, format_args!("<{route}>"));
        }
        if let Some(target) = last {
            request = request.header(HeaderName::Route, format_args!("<{target}>"));
        }
        request
            .header(HeaderName::MaxForwards, 70)
            .header(
                HeaderName::From,
                format_args!("<{}>;tag={tag}", self.local_uri),
            )
            .header(
                HeaderName::To,
                format_args!("<{}>;tag={}", self.remote_uri, self.remote_tag),
            )
            .header(HeaderName::CallId, &self.call_id)
            .header(HeaderName::CSeq, format_args!("{cseq} NOTIFY"))
            .header(
                HeaderName::Contact,
                format_args!("<sip:{}>", self.contact_address(self.flow)),
            )
    }

    /// Our tag in the branch of a NOTIFY of ours.
    pub fn tag_in_branch(branch: &str) -> Option<&str> {
        let (tag, _) = branch.strip_prefix(BRANCH)?.rsplit_once('.')?;
        Some(tag)
    }
}

/// Whether the next hop keeps the Request-URI (RFC 3261 §12.2.1.1).
fn is_loose(route: &str) -> bool {
    let uri = Uri::parse(route);
    let uri = uri.as_ref().and_then(Uri::as_sip);
    uri.is_some_and(|uri| uri.param("lr").is_some())
}

/// The cookie of RFC 3261 §8.1.1.7.
const BRANCH: &str = "z9hG4bK";
