//! One account registers an address of record at every host: `limits.devices`.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place, ServerProcess,
        phone::{Phone, proven},
    },
};

/// user1 at 127.0.0.2 sends `count` requests, each for its own address at
/// another host, and waits for the last answer.
fn send_many(server: &ServerProcess, count: u32, make: impl Fn(&mut Phone, &str) -> String) {
    let mut greedy = Phone::new(server, 2, "user1");
    let first = make(&mut greedy, "h0");
    let challenge = greedy.challenge(&first);
    for count in 1..=count {
        let request = make(&mut greedy, &format!("h{count}"));
        let answer = greedy.challenge(&proven(&request, &challenge, "user1", "secret", count));
        let status = answer.split(' ').nth(1).expect("a status");
        assert!(["200", "503"].contains(&status), "{answer}");
    }
}

fn register(phone: &mut Phone, host: &str) -> String {
    let contact = format!("Contact: <sip:user1@{}>\r\n", phone.address());
    let aor = format!("sip:user1@{host}");
    phone.request("REGISTER", &format!("sip:{host}"), &aor, &contact)
}

fn publish(phone: &mut Phone, host: &str) -> String {
    let body = "Messages-Waiting: yes\r\n";
    let aor = format!("sip:user1@{host}");
    let headers = "Event: message-summary\r\nContent-Type: application/simple-message-summary\r\n";
    let request = phone.request("PUBLISH", &aor, &aor, headers);
    let len = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    request.replace("Content-Length: 0\r\n\r\n", &len)
}

#[test]
fn the_devices_of_one_account_are_limited() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\ndevices = 2000\n{ACCOUNTS}"));
    send_many(&server, SHARE + 10, register);
    assert_eq!(server.stat("/registrar/device_count"), u64::from(SHARE));
    assert_eq!(server.stat("/traffic/refused_share"), 10);
    bystander::is_served(&server, 3, "user2");
}

#[test]
fn the_publications_of_one_account_are_limited() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\npublications = 2000\n{ACCOUNTS}"));
    send_many(&server, SHARE + 10, publish);
    assert_eq!(server.stat("/publish/publication_count"), u64::from(SHARE));
    assert_eq!(server.stat("/traffic/refused_share"), 10);
    assert_eq!(
        server.stat("/mailbox/mailbox_count"),
        1,
        "the limit of the account"
    );
    server.wait_for_log("a share was reached");
    let log = server.log();
    let said = log
        .lines()
        .find(|line| line.contains("a share was reached"));
    let said = said.expect("a line");
    assert!(said.contains("source=127.0.0.2"), "{said}");
    assert!(said.contains("account=\"user1\""), "{said}");
    bystander::is_served(&server, 3, "user2");
}

#[test]
fn the_contacts_and_publications_of_one_device_are_limited() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut greedy = Phone::new(&server, 2, "user1");
    let aor = "sip:user1@example.com";
    for number in 1..=12 {
        let contact = format!("Contact: <sip:user1@192.0.2.{number}>\r\n");
        let request = greedy.request("REGISTER", "sip:example.com", aor, &contact);
        let status = if number <= 10 { "200" } else { "403" };
        let answer = greedy.ask(&request);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
    for number in 1..=10 {
        let request = publish(&mut greedy, "example.com");
        let status = if number <= 8 { "200" } else { "480" };
        let answer = greedy.ask(&request);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
    bystander::is_served(&server, 3, "user2");
    assert_eq!(server.stat("/registrar/too_many_contacts"), 2);
    assert_eq!(server.stat("/publish/too_many"), 2);
    server.wait_for_log("sip.max_contacts");
    server.wait_for_log("limits.publications_per_device");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy device is limited"
    );
}

/// The phones of a building are behind one NAT: as many as one source may have,
/// and ten more.
#[test]
fn the_devices_of_one_source_are_limited() {
    let place = Place::new();
    let accounts = ACCOUNTS.replace("count = 40", "count = 2000");
    let server = place.server(&format!("[limits]\ndevices = 2000\n{accounts}"));
    let registered = |number: u32| {
        let mut phone = Phone::new(&server, 2, &format!("user{number}"));
        let register = phone.register_request();
        phone.ask(&register).starts_with("SIP/2.0 200 ")
    };
    let served = (1..=SHARE + 10).filter(|number| registered(*number));
    let (served, bound) = (served.count() as u64, u64::from(SHARE));
    // One in 260 sources shares both its cells with one of so many accounts, and has one less for each.
    assert!((bound - 2..=bound).contains(&served), "{served}");
    assert_eq!(server.stat("/traffic/refused_share"), bound + 10 - served);
    bystander::is_served(&server, 3, "user1999");
}

/// The devices or publications that one source may have of 2,000: more than a
/// tenth.
const SHARE: u32 = 1024;
