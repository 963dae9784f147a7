//! Who we are to Google and to Apple: JSON Web Tokens (RFC 7519), and what Google gives for one.

use super::push_config::{AppleKey, ServiceAccount};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{rand::SystemRandom, signature::RSA_PKCS1_SHA256};
use serde_json::json;

/// A token of Apple's kind (ES256), good for an hour.
pub(super) fn of_apple(key: &AppleKey, unix_seconds: u64) -> Option<String> {
    let head = json!({"alg": "ES256", "kid": key.key_id});
    let signed = unsigned(&head, &json!({"iss": key.team_id, "iat": unix_seconds}));
    let signature = key.key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The body by which Google is asked for an access token (RFC 7523 §2.1, RS256).
pub(super) fn request_to_google(account: &ServiceAccount, unix_seconds: u64) -> Option<String> {
    let claims = json!({
        "iss": account.email,
        "scope": SCOPE,
        "aud": account.token_url.to_string(),
        "iat": unix_seconds,
        "exp": unix_seconds + 3600,
    });
    let signed = unsigned(&json!({"alg": "RS256", "typ": "JWT"}), &claims);
    let mut signature = vec![0; account.key.public().modulus_len()];
    let random = SystemRandom::new();
    let done = (account.key).sign(
        &RSA_PKCS1_SHA256,
        &random,
        signed.as_bytes(),
        &mut signature,
    );
    done.ok()?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Some(format!("grant_type={GRANT}&assertion={signed}.{signature}"))
}

fn unsigned(head: &serde_json::Value, claims: &serde_json::Value) -> String {
    let encode = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", encode(head), encode(claims))
}

const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// `urn:ietf:params:oauth:grant-type:jwt-bearer`, escaped.
const GRANT: &str = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
