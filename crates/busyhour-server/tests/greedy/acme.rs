//! Orders of certificates: an authority gives few a week, and counts failures.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        tls_client::{TOKEN, post},
    },
};

#[test]
fn who_may_ask_for_certificates_cannot_use_up_what_an_authority_gives() {
    let place = Place::new();
    // Nobody is there: what fails counts as well.
    let configuration = format!(
        "[acme]\ndirectory = \"https://127.0.0.1:9/dir\"\nnames = [\"localhost\"]\n\
         listen = \"127.0.0.1:0\"\nfolder = {:?}\n{ACCOUNTS}{TOKEN}",
        place.path("acme"),
    );
    let mut server = place.server(&configuration);
    let ask = |server: &_, times: usize| {
        let answers = (0..times).map(|_| post(server, "/api/certificates/renew"));
        let taken = answers.filter(|answer| match answer.split(' ').nth(1) {
            Some("202") => true,
            Some("429") => {
                assert!(answer.to_lowercase().contains("retry-after: 3"), "{answer}");
                false
            }
            _ => panic!("{answer}"),
        });
        taken.count()
    };
    assert_eq!(ask(&server, 100), 2);
    bystander::is_served(&server, 4, "user1");
    // A restart forgives nothing.
    assert!(server.stop().success());
    server = place.server(&configuration);
    assert_eq!(ask(&server, 10), 0);
}
