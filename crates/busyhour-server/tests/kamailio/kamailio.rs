//! A running Kamailio of Debian.

use crate::support::{Place, ports::free_port, wait_until};
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

pub struct Kamailio {
    child: Child,
    pub address: SocketAddr,
    log: PathBuf,
}

/// An address for one, which its configuration and ours name before it runs.
pub fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 30], free_port()))
}

impl Kamailio {
    /// One at this address, whose own users are at `own`.
    pub fn start(
        place: &Place,
        address: SocketAddr,
        busyhour: SocketAddr,
        own: SocketAddr,
    ) -> Self {
        Self::with(place, address, busyhour, own, "disable_tcp=yes\n")
    }

    /// The same with these lines about connections.
    pub fn with(
        place: &Place,
        address: SocketAddr,
        busyhour: SocketAddr,
        own: SocketAddr,
        connections: &str,
    ) -> Self {
        let folder = place.path(&format!("kamailio{}", address.port()));
        let database = folder.join("db");
        fs::create_dir_all(&database).expect("a writable folder");
        for table in ["version", "pua"] {
            let empty = PathBuf::from("/usr/share/kamailio/dbtext/kamailio").join(table);
            fs::copy(&empty, database.join(table)).unwrap_or_else(|error| {
                panic!(
                    "{}: {error}; run scripts/install-deps.sh test",
                    empty.display()
                )
            });
        }
        let text = include_str!("configurations/kamailio.cfg")
            .replace("%HERE%", &address.to_string())
            .replace("%BUSYHOUR%", &busyhour.to_string())
            .replace("%OWN%", &own.to_string())
            .replace("%CONNECTIONS%", connections);
        Self::run(place, address, &text)
    }

    /// One that runs this configuration at this address; `%FOLDER%` in it is its own.
    pub fn run(place: &Place, address: SocketAddr, configuration: &str) -> Self {
        let folder = place.path(&format!("kamailio{}", address.port()));
        fs::create_dir_all(&folder).expect("a writable folder");
        let text = configuration.replace("%FOLDER%", &folder.display().to_string());
        let configuration = folder.join("kamailio.cfg");
        fs::write(&configuration, text).expect("a writable folder");
        let log = folder.join("log");
        let child = Command::new("kamailio")
            .args(["-DD", "-E", "-m", "64", "-M", "8"])
            .arg("-f")
            .arg(configuration)
            .arg("-Y")
            .arg(&folder)
            .arg("-P")
            .arg(folder.join("pid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("a writable folder"))
            .spawn()
            .unwrap_or_else(|error| panic!("kamailio: {error}; run scripts/install-deps.sh test"));
        let kamailio = Self {
            child,
            address,
            log,
        };
        kamailio.wait_until_it_answers();
        kamailio
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_until_it_answers(&self) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let pause = Some(Duration::from_millis(100));
        socket.set_read_timeout(pause).expect("a time");
        let from = socket.local_addr().expect("bound");
        let question = format!(
            "OPTIONS sip:{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKready\r\n\
             Max-Forwards: 70\r\nFrom: <sip:ready@{from}>;tag=1\r\nTo: <sip:{to}>\r\n\
             Call-ID: ready\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
            to = self.address
        );
        let answers = || {
            // Before it listens, the kernel may refuse what is sent.
            let _ = socket.send_to(question.as_bytes(), self.address);
            socket.recv(&mut [0; 2048]).is_ok()
        };
        wait_until(answers, || format!("Kamailio is silent:\n{}", self.log()));
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // It ends its children on SIGTERM.
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
