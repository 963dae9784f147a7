//! Joins the cluster before anything else is opened.

use crate::{
    cli::{Failure, signals::ShutdownTrigger},
    config::{Config, NodeListen},
    net::{Udp, UdpOptions},
    server::ClusterMembership,
};
use busyhour_cluster::NatsBroker;
use busyhour_store::{JoinError, PostgresOptions, PostgresOwnership};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The life of this node that begins now; `None` for a server alone.
///
/// # Errors
///
/// When the database or the settings of NATS cannot be used, and when another process has the
/// name of this node for longer than a lease.
pub(in crate::cli) fn join(
    config: &Config,
    ending: &ShutdownTrigger,
) -> Result<Option<ClusterMembership>, Failure> {
    let Some(name) = &config.cluster.node else {
        return Ok(None);
    };
    let url = config.store.database_url().map_err(Failure::usage)?;
    let options = PostgresOptions::new(&url.unwrap_or_default()).map_err(Failure::usage)?;
    let timing = config.cluster.timing();
    let broker = NatsBroker::connect(config.cluster.nats_options()).map_err(Failure::running)?;
    let mut ownership = PostgresOwnership::open(options, timing).map_err(Failure::running)?;
    let secret = ownership.secret().map_err(Failure::running)?;
    let begun = Instant::now();
    let (asked_at, member) = loop {
        let asked_at = Instant::now();
        // Nothing is assigned to it before it can serve that.
        match ownership.join_draining(name) {
            Ok(member) => break (asked_at, member),
            // That may be the last life of this node, which was killed.
            Err(JoinError::InUse(_)) if begun.elapsed() < timing.lease + PATIENCE => {
                thread::sleep(PACE);
            }
            Err(error) => return Err(Failure::running(format!("cluster.node {name}: {error}"))),
        }
    };
    tracing::info!(
        node = member.node.0,
        epoch = member.epoch,
        name,
        "joined the cluster"
    );
    let ending = ending.clone();
    Ok(Some(ClusterMembership {
        member,
        timing,
        since_asked: Box::new(move || asked_at.elapsed()),
        ownership: Box::new(ownership),
        broker: Arc::new(broker),
        secret: Sha256::digest(format!("datagrams of {secret}")).into(),
        direct: None,
        subjects: subjects(&secret),
        on_end: Box::new(move |reason| ending.because(reason)),
    }))
}

/// The socket for datagrams of other nodes, at an address of this machine that they reach; no
/// socket if there is to be none.
///
/// # Errors
///
/// When the address cannot be served.
pub(in crate::cli) fn bind_for_nodes(config: &Config) -> Result<Udp, Failure> {
    let listen = match (&config.cluster.node, config.cluster.listen) {
        (None, _) | (_, NodeListen::Off) => None,
        (_, NodeListen::At(address)) => Some(address),
        (_, NodeListen::Auto) => address_towards(&config.cluster.nats),
    };
    let options = UdpOptions {
        protocol: "nodes",
        receive_buffer_bytes: config.sip.receive_buffer_kib << 10,
        ..UdpOptions::new(listen.into_iter().collect::<Vec<_>>())
    };
    Udp::bind(&options).map_err(Failure::running)
}

/// The address from which this machine reaches NATS, as other nodes probably do, and any port.
fn address_towards(servers: &[String]) -> Option<SocketAddr> {
    let hosts = servers.iter().filter_map(|server| server.split_once("://"));
    let addresses = hosts.filter_map(|(_, host)| host.to_socket_addrs().ok());
    let local = addresses.flatten().find_map(|address| {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(address).ok()?;
        socket.local_addr().ok()
    });
    if local.is_none() {
        tracing::warn!(
            "no address of NATS can be reached, so other nodes reach this one over NATS only"
        );
    }
    local.map(|local| SocketAddr::new(local.ip(), 0))
}

/// Clusters that share NATS do not hear each other, and who does not know the database cannot
/// guess the subjects.
fn subjects(secret: &str) -> String {
    let hash = Sha256::digest(format!("subjects of {secret}"));
    hash.iter()
        .take(12)
        .fold("busyhour.".to_owned(), |mut subjects, byte| {
            // Writing into a text never fails.
            let _ = write!(subjects, "{byte:02x}");
            subjects
        })
}

/// Beyond a lease, for a database that is slow.
const PATIENCE: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(100);
