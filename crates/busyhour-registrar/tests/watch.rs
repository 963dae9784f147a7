//! The subscription of one watcher: which NOTIFYs it gets, when, and how it ends (RFC
//! 6665).

#[path = "watch/document.rs"]
mod document;
#[path = "watch/life.rs"]
mod life;
#[path = "watch/lost.rs"]
mod lost;
#[path = "watch/states.rs"]
mod states;
#[path = "watch/dialogs.rs"]
mod dialogs;
#[path = "watch/publications.rs"]
mod publications;
#[path = "watch/lists.rs"]
mod lists;
#[path = "watch/panel.rs"]
mod panel;
#[path = "watch/watcher_info.rs"]
mod watcher_info;

use busyhour::{buffer::BufferPool, bus::Name, clock::Instant};
use busyhour_registrar::{
    Advertised, BindingId, Contact, ContactParts, Refusal,
    watch::{
        DeviceState, Dialog, End, NoBuffer, Reachable, Subscribe, Subscription, Transmission,
        WatchPolicy, write_accepted,
    },
};
use busyhour_sip::{Flow, HeaderName, Message, Transport};
use std::{sync::Arc, time::Duration};

#[test]
fn the_first_notify_tells_the_full_state_at_once() {
    let mut watcher = Watcher::subscribe("Event: presence\r\nExpires: 600");
    assert_eq!(watcher.poll(), None, "nothing is known yet");
    watcher.subscription.device_is(None);
    let notify = watcher.poll().unwrap();
    assert!(
        notify.starts_with("NOTIFY sip:bob@192.0.2.7:5070 SIP/2.0\r\n"),
        "{notify}"
    );
    assert_has(&notify, "From: <sip:alice@example.com>;tag=ours\r\n");
    assert_has(&notify, "To: <sip:bob@example.com>;tag=theirs\r\n");
    assert_has(&notify, "Call-ID: call\r\nCSeq: 1 NOTIFY\r\n");
    assert_has(
        &notify,
        "Event: presence\r\nSubscription-State: active;expires=600\r\n",
    );
    assert_has(&notify, "Content-Type: application/pidf+xml\r\n");
    assert_has(&notify, "entity=\"sip:alice@example.com\"");
    assert_has(&notify, "<basic>closed</basic>");
}

#[test]
fn the_answer_names_the_notifiers_end_of_the_dialog() {
    let text = subscribe(
        1,
        None,
        "Event: dialog\r\nRecord-Route: <sip:p1;lr>, <sip:p2;lr>",
    );
    let message = Message::parse(text.as_bytes()).unwrap();
    let request = Subscribe::read(&message, &WatchPolicy::default(), flow()).unwrap();
    let subscription = Subscription::open(
        &request,
        alice(),
        "ours",
        Advertised::default(),
        Instant::ZERO,
    );
    let mut out = Vec::new();
    write_accepted(&mut out, &message, &subscription, request.granted_s, flow());
    let answer = String::from_utf8(out).unwrap();
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
    assert_has(&answer, "To: <sip:alice@example.com>;tag=ours\r\n");
    assert_has(&answer, "Record-Route: <sip:p1;lr>, <sip:p2;lr>\r\n");
    assert_has(
        &answer,
        "Expires: 3600\r\nContact: <sip:192.0.2.9:5060>\r\n",
    );
}

#[test]
fn states_that_come_while_a_notify_is_unanswered_are_conflated_to_the_last() {
    let mut watcher = Watcher::active();
    assert!(!watcher.subscription.device_is(Some(online(1))));
    assert!(watcher.subscription.device_is(None));
    assert!(watcher.subscription.device_is(Some(online(2))));
    assert_eq!(watcher.poll(), None);
    assert!(watcher.answer(1, 200));
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "CSeq: 2 NOTIFY\r\n");
    assert_has(&notify, "<tuple id=\"b2\">");
    assert!(watcher.answer(2, 200));
    assert_eq!(watcher.poll(), None);
}

#[test]
fn a_state_that_was_already_sent_is_not_sent_again() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    assert!(!watcher.subscription.device_is(None));
    assert_eq!(watcher.poll(), None);
}

