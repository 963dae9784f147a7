use crate::config::{Config, Durability};
use busyhour_cluster::{NatsOptions, Timing};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The `[cluster]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The name of this node; `None` if the server is alone.
    pub node: Option<String>,
    /// The servers of NATS.
    pub nats: Vec<String>,
    /// A file with a user and a password for it.
    pub nats_user: Option<PathBuf>,
    /// A file with credentials for it.
    pub nats_credentials: Option<PathBuf>,
    /// Who may sign its certificates, instead of those that the system believes.
    pub nats_authorities: Option<PathBuf>,
    /// The certificate that this node shows.
    pub nats_certificate: Option<PathBuf>,
    /// The key of that.
    pub nats_key: Option<PathBuf>,
    /// Where other nodes reach this one without NATS.
    pub listen: NodeListen,
    /// How long a lease lasts, in seconds.
    pub lease_seconds: u32,
}

/// Where other nodes reach this one by datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeListen {
    /// At the address from which this machine reaches NATS, and any port.
    Auto,
    /// At this address.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            node: None,
            nats: Vec::new(),
            nats_user: None,
            nats_credentials: None,
            nats_authorities: None,
            nats_certificate: None,
            nats_key: None,
            listen: NodeListen::Auto,
            lease_seconds: 3,
        }
    }
}

impl NodeListen {
    /// Whether it is no address that another node could send to.
    fn is_wildcard(self) -> bool {
        matches!(self, Self::At(address) if address.ip().is_unspecified())
    }
}

impl ClusterSettings {
    /// How to connect to NATS.
    pub fn nats_options(&self) -> NatsOptions {
        NatsOptions {
            servers: self.nats.clone(),
            name: self
                .node
                .as_deref()
                .map(|node| format!("busyhour {node}"))
                .unwrap_or_default(),
            credentials: self.nats_credentials.clone(),
            user: self.nats_user.clone(),
            authorities: self.nats_authorities.clone(),
            certificate: self.nats_certificate.clone().zip(self.nats_key.clone()),
            on_connected: None,
        }
    }

    /// How long leases last.
    pub fn timing(&self) -> Timing {
        Timing::of_lease(Duration::from_secs(self.lease_seconds.into()))
    }

    /// What else has to be set so that the server can be a node: a setting, and why.
    pub(in crate::config) fn mistakes(config: &Config) -> Vec<(&'static str, &'static str)> {
        let (cluster, store) = (&config.cluster, &config.store);
        if cluster.node.is_none() {
            return Vec::new();
        }
        let needs = [
            (
                cluster.nats.is_empty(),
                NODE,
                "cluster.node needs cluster.nats",
            ),
            (
                !store.is_postgres(),
                NODE,
                "cluster.node needs a PostgreSQL database: store.url or store.url_file",
            ),
            (
                store.durability != Durability::Full,
                "store.durability",
                "cluster.node needs store.durability = full",
            ),
            (
                store.location_view,
                "store.location_view",
                "cluster.node and store.location_view exclude each other",
            ),
            (
                !config.iax2.listen.is_empty(),
                NODE,
                "cluster.node needs iax2.listen = off: IAX2 is not handed from node to node",
            ),
            (
                !config.registrars.is_empty(),
                NODE,
                "cluster.node and [[registrar]] exclude each other",
            ),
            (
                cluster.nats_certificate.is_some() != cluster.nats_key.is_some(),
                NODE,
                "cluster.nats_certificate and cluster.nats_key need each other",
            ),
            (
                cluster.listen.is_wildcard(),
                LISTEN,
                "cluster.listen: a wildcard such as 0.0.0.0 stands for all addresses of this machine, but other \
                 nodes are told this address and send there, so it has to be one that they reach: write that, \
                 such as 10.0.0.5:7071, or auto for the one from which this machine reaches NATS",
            ),
        ];
        let wrong = needs.into_iter().filter(|(is_wrong, ..)| *is_wrong);
        wrong.map(|(_, setting, why)| (setting, why)).collect()
    }
}

const NODE: &str = "cluster.node";
const LISTEN: &str = "cluster.listen";

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    #[test]
    fn an_address_that_nobody_can_send_to_is_refused_with_what_to_write_instead() {
        let parse = |listen: &str| {
            let text = format!(
                "[cluster]\nnode = \"alpha\"\nnats = \"nats://127.0.0.1:4222\"\nlisten = \"{listen}\"\n\
                 [store]\nurl = \"postgres://db/busyhour\"\n[iax2]\nlisten = \"off\"\n"
            );
            Config::parse("f.toml", &text, &Overrides::default())
        };
        for wildcard in ["0.0.0.0:7071", "[::]:7071"] {
            let problems = parse(wildcard).unwrap_err().to_string();
            assert!(problems.starts_with("f.toml:4:10: "), "{problems}");
            for words in ["other nodes are told", "such as 10.0.0.5:7071, or auto"] {
                assert!(problems.contains(words), "{problems}");
            }
        }
        for listen in ["10.0.0.5:7071", "auto", "off"] {
            assert_eq!(parse(listen).map(drop), Ok(()), "{listen}");
        }
    }
}
