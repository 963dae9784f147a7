use super::entry::{Reported, TableEntry};
use crate::config::keys::media::media_wish;
use crate::server::{MediaWish, PeerConfig};
use std::time::Duration;

/// Reads a `[[peer]]`. What is wrong with it beside its form depends on other settings, and is
/// checked later.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<PeerConfig, Reported> {
    let default = PeerConfig::default();
    let name = entry.required("name", TableEntry::text);
    let certificates = entry.texts("certificates");
    let certificates = certificates.and_then(|certificates| {
        let parsed = certificates.into_iter().flatten().map(|text| {
            let parsed = text.parse();
            entry.check(parsed.map_err(|refusal| format!("certificates: `{text}`: {refusal}")))
        });
        let parsed: Vec<_> = parsed.collect();
        parsed.into_iter().collect::<Result<Vec<_>, _>>()
    });
    let certificate_names = entry.texts("certificate_names");
    let is_some = |names: &Option<Vec<String>>| names.as_ref().is_some_and(|it| !it.is_empty());
    let is_known = certificates.as_ref().is_ok_and(|it| !it.is_empty())
        || certificate_names.as_ref().is_ok_and(is_some);
    let looks_up = entry.yes_or_no("lookup");
    let looks_up_alone = looks_up.as_ref().is_ok_and(|it| *it == Some(true));
    let addresses = match is_known || looks_up_alone {
        true => entry.texts("addresses").map(Option::unwrap_or_default),
        false => entry.required("addresses", TableEntry::texts),
    };
    let addresses = addresses.and_then(|addresses| {
        let parsed = addresses.iter().map(|text| {
            let parsed = text.parse();
            entry.check(parsed.map_err(|refusal| format!("addresses: `{text}`: {refusal}")))
        });
        // Each mistake is reported.
        let parsed: Vec<_> = parsed.collect();
        parsed.into_iter().collect::<Result<Vec<_>, _>>()
    });
    let may_call = entry.yes_or_no("may_call");
    let redirects = entry.yes_or_no("redirect");
    let media = entry.text("media").and_then(|text| match text.as_deref() {
        None => Ok(MediaWish::Auto),
        Some(text) => {
            let wish = media_wish(text);
            entry.check(wish.ok_or_else(|| format!("media: `{text}`: give auto, always or never")))
        }
    });
    let may_publish = entry.yes_or_no("may_publish");
    let prefixes = entry.texts("prefixes");
    let domains = entry.texts("domains");
    let is_default = entry.yes_or_no("default");
    let host = entry.text("host");
    let probe = entry.whole("probe_seconds");
    let silence = entry.whole("failover_seconds");
    let share = entry.whole("share_percent");
    let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
    Ok(PeerConfig {
        name: name?,
        addresses: addresses?,
        certificates: certificates?,
        certificate_names: certificate_names?.unwrap_or_default(),
        may_call: may_call?.unwrap_or_default(),
        redirects: redirects?.unwrap_or_default(),
        media: media?,
        may_publish: may_publish?.unwrap_or_default(),
        prefixes: prefixes?.unwrap_or_default(),
        domains: domains?.unwrap_or_default(),
        looks_up: looks_up?.unwrap_or_default(),
        is_default: is_default?.unwrap_or_default(),
        host: host?,
        probe_interval: seconds(probe?, default.probe_interval),
        silence_max: seconds(silence?, default.silence_max),
        share_percent: share?.unwrap_or(default.share_percent),
    })
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "name",
    "addresses",
    "certificates",
    "certificate_names",
    "may_call",
    "redirect",
    "media",
    "may_publish",
    "prefixes",
    "domains",
    "lookup",
    "default",
    "host",
    "probe_seconds",
    "failover_seconds",
    "share_percent",
];

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};
    use std::time::Duration;

    const PEERS: &str = r#"
[sip]
domains = ["example.com"]
tls_authorities = "authorities.pem"

[[peer]]
name = "gateway"
addresses = ["192.0.2.10", "192.0.2.11:5080", "[2001:db8::1]:5060", "198.51.100.0/24"]
may_call = true
redirect = true
prefixes = ["0", "+"]
domains = ["sip.example.net"]
host = "sip.example.net"
probe_seconds = 60
failover_seconds = 2
share_percent = 100

[[peer]]
name = "pbx"
addresses = ["192.0.2.12"]
may_publish = true

[[peer]]
name = "trunk"
certificates = ["AB:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"]
certificate_names = ["trunk.example.net"]
default = true

