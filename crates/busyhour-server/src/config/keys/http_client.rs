//! The settings of the section `http_client`.

use super::{Allowed, SettingKey, path_or, put, show_path_or, whole};

pub(super) const HTTP_CLIENT: &[SettingKey] = &[
    SettingKey {
        path: "http_client.authorities",
        allowed: Allowed::Text("the path of a PEM file, or system"),
        help: "Authorities whose certificates of other servers over HTTPS are believed; system means those of this machine",
        assign: |config, text| put(&mut config.http_client.authorities, path_or(SYSTEM, text)),
        show: |config| show_path_or(SYSTEM, config.http_client.authorities.as_ref()),
    },
    SettingKey {
        path: "http_client.connections_per_host",
        allowed: whole(1, 1024, "requests"),
        help: "Requests to one host under way at a time, for webhooks, for pushes, for credentials and for spans each; 1,024 more wait",
        assign: |config, text| {
            let count = text.parse().ok();
            put(&mut config.http_client.connections_per_host, count)
        },
        show: |config| config.http_client.connections_per_host.to_string(),
    },
];

const SYSTEM: &str = "system";