#[test]
fn a_changed_contact_is_notified_and_an_equal_one_is_not() {
    let mut watcher = Watcher::active();
    assert_eq!(watcher.subscription.left_s(watcher.now), 600);
    watcher.answer(1, 200);
    watcher.subscription.device_is(Some(online(1)));
    assert!(watcher.poll().is_some());
    watcher.answer(2, 200);
    watcher.subscription.device_is(Some(online(1)));
    assert_eq!(watcher.poll(), None);
    watcher.subscription.device_is(Some(online(2)));
    assert_has(&watcher.poll().unwrap(), "<tuple id=\"b2\">");
}

#[test]
fn each_contact_has_a_tuple_that_names_the_address_of_record() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    watcher.subscription.device_is(Some(online(1)));
    let notify = watcher.poll().unwrap();
    assert_has(
        &notify,
        "priority=\"0.500\">sip:alice@example.com</contact>",
    );
    assert!(!notify.contains("192.0.2.1?x="), "{notify}");
    let length = notify.split("\r\n\r\n").nth(1).unwrap().len();
    assert_has(&notify, &format!("Content-Length: {length}\r\n"));
}

#[test]
fn dialog_bodies_are_full_and_count_their_versions() {
    let mut watcher = Watcher::subscribe("Event: dialog;id=7");
    watcher.subscription.device_is(None);
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "Event: dialog;id=7\r\n");
    assert_has(&notify, "version=\"0\" state=\"full\"");
    assert_has(&notify, "contacts=\"0\"");
    watcher.answer(1, 200);
    watcher.subscription.device_is(Some(online(1)));
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "version=\"1\" state=\"full\"");
    assert_has(&notify, "contacts=\"1\"");
}

/// The SUBSCRIBE says where NOTIFYs are sent, and that address may belong to
/// someone else.
#[test]
fn to_an_unproven_address_an_unanswered_notify_is_sent_four_times() {
    let mut watcher = Watcher::active();
    let mut sent_at = Vec::new();
    while let Some(deadline) = watcher.subscription.deadline() {
        watcher.now = deadline;
        if watcher.poll().is_some() {
            sent_at.push(deadline.as_nanos() / 1_000_000);
        }
    }
    assert_eq!(sent_at, [500, 1500, 3500]);
    assert_eq!(watcher.subscription.ended(), Some(End::Unanswered));
    assert_eq!(watcher.now, Instant::from_nanos(32_000_000_000));
}

/// All four were lost, as on the way through a server that hears nothing for some seconds: who
/// subscribes again is told at once, and not when the last one is given up.
#[test]
fn who_subscribes_again_is_told_though_a_notify_has_no_answer() {
    let mut watcher = Watcher::active();
    for _ in 0..3 {
        watcher.now = watcher.subscription.deadline().unwrap();
        watcher.poll().expect("it is sent again");
    }
    watcher.pass(1000);
    watcher
        .refresh(2, "Event: presence\r\nExpires: 600")
        .unwrap();
    let notify = watcher.poll().expect("a NOTIFY");
    assert_has(&notify, "CSeq: 2 NOTIFY\r\n");
    assert!(!watcher.answer(1, 200), "nobody waits for that answer");
    assert!(watcher.answer(2, 200));
}

#[test]
fn an_unanswered_notify_is_retransmitted_and_then_given_up() {
    let mut watcher = Watcher::active();
    assert!(watcher.answer(1, 200));
    watcher.subscription.device_is(Some(online(7)));
    watcher.poll().unwrap();
    let mut sent_at = Vec::new();
    while let Some(deadline) = watcher.subscription.deadline() {
        watcher.now = deadline;
        if watcher.poll().is_some() {
            sent_at.push(deadline.as_nanos() / 1_000_000);
        }
    }
    let expected = [
        500, 1500, 3500, 7500, 11500, 15500, 19500, 23500, 27500, 31500,
    ];
    assert_eq!(sent_at, expected);
    assert_eq!(watcher.subscription.ended(), Some(End::Unanswered));
    assert_eq!(watcher.now, Instant::from_nanos(32_000_000_000));
}

