pub(crate) mod call_targets;

pub(super) use call_targets::dead_ends;

use super::{Auth, ClusterSettings, Loaded, Problem, SettingOrigin, Sip};
use crate::{
    net::{AcmeChallenge, Authorities, Certificate, CertificateError},
    server::{PeerConfig, PeerMistake, RegistrarConfig, peer_mistakes, registrar_mistakes},
    web::Telephone,
};
use busyhour_proxy::dns::HopName;
use busyhour_registrar::Domains;
use busyhour_sip::Transport;
use std::net::IpAddr;

/// Checks relations between settings that are each valid alone.
pub(super) fn relations(loaded: &Loaded) -> Vec<Problem> {
    let (sip, watch) = (&loaded.config.registration, &loaded.config.watch);
    let ordered = [
        (SIP_MIN, sip.expires_min, SIP_DEFAULT, sip.expires_default),
        (SIP_DEFAULT, sip.expires_default, SIP_MAX, sip.expires_max),
        (
            WATCH_MIN,
            watch.expires_min,
            WATCH_DEFAULT,
            watch.expires_default,
        ),
        (
            WATCH_DEFAULT,
            watch.expires_default,
            WATCH_MAX,
            watch.expires_max,
        ),
    ];
    let wrong = (ordered.into_iter()).filter(|(_, lower, _, upper)| lower > upper);
    let wrong = wrong.map(|(lower, _, upper, _)| (lower, upper));
    let mut problems = identity(loaded);
    // A relation has a meaning only if both settings are valid.
    let is_valid = |path: &str| !loaded.invalid.contains(path);
    let wrong = wrong.chain(workers(loaded));
    let wrong = wrong.filter(|(lower, upper)| is_valid(lower) && is_valid(upper));
    problems.extend(wrong.map(|(lower, upper)| order(loaded, lower, upper)));
    problems.extend(accounts(loaded));
    problems.extend(hints(loaded));
    problems.extend(lists(loaded));
    problems.extend(peers(loaded));
    problems.extend(registrars(loaded));
    problems.extend(store_url(loaded));
    problems.extend(acme(loaded));
    problems.extend(cluster(loaded));
    problems
}

/// The numbers of worker threads that are given and contradict each other.
fn workers(loaded: &Loaded) -> impl Iterator<Item = (&'static str, &'static str)> {
    let runtime = &loaded.config.runtime;
    let (min, start, max) = (runtime.workers_min, runtime.workers, runtime.workers_max);
    let pairs = [
        (WORKERS_MIN, min, WORKERS, start),
        (WORKERS, start, WORKERS_MAX, max),
        (WORKERS_MIN, min, WORKERS_MAX, max),
    ];
    let wrong = |(lower, low, upper, high): (_, Option<usize>, _, Option<usize>)| {
        (low? > high?).then_some((lower, upper))
    };
    pairs.into_iter().filter_map(wrong)
}

/// The domain of an account has accounts of its own.
fn accounts(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let own = loaded.config.server().domains();
    let mistake = move |name: &str| {
        let (user, domain) = name.rsplit_once('@')?;
        let mut tenants = loaded.config.tenants.iter();
        let mut hosts = own.hosts().iter();
        let reason = if hosts.any(|host| host.eq_ignore_ascii_case(domain)) {
            "it has the accounts of the server: leave domain out".to_owned()
        } else if tenants.any(|tenant| tenant.name == domain) {
            return None;
        } else {
            format!("there is no [[domain]] with name = \"{domain}\"")
        };
        Some(format!("account `{user}`: domain `{domain}`: {reason}"))
    };
    let all = loaded.accounts.iter();
    all.filter_map(move |(name, origin)| Some(Problem::new(origin.clone(), mistake(name)?)))
}

/// If a hint is invalid, the server does not start.
fn hints(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let domains = domains(loaded);
    loaded.hints.iter().flat_map(move |(hint, origin)| {
        let mistakes = hint.mistakes(&domains).into_iter();
        mistakes.map(|mistake| Problem::new(origin.clone(), mistake))
    })
}

/// If a list is invalid, the server does not start.
fn lists(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let domains = domains(loaded);
    loaded.lists.iter().flat_map(move |(list, origin)| {
        let mistakes = list.mistakes(&domains).into_iter();
        mistakes.map(|mistake| Problem::new(origin.clone(), mistake))
    })
}

