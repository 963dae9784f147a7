//! Sockets, receive buffers, names.

use super::Finding;
use crate::{cli::running_server::RunningServer, config::Config};
use std::{
    fs,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket},
};

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![server(), sockets(config), reach(config), buffers(config)];
    findings.extend(config.sip.domains.iter().map(|domain| name(domain)));
    findings
}

fn server() -> Finding {
    match RunningServer::find() {
        Ok(server) => match server.get("/healthz") {
            Ok(health) if health.trim() == "ok" => {
                Finding::good("server", format!("runs, and is well ({})", server.name()))
            }
            Ok(health) => Finding::warning("server", health.trim(), "busyhour show alerts"),
            Err(problem) => Finding::problem("server", problem, "look into its log"),
        },
        Err(_none) => Finding::good("server", "none of this user runs"),
    }
}

/// An address that the running server has is in use, and that is well.
fn sockets(config: &Config) -> Finding {
    let (sip, iax2) = (&config.sip, &config.iax2);
    let datagrams = sip.listen.iter().chain(&iax2.listen);
    let udp = datagrams.map(|address| ("UDP", *address, UdpSocket::bind(address).err()));
    let streams = sip.tcp_addresses().iter().chain(&sip.tls);
    let streams = streams.chain(&sip.ws).chain(&sip.wss);
    let http = [config.http.tls_listen, config.acme.listen];
    let streams = streams
        .chain(&config.http.listen)
        .chain(http.iter().flatten());
    let tcp = streams.map(|address| ("TCP", *address, TcpListener::bind(address).err()));
    let is_server = RunningServer::find().is_ok();
    let mut used = 0;
    for (transport, address, error) in udp.chain(tcp) {
        let Some(error) = error else { continue };
        let advice = match error.kind() {
            ErrorKind::AddrInUse if is_server => {
                used += 1;
                continue;
            }
            ErrorKind::AddrInUse => {
                format!(
                    "another program has it: ss -lpn 'sport = :{}' names it",
                    address.port()
                )
            }
            ErrorKind::AddrNotAvailable => "this machine has no such address: ip address".into(),
            ErrorKind::PermissionDenied => {
                "ports below 1024 need CAP_NET_BIND_SERVICE, which the unit gives".into()
            }
            _ => "give another address".to_owned(),
        };
        let found = format!("{address} ({transport}) cannot be used: {error}");
        return Finding::problem("sockets", found, advice);
    }
    Finding::good(
        "sockets",
        match used {
            0 => "all addresses can be used".to_owned(),
            used => format!("{used} addresses are in use, as they should be by a running server"),
        },
    )
}

fn reach(config: &Config) -> Finding {
    let is_far = |address: &&SocketAddr| !address.ip().is_loopback();
    let far: Vec<_> = config.sip.listen.iter().filter(is_far).collect();
    if far.is_empty() {
        return Finding::warning(
            "reach",
            "SIP is served on this machine alone",
            "for telephones on a network set sip.listen to an address of this machine, or 0.0.0.0:5060",
        );
    }
    let far: Vec<_> = far.iter().map(ToString::to_string).collect();
    let found = format!(
        "telephones come to {}; a firewall has to let them",
        far.join(", ")
    );
    Finding::good("reach", found)
}

fn buffers(config: &Config) -> Finding {
    let wanted = (config.sip.receive_buffer_kib as u64) << 10;
    let Some(allowed) = number("/proc/sys/net/core/rmem_max") else {
        return Finding::warning("buffers", "the kernel does not tell its limit", "");
    };
    if allowed >= wanted {
        let kib = wanted >> 10;
        return Finding::good(
            "buffers",
            format!("sockets get the {kib} KiB that they ask for"),
        );
    }
    Finding::warning(
        "buffers",
        format!(
            "the kernel allows {} KiB of {} for a socket, so bursts are lost sooner",
            allowed >> 10,
            wanted >> 10
        ),
        format!("sysctl -w net.core.rmem_max={wanted}; packaging/busyhour.sysctl.conf keeps it"),
    )
}

fn name(domain: &str) -> Finding {
    if domain.parse::<IpAddr>().is_ok() {
        return Finding::good("names", format!("{domain} is an address"));
    }
    match (domain, 5060).to_socket_addrs() {
        Ok(found) => {
            let found: Vec<_> = found.map(|address| address.ip().to_string()).collect();
            Finding::good("names", format!("{domain} is {}", found.join(", ")))
        }
        Err(error) => Finding::warning(
            "names",
            format!("{domain} cannot be resolved: {error}"),
            "telephones that look it up do not find the server: add an A or AAAA record, or name \
             the server's address in the telephones as their proxy",
        ),
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
