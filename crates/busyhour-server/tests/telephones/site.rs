//! A server with four accounts, over UDP, TCP and TLS.

use crate::{
    lamp::Lamp,
    support::{Place, ServerProcess},
};
use rcgen::generate_simple_self_signed;
use std::{net::SocketAddr, path::PathBuf};

/// A server and its folder.
pub struct Site {
    pub server: ServerProcess,
    tls: SocketAddr,
    /// Who has signed the server's certificate.
    pub authority: PathBuf,
    _place: Place,
}

impl Site {
    pub fn start() -> Self {
        Self::with("", "")
    }

    /// One whose configuration has more: settings of `[sip]`, and other sections.
    pub fn with(sip: &str, sections: &str) -> Self {
        let place = Place::new();
        let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let certificate = place.file("certificate.pem", &made.cert.pem());
        let key = place.file("key.pem", &made.signing_key.serialize_pem());
        let server = place.server(&format!(
            "{CONFIGURATION}[sip]\nalgorithms = [\"MD5\"]\ndomains = [\"example.com\"]\n\
             min_expires_seconds = 1\ntls = \"127.0.0.1:0\"\n\
             tls_certificate = \"{}\"\ntls_key = \"{}\"\n{sip}\n{sections}",
            certificate.display(),
            key.display()
        ));
        let said = server.said.last().expect("it is ready");
        let tls = said
            .split(' ')
            .find_map(|word| word.strip_prefix("sip-tls="));
        let tls = tls.and_then(|tls| tls.parse().ok());
        Self {
            tls: tls.unwrap_or_else(|| panic!("no sip-tls in {said}")),
            server,
            authority: certificate,
            _place: place,
        }
    }

    /// Where the server listens for `udp`, `tcp` or `tls`.
    pub fn address(&self, transport: &str) -> SocketAddr {
        match transport {
            "udp" => self.server.sip,
            "tcp" => self.server.tcp,
            "tls" => self.tls,
            _ => panic!("no transport {transport}"),
        }
    }

    /// The lamps of these users, which are dark.
    pub fn lamps<const N: usize>(&self, users: [&str; N]) -> [Lamp; N] {
        users.map(|user| Lamp::watch(&self.server, &format!("sip:{user}@example.com")))
    }

    /// Waits until there are so many calls; `progress` may fail meanwhile.
    pub fn wait_for_calls(&self, count: u64, mut progress: impl FnMut()) {
        self.server.wait_for("/calls/dialogs/call_count", |calls| {
            progress();
            calls == count
        });
    }

    pub fn put_mailbox(&self, user: &str, body: &str) {
        let uri = format!("http://{}/api/mailboxes/{user}", self.server.http);
        let request = ureq::put(uri).header("authorization", "Bearer secret");
        request.send(body).expect("no request was refused");
    }
}

/// The token is `secret`. baresip 1.0 gives up if there is a challenge besides that for MD5.
const CONFIGURATION: &str = "
[[token]]
name = \"test\"
scope = \"write\"
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"

[[account]]
user = \"alice\"
password = \"something\"

[[account]]
user = \"bob\"
password = \"else\"

[[account]]
user = \"carol\"
password = \"other\"

[[account]]
user = \"lamp\"
password = \"secret\"
";
