//! Whatever DNS answers, a name is located after few questions, and nothing is tried twice.

use crate::zone::Zone;
use busyhour_proxy::dns::{HopName, RecordKind};
use busyhour_sip::Transport;
use proptest::prelude::*;

const NAMES: [&str; 5] = [
    "a.example",
    "_sip._udp.a.example",
    "_sip._tcp.a.example",
    "_sips._tcp.a.example",
    "b.example",
];
const SERVICES: [&str; 4] = ["SIP+D2U", "SIP+D2T", "SIPS+D2T", "E2U+sip"];
const KINDS: [RecordKind; 4] = [
    RecordKind::Naptr,
    RecordKind::Srv,
    RecordKind::A,
    RecordKind::Aaaa,
];

fn add(zone: Zone, (kind, name, next, numbers): (usize, usize, usize, (u16, u16, u16))) -> Zone {
    let (name, next) = (NAMES[name], NAMES[next]);
    match kind {
        0 => {
            let service = SERVICES[usize::from(numbers.2) % SERVICES.len()];
            zone.naptr(name, (numbers.0, numbers.1), ("s", service, next))
        }
        1 => zone.srv(name, numbers, next),
        2 => zone.a(name, &format!("192.0.2.{}", numbers.0 % 256)),
        3 => zone.aaaa(name, &format!("2001:db8::{:x}", numbers.0)),
        _ => zone.silent(name, KINDS[usize::from(numbers.0) % KINDS.len()]),
    }
}

proptest! {
    #[test]
    fn any_zone_is_located_soundly(
        records in prop::collection::vec(
            (0_usize..5, 0..NAMES.len(), 0..NAMES.len(), any::<(u16, u16, u16)>()),
            0..40,
        ),
        port in prop::option::of(any::<u16>()),
        transport in prop::option::of(prop::sample::select(vec![
            Transport::Udp,
            Transport::Tcp,
            Transport::Tls,
        ])),
        is_secure in any::<bool>(),
        draw in any::<u64>(),
    ) {
        let zone = records.into_iter().fold(Zone::default(), add);
        let name = HopName { port, transport, is_secure, ..HopName::new("a.example").unwrap() };
        let (rounds, found) = zone.follow(&name);
        prop_assert!(rounds.len() <= 12, "{rounds:?}");
        prop_assert!(rounds.iter().map(Vec::len).sum::<usize>() <= 24);
        if let Ok(servers) = found {
            let order = servers.order(|| draw);
            prop_assert!(!order.is_empty());
            prop_assert_eq!(order.len(), servers.addresses().count());
            for (over, address) in order {
                prop_assert!(address.port() != 0);
                prop_assert!(!is_secure || over == Transport::Tls);
                prop_assert!(transport.is_none_or(|named| named == over));
            }
            let priorities = servers.servers().iter().map(|server| server.priority);
            prop_assert!(priorities.is_sorted());
        }
    }
}
