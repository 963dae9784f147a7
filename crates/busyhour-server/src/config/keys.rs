mod acme;
mod cluster;
mod credentials;
mod http;
mod http_client;
mod limits;
mod otlp;
pub(in crate::config) mod media;

use super::{
    Allowed, SettingKey,
    allowed::SECONDS_OF_LIFE,
    values::{
        AUTO, DEFAULT, OFF, SYSTEM, address_or, addresses, addresses_or, advertised_or, algorithms,
        auth, call_tokens, dns_servers, durability, format, hosts, join, join_or, level,
        milliseconds, path_or, pcp_name, pmcd_or, put, realm, seconds, session_interval,
        show_advertised_or, show_or, show_path_or, show_stream_listen, stream_listen, text_or,
        url_or, user_or, users_or, workers,
    },
};
use busyhour_store::masked;

/// Every setting, in the order of the reference.
pub const KEYS: &[SettingKey] = &joined::<{ len(PARTS) }>(PARTS);

const PARTS: &[&[SettingKey]] = &[
    PROTOCOLS,
    limits::LIMITS,
    media::MEDIA,
    CAPTURE,
    http::HTTP,
    OPERATION,
    http_client::HTTP_CLIENT,
    credentials::CREDENTIALS,
    otlp::OTLP,
    acme::ACME,
    cluster::CLUSTER,
];

