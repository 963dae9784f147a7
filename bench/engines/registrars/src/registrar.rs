//! The process of a registrar, on a free port and with its own configuration.

use std::{
    fs,
    net::UdpSocket,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use kit::args::refuse;
use tempfile::TempDir;

use crate::cores::Cores;

/// What a server has to do besides registering devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Register,
    /// Notify watchers of registrations.
    Watched,
    /// Carry calls.
    Call,
    /// Carry calls, and notify watchers of the dialogs.
    WatchedCall,
}

pub struct Registrar {
    child: Child,
    pub port: u16,
    /// The IAX2 port, if the registrar has IAX2.
    pub iax2_port: u16,
    _folder: TempDir,
}

impl Registrar {
    pub fn start(variant: &str, auth: bool, duty: Duty, cores: &Cores) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (port, iax2_port) = (free_port(), free_port());
        let ports = [port, iax2_port];
        let mut command = match variant {
            "busyhour" => busyhour(folder.path(), ports, auth, "memory", cores),
            "busyhour-durable" => busyhour(folder.path(), ports, auth, "full", cores),
            "kamailio" => {
                let text = match duty {
                    Duty::Register => in_memory(port, auth),
                    Duty::Watched => presence(port),
                    Duty::Call => proxy(port, auth, false),
                    Duty::WatchedCall => proxy(port, auth, true),
                };
                kamailio(folder.path(), &text, cores)
            }
            "relay" => relay(port, cores),
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
            iax2_port,
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

fn busyhour(
    folder: &Path,
    [port, iax2_port]: [u16; 2],
    auth: bool,
    durability: &str,
    cores: &Cores,
) -> Command {
    let config = folder.join("busyhour.toml");
    let database = folder.join("busyhour.db");
    let auth = if auth { "digest" } else { "open" };
    // All load comes from one address, which by default gets a tenth of each table. Servers of
    // before 23 November 2026 do not know the setting.
    let limits = match std::env::var_os("BUSYHOUR_DEFAULT_LIMITS") {
        None => "[limits]\nsource_percent = 100\n",
        Some(_) => "",
    };
    let text = format!(
        "[sip]\nlisten = [\"127.0.0.1:{port}\"]\nauth = \"{auth}\"\n\
         [iax2]\nlisten = [\"127.0.0.1:{iax2_port}\"]\n[http]\nlisten = \"off\"\n\
         [store]\npath = \"{}\"\ndurability = \"{durability}\"\n\
         {limits}[[account_range]]\nprefix = \"device\"\ncount = 1000000\npassword = \"secret\"\n",
        database.display()
    );
    fs::write(&config, text).expect("a configuration");
    let mut command = cores.command(&crate::server());
    command.arg("serve").arg("--config").arg(config);
    command
}

/// What only copies the messages of plain calls, through the sockets of `busyhour`.
fn relay(port: u16, cores: &Cores) -> Command {
    let mut command = cores.command(&crate::relay());
    command.arg(format!("127.0.0.1:{port}"));
    command
}

/// Kamailio's configuration as a registrar.
fn in_memory(port: u16, auth: bool) -> String {
    let check = if auth {
        "if (!pv_auth_check(\"$fd\", \"secret\", \"0\", \"0\")) { www_challenge(\"$fd\", \"0\"); exit; }"
    } else {
        ""
    };
    format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=no\nfork=yes\nchildren=2\ndisable_tcp=yes\nauto_aliases=no\n\
         listen=udp:127.0.0.1:{port}\nloadmodule \"kex.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\n\
         loadmodule \"pv.so\"\nloadmodule \"siputils.so\"\nloadmodule \"textops.so\"\nloadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\n\
         loadmodule \"auth.so\"\nmodparam(\"usrloc\", \"db_mode\", 0)\nmodparam(\"usrloc\", \"hash_size\", 14)\n\
         modparam(\"registrar\", \"max_expires\", 7200)\n\
         request_route {{\n  if (is_method(\"REGISTER\")) {{ {check} save(\"location\"); exit; }}\n  \
         sl_send_reply(\"200\", \"OK\");\n}}\n"
    )
}

/// Kamailio's configuration as a registrar and presence server. It publishes
/// each change of a registration to itself, and keeps everything in memory. The
/// tables are only asked for their versions at the start, and never written.
fn presence(port: u16) -> String {
    format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=no\nfork=yes\nchildren=2\ndisable_tcp=yes\nauto_aliases=no\n\
         listen=udp:127.0.0.1:{port}\nloadmodule \"kex.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\n\
         loadmodule \"rr.so\"\nloadmodule \"pv.so\"\nloadmodule \"siputils.so\"\nloadmodule \"textops.so\"\n\
         loadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\nloadmodule \"db_text.so\"\n\
         loadmodule \"presence.so\"\nloadmodule \"presence_xml.so\"\nloadmodule \"pua.so\"\n\
         loadmodule \"pua_usrloc.so\"\nmodparam(\"usrloc\", \"db_mode\", 0)\n\
         modparam(\"usrloc\", \"hash_size\", 14)\nmodparam(\"registrar\", \"max_expires\", 7200)\n\
         modparam(\"presence|presence_xml|pua\", \"db_url\", \"text://{TABLES}\")\n\
         modparam(\"presence\", \"server_address\", \"sip:127.0.0.1:{port}\")\n\
         modparam(\"presence\", \"subs_db_mode\", 0)\nmodparam(\"presence\", \"publ_cache\", 2)\n\
         modparam(\"presence\", \"subs_htable_size\", 14)\nmodparam(\"presence\", \"pres_htable_size\", 14)\n\
         modparam(\"presence_xml\", \"force_active\", 1)\nmodparam(\"presence_xml\", \"disable_xcapdiff\", 1)\n\
         modparam(\"pua\", \"db_mode\", 0)\nmodparam(\"pua\", \"hash_size\", 14)\n\
         modparam(\"pua\", \"outbound_proxy\", \"sip:127.0.0.1:{port}\")\n\
         modparam(\"pua_usrloc\", \"default_domain\", \"127.0.0.1\")\n\
         request_route {{\n  if (is_method(\"REGISTER\")) {{ pua_set_publish(); save(\"location\"); exit; }}\n  \
         if (is_method(\"SUBSCRIBE\")) {{ if (t_newtran()) {{ handle_subscribe(); t_release(); }} exit; }}\n  \
         if (is_method(\"PUBLISH\")) {{ if (t_newtran()) {{ handle_publish(); t_release(); }} exit; }}\n  \
         sl_send_reply(\"200\", \"OK\");\n}}\n"
    )
}

