//! What Google's and Apple's services are asked, with signatures that are verified as they do it.

use crate::{
    exchange::open_config,
    scripted::ScriptedClient,
    world::{ALICE, BOB, World},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use busyhour_server::server::{
    AppleKey, HttpRequest, PushConfig, PushService, ServerConfig, ServiceAccount,
};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
        RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    },
};
use serde_json::{Value, json};
use std::{process::Command, sync::Arc};

/// Bob sleeps, and alice calls him.
fn called(
    provider: &str,
    param: &str,
    service: PushService,
    url: &str,
) -> (World, Arc<ScriptedClient>) {
    let client = Arc::new(ScriptedClient::default());
    let mut world = World::with(ServerConfig {
        http: client.clone(),
        push: vec![PushConfig::new(provider, service, url.parse().unwrap())],
        ..open_config()
    });
    let contact = format!(
        "Contact: <sip:bob@192.0.2.8:5060;pn-provider={provider};pn-param={param};pn-prid=t0ken>\r\n"
    );
    let to = "<sip:bob@example.com>";
    let request = world.request(BOB, "REGISTER", "sip:example.com", to, "r", &contact);
    let answer = world.ask(BOB, &request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.pass(11_000);
    call(&mut world, "c1");
    (world, client)
}

fn call(world: &mut World, call_id: &str) {
    let invite = world.invite(ALICE, "bob", call_id);
    world.send(ALICE, &invite);
}

/// Head and claims of a token, what is signed of it, and the signature.
fn parts(token: &str) -> (Value, Value, String, Vec<u8>) {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (head, claims) = signed.split_once('.').unwrap();
    let json = |text: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
        serde_json::from_slice::<Value>(&bytes).unwrap()
    };
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    (json(head), json(claims), signed.to_owned(), signature)
}

fn header<'r>(request: &'r HttpRequest, name: &str) -> &'r str {
    request.headers[name].to_str().unwrap()
}

#[test]
fn apple_is_asked_with_a_token_that_our_key_has_signed() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode(document.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----\n");
    let key = AppleKey::read(&pem, "TEAM123456", "KEY1234567").unwrap();
    let service = PushService::Apns(Arc::new(key));
    let url = "https://api.push.example";
    let (mut world, client) = called("apns", "TEAM123456.com.example.phone.voip", service, url);
    let device = "https://api.push.example/3/device/t0ken";
    let request = client.end(device, Ok(200));
    assert_eq!(header(&request, "apns-topic"), "com.example.phone.voip");
    assert_eq!(header(&request, "apns-push-type"), "voip");
    assert_eq!(header(&request, "apns-priority"), "10");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        (&body["type"], &body["call_id"]),
        (&json!("call"), &json!("c1"))
    );
    let token = header(&request, "authorization")
        .strip_prefix("Bearer ")
        .unwrap();
    let (head, claims, signed, signature) = parts(token);
    assert_eq!(head, json!({"alg": "ES256", "kid": "KEY1234567"}));
    assert_eq!(claims["iss"], "TEAM123456");
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
    public
        .verify(signed.as_bytes(), &signature)
        .expect("our signature");
    let expires: u64 = header(&request, "apns-expiration").parse().unwrap();
    assert_eq!(expires, claims["iat"].as_u64().unwrap() + 20);
    // Too many tokens: another one would be one more.
    world.pass(30_000);
    call(&mut world, "busy");
    let refused = client.end_with(device, 429, "{\"reason\":\"TooManyProviderTokenUpdates\"}");
    world.pass(1_100);
    let again = client.end(device, Ok(200));
    assert_eq!(
        header(&refused, "authorization"),
        header(&again, "authorization")
    );
    // The next one has the same token: Apple wants no new one for each.
    world.pass(30_000);
    call(&mut world, "c2");
    assert_eq!(
        header(&client.end(device, Ok(410)), "authorization"),
        format!("Bearer {token}")
    );
    world.pass(100);
    assert!(
        world.server.bindings_of("bob").bindings.is_empty(),
        "410 is Unregistered"
    );
}

#[test]
fn google_is_asked_with_an_access_token_that_our_service_account_was_given() {
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .output()
            .expect("openssl");
        assert!(output.status.success());
        output.stdout
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem").display().to_string();
    let options = [
        "-algorithm",
        "RSA",
        "-pkeyopt",
        "rsa_keygen_bits:2048",
        "-out",
        &file,
    ];
    openssl(&[&["genpkey"], &options[..]].concat());
    let public = openssl(&["rsa", "-in", &file, "-RSAPublicKey_out", "-outform", "DER"]);
    let account = json!({
        "type": "service_account",
        "project_id": "phones",
        "client_email": "pusher@phones.example",
        "private_key": std::fs::read_to_string(&file).unwrap(),
        "token_uri": "https://oauth.example/token",
    });
    let account = ServiceAccount::read(&account.to_string()).unwrap();
    let service = PushService::Fcm(Arc::new(account));
    let (mut world, client) = called("fcm", "phones", service, "https://fcm.example");
    let asked = client.end_with(
        "https://oauth.example/token",
        200,
        r#"{"access_token":"ya29","expires_in":3599}"#,
    );
    let form = String::from_utf8(asked.body.to_vec()).unwrap();
    let (grant, assertion) = form.split_once("&assertion=").unwrap();
    assert_eq!(
        grant,
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    );
    let (head, claims, signed, signature) = parts(assertion);
    assert_eq!(head["alg"], "RS256");
    assert_eq!(claims["iss"], "pusher@phones.example");
    assert_eq!(claims["aud"], "https://oauth.example/token");
    assert_eq!(
        claims["scope"],
        "https://www.googleapis.com/auth/firebase.messaging"
    );
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &public);
    public
        .verify(signed.as_bytes(), &signature)
        .expect("our signature");

    world.pass(10);
    let url = "https://fcm.example/v1/projects/phones/messages:send";
    // A token that is not believed any more is asked for anew.
    let request = client.end(url, Ok(401));
    assert_eq!(header(&request, "authorization"), "Bearer ya29");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["message"]["token"], "t0ken");
    assert_eq!(body["message"]["data"]["type"], "call");
    assert_eq!(
        body["message"]["android"],
        json!({"priority": "high", "ttl": "20s"})
    );
    world.pass(1_100);
    client.end_with(
        "https://oauth.example/token",
        200,
        r#"{"access_token":"ya30"}"#,
    );
    world.pass(10);
    let gone = r#"{"error":{"details":[{"errorCode":"UNREGISTERED"}]}}"#;
    let request = client.end_with(url, 404, gone);
    assert_eq!(header(&request, "authorization"), "Bearer ya30");
    world.pass(100);
    assert!(world.server.bindings_of("bob").bindings.is_empty());
}
