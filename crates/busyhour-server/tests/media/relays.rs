//! Which relay a call gets, and which calls get one: two that live, two families of addresses, and
//! peers with a rule of their own, with real rtpengines.

use crate::{
    Telephone, audio_of, call, configuration, is_heard, server,
    support::{
        Place, ServerProcess, busyhour,
        phone::{Phone, header},
        rtpengine::Rtpengine,
        wait_until,
    },
};
use std::net::SocketAddr;

/// Two relays share the calls. One is killed: its calls end as they should, and all new ones go to
/// the other.
#[test]
fn of_two_relays_the_one_that_is_left_gets_all_new_calls_and_the_server_says_so() {
    let ports = [14_400..14_600_u16, 14_600..14_800];
    let [lost, left] = ports.clone().map(Rtpengine::start);
    let place = Place::new();
    let media = format!(
        "relays = \"{},{}\"\nuse = \"always\"\n",
        lost.address, left.address
    );
    let server = server(&place, &media);
    let mut alice = Telephone::new(&server, 2, "alice");
    let bob = Telephone::new(&server, 3, "bob");
    let relay_of = |message: &str| {
        let port = audio_of(message).port();
        ports
            .iter()
            .position(|ports| ports.contains(&port))
            .unwrap()
    };
    // Each is chosen by chance: a hundred calls in a row to the same one would be a mistake.
    let (mut of_lost, mut has_left_one) = (None, false);
    let is_shared = (0..100).any(|_| {
        let (_, answer) = call(&mut alice, &bob);
        match relay_of(&answer) {
            0 if of_lost.is_none() => of_lost = Some(answer),
            relay => {
                has_left_one |= relay == 1;
                hang_up(&alice, &bob, &answer);
            }
        }
        of_lost.is_some() && has_left_one
    });
    assert!(is_shared && lost.calls() > 0);
    drop(lost);
    for sequence in 1..=4 {
        let (offered, answer) = call(&mut alice, &bob);
        assert_eq!((relay_of(&offered), relay_of(&answer)), (1, 1));
        is_heard(&alice, audio_of(&answer), &bob, sequence);
        is_heard(&bob, audio_of(&offered), &alice, sequence);
        hang_up(&alice, &bob, &answer);
    }
    server.wait_for_log("media relay does not answer");
    let media: serde_json::Value = serde_json::from_str(&server.get("/api/media")).unwrap();
    assert_eq!(media["media"][0]["state"], "down", "{media}");
    assert_eq!(media["media"][1]["state"], "up", "{media}");
    let failures = media["media"][0]["failures"].as_u64().unwrap();
    assert!(failures > 0, "{media}");
    // The call that the lost one had ends all the same.
    hang_up(&alice, &bob, &of_lost.unwrap());
    wait_until(|| left.calls() == 0, || "a call stays".to_owned());
    server.wait_for("/media/call_count", |count| count == 0);
}

/// By themselves they would not hear each other: one has only IPv4, the other only IPv6.
#[test]
fn a_telephone_with_ipv4_and_one_with_ipv6_hear_each_other() {
    let relay = Rtpengine::start_at(&["127.0.0.1", "::1"], 14_800..15_000);
    let place = Place::new();
    let media = format!("relays = \"{}\"\nuse = \"auto\"\n", relay.address);
    let mut program = busyhour();
    program.args(["serve", "--sip-listen", "127.0.0.1:0,[::1]:0"]);
    program.args(["--iax2-listen", "off", "--http-listen", "127.0.0.1:0"]);
    program.arg("--store-path").arg(place.path("busyhour.db"));
    let file = place.file("busyhour.toml", &configuration(&media));
    program.arg("--config").arg(file);
    place.keep_sockets_here(&mut program);
    let server = ServerProcess::start(&mut program, &place);
    let ready = server.said.last().unwrap().split(' ');
    let addresses = ready.filter_map(|word| word.strip_prefix("sip-udp=")?.parse().ok());
    let addresses: Vec<SocketAddr> = addresses.collect();
    let at = |address: &str, user: &str| {
        let address: SocketAddr = address.parse().unwrap();
        let mut servers = addresses.iter();
        let server = servers
            .find(|it| it.is_ipv4() == address.is_ipv4())
            .unwrap();
        Telephone::of(Phone::between(address, *server, user))
    };
    let mut four = at("127.0.0.2:0", "four");
    let mut six = at("[::1]:0", "six");
    for is_from_six in [false, true] {
        let (caller, called, user) = match is_from_six {
            false => (&mut four, &six, "six"),
            true => (&mut six, &four, "four"),
        };
        let (offered, answer) = call_to(caller, called, user);
        let (to_caller, to_called) = (audio_of(&offered), audio_of(&answer));
        assert_eq!(
            (to_caller.is_ipv4(), to_called.is_ipv4()),
            (is_from_six, !is_from_six)
        );
        assert!(
            !offered.contains(if is_from_six { "IP6" } else { "IP4" }),
            "{offered}"
        );
        is_heard(caller, to_called, called, 1);
        is_heard(called, to_caller, caller, 2);
        hang_up(caller, called, &answer);
    }
    wait_until(|| relay.calls() == 0, || "the call stays".to_owned());
    assert_eq!(server.stat("/media/errors"), 0);
}

#[test]
fn the_rule_of_a_peer_comes_before_that_for_all() {
    for (all, of_peer) in [("never", "always"), ("always", "never")] {
        let (relay, place) = (Rtpengine::start(15_000..15_200), Place::new());
        let peer = "[[peer]]\nname = \"gateway\"\naddresses = [\"127.0.0.9\"]\nmay_call = true\n";
        let media = format!(
            "relays = \"{}\"\nuse = \"{all}\"\n{peer}media = \"{of_peer}\"\n",
            relay.address
        );
        let server = server(&place, &media);
        let bob = Telephone::new(&server, 3, "bob");
        for (host, rule) in [(9, of_peer), (2, all)] {
            let mut caller = Telephone::new(&server, host, &format!("caller{host}"));
            let (offered, answer) = call(&mut caller, &bob);
            let own = [&caller, &bob].map(|it| it.media.local_addr().unwrap());
            let told = [&offered, &answer].map(|it| audio_of(it));
            match rule {
                "never" => assert_eq!((told, relay.calls()), (own, 0)),
                _ => {
                    assert!(told.iter().all(|it| it.ip().to_string() == "127.0.0.1"));
                    assert_eq!(relay.calls(), 1);
                    is_heard(&caller, told[1], &bob, 1);
                    is_heard(&bob, told[0], &caller, 2);
                }
            }
            hang_up(&caller, &bob, &answer);
            wait_until(|| relay.calls() == 0, || "the call stays".to_owned());
        }
    }
}

fn call_to(caller: &mut Telephone, called: &Telephone, user: &str) -> (String, String) {
    let invite = caller.invite(user, &caller.description());
    caller.phone.send(&invite);
    let offered = called.hear_until("INVITE ");
    called.respond(&offered, "200 OK", &called.description());
    let answer = caller.hear_until("SIP/2.0 200 ");
    let cseq = header(&answer, "CSeq").unwrap().split(' ').next().unwrap();
    let ack = caller.within("ACK", cseq.parse().unwrap(), &answer);
    caller.phone.send(&ack);
    called.hear_until("ACK ");
    (offered, answer)
}

fn hang_up(caller: &Telephone, called: &Telephone, answer: &str) {
    caller.phone.send(&caller.within("BYE", 900, answer));
    let bye = called.hear_until("BYE ");
    called.respond(&bye, "200 OK", "");
    caller.hear_until("SIP/2.0 200 ");
}
