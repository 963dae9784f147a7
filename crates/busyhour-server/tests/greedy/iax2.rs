//! IAX2 registrations in progress: `limits.iax2_calls`.

use crate::{
    ACCOUNTS, bystander,
    support::{Place, ServerProcess},
};
use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

/// A REGREQ of user1 in the call with this number (RFC 5456 §6.1.2).
fn regreq(call: u16) -> Vec<u8> {
    let mut frame = (0x8000 | call).to_be_bytes().to_vec();
    // No call number of the server, timestamp 0, sequence numbers 0; an IAX
    // frame, REGREQ.
    frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 6, 13]);
    frame.extend([6, 5]);
    frame.extend(b"user1");
    frame
}

/// Whether the server answers with a REGAUTH, within several attempts.
fn is_challenged(server: &ServerProcess, host: u8) -> bool {
    let socket =
        UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("an address of loopback");
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .expect("a time");
    (0..3).any(|_| {
        socket.send_to(&regreq(5), server.iax2).expect("sent");
        let mut answer = [0; 512];
        socket.recv(&mut answer).is_ok() && answer[11] == 14
    })
}

#[test]
fn the_calls_of_one_source_are_limited_and_others_keep_theirs() {
    let place = Place::new();
    let configuration = format!(
        "[iax2]\ncall_token = \"optional\"\n\
         [limits]\niax2_calls = 320\niax2_calls_per_source = 32\n{ACCOUNTS}"
    );
    let server = place.server(&configuration);
    let greedy = UdpSocket::bind("127.0.0.2:0").expect("an address of loopback");
    for call in 1..=200 {
        greedy.send_to(&regreq(call), server.iax2).expect("sent");
    }
    server.wait_for("/iax2/refused_source_limit", |count| count > 0);
    // This holds for any distribution of the sources over the server's table.
    let refused: Vec<_> = (3..43)
        .filter(|&host| !is_challenged(&server, host))
        .collect();
    assert_eq!(refused, Vec::<u8>::new());
    assert_eq!(server.stat("/iax2/refused_table_full"), 0);
    bystander::is_served(&server, 50, "user2");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy source is limited"
    );
}
