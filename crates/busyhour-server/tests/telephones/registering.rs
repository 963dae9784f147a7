//! Telephones register with digest, refresh and unregister; sipsak asks for what the server
//! can do.

use crate::{baresip::Baresip, linphone, site::Site, support::console::Console};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn baresip_registers_over_tcp() {
    let site = Site::start();
    let registrar = site.address("tcp");
    let account = format!(
        "<sip:alice@example.com;transport=tcp>;auth_pass=\"something\";regint=600;\
         outbound=\"sip:{registrar};transport=tcp\""
    );
    let phone = Baresip::silent(&account, "");
    let received = site.server.stat("/network/streams/received");
    assert!(
        received >= 2,
        "the request was challenged, and sent again: {received}"
    );
    assert!(site.server.get("/api/bindings").contains("baresip"));
    drop(phone);
}

#[test]
fn baresip_registers_with_outbound_over_udp() {
    let site = Site::start();
    let registrar = site.address("udp");
    let account = format!(
        "<sip:alice@example.com>;auth_pass=\"something\";regint=600;sipnat=outbound;\
         outbound=\"sip:{registrar}\""
    );
    let phone = Baresip::silent(&account, "");
    let before = contact(&site);
    drop(phone);
    // It registers again at another port, without having unregistered.
    let registered = site.server.stat("/registrar/accepted");
    let phone = Baresip::silent(&account, "");
    assert!(site.server.stat("/registrar/accepted") > registered);
    drop(phone);
    assert_ne!(contact(&site), before);
    assert_eq!(
        site.server.stat("/registrar/binding_count"),
        1,
        "the server identifies it by its instance and flow, not by its address"
    );
}

#[test]
fn linphone_refreshes_before_its_registration_expires() {
    let site = Site::start();
    let mut phone = linphone::start(&site, "alice", "something", 10, "", &[]);
    wait_for(&site, &mut phone, "/registrar/added", 1);
    let cseq = || only_binding(&site)["cseq"].as_u64().expect("a number");
    let added = cseq();
    wait_for(&site, &mut phone, "/registrar/refreshed", 1);
    assert!(cseq() > added);
}

#[test]
fn sipsak_is_told_the_allowed_methods() {
    let site = Site::start();
    for (transport, extra) in [("udp", None), ("tcp", Some(["--transport=tcp"]))] {
        let address = site.address(transport);
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
}

/// Waits until a counter is at least `least`; fails if the phone ends first.
pub fn wait_for(site: &Site, phone: &mut Console, pointer: &str, least: u64) {
    site.server.wait_for(pointer, |count| {
        phone.assert_lives();
        count >= least
    });
}

pub fn only_binding(site: &Site) -> Value {
    let page: Value = serde_json::from_str(&site.server.get("/api/bindings")).expect("JSON");
    let bindings = page["bindings"].as_array().expect("a list");
    assert_eq!(bindings.len(), 1, "{page}");
    bindings[0].clone()
}

/// The contact of the only binding.
fn contact(site: &Site) -> String {
    let binding = only_binding(site);
    binding["contact"].as_str().expect("a URI").to_owned()
}
