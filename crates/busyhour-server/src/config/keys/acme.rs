//! The settings of the section `acme`.

use super::{
    Allowed, OFF, SettingKey, address_or, hosts, join, path_or, put, show_or, show_path_or, text_or,
};
use crate::net::AcmeChallenge;

pub(super) const ACME: &[SettingKey] = &[
    SettingKey {
        path: "acme.directory",
        allowed: Allowed::Text("the https URL of an authority's directory, or off"),
        help: "Get a certificate from this authority by ACME and renew it; with it you agree to the authority's terms of service",
        assign: |config, text| put(&mut config.acme.directory, text_or(OFF, text)),
        show: |config| show_or(OFF, config.acme.directory.as_ref()),
    },
    SettingKey {
        path: "acme.names",
        allowed: Allowed::Hosts,
        help: "The names that the certificate is for, no IP addresses; each must lead to this server",
        assign: |config, text| put(&mut config.acme.names, hosts(text)),
        show: |config| join(&config.acme.names),
    },
    SettingKey {
        path: "acme.contact",
        allowed: Allowed::Text("an address of mail, or off"),
        help: "Where the authority writes to",
        assign: |config, text| put(&mut config.acme.contact, text_or(OFF, text)),
        show: |config| show_or(OFF, config.acme.contact.as_ref()),
    },
    SettingKey {
        path: "acme.challenge",
        allowed: Allowed::OneOf(&["http-01", "tls-alpn-01", "dns-01"]),
        help: "How the authority finds that the names are ours: over HTTP at port 80, over TLS at port 443 (http.tls_listen), or in DNS (acme.dns_hook)",
        assign: |config, text| put(&mut config.acme.challenge, AcmeChallenge::named(text)),
        show: |config| config.acme.challenge.name().to_owned(),
    },
    SettingKey {
        path: "acme.dns_hook",
        allowed: Allowed::Text("the path of a program, or off"),
        help: "Run as `PROGRAM present NAME VALUE` to put a TXT record into DNS for dns-01, and as `PROGRAM remove NAME VALUE` afterwards",
        assign: |config, text| put(&mut config.acme.dns_hook, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.acme.dns_hook.as_ref()),
    },
    SettingKey {
        path: "acme.listen",
        allowed: Allowed::Text("an IP address and port such as 0.0.0.0:80, or off"),
        help: "Address where the authority is answered over HTTP, and nothing else is served; off where its port 80 leads to http.listen",
        assign: |config, text| put(&mut config.acme.listen, address_or(OFF, text)),
        show: |config| show_or(OFF, config.acme.listen.as_ref()),
    },
    SettingKey {
        path: "acme.folder",
        allowed: Allowed::Text("the path of a folder, or off"),
        help: "Where the account's key and the certificate are kept, for the server's user alone; needed with acme.directory",
        assign: |config, text| put(&mut config.acme.folder, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.acme.folder.as_ref()),
    },
    SettingKey {
        path: "acme.authorities",
        allowed: Allowed::Text("the path of a PEM file, or system"),
        help: "Who vouches for the authority's own server; system means those whom this machine believes",
        assign: |config, text| put(&mut config.acme.authorities, path_or(SYSTEM, text)),
        show: |config| show_path_or(SYSTEM, config.acme.authorities.as_ref()),
    },
];

const SYSTEM: &str = "system";