/// The domains of hints and lists.
fn domains(loaded: &Loaded) -> Domains {
    let is_valid = |path: &str| !loaded.invalid.contains(path);
    match is_valid("sip.domains") && is_valid("sip.listen") {
        true => loaded.config.server().domains(),
        // Any address, until the server's own is known.
        false => Domains::default().at(Some(IpAddr::from([127, 0, 0, 1]))),
    }
}

/// If a peer is invalid, the server does not start.
fn peers(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let domains = match loaded.invalid.contains("sip.domains") {
        true => Domains::default(),
        false => config.server().domains(),
    };
    let mistakes = peer_mistakes(&config.peers, &domains, config.sip.auth == Auth::Open);
    let problem = |(place, mistake): (usize, PeerMistake)| {
        let name = &config.peers[place].name;
        Problem::new(
            loaded.peers[place].clone(),
            format!("peer `{name}`: {mistake}"),
        )
    };
    let mut problems: Vec<_> = mistakes.into_iter().map(problem).collect();
    for (place, peer) in config.peers.iter().enumerate() {
        let origin = &loaded.peers[place];
        let needs = needs_of_connections(&config.sip, peer).into_iter();
        problems.extend(needs.map(|it| Problem::new(origin.clone(), it)));
    }
    problems
}

/// If a registrar is invalid, the server does not start. One calls by the contacts that it was
/// told, so it has to be a peer that may do so.
fn registrars(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let config = &loaded.config;
    let problem = |place: usize, problem: String| {
        let name = &config.registrars[place].name;
        Problem::new(
            loaded.registrars[place].clone(),
            format!("registrar `{name}`: {problem}"),
        )
    };
    let mistakes = registrar_mistakes(&config.registrars).into_iter();
    let mistakes = mistakes.map(move |(place, mistake)| problem(place, mistake.to_string()));
    let may_call = |registrar: &RegistrarConfig| {
        let mut callers = config.peers.iter().filter(|peer| peer.may_call);
        callers.any(|peer| {
            let mut addresses = peer.targets().map(|(_, address)| address.ip());
            addresses.any(|ip| ip == registrar.address.ip()) || peer.names().next().is_some()
        })
    };
    let silent = config.registrars.iter().enumerate();
    let silent = silent.filter(move |(_, registrar)| !may_call(registrar));
    let silent = silent.map(move |(place, registrar)| {
        let ip = registrar.address.ip();
        problem(
            place,
            format!(
                "its calls would be refused: give a [[peer]] with addresses = [\"{ip}\"] and \
                 may_call = true"
            ),
        )
    });
    let needs = config.registrars.iter().enumerate();
    let needs = needs.flat_map(move |(place, registrar)| {
        let [tcp, tls] = [Transport::Tcp, Transport::Tls].map(|it| it == registrar.transport);
        let target = registrar.tls_target(&config.peers);
        let is_known = target.is_some_and(|target| !target.fingerprints.is_empty());
        let needs = needs_of_transports(&config.sip, (tcp, tls), is_known);
        needs.map(move |need| problem(place, need.to_owned()))
    });
    mistakes.chain(silent).chain(needs)
}

/// What connections to a peer need, and is not there.
fn needs_of_connections(sip: &Sip, peer: &PeerConfig) -> Vec<String> {
    let is_over = |transport| {
        let is_named = |name: &HopName| name.transport == Some(transport);
        peer.targets().any(|(over, _)| over == transport)
            || peer.names().any(|(_, name)| is_named(name))
    };
    let is_known = !peer.certificates.is_empty();
    let transports = (is_over(Transport::Tcp), is_over(Transport::Tls));
    let is_unknown = !peer.certificate_names.is_empty() && sip.tls_authorities.is_none();
    let vouch = "certificate_names: nobody vouches for them: give sip.tls_authorities";
    let needs = needs_of_transports(sip, transports, is_known);
    let needs = needs.chain(is_unknown.then_some(vouch));
    needs
        .map(|need| format!("peer `{}`: {need}", peer.name))
        .collect()
}

