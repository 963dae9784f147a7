//! Calls through relays that are played by the test, in virtual time.

mod forks;
mod relays;

use busyhour::clock::Instant;
use busyhour_media::{
    MediaActions, MediaTable, MediaWish, Outcome, Passing, Ready, RelayConfig, Relays, Verdict,
    bencode::Value,
};
use busyhour_sip::{Flow, Message, Transport};
use std::{net::SocketAddr, time::Duration};

const PLAIN: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\nc=IN IP4 192.0.2.7\r\n\
    m=audio 4000 RTP/AVP 0\r\n";
const WEB: &str = "v=0\r\nc=IN IP4 192.0.2.7\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n\
    a=ice-ufrag:x\r\na=fingerprint:sha-256 00\r\n";
const RELAYED: &str = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 30000 RTP/AVP 0\r\n";

struct Site {
    table: MediaTable<u32>,
    relays: Relays,
    now: Instant,
    out: MediaActions<u32>,
    wish: MediaWish,
}

impl Site {
    fn new(relays: usize, refuses: bool) -> Self {
        Self::with_seed(1, relays, refuses)
    }

    fn with_seed(seed: u64, relays: usize, refuses: bool) -> Self {
        let configs = (0..relays).map(|number| RelayConfig {
            address: address(number),
            weight: 1,
        });
        let configs: Vec<_> = configs.collect();
        Self {
            table: MediaTable::new(5, 100, refuses),
            relays: Relays::new(&configs, seed, Instant::ZERO),
            now: Instant::ZERO,
            out: MediaActions::default(),
            wish: MediaWish::Auto,
        }
    }

    fn pass(&mut self, text: &str, to: Flow, cause: Option<&str>, ticket: u32) -> Verdict<u32> {
        let message = Message::parse(text.as_bytes()).unwrap();
        let passing = Passing {
            datagram: text.as_bytes(),
            message: &message,
            to,
            cause,
            wish: self.wish,
            is_followed: true,
        };
        self.table
            .passing(self.now, passing, ticket, &self.relays, &mut self.out)
    }

    /// The only command that waits to be sent, without its cookie.
    fn command(&mut self) -> (SocketAddr, String, Vec<u8>) {
        assert_eq!(self.out.commands.len(), 1, "{:?}", self.out.commands);
        let (to, bytes) = self.out.commands.remove(0);
        let space = bytes.iter().position(|byte| *byte == b' ').unwrap();
        let cookie = String::from_utf8(bytes[..space].to_vec()).unwrap();
        (to, cookie, bytes[space + 1..].to_vec())
    }

    fn reply(&mut self, from: SocketAddr, cookie: &str, entries: &[(&str, &str)]) {
        let entries = entries
            .iter()
            .map(|(name, text)| (*name, Value::text(text)));
        let mut bytes = format!("{cookie} ").into_bytes();
        Value::dictionary(entries).write(&mut bytes);
        assert_eq!(MediaTable::<u32>::shard_of(&bytes), Some(5));
        self.table
            .replied(self.now, from, &bytes, &self.relays, &mut self.out);
    }

    fn answer(&mut self) -> Vec<u8> {
        let (to, cookie, command) = self.command();
        self.reply(to, &cookie, &[("result", "ok"), ("sdp", RELAYED)]);
        command
    }

    /// A response with an answer comes on this branch, and the relay rewrites it.
    fn answered(&mut self, status: &str, branch: &str, ticket: u32) -> Vec<u8> {
        let tag = branch.trim_start_matches("z9hG4bK");
        let response = response(status, tag, PLAIN);
        self.pass(&response, to(Transport::Ws, 1), Some(branch), ticket);
        let command = self.answer();
        assert_eq!(self.ready().0, ticket);
        command
    }

    fn later(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
        self.table.expire(self.now, &self.relays, &mut self.out);
    }

    /// The only message that may leave.
    fn ready(&mut self) -> (u32, String) {
        assert_eq!(self.out.ready.len(), 1, "{:?}", self.out.ready);
        let Ready { ticket, outcome } = self.out.ready.remove(0);
        let text = match outcome {
            Outcome::Rewritten(bytes) => String::from_utf8(bytes).unwrap(),
            other => format!("{other:?}"),
        };
        (ticket, text)
    }
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 2223 + number as u16))
}

