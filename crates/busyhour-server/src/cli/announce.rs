//! What the server prints on standard output when it is ready.

use super::service::{Service, store_name};
use crate::{
    config::{Auth, Durability, LogFormat, LogLevel},
    console,
    web::Web,
};
use busyhour_sip::Transport;
use std::{
    io::{self, Write},
    path::Path,
};

/// First come lines for people, unless the log format is for programs. The last line is
/// for programs.
pub(super) fn announce(service: &Service) {
    // If nobody reads standard output, the server still serves.
    let _ = write(&mut io::stdout().lock(), service);
}

fn write(out: &mut impl Write, service: &Service) -> io::Result<()> {
    let log = &service.config.log;
    let is_quiet = console::is_quiet() || matches!(log.level, LogLevel::Error | LogLevel::Warn);
    if log.format == LogFormat::Text && !is_quiet {
        write_for_people(out, service)?;
    } else if service.config.sip.auth == Auth::Digest && service.account_count() == 0 {
        tracing::warn!("there are no accounts, so nobody can register");
    }
    writeln!(out, "{}", ready(service))?;
    out.flush()
}

fn write_for_people(out: &mut impl Write, service: &Service) -> io::Result<()> {
    writeln!(out, "busyhour {} serves", env!("CARGO_PKG_VERSION"))?;
    for address in service.network.sip.addresses() {
        writeln!(out, "  SIP        {address} (UDP)")?;
    }
    for transport in STREAMS {
        for address in service.network.streams.addresses(transport) {
            writeln!(out, "  SIP        {address} ({transport})")?;
        }
    }
    for address in service.network.iax2.addresses() {
        writeln!(out, "  IAX2       {address} (UDP)")?;
    }
    if let Some(address) = service.web.as_ref().and_then(Web::address) {
        writeln!(out, "  dashboard  http://{address}/")?;
    }
    if let Some(address) = service.web.as_ref().and_then(Web::tls_address) {
        writeln!(out, "  dashboard  https://{address}/")?;
    }
    let store = &service.config.store;
    match store.durability {
        Durability::Memory => {
            writeln!(out, "  bindings   only in memory: they end with the server")?
        }
        _ => writeln!(out, "  bindings   {}", store_name(store))?,
    }
    write_who_may_register(out, service)
}

fn write_who_may_register(out: &mut impl Write, service: &Service) -> io::Result<()> {
    let account_count = service.account_count();
    match service.config.sip.auth {
        Auth::Open => writeln!(
            out,
            "  accounts   none needed: anybody may register (sip.auth = open)"
        ),
        Auth::Digest if account_count > 0 => writeln!(out, "  accounts   {account_count}"),
        Auth::Digest => write!(out, "{}", no_accounts(service.config_file.as_deref())),
    }
}

fn ready(service: &Service) -> String {
    let mut line = format!("ready pid={}", std::process::id());
    for address in service.network.sip.addresses() {
        line += &format!(" sip-udp={address}");
    }
    for transport in STREAMS {
        for address in service.network.streams.addresses(transport) {
            line += &format!(" sip-{}={address}", transport.parameter());
        }
    }
    for address in service.network.iax2.addresses() {
        line += &format!(" iax2-udp={address}");
    }
    if let Some(address) = service.web.as_ref().and_then(Web::address) {
        line += &format!(" http={address}");
    }
    if let Some(address) = service.web.as_ref().and_then(Web::tls_address) {
        line += &format!(" https={address}");
    }
    line
}

const STREAMS: [Transport; 4] = [
    Transport::Tcp,
    Transport::Tls,
    Transport::Ws,
    Transport::Wss,
];

/// What to do; the commands name the configuration that the server has.
fn no_accounts(config: Option<&Path>) -> String {
    let (option, file) = match config {
        Some(file) => (
            format!(" --config {}", file.display()),
            format!("into {}, and start again", file.display()),
        ),
        None => (
            String::new(),
            "into a file, and start again with --config FILE".to_owned(),
        ),
    };
    format!(
        "
  accounts   none, so nobody can register. Add one, now or later:
                 busyhour device add alice{option}
             or write it {file}:
                 [[account]]
                 user = \"alice\"
                 password = \"something long\"
             For a test without passwords: busyhour serve --sip-auth open
"
    )
}
