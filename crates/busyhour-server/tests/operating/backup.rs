//! `busyhour backup` beside a server that registers, and `busyhour restore` after it.

use crate::{
    run,
    support::{Place, busyhour},
};
use std::process::Command;

fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = busyhour();
    command.args(words).current_dir(place.path("."));
    command.arg("--store-path").arg(place.path("busyhour.db"));
    command
}

#[test]
fn what_was_registered_before_the_backup_is_there_after_the_restore() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\n");
    let target = server.sip.to_string();
    let storm = ["storm", "--over", "1ms", "--target", &target, "--devices"];
    let (code, _, errors) = run(busyhour().args(storm).arg("20"));
    assert_eq!(code, 0, "{errors}");
    let (code, said, errors) = run(&mut command(&place, &["backup", "copy.db"]));
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains("0 accounts and 20 bindings"), "{said}");
    let (code, _, errors) = run(&mut command(&place, &["backup", "copy.db"]));
    assert_eq!(code, 1);
    assert!(errors.contains("copy.db is there already"), "{errors}");
    let (code, _, errors) = run(&mut command(&place, &["restore", "copy.db", "--replace"]));
    assert_eq!(code, 1, "a server runs");
    assert!(errors.contains("in use by process"), "{errors}");
    // These come after the backup.
    let (code, ..) = run(busyhour().args(storm).args(["30", "--first", "101"]));
    assert_eq!(code, 0);
    assert!(server.stop().success());
    let (code, _, errors) = run(&mut command(&place, &["restore", "copy.db"]));
    assert_eq!(code, 1);
    assert!(errors.contains("--replace"), "{errors}");
    let restore = ["restore", "copy.db", "--replace", "--json"];
    let (code, said, errors) = run(&mut command(&place, &restore));
    assert_eq!(code, 0, "{errors}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["backup"]["bindings"], 20);
    let server = place.server("[sip]\nauth = \"open\"\n");
    assert_eq!(server.stat("/registrar/binding_count"), 20);
    assert!(place.path("busyhour.db.replaced").exists());
}

#[test]
fn without_a_database_file_it_is_said_what_to_do() {
    let place = Place::new();
    let (code, _, errors) = run(&mut command(&place, &["backup", "copy.db"]));
    assert_eq!(code, 1);
    assert!(errors.contains("there is no database"), "{errors}");
    let url = "postgres://busyhour:secret@127.0.0.1:1/calls";
    for (words, tool) in [
        (["backup", "c"], "pg_dump"),
        (["restore", "c"], "pg_restore"),
    ] {
        let mut command = busyhour();
        command.args(words).env("BUSYHOUR_STORE_URL", url);
        let (code, _, errors) = run(&mut command);
        assert_eq!(code, 2);
        assert!(
            errors.contains(tool) && !errors.contains("secret"),
            "{errors}"
        );
    }
}
