//! The quotas of a domain hold for its devices over IAX2 as well.

use crate::conversation::{challenged, proof};
use crate::host::{Host, PASSWORD, config, device};
use crate::wire::*;
use busyhour_server::server::{ServerConfig, TenantConfig, TenantUse};

fn host(tenant: TenantConfig) -> Host {
    let name = "example.com".to_owned();
    Host::with(ServerConfig {
        tenants: vec![TenantConfig { name, ..tenant }],
        ..config()
    })
}

/// What answers the proof of a device.
fn answer(host: &mut Host, call: u16, user: &str) -> u8 {
    let regauth = challenged(host, device(), call, user);
    let answer = host.ask_one(device(), &proof(&regauth, user, PASSWORD, REGREQ));
    answer.subclass
}

fn used(host: &Host) -> TenantUse {
    host.server.tenant("example.com").unwrap().used
}

#[test]
fn contacts_beyond_the_quota_are_refused_and_counted() {
    let mut host = host(TenantConfig {
        max_contacts: Some(1),
        ..TenantConfig::default()
    });
    assert_eq!(answer(&mut host, 5, "alice"), REGACK);
    assert_eq!(answer(&mut host, 6, "bob"), REGREJ);
    assert_eq!(answer(&mut host, 7, "alice"), REGACK, "a refresh");
    let used = used(&host);
    assert_eq!((used.contact_count, used.registrations), (1, 2));
    assert_eq!((used.refused, used.refused_contacts), (1, 1));
}

#[test]
fn registrations_beyond_the_rate_are_refused_and_counted() {
    let mut host = host(TenantConfig {
        registrations_per_second: Some(0),
        ..TenantConfig::default()
    });
    assert_eq!(answer(&mut host, 5, "alice"), REGREJ);
    let used = used(&host);
    assert_eq!((used.registrations, used.refused_registrations), (0, 1));
}
