//! Reading a SUBSCRIBE.

use super::{Package, Policy};
use crate::{
    proto::sip::{Contacts, HeaderName, Message},
    registrar::{Flow, Refusal, check_require},
};
use std::time::Duration;

/// What one SUBSCRIBE asks for.
#[derive(Debug, Clone)]
pub struct Subscribe<'a> {
    /// The event package.
    pub package: Package,
    /// The id that tells subscriptions of one dialog apart.
    pub event_id: Option<&'a str>,
    /// Lifetime granted, in seconds; zero fetches or ends.
    pub granted_s: u32,
    /// Least time from one change that is told to the next.
    pub notify_interval: Duration,
    /// The watcher's Contact URI: where NOTIFY requests are addressed.
    pub target: &'a str,
    /// The watched URI, as written in To.
    pub to: &'a str,
    /// The tag in To: ours, when the request belongs to a subscription.
    pub to_tag: Option<&'a str>,
    /// The watcher's URI, as written in From.
    pub from: &'a str,
    /// The watcher's tag.
    pub from_tag: &'a str,
    /// Call-ID.
    pub call_id: &'a str,
    /// CSeq number.
    pub cseq: u32,
    /// The Record-Route values in order: the route of our requests.
    pub routes: Vec<&'a str>,
    /// Which way it came.
    pub flow: Flow,
}

impl<'a> Subscribe<'a> {
    /// Reads the headers a notifier acts on (RFC 6665 §4.2.1.1).
    ///
    /// # Errors
    ///
    /// [`Refusal::BadExtension`], [`Refusal::BadEvent`],
    /// [`Refusal::NotAcceptable`], [`Refusal::IntervalTooBrief`], and
    /// [`Refusal::BadRequest`] when a header is missing or broken.
    pub fn read(message: &Message<'a>, policy: &Policy, flow: Flow) -> Result<Self, Refusal> {
        check_require(message)?;
        let (package, event_id) = package(message)?;
        if !message.accepts("application", package.subtype()) {
            return Err(Refusal::NotAcceptable);
        }
        let granted_s = policy.grant(message.expires()?);
        let (from, to) = (message.from()?, message.to()?);
        Ok(Self {
            package,
            event_id,
            granted_s: granted_s.ok_or(Refusal::IntervalTooBrief(policy.expires_min))?,
            notify_interval: policy.notify_interval,
            target: target(message)?,
            to: to.uri_text,
            to_tag: to.tag(),
            from: from.uri_text,
            from_tag: from.tag().ok_or(bad("From Needs A Tag"))?,
            call_id: message.call_id()?,
            cseq: message.cseq()?.number,
            routes: message.elements(HeaderName::RecordRoute).collect(),
            flow,
        })
    }
}

fn package<'a>(message: &Message<'a>) -> Result<(Package, Option<&'a str>), Refusal> {
    let event = message.event()?.ok_or(Refusal::BadEvent)?;
    let package = Package::from_name(event.package).ok_or(Refusal::BadEvent)?;
    Ok((package, event.id()))
}

fn target<'a>(message: &Message<'a>) -> Result<&'a str, Refusal> {
    let Contacts::List(mut contacts) = message.contacts()? else {
        return Err(bad("Contact: * In SUBSCRIBE"));
    };
    match (contacts.next(), contacts.next()) {
        (Some(contact), None) => Ok(contact?.address.uri_text),
        (None, _) => Err(bad("Missing Contact")),
        (Some(_), Some(_)) => Err(bad("More Than One Contact")),
    }
}

fn bad(reason: &'static str) -> Refusal {
    Refusal::BadRequest(reason.into())
}
