//! A running DNS server of Debian.

use crate::support::{ports::free_port, wait_until};
use std::{
    net::{SocketAddr, UdpSocket},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Knows what its options say, and of `.example` and `example.net` that there is nothing else.
pub struct Dnsmasq {
    child: Child,
    pub address: SocketAddr,
}

impl Dnsmasq {
    pub fn start(options: &[String]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 53], free_port()));
        let child = Command::new("dnsmasq")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .args(["--keep-in-foreground", "--no-resolv", "--no-hosts"])
            .args(["--conf-file=/dev/null", "--pid-file=", "--bind-interfaces"])
            .args([
                "--local=/example/",
                "--local=/example.net/",
                "--local-ttl=60",
            ])
            .arg(format!("--listen-address={}", address.ip()))
            .arg(format!("--port={}", address.port()))
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("dnsmasq: {error}; run scripts/install-deps.sh test"));
        let dns = Self { child, address };
        dns.wait_until_it_answers();
        dns
    }

    fn wait_until_it_answers(&self) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let pause = Some(Duration::from_millis(100));
        socket.set_read_timeout(pause).expect("a time");
        // The address of `ready.example`, which it has not.
        let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x05ready\x07example\0\0\x01\0\x01";
        let answers = || {
            // Before it listens, the kernel may refuse what is sent.
            let _ = socket.send_to(question, self.address);
            socket.recv(&mut [0; 512]).is_ok()
        };
        wait_until(answers, || "dnsmasq is silent".to_owned());
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
