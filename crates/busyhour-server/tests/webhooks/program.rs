use crate::{
    http_receiver::{Answer, HttpReceiver, Received},
    support::{Place, ServerProcess, busyhour, wait_until},
};
use serde_json::Value;
use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

const TOKEN: &str = "a token that is long enough";

/// The configuration with a token to write.
fn with_token(more: &str) -> String {
    let hash = busyhour_server::web::Token::new("t", busyhour_server::web::Scope::Write, TOKEN);
    let hash: String = hash
        .sha256
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("[[token]]\nname = \"t\"\nscope = \"write\"\nsha256 = \"{hash}\"\n{more}")
}

/// Asks the server; returns the status and the body.
fn ask(server: &ServerProcess, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", server.http))
        .header("Authorization", format!("Bearer {TOKEN}"))
        .body(body.to_owned())
        .unwrap();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let mut answer = agent.run(request).unwrap();
    let status = answer.status().as_u16();
    (status, answer.body_mut().read_to_string().unwrap())
}

fn set_mailbox(server: &ServerProcess, id: &str, new: u32) {
    let path = format!("/api/mailboxes/{id}");
    let (status, said) = ask(
        server,
        "PUT",
        &path,
        &format!("{{\"voice\":{{\"new\":{new}}}}}"),
    );
    assert!(matches!(status, 200 | 201), "{status}: {said}");
}

fn wait_for(receiver: &HttpReceiver, count: usize) -> Vec<Received> {
    let is_there = || receiver.received().len() >= count;
    wait_until(is_there, || format!("{:#?}", receiver.received()));
    receiver.received()
}

fn events(received: &Received) -> Vec<Value> {
    let mut body: Value = serde_json::from_slice(&received.body).unwrap();
    serde_json::from_value(body["events"].take()).unwrap()
}

