//! Clock, certificates, database, limits.

use super::Finding;
use crate::{
    cli::{
        device::open_store,
        service::{database, store_name},
    },
    config::{Config, Durability, Loaded},
    net::{Certificate, CertificateFiles, acme_files},
};
use busyhour_store::StoreError;
use nix::sys::resource::{Resource, getrlimit};
use std::{
    fs,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};
use x509_parser::pem::Pem;

pub(super) fn configuration(loaded: &Loaded) -> Finding {
    match loaded.warnings.as_slice() {
        [] => Finding::good("configuration", "no mistakes"),
        warnings => Finding::warning("configuration", warnings.join("\n"), "see docs"),
    }
}

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![
        clock(),
        accounts_store(config),
        files(config),
        memory(config),
    ];
    findings.extend(certificates(config));
    findings
}

/// Registrations end by this clock, and nonces, too.
fn clock() -> Finding {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    if seconds < YEAR_2026 {
        return Finding::problem(
            "clock",
            "the clock is years behind",
            "timedatectl set-ntp true",
        );
    }
    let mut ask = Command::new("timedatectl");
    let told = ask
        .args(["show", "--property=NTPSynchronized", "--value"])
        .output();
    let told = told.ok().filter(|told| told.status.success());
    match told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned()) {
        Some(told) if told == "yes" => Finding::good("clock", "synchronised"),
        Some(told) if told == "no" => Finding::warning(
            "clock",
            "nothing keeps the clock right",
            "timedatectl set-ntp true, or chrony: bindings that end by a wrong clock end too early or too late",
        ),
        _ => Finding::good(
            "clock",
            "its year is right; this system does not tell whether it is synchronised",
        ),
    }
}

fn accounts_store(config: &Config) -> Finding {
    let store = &config.store;
    if store.durability == Durability::Memory {
        return Finding::warning(
            "database",
            "bindings are only in memory (store.durability)",
            "telephones must register again after each restart; \"full\" keeps them",
        );
    }
    let name = store_name(store);
    // Opening a file brings it up to date, which is for the server to do.
    if !store.is_postgres() && !database(store).exists() {
        return Finding::good(
            "database",
            format!("{name} is not there yet; the server makes it"),
        );
    }
    match store.is_postgres() {
        true => match open_store(store) {
            Ok(_) => Finding::good("database", format!("{name} answers")),
            Err(error) => {
                Finding::problem("database", error, "is it running, and may this user enter?")
            }
        },
        false => match busyhour_store::inspect(&database(store)) {
            Ok(found) => Finding::good(
                "database",
                format!(
                    "{name}: schema version {}, {} accounts, {} bindings",
                    found.schema, found.accounts, found.bindings
                ),
            ),
            Err(error @ StoreError::Newer { .. }) => Finding::problem(
                "database",
                error.to_string(),
                "install that version, or restore a backup made --for-previous",
            ),
            Err(error) => Finding::problem(
                "database",
                error.to_string(),
                "restore a backup: busyhour restore FILE --replace",
            ),
        },
    }
}

/// Every connection is a file.
fn files(config: &Config) -> Finding {
    let wanted = (config.sip.connections_max + config.http.max_connections) as u64 + FILES_BESIDE;
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if hard >= wanted => Finding::good(
            "open files",
            format!("{hard} are allowed, {wanted} may be needed"),
        ),
        Ok((_, hard)) => Finding::warning(
            "open files",
            format!("{hard} are allowed, {wanted} may be needed"),
            format!(
                "LimitNOFILE={wanted} in the unit, or ulimit -n; else lower limits.connections"
            ),
        ),
        Err(error) => Finding::warning("open files", error.to_string(), ""),
    }
}

fn memory(config: &Config) -> Finding {
    let wanted = (config.runtime.buffer_budget_mib + config.sip.connection_memory_mib) as u64;
    let told = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    match kib.map(|kib| kib >> 10) {
        Some(mib) if mib < 2 * wanted => Finding::warning(
            "memory",
            format!("this machine has {mib} MiB, and messages alone may take {wanted}"),
            "lower runtime.buffer_budget_mib and limits.connection_memory_mib",
        ),
        Some(mib) => Finding::good("memory", format!("{mib} MiB; messages may take {wanted}")),
        None => Finding::warning("memory", "the kernel does not tell how much there is", ""),
    }
}

/// Those of the files that the configuration names, and that of ACME once there is one.
fn certificates(config: &Config) -> Vec<Finding> {
    let by_acme = config.acme.options();
    let by_acme = by_acme.as_ref().and_then(acme_files);
    let named = config.certificate_files().into_iter();
    named
        .chain(by_acme)
        .map(|files| certificate(&files))
        .collect()
}

fn certificate(files: &CertificateFiles) -> Finding {
    let name = files.certificate.display();
    if let Err(error) = Certificate::read(&files.certificate, &files.key) {
        return Finding::problem(
            "certificate",
            error.to_string(),
            "TLS cannot be served with it",
        );
    }
    match days_left(&files.certificate) {
        Some(days) if days < 0 => Finding::problem(
            "certificate",
            format!("{name} ended {} days ago", -days),
            "renew it, then systemctl reload busyhour",
        ),
        Some(days) if days < DAYS_MIN => Finding::warning(
            "certificate",
            format!("{name} ends in {days} days"),
            "renew it, then systemctl reload busyhour",
        ),
        Some(days) => Finding::good("certificate", format!("{name} is good for {days} days")),
        None => Finding::problem("certificate", format!("{name} has no certificate"), ""),
    }
}

/// Of the first certificate of the file, the server's own.
fn days_left(path: &Path) -> Option<i64> {
    let bytes = fs::read(path).ok()?;
    let pem = Pem::iter_from_buffer(&bytes)
        .flatten()
        .find(|pem| pem.label == "CERTIFICATE")?;
    let certificate = pem.parse_x509().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    let left = certificate.validity().not_after.timestamp() - i64::try_from(now).ok()?;
    Some(left.div_euclid(86_400))
}

const YEAR_2026: u64 = 1_767_225_600;
/// Database, logs, sockets, epoll.
const FILES_BESIDE: u64 = 64;
/// Let's Encrypt renews thirty days before the end; a week less, and it has not worked.
const DAYS_MIN: i64 = 21;
