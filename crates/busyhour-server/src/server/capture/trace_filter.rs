//! Which messages concern a device.

use busyhour_sip::{Flow, Host, Message, Uri};

/// A user, perhaps in one domain, and the addresses of its contacts.
#[derive(Debug)]
pub(super) struct TraceFilter {
    user: String,
    domain: Option<String>,
    /// The flows of its contacts; messages on them may name nobody.
    flows: Vec<Flow>,
}

impl TraceFilter {
    /// `alice`, `alice@example.com` or `sip:alice@example.com`.
    pub(super) fn new(name: &str) -> Self {
        let address = ["sip:", "sips:"]
            .iter()
            .find_map(|scheme| name.strip_prefix(scheme))
            .unwrap_or(name);
        let (user, domain) = match address.rsplit_once('@') {
            Some((user, domain)) => (user, Some(domain.to_owned())),
            None => (address, None),
        };
        Self {
            user: user.to_owned(),
            domain,
            flows: Vec::new(),
        }
    }

    pub(super) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn set_flows(&mut self, flows: Vec<Flow>) {
        self.flows = flows;
    }

    pub(super) fn wants(&self, flow: Flow, message: &Message<'_>) -> bool {
        self.has_flow(flow) || self.is_named(message)
    }

    /// A connection that was made again has another number.
    fn has_flow(&self, flow: Flow) -> bool {
        self.flows
            .iter()
            .any(|own| own.remote == flow.remote && own.transport == flow.transport)
    }

    fn is_named(&self, message: &Message<'_>) -> bool {
        let is_it = |uri: &Uri<'_>| self.is_it(uri);
        message.request_uri().is_ok_and(|uri| is_it(&uri))
            || message.from().is_ok_and(|from| is_it(&from.uri))
            || message.to().is_ok_and(|to| is_it(&to.uri))
            || ASSERTED.iter().any(|name| {
                let value = message.header_named(name);
                let value =
                    value.and_then(|value| value.split_once("sip:").or(value.split_once("sips:")));
                let address = value.map(|(_, address)| address);
                let address = address.and_then(|address| address.split(['>', ';', ' ']).next());
                address.is_some_and(|address| self.is_address(address))
            })
    }

    fn is_it(&self, uri: &Uri<'_>) -> bool {
        uri.as_sip().is_some_and(|uri| {
            let is_domain = |domain: &str| match uri.host {
                Host::Name(name) => name.eq_ignore_ascii_case(domain),
                host => host.to_string() == domain,
            };
            uri.user == Some(&*self.user) && self.domain.as_deref().is_none_or(is_domain)
        })
    }

    fn is_address(&self, address: &str) -> bool {
        let (user, host) = address.rsplit_once('@').unwrap_or((address, ""));
        let host = host.split(':').next().unwrap_or("");
        user == self.user
            && (self.domain.as_deref()).is_none_or(|domain| domain.eq_ignore_ascii_case(host))
    }
}

/// Who is said to call (RFC 3325, RFC 6050).
const ASSERTED: [&str; 2] = ["P-Asserted-Identity", "P-Preferred-Identity"];

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(name: &str, uri: &str, headers: &str) -> bool {
        let text = format!(
            "INVITE {uri} SIP/2.0\r\nFrom: <sip:carol@example.com>;tag=1\r\nCall-ID: 1\r\n\
             CSeq: 1 INVITE\r\n{headers}\r\n"
        );
        let message = Message::parse(text.as_bytes()).unwrap();
        let mut filter = TraceFilter::new(name);
        filter.set_flows(vec![flow("192.0.2.7:5060")]);
        filter.wants(flow("192.0.2.9:5060"), &message)
    }

    fn flow(remote: &str) -> Flow {
        Flow::udp("192.0.2.1:5060".parse().unwrap(), remote.parse().unwrap())
    }

    #[test]
    fn a_message_concerns_who_is_named_in_it() {
        let nobody = "sip:nobody@example.com";
        for (name, uri, headers, expected) in [
            ("alice", "sip:alice@192.0.2.7:5060", "", true),
            ("carol", nobody, "", true),
            (
                "alice",
                nobody,
                "To: \"A\" <sip:alice@example.com>\r\n",
                true,
            ),
            (
                "alice",
                nobody,
                "P-Asserted-Identity: <sip:alice@example.com>\r\n",
                true,
            ),
            (
                "alice",
                nobody,
                "P-Preferred-Identity: sip:alice@example.com\r\n",
                true,
            ),
            ("alice", nobody, "Subject: alice\r\n", false),
            ("alice", "sip:malice@example.com", "", false),
            ("sip:carol@EXAMPLE.com", nobody, "", true),
            ("carol@example.org", nobody, "", false),
        ] {
            assert_eq!(
                wants(name, uri, headers),
                expected,
                "{name} {uri} {headers}"
            );
        }
    }

    #[test]
    fn messages_on_the_flows_of_a_device_concern_it() {
        let message = Message::parse(b"SIP/2.0 200 OK\r\nCall-ID: 1\r\n\r\n").unwrap();
        let mut filter = TraceFilter::new("alice");
        assert!(!filter.wants(flow("192.0.2.7:5060"), &message));
        filter.set_flows(vec![flow("192.0.2.7:5060")]);
        assert!(filter.wants(flow("192.0.2.7:5060"), &message));
        assert!(!filter.wants(flow("192.0.2.7:5061"), &message));
    }
}
