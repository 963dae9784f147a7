//! The settings of the section `http`.

use super::{Allowed, SettingKey, whole};
use crate::config::values::{
    OFF, address_or, hosts, path_or, put, show_or, show_path_or, show_socket_place, socket_place,
};

pub(super) const HTTP: &[SettingKey] = &[
    SettingKey {
        path: "http.listen",
        allowed: Allowed::Text("an IP address and port such as 127.0.0.1:8080, or off"),
        help: "Address for the dashboard, the HTTP API and the metrics, or off",
        assign: |config, text| put(&mut config.http.listen, address_or(OFF, text)),
        show: |config| show_or(OFF, config.http.listen.as_ref()),
    },
    SettingKey {
        path: "http.tls_listen",
        allowed: Allowed::Text("an IP address and port such as 0.0.0.0:8443, or off"),
        help: "Address for the same over HTTPS, with the certificates of sip.tls_certificate and [[certificate]], or off",
        assign: |config, text| put(&mut config.http.tls_listen, address_or(OFF, text)),
        show: |config| show_or(OFF, config.http.tls_listen.as_ref()),
    },
    SettingKey {
        path: "http.max_connections",
        allowed: whole(1, 65_536, "connections"),
        help: "HTTP connections at a time; on further ones the server answers /healthz, and 503 to everything else",
        assign: |config, text| put(&mut config.http.max_connections, text.parse().ok()),
        show: |config| config.http.max_connections.to_string(),
    },
    SettingKey {
        path: "http.max_connections_per_source",
        allowed: whole(1, 65_536, "connections"),
        help: "HTTP connections from one IPv4 address or IPv6 network of 64 bits; a reverse proxy needs more, since it is one source for all its users",
        assign: |config, text| {
            put(
                &mut config.http.max_connections_per_source,
                text.parse().ok(),
            )
        },
        show: |config| config.http.max_connections_per_source.to_string(),
    },
    SettingKey {
        path: "http.requests_per_second",
        allowed: whole(1, 1_000_000, "requests"),
        help: "Requests in a second of one token, or of one IPv4 address or IPv6 network of 64 bits without one; further ones are answered 429",
        assign: |config, text| put(&mut config.http.requests_per_second, text.parse().ok()),
        show: |config| config.http.requests_per_second.to_string(),
    },
    SettingKey {
        path: "http.hosts",
        allowed: Allowed::Hosts,
        help: "Names that the Host header of a request may have, besides IP addresses and localhost",
        assign: |config, text| put(&mut config.http.hosts, hosts(text)),
        show: |config| config.http.hosts.join(","),
    },
    SettingKey {
        path: "http.socket",
        allowed: Allowed::Text("the path of a socket, auto, or off"),
        help: "Local socket for `busyhour show`, on which the server's user needs no token; auto puts it into the user's run-time folder",
        assign: |config, text| put(&mut config.http.socket, socket_place(text)),
        show: |config| show_socket_place(&config.http.socket),
    },
    SettingKey {
        path: "http.telephone",
        allowed: Allowed::Text("the path of a folder with jssip.js, or off"),
        help: "Folder with the SIP client of the telephone for browsers, which is then served at /telephone/ without a token",
        assign: |config, text| put(&mut config.http.telephone, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.http.telephone.as_ref()),
    },
];
