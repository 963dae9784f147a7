//! Debian's rtpengine, in user space, until it is dropped.

use super::{Place, ports::free_port, wait_until};
use std::{
    fs::File,
    net::{SocketAddr, UdpSocket},
    process::{Child, Command},
    time::Duration,
};

/// A running rtpengine that relays on loopback.
pub struct Rtpengine {
    child: Child,
    /// Where it takes commands.
    pub address: SocketAddr,
    _place: Place,
}

impl Rtpengine {
    /// Starts one with these ports for media, and waits until it answers.
    pub fn start(ports: std::ops::Range<u16>) -> Self {
        Self::start_at(&["127.0.0.1"], ports)
    }

    /// The same with media at all of these addresses.
    pub fn start_at(addresses: &[&str], ports: std::ops::Range<u16>) -> Self {
        let place = Place::new();
        let output = File::create(place.path("output")).expect("a writable temporary folder");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new("rtpengine")
            .args([
                "--foreground",
                "--table=-1",
                "--log-stderr",
                "--log-level=6",
                "--delete-delay=0",
                "--config-file=none",
            ])
            .args(addresses.iter().map(|it| format!("--interface={it}")))
            .arg(format!("--listen-ng={address}"))
            .arg(format!("--port-min={}", ports.start))
            .arg(format!("--port-max={}", ports.end - 1))
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .spawn()
            .expect("rtpengine, which scripts/install-deps.sh test installs");
        let relay = Self {
            child,
            address,
            _place: place,
        };
        let is_there = || relay.ask("d7:command4:pinge").is_some();
        wait_until(is_there, || {
            let output = std::fs::read_to_string(relay._place.path("output"));
            format!("rtpengine does not answer:\n{}", output.unwrap_or_default())
        });
        relay
    }

    /// How many calls it has.
    pub fn calls(&self) -> usize {
        let answer = self.ask("d7:command4:liste").expect("an answer");
        let list = answer.split_once("5:callsl").expect("a list of calls").1;
        // Each is a text, `12:call-id-text`.
        let (mut rest, mut count) = (list, 0);
        while let Some((len, text)) = rest.split_once(':') {
            let Ok(len) = len.parse::<usize>() else {
                break;
            };
            rest = &text[len..];
            count += 1;
        }
        count
    }

    fn ask(&self, command: &str) -> Option<String> {
        let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let cookie = socket.local_addr().ok()?.port();
        let command = format!("t{cookie} {command}");
        socket.send_to(command.as_bytes(), self.address).ok()?;
        let mut room = [0; 65_536];
        let len = socket.recv(&mut room).ok()?;
        Some(String::from_utf8_lossy(&room[..len]).into_owned())
    }
}

impl Drop for Rtpengine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