/// What an address over TCP or TLS needs, and is not there; `is_known` if its certificate is.
fn needs_of_transports(
    sip: &Sip,
    (tcp, tls): (bool, bool),
    is_known: bool,
) -> impl Iterator<Item = &'static str> {
    let needs = [
        (
            tcp && sip.tcp_addresses().is_empty(),
            "an address over TCP needs sip.tcp",
        ),
        (
            tls && sip.tls.is_empty(),
            "an address over TLS needs sip.tls",
        ),
        (
            tls && !is_known && sip.tls_authorities.is_none(),
            "an address over TLS needs certificates, or sip.tls_authorities",
        ),
    ];
    let needs = needs.into_iter().filter(|(is_missing, _)| *is_missing);
    needs.map(|(_, need)| need)
}

/// Checks that the certificate and the key of TLS can be read and belong together, and that the
/// authorities can be read.
pub(super) fn certificate(loaded: &Loaded) -> Vec<Problem> {
    let sip = &loaded.config.sip;
    let problem = |error: CertificateError| {
        let origin = loaded.origins.get(error.setting()).cloned();
        let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
        Problem::new(origin, error.to_string())
    };
    let authorities = sip.tls_authorities.as_deref();
    let authorities = authorities.and_then(|path| Authorities::read(path).err());
    let authorities = authorities.into_iter().map(problem);
    let own = own_certificate(loaded).into_iter().map(problem);
    let mut problems: Vec<_> = own.chain(authorities).collect();
    problems.extend(other_certificates(loaded));
    problems.extend(http_authorities(loaded));
    problems.extend(credentials(loaded));
    problems.extend(collector(loaded));
    problems.extend(telephone(loaded));
    problems
}

/// Checks that the client of the telephone is there, and that it has an address to speak to.
fn telephone(loaded: &Loaded) -> Option<Problem> {
    let folder = loaded.config.http.telephone.as_deref()?;
    let sip = &loaded.config.sip;
    let problem = match Telephone::read(folder) {
        Err(problem) => problem,
        Ok(_) if sip.ws.is_empty() && sip.wss.is_empty() => TELEPHONE_WITHOUT_SIP.to_owned(),
        Ok(_) => return None,
    };
    let origin = loaded.origins.get("http.telephone").cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    Some(Problem::new(origin, problem))
}

/// Checks that the file for the service for credentials can be read.
fn credentials(loaded: &Loaded) -> Option<Problem> {
    let problem = loaded.config.credentials.service().err()?;
    let origin = loaded.origins.get(problem.setting).cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    Some(Problem::new(origin, problem.to_string()))
}

/// Checks that the file for the collector can be read.
fn collector(loaded: &Loaded) -> Option<Problem> {
    let problem = loaded.config.otlp.collector().err()?;
    let origin = loaded.origins.get(problem.setting).cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    Some(Problem::new(origin, problem.to_string()))
}

fn http_authorities(loaded: &Loaded) -> Option<Problem> {
    let problem = loaded.config.http_client.options().err()?;
    let origin = loaded.origins.get("http_client.authorities").cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    Some(Problem::new(origin, problem))
}

fn own_certificate(loaded: &Loaded) -> Vec<CertificateError> {
    let config = &loaded.config;
    if !config.serves_tls() {
        return Vec::new();
    }
    let is_valid = |path: &str| !loaded.invalid.contains(path);
    let sip = &config.sip;
    let certificate = sip.tls_certificate.as_deref();
    let certificate = certificate.filter(|_| is_valid(TLS_CERTIFICATE));
    let key = sip.tls_key.as_deref().filter(|_| is_valid(TLS_KEY));
    Certificate::errors(certificate, key)
}

/// Checks the files of each `[[certificate]]`, whether or not they are used yet.
fn other_certificates(loaded: &Loaded) -> Vec<Problem> {
    let files = loaded.config.certificates.iter().zip(&loaded.certificates);
    let problems = files.flat_map(|(files, origin)| {
        let errors = files.errors().into_iter();
        errors.map(|error| Problem::new(origin.clone(), error.to_string()))
    });
    problems.collect()
}

