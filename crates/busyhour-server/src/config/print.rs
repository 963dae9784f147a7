use super::{Allowed, KEYS, Loaded, SettingKey, keys::media::show_media_wish, tables::tokens::hex};
use std::{fmt::Write, path::Path};

/// The configuration as TOML. Each setting has an explanation and the origin of its
/// value.
pub(super) fn print(loaded: &Loaded) -> String {
    let mut out = String::from(HEAD);
    let mut section = "";
    for key in KEYS {
        if key.section() != section {
            section = key.section();
            let _ = write!(out, "\n[{section}]\n");
        }
        setting(&mut out, loaded, key);
    }
    accounts(&mut out, loaded);
    tokens(&mut out, loaded);
    hints(&mut out, loaded);
    lists(&mut out, loaded);
    certificates(&mut out, loaded);
    peers(&mut out, loaded);
    push(&mut out, loaded);
    registrars(&mut out, loaded);
    webhooks(&mut out, loaded);
    domains(&mut out, loaded);
    out
}

fn setting(out: &mut String, loaded: &Loaded, key: &SettingKey) {
    let value = literal(key, &key.show(&loaded.config));
    let origin = loaded.origins.get(key.path);
    let origin = origin.map_or("default".to_owned(), |origin| origin.to_string());
    let line = format!("{} = {value}", key.name());
    let (help, allowed) = (key.help, key.allowed);
    let _ = write!(
        out,
        "\n# {help}.\n# Allowed: {allowed}.\n{line:<40} # {origin}\n"
    );
}

/// Writes a number as a number, and several addresses as an array.
pub(super) fn literal(key: &SettingKey, text: &str) -> String {
    match key.allowed {
        Allowed::Addresses | Allowed::Hosts | Allowed::SomeOf(_) => {
            let values = text.split(',').filter(|value| !value.is_empty());
            let quoted: Vec<String> = values.map(quote).collect();
            format!("[{}]", quoted.join(", "))
        }
        _ if text.parse::<u64>().is_ok() => text.to_owned(),
        _ => quote(text),
    }
}

fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn accounts(out: &mut String, loaded: &Loaded) {
    if loaded.config.accounts.is_empty() {
        out.push_str(NO_ACCOUNTS);
    }
    for user in loaded.config.accounts.users() {
        let mailbox = loaded.config.accounts.mailbox(user);
        let (user, domain) = match user.rsplit_once('@') {
            Some((user, domain)) => (user, Some(domain)),
            None => (user, None),
        };
        let _ = write!(out, "\n[[account]]\nuser = {}\n{MASKED}\n", quote(user));
        if let Some(domain) = domain {
            let _ = writeln!(out, "domain = {}", quote(domain));
        }
        if let Some(mailbox) = mailbox {
            let _ = writeln!(out, "mailbox = {}", quote(mailbox));
        }
    }
    for range in loaded.config.accounts.ranges() {
        let prefix = quote(&range.prefix);
        let (first, count, digits) = (range.first, range.count, range.digits);
        let _ = write!(
            out,
            "\n[[account_range]]\nprefix = {prefix}\nfirst = {first}\n\
             count = {count}\ndigits = {digits}\n{MASKED}\n"
        );
    }
}

fn tokens(out: &mut String, loaded: &Loaded) {
    if loaded.config.tokens.is_empty() {
        out.push_str(NO_TOKENS);
    }
    for token in &loaded.config.tokens {
        let (name, hash) = (quote(&token.name), hex(&token.sha256));
        let scope = format!("{:?}", token.scope).to_lowercase();
        let _ = write!(
            out,
            "\n[[token]]\nname = {name}\nscope = \"{scope}\"\nsha256 = \"{hash}\"\n"
        );
        if let Some(domain) = &token.domain {
            let _ = writeln!(out, "domain = {}", quote(domain));
        }
    }
}

fn hints(out: &mut String, loaded: &Loaded) {
    if loaded.config.hints.is_empty() {
        out.push_str(NO_HINTS);
    }
    for hint in &loaded.config.hints {
        let extension = quote(&hint.extension);
        let devices: Vec<_> = hint.devices.iter().map(|device| quote(device)).collect();
        let devices = devices.join(", ");
        let _ = write!(
            out,
            "\n[[hint]]\nextension = {extension}\ndevices = [{devices}]\n"
        );
    }
}

