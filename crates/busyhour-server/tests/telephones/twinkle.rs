//! Debian's twinkle-console, which runs without a screen. Its sound device takes and gives
//! silence as fast as it can, since ALSA's null device does not wait.

use crate::{
    site::Site,
    support::{Place, console::Console, ports::free_port},
};
use std::fs;

/// Starts a twinkle that registers, and waits until it has. The settings are lines of its
/// profile.
pub fn start(site: &Site, user: &str, password: &str, settings: &str) -> Console {
    let place = Place::new();
    let folder = place.path(".twinkle");
    fs::create_dir(&folder).expect("a writable temporary folder");
    let sip = site.server.sip;
    let profile = format!(
        "user_name={user}\nuser_domain=example.com\nauth_name={user}\nauth_pass={password}\n\
         registrar={sip}\noutbound_proxy={sip}\nall_requests_to_proxy=yes\n\
         register_at_startup=yes\nregistration_time=600\nsip_transport=udp\n\
         ask_user_to_refer=no\n{settings}"
    );
    let system = format!(
        "sip_port={}\nrtp_port={}\nlog_show_sip=yes\nstart_user_profile={user}\n",
        free_port(),
        even_port()
    );
    place.file(".asoundrc", SILENCE);
    fs::write(folder.join(format!("{user}.cfg")), profile).expect("a new file");
    fs::write(folder.join("twinkle.sys"), system).expect("a new file");
    let mut console = Console::start("twinkle-console", &[], "twinkle-console", place);
    console.wait_for("registration succeeded (expires = 600 seconds)");
    console
}

/// A port for RTP.
fn even_port() -> u16 {
    std::iter::repeat_with(free_port)
        .find(|port| port % 2 == 0)
        .expect("half of all ports are even")
}

const SILENCE: &str = "pcm.!default { type null }\nctl.!default { type null }\n";