fn to(transport: Transport, port: u16) -> Flow {
    let local = "192.0.2.1:5060".parse().unwrap();
    Flow {
        transport,
        connection: u32::from(transport.is_reliable()),
        ..Flow::udp(local, SocketAddr::from(([192, 0, 2, 9], port)))
    }
}

fn message(line: &str, vias: &str, to_tag: &str, cseq: &str, body: &str) -> String {
    let kind = match body.is_empty() {
        true => "",
        false => "Content-Type: application/sdp\r\n",
    };
    format!(
        "{line}\r\n{vias}From: <sip:alice@x>;tag=a\r\nTo: <sip:bob@x>{to_tag}\r\n\
         Call-ID: c\r\nCSeq: {cseq}\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn invite(branch: &str, body: &str) -> String {
    let vias = format!(
        "Via: SIP/2.0/UDP 192.0.2.1;branch={branch}\r\n\
         Via: SIP/2.0/WS x.invalid;branch=z9hG4bKa;received=192.0.2.7\r\n"
    );
    message(
        "INVITE sip:bob@192.0.2.9 SIP/2.0",
        &vias,
        "",
        "1 INVITE",
        body,
    )
}

fn response(status: &str, tag: &str, body: &str) -> String {
    let via = "Via: SIP/2.0/WS x.invalid;branch=z9hG4bKa\r\n";
    let tag = format!(";tag={tag}");
    message(&format!("SIP/2.0 {status}"), via, &tag, "1 INVITE", body)
}

fn text<'v>(command: &'v Value<'_>, name: &str) -> &'v str {
    command.get(name).and_then(Value::as_text).unwrap_or("-")
}

#[test]
fn an_offer_gets_an_address_of_the_family_that_its_recipient_has() {
    let six = PLAIN.replace("IP4 192.0.2.7", "IP6 2001:db8::7");
    let (v4, v6) = ("192.0.2.9:5060", "[2001:db8::9]:5060");
    let mapped = "[::ffff:192.0.2.9]:5060";
    for (description, recipient, family) in [
        (PLAIN, v6, "IP6"),
        (&*six, v4, "IP4"),
        (&*six, mapped, "IP4"),
        (PLAIN, v4, "-"),
        (PLAIN, mapped, "-"),
        (&*six, v6, "-"),
    ] {
        let mut site = Site::new(1, true);
        site.wish = MediaWish::Always;
        let to = Flow::udp(address(9), recipient.parse().unwrap());
        site.pass(&invite("z9hG4bKb1", description), to, None, 1);
        let command = site.answer();
        let command = Value::read(&command).unwrap();
        assert_eq!(text(&command, "address family"), family, "{recipient}");
        site.ready();
        // Who has offered has said which addresses he has.
        let caller = Flow::udp(address(9), v4.parse().unwrap());
        let ok = response("200 OK", "b", &six);
        assert_eq!(site.pass(&ok, caller, Some("z9hG4bKb1"), 2), Verdict::Held);
        let command = site.answer();
        let command = Value::read(&command).unwrap();
        assert_eq!(text(&command, "address family"), "-");
    }
}

#[test]
fn a_browser_and_a_telephone_get_descriptions_of_the_relay() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 5060), to(Transport::Ws, 40_000));
    let verdict = site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    assert_eq!(verdict, Verdict::Held);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "call-id", "from-tag", "to-tag", "via-branch"];
    let fields = fields.map(|name| text(&command, name));
    assert_eq!(fields, ["offer", "c", "a", "-", "z9hG4bKb1"]);
    assert_eq!(text(&command, "transport-protocol"), "RTP/AVP");
    assert_eq!(text(&command, "ICE"), "remove");
    assert_eq!(text(&command, "sdp"), WEB);
    let (ticket, sent) = site.ready();
    assert!(ticket == 1 && sent.ends_with(RELAYED), "{sent}");
    let length = format!("Content-Length: {}\r\n\r\n", RELAYED.len());
    assert!(sent.contains(&length) && sent.matches("Content-Length").count() == 1);
    // What has no description passes at once.
    let ringing = response("180 Ringing", "b", "");
    assert_eq!(
        site.pass(&ringing, browser, Some("z9hG4bKb1"), 2),
        Verdict::Pass(2)
    );
    let ok = response("200 OK", "b", PLAIN);
    assert_eq!(site.pass(&ok, browser, Some("z9hG4bKb1"), 3), Verdict::Held);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "from-tag", "to-tag"].map(|name| text(&command, name));
    assert_eq!(fields, ["answer", "a", "b"]);
    assert_eq!(text(&command, "transport-protocol"), "UDP/TLS/RTP/SAVPF");
    assert_eq!(text(&command, "ICE"), "force");
    assert_eq!(site.ready().0, 3);
    // Its retransmission needs no relay.
    assert_eq!(site.pass(&ok, browser, Some("z9hG4bKb1"), 4), Verdict::Held);
    assert!(site.out.commands.is_empty());
    assert!(site.ready().1.ends_with(RELAYED));
    // The telephone puts it on hold: its offer comes the other way round.
    let again = message(
        "INVITE sip:alice@x.invalid SIP/2.0",
        "Via: SIP/2.0/WS 192.0.2.1;branch=z9hG4bKb2\r\nVia: SIP/2.0/UDP 192.0.2.9\r\n",
        ";tag=a",
        "7 INVITE",
        PLAIN,
    );
    let again = again.replace("<sip:alice@x>;tag=a", "<sip:bob@x>;tag=b");
    let again = again.replace("To: <sip:bob@x>", "To: <sip:alice@x>");
    assert_eq!(site.pass(&again, browser, None, 5), Verdict::Held);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "from-tag", "to-tag", "via-branch", "ICE"];
    let fields = fields.map(|name| text(&command, name));
    assert_eq!(fields, ["offer", "b", "a", "-", "force"]);
    site.ready();
    site.table.ended(site.now, "c", &site.relays, &mut site.out);
    let (_, cookie, command) = site.command();
    assert_eq!(text(&Value::read(&command).unwrap(), "command"), "delete");
    site.reply(address(0), &cookie, &[("result", "ok")]);
    assert_eq!(site.table.next_deadline(), None);
    let stats = site.relays.counters.stats();
    assert_eq!((stats.calls, stats.call_count, stats.rewritten), (1, 0, 3));
}

