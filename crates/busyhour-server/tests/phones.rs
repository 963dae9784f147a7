//! Telephones and tools of other projects: baresip registers, sipsak sends
//! OPTIONS.

mod support;

use std::{
    fs,
    io::ErrorKind,
    process::{Child, Command, Stdio},
};
use support::{Place, ServerProcess};

/// baresip 1.0 gives up if there is a challenge besides that for MD5.
const CONFIGURATION: &str = "
[sip]
algorithms = [\"MD5\"]

[[account]]
user = \"alice\"
password = \"something long\"
";

/// A running program, which the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command, package: &str) -> Running {
    let program = command.get_program().to_owned();
    match command.stdin(Stdio::null()).spawn() {
        Ok(child) => Running(child),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("{program:?} is missing; install it with: apt-get install -y {package}")
        }
        Err(error) => panic!("{program:?} cannot be started: {error}"),
    }
}

/// Runs baresip without a display or a sound card, with one account of this
/// server.
fn baresip(place: &Place, account: &str) -> Running {
    let folder = place.path("baresip");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config"), MODULES).unwrap();
    fs::write(folder.join("uuid"), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6").unwrap();
    fs::write(folder.join("accounts"), format!("{account}\n")).unwrap();
    fs::write(folder.join("contacts"), "").unwrap();
    let log = fs::File::create(place.path("baresip.log")).unwrap();
    let mut command = Command::new("baresip");
    command.arg("-f").arg(&folder);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    start(&mut command, "baresip-core")
}

const MODULES: &str = "net_interface 127.0.0.1
module_path /usr/lib/baresip/modules
module uuid.so
module_app account.so
";

/// Waits until the phone has a binding; fails if the phone ends first.
fn wait_for_binding(server: &ServerProcess, phone: &mut Running, place: &Place) {
    server.wait_for("/registrar/binding_count", |count| {
        if let Some(status) = phone
            .0
            .try_wait()
            .expect("the process is a child of the test")
        {
            let log = fs::read_to_string(place.path("baresip.log"));
            panic!("baresip ended: {status}\n{}", log.unwrap_or_default());
        }
        count == 1
    });
}

#[test]
fn baresip_registers_with_digest_over_tcp() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let registrar = server.tcp;
    let account =
        format!("<sip:alice@{registrar};transport=tcp>;auth_pass=\"something long\";regint=600");
    let mut phone = baresip(&place, &account);
    wait_for_binding(&server, &mut phone, &place);
    assert!(
        server.stat("/network/streams/received") >= 2,
        "the request was challenged, and sent again"
    );
    assert!(server.get("/api/bindings").contains("baresip"));
    drop(phone);
    assert!(server.stop().success());
}

#[test]
fn baresip_registers_with_digest_and_outbound_over_udp() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let registrar = server.sip;
    let account = format!(
        "<sip:alice@{registrar}>;auth_pass=\"something long\";regint=600;sipnat=outbound;outbound=\"sip:{registrar}\""
    );
    let mut phone = baresip(&place, &account);
    wait_for_binding(&server, &mut phone, &place);
    let before = contact(&server);
    drop(phone);
    // It registers again at another port, without having unregistered.
    let registered = server.stat("/registrar/accepted");
    let phone = baresip(&place, &account);
    server.wait_for("/registrar/accepted", |count| count > registered);
    drop(phone);
    assert_ne!(contact(&server), before);
    assert_eq!(
        server.stat("/registrar/binding_count"),
        1,
        "the server identifies it by its instance and flow, not by its address"
    );
    assert!(server.stop().success());
}

/// The contact of the only binding.
fn contact(server: &ServerProcess) -> String {
    let page: serde_json::Value = serde_json::from_str(&server.get("/api/bindings")).unwrap();
    let contact = page.pointer("/bindings/0/contact");
    contact.and_then(|uri| uri.as_str()).unwrap().to_owned()
}

#[test]
fn sipsak_is_told_the_allowed_methods() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    for (address, extra) in [(server.sip, None), (server.tcp, Some(["--transport=tcp"]))] {
        let mut command = Command::new("sipsak");
        command.arg("-vv").args(extra.into_iter().flatten());
        command.arg("-s").arg(format!("sip:alice@{address}"));
        let output = command
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| {
                panic!("sipsak ({error}); install it with: apt-get install -y sipsak")
            });
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        for header in [
            "Allow: REGISTER, SUBSCRIBE, PUBLISH, OPTIONS",
            "Allow-Events: presence",
            "Supported: path",
        ] {
            assert!(text.contains(header), "{header} is not in:\n{text}");
        }
    }
    assert!(server.stop().success());
}