/// The example of the reference: a Python program that reads the secret, the headers and the body.
fn verify(secret: &str, received: &Received, id: &str) -> bool {
    let reference = include_str!("../../../../docs/busyhour.md");
    let (_, example) = reference.split_once("```python\n").expect("an example");
    let (program, _) = example.split_once("```").unwrap();
    let mut python = Command::new("python3")
        .args(["-c", program, secret, id])
        .arg(received.header("webhook-timestamp"))
        .arg(received.header("webhook-signature"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    python
        .stdin
        .take()
        .unwrap()
        .write_all(&received.body)
        .unwrap();
    let output = python.wait_with_output().unwrap();
    match String::from_utf8(output.stdout).unwrap().trim() {
        "genuine" => true,
        "forged" => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_webhook_of_the_configuration_is_signed_as_the_reference_says() {
    let receiver = HttpReceiver::start(|_| Answer::Now(200, String::new()));
    let place = Place::new();
    let secret = place.file("secret", "whsec_c2VjcmV0IG9mIHRoZSBzaG9wLCBuZXZlciB0b2xk\n");
    let authorization = place.file("authorization", "Bearer of the receiver\n");
    let server = place.server(&with_token(&format!(
        "[[webhook]]\nname = \"crm\"\nurl = \"{}\"\nkinds = [\"mailbox\"]\n\
         secret_file = \"{}\"\nauthorization_file = \"{}\"\n",
        receiver.url("/hook?a=b"),
        secret.display(),
        authorization.display(),
    )));
    set_mailbox(&server, "alice", 2);
    let received = &wait_for(&receiver, 1)[0];
    assert_eq!(
        (received.method.as_str(), received.path.as_str()),
        ("POST", "/hook?a=b")
    );
    assert_eq!(received.header("content-type"), "application/json");
    assert_eq!(received.header("authorization"), "Bearer of the receiver");
    let event = &events(received)[0];
    assert_eq!(event["type"], "change");
    assert_eq!(event["data"]["voice_new"], 2);
    let id = received.header("webhook-id");
    let secret = "whsec_c2VjcmV0IG9mIHRoZSBzaG9wLCBuZXZlciB0b2xk";
    assert!(verify(secret, received, id));
    assert!(!verify(secret, received, "another"));
    assert!(!verify("another secret of 16", received, id));
    let mut changed = received.clone();
    changed.body = received.text().replace("alice", "mallo").into();
    assert!(!verify(secret, &changed, id));

    // What an operator sees, and what nobody sees.
    let mut show = busyhour();
    place.keep_sockets_here(&mut show);
    show.args([
        "show",
        "webhooks",
        "--json",
        "--http",
        &server.http.to_string(),
    ]);
    let shown = String::from_utf8(show.output().unwrap().stdout).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown[0]["delivered"], 1, "{shown}");
    assert_eq!(shown[0]["is_signed"], true);
    assert!(!shown.to_string().contains("c2VjcmV0"));
    let (status, said) = ask(&server, "DELETE", "/api/webhooks/crm", "");
    assert_eq!(status, 409, "{said}");
    assert!(server.stop().success());
}

#[test]
fn a_test_tells_what_the_receiver_answers() {
    let receiver = HttpReceiver::start(|received| match received.path.as_str() {
        "/right" => Answer::Now(202, String::new()),
        _ => Answer::Now(500, String::new()),
    });
    let place = Place::new();
    let server = place.server(&with_token(""));
    for name in ["right", "wrong"] {
        let url = receiver.url(&format!("/{name}"));
        let path = format!("/api/webhooks/{name}");
        let (status, said) = ask(&server, "PUT", &path, &format!("{{\"url\":\"{url}\"}}"));
        assert_eq!(status, 201, "{said}");
        let secret: Value = serde_json::from_str(&said).unwrap();
        assert!(
            secret["secret"].as_str().unwrap().starts_with("whsec_"),
            "{said}"
        );
        assert!(!ask(&server, "GET", &path, "").1.contains("whsec_"));
    }
    let test = |name: &str| {
        let mut command = busyhour();
        place.keep_sockets_here(&mut command);
        command.args(["webhook", "test", name]);
        command.args(["--http", &server.http.to_string(), "--token", TOKEN]);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap(),
            String::from_utf8(said).unwrap(),
        )
    };
    let (code, said) = test("right");
    assert!(
        code == 0 && said.starts_with("right: taken with 202 after "),
        "{said}"
    );
    let (code, said) = test("wrong");
    assert!(
        code == 1 && said.contains("webhook wrong: answered 500"),
        "{said}"
    );
    let (code, said) = test("nobody");
    assert!(
        code == 1 && said.contains("there is no webhook `nobody`"),
        "{said}"
    );
    let received = receiver.received();
    assert_eq!(events(&received[0])[0]["type"], "test");
    let (status, said) = ask(&server, "PUT", "/api/webhooks/x", "{\"url\":\"ftp://a\"}");
    assert_eq!(status, 400);
    assert!(said.starts_with("url: `ftp://a`: give a URL"), "{said}");
}

/// It is slow, breaks, dies, and comes back at the same address.
#[test]
fn a_receiver_that_was_dead_gets_what_it_missed_and_the_server_keeps_its_webhooks() {
    let place = Place::new();
    let config = with_token("[http_client]\nconnections_per_host = 1\n");
    let server = place.server(&config);
    let receiver = HttpReceiver::start(|_| Answer::After(Duration::from_millis(20), 200));
    let quick = HttpReceiver::start(|_| Answer::Now(200, String::new()));
    let address: SocketAddr = receiver.address;
    for (name, url) in [("crm", receiver.url("/")), ("quick", quick.url("/"))] {
        let body = format!("{{\"url\":\"{url}\",\"kinds\":[\"mailbox\"],\"batch\":1}}");
        assert_eq!(
            ask(&server, "PUT", &format!("/api/webhooks/{name}"), &body).0,
            201
        );
    }
    set_mailbox(&server, "alice", 1);
    server.wait_for("/webhooks/delivered", |count| count == 2);
    drop(receiver);
    set_mailbox(&server, "alice", 2);
    set_mailbox(&server, "alice", 3);
    wait_for(&quick, 3);
    server.wait_for("/webhooks/failed_attempts", |count| count > 0);
    let back = HttpReceiver::start_at(address, None, |_| Answer::Now(200, String::new()));
    let told: Vec<_> = wait_for(&back, 2).iter().flat_map(events).collect();
    let counts: Vec<_> = told
        .iter()
        .map(|it| it["data"]["voice_new"].clone())
        .collect();
    assert_eq!(counts, [2, 3]);
    server.kill();
    // What was set over HTTP is still there, and signed with the same secret.
    let server = place.server(&config);
    server.wait_for("/webhooks/webhook_count", |count| count == 2);
    set_mailbox(&server, "alice", 4);
    let told = wait_for(&back, 3);
    assert_eq!(events(told.last().unwrap())[0]["data"]["voice_new"], 4);
    assert_eq!(ask(&server, "DELETE", "/api/webhooks/crm", "").0, 204);
    assert_eq!(ask(&server, "GET", "/api/webhooks/crm", "").0, 404);
    assert!(server.stop().success());
}