fn certificates(out: &mut String, loaded: &Loaded) {
    for files in &loaded.config.certificates {
        let path = |path: &Path| quote(&path.display().to_string());
        let (certificate, key) = (path(&files.certificate), path(&files.key));
        let _ = write!(
            out,
            "\n[[certificate]]\ncertificate = {certificate}\nkey = {key}\n"
        );
        if !files.names.is_empty() {
            let names: Vec<_> = files.names.iter().map(|name| quote(name)).collect();
            let _ = writeln!(out, "names = [{}]", names.join(", "));
        }
        if files.is_default {
            out.push_str("default = true\n");
        }
    }
}

fn lists(out: &mut String, loaded: &Loaded) {
    for list in &loaded.config.lists {
        let name = quote(&list.name);
        let entries: Vec<_> = list.entries.iter().map(|entry| quote(entry)).collect();
        let entries = entries.join(", ");
        let _ = write!(out, "\n[[list]]\nname = {name}\nentries = [{entries}]\n");
        if let Some(title) = &list.title {
            let _ = writeln!(out, "title = {}", quote(title));
        }
    }
}

fn peers(out: &mut String, loaded: &Loaded) {
    if loaded.config.peers.is_empty() {
        out.push_str(NO_PEERS);
    }
    for peer in &loaded.config.peers {
        let list = |values: Vec<String>| {
            let quoted: Vec<_> = values.iter().map(|value| quote(value)).collect();
            quoted.join(", ")
        };
        let addresses = peer.addresses.iter().map(ToString::to_string).collect();
        let certificates = peer.certificates.iter().map(ToString::to_string).collect();
        let _ = write!(
            out,
            "\n[[peer]]\nname = {}\naddresses = [{}]\ncertificates = [{}]\ncertificate_names = [{}]\nmay_call = {}\nredirect = {}\nmedia = {}\nmay_publish = {}\n\
             prefixes = [{}]\ndomains = [{}]\nlookup = {}\ndefault = {}\n",
            quote(&peer.name),
            list(addresses),
            list(certificates),
            list(peer.certificate_names.clone()),
            peer.may_call,
            peer.redirects,
            quote(show_media_wish(peer.media)),
            peer.may_publish,
            list(peer.prefixes.clone()),
            list(peer.domains.clone()),
            peer.looks_up,
            peer.is_default,
        );
        if let Some(host) = &peer.host {
            let _ = writeln!(out, "host = {}", quote(host));
        }
        let _ = writeln!(
            out,
            "probe_seconds = {}\nfailover_seconds = {}\nshare_percent = {}",
            peer.probe_interval.as_secs(),
            peer.silence_max.as_secs(),
            peer.share_percent
        );
    }
}

fn registrars(out: &mut String, loaded: &Loaded) {
    if loaded.config.registrars.is_empty() {
        out.push_str(NO_REGISTRARS);
    }
    for registrar in &loaded.config.registrars {
        let domains: Vec<_> = registrar
            .domains
            .iter()
            .map(|domain| quote(domain))
            .collect();
        let _ = write!(
            out,
            "\n[[registrar]]\nname = {}\naddress = {}\ndomains = [{}]\nexpires_seconds = {}\n\
             keep_seconds = {}\nper_second = {}\n",
            quote(&registrar.name),
            quote(&registrar.location()),
            domains.join(", "),
            registrar.expires.as_secs(),
            registrar.keep.as_secs(),
            registrar.rate,
        );
        if let Some((user, _)) = &registrar.credentials {
            let user = quote(user);
            let _ = writeln!(out, "# user = {user}, password_file = (not shown)");
        }
    }
}

/// The files with keys are read once, and not shown.
fn push(out: &mut String, loaded: &Loaded) {
    if loaded.config.push.is_empty() {
        out.push_str(NO_PUSH);
    }
    for push in &loaded.config.push {
        let _ = write!(
            out,
            "\n[[push]]\nprovider = {}\nservice = {}\nurl = {}\nwait_seconds = {}\n\
             awake_seconds = {}\ntimeout_seconds = {}\nper_hour = {}\n# keys: (not shown)\n",
            quote(&push.provider),
            quote(push.service.name()),
            quote(&push.url.to_string()),
            push.wait.as_secs(),
            push.awake_for.as_secs(),
            push.time_limit.as_secs(),
            push.hourly_max,
        );
    }
}

