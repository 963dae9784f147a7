//! One account comes and goes as often as it can, and each time the registrar behind is to be
//! told: `per_second` of its `[[registrar]]`.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, header, proven},
        wait_until,
    },
};
use std::{
    collections::HashSet,
    net::UdpSocket,
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

/// The address of record and the Via of each request.
type Heard = Arc<Mutex<Vec<(String, String)>>>;

/// A registrar behind that accepts all requests, and what it hears. It ends with the process.
fn registrar_behind() -> (String, Heard) {
    let socket = UdpSocket::bind("127.0.0.9:0").expect("an address of loopback");
    let address = socket.local_addr().expect("bound").to_string();
    let heard = Heard::default();
    let told = heard.clone();
    thread::spawn(move || {
        let mut room = [0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut room) {
            let request = String::from_utf8_lossy(&room[..len]).into_owned();
            let value = |name| header(&request, name).unwrap_or_default();
            let names = ["Via", "From", "To", "Call-ID", "CSeq"];
            let kept = names.map(|name| format!("{name}: {}\r\n", value(name)));
            let contact = format!("Contact: {}\r\n", value("Contact"));
            let answer = format!(
                "SIP/2.0 200 OK\r\n{}{contact}Content-Length: 0\r\n\r\n",
                kept.concat()
            );
            let (to, via) = (value("To").to_owned(), value("Via").to_owned());
            told.lock().unwrap().push((to, via));
            let _ = socket.send_to(answer.as_bytes(), from);
        }
    });
    (address, heard)
}

/// 300 changes of one address make one request a second; one of another address does not wait for
/// them.
#[test]
fn the_requests_of_one_account_to_a_registrar_behind_are_paced() {
    let place = Place::new();
    let (address, heard) = registrar_behind();
    let behind = format!(
        "[[registrar]]\nname = \"pbx\"\naddress = \"{address}\"\nper_second = 1000\n\
         [[peer]]\nname = \"pbx\"\naddresses = [\"{address}\"]\nmay_call = true\n"
    );
    let server = place.server(&format!("{behind}{ACCOUNTS}"));
    let begun = Instant::now();
    let mut greedy = Phone::new(&server, 2, "user1");
    let first = greedy.register_request();
    let challenge = greedy.challenge(&first);
    for count in 1..=CHANGES {
        let request = greedy.register_request();
        let expires = format!("Expires: {}\r\nContent-Length", 3600 * (count % 2));
        let request = request.replace("Content-Length", &expires);
        let answer = greedy.challenge(&proven(&request, &challenge, "user1", "secret", count));
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    let changed = server.stat("/registrar/accepted");
    assert_eq!(changed, u64::from(CHANGES), "each was a change");
    bystander::is_served(&server, 3, "user2");
    let told_of = |user: &str| {
        let heard = heard.lock().unwrap();
        let of_user = heard.iter().filter(|(to, _)| to.contains(user));
        // One that is sent again has the same branch.
        of_user
            .map(|(_, via)| via.clone())
            .collect::<HashSet<_>>()
            .len() as u64
    };
    wait_until(|| told_of("user2") > 0, || server.stats().to_string());
    let count = told_of("user1");
    let allowed = begun.elapsed().as_secs() + 2;
    assert!(
        allowed < u64::from(CHANGES) / 2,
        "too slow a machine to tell"
    );
    assert!(
        (1..=allowed).contains(&count),
        "{count} instead of {allowed}"
    );
}

/// Far more than the seconds that they take.
const CHANGES: u32 = 300;