/// What the server says and does on the wire.
const PROTOCOLS: &[SettingKey] = &[
    SettingKey {
        path: "sip.listen",
        allowed: Allowed::Addresses,
        help: "Addresses for SIP over UDP; port 0 takes a free port",
        assign: |config, text| put(&mut config.sip.listen, addresses(text)),
        show: |config| join(&config.sip.listen),
    },
    SettingKey {
        path: "sip.tcp",
        allowed: Allowed::Text(
            "same, or an IP address and port such as 127.0.0.1:5060, or several separated by commas, or off",
        ),
        help: "Addresses for SIP over TCP: same means those of UDP, off means none; port 0 takes a free port",
        assign: |config, text| put(&mut config.sip.tcp, stream_listen(text)),
        show: |config| show_stream_listen(&config.sip.tcp),
    },
    SettingKey {
        path: "sip.tls",
        allowed: Allowed::Text(
            "an IP address and port such as 127.0.0.1:5061, or several separated by commas, or off",
        ),
        help: "Addresses for SIP over TLS, or off; port 0 takes a free port",
        assign: |config, text| put(&mut config.sip.tls, addresses_or(OFF, text)),
        show: |config| join_or(OFF, &config.sip.tls),
    },
    SettingKey {
        path: "sip.ws",
        allowed: Allowed::Text(
            "an IP address and port such as 127.0.0.1:8088, or several separated by commas, or off",
        ),
        help: "Addresses for SIP over WebSocket, for browsers, or off; port 0 takes a free port",
        assign: |config, text| put(&mut config.sip.ws, addresses_or(OFF, text)),
        show: |config| join_or(OFF, &config.sip.ws),
    },
    SettingKey {
        path: "sip.wss",
        allowed: Allowed::Text(
            "an IP address and port such as 127.0.0.1:7443, or several separated by commas, or off",
        ),
        help: "Addresses for SIP over WebSocket and TLS, or off; port 0 takes a free port",
        assign: |config, text| put(&mut config.sip.wss, addresses_or(OFF, text)),
        show: |config| join_or(OFF, &config.sip.wss),
    },
    SettingKey {
        path: "sip.ws_origins",
        allowed: Allowed::Text(
            "same, any, or origins such as https://phone.example.org, separated by commas",
        ),
        help: "Pages that may open a WebSocket: same means those of the host that the WebSocket is at, on any port",
        assign: |config, text| put(&mut config.sip.ws_origins, text.parse().ok()),
        show: |config| config.sip.ws_origins.to_string(),
    },
    SettingKey {
        path: "sip.ws_ping_seconds",
        allowed: whole(0, 3600, "seconds"),
        help: "Silence on a WebSocket before the server pings it; 0 turns pings off",
        assign: |config, text| put(&mut config.sip.ws_ping_seconds, text.parse().ok()),
        show: |config| config.sip.ws_ping_seconds.to_string(),
    },
    SettingKey {
        path: "sip.tls_certificate",
        allowed: Allowed::Text("the path of a PEM file, or off"),
        help: "The server's certificate and its chain, the server's own first; SIGHUP reads it again",
        assign: |config, text| put(&mut config.sip.tls_certificate, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.sip.tls_certificate.as_ref()),
    },
    SettingKey {
        path: "sip.tls_key",
        allowed: Allowed::Text("the path of a PEM file, or off"),
        help: "The private key of the certificate, without a password; SIGHUP reads it again",
        assign: |config, text| put(&mut config.sip.tls_key, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.sip.tls_key.as_ref()),
    },
    SettingKey {
        path: "sip.tls_authorities",
        allowed: Allowed::Text("the path of a PEM file, or off"),
        help: "Certificates of those who vouch for the certificates of peers; SIGHUP reads them again",
        assign: |config, text| put(&mut config.sip.tls_authorities, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.sip.tls_authorities.as_ref()),
    },
    SettingKey {
        path: "sip.dns_servers",
        allowed: Allowed::Text(
            "system, or an IP address such as 192.0.2.53, with a port or not, or up to three separated by commas",
        ),
        help: "DNS servers that are asked for the names of peers; system means those in /etc/resolv.conf",
        assign: |config, text| put(&mut config.sip.dns_servers, dns_servers(text)),
        show: |config| join_or(SYSTEM, &config.sip.dns_servers),
    },
    SettingKey {
        path: "sip.idle_seconds",
        // Longer than the time between the keep-alives that the server requests.
        allowed: whole(180, 604_800, "seconds"),
        help: "How long a connection may be silent before it is closed",
        assign: |config, text| put(&mut config.sip.idle_seconds, text.parse().ok()),
        show: |config| config.sip.idle_seconds.to_string(),
    },
    SettingKey {
        path: "sip.stalled_seconds",
        allowed: whole(1, 3600, "seconds"),
        help: "How long a connection may take to send its first message, and to complete each later one",
        assign: |config, text| put(&mut config.sip.stalled_seconds, text.parse().ok()),
        show: |config| config.sip.stalled_seconds.to_string(),
    },
    SettingKey {
        path: "sip.handshake_seconds",
        allowed: whole(1, 3600, "seconds"),
        help: "How long the handshake of a TLS connection may last",
        assign: |config, text| put(&mut config.sip.handshake_seconds, text.parse().ok()),
        show: |config| config.sip.handshake_seconds.to_string(),
    },
    SettingKey {
        path: "sip.keepalive_seconds",
        allowed: whole(1, 32_767, "seconds"),
        help: "Idle time on a connection before TCP sends a keep-alive",
        assign: |config, text| put(&mut config.sip.keepalive_seconds, text.parse().ok()),
        show: |config| config.sip.keepalive_seconds.to_string(),
    },
    SettingKey {
        path: "sip.unanswered_seconds",
        allowed: whole(3, 3600, "seconds"),
        help: "Time without an answer to a TCP keep-alive, to a ping or to sent data before the connection is closed",
        assign: |config, text| put(&mut config.sip.unanswered_seconds, text.parse().ok()),
        show: |config| config.sip.unanswered_seconds.to_string(),
    },
    SettingKey {
        path: "sip.probe_seconds",
        allowed: whole(0, 86_400, "seconds"),
        help: "Time between two probes (OPTIONS, POKE) of a silent device on UDP or IAX2; 0 turns probes off",
        assign: |config, text| put(&mut config.sip.probe_seconds, text.parse().ok()),
        show: |config| config.sip.probe_seconds.to_string(),
    },
    SettingKey {
        path: "sip.nat_probe_seconds",
        allowed: whole(0, 86_400, "seconds"),
        help: "The same for devices behind an address translation, which forgets a silent one; 0 leaves it to sip.probe_seconds",
        assign: |config, text| put(&mut config.sip.nat_probe_seconds, text.parse().ok()),
        show: |config| config.sip.nat_probe_seconds.to_string(),
    },
    SettingKey {
        path: "sip.nat_keep_alive_seconds",
        allowed: whole(0, 86_400, "seconds"),
        help: "Time between keep-alives (CRLF) to a silent device on UDP behind an address translation, besides the probes: up to half as much more after it was heard; 0 sends none",
        assign: |config, text| put(&mut config.sip.nat_keep_alive_seconds, text.parse().ok()),
        show: |config| config.sip.nat_keep_alive_seconds.to_string(),
    },
    SettingKey {
        path: "sip.verify_seconds",
        allowed: whole(0, 86_400, "seconds"),
        help: "Time after a start within which each restored contact on UDP or IAX2 is asked once whether it is still there; 0 asks none",
        assign: |config, text| put(&mut config.sip.verify_seconds, text.parse().ok()),
        show: |config| config.sip.verify_seconds.to_string(),
    },
    SettingKey {
        path: "sip.domains",
        allowed: Allowed::Hosts,
        help: "Domains of the addresses of record; with none, the server accepts every host that a request names",
        assign: |config, text| put(&mut config.sip.domains, hosts(text)),
        show: |config| config.sip.domains.join(","),
    },
    SettingKey {
        path: "sip.advertised",
        allowed: Allowed::Text(
            "an IP address and port such as 192.0.2.1:5060, or several separated by commas, all but one for a network such as 10.0.0.0/8=10.0.0.1:5060, or off",
        ),
        help: "Addresses to write into Contact and Via, for a server behind port forwarding: one for each network of phones, one for all others; off means the address that the request came to",
        assign: |config, text| put(&mut config.sip.advertised, advertised_or(OFF, text)),
        show: |config| show_advertised_or(OFF, &config.sip.advertised),
    },
    SettingKey {
        path: "sip.realm",
        allowed: Allowed::Text("1 to 100 characters without quotes, backslashes or controls"),
        help: "Realm of the digest challenges; hashed secrets depend on it",
        assign: |config, text| put(&mut config.sip.realm, realm(text)),
        show: |config| config.sip.realm.clone(),
    },
    SettingKey {
        path: "sip.auth",
        allowed: Allowed::OneOf(&["digest", "open"]),
        help: "Who may register: only accounts with the right password (digest), or anybody (open)",
        assign: |config, text| put(&mut config.sip.auth, auth(text)),
        show: |config| format!("{:?}", config.sip.auth).to_lowercase(),
    },
    SettingKey {
        path: "sip.algorithms",
        allowed: Allowed::SomeOf(&["MD5", "SHA-256", "SHA-512-256"]),
        help: "Digest algorithms offered, the preferred one first; many phones know only MD5",
        assign: |config, text| put(&mut config.sip.algorithms, algorithms(text)),
        show: |config| join(&config.sip.algorithms),
    },
    SettingKey {
        path: "sip.min_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Shortest lifetime of a binding; a request for less is answered 423",
        assign: |config, text| put(&mut config.registration.expires_min, seconds(text)),
        show: |config| config.registration.expires_min.as_secs().to_string(),
    },
    SettingKey {
        path: "sip.default_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Lifetime of a binding whose request names no expiry",
        assign: |config, text| put(&mut config.registration.expires_default, seconds(text)),
        show: |config| config.registration.expires_default.as_secs().to_string(),
    },
    SettingKey {
        path: "sip.max_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Longest lifetime of a binding; a request for more gets this",
        assign: |config, text| put(&mut config.registration.expires_max, seconds(text)),
        show: |config| config.registration.expires_max.as_secs().to_string(),
    },
    SettingKey {
        path: "sip.max_contacts",
        allowed: whole(1, 1000, "contacts"),
        help: "Contacts that one address of record may have at a time",
        assign: |config, text| put(&mut config.registration.contacts_max, text.parse().ok()),
        show: |config| config.registration.contacts_max.to_string(),
    },
    SettingKey {
        path: "sip.receive_buffer_kib",
        allowed: whole(64, 1_048_576, "KiB"),
        help: "Receive buffer that each socket requests from the kernel",
        assign: |config, text| put(&mut config.sip.receive_buffer_kib, text.parse().ok()),
        show: |config| config.sip.receive_buffer_kib.to_string(),
    },
    SettingKey {
        path: "sip.send_queue",
        allowed: whole(64, 16_777_216, "datagrams"),
        help: "Datagrams that may wait to be sent, for each socket; more are dropped and counted",
        assign: |config, text| put(&mut config.sip.send_queue, text.parse().ok()),
        show: |config| config.sip.send_queue.to_string(),
    },
    SettingKey {
        path: "iax2.listen",
        allowed: Allowed::Text(
            "an IP address and port such as 127.0.0.1:4569, or several separated by commas, or off",
        ),
        help: "Addresses for IAX2 over UDP, or off; port 0 takes a free port",
        assign: |config, text| put(&mut config.iax2.listen, addresses_or(OFF, text)),
        show: |config| match config.iax2.listen.is_empty() {
            true => OFF.into(),
            false => join(&config.iax2.listen),
        },
    },
    SettingKey {
        path: "iax2.call_token",
        allowed: Allowed::OneOf(&["required", "optional"]),
        help: "Whether IAX2 devices must return a call token, which proves their address; very old ones cannot",
        assign: |config, text| put(&mut config.iax2.call_tokens, call_tokens(text)),
        show: |config| format!("{:?}", config.iax2.call_tokens).to_lowercase(),
    },
    SettingKey {
        path: "watch.min_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Shortest lifetime of a subscription or publication; a request for less is answered 423",
        assign: |config, text| put(&mut config.watch.expires_min, seconds(text)),
        show: |config| config.watch.expires_min.as_secs().to_string(),
    },
    SettingKey {
        path: "watch.default_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Lifetime of a subscription or publication whose request names no expiry",
        assign: |config, text| put(&mut config.watch.expires_default, seconds(text)),
        show: |config| config.watch.expires_default.as_secs().to_string(),
    },
    SettingKey {
        path: "watch.max_expires_seconds",
        allowed: SECONDS_OF_LIFE,
        help: "Longest lifetime of a subscription or publication; a request for more gets this",
        assign: |config, text| put(&mut config.watch.expires_max, seconds(text)),
        show: |config| config.watch.expires_max.as_secs().to_string(),
    },
    SettingKey {
        path: "watch.notify_interval_milliseconds",
        allowed: whole(0, 60_000, "milliseconds"),
        help: "Shortest time between two NOTIFYs of changes to one watcher; of the changes in between, only the last is sent",
        assign: |config, text| put(&mut config.watch.notify_interval, milliseconds(text)),
        show: |config| config.watch.notify_interval.as_millis().to_string(),
    },
    SettingKey {
        path: "watch.max_publication_bytes",
        allowed: whole(256, 32_768, "bytes"),
        help: "Longest body of a publication; a longer one is answered 413",
        assign: |config, text| put(&mut config.watch.publication_len_max, text.parse().ok()),
        show: |config| config.watch.publication_len_max.to_string(),
    },
    SettingKey {
        path: "watch.list_datagram_bytes",
        allowed: whole(1000, 60_000, "bytes"),
        help: "Longest NOTIFY for a list over UDP, where it tells more than one resource; the rest follows in the next ones",
        assign: |config, text| put(&mut config.watch.list_datagram_len_max, text.parse().ok()),
        show: |config| config.watch.list_datagram_len_max.to_string(),
    },
    SettingKey {
        path: "watch.list_message_bytes",
        allowed: whole(1000, 4_194_304, "bytes"),
        help: "The same over TCP and TLS; many telephones read no message of more than 65535 bytes",
        assign: |config, text| put(&mut config.watch.list_message_len_max, text.parse().ok()),
        show: |config| config.watch.list_message_len_max.to_string(),
    },
    SettingKey {
        path: "calls.voicemail",
        allowed: Allowed::Text("a user who registers, such as voicemail, or off"),
        help: "Takes calls to devices that are busy, not registered or do not answer",
        assign: |config, text| put(&mut config.calls.voicemail, user_or(OFF, text)),
        show: |config| show_or(OFF, config.calls.voicemail.as_ref()),
    },
    SettingKey {
        path: "calls.ring_seconds",
        allowed: whole(1, 600, "seconds"),
        help: "How long a device rings before calls.voicemail takes the call",
        assign: |config, text| put(&mut config.calls.ring_time, seconds(text)),
        show: |config| config.calls.ring_time.as_secs().to_string(),
    },
    SettingKey {
        path: "calls.session_seconds",
        allowed: Allowed::Text("a whole number of seconds from 90 to 86400, or 0"),
        help: "Interval of the session timers that the server asks for, so that a call whose BYE is lost ends (RFC 4028); 0 asks for none",
        assign: |config, text| put(&mut config.calls.session_s, session_interval(text)),
        show: |config| config.calls.session_s.to_string(),
    },
    SettingKey {
        path: "calls.emergency",
        allowed: Allowed::Text("users separated by commas, such as 112,911, or off"),
        help: "Users whose calls are carried before all other new calls while the server cannot keep up",
        assign: |config, text| put(&mut config.calls.emergency, users_or(OFF, text)),
        show: |config| join_or(OFF, &config.calls.emergency),
    },
    SettingKey {
        path: "calls.records_days",
        allowed: whole(1, 36_500, "days"),
        help: "How long records of ended calls are kept",
        assign: |config, text| put(&mut config.calls.records_days, text.parse().ok()),
        show: |config| config.calls.records_days.to_string(),
    },
    SettingKey {
        path: "calls.records_max",
        allowed: whole(0, 1_000_000_000, "records"),
        help: "How many records of ended calls are kept, in memory at most 10,000; 0 keeps none",
        assign: |config, text| put(&mut config.calls.records_max, text.parse().ok()),
        show: |config| config.calls.records_max.to_string(),
    },
];

