//! Tokens in the store: a running server accepts new ones and refuses removed
//! ones, without being told.

use crate::support::{Place, ServerProcess, busyhour, postgres::Postgres, wait_until};
use serde_json::Value;
use std::process::Output;

#[test]
fn a_server_accepts_tokens_of_its_store_while_it_runs_and_at_its_start() {
    let place = Place::new();
    let path = place.path("busyhour.db").display().to_string();
    live(&place, &["--store-path", &path]);
}

#[test]
fn a_server_accepts_tokens_of_postgresql_while_it_runs_and_at_its_start() {
    let postgres = Postgres::start();
    let url = postgres.database("tokens");
    live(&Place::new(), &["--store-url", &url]);
}

fn live(place: &Place, store: &[&str]) {
    let token = |arguments: &[&str]| {
        let mut command = busyhour();
        let output = command.arg("token").args(arguments).args(store).output();
        output.unwrap()
    };
    let start = || {
        let mut command = busyhour();
        let addresses = ["--sip-listen", "--http-listen", "--iax2-listen"];
        command.arg("serve").args(store);
        for address in addresses {
            command.args([address, "127.0.0.1:0"]);
        }
        ServerProcess::start(&mut command, place)
    };
    let server = start();
    let added = said(&token(&["add", "shop", "--scope", "write", "--json"]));
    let shop = added["token"].as_str().unwrap();
    wait_until(|| status(&server, shop) == 404, || server.log());
    let reader = said(&token(&["add", "wall", "--json"]));
    let wall = reader["token"].as_str().unwrap();
    wait_until(|| status(&server, wall) == 403, || server.log());

    let again = token(&["add", "shop"]);
    assert_eq!(again.status.code(), Some(1));
    let words = String::from_utf8(again.stderr).unwrap();
    assert!(words.contains("--replace"), "{words}");
    let list = token(&["list", "--json"]);
    let text = String::from_utf8(list.stdout.clone()).unwrap();
    assert!(!text.contains(shop) && !text.contains("sha256"), "{text}");
    let names = serde_json::json!([
        {"name": "shop", "scope": "write"},
        {"name": "wall", "scope": "read"},
    ]);
    assert_eq!(said(&list)["tokens"], names);

    server.kill();
    let server = start();
    assert_eq!(
        status(&server, shop),
        404,
        "the token is valid from the start"
    );
    said(&token(&["remove", "shop", "--json"]));
    wait_until(|| status(&server, shop) == 401, || server.log());
    assert_eq!(status(&server, wall), 403, "the other token is still valid");
    assert_eq!(token(&["remove", "shop"]).status.code(), Some(1));
    assert!(server.stop().success());
}

/// The status of the answer to a request that removes an account which does not
/// exist.
fn status(server: &ServerProcess, token: &str) -> u16 {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{}/api/accounts/nobody", server.http);
    let request = agent.delete(url);
    let request = request.header("Authorization", format!("Bearer {token}"));
    request.call().unwrap().status().as_u16()
}

fn said(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}