#[test]
fn a_call_between_telephones_of_one_network_passes() {
    let mut site = Site::new(1, true);
    let verdict = site.pass(&invite("z9hG4bKb1", PLAIN), to(Transport::Udp, 1), None, 1);
    assert_eq!(verdict, Verdict::Pass(1));
    site.wish = MediaWish::Never;
    let verdict = site.pass(&invite("z9hG4bKb1", WEB), to(Transport::Udp, 1), None, 2);
    assert_eq!(verdict, Verdict::Pass(2));
    site.wish = MediaWish::Always;
    let verdict = site.pass(&invite("z9hG4bKb1", PLAIN), to(Transport::Udp, 1), None, 3);
    assert_eq!(verdict, Verdict::Held);
}

#[test]
fn an_offer_that_comes_with_the_answer_is_one() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    assert_eq!(
        site.pass(&invite("z9hG4bKb1", ""), phone, None, 1),
        Verdict::Pass(1)
    );
    let ok = response("200 OK", "b", PLAIN);
    assert_eq!(site.pass(&ok, browser, Some("z9hG4bKb1"), 2), Verdict::Held);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "from-tag", "to-tag"].map(|name| text(&command, name));
    assert_eq!(fields, ["offer", "b", "a"]);
    site.ready();
    let vias = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKack\r\n";
    let ack = message(
        "ACK sip:bob@192.0.2.9 SIP/2.0",
        vias,
        ";tag=b",
        "1 ACK",
        WEB,
    );
    assert_eq!(site.pass(&ack, phone, None, 3), Verdict::Held);
    let command = site.answer();
    let command = Value::read(&command).unwrap();
    let fields = ["command", "from-tag", "to-tag"].map(|name| text(&command, name));
    assert_eq!(fields, ["answer", "b", "a"]);
}

