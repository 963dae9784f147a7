//! A real IAX2 device, Debian's iaxmodem, registers with the real program.
//!
//! It is so old that it knows no call tokens, so the server is configured to
//! accept it without one.

#[path = "wire/phone.rs"]
#[allow(dead_code, reason = "only its socket is used here")]
mod phone;
mod support;

use phone::Phone;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    process::{Child, Command, Stdio},
};
use support::{Place, ServerProcess};

const CONFIGURATION: &str = "
[sip]
domains = [\"example.com\"]
[[account]]
user = \"fax\"
password = \"something long\"
";

/// A modem that runs until it is dropped.
struct Modem(Child);

impl Modem {
    fn start(place: &Place, server: &ServerProcess, secret: &str) -> Self {
        let device = place.path("ttyIAX");
        let configuration = place.file(
            "modem",
            &format!(
                "device {}\nowner root:root\nmode 660\nport 0\nrefresh 60\n\
                 server {}\npeername fax\nsecret {secret}\ncodec slinear\n",
                device.display(),
                server.iax2,
            ),
        );
        // It looks in /etc/iaxmodem, so the path goes up from there.
        let path = format!("../..{}", configuration.display());
        let child = as_root("iaxmodem")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("iaxmodem, which scripts/install-deps.sh test installs"))
    }
}

impl Drop for Modem {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// It starts only as root. If the tests do not run as root, a user namespace of its own
/// makes it root.
fn as_root(program: &str) -> Command {
    let ours = fs::metadata("/proc/self").expect("Linux");
    if ours.uid() == 0 {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--", program]);
    command
}

fn server(place: &Place, call_token: &str) -> ServerProcess {
    let text = format!("[iax2]\ncall_token = \"{call_token}\"\n{CONFIGURATION}");
    place.server(&text)
}

#[test]
fn an_old_modem_registers_where_call_tokens_are_optional() {
    let place = Place::new();
    let server = server(&place, "optional");
    let _modem = Modem::start(&place, &server, "something long");
    server.wait_for("/iax2/completed", |count| count == 1);
    assert_eq!(server.stat("/registrar/binding_count"), 1);
    let bindings = server.get("/api/bindings");
    assert!(bindings.contains("\"sip:fax@example.com\""), "{bindings}");
    assert!(bindings.contains("\"iax:fax@127.0.0.1:"), "{bindings}");
}

/// Calls are not carried between SIP and IAX2; its lamp shows that it is there.
#[test]
fn a_call_to_a_modem_is_answered_with_the_reason() {
    let place = Place::new();
    let text = format!(
        "[iax2]\ncall_token = \"optional\"\n{}",
        CONFIGURATION.replacen("[sip]\n", "[sip]\nauth = \"open\"\n", 1)
    );
    let server = place.server(&text);
    let _modem = Modem::start(&place, &server, "something long");
    server.wait_for("/iax2/completed", |count| count == 1);
    let telephone = Phone::at("127.0.0.1:0");
    let own = telephone.address();
    let request = |method: &str, headers: &str| {
        format!(
            "{method} sip:fax@example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP {own};branch=z9hG4bK{method};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.com>;tag={method}\r\nTo: <sip:fax@example.com>\r\n\
             Call-ID: {method}\r\nCSeq: 1 {method}\r\nContact: <sip:alice@{own}>\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    };
    telephone.send(&request("INVITE", ""), server.sip);
    let (refusal, _) = telephone.hear("SIP/2.0 480");
    assert!(
        refusal.starts_with("SIP/2.0 480 Registered By IAX2 Only\r\n"),
        "{refusal}"
    );
    server.wait_for_log("Registered By IAX2 Only");
    telephone.send(
        &request("SUBSCRIBE", "Event: presence\r\nExpires: 600\r\n"),
        server.sip,
    );
    let (notify, _) = telephone.hear("NOTIFY ");
    assert!(notify.contains("<basic>open</basic>"), "{notify}");
}

#[test]
fn an_old_modem_is_refused_where_tokens_are_required_and_with_a_wrong_password() {
    let place = Place::new();
    let strict = server(&place, "required");
    let modem = Modem::start(&place, &strict, "something long");
    strict.wait_for("/iax2/tokens_missing", |count| count > 0);
    drop((modem, strict));
    let lax = server(&place, "optional");
    let _modem = Modem::start(&place, &lax, "a guess");
    lax.wait_for("/iax2/denied", |count| count > 0);
    assert_eq!(lax.stat("/registrar/binding_count"), 0);
}