/// Checks that what an order by ACME needs is there.
fn acme(loaded: &Loaded) -> Vec<Problem> {
    let acme = &loaded.config.acme;
    if acme.directory.is_none() {
        return Vec::new();
    }
    let has_tls = loaded.config.http.tls_listen.is_some();
    let needs_tls = acme.challenge == AcmeChallenge::TlsAlpn01 && !has_tls;
    let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
    let is_https = |url: &String| url.starts_with("https://");
    let needs = [
        (acme.names.is_empty(), "acme.directory needs acme.names"),
        (acme.folder.is_none(), "acme.directory needs acme.folder"),
        (
            acme.names.iter().any(is_address),
            "acme.names: give names, not IP addresses",
        ),
        (
            needs_tls,
            "acme.challenge = tls-alpn-01 needs http.tls_listen",
        ),
        (
            acme.challenge == AcmeChallenge::Dns01 && acme.dns_hook.is_none(),
            "acme.challenge = dns-01 needs acme.dns_hook",
        ),
        (
            !acme.directory.as_ref().is_some_and(is_https),
            "acme.directory: give a URL that begins with https://",
        ),
    ];
    let origin = loaded.origins.get("acme.directory").cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    let missing = needs.into_iter().filter(|(is_missing, _)| *is_missing);
    missing
        .map(|(_, need)| Problem::new(origin.clone(), need))
        .collect()
}

/// Checks that a node of a cluster has what it needs, and nothing that a cluster cannot do.
fn cluster(loaded: &Loaded) -> impl Iterator<Item = Problem> {
    let mistakes = ClusterSettings::mistakes(&loaded.config).into_iter();
    mistakes.map(|(setting, why)| {
        let origin = loaded
            .origins
            .get(setting)
            .or(loaded.origins.get("cluster.node"));
        let origin = origin.cloned();
        Problem::new(
            origin.unwrap_or(SettingOrigin::WholeFile("defaults".into())),
            why,
        )
    })
}

/// Checks that the file for the URL of the database has one.
fn store_url(loaded: &Loaded) -> Option<Problem> {
    let problem = loaded.config.store.database_url().err()?;
    let origin = loaded.origins.get(URL_FILE).cloned();
    let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    Some(Problem::new(origin, format!("{URL_FILE}: {problem}")))
}

/// Checks that TLS has a certificate and its key: those of `sip.tls_certificate` and
/// `sip.tls_key`, or of a `[[certificate]]`.
fn identity(loaded: &Loaded) -> Vec<Problem> {
    let config = &loaded.config;
    let sip = &config.sip;
    let (certificate, key) = (sip.tls_certificate.is_none(), sip.tls_key.is_none());
    let has_others = !config.certificates.is_empty();
    let has_others = has_others || config.acme.directory.is_some();
    let files = [(TLS_CERTIFICATE, certificate), (TLS_KEY, key)];
    let missing = files.iter().filter(|(path, is_missing)| {
        let is_needed = !has_others || certificate != key;
        *is_missing && config.serves_tls() && is_needed && !loaded.invalid.contains(path)
    });
    let by = match (sip.tls.is_empty(), sip.wss.is_empty()) {
        (false, _) => TLS,
        (true, false) => WSS,
        (true, true) => HTTP_TLS,
    };
    let problem = |(setting, _): &(&str, bool)| {
        let origin = loaded.origins.get(by).cloned();
        let origin = origin.unwrap_or(SettingOrigin::WholeFile("defaults".into()));
        let message = format!("{by} needs {setting}; give the path of a PEM file");
        Problem::new(origin, message)
    };
    missing.map(problem).collect()
}

/// Names both settings with their values, at the place of one that was set.
fn order(loaded: &Loaded, lower: &'static str, upper: &'static str) -> Problem {
    let value =
        |path| super::SettingKey::find(path).map_or(String::new(), |key| key.show(&loaded.config));
    let written = loaded.origins.get(lower).or(loaded.origins.get(upper));
    // The defaults are in order, so at least one of the two was set.
    let origin = written
        .cloned()
        .unwrap_or(SettingOrigin::WholeFile("defaults".into()));
    let message = format!(
        "{lower} ({}) must not be more than {upper} ({})",
        value(lower),
        value(upper)
    );
    Problem::new(origin, message)
}