[[peer]]
name = "stream"
addresses = ["tcp/192.0.2.20", "tcp/[2001:db8::2]:5070"]
prefixes = ["9"]
"#;

    fn problems(text: &str) -> Vec<String> {
        let parsed = Config::parse("f.toml", text, &Overrides::default());
        let problems = parsed.unwrap_err().to_string();
        problems.lines().map(str::to_owned).collect()
    }

    #[test]
    fn printed_peers_are_read_as_the_same_peers() {
        let loaded = Config::parse("f.toml", PEERS, &Overrides::default()).unwrap();
        let peers = &loaded.config.peers;
        assert_eq!(peers.len(), 4);
        assert!(peers[2].addresses.is_empty() && peers[2].certificates[0].0[0] == 0xab);
        let shown: Vec<_> = peers[3].addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["tcp/192.0.2.20:5060", "tcp/[2001:db8::2]:5070"]);
        assert!(peers[0].redirects && !peers[1].redirects);
        assert!(peers[0].may_call && !peers[0].may_publish && !peers[0].is_default);
        assert_eq!(peers[0].silence_max, Duration::from_secs(2));
        assert!(!peers[1].may_call && peers[1].may_publish);
        let again = Config::parse("again.toml", &loaded.print(), &Overrides::default()).unwrap();
        assert_eq!(again.config.peers, *peers);
        assert_eq!(loaded.config.server().peers, *peers);
    }

    #[test]
    fn every_mistake_says_where_it_is_and_what_to_do() {
        let peer = |more: &str| format!("\n[[peer]]\naddresses = [\"192.0.2.1\"]\n{more}\n");
        let head = "[sip]\ndomains = [\"example.com\"]\n";
        for (more, problem) in [
            (
                "name = \"a b\"\nmay_call = true",
                "peer `a b`: name: give 1 to 64 letters",
            ),
            (
                "name = \"a\"",
                "peer `a`: it has no effect: give may_call = true",
            ),
            (
                "name = \"a\"\nmay_publish = true\nredirect = true",
                "peer `a`: redirect: it may not call: give may_call = true",
            ),
            (
                "name = \"a\"\nprefixes = [\"\"]",
                "peer `a`: prefixes: ``: give 1 to 32",
            ),
            (
                "name = \"a\"\ndomains = [\"x@y\"]",
                "peer `a`: domains: `x@y`: give a host",
            ),
            (
                "name = \"a\"\ndomains = [\"EXAMPLE.com\"]",
                "peer `a`: domains: `EXAMPLE.com` is one of ours",
            ),
            (
                "name = \"a\"\ndefault = true\nhost = \"x;y\"",
                "peer `a`: host: `x;y`: give",
            ),
            (
                "name = \"a\"\ndefault = true\nprobe_seconds = 5",
                "peer `a`: probe_seconds: give 0",
            ),
            (
                "name = \"a\"\nmay_call = true\ncertificates = [\"ab\"]",
                "peer: certificates: `ab`: give 64 hexadecimal digits",
            ),
            (
                "name = \"a\"\nmay_call = true\nshare_percent = 0",
                "peer `a`: share_percent: give 1",
            ),
            (
                "name = \"a\"\nmay_call = true\nfailover_seconds = 60",
                "peer `a`: failover_seconds",
            ),
        ] {
            let found = problems(&(head.to_owned() + &peer(more)));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with(&format!("f.toml:4:1: {problem}")),
                "{found:?}"
            );
        }
        let found = problems(
            "[[peer]]\nname = \"a\"\nmay_call = 1\naddresses = [\"192.0.2.300\", \"0.0.0.0\"]\n",
        );
        let expected = [
            "f.toml:1:1: peer: addresses: `192.0.2.300`: give an IP address or a host name",
            "f.toml:1:1: peer: addresses: `0.0.0.0`: give an IP address",
            "f.toml:3:12: peer: may_call: found integer; give true or false",
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn what_two_peers_have_is_a_mistake_of_the_second() {
        let peer = |name: &str| {
            format!(
                "[[peer]]\nname = \"{name}\"\naddresses = [\"192.0.2.1\"]\nprefixes = [\"0\"]\n\
                 domains = [\"Example.NET\"]\ndefault = true\n"
            )
        };
        let found = problems(&(peer("a") + &peer("b")));
        let expected = [
            "peer `b`: addresses: 192.0.2.1 is also an address of peer `a`",
            "peer `b`: prefixes: `0` is also a prefix of peer `a`",
            "peer `b`: domains: `Example.NET` is also a domain of peer `a`",
            "peer `b`: default: peer `a` is the default already",
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                found.starts_with(&format!("f.toml:7:1: {expected}")),
                "{found}"
            );
        }
        let same = problems(&(peer("a") + &peer("a").replace("192.0.2.1", "192.0.2.2")));
        assert!(
            same[0].contains("another peer has the same name"),
            "{same:?}"
        );
    }

    #[test]
    fn a_peer_over_connections_needs_what_they_need() {
        let peer = "[[peer]]\nname = \"a\"\nmay_call = true\n";
        for (sip, fields, problem) in [
            (
                "tcp = \"off\"",
                "addresses = [\"tcp/192.0.2.1\"]",
                "needs sip.tcp",
            ),
            ("", "addresses = [\"tls/192.0.2.1\"]", "needs sip.tls"),
            (
                "",
                "certificate_names = [\"a.example\"]",
                "give sip.tls_authorities",
            ),
            (
                "",
                "certificate_names = [\"a:b@c\"]",
                "certificate_names: `a:b@c`: give",
            ),
        ] {
            let found = problems(&format!("[sip]\n{sip}\n{peer}{fields}\n"));
            assert!(found[0].contains(problem), "{found:?}");
        }
    }

    #[test]
    fn without_authentication_no_calls_go_to_peers() {
        let text = "[sip]\nauth = \"open\"\n[[peer]]\nname = \"a\"\naddresses = [\"192.0.2.1\"]\n";
        let found = problems(&format!("{text}default = true\n"));
        assert!(found[0].starts_with("f.toml:3:1: peer `a`: calls go only from authenticated"));
        let allowed = format!("{text}may_call = true\nmay_publish = true\n");
        assert!(Config::parse("f.toml", &allowed, &Overrides::default()).is_ok());
    }
}
