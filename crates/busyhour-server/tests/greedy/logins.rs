//! Wrong passwords: the table of those, and the pause that follows.

use crate::{
    phone::{ACCOUNTS, Phone, proven},
    support::Place,
};

/// Whoever writes the address of a phone into datagrams never sees the answers
/// that go there, and so has no nonce for it.
#[test]
fn forged_datagrams_lock_no_phone_out() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut phone = Phone::new(&server, 2, "user1");
    let mut forger = Phone::new(&server, 2, "user1");
    let mut elsewhere = Phone::new(&server, 3, "user1");
    let other = elsewhere.register_request();
    let challenge = elsewhere.challenge(&other);
    for count in 1..20 {
        let request = forger.register_request();
        let guess = proven(&request, &challenge, "user1", "guess", count);
        let answer = forger.challenge(&guess);
        assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    }
    let register = phone.register_request();
    let answer = phone.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(server.stat("/registrar/logins_paused"), 0);
}
