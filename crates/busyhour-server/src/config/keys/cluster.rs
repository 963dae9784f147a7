//! The settings of the section `cluster`.

use super::{Allowed, OFF, SettingKey, path_or, put, show_path_or, whole};
use crate::config::NodeListen;

pub(super) const CLUSTER: &[SettingKey] = &[
    SettingKey {
        path: "cluster.node",
        allowed: Allowed::Text(
            "a name of 1 to 64 letters, digits, dots, hyphens and underscores, or off",
        ),
        help: "The name of this node among several servers of one database; off means that the server is alone",
        assign: |config, text| put(&mut config.cluster.node, node_or(OFF, text)),
        show: |config| config.cluster.node.clone().unwrap_or_else(|| OFF.into()),
    },
    SettingKey {
        path: "cluster.nats",
        allowed: Allowed::Text(
            "nats://HOST:PORT or tls://HOST:PORT, or several separated by commas, or off",
        ),
        help: "The servers of NATS, which carries messages between the nodes",
        assign: |config, text| put(&mut config.cluster.nats, servers_or(OFF, text)),
        show: |config| match config.cluster.nats.is_empty() {
            true => OFF.into(),
            false => config.cluster.nats.join(","),
        },
    },
    SettingKey {
        path: "cluster.nats_user",
        allowed: Allowed::Text("the path of a file, or off"),
        help: "A file with a user of NATS on its first line and the password on its second",
        assign: |config, text| put(&mut config.cluster.nats_user, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.cluster.nats_user.as_ref()),
    },
    SettingKey {
        path: "cluster.nats_credentials",
        allowed: Allowed::Text("the path of a file, or off"),
        help: "A file of credentials for NATS (JWT and seed), as nsc writes it",
        assign: |config, text| put(&mut config.cluster.nats_credentials, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.cluster.nats_credentials.as_ref()),
    },
    SettingKey {
        path: "cluster.nats_authorities",
        allowed: Allowed::Text("the path of a PEM file, or system"),
        help: "Authorities whose certificates of NATS over TLS are believed; system means those of this machine",
        assign: |config, text| put(&mut config.cluster.nats_authorities, path_or(SYSTEM, text)),
        show: |config| show_path_or(SYSTEM, config.cluster.nats_authorities.as_ref()),
    },
    SettingKey {
        path: "cluster.nats_certificate",
        allowed: Allowed::Text("the path of a PEM file, or off"),
        help: "The certificate that this node shows to NATS",
        assign: |config, text| put(&mut config.cluster.nats_certificate, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.cluster.nats_certificate.as_ref()),
    },
    SettingKey {
        path: "cluster.nats_key",
        allowed: Allowed::Text("the path of a PEM file, or off"),
        help: "The private key of that certificate, without a password",
        assign: |config, text| put(&mut config.cluster.nats_key, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.cluster.nats_key.as_ref()),
    },
    SettingKey {
        path: "cluster.listen",
        allowed: Allowed::Text("ADDRESS:PORT, or auto, or off"),
        help: "The address of this machine where other nodes reach it by datagrams, which they seal; auto means the one from which it reaches NATS, and any port; off means that all goes over NATS",
        assign: |config, text| put(&mut config.cluster.listen, listen_or(text)),
        show: |config| match config.cluster.listen {
            NodeListen::Auto => AUTO.into(),
            NodeListen::Off => OFF.into(),
            NodeListen::At(address) => address.to_string(),
        },
    },
    SettingKey {
        path: "cluster.lease_seconds",
        allowed: whole(1, 60, "seconds"),
        help: "How long a node that is silent keeps its addresses of record before others take them over; the same on all nodes",
        assign: |config, text| put(&mut config.cluster.lease_seconds, text.parse().ok()),
        show: |config| config.cluster.lease_seconds.to_string(),
    },
];

fn node_or(word: &str, text: &str) -> Option<Option<String>> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match text {
        text if text == word => Some(None),
        text if (1..=64).contains(&text.len()) && text.bytes().all(is_allowed) => {
            Some(Some(text.to_owned()))
        }
        _ => None,
    }
}

/// Passwords are in files: who may see the arguments of a process must not see them.
fn servers_or(word: &str, text: &str) -> Option<Vec<String>> {
    if text == word {
        return Some(Vec::new());
    }
    let is_server = |server: &str| {
        let address = ["nats://", "tls://"]
            .iter()
            .find_map(|head| server.strip_prefix(head));
        address.is_some_and(|address| !address.is_empty() && !address.contains(['@', '/']))
    };
    let servers: Vec<String> = text.split(',').map(|it| it.trim().to_owned()).collect();
    servers.iter().all(|it| is_server(it)).then_some(servers)
}

fn listen_or(text: &str) -> Option<NodeListen> {
    match text {
        AUTO => Some(NodeListen::Auto),
        OFF => Some(NodeListen::Off),
        // Whether others reach it is checked with the rest of the section.
        text => text.parse().ok().map(NodeListen::At),
    }
}

const AUTO: &str = "auto";
const SYSTEM: &str = "system";