#[test]
fn retransmissions_are_the_same_bytes() {
    let mut watcher = Watcher::subscribe("Event: presence");
    watcher.subscription.device_is(None);
    let first = watcher.poll().unwrap();
    watcher.subscription.device_is(Some(online(1)));
    watcher.pass(500);
    assert_eq!(watcher.poll().unwrap(), first);
}

#[test]
fn a_provisional_response_slows_the_retransmissions_down() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 100);
    watcher.pass(500);
    assert!(watcher.poll().is_some());
    let next = watcher.subscription.deadline();
    assert_eq!(next, Some(Instant::from_nanos(4_500_000_000)));
}

#[test]
fn a_watcher_that_does_not_know_the_dialog_is_dropped() {
    for status in [481, 500, 603] {
        let mut watcher = Watcher::active();
        assert!(!watcher.answer(9, status), "a stray response");
        assert!(watcher.answer(1, status));
        assert_eq!(watcher.subscription.ended(), Some(End::Refused(status)));
        assert_eq!(watcher.subscription.deadline(), None);
        watcher.subscription.device_is(Some(online(1)));
        assert_eq!(watcher.poll(), None);
    }
}

#[test]
fn a_refresh_extends_and_is_notified() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    watcher.pass(599_000);
    watcher
        .refresh(2, "Event: presence\r\nExpires: 300")
        .unwrap();
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "Subscription-State: active;expires=300\r\n");
    watcher.answer(2, 200);
    watcher.pass(299_000);
    assert_eq!(watcher.poll(), None);
    watcher.pass(1_000);
    assert_has(
        &watcher.poll().unwrap(),
        "Subscription-State: terminated;reason=timeout\r\n",
    );
}

#[test]
fn a_refresh_over_a_new_flow_is_notified_at_once_although_the_old_one_failed() {
    let mut watcher = Watcher::active();
    let mut new_flow = flow();
    new_flow.remote.set_port(5071);
    watcher.pass(1);
    watcher
        .refresh_over(new_flow, 2, "Event: presence\r\nExpires: 600")
        .unwrap();
    assert_has(&watcher.poll().unwrap(), "CSeq: 2 NOTIFY\r\n");
    assert!(
        !watcher.answer(1, 200),
        "the failure of the old flow is forgotten"
    );
    assert!(watcher.answer(2, 200));
    watcher.pass(64 * 500);
    assert_eq!(watcher.poll(), None);
    assert_eq!(watcher.subscription.ended(), None);
}

#[test]
fn expires_zero_ends_with_one_last_notify() {
    let mut watcher = Watcher::active();
    watcher.refresh(2, "Event: presence\r\nExpires: 0").unwrap();
    watcher.answer(1, 200);
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "Subscription-State: terminated;reason=timeout\r\n");
    assert_eq!(
        watcher.subscription.ended(),
        None,
        "the next NOTIFY waits for the answer"
    );
    watcher.answer(2, 200);
    assert_eq!(watcher.subscription.ended(), Some(End::Unsubscribed));
    let again = watcher.refresh(3, "Event: presence");
    assert_eq!(again, Err(Refusal::NoSubscription));
}

#[test]
fn a_fetch_causes_one_notify() {
    let mut watcher = Watcher::subscribe("Event: presence\r\nExpires: 0");
    watcher.subscription.device_is(Some(online(1)));
    let notify = watcher.poll().unwrap();
    assert_has(&notify, "Subscription-State: terminated;reason=timeout\r\n");
    assert_has(&notify, "<basic>open</basic>");
    watcher.answer(1, 200);
    assert_eq!(watcher.subscription.ended(), Some(End::Unsubscribed));
}

#[test]
fn a_shutdown_tells_watchers_to_subscribe_again() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    watcher.subscription.end(End::Deactivated, watcher.now);
    let notify = watcher.poll().unwrap();
    assert_has(
        &notify,
        "Subscription-State: terminated;reason=deactivated\r\n",
    );
}

