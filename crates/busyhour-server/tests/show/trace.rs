//! `busyhour trace` and the copies for a capture server: what is on the wire, with real
//! sockets.

use crate::{
    OPEN,
    support::{Place, ServerProcess, busyhour, wait_until},
    telephone::Telephone,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    io::{BufRead, BufReader},
    net::UdpSocket,
    process::{Child, Command, Stdio},
    time::Duration,
};

fn trace(place: &Place, words: &[&str]) -> Command {
    let mut command = busyhour();
    place.keep_sockets_here(&mut command);
    command.arg("trace").args(words).stdout(Stdio::piped());
    command
}

/// Begins the only trace, and waits until the server has it.
fn begin(server: &ServerProcess, command: &mut Command) -> Child {
    server.wait_for("/capture/trace_count", |count| count == 0);
    let child = command.spawn().unwrap();
    server.wait_for("/capture/trace_count", |count| count == 1);
    child
}

/// What it printed, once it has ended.
fn lines(child: &mut Child) -> Vec<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let lines = out.lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    lines
}

#[test]
fn a_trace_has_each_message_of_a_device_with_its_way_and_without_secrets() {
    let place = Place::new();
    let server = place.server(OPEN);
    let [alice, bob, carol] =
        ["alice", "bob", "carol"].map(|user| Telephone::register(&server, user));
    // INVITE, 100, INVITE, 180, 180, 486, ACK, 486 and ACK.
    let mut child = begin(
        &server,
        &mut trace(&place, &["alice", "--json", "--count", "9"]),
    );
    carol.call_in_vain(&bob, "others");
    alice.call_in_vain(&bob, "traced");
    let messages: Vec<Value> = lines(&mut child)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line.get("message").is_some())
        .collect();
    assert_eq!(messages.len(), 9);
    let text = |message: &Value| message["message"].as_str().unwrap().to_owned();
    assert!(
        messages
            .iter()
            .all(|message| text(message).contains("traced"))
    );
    let first = &messages[0];
    assert_eq!(
        (&first["direction"], &first["transport"]),
        (&"in".into(), &"udp".into())
    );
    assert_eq!(first["remote"], alice.address().to_string());
    assert_eq!(first["local"], server.sip.to_string());
    assert!(text(first).starts_with("INVITE sip:bob@127.0.0.1 SIP/2.0\r\n"));
    let to_bob = messages
        .iter()
        .find(|message| message["direction"] == "out" && text(message).starts_with("INVITE "));
    assert_eq!(to_bob.unwrap()["remote"], bob.address().to_string());
    server.wait_for("/capture/trace_count", |count| count == 0);
    assert!(server.stat("/capture/traced") >= 9);
    assert_eq!(server.stat("/capture/trace_lost"), 0);
}

