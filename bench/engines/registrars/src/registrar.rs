//! A registrar's process, on a free port, with a configuration of its own.

use std::{
    fs,
    net::UdpSocket,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kit::args::refuse;
use tempfile::TempDir;

pub struct Registrar {
    child: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Registrar {
    pub fn start(variant: &str, auth: bool) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let mut command = match variant {
            "busyhour" => busyhour(folder.path(), port, auth, "memory"),
            "busyhour-durable" => busyhour(folder.path(), port, auth, "full"),
            "kamailio" => kamailio(folder.path(), port, auth),
            other => refuse(&format!("no registrar {other}")),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("the registrar starts");
        let registrar = Self {
            child,
            port,
            _folder: folder,
        };
        registrar.wait_until_it_answers();
        registrar
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_it_answers(&self) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a socket option");
        let from = socket.local_addr().expect("an address");
        let request = format!(
            "OPTIONS sip:127.0.0.1:{port} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKready\r\n\
             From: <sip:ready@127.0.0.1>;tag=1\r\nTo: <sip:127.0.0.1:{port}>\r\nCall-ID: ready\r\n\
             CSeq: 1 OPTIONS\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
            port = self.port
        );
        for _ in 0..100 {
            let _ = socket.send_to(request.as_bytes(), ("127.0.0.1", self.port));
            if socket.recv(&mut [0; 2048]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        refuse("the registrar does not answer");
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        // Both servers end their children on SIGTERM.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

fn busyhour(folder: &Path, port: u16, auth: bool, durability: &str) -> Command {
    let config = folder.join("busyhour.toml");
    let database = folder.join("busyhour.db");
    let auth = if auth { "digest" } else { "open" };
    let text = format!(
        "[sip]\nlisten = [\"127.0.0.1:{port}\"]\nauth = \"{auth}\"\n[http]\nlisten = \"off\"\n\
         [store]\npath = \"{}\"\ndurability = \"{durability}\"\n\
         [[account_range]]\nprefix = \"device\"\ncount = 1000000\npassword = \"secret\"\n",
        database.display()
    );
    fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(crate::busyhour());
    command.arg("serve").arg("--config").arg(config);
    command
}

fn kamailio(folder: &Path, port: u16, auth: bool) -> Command {
    let config = folder.join("kamailio.cfg");
    let check = if auth {
        "if (!pv_auth_check(\"$fd\", \"secret\", \"0\", \"0\")) { www_challenge(\"$fd\", \"0\"); exit; }"
    } else {
        ""
    };
    let text = format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=no\nfork=yes\nchildren=2\ndisable_tcp=yes\nauto_aliases=no\n\
         listen=udp:127.0.0.1:{port}\nloadmodule \"kex.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\n\
         loadmodule \"pv.so\"\nloadmodule \"siputils.so\"\nloadmodule \"textops.so\"\nloadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\n\
         loadmodule \"auth.so\"\nmodparam(\"usrloc\", \"db_mode\", 0)\nmodparam(\"usrloc\", \"hash_size\", 14)\n\
         modparam(\"registrar\", \"max_expires\", 7200)\n\
         request_route {{\n  if (is_method(\"REGISTER\")) {{ {check} save(\"location\"); exit; }}\n  \
         sl_send_reply(\"200\", \"OK\");\n}}\n"
    );
    fs::write(&config, text).expect("a configuration");
    let mut command = Command::new("kamailio");
    // In the foreground; 4 GiB of shared memory, which is taken as it is used.
    command
        .args(["-DD", "-E", "-m", "4096", "-M", "16", "-Y"])
        .arg(folder)
        .arg("-f")
        .arg(config);
    command
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a free port")
        .port()
}