#[test]
fn requests_of_other_dialogs_and_old_requests_are_refused() {
    let mut watcher = Watcher::active();
    assert_eq!(
        watcher.refresh(2, "Event: dialog"),
        Err(Refusal::NoSubscription)
    );
    assert_eq!(
        watcher.refresh(2, "Event: presence;id=1"),
        Err(Refusal::NoSubscription)
    );
    watcher.pass(600_000);
    assert_eq!(
        watcher.refresh(2, "Event: presence"),
        Err(Refusal::NoSubscription)
    );
}

#[test]
fn a_duplicate_refresh_is_answered_again_and_an_earlier_one_refused() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    for _ in 0..2 {
        assert_eq!(watcher.refresh(3, "Event: presence"), Ok(()));
    }
    assert_eq!(
        watcher.refresh(2, "Event: presence"),
        Err(Refusal::OutOfOrder)
    );
}

#[test]
fn a_notify_without_room_changes_nothing() {
    let mut watcher = Watcher::subscribe("Event: dialog");
    watcher.subscription.device_is(None);
    let first = watcher.poll().unwrap();
    watcher.subscription.put_off(watcher.now);
    watcher.subscription.put_off(watcher.now);
    assert_eq!(watcher.poll(), None, "it is not sent at once");
    assert_eq!(watcher.subscription.deadline(), Some(at(100)));
    watcher.pass(100);
    assert_eq!(
        watcher.poll(),
        Some(first),
        "no number and no version is lost"
    );
    watcher.subscription.put_off(watcher.now);
    assert_eq!(watcher.subscription.deadline(), Some(at(200)));
    watcher.pass(60_000);
    assert!(watcher.poll().is_some());
    watcher.subscription.put_off(watcher.now);
    assert_eq!(watcher.subscription.deadline(), Some(at(61_100)));
    watcher.pass(1000);
    assert!(watcher.poll().is_some());
    assert!(watcher.answer(1, 200));
}

/// Its first copy may have arrived: a NOTIFY with its number would be taken for another copy, and never be read.
#[test]
fn a_copy_without_room_is_followed_by_a_notify_with_another_number() {
    let mut watcher = Watcher::active();
    watcher.pass(500);
    watcher.poll().expect("a copy");
    watcher.subscription.device_is(Some(online(7)));
    watcher.subscription.put_off(watcher.now);
    watcher.pass(1000);
    assert_has(&watcher.poll().expect("a NOTIFY"), "CSeq: 2 NOTIFY\r\n");
    assert!(!watcher.answer(1, 200), "nobody waits for that answer");
    assert!(watcher.answer(2, 200));
}

/// Nothing went over a broker that nobody knew to be away.
#[test]
fn when_the_way_is_open_again_what_was_sent_before_is_told_anew() {
    let mut watcher = Watcher::active();
    assert!(watcher.answer(1, 200));
    watcher.subscription.device_is(Some(online(7)));
    watcher.pass(5000);
    assert_has(&watcher.poll().expect("a NOTIFY"), "CSeq: 2 NOTIFY\r\n");
    watcher.subscription.way_is_open(watcher.now);
    assert_has(&watcher.poll().expect("a NOTIFY"), "CSeq: 3 NOTIFY\r\n");
    watcher.subscription.put_off(watcher.now);
    assert_eq!(watcher.poll(), None);
    watcher.subscription.way_is_open(watcher.now);
    assert_has(&watcher.poll().expect("a NOTIFY"), "CSeq: 3 NOTIFY\r\n");
    assert!(watcher.answer(3, 200));
    watcher.subscription.way_is_open(watcher.now);
    assert_eq!(watcher.poll(), None, "it is answered");
}

