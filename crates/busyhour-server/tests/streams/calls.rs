//! Calls between telephones on different transports.

use crate::{
    client::Client,
    exchange::proof,
    site::{Site, respond, self_signed, status},
};
use busyhour_server::net::StreamOptions;
use busyhour_sip::{HeaderName, Message as SipMessage, Transport};
use rustls::{ClientConnection, StreamOwned};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};
use tungstenite::{ClientRequestBuilder, Message, WebSocket, client::client};

/// What messages of a telephone go over.
enum Wire {
    Udp(UdpSocket, SocketAddr),
    Tcp(Client<TcpStream>),
    Tls(Box<Client<StreamOwned<ClientConnection, TcpStream>>>),
    Ws(Box<WebSocket<TcpStream>>),
    Wss(Box<WebSocket<StreamOwned<ClientConnection, TcpStream>>>),
}

/// A telephone whose password is its user.
struct Telephone {
    wire: Wire,
    user: &'static str,
    transport: Transport,
    count: u32,
}

fn upgraded<S: Read + Write>(stream: S, scheme: &str) -> WebSocket<S> {
    let request = ClientRequestBuilder::new(format!("{scheme}://127.0.0.1/").parse().unwrap())
        .with_sub_protocol("sip");
    client(request, stream).map_err(|_| "refused").unwrap().0
}

