//! Debian's linphonec. Debian 12's does not support message waiting.

use crate::{
    site::Site,
    support::{Place, console::Console, ports::free_port},
};
use std::{fs, net::UdpSocket};

/// Starts a linphone that registers for so many seconds. The settings are further lines of
/// its configuration: of its account, and sections after that.
pub fn start(
    site: &Site,
    user: &str,
    password: &str,
    expires_s: u32,
    settings: &str,
    options: &[&str],
) -> Console {
    assert_is_on_a_network();
    let place = Place::new();
    let (sip, port) = (site.server.sip, free_port());
    place.file(
        "linphonerc",
        &format!(
            "[sip]\nsip_port={port}\nsip_tcp_port=0\nsip_tls_port=0\nguess_hostname=0\n\
             use_ipv6=0\ndefault_proxy=0\n\
             [rtp]\naudio_rtp_port=-1\nvideo_rtp_port=-1\n\
             [auth_info_0]\nusername={user}\nuserid={user}\npasswd={password}\nrealm=busyhour\n\
             [proxy_0]\nreg_proxy=<sip:{sip};transport=udp>\nreg_route=<sip:{sip};transport=udp;lr>\n\
             reg_identity=sip:{user}@example.com\nreg_expires={expires_s}\nreg_sendregister=1\n\
             {settings}"
        ),
    );
    // Without this folder linphone starts without its database, and logs errors.
    fs::create_dir_all(place.path(".local/share/linphone")).expect("a writable folder");
    let arguments = [&["-c", "linphonerc"], options].concat();
    Console::start("linphonec", &arguments, "linphone-cli", place)
}

/// linphone checks which address it would use towards the Internet. It sends nothing
/// if there is none, or if it is a loopback address. The check itself sends nothing.
fn assert_is_on_a_network() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let address = socket
        .connect("198.51.100.1:9")
        .and_then(|()| socket.local_addr());
    assert!(
        address.is_ok_and(|address| !address.ip().is_loopback()),
        "linphone needs an address besides loopback's; give the machine one: \
         ip address add 192.0.2.2/32 dev lo && ip route add default dev lo src 192.0.2.2"
    );
}