#[test]
fn a_trace_masks_credentials_and_draws_a_ladder() {
    let place = Place::new();
    let server = place.server("[[account]]\nuser = \"alice\"\npassword = \"secret\"\n");
    let mut child = begin(&server, &mut trace(&place, &["alice", "--count", "2"]));
    let telephone = Telephone::unregistered(&server, "alice");
    telephone.register_once(
        "Authorization: Digest username=\"alice\", realm=\"busyhour\", nonce=\"n0nce\", \
         uri=\"sip:127.0.0.1\", response=\"0123456789abcdef\"\r\n",
    );
    let challenge = telephone.read("SIP/2.0 401 ");
    let nonce = challenge
        .split("nonce=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let text = lines(&mut child).join("\n");
    assert!(
        text.contains("response=\"***\"") && text.contains("SIP/2.0 401 "),
        "{text}"
    );
    for secret in ["n0nce", "0123456789abcdef", nonce] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(
        !text.contains('\u{1b}'),
        "colours are for terminals: {text}"
    );

    let mut child = begin(
        &server,
        &mut trace(&place, &["alice", "--ladder", "--count", "2"]),
    );
    telephone.register_once("Subject: again\r\n");
    let ladder = lines(&mut child);
    assert_eq!(ladder.len(), 2, "{ladder:?}");
    assert!(
        ladder[0].contains("<--") && ladder[0].contains(" REGISTER sip:127.0.0.1 "),
        "{ladder:?}"
    );
    assert!(
        ladder[1].contains("-->") && ladder[1].contains(" 401 "),
        "{ladder:?}"
    );
}

#[test]
fn a_trace_over_http_needs_a_token_of_scope_write_and_there_are_eight_at_most() {
    let place = Place::new();
    let row = |name: &str, scope: &str, token: &str| {
        let hash: String = Sha256::digest(token)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("[[token]]\nname = \"{name}\"\nscope = \"{scope}\"\nsha256 = \"{hash}\"\n")
    };
    let tokens = [
        row("reader", "read", READING),
        row("admin", "write", WRITING),
    ]
    .concat();
    let server = place.server(&format!("{OPEN}{tokens}"));
    let ask = |token: Option<&str>| {
        let url = format!("http://{}/api/trace?user=alice", server.http);
        let request = ureq::get(url);
        match token {
            Some(token) => request
                .header("Authorization", format!("Bearer {token}"))
                .call(),
            None => request.call(),
        }
    };
    for (token, status) in [(None, 401), (Some(READING), 403)] {
        let error = ask(token).unwrap_err();
        assert!(
            matches!(error, ureq::Error::StatusCode(found) if found == status),
            "{error}"
        );
    }
    let open: Vec<_> = (0..8).map(|_| ask(Some(WRITING)).unwrap()).collect();
    let error = ask(Some(WRITING)).unwrap_err();
    assert!(matches!(error, ureq::Error::StatusCode(503)), "{error}");
    assert_eq!(server.stat("/capture/trace_count"), 8);
    assert_eq!(server.stat("/capture/traces_refused"), 1);
    drop(open);
    server.wait_for("/capture/trace_count", |count| count == 0);
}

/// The chunks of a HEP packet by vendor and type, read as the specification says.
fn chunks(packet: &[u8]) -> Vec<(u16, u16, Vec<u8>)> {
    let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    assert_eq!(&packet[..4], b"HEP3");
    assert_eq!(usize::from(number(4)), packet.len());
    let (mut at, mut chunks) = (6, Vec::new());
    while at < packet.len() {
        let len = usize::from(number(at + 4));
        chunks.push((
            number(at),
            number(at + 2),
            packet[at + 6..at + len].to_vec(),
        ));
        at += len;
    }
    chunks
}

#[test]
fn a_capture_server_gets_each_message_by_hep() {
    let place = Place::new();
    let homer = UdpSocket::bind("127.0.0.1:0").unwrap();
    homer
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let server = place.server(&format!(
        "{OPEN}[hep]\nserver = \"{}\"\ncapture_id = 7\npassword = \"pw\"\n",
        homer.local_addr().unwrap()
    ));
    let alice = Telephone::register(&server, "alice");
    let read = || {
        let mut packet = [0; 65_535];
        let len = homer.recv(&mut packet).unwrap();
        chunks(&packet[..len])
    };
    let (request, response) = (read(), read());
    let of = |chunks: &[(u16, u16, Vec<u8>)], kind: u16| {
        let found = chunks
            .iter()
            .find(|(vendor, found, _)| (*vendor, *found) == (0, kind));
        found.unwrap_or_else(|| panic!("no chunk {kind}")).2.clone()
    };
    assert!(of(&request, 0x0f).starts_with(b"REGISTER sip:127.0.0.1 SIP/2.0\r\n"));
    assert!(of(&response, 0x0f).starts_with(b"SIP/2.0 200 OK\r\n"));
    for chunks in [&request, &response] {
        assert_eq!(
            (of(chunks, 1), of(chunks, 2), of(chunks, 0x0b)),
            (vec![2], vec![17], vec![1])
        );
        assert_eq!(of(chunks, 0x0c), 7_u32.to_be_bytes());
        assert_eq!(
            (&*of(chunks, 0x0e), &*of(chunks, 0x11)),
            (&b"pw"[..], &b"register"[..])
        );
    }
    let port = |port: u16| port.to_be_bytes().to_vec();
    let (phone, sip) = (port(alice.address().port()), port(server.sip.port()));
    assert_eq!(
        (of(&request, 7), of(&request, 8)),
        (phone.clone(), sip.clone())
    );
    assert_eq!((of(&response, 7), of(&response, 8)), (sip, phone));
    server.wait_for("/capture/hep_sent", |sent| sent == 2);
    assert_eq!(server.stat("/capture/hep_dropped"), 0);
}

/// The messages that a real receiver of HEP writes to its file are those that were sent.
#[test]
fn sngrep_reads_the_copies() {
    let place = Place::new();
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let file = place.path("captured.pcap");
    let mut sngrep = Command::new("sngrep")
        .args([
            "-F",
            "-N",
            "-q",
            "-L",
            &format!("udp:127.0.0.1:{port}"),
            "-O",
        ])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("sngrep is installed (scripts/install-deps.sh)");
    let server = place.server(&format!("{OPEN}[hep]\nserver = \"127.0.0.1:{port}\"\n"));
    let [alice, bob] = ["alice", "bob"].map(|user| Telephone::register(&server, user));
    // It may not listen yet, and writes its file by pieces: some calls come until one is
    // there.
    let captured = || {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let has = |wanted: &[u8]| bytes.windows(wanted.len()).any(|part| part == wanted);
        has(b"INVITE sip:bob@127.0.0.1 SIP/2.0\r\n") && has(b"SIP/2.0 486 Busy Here\r\n")
    };
    let mut number = 0;
    wait_until(
        || {
            number += 1;
            alice.call_in_vain(&bob, &format!("call-{number}"));
            captured()
        },
        || {
            format!(
                "{} bytes",
                std::fs::metadata(&file).map_or(0, |file| file.len())
            )
        },
    );
    sngrep.kill().unwrap();
    sngrep.wait().unwrap();
}

const READING: &str = "a token to read with";
const WRITING: &str = "a token to write with";

#[test]
fn a_trace_says_that_a_device_is_not_registered_and_waits_for_it() {
    let place = Place::new();
    let server = place.server(OPEN);
    let mut command = trace(&place, &["zoe", "--json", "--count", "1"]);
    let mut child = begin(&server, command.stderr(Stdio::piped()));
    let zoe = Telephone::register(&server, "zoe");
    let told = lines(&mut child);
    assert!(
        told.iter().any(|line| line.contains("REGISTER")),
        "{told:?}"
    );
    let mut said = String::new();
    let mut errors = child.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
    assert!(said.contains("zoe is not registered"), "{said}");
    drop(zoe);
}
