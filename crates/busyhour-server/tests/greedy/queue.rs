//! Requests that wait for one device: `limits.device_queue`.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, proven},
    },
};

#[test]
fn requests_for_one_device_do_not_delay_another() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut greedy = Phone::new(&server, 2, "user1");
    let register = greedy.register_request();
    let challenge = greedy.challenge(&register);
    for count in 1..2000 {
        let register = greedy.register_request();
        greedy.send(&proven(&register, &challenge, "user1", "secret", count));
    }
    bystander::is_served(&server, 3, "user2");
    let register = greedy.register_request();
    let answer = greedy.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}