/// Where copies of messages go.
const CAPTURE: &[SettingKey] = &[
    SettingKey {
        path: "hep.server",
        allowed: Allowed::Text("an IP address and port such as 192.0.2.9:9060, or off"),
        help: "A capture server such as Homer that gets a copy of each SIP message by HEP version 3 over UDP",
        assign: |config, text| put(&mut config.hep.server, address_or(OFF, text)),
        show: |config| show_or(OFF, config.hep.server.as_ref()),
    },
    SettingKey {
        path: "hep.capture_id",
        allowed: whole(0, 4_294_967_295, "capture ids"),
        help: "The number by which the capture server knows this one",
        assign: |config, text| put(&mut config.hep.capture_id, text.parse().ok()),
        show: |config| config.hep.capture_id.to_string(),
    },
    SettingKey {
        path: "hep.password",
        allowed: Allowed::Text("a text, or off"),
        help: "The password that the capture server wants",
        assign: |config, text| put(&mut config.hep.password, text_or(OFF, text)),
        show: |config| {
            config
                .hep
                .password
                .as_ref()
                .map_or(OFF.into(), |_| MASKED.into())
        },
    },
];

/// How it is run and watched.
const OPERATION: &[SettingKey] = &[
    SettingKey {
        path: "graphite.archives",
        allowed: Allowed::Text("the path of a folder, or off"),
        help: "Folder of PCP archives that the Graphite interface serves beside the server's own values",
        assign: |config, text| put(&mut config.graphite.archives, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.graphite.archives.as_ref()),
    },
    SettingKey {
        path: "graphite.archive_step_seconds",
        allowed: whole(1, 86_400, "seconds"),
        help: "Seconds between two values of an archive's series",
        assign: |config, text| put(&mut config.graphite.archive_step_seconds, text.parse().ok()),
        show: |config| config.graphite.archive_step_seconds.to_string(),
    },
    SettingKey {
        path: "graphite.pmcd",
        allowed: Allowed::Text("the path of a socket, a host, a host and port, or off"),
        help: "A running pmcd of the Performance Co-Pilot whose values the Graphite interface samples and serves",
        assign: |config, text| put(&mut config.graphite.pmcd, pmcd_or(OFF, text)),
        show: |config| show_or(OFF, config.graphite.pmcd.as_ref()),
    },
    SettingKey {
        path: "graphite.pmcd_metrics",
        allowed: Allowed::Text("a name of PCP's metrics, such as kernel.all"),
        help: "The metrics of the pmcd that are sampled: this one, and those below it",
        assign: |config, text| put(&mut config.graphite.pmcd_metrics, pcp_name(text)),
        show: |config| config.graphite.pmcd_metrics.clone(),
    },
    SettingKey {
        path: "graphite.sample_seconds",
        allowed: whole(1, 3600, "seconds"),
        help: "Seconds between two samples of the server's own values, and of those of the pmcd",
        assign: |config, text| put(&mut config.graphite.sample_seconds, text.parse().ok()),
        show: |config| config.graphite.sample_seconds.to_string(),
    },
    SettingKey {
        path: "graphite.history_mib",
        allowed: whole(1, 65_536, "MiB"),
        help: "Memory for samples; the oldest are dropped first, and counted",
        assign: |config, text| put(&mut config.graphite.history_mib, text.parse().ok()),
        show: |config| config.graphite.history_mib.to_string(),
    },
    SettingKey {
        path: "graphite.max_points",
        allowed: whole(1000, 1_000_000_000, "values"),
        help: "Values that one request may fetch; more are refused with 413",
        assign: |config, text| put(&mut config.graphite.max_points, text.parse().ok()),
        show: |config| config.graphite.max_points.to_string(),
    },
    SettingKey {
        path: "graphite.max_series",
        allowed: whole(1, 1_000_000, "series"),
        help: "Series that one request may match; more are refused with 413",
        assign: |config, text| put(&mut config.graphite.max_series, text.parse().ok()),
        show: |config| config.graphite.max_series.to_string(),
    },
    SettingKey {
        path: "graphite.max_range_days",
        allowed: whole(1, 36_500, "days"),
        help: "Time that one request may span; more is refused with 413",
        assign: |config, text| put(&mut config.graphite.max_range_days, text.parse().ok()),
        show: |config| config.graphite.max_range_days.to_string(),
    },
    SettingKey {
        path: "graphite.max_memory_mib",
        allowed: whole(1, 65_536, "MiB"),
        help: "Memory that one request may use; more is refused with 413",
        assign: |config, text| put(&mut config.graphite.max_memory_mib, text.parse().ok()),
        show: |config| config.graphite.max_memory_mib.to_string(),
    },
    SettingKey {
        path: "graphite.max_depth",
        allowed: whole(1, 128, "calls"),
        help: "Depth of nested calls in a target; more is refused with 413",
        assign: |config, text| put(&mut config.graphite.max_depth, text.parse().ok()),
        show: |config| config.graphite.max_depth.to_string(),
    },
    SettingKey {
        path: "graphite.timeout_seconds",
        allowed: whole(1, 3600, "seconds"),
        help: "Time that one request may take; more is refused with 413",
        assign: |config, text| put(&mut config.graphite.timeout_seconds, text.parse().ok()),
        show: |config| config.graphite.timeout_seconds.to_string(),
    },
    SettingKey {
        path: "graphite.max_running",
        allowed: whole(1, 1024, "requests"),
        help: "Requests evaluated at once; further ones wait",
        assign: |config, text| put(&mut config.graphite.max_running, text.parse().ok()),
        show: |config| config.graphite.max_running.to_string(),
    },
    SettingKey {
        path: "store.path",
        allowed: Allowed::Text("the path of the SQLite file, or default"),
        help: "The SQLite database for bindings and accounts; the server creates its folder",
        assign: |config, text| put(&mut config.store.path, path_or(DEFAULT, text)),
        show: |config| show_path_or(DEFAULT, config.store.path.as_ref()),
    },
    SettingKey {
        path: "store.url",
        allowed: Allowed::DatabaseUrl,
        help: "A PostgreSQL database for bindings and accounts, instead of the file",
        assign: |config, text| put(&mut config.store.url, url_or(OFF, text)),
        show: |config| config.store.url.as_deref().map_or(OFF.into(), masked),
    },
    SettingKey {
        path: "store.url_file",
        allowed: Allowed::Text("the path of a file with such a URL, or off"),
        help: "A file with the URL of the database, instead of store.url",
        assign: |config, text| put(&mut config.store.url_file, path_or(OFF, text)),
        show: |config| show_path_or(OFF, config.store.url_file.as_ref()),
    },
    SettingKey {
        path: "store.durability",
        allowed: Allowed::OneOf(&["full", "process", "memory"]),
        help: "What an acknowledged registration survives: a power cut (full), kill -9 (process), or nothing (memory)",
        assign: |config, text| put(&mut config.store.durability, durability(text)),
        show: |config| format!("{:?}", config.store.durability).to_lowercase(),
    },
    SettingKey {
        path: "store.queue",
        allowed: whole(64, 16_777_216, "changes"),
        help: "Changes that may wait for the disk; beyond that, registrations are answered 503",
        assign: |config, text| put(&mut config.store.queue, text.parse().ok()),
        show: |config| config.store.queue.to_string(),
    },
    SettingKey {
        path: "store.location_view",
        allowed: Allowed::OneOf(&["on", "off"]),
        help: "A view `location` in the database, by which Kamailio's usrloc finds contacts (db_mode 3, expires_type 1)",
        assign: |config, text| put(&mut config.store.location_view, Some(text == "on")),
        show: |config| {
            if config.store.location_view {
                "on"
            } else {
                OFF
            }
            .into()
        },
    },
    SettingKey {
        path: "runtime.workers",
        allowed: Allowed::Text("a whole number of threads from 1 to 1024, or auto"),
        help: "Worker threads at the start; auto is one for each core",
        assign: |config, text| put(&mut config.runtime.workers, workers(text)),
        show: |config| show_or(AUTO, config.runtime.workers.as_ref()),
    },
    SettingKey {
        path: "runtime.min_workers",
        allowed: Allowed::Text("a whole number of threads from 1 to 1024, or auto"),
        help: "Worker threads that stay when there is nothing to do; auto is as many as at the start",
        assign: |config, text| put(&mut config.runtime.workers_min, workers(text)),
        show: |config| show_or(AUTO, config.runtime.workers_min.as_ref()),
    },
    SettingKey {
        path: "runtime.max_workers",
        allowed: Allowed::Text("a whole number of threads from 1 to 1024, or auto"),
        help: "Worker threads at most; auto is as many as at the start, so that their number does not grow",
        assign: |config, text| put(&mut config.runtime.workers_max, workers(text)),
        show: |config| show_or(AUTO, config.runtime.workers_max.as_ref()),
    },
    SettingKey {
        path: "runtime.worker_increment",
        allowed: whole(1, 1024, "threads"),
        help: "Worker threads that are added each time that more are needed",
        assign: |config, text| put(&mut config.runtime.worker_increment, text.parse().ok()),
        show: |config| config.runtime.worker_increment.to_string(),
    },
    SettingKey {
        path: "runtime.growth_threshold",
        allowed: whole(0, 1_000_000, "tasks"),
        help: "Tasks that may wait for any worker before workers are added",
        assign: |config, text| put(&mut config.runtime.growth_threshold, text.parse().ok()),
        show: |config| config.runtime.growth_threshold.to_string(),
    },
    SettingKey {
        path: "runtime.worker_idle_seconds",
        allowed: whole(1, 86_400, "seconds"),
        help: "Time without work after which a worker above the minimum ends",
        assign: |config, text| put(&mut config.runtime.worker_idle_seconds, text.parse().ok()),
        show: |config| config.runtime.worker_idle_seconds.to_string(),
    },
    SettingKey {
        path: "runtime.buffer_budget_mib",
        allowed: whole(8, 1_048_576, "MiB"),
        help: "Memory for datagrams in both directions; beyond that, datagrams are dropped and counted",
        assign: |config, text| put(&mut config.runtime.buffer_budget_mib, text.parse().ok()),
        show: |config| config.runtime.buffer_budget_mib.to_string(),
    },
    SettingKey {
        path: "runtime.trace_one_buffer_in",
        allowed: whole(0, 1_000_000, "buffers"),
        help: "One in so many packet buffers is traced, so that `busyhour show buffers --oldest` tells where it was taken; 0 traces none",
        assign: |config, text| put(&mut config.runtime.trace_one_buffer_in, text.parse().ok()),
        show: |config| config.runtime.trace_one_buffer_in.to_string(),
    },
    SettingKey {
        path: "runtime.drain_seconds",
        allowed: whole(0, 3600, "seconds"),
        help: "Time that a shutdown may take to finish queued work",
        assign: |config, text| put(&mut config.runtime.drain_seconds, text.parse().ok()),
        show: |config| config.runtime.drain_seconds.to_string(),
    },
    SettingKey {
        path: "log.level",
        allowed: Allowed::OneOf(&["error", "warn", "info", "debug", "trace"]),
        help: "The least severe log lines that are written to standard error",
        assign: |config, text| put(&mut config.log.level, level(text)),
        show: |config| format!("{:?}", config.log.level).to_lowercase(),
    },
    SettingKey {
        path: "log.format",
        allowed: Allowed::OneOf(&["text", "json"]),
        help: "Log lines for people (text), or one JSON object a line (json)",
        assign: |config, text| put(&mut config.log.format, format(text)),
        show: |config| format!("{:?}", config.log.format).to_lowercase(),
    },
];

/// All rows of several tables, one table after the other.
const fn joined<const LEN: usize>(tables: &[&[SettingKey]]) -> [SettingKey; LEN] {
    let mut all = [PROTOCOLS[0]; LEN];
    let (mut count, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[count] = tables[table][row];
            count += 1;
            row += 1;
        }
        table += 1;
    }
    all
}

const fn len(tables: &[&[SettingKey]]) -> usize {
    let (mut len, mut table) = (0, 0);
    while table < tables.len() {
        len += tables[table].len();
        table += 1;
    }
    len
}

/// A secret is not shown.
const MASKED: &str = "***";

const fn whole(min: u64, max: u64, unit: &'static str) -> Allowed {
    Allowed::Whole { min, max, unit }
}

#[cfg(test)]
mod tests;
