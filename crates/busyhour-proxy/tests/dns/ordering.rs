use crate::zone::Zone;
use std::collections::HashMap;

/// The numbers of SplitMix64.
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// RFC 2782: 3 to 1, and very little for weight 0.
#[test]
fn weights_are_parts_of_the_requests_and_every_server_is_tried() {
    let zone = Zone::default()
        .srv("_sip._udp.a.example", (1, 0, 5060), "zero.example")
        .srv("_sip._udp.a.example", (1, 75, 5060), "three.example")
        .srv("_sip._udp.a.example", (1, 25, 5060), "one.example")
        .srv("_sip._udp.a.example", (2, 100, 5060), "last.example")
        .a("zero.example", "192.0.2.1")
        .a("three.example", "192.0.2.3")
        .a("one.example", "192.0.2.2")
        .a("last.example", "192.0.2.4");
    let servers = zone.servers("sip:a.example;transport=udp").unwrap();
    let (mut random, mut firsts) = (numbers(7), HashMap::new());
    for _ in 0..10_000 {
        let order = servers.order(&mut random);
        assert_eq!(order.len(), 4);
        assert_eq!(
            order[3].1.ip().to_string(),
            "192.0.2.4",
            "of the next priority"
        );
        *firsts.entry(order[0].1.ip().to_string()).or_insert(0) += 1;
    }
    assert!((7_200..7_700).contains(&firsts["192.0.2.3"]), "{firsts:?}");
    assert!((2_250..2_700).contains(&firsts["192.0.2.2"]), "{firsts:?}");
    assert!((30..250).contains(&firsts["192.0.2.1"]), "{firsts:?}");
}

#[test]
fn servers_without_weights_are_chosen_evenly() {
    let zone = Zone::default()
        .srv("_sip._udp.a.example", (1, 0, 5060), "one.example")
        .srv("_sip._udp.a.example", (1, 0, 5060), "two.example")
        .a("one.example", "192.0.2.1")
        .a("two.example", "192.0.2.2");
    let servers = zone.servers("sip:a.example;transport=udp").unwrap();
    let mut random = numbers(8);
    let firsts =
        (0..1_000).filter(|_| servers.order(&mut random)[0].1.ip().to_string() == "192.0.2.1");
    assert!((400..600).contains(&firsts.count()));
}