const URL_FILE: &str = "store.url_file";
const HTTP_TLS: &str = "http.tls_listen";
const TLS: &str = "sip.tls";
const WSS: &str = "sip.wss";
const TLS_CERTIFICATE: &str = "sip.tls_certificate";
const TLS_KEY: &str = "sip.tls_key";
const WORKERS_MIN: &str = "runtime.min_workers";
const WORKERS: &str = "runtime.workers";
const WORKERS_MAX: &str = "runtime.max_workers";
const TELEPHONE_WITHOUT_SIP: &str =
    "http.telephone needs sip.ws or sip.wss, where its page speaks SIP";
const SIP_MIN: &str = "sip.min_expires_seconds";
const SIP_DEFAULT: &str = "sip.default_expires_seconds";
const SIP_MAX: &str = "sip.max_expires_seconds";
const WATCH_MIN: &str = "watch.min_expires_seconds";
const WATCH_DEFAULT: &str = "watch.default_expires_seconds";
const WATCH_MAX: &str = "watch.max_expires_seconds";

#[cfg(test)]
mod tests {
    use crate::config::{Config, Overrides};

    #[test]
    fn tls_needs_a_certificate_and_a_key() {
        let text = "[sip]\ntls = \"127.0.0.1:0\"\ntls_key = \"key.pem\"\n";
        let problems = Config::parse("f.toml", text, &Overrides::default()).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "f.toml:2:7: sip.tls needs sip.tls_certificate; give the path of a PEM file"
        );
    }

    #[test]
    fn invalid_hints_are_found_before_the_start() {
        let hint = |extension: &str, devices: &str| {
            format!("\n[[hint]]\nextension = \"{extension}\"\ndevices = [{devices}]\n")
        };
        let text = [
            "[sip]\ndomains = [\"example.com\"]\n".to_owned(),
            hint("1 0", "\"alice\""),
            hint("101", ""),
            hint("102", &["\"alice\""; 65].join(", ")),
            hint("103", "\"sip:alice@elsewhere.org\""),
            hint("104", "\"alice\", \"sip:bob@example.com\""),
        ];
        let parse = |text: &str| Config::parse("f.toml", text, &Overrides::default());
        let problems = parse(&text.concat()).unwrap_err().to_string();
        let problems: Vec<&str> = problems.lines().collect();
        let expected = [
            "f.toml:4:1: hint `1 0`: an extension is 1 to 64 ",
            "f.toml:8:1: hint `101`: a hint has 1 to 64 devices",
            "f.toml:12:1: hint `102`: a hint has 1 to 64 devices",
            "f.toml:16:1: hint `103`: device `sip:alice@elsewhere.org`: give a user name ",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
        // If the server has no domain, its address is the domain.
        assert!(parse(&hint("104", "\"alice\"")).is_ok());
        // Without domain and address, the user has no address of record.
        let text = "[sip]\nlisten = \"0.0.0.0:5060\"\n".to_owned() + &hint("104", "\"alice\"");
        let problem = parse(&text).unwrap_err().to_string();
        assert!(problem.contains("hint `104`: device `alice`"), "{problem}");
    }

    #[test]
    fn numbers_of_workers_must_be_in_order() {
        for (text, problem) in [
            (
                "workers = 4\nmax_workers = 2",
                "2:11: runtime.workers (4) must not be more than runtime.max_workers (2)",
            ),
            (
                "min_workers = 5\nworkers = 4",
                "2:15: runtime.min_workers (5) must not be more than runtime.workers (4)",
            ),
            (
                "max_workers = 4\nmin_workers = 5",
                "3:15: runtime.min_workers (5) must not be more than runtime.max_workers (4)",
            ),
        ] {
            let text = format!("[runtime]\n{text}\n");
            let problems = Config::parse("f.toml", &text, &Overrides::default()).unwrap_err();
            assert_eq!(problems.to_string(), format!("f.toml:{problem}"));
        }
        let text = "[runtime]\nmin_workers = 2\nworkers = 3\nmax_workers = 64\n";
        assert!(Config::parse("f.toml", text, &Overrides::default()).is_ok());
    }

    #[test]
    fn expiry_bounds_must_be_in_order() {
        let text = "[sip]\nmax_expires_seconds = 600\n";
        let problems = Config::parse("f.toml", text, &Overrides::default()).unwrap_err();
        assert_eq!(
            problems.to_string(),
            "f.toml:2:23: sip.default_expires_seconds (3600) must not be more than sip.max_expires_seconds (600)"
        );
    }
}