#[test]
fn unsupported_requests_are_refused() {
    let refusal = |headers| read(&subscribe(1, None, headers)).unwrap_err();
    // RFC 3857 allows watchers of watchers of watchers; nobody needs them.
    assert_eq!(refusal("Event: presence.winfo.winfo"), Refusal::BadEvent);
    assert_eq!(refusal("Event: reg.winfo"), Refusal::BadEvent);
    assert_eq!(refusal("Event: PRESENCE"), Refusal::BadEvent);
    assert_eq!(refusal("Expires: 60"), Refusal::BadEvent);
    let accept = "Event: presence\r\nAccept: text/plain";
    assert_eq!(refusal(accept), Refusal::NotAcceptable);
    let brief = refusal("Event: presence\r\nExpires: 10");
    assert_eq!(brief, Refusal::IntervalTooBrief(Duration::from_secs(60)));
    let require = refusal("Event: presence\r\nRequire: 100rel");
    assert_eq!(require, Refusal::BadExtension("100rel".into()));
    for known in [
        "path",
        "outbound",
        "gruu",
        "gruu, outbound, path",
        "eventlist",
    ] {
        Watcher::subscribe(&format!("Event: presence\r\nRequire: {known}"));
    }
    let contacts = refusal("Event: presence\r\nContact: <sip:c@192.0.2.8>");
    assert!(matches!(contacts, Refusal::BadRequest(_)));
}

#[test]
fn loose_and_strict_routes_are_followed() {
    let loose = "Event: presence\r\nRecord-Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>";
    let mut watcher = Watcher::subscribe(loose);
    watcher.subscription.device_is(None);
    let notify = watcher.poll().unwrap();
    assert!(
        notify.starts_with("NOTIFY sip:bob@192.0.2.7:5070 "),
        "{notify}"
    );
    assert_has(
        &notify,
        "Route: <sip:p1.example.com;lr>\r\nRoute: <sip:p2.example.com;lr>\r\n",
    );

    let strict = "Event: presence\r\nRecord-Route: <sip:p1.example.com>, <sip:p2.example.com;lr>";
    let mut watcher = Watcher::subscribe(strict);
    watcher.subscription.device_is(None);
    let notify = watcher.poll().unwrap();
    assert!(
        notify.starts_with("NOTIFY sip:p1.example.com SIP/2.0\r\n"),
        "{notify}"
    );
    let routes = "Route: <sip:p2.example.com;lr>\r\nRoute: <sip:bob@192.0.2.7:5070>\r\n";
    assert_has(&notify, routes);
}

#[test]
fn without_a_buffer_the_notify_is_sent_later() {
    let mut watcher = Watcher::subscribe("Event: presence");
    let none = BufferPool::builder().budget_bytes(0).build().unwrap();
    let some = std::mem::replace(&mut watcher.buffers, none);
    watcher.subscription.device_is(None);
    assert_eq!(watcher.poll(), None);
    let retry_at = watcher.subscription.deadline().unwrap();
    assert!(retry_at < Instant::from_nanos(1_000_000_000));
    watcher.buffers = some;
    watcher.now = retry_at;
    assert_has(&watcher.poll().unwrap(), "<basic>closed</basic>");
}

#[test]
fn a_subscription_that_never_finds_a_buffer_ends() {
    let mut watcher = Watcher::subscribe("Event: presence\r\nExpires: 600");
    watcher.subscription.device_is(None);
    let none = BufferPool::builder().budget_bytes(0).build().unwrap();
    let mut tried = 0;
    while let Some(deadline) = watcher.subscription.deadline() {
        assert!(tried < 2_000, "{deadline:?}");
        watcher.now = deadline;
        let polled = watcher.subscription.poll(deadline, &mut Vec::new(), &none);
        assert_eq!(polled.map(|_| ()), Err(NoBuffer));
        tried += 1;
    }
    assert_eq!(watcher.subscription.ended(), Some(End::Expired));
    assert_eq!(watcher.now, Instant::from_nanos(632_000_000_000));
}

#[test]
fn a_subscription_that_is_never_notified_ends() {
    for (expires_s, end) in [(600, End::Expired), (0, End::Unsubscribed)] {
        let mut watcher = Watcher::subscribe(&format!("Event: reg\r\nExpires: {expires_s}"));
        let mut looked = 0;
        while let Some(deadline) = watcher.subscription.deadline() {
            watcher.now = deadline;
            assert_eq!(watcher.poll(), None);
            looked += 1;
            assert!(looked < 10, "{deadline:?}");
        }
        assert_eq!(watcher.subscription.ended(), Some(end));
        let ended_at = Instant::from_nanos((expires_s + 32) * 1_000_000_000);
        assert_eq!(watcher.now, ended_at);
    }
}

