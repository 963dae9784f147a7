//! A telephone on a socket, whose messages the test writes.

use crate::phone::Phone;
use busyhour_sip::{DigestChallenge, HeaderName, Message, auth::Answer};
use std::{cell::Cell, net::SocketAddr};

pub struct Telephone {
    pub user: &'static str,
    /// Where it sends what is outside of a dialog.
    proxy: SocketAddr,
    phone: Phone,
    /// Parameters of the URI of its contact.
    parameters: &'static str,
    serial: Cell<u32>,
}

impl Telephone {
    pub fn new(user: &'static str, proxy: SocketAddr) -> Self {
        Self::with(user, proxy, "")
    }

    /// One whose contact has these parameters, which begin with a semicolon.
    pub fn with(user: &'static str, proxy: SocketAddr, parameters: &'static str) -> Self {
        Self {
            user,
            proxy,
            phone: Phone::at("127.0.0.1:0"),
            parameters,
            serial: Cell::new(0),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.phone.address()
    }

    pub fn send(&self, message: &str) {
        self.phone.send(message, self.proxy);
    }

    /// The next message that begins so.
    pub fn hear(&self, begin: &str) -> String {
        self.phone.hear(begin).0
    }

    /// A request in the name of `from`.
    pub fn request(
        &self,
        method: &str,
        uri: &str,
        from: &str,
        call_id: &str,
        headers: &str,
    ) -> String {
        let (address, branch) = (self.address(), self.branch());
        let Self {
            user, parameters, ..
        } = self;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: <{from}>;tag={user}-{call_id}\r\nTo: <{uri}>\r\n\
             Call-ID: {call_id}@{user}\r\nCSeq: 1 {method}\r\nContact: <sip:{user}@{address}{parameters}>\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    /// Sends a request with its account, whose password is `secret`; the final answer.
    pub fn ask(&self, method: &str, uri: &str, call_id: &str, headers: &str) -> String {
        let from = format!("sip:{}@example.com", self.user);
        let to = if method == "REGISTER" { &from } else { uri };
        let request = self.request(method, uri, &from, call_id, headers);
        let request = request.replace(&format!("To: <{uri}>"), &format!("To: <{to}>"));
        self.send(&request);
        let challenge = self.hear("SIP/2.0 40");
        if method == "INVITE" {
            self.send(&ack_of(&request, &challenge));
        }
        self.send(&self.proven(&request, &challenge));
        self.final_answer()
    }

    pub fn register(&self) {
        let answer = self.ask(
            "REGISTER",
            "sip:example.com",
            "register",
            "Expires: 600\r\n",
        );
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// The next response that is not provisional.
    pub fn final_answer(&self) -> String {
        loop {
            let answer = self.hear("SIP/2.0 ");
            if !answer.starts_with("SIP/2.0 1") {
                return answer;
            }
        }
    }

    fn proven(&self, request: &str, challenge: &str) -> String {
        let message = Message::parse(challenge.as_bytes()).expect("a response");
        let names = [
            (HeaderName::WwwAuthenticate, "Authorization"),
            (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
        ];
        let mut found = names
            .into_iter()
            .filter_map(|(name, answer)| Some((message.header(name)?, answer)));
        let (value, name) = found.next().expect("a challenge");
        let challenge = DigestChallenge::parse(value).flatten().expect("a digest");
        let mut words = request.split(' ');
        let (method, uri) = (
            words.next().expect("a method"),
            words.next().expect("a URI"),
        );
        let answer = Answer::new(&challenge, self.user, "secret", method, uri).expect("known");
        let line = format!("{name}: {}\r\nContent-Length", answer.counted(1, "c"));
        let (head, rest) = request.split_once("branch=").expect("a Via");
        let (_, rest) = rest.split_once(';').expect("rport");
        let request = format!("{head}branch={};{rest}", self.branch());
        request
            .replace("Content-Length", &line)
            .replace("CSeq: 1 ", "CSeq: 2 ")
    }

    /// A response of this telephone.
    pub fn respond(&self, request: &str, status: &str) -> String {
        let kept = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"];
        let lines = request.lines().take_while(|line| !line.is_empty());
        let lines: Vec<_> = lines
            .filter(|line| kept.iter().any(|name| line.starts_with(name)))
            .collect();
        let to = header(request, "To");
        let tag = if to.contains("tag=") {
            String::new()
        } else {
            format!(";tag={}", self.user)
        };
        format!(
            "SIP/2.0 {status}\r\n{}\r\nTo: {to}{tag}\r\nContact: <sip:{}@{}>\r\n\
             Content-Length: 0\r\n\r\n",
            lines.join("\r\n"),
            self.user,
            self.address()
        )
    }

    /// Answers a request where it came from.
    pub fn answer(&self, request: &str, status: &str) {
        let via = header(request, "Via");
        let (_, rest) = via.split_once(' ').expect("a Via");
        let sent_by = rest.split([';', ' ']).next().expect("an address");
        let to = sent_by.parse().expect("an address with a port");
        self.phone.send(&self.respond(request, status), to);
    }

    /// Sends a request within the dialog of a message that has its Record-Routes: the answer
    /// to its INVITE, or the INVITE that came.
    pub fn send_within(&self, method: &str, cseq: u32, dialog: &str) {
        let is_caller = dialog.starts_with("SIP/2.0 ");
        let message = Message::parse(dialog.as_bytes()).expect("sound");
        let routes = message.headers(HeaderName::RecordRoute);
        let mut routes: Vec<_> = routes
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .collect();
        let (mut from, mut to) = (header(dialog, "From"), header(dialog, "To"));
        if is_caller {
            routes.reverse();
        } else {
            (from, to) = (format!("{to};tag={}", self.user), from);
        }
        let target = header(dialog, "Contact");
        let request = format!(
            "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch={};rport\r\nMax-Forwards: 70\r\n\
             Route: {}\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {cseq} {method}\r\n\
             Content-Length: 0\r\n\r\n",
            target.trim_matches(['<', '>']),
            self.address(),
            self.branch(),
            routes.join(", "),
            header(dialog, "Call-ID"),
        );
        let first = routes.first().expect("a route");
        self.phone.send(&request, address_in(first));
    }

    /// Watches the dialogs of a user; the first NOTIFY is read.
    pub fn watch(&self, user: &str) {
        let uri = format!("sip:{user}@example.com");
        let headers = "Event: dialog\r\nExpires: 600\r\n";
        let answer = self.ask("SUBSCRIBE", &uri, &format!("watch-{user}"), headers);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        self.lamps_until(&[""], "");
    }

    /// The states that the NOTIFY requests tell until one tells `last`. Those that live only,
    /// as a lamp shows them.
    pub fn lamps_until(&self, allowed: &[&str], last: &str) {
        loop {
            let notify = self.hear("NOTIFY ");
            self.answer(&notify, "200 OK");
            let states = notify.split("<state").skip(1);
            let states = states.filter_map(|part| part.split_once('>')?.1.split_once('<'));
            let live = states
                .map(|(state, _)| state)
                .filter(|it| *it != "terminated");
            let shown = live.collect::<Vec<_>>().join(" ");
            if shown == last {
                return;
            }
            assert!(allowed.contains(&shown.as_str()), "`{shown}` in {notify}");
        }
    }

    fn branch(&self) -> String {
        self.serial.set(self.serial.get() + 1);
        let port = self.address().port();
        format!("z9hG4bK{port}x{}", self.serial.get())
    }
}

/// The ACK of a refusal (RFC 3261 §17.1.1.3).
fn ack_of(invite: &str, refusal: &str) -> String {
    let uri = invite.split(' ').nth(1).expect("a URI");
    let names = ["Via", "From", "Call-ID"];
    let lines = names.map(|name| format!("{name}: {}\r\n", header(invite, name)));
    format!(
        "ACK {uri} SIP/2.0\r\n{}To: {}\r\nCSeq: 1 ACK\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
        lines.concat(),
        header(refusal, "To"),
    )
}

fn header(message: &str, name: &str) -> String {
    crate::phone::header(message, name).to_owned()
}

/// The address and port in a URI in brackets.
fn address_in(uri: &str) -> SocketAddr {
    let uri = uri.trim_matches(['<', '>']);
    let uri = uri.strip_prefix("sip:").unwrap_or(uri);
    let (_, host) = uri.rsplit_once('@').unwrap_or(("", uri));
    let host = host.split(';').next().unwrap_or(host);
    host.parse().expect("an address with a port")
}