/// A request of the caller within the dialog, with headers of its own.
fn within(cseq: &str, headers: &str, body: &str) -> String {
    let method = cseq.split(' ').nth(1).unwrap();
    let branch = cseq.replace(' ', "");
    let vias = format!("Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\r\n{headers}");
    let line = format!("{method} sip:bob@192.0.2.9 SIP/2.0");
    message(&line, &vias, ";tag=b", cseq, body)
}

/// What the relay is told of this message: the command and whose offer it is about.
fn told(site: &mut Site, text: &str, to: Flow, cause: Option<&str>) -> [String; 3] {
    assert_eq!(site.pass(text, to, cause, 0), Verdict::Held, "{text}");
    let command = site.answer();
    site.ready();
    let command = Value::read(&command).unwrap();
    ["command", "from-tag", "to-tag"].map(|name| self::text(&command, name).to_owned())
}

/// RFC 3262 §5: an offer in a reliable provisional response is answered by its PRACK, whose CSeq
/// is another one.
#[test]
fn a_prack_answers_the_offer_of_the_response_that_it_acknowledges() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    site.pass(&invite("z9hG4bKb1", ""), phone, None, 1);
    let reliable = response("183 Session Progress", "b", PLAIN);
    let reliable = reliable.replace("Call-ID:", "Require: 100rel\r\nRSeq: 71\r\nCall-ID:");
    let offer = told(&mut site, &reliable, browser, Some("z9hG4bKb1"));
    assert_eq!(offer, ["offer", "b", "a"]);
    let prack = within("2 PRACK", "RAck: 71 1 INVITE\r\n", WEB);
    assert_eq!(told(&mut site, &prack, phone, None), ["answer", "b", "a"]);
    // The next one is for a response without an offer, and makes one itself.
    let prack = within("3 PRACK", "RAck: 72 1 INVITE\r\n", WEB);
    assert_eq!(told(&mut site, &prack, phone, None), ["offer", "a", "b"]);
    let ok = response("200 OK", "b", PLAIN).replace("1 INVITE", "3 PRACK");
    assert_eq!(told(&mut site, &ok, browser, None), ["answer", "a", "b"]);
}

/// Each side counts its requests for itself: equal numbers mean nothing.
#[test]
fn an_offer_in_a_response_is_not_answered_by_another_response_of_the_same_number() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    told(&mut site, &invite("z9hG4bKb1", WEB), phone, None);
    let ok = response("200 OK", "b", PLAIN);
    assert_eq!(
        told(&mut site, &ok, browser, Some("z9hG4bKb1")),
        ["answer", "a", "b"]
    );
    let turned = |text: &str| {
        let text = text.replace("<sip:alice@x>;tag=a", "<sip:carol@x>;tag=b");
        text.replace("To: <sip:bob@x>;tag=b", "To: <sip:alice@x>;tag=a")
    };
    // The called side's INVITE offers nothing, so the response does.
    let again = turned(&within("7 INVITE", "", ""));
    assert_eq!(site.pass(&again, browser, None, 0), Verdict::Pass(0));
    let ok = turned(&response("200 OK", "b", WEB).replace("1 INVITE", "7 INVITE"));
    assert_eq!(told(&mut site, &ok, phone, None), ["offer", "a", "b"]);
    let ack = turned(&within("7 ACK", "", PLAIN));
    assert_eq!(told(&mut site, &ack, browser, None), ["answer", "a", "b"]);
    let again = within("7 INVITE", "", "");
    assert_eq!(site.pass(&again, phone, None, 0), Verdict::Pass(0));
    let ok = response("200 OK", "b", PLAIN).replace("1 INVITE", "7 INVITE");
    assert_eq!(told(&mut site, &ok, browser, None), ["offer", "b", "a"]);
    // An ACK offers nothing, whatever it has.
    let ack = within("8 ACK", "", WEB);
    assert_eq!(site.pass(&ack, phone, None, 0), Verdict::Pass(0));
}

/// RFC 3261 §21.4.26 and §11.2.
#[test]
fn descriptions_of_what_a_side_can_do_are_no_answers() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    told(&mut site, &invite("z9hG4bKb1", WEB), phone, None);
    let refused = response("488 Not Acceptable Here", "b", PLAIN);
    let verdict = site.pass(&refused, browser, Some("z9hG4bKb1"), 2);
    assert_eq!(verdict, Verdict::Pass(2));
    let asked = within("4 OPTIONS", "", WEB);
    assert_eq!(site.pass(&asked, phone, None, 3), Verdict::Pass(3));
    let ok = response("200 OK", "b", PLAIN).replace("1 INVITE", "4 OPTIONS");
    assert_eq!(site.pass(&ok, browser, None, 4), Verdict::Pass(4));
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
}

