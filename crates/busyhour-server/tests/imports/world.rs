//! A database to import into, and telephones that try their old passwords.

use crate::{
    support::{Place, ServerProcess, busyhour},
    telephone::Telephone,
};
use serde_json::Value;
use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Output},
};

/// A server with one domain of its own, whose telephones know MD5.
pub const CONFIGURATION: &str = "
[sip]
domains = [\"example.com\"]
realm = \"example.com\"
algorithms = [\"MD5\"]
";

pub struct World {
    pub place: Place,
}

impl World {
    /// With an empty database.
    pub fn new() -> Self {
        let place = Place::new();
        place.file("busyhour.toml", CONFIGURATION);
        Self { place }
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.place.path(name);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("a writable temporary folder");
        self.place.file(name, text).display().to_string()
    }

    /// Whether the command succeeds, and what it says.
    pub fn device(&self, arguments: &[&str]) -> (bool, String) {
        said(self.command(arguments).output().expect("the program runs"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = busyhour();
        command.arg("device").args(arguments);
        command
            .arg("--config")
            .arg(self.place.path("busyhour.toml"));
        command
            .arg("--store-path")
            .arg(self.place.path("busyhour.db"));
        command
    }

    /// The same, with a text on standard input.
    pub fn device_reads(&self, arguments: &[&str], text: &str) -> (bool, String) {
        let mut command = self.command(arguments);
        let piped = || std::process::Stdio::piped();
        command.stdin(piped()).stdout(piped()).stderr(piped());
        let mut child = command.spawn().expect("the program runs");
        let mut input = child.stdin.take().expect("a pipe");
        // A program that does not read all of it closes the pipe.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("the program runs");
        said(output)
    }

    /// Imports; the JSON report.
    pub fn import(&self, arguments: &[&str]) -> Value {
        let all = [&["import", "--create", "--json"], arguments].concat();
        let (done, said) = self.device(&all);
        assert!(done, "{said}");
        let report = said
            .lines()
            .find(|line| line.starts_with('{'))
            .expect("JSON");
        serde_json::from_str(report).expect("JSON")
    }

    pub fn serve(&self) -> ServerProcess {
        self.place.server(CONFIGURATION)
    }

    /// At this address, where restored contacts are asked at once.
    pub fn serve_at(&self, sip: SocketAddr) -> ServerProcess {
        let configuration = format!("{CONFIGURATION}verify_seconds = 1\n");
        self.place.server_at(sip, &configuration)
    }
}

fn said(output: Output) -> (bool, String) {
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(text).expect("text"),
    )
}

/// Each telephone registers with its password and not with another one.
pub fn all_register(server: &ServerProcess, telephones: &[(&str, &str, &str)]) {
    for (address, login, password) in telephones {
        let of = |password: &str| Telephone::new(server, address, password).logging_in_as(login);
        assert_eq!(
            of(password).registers(),
            200,
            "{address} as {login}: {}",
            server.log()
        );
        assert_eq!(of("wrong").registers(), 403, "{address}");
    }
}
