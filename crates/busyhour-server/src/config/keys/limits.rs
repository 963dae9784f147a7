//! The settings of the section `limits`.

use super::{SettingKey, put, whole};

pub(super) const LIMITS: &[SettingKey] = &[
    SettingKey {
        path: "limits.devices",
        allowed: whole(1, 100_000_000, "devices"),
        help: "Addresses of record with bindings or work in progress",
        assign: |config, text| put(&mut config.limits.devices_max, text.parse().ok()),
        show: |config| config.limits.devices_max.to_string(),
    },
    SettingKey {
        path: "limits.transactions",
        allowed: whole(64, 16_777_216, "responses"),
        help: "Responses kept for retransmitted requests",
        assign: |config, text| put(&mut config.limits.transactions_max, text.parse().ok()),
        show: |config| config.limits.transactions_max.to_string(),
    },
    SettingKey {
        path: "limits.nonces",
        allowed: whole(1024, 100_000_000, "nonces"),
        help: "Nonces whose last use is remembered; beyond that, devices are challenged once more",
        assign: |config, text| put(&mut config.limits.nonces_max, text.parse().ok()),
        show: |config| config.limits.nonces_max.to_string(),
    },
    SettingKey {
        path: "limits.watchers",
        allowed: whole(0, 100_000_000, "subscriptions"),
        help: "Subscriptions at a time",
        assign: |config, text| put(&mut config.limits.watchers_max, text.parse().ok()),
        show: |config| config.limits.watchers_max.to_string(),
    },
    SettingKey {
        path: "limits.mailboxes",
        allowed: whole(0, 100_000_000, "mailboxes"),
        help: "Mailboxes with a known state; more are refused, over HTTP with 409, over SIP with 503",
        assign: |config, text| put(&mut config.limits.mailboxes_max, text.parse().ok()),
        show: |config| config.limits.mailboxes_max.to_string(),
    },
    SettingKey {
        path: "limits.hints",
        allowed: whole(0, 10_000_000, "hints"),
        help: "Hints, including those of accounts and of the configuration; more are refused, over HTTP with 409",
        assign: |config, text| put(&mut config.limits.hints_max, text.parse().ok()),
        show: |config| config.limits.hints_max.to_string(),
    },
    SettingKey {
        path: "limits.lists",
        allowed: whole(0, 1_000_000, "lists"),
        help: "Lists of resources, including those of the configuration; more are refused over HTTP with 409",
        assign: |config, text| put(&mut config.limits.lists_max, text.parse().ok()),
        show: |config| config.limits.lists_max.to_string(),
    },
    SettingKey {
        path: "limits.list_resources",
        allowed: whole(1, 100_000, "resources"),
        help: "Resources of one list, with those of the lists that it names; a subscription to more is answered 413",
        assign: |config, text| put(&mut config.watch.list_resources_max, text.parse().ok()),
        show: |config| config.watch.list_resources_max.to_string(),
    },
    SettingKey {
        path: "limits.list_lamps",
        allowed: whole(0, 100_000_000, "resources"),
        help: "Resources that all subscriptions to lists watch together; more are answered 503",
        assign: |config, text| put(&mut config.limits.list_lamps_max, text.parse().ok()),
        show: |config| config.limits.list_lamps_max.to_string(),
    },
    SettingKey {
        path: "limits.publications",
        allowed: whole(0, 100_000_000, "publications"),
        help: "Publications at a time; more are answered 503",
        assign: |config, text| put(&mut config.limits.publications_max, text.parse().ok()),
        show: |config| config.limits.publications_max.to_string(),
    },
    SettingKey {
        path: "limits.publications_per_device",
        allowed: whole(1, 64, "publications"),
        help: "Publications of one address of record at a time; more are answered 480",
        assign: |config, text| {
            put(
                &mut config.limits.publications_per_device_max,
                text.parse().ok(),
            )
        },
        show: |config| config.limits.publications_per_device_max.to_string(),
    },
    SettingKey {
        path: "limits.device_queue",
        allowed: whole(1, 65536, "datagrams"),
        help: "Requests that may wait for one device; more are dropped, or answered 503 over a connection",
        assign: |config, text| put(&mut config.limits.device_queue_max, text.parse().ok()),
        show: |config| config.limits.device_queue_max.to_string(),
    },
    SettingKey {
        path: "limits.connections",
        allowed: whole(1, 1_000_000, "connections"),
        help: "SIP connections at a time; one more closes the oldest connection without an accepted request",
        assign: |config, text| put(&mut config.sip.connections_max, text.parse().ok()),
        show: |config| config.sip.connections_max.to_string(),
    },
    SettingKey {
        path: "limits.connections_per_source",
        allowed: whole(1, 1_000_000, "connections"),
        help: "SIP connections from one IPv4 address or IPv6 network of 64 bits",
        assign: |config, text| {
            put(
                &mut config.sip.connections_per_source_max,
                text.parse().ok(),
            )
        },
        show: |config| config.sip.connections_per_source_max.to_string(),
    },
    SettingKey {
        path: "limits.connection_queue_kib",
        allowed: whole(64, 65_536, "KiB"),
        help: "Bytes that may wait to be sent on one connection; NOTIFYs may use half of them, and are sent later beyond that",
        assign: |config, text| put(&mut config.sip.connection_queue_kib, text.parse().ok()),
        show: |config| config.sip.connection_queue_kib.to_string(),
    },
    SettingKey {
        path: "limits.connection_memory_mib",
        allowed: whole(8, 65_536, "MiB"),
        help: "Memory for incomplete messages of connections; half of it is reserved for connections with an accepted request",
        assign: |config, text| put(&mut config.sip.connection_memory_mib, text.parse().ok()),
        show: |config| config.sip.connection_memory_mib.to_string(),
    },
    SettingKey {
        path: "limits.connection_memory_per_source_kib",
        allowed: whole(256, 1_048_576, "KiB"),
        help: "The share of limits.connection_memory_mib of one IPv4 address or IPv6 network of 64 bits; half of that without an accepted request",
        assign: |config, text| {
            put(
                &mut config.sip.connection_memory_per_source_kib,
                text.parse().ok(),
            )
        },
        show: |config| config.sip.connection_memory_per_source_kib.to_string(),
    },
    SettingKey {
        path: "limits.handshakes",
        allowed: whole(1, 1_000_000, "handshakes"),
        help: "Unfinished TLS handshakes at a time; one more ends the oldest if it has lasted over two seconds, otherwise waits in the kernel",
        assign: |config, text| put(&mut config.sip.handshakes_max, text.parse().ok()),
        show: |config| config.sip.handshakes_max.to_string(),
    },
    SettingKey {
        path: "limits.handshakes_per_source",
        allowed: whole(1, 1_000_000, "handshakes"),
        help: "Unfinished TLS handshakes from one IPv4 address or IPv6 network of 64 bits; more are closed, and counted",
        assign: |config, text| put(&mut config.sip.handshakes_per_source_max, text.parse().ok()),
        show: |config| config.sip.handshakes_per_source_max.to_string(),
    },
    SettingKey {
        path: "limits.calls",
        allowed: whole(16, 16_777_216, "calls"),
        help: "Calls that are followed at a time: listed, with lamps and records; further calls go on without these. New calls are refused beyond four times as many requests within 32 s",
        assign: |config, text| put(&mut config.limits.calls_max, text.parse().ok()),
        show: |config| config.limits.calls_max.to_string(),
    },
    SettingKey {
        path: "limits.iax2_calls",
        allowed: whole(16, 16_777_216, "calls"),
        help: "Registrations over IAX2 in progress; more are not answered, and counted",
        assign: |config, text| put(&mut config.limits.iax2_calls_max, text.parse().ok()),
        show: |config| config.limits.iax2_calls_max.to_string(),
    },
    SettingKey {
        path: "limits.iax2_calls_per_source",
        allowed: whole(1, 32_767, "calls"),
        help: "Registrations over IAX2 in progress from one IP address",
        assign: |config, text| {
            put(
                &mut config.limits.iax2_calls_per_source_max,
                text.parse().ok(),
            )
        },
        show: |config| config.limits.iax2_calls_per_source_max.to_string(),
    },
    SettingKey {
        path: "limits.iax2_records",
        allowed: whole(16, 16_777_216, "calls"),
        help: "Ended IAX2 calls that are remembered for at most 10 s, to recognise late duplicates",
        assign: |config, text| put(&mut config.limits.iax2_records_max, text.parse().ok()),
        show: |config| config.limits.iax2_records_max.to_string(),
    },
    SettingKey {
        path: "limits.source_percent",
        allowed: whole(1, 100, "percent"),
        help: "The part of a limit that one IPv4 address or IPv6 network of 64 bits may hold, but at least 1,024 devices, subscriptions and publications; set 100 behind a proxy or one NAT",
        assign: |config, text| put(&mut config.limits.source_percent, text.parse().ok()),
        show: |config| config.limits.source_percent.to_string(),
    },
    SettingKey {
        path: "limits.account_percent",
        allowed: whole(1, 100, "percent"),
        help: "The part of a limit that one account may hold",
        assign: |config, text| put(&mut config.limits.account_percent, text.parse().ok()),
        show: |config| config.limits.account_percent.to_string(),
    },
    SettingKey {
        path: "limits.domain_percent",
        allowed: whole(1, 100, "percent"),
        help: "The part of a limit that all accounts of one domain may hold, if it has accounts of its own",
        assign: |config, text| put(&mut config.limits.domain_percent, text.parse().ok()),
        show: |config| config.limits.domain_percent.to_string(),
    },
    SettingKey {
        path: "limits.domains",
        allowed: whole(0, 100_000, "domains"),
        help: "Domains with settings of their own; more are refused, over HTTP with 409",
        assign: |config, text| put(&mut config.limits.domains_max, text.parse().ok()),
        show: |config| config.limits.domains_max.to_string(),
    },
    SettingKey {
        path: "limits.dialog_bytes",
        allowed: whole(512, 65_535, "bytes"),
        help: "Bytes that a subscription keeps of its SUBSCRIBE: route, addresses, names; a longer one is answered 513",
        assign: |config, text| put(&mut config.limits.dialog_bytes_max, text.parse().ok()),
        show: |config| config.limits.dialog_bytes_max.to_string(),
    },
    SettingKey {
        path: "limits.unproven_per_second",
        allowed: whole(0, 100_000, "datagrams"),
        help: "Answers in a second to one source that shows no right credentials, and NOTIFYs before its first answer; ten times as many at once; 0 means no limit",
        assign: |config, text| put(&mut config.limits.unproven_per_second, text.parse().ok()),
        show: |config| config.limits.unproven_per_second.to_string(),
    },
    SettingKey {
        path: "limits.contact_bytes",
        allowed: whole(512, 16_384, "bytes"),
        help: "Bytes that a binding keeps of its REGISTER: contact, path, names; a longer one is answered 513",
        assign: |config, text| {
            put(
                &mut config.registration.contact_bytes_max,
                text.parse().ok(),
            )
        },
        show: |config| config.registration.contact_bytes_max.to_string(),
    },
];