/// The next SIP message. On a slow machine the server asks between two of them whether the client
/// lives.
fn text<S: Read + Write>(socket: &mut WebSocket<S>) -> String {
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => return text.to_string(),
            Ok(Message::Ping(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

impl Telephone {
    /// One that has registered.
    fn new(site: &Site, user: &'static str, transport: Transport) -> Self {
        let wire = match transport {
            Transport::Udp => {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket
                    .set_read_timeout(Some(Duration::from_secs(60)))
                    .unwrap();
                Wire::Udp(socket, site.network.sip.addresses()[0])
            }
            Transport::Tcp => Wire::Tcp(Client::new(site.address(transport))),
            Transport::Tls => Wire::Tls(Box::new(site.connect(None))),
            Transport::Ws => {
                let stream = Client::new(site.address(transport)).stream;
                Wire::Ws(Box::new(upgraded(stream, "ws")))
            }
            Transport::Wss => {
                let stream = site.connect_at(site.address(transport), None).stream;
                Wire::Wss(Box::new(upgraded(stream, "wss")))
            }
        };
        let mut telephone = Self {
            wire,
            user,
            transport,
            count: 0,
        };
        let aor = format!("sip:{user}@example.com");
        let answer = telephone.ask("REGISTER", "sip:example.com", &aor);
        assert_eq!(status(&answer), 200, "{answer}");
        telephone
    }

    fn contact(&self) -> String {
        let host = match &self.wire {
            Wire::Udp(socket, _) => socket.local_addr().unwrap().to_string(),
            _ => "x.invalid".to_owned(),
        };
        let (user, suffix) = (self.user, self.transport.uri_suffix());
        format!("sip:{user}@{host}{suffix};ob")
    }

    fn send(&mut self, text: &str) {
        match &mut self.wire {
            Wire::Udp(socket, server) => drop(socket.send_to(text.as_bytes(), *server).unwrap()),
            Wire::Tcp(client) => client.send(text.as_bytes()),
            Wire::Tls(client) => client.send(text.as_bytes()),
            Wire::Ws(socket) => socket.send(text.to_owned().into()).unwrap(),
            Wire::Wss(socket) => socket.send(text.to_owned().into()).unwrap(),
        }
    }

    fn hear(&mut self) -> String {
        match &mut self.wire {
            Wire::Udp(socket, _) => {
                let mut room = [0; 4096];
                let len = socket.recv(&mut room).unwrap();
                String::from_utf8(room[..len].to_vec()).unwrap()
            }
            Wire::Tcp(client) => client.message(),
            Wire::Tls(client) => client.message(),
            Wire::Ws(socket) => text(socket),
            Wire::Wss(socket) => text(socket),
        }
    }

    /// The next message that begins with this.
    fn hear_until(&mut self, begin: &str) -> String {
        loop {
            let heard = self.hear();
            if heard.starts_with(begin) {
                return heard;
            }
        }
    }

    fn request(&mut self, method: &str, uri: &str, to: &str) -> String {
        self.count += 1;
        let Self { user, count, .. } = *self;
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/{} x.invalid;branch=z9hG4bK{user}{count};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@example.com>;tag={user}{count}\r\nTo: <{to}>\r\n\
             Call-ID: {user}{count}\r\nCSeq: {count} {method}\r\n\
             Contact: <{}>\r\nContent-Length: 0\r\n\r\n",
            self.transport,
            self.contact(),
        )
    }

    /// Sends a request, proves who asks, and returns the next answer.
    fn ask(&mut self, method: &str, uri: &str, to: &str) -> String {
        let request = self.request(method, uri, to);
        self.send(&request);
        let challenge = self.hear_until("SIP/2.0 40");
        if method == "INVITE" {
            self.send(&ack_of(&challenge, uri));
        }
        let request = self.request(method, uri, to);
        let plain = challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: ");
        let proof = proof(&request, &plain, self.user, self.user).counted(1, "cnonce");
        let name = match challenge.starts_with("SIP/2.0 407 ") {
            true => "Proxy-Authorization",
            false => "Authorization",
        };
        let line = format!("{name}: {proof}\r\nContent-Length");
        self.send(&request.replace("Content-Length", &line));
        let wanted = format!("CSeq: {} {method}", self.count);
        loop {
            let heard = self.hear_until("SIP/2.0 ");
            if heard.contains(&wanted) && status(&heard) >= 101 {
                return heard;
            }
        }
    }
}

fn ack_of(refusal: &str, uri: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = refusal.lines();
    let lines = lines.filter(|line| kept.iter().any(|name| line.starts_with(name)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    let lines = lines.replace(" INVITE\r\n", " ACK\r\n");
    format!("ACK {uri} SIP/2.0\r\n{lines}Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n")
}

/// A request within the dialog that this message of the other side belongs to.
fn within(from: &Telephone, method: &str, cseq: u32, seen: &str, is_caller: bool) -> String {
    let message = SipMessage::parse(seen.as_bytes()).unwrap();
    let of = |name| message.header(name).unwrap();
    let mut routes = routes(seen);
    if is_caller {
        routes.reverse();
    }
    let (own, other) = match is_caller {
        true => (
            of(HeaderName::From).to_owned(),
            of(HeaderName::To).to_owned(),
        ),
        false => (
            format!("{};tag=t", of(HeaderName::To)),
            of(HeaderName::From).to_owned(),
        ),
    };
    format!(
        "{method} {} SIP/2.0\r\nVia: SIP/2.0/{} x.invalid;branch=z9hG4bK{method}{cseq};rport\r\n\
         Max-Forwards: 70\r\nRoute: {}\r\nFrom: {own}\r\nTo: {other}\r\nCall-ID: {}\r\n\
         CSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n",
        of(HeaderName::Contact).trim_matches(['<', '>']),
        from.transport,
        routes.join(", "),
        of(HeaderName::CallId),
    )
}

fn routes(text: &str) -> Vec<String> {
    let message = SipMessage::parse(text.as_bytes()).unwrap();
    let lines = message.headers(HeaderName::RecordRoute);
    lines
        .flat_map(|line| line.split(", "))
        .map(str::to_owned)
        .collect()
}

/// Two URIs of the server, each with the transport and port of its side (RFC 5658).
fn has_both_sides(site: &Site, seen: &str, caller: Transport, callee: Transport) {
    let ours = |transport| match transport {
        Transport::Udp => site.network.sip.addresses()[0],
        other => site.address(other),
    };
    let routes = routes(seen);
    assert_eq!(routes.len(), 2, "{seen}");
    for (route, transport) in routes.iter().zip([callee, caller]) {
        let end = format!("@{}{};lr>", ours(transport), transport.uri_suffix());
        assert!(route.ends_with(&end), "{route} of {transport}");
    }
}

fn call(caller_over: Transport, callee_over: Transport) {
    let site = site();
    let mut caller = Telephone::new(&site, "alice", caller_over);
    let mut callee = Telephone::new(&site, "carol", callee_over);
    let uri = "sip:carol@example.com";
    let request = caller.request("INVITE", uri, uri);
    caller.send(&request);
    let challenge = caller.hear_until("SIP/2.0 407");
    caller.send(&ack_of(&challenge, uri));
    let request = caller.request("INVITE", uri, uri);
    let plain = challenge.replace("Proxy-Authenticate: ", "WWW-Authenticate: ");
    let proof = proof(&request, &plain, "alice", "alice").counted(1, "cnonce");
    let line = format!("Proxy-Authorization: {proof}\r\nContent-Length");
    caller.send(&request.replace("Content-Length", &line));
    let invite = callee.hear_until("INVITE ");
    let begin = format!("INVITE {} SIP/2.0", callee.contact());
    assert!(invite.starts_with(&begin), "{invite}");
    has_both_sides(&site, &invite, caller_over, callee_over);
    callee.send(&respond(&invite, "200 OK", &callee.contact()));
    let answer = caller.hear_until("SIP/2.0 200");
    has_both_sides(&site, &answer, caller_over, callee_over);
    caller.send(&within(&caller, "ACK", 2, &answer, true).replace("CSeq: 2", &cseq(&answer)));
    callee.hear_until("ACK ");
    let options = within(&caller, "OPTIONS", 50, &answer, true);
    caller.send(&options);
    let heard = callee.hear_until("OPTIONS ");
    callee.send(&respond(&heard, "200 OK", &callee.contact()));
    caller.hear_until("SIP/2.0 200");
    let bye = within(&callee, "BYE", 1, &invite, false);
    callee.send(&bye);
    let heard = caller.hear_until("BYE ");
    caller.send(&respond(&heard, "200 OK", &caller.contact()));
    callee.hear_until("SIP/2.0 200");
    site.end();
}

fn cseq(answer: &str) -> String {
    let line = answer
        .lines()
        .find(|line| line.starts_with("CSeq: "))
        .unwrap();
    line.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn telephones_of_all_transports_call_each_other_and_both_sides_can_end_it() {
    use Transport::{Tcp, Tls, Udp, Ws, Wss};
    for other in [Udp, Tcp, Tls, Ws, Wss] {
        for web in [Ws, Wss] {
            call(web, other);
            call(other, web);
        }
    }
}

fn site() -> Site {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = StreamOptions {
        ws: vec![here],
        wss: vec![here],
        ..StreamOptions::default()
    };
    Site::with(Vec::new(), self_signed("localhost"), None, options)
}
