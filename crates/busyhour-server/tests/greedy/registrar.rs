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
    net::UdpSocket,
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

/// The addresses of record of the requests to a registrar behind that accepts all of them. It ends
/// with the process.
fn registrar_behind() -> (String, Arc<Mutex<Vec<String>>>) {
    let socket = UdpSocket::bind("127.0.0.9:0").expect("an address of loopback");
    let address = socket.local_addr().expect("bound").to_string();
    let heard = Arc::new(Mutex::new(Vec::new()));
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
            told.lock().unwrap().push(value("To").to_owned());
            let _ = socket.send_to(answer.as_bytes(), from);
        }
    });
    (address, heard)
}

#[test]
fn the_requests_of_one_account_to_a_registrar_behind_are_paced() {
    let place = Place::new();
    let (address, heard) = registrar_behind();
    let behind = format!(
        "[[registrar]]\nname = \"pbx\"\naddress = \"{address}\"\nper_second = 5\n\
         [[peer]]\nname = \"pbx\"\naddresses = [\"{address}\"]\nmay_call = true\n"
    );
    let server = place.server(&format!("{behind}{ACCOUNTS}"));
    let begun = Instant::now();
    let mut greedy = Phone::new(&server, 2, "user1");
    let first = greedy.register_request();
    let challenge = greedy.challenge(&first);
    for count in 1..=300 {
        let request = greedy.register_request();
        let expires = format!("Expires: {}\r\nContent-Length", 3600 * (count % 2));
        let request = request.replace("Content-Length", &expires);
        let answer = greedy.challenge(&proven(&request, &challenge, "user1", "secret", count));
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    bystander::is_served(&server, 3, "user2");
    let is_told = |user: &str| {
        let heard = heard.lock().unwrap();
        heard.iter().any(|to| to.contains(user))
    };
    wait_until(|| is_told("user2"), || server.stats().to_string());
    let of_greedy = || {
        let heard = heard.lock().unwrap();
        heard.iter().filter(|to| to.contains("user1")).count()
    };
    // One address: one request at a time, and one a second.
    let count = of_greedy() as u64;
    let allowed = begun.elapsed().as_secs() + 2;
    assert!(count <= allowed, "{count} instead of {allowed}");
}
