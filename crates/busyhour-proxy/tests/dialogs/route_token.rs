//! The signed token of Record-Route (RFC 5626 §5.3.2, RFC 5658).

use busyhour_proxy::dialogs::{Party, Role, RouteToken, RouteTokens, TokenRefusal};
use proptest::prelude::*;

use crate::rig::user;
use crate::{any_bytes, token_properties};

#[test]
fn any_bytes_hold() {
    any_bytes::hold_for("route_token", 3_000, token_properties::hold);
}

proptest! {
    #[test]
    fn every_token_is_read_as_written(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        token_properties::hold(&bytes);
    }
}

#[test]
fn two_keys_are_valid_and_no_third() {
    let mut tokens = RouteTokens::new([1; 32]);
    let text = written(&tokens, Role::Caller, user("alice"));
    tokens.rotate([2; 32]);
    assert!(tokens.read(&text, "c").is_ok());
    let newer = written(&tokens, Role::Caller, user("alice"));
    assert_ne!(text, newer);
    tokens.rotate([3; 32]);
    assert_eq!(tokens.read(&text, "c"), Err(TokenRefusal::Key));
    assert!(tokens.read(&newer, "c").is_ok());
    // Numbers of keys come again; their signatures do not.
    tokens.rotate([4; 32]);
    tokens.rotate([5; 32]);
    assert_eq!(tokens.read(&text, "c"), Err(TokenRefusal::Signature));
}

#[test]
fn another_server_version_or_dialog_is_refused() {
    let tokens = RouteTokens::new([1; 32]);
    let text = written(&tokens, Role::Callee, user("bob"));
    let other = RouteTokens::new([2; 32]);
    assert_eq!(other.read(&text, "c"), Err(TokenRefusal::Signature));
    assert_eq!(tokens.read(&text, "d"), Err(TokenRefusal::Signature));
    // The first character holds the version.
    let newer = format!("g{}", &text[1..]);
    assert_eq!(tokens.read(&newer, "c"), Err(TokenRefusal::Version));
    assert!(RouteTokens::is_token(&text) && !RouteTokens::is_token(&newer));
    assert!(!RouteTokens::is_token("alice") && !RouteTokens::is_token(""));
    for short in ["", "A", "AAAA", "not base64"] {
        assert_eq!(
            tokens.read(short, "c"),
            Err(TokenRefusal::Malformed),
            "{short}"
        );
    }
}

/// RFC 3261 §19.1.4; Twinkle writes routes so.
#[test]
fn escapes_are_equal_to_what_they_stand_for() {
    let tokens = RouteTokens::new([1; 32]);
    let text = written(&tokens, Role::Callee, user("bob"));
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert!(tokens.read(&escaped, "c").is_ok());
    let upper = text.replacen('A', "%41", 2);
    assert_ne!(upper, text);
    assert!(tokens.read(&upper, "c").is_ok());
    for broken in ["%", "%4", "%zz", "%c3"] {
        let broken = text.replacen('A', broken, 1);
        assert_eq!(
            tokens.read(&broken, "c"),
            Err(TokenRefusal::Malformed),
            "{broken}"
        );
    }
}

/// RFC 5658: the topmost Route faces the sender, the other one the recipient.
#[test]
fn two_tokens_say_who_sends_and_where_it_goes() {
    let tokens = RouteTokens::new([1; 32]);
    let caller = written(&tokens, Role::Caller, user("alice"));
    let callee = written(&tokens, Role::Callee, user("bob"));
    let parties = [user("alice"), user("bob")];
    let pair = |one: &str, other: &str| tokens.read_pair(one, other, "c");
    assert_eq!(pair(&caller, &callee), Ok((parties.clone(), Role::Caller)));
    assert_eq!(pair(&callee, &caller), Ok((parties, Role::Callee)));
    assert_eq!(pair(&caller, &caller), Err(TokenRefusal::Side));
    assert_eq!(pair(&callee, &callee), Err(TokenRefusal::Side));
}

/// It travels twice in each message: 64 characters for a usual address over UDP.
#[test]
fn a_token_is_short() {
    let tokens = RouteTokens::new([1; 32]);
    let text = written(&tokens, Role::Caller, user("extension-1000"));
    assert!(text.len() <= 68, "{}", text.len());
}

fn written(tokens: &RouteTokens, role: Role, party: Party) -> String {
    let mut text = String::new();
    let carrier = 0;
    tokens.write(
        &RouteToken {
            role,
            party,
            carrier,
        },
        "c",
        &mut text,
    );
    text
}