#[test]
fn responses_find_their_subscription_by_the_branch() {
    let mut watcher = Watcher::subscribe("Event: presence");
    watcher.subscription.device_is(None);
    let notify = watcher.poll().unwrap();
    let message = Message::parse(notify.as_bytes()).unwrap();
    let branch = message.via().unwrap().branch().unwrap();
    assert_eq!(Dialog::tag_in_branch(branch), Some("ours"));
    assert_eq!(Dialog::tag_in_branch("z9hG4bKnothing"), None);
    assert_eq!(message.header(HeaderName::MaxForwards), Some("70"));
    assert_eq!(message.validate(), Ok(()));
}

/// A subscription, its clock and its buffers.
struct Watcher {
    subscription: Subscription,
    now: Instant,
    buffers: BufferPool,
}

impl Watcher {
    fn subscribe(headers: &str) -> Self {
        Self::subscribe_over(headers, Transport::Udp)
    }

    fn subscribe_over(headers: &str, transport: Transport) -> Self {
        let text = subscribe(1, None, headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let flow = Flow {
            transport,
            ..flow()
        };
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow).unwrap();
        Self {
            subscription: Subscription::open(
                &request,
                alice(),
                "ours",
                Advertised::default(),
                Instant::ZERO,
            ),
            now: Instant::ZERO,
            buffers: BufferPool::builder().budget_bytes(1 << 20).build().unwrap(),
        }
    }

    /// A subscription to presence for 600 s, whose first NOTIFY is unanswered.
    fn active() -> Self {
        let mut watcher = Self::subscribe("Event: presence\r\nExpires: 600");
        watcher.subscription.device_is(None);
        assert!(watcher.poll().is_some());
        watcher
    }

    fn poll(&mut self) -> Option<String> {
        let mut scratch = Vec::new();
        let subscription = &mut self.subscription;
        let sent = subscription.poll(self.now, &mut scratch, &self.buffers);
        let text = |sent: Transmission| String::from_utf8(sent.datagram.to_vec()).unwrap();
        sent.ok()?.map(text)
    }

    fn answer(&mut self, cseq: u32, status: u16) -> bool {
        self.subscription.answered(cseq, status)
    }

    fn refresh(&mut self, cseq: u32, headers: &str) -> Result<(), Refusal> {
        self.refresh_over(flow(), cseq, headers)
    }

    fn refresh_over(&mut self, flow: Flow, cseq: u32, headers: &str) -> Result<(), Refusal> {
        let text = subscribe(cseq, Some("ours"), headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow).unwrap();
        self.subscription.refresh(&request, self.now)
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
    }
}

fn read(text: &str) -> Result<(), Refusal> {
    let message = Message::parse(text.as_bytes()).unwrap();
    Subscribe::read(&message, &WatchPolicy::default(), flow()).map(drop)
}

fn subscribe(cseq: u32, to_tag: Option<&str>, headers: &str) -> String {
    let tag = to_tag.map_or(String::new(), |tag| format!(";tag={tag}"));
    format!(
        "SUBSCRIBE sip:alice@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK{cseq};rport\r\n\
         From: <sip:bob@example.com>;tag=theirs\r\n\
         To: <sip:alice@example.com>{tag}\r\n\
         Call-ID: call\r\n\
         CSeq: {cseq} SUBSCRIBE\r\n\
         Contact: <sip:bob@192.0.2.7:5070>\r\n\
         {headers}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn online(id: u64) -> DeviceState {
    let contact = Contact::new(ContactParts {
        uri: "sip:a@192.0.2.1?x=&1",
        parameters: "",
        q_milli: Some(500),
        call_id: "register",
        path: "",
        user_agent: "",
        flow: flow(),
    });
    let reachable = Reachable {
        id: BindingId(id),
        contact,
    };
    DeviceState {
        device: alice(),
        contacts: Arc::new([reachable]),
        published: None,
    }
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

fn alice() -> Name {
    Name::new("sip:alice@example.com")
}

fn flow() -> Flow {
    Flow::udp(
        "192.0.2.9:5060".parse().unwrap(),
        "192.0.2.7:5070".parse().unwrap(),
    )
}

#[track_caller]
fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in:\n{text}");
}
