//! Request validation and route preprocessing (RFC 3261 §16.3, §16.4).

use super::{Identity, LoopDetection, RequestRefusal};
use busyhour_sip::{Essentials, HeaderName, Host, Message, Method, SipUri, Uri};
use std::borrow::Cow;

/// What a valid request says about its way, after this proxy has taken out of it what
/// concerned itself.
///
/// ```
/// use busyhour_proxy::{Identity, LoopDetection, Routing};
/// use busyhour_sip::{Host, Message, SipUri};
///
/// struct Us;
/// impl Identity for Us {
///     fn is_us(&self, host: &Host<'_>, _: Option<u16>) -> bool {
///         host.matches(&Host::Name("proxy.example.org"))
///     }
///     fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
///         uri.user == Some("token")
///     }
/// }
/// let bye = Message::parse(
///     b"BYE sip:bob@192.0.2.8 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK1\r\n\
///       Route: <sip:token@proxy.example.org;lr>\r\nMax-Forwards: 70\r\n\
///       From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>;tag=b\r\n\
///       Call-ID: c\r\nCSeq: 2 BYE\r\n\r\n",
/// )?;
/// let routing = Routing::read(&bye, &bye.essentials()?, &LoopDetection::new(1), &Us).expect("a valid request");
/// assert_eq!(routing.own_routes().next().and_then(|uri| uri.user), Some("token"));
/// assert!(routing.next_route().is_none() && routing.is_in_dialog());
/// assert_eq!(routing.request_uri(), "sip:bob@192.0.2.8");
/// # Ok::<(), busyhour_sip::ParseError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Routing<'a> {
    uri: Cow<'a, str>,
    own: [Option<SipUri<'a>>; OWN_ROUTES],
    next: Option<SipUri<'a>>,
    rest: RouteRest,
    is_in_dialog: bool,
}

/// What of a routing stays true for later branches of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRest {
    /// How many of the topmost values of Route were ours.
    pub skip_routes: u16,
    /// The last value of Route has become the Request-URI.
    pub drops_last: bool,
    /// The first value of Route that stays names a strict router.
    pub is_strict: bool,
    /// Max-Forwards of what is sent.
    pub max_forwards: u8,
    /// Max-Breadth of what came.
    pub max_breadth: u32,
    pub loop_hash: u64,
}

impl<'a> Routing<'a> {
    /// Validates a request, whose [essentials](Message::essentials) are known, and
    /// preprocesses its route.
    ///
    /// # Errors
    ///
    /// Why the request is refused. Refuse no ACK: drop it.
    pub fn read(
        request: &Message<'a>,
        essentials: &Essentials<'a>,
        loops: &LoopDetection,
        us: &dyn Identity,
    ) -> Result<Self, RequestRefusal> {
        let Some(Uri::Sip(uri)) = essentials.request_uri else {
            return Err(RequestRefusal::UnsupportedScheme);
        };
        let max_forwards = hops_left(request)?;
        let loop_hash = loops.hash(request);
        if loops.is_loop(request, loop_hash) {
            return Err(RequestRefusal::LoopDetected);
        }
        check_proxy_require(request, us)?;
        let rest = RouteRest {
            skip_routes: 0,
            drops_last: false,
            is_strict: false,
            max_forwards,
            max_breadth: breadth(request)?,
            loop_hash,
        };
        let mut routing = Self {
            uri: Cow::Borrowed(uri.text),
            own: [None; OWN_ROUTES],
            next: None,
            rest,
            is_in_dialog: essentials.to.tag().is_some(),
        };
        routing.preprocess(request, uri, us)?;
        Ok(routing)
    }

    /// The Request-URI, from which what concerned only this proxy was removed.
    pub fn request_uri(&self) -> &str {
        &self.uri
    }