/// Kamailio's configuration as a registrar and proxy with Record-Route. If it is watched, it
/// publishes the dialogs that it carries to itself, and keeps everything in memory.
fn proxy(port: u16, auth: bool, is_watched: bool) -> String {
    let check = if auth {
        "if (!pv_auth_check(\"$fd\", \"secret\", \"0\", \"0\")) { proxy_challenge(\"$fd\", \"0\"); exit; } \
         consume_credentials();"
    } else {
        ""
    };
    let (modules, track, handle) = match is_watched {
        false => (String::new(), "", ""),
        true => (dialogs(port), "dlg_manage();", HANDLE_WATCHERS),
    };
    format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=no\nfork=yes\nchildren=2\ndisable_tcp=yes\nauto_aliases=no\n\
         listen=udp:127.0.0.1:{port}\nloadmodule \"kex.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\n\
         loadmodule \"rr.so\"\nloadmodule \"pv.so\"\nloadmodule \"maxfwd.so\"\nloadmodule \"siputils.so\"\n\
         loadmodule \"textops.so\"\nloadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\nloadmodule \"auth.so\"\n\
         modparam(\"usrloc\", \"db_mode\", 0)\nmodparam(\"usrloc\", \"hash_size\", 14)\n\
         modparam(\"registrar\", \"max_expires\", 7200)\n{modules}\
         request_route {{\n  if (!mf_process_maxfwd_header(\"10\")) {{ sl_send_reply(\"483\", \"Too Many Hops\"); exit; }}\n  \
         if (is_method(\"REGISTER\")) {{ {register} save(\"location\"); exit; }}\n  {handle}\
         if (is_method(\"CANCEL\")) {{ if (t_check_trans()) {{ t_relay(); }} exit; }}\n  \
         if (has_totag()) {{\n    if (loose_route()) {{ t_relay(); exit; }}\n    \
         if (is_method(\"ACK\")) {{ if (t_check_trans()) {{ t_relay(); }} exit; }}\n    \
         sl_send_reply(\"404\", \"Not Here\"); exit;\n  }}\n  \
         t_check_trans();\n  if (!is_method(\"INVITE\")) {{ sl_send_reply(\"200\", \"OK\"); exit; }}\n  \
         {check} record_route(); {track}\n  \
         if (!lookup(\"location\")) {{ sl_send_reply(\"404\", \"Not Found\"); exit; }}\n  t_relay();\n}}\n",
        register = check
            .replace("proxy_challenge", "www_challenge")
            .replace("consume_credentials();", ""),
    )
}

/// What Kamailio needs to publish its dialogs to itself.
fn dialogs(port: u16) -> String {
    format!(
        "loadmodule \"db_text.so\"\nloadmodule \"dialog.so\"\nloadmodule \"presence.so\"\n\
         loadmodule \"presence_dialoginfo.so\"\nloadmodule \"pua.so\"\nloadmodule \"pua_dialoginfo.so\"\n\
         modparam(\"presence|pua\", \"db_url\", \"text://{TABLES}\")\n\
         modparam(\"presence\", \"server_address\", \"sip:127.0.0.1:{port}\")\n\
         modparam(\"presence\", \"subs_db_mode\", 0)\nmodparam(\"presence\", \"publ_cache\", 2)\n\
         modparam(\"presence\", \"subs_htable_size\", 14)\nmodparam(\"presence\", \"pres_htable_size\", 14)\n\
         modparam(\"pua\", \"db_mode\", 0)\nmodparam(\"pua\", \"hash_size\", 14)\n\
         modparam(\"pua\", \"outbound_proxy\", \"sip:127.0.0.1:{port}\")\n\
         modparam(\"dialog\", \"db_mode\", 0)\nmodparam(\"dialog\", \"hash_size\", 16384)\n"
    )
}

const HANDLE_WATCHERS: &str = "if (is_method(\"SUBSCRIBE\")) { if (t_newtran()) { handle_subscribe(); t_release(); } exit; }\n  \
    if (is_method(\"PUBLISH\")) { if (t_newtran()) { handle_publish(); t_release(); } exit; }\n  ";

fn kamailio(folder: &Path, text: &str, cores: &Cores) -> Command {
    let config = folder.join("kamailio.cfg");
    fs::write(&config, text).expect("a configuration");
    let mut command = cores.command(Path::new("kamailio"));
    // It runs in the foreground, with 4 GiB of shared memory, which is only
    // allocated when it is used.
    command
        .args(["-DD", "-E", "-m", "4096", "-M", "16", "-Y"])
        .arg(folder)
        .arg("-f")
        .arg(config);
    command
}

/// Empty tables that come with Kamailio.
const TABLES: &str = "/usr/share/kamailio/dbtext/kamailio";

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a free port")
        .port()
}
