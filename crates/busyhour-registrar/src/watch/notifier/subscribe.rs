//! Reading a SUBSCRIBE.

use crate::registrar::{EVENTLIST, RECIPIENT_LIST, Refusal, check_require_beside};
use crate::watch::{ListForm, NotifyRates, Package, WatchPolicy, notifier::notify_len::NotifyLen};
use busyhour_sip::{Contacts, Event, Flow, HeaderName, Message, SipUri};
use std::time::Duration;

/// What one SUBSCRIBE asks for.
#[derive(Debug, Clone)]
pub struct Subscribe<'a> {
    /// The event package.
    pub package: Package,
    /// The id that tells subscriptions of one dialog apart.
    pub event_id: Option<&'a str>,
    /// Granted lifetime in seconds; zero fetches the state or ends the subscription.
    pub granted_s: u32,
    /// Least time from one change that is told to the next.
    pub notify_interval: Duration,
    /// How long a NOTIFY may be that tells many watchers.
    pub notify_len: NotifyLen,
    /// How often the watcher wants to be told.
    pub rates: NotifyRates,
    /// It can be told the states of a list (RFC 4662 §4.2).
    pub supports_lists: bool,
    /// How it reads them.
    pub list_form: ListForm,
    /// The watcher's Contact URI: where NOTIFY requests are addressed.
    pub target: &'a str,
    /// Our URI in the dialog, as written in To; what is watched stands in the
    /// Request-URI.
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
    /// The URIs of Record-Route in order: the route of our requests.
    pub routes: Vec<&'a str>,
    /// The watcher wants our requests at the port it sent this one from.
    pub keeps_flow: bool,
    /// Which way it came.
    pub flow: Flow,
}

impl<'a> Subscribe<'a> {
    /// What a subscription keeps of it: names, addresses and the route, in bytes.
    pub fn kept_len(&self) -> usize {
        let texts = [self.target, self.to, self.from, self.from_tag, self.call_id];
        let routes = self.routes.iter().map(|route| route.len() + ROUTE_PLACE);
        let id = self.event_id.map_or(0, str::len);
        texts.map(str::len).iter().sum::<usize>() + id + routes.sum::<usize>()
    }

    /// Reads the headers a notifier acts on (RFC 6665 §4.2.1.1).
    ///
    /// # Errors
    ///
    /// [`Refusal::BadExtension`], [`Refusal::BadEvent`],
    /// [`Refusal::NotAcceptable`], [`Refusal::IntervalTooBrief`], and
    /// [`Refusal::BadRequest`] when a header is missing or broken.
    pub fn read(message: &Message<'a>, policy: &WatchPolicy, flow: Flow) -> Result<Self, Refusal> {
        check_require_beside(message, &OF_LISTS)?;
        let event = message.event()?.ok_or(Refusal::BadEvent)?;
        let (package, event_id) = (package(&event)?, event.id());
        let rates = NotifyRates::read(&event.params)?;
        if !message.accepts("application", package.subtype()) {
            return Err(Refusal::NotAcceptable);
        }
        let granted_s = policy.grant(message.expires()?);
        let (from, to) = (message.from()?, message.to()?);
        let target = target(message)?;
        Ok(Self {
            package,
            event_id,
            granted_s: granted_s.ok_or(Refusal::IntervalTooBrief(policy.expires_min))?,
            notify_interval: rates.interval(policy.notify_interval(package)),
            notify_len: NotifyLen::of(policy),
            rates,
            supports_lists: supports_lists(message),
            list_form: ListForm::of(message, package),
            target: target.text,
            to: to.uri_text,
            to_tag: to.tag(),
            from: from.uri_text,
            from_tag: from.tag().ok_or(bad("From Needs A Tag"))?,
            call_id: message.call_id()?,
            cseq: message.cseq()?.number,
            routes: routes(message)?,
            keeps_flow: message.via()?.rport().is_some() || target.param("ob").is_some(),
            flow,
        })
    }
}

/// What a list of routes has for each beside its text, in bytes.
const ROUTE_PLACE: usize = 32;

/// Options that a SUBSCRIBE may require beside those of every request.
const OF_LISTS: [&str; 2] = [EVENTLIST, RECIPIENT_LIST];

fn package(event: &Event<'_>) -> Result<Package, Refusal> {
    Package::from_name(event.package).ok_or(Refusal::BadEvent)
}

/// Some telephones accept the bodies and do not say so in Supported.
fn supports_lists(message: &Message<'_>) -> bool {
    let says = |name| message.has_token(name, EVENTLIST);
    let accepts = |subtype| {
        let silent = message.header(HeaderName::Accept).is_none();
        !silent && message.accepts("application", subtype)
    };
    says(HeaderName::Supported) || says(HeaderName::Require) || accepts("rlmi+xml")
}

/// The URI of the one Contact, which has to be one that a request can have
/// (RFC 3261 §12.1.1, §19.1.1).
fn target<'a>(message: &Message<'a>) -> Result<SipUri<'a>, Refusal> {
    let Contacts::List(mut contacts) = message.contacts()? else {
        return Err(bad("Contact: * In SUBSCRIBE"));
    };
    match (contacts.next(), contacts.next()) {
        (Some(contact), None) => contact?
            .address
            .uri
            .as_request_uri()
            .ok_or(bad("Contact Needs A SIP URI Without Headers")),
        (None, _) => Err(bad("Missing Contact")),
        (Some(_), Some(_)) => Err(bad("More Than One Contact")),
    }
}

/// The URIs of Record-Route. A value that is not an address in brackets is refused,
/// since it would make an unreadable Request-URI or Route.
fn routes<'a>(message: &Message<'a>) -> Result<Vec<&'a str>, Refusal> {
    let routes = message.routes(HeaderName::RecordRoute);
    routes.map(|route| Ok(route?.text)).collect()
}

fn bad(reason: &'static str) -> Refusal {
    Refusal::BadRequest(reason.into())
}
