//! What operators may do to the files of the database while the server runs.

use crate::support::{Place, ServerProcess, busyhour, wait_until};
use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
};

const OPEN: &str = "[sip]\nauth = \"open\"\n";

/// Registers a new contact with the storm; returns whether it was acknowledged.
fn registers(server: &ServerProcess) -> bool {
    let mut command = busyhour();
    command.args(["storm", "--devices", "1", "--over", "1ms"]);
    command.args(["--target", &server.sip.to_string()]);
    command.output().unwrap().status.success()
}

fn health(server: &ServerProcess) -> (u16, String) {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{}/healthz", server.http);
    let mut answer = agent.get(url).call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), text)
}

/// Waits until the health check names this file, and checks that nothing is
/// acknowledged then.
fn assert_lost(server: &ServerProcess, name: &str, fate: &str) {
    let is_told = || {
        let (status, text) = health(server);
        status == 503 && text.contains(name) && text.contains(fate)
    };
    wait_until(is_told, || format!("{name}: {:?}", health(server)));
    server.wait_for_log("the database file is lost: registrations are answered 503");
    assert!(!registers(server), "{name}: {}", server.log());
}

#[test]
fn a_file_that_is_moved_away_stops_acknowledgements_until_it_is_back() {
    for name in ["busyhour.db", "busyhour.db-wal", "busyhour.db-shm"] {
        let place = Place::new();
        let server = place.server(OPEN);
        assert!(registers(&server));
        fs::rename(place.path(name), place.path("away")).unwrap();
        // At once, not only when the server happens to notice the loss.
        assert!(!registers(&server), "{name}: {}", server.log());
        assert_lost(&server, name, "was deleted");
        fs::rename(place.path("away"), place.path(name)).unwrap();
        server.wait_for_log("the database files are back");
        assert!(registers(&server), "{name}: {}", server.log());
        server.kill();
        let server = place.server(OPEN);
        assert_eq!(server.stat("/registrar/binding_count"), 2, "{name}");
    }
}

#[test]
fn a_file_that_is_replaced_stops_acknowledgements_also_without_registrations() {
    let place = Place::new();
    let server = place.server(OPEN);
    let copy = place.path("copy");
    fs::copy(place.path("busyhour.db"), &copy).unwrap();
    fs::rename(&copy, place.path("busyhour.db")).unwrap();
    assert_lost(&server, "busyhour.db", "was replaced");
    assert!(server.stop().success());
}

#[test]
fn only_the_servers_user_can_open_the_lock_and_an_error_names_its_holder() {
    let place = Place::new();
    let lock = place.file("busyhour.db.lock", "4194305");
    fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
    // Another user may do this, if all users may read the file.
    let held = File::open(&lock).unwrap();
    held.lock().unwrap();
    let output = place.serve().output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    let holder = format!("in use by process {};", std::process::id());
    assert!(words.contains(&holder), "{words}");
    drop(held);
    let server = place.server(OPEN);
    let mode = fs::metadata(&lock).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.stop().success());
}

#[test]
fn a_lock_that_is_deleted_does_not_let_two_servers_share_a_database() {
    let place = Place::new();
    let first = place.server(OPEN);
    let lock = place.path("busyhour.db.lock");
    fs::remove_file(&lock).unwrap();
    first.wait_for_log("the lock file was deleted while the server runs; it was created again");
    let output = place.serve().output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("in use by process"), "{words}");
    assert!(registers(&first));
    // Another server made the lock file first.
    fs::rename(place.file("other.lock", ""), &lock).unwrap();
    assert_lost(&first, "busyhour.db.lock", "another server may use");
}

#[test]
fn a_database_that_others_may_read_is_reported_and_not_changed() {
    let place = Place::new();
    assert!(place.server("").stop().success());
    let database = place.path("busyhour.db");
    fs::set_permissions(&database, Permissions::from_mode(0o644)).unwrap();
    let server = place.server("");
    let log = server.log();
    let warning = "every user of this machine can read the database";
    assert!(log.contains(warning) && log.contains("chmod 600"), "{log}");
    assert!(server.stop().success());
    let mode = fs::metadata(&database).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}