/// The files with secrets are read once, and not shown.
fn webhooks(out: &mut String, loaded: &Loaded) {
    if loaded.config.webhooks.is_empty() {
        out.push_str(NO_WEBHOOKS);
    }
    for (name, webhook) in &loaded.config.webhooks {
        let entry = webhook.entry();
        let list = |values: &[String]| {
            let quoted: Vec<_> = values.iter().map(|value| quote(value)).collect();
            quoted.join(", ")
        };
        let user = entry.user.as_deref();
        let user = user.map_or(String::new(), |user| format!("user = {}\n", quote(user)));
        let _ = write!(
            out,
            "\n[[webhook]]\nname = {}\nurl = {}\nkinds = [{}]\n{user}having = [{}]\nsnapshot = {}\n\
             batch = {}\nbatch_milliseconds = {}\ntimeout_seconds = {}\ngive_up_seconds = {}\n",
            quote(name),
            quote(&entry.url),
            list(&entry.kinds),
            list(&entry.having),
            entry.snapshot,
            entry.batch,
            entry.batch_milliseconds,
            entry.timeout_seconds,
            entry.give_up_seconds,
        );
        for (field, is_given) in [
            ("secret_file", entry.secret.is_some()),
            ("authorization_file", entry.authorization.is_some()),
        ] {
            if is_given {
                let _ = writeln!(out, "# {field} = (not shown)");
            }
        }
    }
}

/// Each field as TOML has it; without domains there is nothing to say.
fn domains(out: &mut String, loaded: &Loaded) {
    for domain in &loaded.config.tenants {
        // A table of texts, numbers and lists always is TOML.
        let table = toml::to_string(domain).unwrap_or_default();
        let _ = write!(out, "\n[[domain]]\n{table}");
    }
}

