//! Names for which a service for credentials never answers.

use crate::{
    ACCOUNTS, bystander,
    http_receiver::{Answer, HttpReceiver},
    support::{
        Place,
        phone::{Phone, proven},
    },
};
use busyhour_sip::auth::Algorithm;

/// One source has as many of them wait as it may. Somebody else of the same service registers
/// meanwhile, and the breaker stays closed.
#[test]
fn the_names_of_one_source_keep_the_service_from_nobody() {
    let place = Place::new();
    let service = HttpReceiver::start(|request| match request.path.contains("user=remote&") {
        true => {
            let hash = Algorithm::Sha256.hash(&[b"remote", b"example.com", b"secret"]);
            Answer::Now(200, format!("{{\"sha256\": \"{hash}\"}}"))
        }
        false => Answer::Never,
    });
    let url = service.url("/");
    let server = place.server(&format!(
        "[sip]\ndomains = [\"example.com\"]\nrealm = \"example.com\"\n{ACCOUNTS}\
         [credentials]\nurl = \"{url}\"\ntimeout_milliseconds = 1000\ncache_seconds = 1\n"
    ));
    let mut greedy = Phone::new(&server, 2, "user1");
    let register = greedy.register_request();
    let challenge = greedy.challenge(&register);
    let mut guess = |count: u32| {
        let register = greedy.register_request();
        let user = format!("nobody{count}");
        greedy.send(&proven(&register, &challenge, &user, "guess", count));
    };
    (1..200).for_each(&mut guess);
    server.wait_for("/credentials/refused_full", |count| count > 0);
    for round in 2..6 {
        (round * 1000..round * 1000 + 100).for_each(&mut guess);
        let waiting = server.stat("/credentials/waiting_count");
        assert!(waiting <= 26, "{waiting}");
        bystander::is_served(&server, 3, "remote");
        bystander::is_served(&server, 4, "user2");
    }
    // More than opens a breaker, whoever they are of.
    server.wait_for("/credentials/unanswered", |count| count > 4);
    bystander::is_served(&server, 3, "remote");
    assert_eq!(server.stat("/credentials/breaker_open_count"), 0);
}