    /// The first two values of Route that were ours, the topmost first: they may carry a
    /// token that says where the request goes. With two addresses of ours in
    /// Record-Route, there are two (RFC 5658).
    pub fn own_routes(&self) -> impl Iterator<Item = &SipUri<'a>> {
        self.own.iter().flatten()
    }

    /// Where Route says that the request goes next, beyond this proxy.
    pub fn next_route(&self) -> Option<&SipUri<'a>> {
        self.next.as_ref()
    }

    /// Whether To has a tag.
    pub fn is_in_dialog(&self) -> bool {
        self.is_in_dialog
    }

    pub(crate) fn rest(&self) -> RouteRest {
        self.rest
    }

    /// RFC 3261 §16.4.
    fn preprocess(
        &mut self,
        request: &Message<'a>,
        uri: SipUri<'a>,
        us: &dyn Identity,
    ) -> Result<(), RequestRefusal> {
        let mut routes = request.routes(HeaderName::Route);
        if request.header(HeaderName::Route).is_some() && us.is_record_route(&uri) {
            self.after_strict_router(request, uri)?;
        } else if is_our_maddr(&uri, us) {
            self.uri = Cow::Owned(without_maddr(&uri));
        }
        let mut own = usize::from(self.own[0].is_some());
        let mut left =
            request.elements(HeaderName::Route).count() - usize::from(self.rest.drops_last);
        while left > 0 {
            left -= 1;
            let Some(route) = routes.next().transpose()? else {
                break;
            };
            // A route that we have signed is ours even if its address is not the one that
            // this request came to: the other side of the dialog may know us by another.
            if !us.is_us(&route.host, route.port) && !us.is_record_route(&route) {
                self.next = Some(route);
                self.rest.is_strict = route.param("lr").is_none();
                return Ok(());
            }
            self.rest.skip_routes += 1;
            if let Some(place) = self.own.get_mut(own) {
                *place = Some(route);
                own += 1;
            }
        }
        Ok(())
    }

    /// The previous hop is a strict router: it put our Route into the Request-URI, and the
    /// Request-URI at the end of Route.
    fn after_strict_router(
        &mut self,
        request: &Message<'a>,
        ours: SipUri<'a>,
    ) -> Result<(), RequestRefusal> {
        if let Some(last) = request.routes(HeaderName::Route).last() {
            self.uri = Cow::Borrowed(last?.text);
            self.own[0] = Some(ours);
            self.rest.drops_last = true;
        }
        Ok(())
    }
}

/// RFC 3261 §16.3 step 3, §16.6 step 3.
fn hops_left(request: &Message<'_>) -> Result<u8, RequestRefusal> {
    match request.max_forwards()? {
        Some(0) => Err(RequestRefusal::TooManyHops),
        Some(hops) => Ok(hops - 1),
        None => Ok(MAX_FORWARDS),
    }
}

/// RFC 5393 §5.3.3.
fn breadth(request: &Message<'_>) -> Result<u32, RequestRefusal> {
    match request.max_breadth()? {
        Some(0) => Err(RequestRefusal::BreadthExceeded),
        breadth => Ok(breadth.unwrap_or(MAX_BREADTH).min(MAX_BREADTH)),
    }
}

/// RFC 3261 §16.3 step 5. CANCEL and ACK are not asked (§20.29, §8.2.2.3).
fn check_proxy_require(request: &Message<'_>, us: &dyn Identity) -> Result<(), RequestRefusal> {
    if matches!(request.method(), Some(Method::Ack | Method::Cancel)) {
        return Ok(());
    }
    let options = request.elements(HeaderName::ProxyRequire);
    let unknown: Vec<_> = options.filter(|option| !us.supports(option)).collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(RequestRefusal::BadExtension(unknown.join(", ").into())),
    }
}

/// `maddr` names this proxy (RFC 3261 §16.4).
fn is_our_maddr(uri: &SipUri<'_>, us: &dyn Identity) -> bool {
    let Some(Some(maddr)) = uri.param("maddr") else {
        return false;
    };
    let as_uri = format!("sip:{maddr}");
    let host = Uri::parse(&as_uri);
    let host: Option<Host<'_>> = host.and_then(|uri| uri.as_sip().map(|uri| uri.host));
    host.is_some_and(|host| us.is_us(&host, uri.port))
}

/// Without `maddr`, port and `transport`: they have brought the request here.
fn without_maddr(uri: &SipUri<'_>) -> String {
    let mut text = format!("{}:", uri.scheme.as_str());
    if let Some(user) = uri.user {
        text.push_str(user);
        if let Some(password) = uri.password {
            text.push(':');
            text.push_str(password);
        }
        text.push('@');
    }
    text.push_str(&uri.host.to_string());
    for (name, value) in uri.params() {
        if ["maddr", "transport"]
            .iter()
            .any(|it| name.eq_ignore_ascii_case(it))
        {
            continue;
        }
        text.push(';');
        text.push_str(name);
        if let Some(value) = value {
            text.push('=');
            text.push_str(value);
        }
    }
    text
}

/// Two, for the two addresses of RFC 5658.
const OWN_ROUTES: usize = 2;
/// RFC 3261 §16.6 step 3.
const MAX_FORWARDS: u8 = 70;
/// RFC 5393 §5.3.2: what a request without Max-Breadth gets, and the most that it keeps.
const MAX_BREADTH: u32 = 60;
