//! Hints that come and go while a watcher of the extension subscribes.

use crate::{Fixture, open_config, subscribe, to_tag, told};
use busyhour_server::server::{HintConfig, ServerConfig};

const DIALOG: &str = "Event: dialog\r\nExpires: 600";

fn set(server: &Fixture) {
    let hint = HintConfig {
        extension: "alice".into(),
        devices: vec!["sip:bob@example.com".into()],
    };
    let kept = Box::new(|fate: Result<(), _>| assert!(fate.is_ok()));
    server.server.set_hint(&hint, kept).expect("it fits");
}

/// The hint is set, or removed, while the disk has not yet taken the subscription. With any domain, all watchers of
/// its address are told to subscribe anew.
#[test]
fn a_hint_that_comes_or_goes_while_a_watcher_subscribes_is_told_after_the_answer() {
    for domains in [vec![], vec!["example.com".to_owned()]] {
        for is_set_before in [false, true] {
            let mut server = Fixture::with(ServerConfig {
                domains: domains.clone(),
                ..open_config()
            });
            if is_set_before {
                set(&server);
                told(&mut server);
            }
            server.receive(&subscribe(1, "", DIALOG));
            assert_eq!(server.sent(), [""; 0], "the disk has not answered");
            let kept = Box::new(|fate: Result<(), _>| assert!(fate.is_ok()));
            match is_set_before {
                true => {
                    _ = server
                        .server
                        .remove_hint("alice", kept)
                        .expect("it is there")
                }
                false => set(&server),
            }
            server.simulation().run_until_idle();
            assert_eq!(server.sent(), [""; 0], "a NOTIFY before the answer");
            let told = told(&mut server);
            assert!(told[0].starts_with("SIP/2.0 200 "), "{told:#?}");
            assert!(told[1].starts_with("NOTIFY "), "{told:#?}");
            is_right(&mut server, &told);
        }
    }
}

/// As above, while the disk has not yet taken a refresh.
#[test]
fn a_hint_that_comes_while_a_watcher_refreshes_ends_its_subscription_and_the_refresh_says_so() {
    let mut server = Fixture::with(ServerConfig {
        domains: vec!["example.com".to_owned()],
        ..open_config()
    });
    server.receive(&subscribe(1, "", DIALOG));
    let tag = to_tag(&told(&mut server)[0]);
    server.receive(&subscribe(2, &tag, DIALOG));
    assert_eq!(server.sent(), [""; 0], "the disk has not answered");
    set(&server);
    let told = told(&mut server);
    let state = "Subscription-State: terminated;reason=deactivated\r\n";
    assert!(told[0].contains(state), "{told:#?}");
    assert!(told[1].starts_with("SIP/2.0 481 "), "{told:#?}");
}

/// Who was told to subscribe anew, does; then the lamp shows the extension's state if there is a hint.
fn is_right(server: &mut Fixture, told: &[String]) {
    let is_over = told
        .iter()
        .any(|it| it.contains("terminated;reason=deactivated"));
    if is_over {
        server.receive(&subscribe(3, "", DIALOG));
        let again = crate::told(server);
        assert!(
            again[1].contains("Subscription-State: active"),
            "{again:#?}"
        );
    }
    assert_eq!(server.stats().watch.watcher_count, 1);
}