const HEAD: &str = "\
# The configuration of `busyhour serve`. The comment after each value says where the value comes from.
";
const NO_ACCOUNTS: &str = "
# Who may register. Instead of a password an account may have its hashes: md5,
# sha256 and sha512_256 of user:realm:password, in hexadecimal digits.
#
# [[account]]
# user = \"alice\"
# password = \"something long\"
# mailbox = \"alice\"
# domain = \"customer.example\"       # of a [[domain]] with accounts of its own
#
# Numbered accounts that share a password, for load tests: device1 to device12000.
#
# [[account_range]]
# prefix = \"device\"
# first = 1
# count = 12000
# digits = 0
# password = \"busyhour\"
";
const NO_TOKENS: &str = "
# Tokens for the HTTP interface; `busyhour token NAME` makes one and prints its entry for this file.
#
# [[token]]
# name = \"provisioning\"
# scope = \"write\"
# sha256 = \"…\"
";
const NO_HINTS: &str = "
# Extensions that combine the states of several devices, for busy lamps:
#
# [[hint]]
# extension = \"100\"
# devices = [\"alice\", \"bob\"]
";
const NO_PEERS: &str = "
# Other servers and gateways that are trusted by their address, what they may do, and which calls go to them:
#
# [[peer]]
# name = \"gateway\"
# addresses = [\"192.0.2.10\", \"192.0.2.11:5080\"]   # also networks, 192.0.2.0/24; tcp/192.0.2.10 and tls/192.0.2.10 over connections; calls go to the first that is up
# certificates = [\"...\"]         # with one: only connections over TLS that show it are the peer's; its SHA-256
# certificate_names = [\"...\"]    # the same for certificates for these names, issued by one of sip.tls_authorities
# may_call = true                # calls our users without a password, and says who calls
# redirect = false               # its calls are answered 302 with the contacts of the called user
# media = \"auto\"                 # whether its calls use a media relay: auto as media.use says, always, or never
# may_publish = false            # publishes the state of all our users
# prefixes = [\"0\", \"+\"]         # calls to unknown users of ours that begin so go to it
# domains = [\"sip.example.net\"]  # and calls to these domains
# default = false                # and those to all other unknown users of ours
# host = \"sip.example.net\"       # the host in the Request-URI of these calls; without it, what the caller wrote
# probe_seconds = 30             # how often each address is sent OPTIONS; 0 is never
# failover_seconds = 4           # after so much silence the next address is tried
# share_percent = 50             # its part of calls, their memory, and publications
";
const NO_PUSH: &str = "
# Services that wake telephones which sleep (RFC 8599):
#
# [[push]]
# provider = \"acme\"                # pn-provider in the contacts of these telephones
# service = \"webhook\"             # or fcm, or apns
# url = \"https://push.acme.example/wake\"  # fcm and apns have their own
# secret_file = \"...\"             # webhook: the key of the signature
# service_account_file = \"...\"    # fcm: the JSON file of a service account
# key_file = \"...\"                # apns: the .p8 file of an authentication key, and
# key_id = \"...\"
# team_id = \"...\"
# wait_seconds = 20                # how long a call waits for a telephone
# awake_seconds = 10               # it is believed to be awake for so long after a registration
# timeout_seconds = 5              # how long a request to the service may take
# per_hour = 60                    # pushes to one telephone
";
const NO_REGISTRARS: &str = "
# Servers behind this one, at which each address of record with a telephone is registered once:
#
# [[registrar]]
# name = \"pbx\"
# address = \"192.0.2.12:5060\"       # with tcp/ or tls/ before it or not; a [[peer]] with may_call lets it call them
# domains = [\"example.com\"]         # whose addresses it has; without it, all
# expires_seconds = 3600             # the lifetime to ask for
# keep_seconds = 3600                # how long telephones stay registered while it does not answer
# per_second = 100                  # requests to it, but for retransmissions
# user = \"trunk\"                    # credentials for all; without them, those of each account
# password_file = \"...\"
";
const NO_WEBHOOKS: &str = "
# URLs that changes are posted to:
#
# [[webhook]]
# name = \"crm\"
# url = \"https://crm.example.net/hooks\"
# kinds = [\"call\", \"registration\"]  # also device, mailbox, hint; without it, all of them
# user = \"alice\"                    # only what is about this user
# having = [\"line=ringing\"]         # and has these elements
# snapshot = false                   # whether the last values are posted first, and again after a loss
# secret_file = \"/etc/busyhour/crm.secret\"  # the key of the signature, 16 characters or more
# authorization_file = \"...\"        # a file with the value of the header Authorization
# batch = 100                        # events in one request at most
# batch_milliseconds = 50            # how long the first of them waits for others
# timeout_seconds = 10               # how long a request may take
# give_up_seconds = 86400            # how long it is tried
";
const MASKED: &str = "password = \"(not shown)\"";

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    const FILE: &str = "[sip]\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\nrealm = \"a 'b'\"\n\
        [http]\nlisten = \"off\"\n[[account]]\nuser = \"alice\"\npassword = \"s3cret\"\n";

    #[test]
    fn printed_settings_are_read_as_the_same_settings() {
        let loaded = Config::parse("f.toml", FILE, &Overrides::default()).unwrap();
        let printed = loaded.print();
        let again = Config::parse("again.toml", &printed, &Overrides::default()).unwrap();
        assert_eq!(again.config.sip, loaded.config.sip);
        assert_eq!(again.config.http, loaded.config.http);
        assert_eq!(again.config.accounts.len(), 1);
    }

    #[test]
    fn the_packaged_file_is_what_the_defaults_print_and_says_where_the_database_is() {
        let packaged = include_str!("../../../../packaging/busyhour.toml");
        let loaded = Config::parse("busyhour.toml", "", &Overrides::default()).unwrap();
        // The user who runs a command has another home folder than the server.
        let path = "path = \"/var/lib/busyhour/busyhour.db\"   # as the unit";
        let default = "path = \"default\"                         # default";
        assert_eq!(
            packaged,
            loaded.print().replace(default, path),
            "update it with: busyhour serve --print-config"
        );
    }

    #[test]
    fn origins_are_shown_and_secrets_are_not() {
        let loaded = Config::parse("f.toml", FILE, &Overrides::default()).unwrap();
        let printed = loaded.print();
        assert!(printed.contains("# f.toml:3:9"), "{printed}");
        assert!(printed.contains("# default"), "{printed}");
        assert!(!printed.contains("s3cret"), "{printed}");
    }
}
