//! Request methods.

use std::fmt;

/// The method of a request; case matters (RFC 3261 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// RFC 3261 §13.
    Invite,
    /// RFC 3261 §17.1.1.3.
    Ack,
    /// RFC 3261 §15.
    Bye,
    /// RFC 3261 §9.
    Cancel,
    /// RFC 3261 §10.
    Register,
    /// RFC 3261 §11.
    Options,
    /// RFC 6665.
    Subscribe,
    /// RFC 6665.
    Notify,
    /// RFC 3903.
    Publish,
    /// RFC 3428.
    Message,
    /// RFC 6086.
    Info,
    /// RFC 3262.
    Prack,
    /// RFC 3515.
    Refer,
    /// RFC 3311.
    Update,
    /// Any other token.
    Other(&'a str),
}

impl<'a> Method<'a> {
    /// The method of this name; unknown names are [`Method::Other`].
    pub fn new(name: &'a str) -> Self {
        let known = KNOWN.iter().find(|(_, known)| *known == name);
        known.map_or(Self::Other(name), |(method, _)| *method)
    }

    /// The name on the wire.
    pub fn as_str(&self) -> &'a str {
        match self {
            Self::Other(name) => name,
            known => KNOWN
                .iter()
                .find(|(method, _)| method == known)
                .map_or("", |(_, name)| name),
        }
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The most frequent first: the look-up is a scan.
const KNOWN: [(Method<'static>, &str); 14] = [
    (Method::Register, "REGISTER"),
    (Method::Subscribe, "SUBSCRIBE"),
    (Method::Notify, "NOTIFY"),
    (Method::Publish, "PUBLISH"),
    (Method::Options, "OPTIONS"),
    (Method::Invite, "INVITE"),
    (Method::Ack, "ACK"),
    (Method::Bye, "BYE"),
    (Method::Cancel, "CANCEL"),
    (Method::Message, "MESSAGE"),
    (Method::Info, "INFO"),
    (Method::Prack, "PRACK"),
    (Method::Refer, "REFER"),
    (Method::Update, "UPDATE"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_and_case_matters() {
        for (method, name) in KNOWN {
            assert_eq!(Method::new(name), method);
            assert_eq!(method.to_string(), name);
        }
        assert_eq!(Method::new("register"), Method::Other("register"));
    }
}
