//! Which relay is asked, by which name, and what becomes of a call when one does not answer.

use super::*;

#[test]
fn a_relay_that_does_not_answer_is_down_and_the_call_goes_to_another() {
    let mut site = Site::new(2, true);
    let phone = to(Transport::Udp, 1);
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    let (first, cookie, _) = site.command();
    // A retransmission of the INVITE waits with it.
    let verdict = site.pass(&invite("z9hG4bKb1", WEB), phone, None, 2);
    assert_eq!(verdict, Verdict::Held);
    for wait in [250, 500] {
        site.later(wait - 1);
        assert!(site.out.commands.is_empty());
        site.later(1);
        assert_eq!(site.command().0, first);
    }
    site.later(1000);
    let (second, again, command) = site.command();
    assert_ne!(first, second);
    assert_eq!(text(&Value::read(&command).unwrap(), "command"), "offer");
    assert_eq!(cookie, again);
    // A late answer of the first is not believed.
    site.reply(first, &cookie, &[("result", "ok"), ("sdp", PLAIN)]);
    assert!(site.out.ready.is_empty());
    site.reply(second, &again, &[("result", "ok"), ("sdp", RELAYED)]);
    assert!(site.ready().1.ends_with(RELAYED));
    let states = site.relays.states();
    let is_up = |address| {
        states
            .iter()
            .find(|it| it.config.address == address)
            .unwrap()
            .is_up
    };
    assert!(!is_up(first) && is_up(second));
    // It is used again when it answers a ping.
    let pings = site.relays.ping(site.now);
    let (_, ping) = pings.iter().find(|(to, _)| *to == first).unwrap();
    let cookie = ping.split(|byte| *byte == b' ').next().unwrap();
    let pong = [cookie, b" d6:result4:ponge"].concat();
    assert!(site.relays.take_pong(first, &pong, site.now));
    assert!(site.relays.states().iter().all(|it| it.is_up));
}

/// A relay gives the answer that it remembers to whoever asks with the same cookie: another run of
/// the server, or another node, must not get the description of somebody else's call.
#[test]
fn each_run_asks_with_cookies_of_its_own_and_believes_no_other_ones() {
    let mut runs = [1, 2].map(|seed| Site::with_seed(seed, 1, true));
    let [first, second] = runs.each_mut().map(|site| {
        site.pass(&invite("z9hG4bKb1", WEB), to(Transport::Udp, 1), None, 1);
        site.command()
    });
    assert_ne!(first.1, second.1);
    assert_eq!(first.2, second.2);
    let [_, site] = &mut runs;
    site.reply(first.0, &first.1, &[("result", "ok"), ("sdp", PLAIN)]);
    assert!(site.out.ready.is_empty());
    site.reply(second.0, &second.1, &[("result", "ok"), ("sdp", RELAYED)]);
    assert!(site.ready().1.ends_with(RELAYED));
    let [first, second] = runs.map(|site| site.relays.ping(site.now));
    assert_ne!(first, second);
}

#[test]
fn without_a_relay_a_call_is_refused_or_passes_as_the_policy_says() {
    for refuses in [true, false] {
        let mut site = Site::new(1, refuses);
        site.pass(&invite("z9hG4bKb1", WEB), to(Transport::Udp, 1), None, 1);
        for wait in [250, 500, 1000] {
            site.later(wait);
        }
        let expected = if refuses { "Refused" } else { "AsItCame" };
        assert_eq!(site.ready(), (1, expected.to_owned()));
    }
    let mut site = Site::new(2, true);
    site.pass(&invite("z9hG4bKb1", WEB), to(Transport::Udp, 1), None, 1);
    let (first, cookie, _) = site.command();
    site.reply(first, &cookie, &[("result", "load limit")]);
    let (second, cookie, _) = site.command();
    assert_ne!(first, second);
    site.reply(
        second,
        &cookie,
        &[("result", "error"), ("error-reason", "x")],
    );
    assert_eq!(site.ready().1, "Refused");
}

#[test]
fn relays_share_calls_by_their_weights() {
    let configs = [(0, 1), (1, 3)].map(|(number, weight)| RelayConfig {
        address: address(number),
        weight,
    });
    let relays = Relays::new(&configs, 7, Instant::ZERO);
    let mut table = MediaTable::new(5, 10_000, true);
    let mut out = MediaActions::default();
    for number in 0..1000 {
        let text = invite("z9hG4bKb1", WEB).replace("Call-ID: c", &format!("Call-ID: c{number}"));
        let message = Message::parse(text.as_bytes()).unwrap();
        let passing = Passing {
            datagram: text.as_bytes(),
            message: &message,
            to: to(Transport::Udp, 1),
            cause: None,
            wish: MediaWish::Auto,
            is_followed: true,
        };
        table.passing(Instant::ZERO, passing, number, &relays, &mut out);
    }
    let calls: Vec<_> = relays.states().iter().map(|it| it.calls).collect();
    assert!((150..350).contains(&calls[0]), "{calls:?}");
}

/// A server that has begun anew knows no call.
#[test]
fn a_bye_of_an_unknown_call_ends_it_at_each_relay_that_is_up() {
    let mut site = Site::new(3, true);
    let phone = to(Transport::Udp, 1);
    site.pass(&invite("z9hG4bKb1", WEB), phone, None, 1);
    let (down, cookie, _) = site.command();
    site.reply(down, &cookie, &[("result", "load limit")]);
    for wait in [250, 500, 1000] {
        site.later(wait);
        site.out.commands.clear();
    }
    let is_down = |relays: &Relays| relays.states().iter().filter(|it| !it.is_up).count();
    assert_eq!(is_down(&site.relays), 1);
    let bye = within("9 BYE", "", "").replace("Call-ID: c", "Call-ID: d");
    let message = Message::parse(bye.as_bytes()).unwrap();
    site.out.commands.clear();
    site.table
        .ended_by(site.now, &message, &site.relays, &mut site.out);
    assert_eq!(site.out.commands.len(), 2, "{:?}", site.out.commands);
    for (relay, bytes) in std::mem::take(&mut site.out.commands) {
        let space = bytes.iter().position(|byte| *byte == b' ').unwrap();
        let command = Value::read(&bytes[space + 1..]).unwrap();
        let fields = ["command", "call-id", "from-tag"].map(|name| text(&command, name));
        assert_eq!(fields, ["delete", "d", "a"]);
        let cookie = std::str::from_utf8(&bytes[..space]).unwrap();
        site.reply(relay, cookie, &[("result", "ok"), ("warning", "unknown")]);
    }
    assert_eq!(site.relays.counters.stats().errors, 0);
}
