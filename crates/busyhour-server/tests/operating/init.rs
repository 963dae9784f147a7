//! `busyhour init`: five questions, a file that the server takes, and nothing overwritten.

use crate::{
    run,
    support::{Place, ServerProcess, busyhour},
};
use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    process::Command,
};

fn init(place: &Place, words: &[&str], answers: &str) -> (i32, String, String) {
    let answers = place.file("answers", answers);
    let mut command = busyhour();
    command.arg("init").args(words).current_dir(place.path("."));
    command
        .env("XDG_STATE_HOME", place.path("state"))
        .env_remove("STATE_DIRECTORY");
    run(command.stdin(File::open(answers).unwrap()))
}

#[test]
fn its_file_is_what_was_answered_and_the_server_takes_it() {
    let place = Place::new();
    let answers = "127.0.0.1:0\nexample.com\n\n127.0.0.1:0\nMD5\n";
    let (code, said, errors) = init(&place, &["my.toml"], answers);
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains("busyhour serve --config my.toml"), "{said}");
    let questions = errors.lines().filter(|line| line.contains("/5 "));
    assert_eq!(questions.count(), 5, "{errors}");
    let file = place.path("my.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# Allowed: "), "it explains itself");
    assert!(text.contains("domains = [\"example.com\"]"), "{text}");
    assert_eq!(text.matches("[sip]").count(), 1, "{text}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "it may get passwords");
    let mut serve = busyhour();
    serve.arg("serve").arg("--config").arg(&file);
    serve.args(["--iax2-listen", "127.0.0.1:0"]);
    let server = ServerProcess::start(&mut serve, &place);
    assert!(place.path("state/busyhour/busyhour.db").exists());
    assert!(server.stop().success());
}

#[test]
fn nothing_is_overwritten_and_wrong_answers_are_told() {
    let place = Place::new();
    let (code, _, errors) = init(&place, &["--yes"], "");
    assert_eq!(code, 0, "{errors}");
    let before = fs::read_to_string(place.path("busyhour.toml")).unwrap();
    let (code, _, errors) = init(&place, &["--yes"], "");
    assert_eq!(code, 1);
    assert!(errors.contains("is there already"), "{errors}");
    assert_eq!(
        fs::read_to_string(place.path("busyhour.toml")).unwrap(),
        before
    );
    let (code, _, errors) = init(&place, &["other.toml"], "nowhere\n");
    assert_eq!(code, 2);
    assert!(
        errors.contains("sip.listen: `nowhere` is not allowed"),
        "{errors}"
    );
    assert!(!place.path("other.toml").exists());
}

/// What systemd gives a service under a name, instead of a text in the file.
#[test]
fn secrets_come_from_the_credentials_of_systemd() {
    let place = Place::new();
    place.file("alices-password", "wonderland\n");
    let file = place.file(
        "busyhour.toml",
        "[[account]]\nuser = \"alice\"\npassword = \"credential:alices-password\"\n\
         [hep]\nserver = \"127.0.0.1:9\"\npassword = \"credential:none\"\n",
    );
    let check = |command: &mut Command| run(command.arg("check-config").arg(&file));
    let (code, _, errors) = check(&mut busyhour());
    assert_eq!(code, 2);
    assert!(
        errors.contains("LoadCredential=alices-password:FILE"),
        "{errors}"
    );
    let (code, _, errors) = check(busyhour().env("CREDENTIALS_DIRECTORY", place.path(".")));
    assert_eq!(code, 2);
    assert!(
        !errors.contains("alices-password") && errors.contains("hep.password"),
        "{errors}"
    );
    place.file("none", "secret");
    let (code, said, errors) = check(busyhour().env("CREDENTIALS_DIRECTORY", place.path(".")));
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains(" settings given; 1 account\n"), "{said}");
    let mut serve = place.serve();
    serve.arg("--config").arg(&file);
    serve.env("CREDENTIALS_DIRECTORY", place.path("."));
    let server = ServerProcess::start(&mut serve, &place);
    let storm = [
        "storm",
        "--devices",
        "1",
        "--over",
        "1ms",
        "--auth",
        "alice:wonderland",
    ];
    let (code, _, errors) = run(busyhour()
        .args(storm)
        .args(["--target", &server.sip.to_string()]));
    assert_eq!(code, 0, "{errors}");
}