#[test]
fn what_goes_the_same_way_waits_and_nothing_else() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    site.answer();
    site.ready();
    let progress = response("183 Session Progress", "b", PLAIN);
    site.pass(&progress, browser, Some("z9hG4bKb1"), 2);
    let ringing = response("180 Ringing", "b", "");
    assert_eq!(
        site.pass(&ringing, browser, Some("z9hG4bKb1"), 3),
        Verdict::Held
    );
    let vias = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKp\r\n";
    let info = message(
        "INFO sip:bob@192.0.2.9 SIP/2.0",
        vias,
        ";tag=b",
        "2 INFO",
        "",
    );
    assert_eq!(site.pass(&info, phone, None, 4), Verdict::Pass(4));
    site.answer();
    let order: Vec<u32> = site.out.ready.drain(..).map(|ready| ready.ticket).collect();
    assert_eq!(order, [2, 3]);
}

#[test]
fn the_answer_of_a_branch_without_a_relay_is_none_for_the_relay() {
    let mut site = Site::new(1, true);
    let (browser, phone) = (to(Transport::Ws, 1), to(Transport::Udp, 2));
    let (direct, relayed) = (invite("z9hG4bKb1", WEB), invite("z9hG4bKb2", WEB));
    assert_eq!(site.pass(&direct, browser, None, 1), Verdict::Pass(1));
    assert_eq!(site.pass(&relayed, phone, None, 2), Verdict::Held);
    site.answer();
    site.ready();
    let progress = response("183 Session Progress", "phone", PLAIN);
    let held = site.pass(&progress, browser, Some("z9hG4bKb2"), 3);
    assert_eq!(held, Verdict::Held);
    site.answer();
    site.ready();
    let ok = response("200 OK", "browser", WEB);
    let passed = site.pass(&ok, browser, Some("z9hG4bKb1"), 4);
    assert_eq!(passed, Verdict::Pass(4));
    // So does what follows in its dialog.
    let vias = "Via: SIP/2.0/WS 192.0.2.1;branch=z9hG4bKb3\r\n";
    let tag = ";tag=browser";
    let again = message("INVITE sip:b@x SIP/2.0", vias, tag, "2 INVITE", WEB);
    assert_eq!(site.pass(&again, browser, None, 5), Verdict::Pass(5));
    assert!(site.out.commands.is_empty());
}

#[test]
fn a_delete_that_was_lost_does_not_end_the_call_that_begins_again() {
    let mut site = Site::new(1, true);
    let phone = to(Transport::Udp, 1);
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    site.answer();
    site.ready();
    site.table.ended(site.now, "c", &site.relays, &mut site.out);
    site.command();
    site.pass(&invite("z9hG4bKb2", WEB), phone, None, 2);
    site.answer();
    site.ready();
    for wait in [250, 500, 1000] {
        site.later(wait);
    }
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
    assert_eq!(site.table.next_deadline(), None);
}

#[test]
fn a_branch_that_rang_with_media_is_no_fork() {
    let mut site = Site::new(1, true);
    let (phone, browser) = (to(Transport::Udp, 1), to(Transport::Ws, 2));
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    site.answer();
    let progress = response("183 Session Progress", "b", PLAIN);
    site.pass(&progress, browser, Some("z9hG4bKb1"), 2);
    site.answer();
    let busy = response("486 Busy Here", "b", "");
    let busy = Message::parse(busy.as_bytes()).unwrap();
    site.table
        .branch_failed(site.now, &busy, "z9hG4bKb1", &site.relays, &mut site.out);
    assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
    site.table.ended(site.now, "c", &site.relays, &mut site.out);
    let (relay, cookie, _) = site.command();
    site.reply(relay, &cookie, &[("result", "ok")]);
    assert_eq!(site.relays.counters.stats().errors, 0);
}

