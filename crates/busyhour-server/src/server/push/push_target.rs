use busyhour_registrar::Contact;
use busyhour_sip::{SipUri, Uri};

/// By whom a telephone is woken, as its contact says it (RFC 8599 §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::server) struct PushTarget {
    /// The service.
    pub(super) provider: Box<str>,
    /// Who it is to the service.
    pub(super) prid: Box<str>,
    /// What else the service wants to know.
    pub(super) param: Box<str>,
}

impl PushTarget {
    /// `None` if nobody wakes it.
    pub(in crate::server) fn of(contact: &Contact) -> Option<Self> {
        let uri = contact.uri();
        if !uri.contains("pn-") {
            return None;
        }
        let uri = Uri::parse(uri)?;
        let uri = uri.as_sip()?;
        let prid = value(uri, "pn-prid")?;
        Some(Self {
            provider: value(uri, "pn-provider")?,
            prid,
            param: value(uri, "pn-param").unwrap_or_default(),
        })
    }
}

/// The service that a contact names, with or without saying who it is there.
pub(super) fn provider_of(contact: &str) -> Option<Box<str>> {
    if !contact.contains("pn-") {
        return None;
    }
    let uri = Uri::parse(contact)?;
    value(uri.as_sip()?, "pn-provider")
}

fn value(uri: &SipUri<'_>, name: &str) -> Option<Box<str>> {
    let value = uri.param(name)??;
    (!value.is_empty()).then(|| unescaped(value).into())
}

/// RFC 3261 §25.1: in parameters of a URI some characters are escaped.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let digits = (byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                at += 3;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_registrar::ContactParts;
    use busyhour_sip::Flow;

    fn target(uri: &str) -> Option<PushTarget> {
        PushTarget::of(&Contact::new(ContactParts {
            uri,
            parameters: "",
            q_milli: None,
            call_id: "c",
            path: "",
            user_agent: "",
            flow: Flow::udp(([192, 0, 2, 1], 5060).into(), ([192, 0, 2, 7], 5060).into()),
        }))
    }

    #[test]
    fn a_contact_says_who_wakes_it() {
        let found = target("sip:a@192.0.2.7;pn-provider=acme;pn-param=x%3Ay;pn-prid=Zm9v").unwrap();
        assert_eq!(
            (&*found.provider, &*found.param, &*found.prid),
            ("acme", "x:y", "Zm9v")
        );
        for uri in [
            "sip:a@192.0.2.7",
            "sip:a@192.0.2.7;pn-provider=acme",
            "sip:a@192.0.2.7;pn-prid=Zm9v",
            "sip:a@192.0.2.7;pn-provider=acme;pn-prid",
        ] {
            assert_eq!(target(uri), None, "{uri}");
        }
        let asks = provider_of("sip:a@192.0.2.7;pn-provider=acme");
        assert_eq!(asks.as_deref(), Some("acme"));
        assert_eq!(provider_of("sip:a@192.0.2.7;pn-provider"), None);
    }
}
