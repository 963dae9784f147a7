//! Registrations that come by IAX2 (RFC 5456 §6.1), as bindings.
//!
//! An IAX2 device names no contact and no sequence number: it is reached where its
//! frames come from, and the table of calls has already sorted out duplicates. So its
//! binding is the URI `iax:user@address:port` (§5), and a registration from another
//! address replaces it.

use super::{
    BindingId, Bindings, ContactRequest, Extensions, Now, Refusal, Registration,
    RegistrationPolicy, RequestedContact, Update, seconds,
};
use busyhour::bus::Name;
use busyhour_sip::{Flow, push_socket_address};

/// What an IAX2 device asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iax2Registration {
    /// Canonical address of record.
    pub aor: Name,
    /// The account.
    pub username: Box<str>,
    /// The requested lifetime in seconds; `None` removes the binding.
    pub refresh_s: Option<u32>,
    /// Which way it came.
    pub flow: Flow,
}

impl Iax2Registration {
    /// The granted lifetime in seconds: the requested one, within the policy and the
    /// range of REFRESH; 0 removes the binding.
    pub fn granted_s(&self, policy: &RegistrationPolicy) -> u16 {
        let (min, max) = (seconds(policy.expires_min), seconds(policy.expires_max));
        let Some(refresh_s) = self.refresh_s else {
            return 0;
        };
        let granted = refresh_s.max(min).min(max).max(1);
        u16::try_from(granted).unwrap_or(u16::MAX)
    }

    /// The contact's URI.
    pub fn contact(&self) -> String {
        let mut uri = String::with_capacity(SCHEME.len() + self.username.len() + ADDRESS_LEN);
        for part in [SCHEME, &self.username, "@"] {
            uri.push_str(part);
        }
        push_socket_address(&mut uri, self.flow.remote);
        uri
    }
}

impl Bindings {
    /// Applies a registration by IAX2 to a copy: the device's other IAX2
    /// contacts end, and those of SIP stay as they are.
    ///
    /// # Errors
    ///
    /// [`Refusal::Forbidden`] beyond the most contacts.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::clock::{Instant, UnixTime};
    /// use busyhour_registrar::{BindingId, Bindings, Iax2Registration, Now, RegistrationPolicy};
    /// use busyhour_sip::Flow;
    ///
    /// let registration = Iax2Registration {
    ///     aor: "sip:alice@example.com".into(),
    ///     username: "alice".into(),
    ///     refresh_s: Some(300),
    ///     flow: Flow::udp("192.0.2.1:4569".parse()?, "192.0.2.7:4569".parse()?),
    /// };
    /// let unix = UnixTime::from_secs(1_800_000_000);
    /// let at = Now { now: Instant::ZERO, unix, steady: unix };
    /// let update = Bindings::default()
    ///     .update_iax2(&registration, &RegistrationPolicy::default(), at, &mut || BindingId(1))
    ///     .expect("allowed");
    /// let binding = update.bindings.active(at.now).next().expect("a binding");
    /// assert_eq!(binding.contact.uri(), "iax:alice@192.0.2.7:4569");
    /// assert_eq!(binding.lease().granted_s, 300);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn update_iax2(
        &self,
        registration: &Iax2Registration,
        policy: &RegistrationPolicy,
        at: Now,
        next_id: &mut impl FnMut() -> BindingId,
    ) -> Result<Update, Refusal> {
        let own = registration.contact();
        let granted_s = u32::from(registration.granted_s(policy));
        let others = self.active(at.now).map(|binding| binding.contact.uri());
        let others = others.filter(|uri| uri.starts_with(SCHEME) && *uri != own);
        let mut wishes: Vec<_> = others.map(|uri| wish(uri, 0)).collect();
        wishes.push(wish(&own, granted_s));
        let registration = Registration {
            aor: &registration.aor,
            call_id: CALL_ID,
            cseq: self.next_cseq(),
            wish: ContactRequest::Update(wishes),
            path: "".into(),
            user_agent: "",
            extensions: Extensions::default(),
            flow: registration.flow,
        };
        self.update(&registration, policy, at, next_id)
    }

    /// Later than every registration by IAX2 so far.
    fn next_cseq(&self) -> u32 {
        let ours = |binding: &&super::Binding| binding.contact.call_id() == CALL_ID;
        let last = self.list.iter().filter(ours).map(|b| b.lease().cseq).max();
        last.unwrap_or(0).saturating_add(1)
    }
}

fn wish(uri: &str, expires_s: u32) -> RequestedContact<'_> {
    RequestedContact {
        uri,
        parameters: String::new(),
        q_milli: None,
        key: None,
        expires_s: Some(expires_s),
    }
}

/// An at sign, and an IPv4 address with its port; what is longer grows.
const ADDRESS_LEN: usize = 22;
const SCHEME: &str = "iax:";
/// No SIP Call-ID, since those have no space in them.
const CALL_ID: &str = "by iax2";