#[test]
fn calls_that_nobody_ends_make_room_and_those_that_nobody_would_end_get_none() {
    let mut site = Site::new(1, true);
    site.table = MediaTable::new(5, 1, true);
    let phone = to(Transport::Udp, 1);
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    site.answer();
    site.ready();
    let other = invite("z9hG4bKb2", WEB).replace("Call-ID: c", "Call-ID: d");
    assert_eq!(site.pass(&other, phone, None, 2), Verdict::Pass(2));
    assert_eq!(site.relays.counters.stats().left_out, 1);
    site.later(86_400_000);
    assert_eq!(site.pass(&other, phone, None, 3), Verdict::Held);
    let stats = site.relays.counters.stats();
    assert_eq!((stats.calls, stats.call_count), (2, 1));
    let (_, delete) = site.out.commands.remove(0);
    assert!(String::from_utf8_lossy(&delete).contains("6:delete"));
    let message = Message::parse(other.as_bytes()).unwrap();
    let passing = Passing {
        datagram: other.as_bytes(),
        message: &message,
        to: phone,
        cause: None,
        wish: MediaWish::Always,
        is_followed: false,
    };
    site.table.ended(site.now, "d", &site.relays, &mut site.out);
    let verdict = site
        .table
        .passing(site.now, passing, 4, &site.relays, &mut site.out);
    assert_eq!(verdict, Verdict::Pass(4));
}

#[test]
fn what_was_asked_for_a_call_that_has_ended_is_not_asked_again() {
    let mut site = Site::new(1, true);
    let offer = invite("z9hG4bK1", WEB);
    assert_eq!(
        site.pass(&offer, to(Transport::Udp, 5060), None, 1),
        Verdict::Held
    );
    let (_, _, offered) = site.command();
    assert_eq!(text(&Value::read(&offered).unwrap(), "command"), "offer");
    site.table.ended(site.now, "c", &site.relays, &mut site.out);
    assert_eq!(site.ready(), (1, "AsItCame".to_owned()));
    let (_, _, deleted) = site.command();
    assert_eq!(text(&Value::read(&deleted).unwrap(), "command"), "delete");
    for _ in 0..8 {
        site.later(250);
        for (_, bytes) in site.out.commands.drain(..) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            assert!(text.contains("6:delete"), "{text}");
        }
        assert!(
            site.out.ready.is_empty(),
            "it has left: {:?}",
            site.out.ready
        );
    }
}

/// Another server of a cluster carries it from now on: the relay must not end it.
#[test]
fn a_call_that_is_handed_over_is_forgotten_and_its_relay_is_told_nothing() {
    let mut site = Site::new(1, true);
    let offer = invite("z9hG4bK1", WEB);
    let verdict = site.pass(&offer, to(Transport::Udp, 5060), None, 1);
    assert_eq!(verdict, Verdict::Held);
    let (_, _, offered) = site.command();
    assert_eq!(text(&Value::read(&offered).unwrap(), "command"), "offer");
    site.table.handed_over("c", &site.relays, &mut site.out);
    assert_eq!(site.ready(), (1, "AsItCame".to_owned()));
    for _ in 0..8 {
        site.later(250);
        assert!(site.out.commands.is_empty(), "{:?}", site.out.commands);
    }
    site.table.ended(site.now, "c", &site.relays, &mut site.out);
    assert!(site.out.commands.is_empty(), "it is not known any more");
    assert_eq!(site.relays.counters.stats().call_count, 0);
}

#[test]
fn the_messages_of_a_call_that_wait_have_a_bound() {
    let mut site = Site::new(1, true);
    let offer = invite("z9hG4bK1", WEB);
    site.pass(&offer, to(Transport::Udp, 5060), None, 0);
    let begun = site.answer();
    assert!(!begun.is_empty());
    site.ready();
    let mut passed = 0;
    for ticket in 0..40 {
        let progress = response("183 Progress", &format!("t{ticket}"), PLAIN);
        let back = to(Transport::Ws, 5061);
        match site.pass(&progress, back, Some("z9hG4bK1"), ticket) {
            Verdict::Held => {}
            Verdict::Pass(_) => passed += 1,
        }
    }
    assert_eq!((site.out.commands.len(), passed), (32, 8));
}
