//! What is refused when there is no room for more requests, and what never is.

use crate::{
    established,
    exchange::digest_config,
    log_lines::LogLines,
    world::{ALICE, BOB, World, respond, within},
};

/// With the least `limits.calls`: as many calls begin as there is room for requests.
#[test]
fn a_call_that_was_let_in_can_change_and_end() {
    let lines = LogLines::default();
    let _logged = lines.keep();
    let mut config = digest_config();
    config.limits.calls_max = 16;
    let mut world = World::with(config);
    for phone in [ALICE, BOB] {
        world.register(phone);
    }
    let answers: Vec<_> = (0..64)
        .map(|number| established(&mut world, &format!("call-{number}")))
        .collect();
    world.call(ALICE, "bob", "one-too-many");
    world.read_status(ALICE, "503");
    lines.has(&["call refused", "reason=\"No Room (limits.calls)\""]);
    assert_eq!(world.stats().calls.refused_full, 1);
    let reached = |world: &World, limit: &str| {
        let limits = world.stats().limits_reached();
        let mut found = limits.iter().filter(|(name, _)| name.starts_with(limit));
        found.next().unwrap().1
    };
    assert_eq!(reached(&world, "a table"), 0);
    assert!(reached(&world, "limits.calls") > 0);

    for (method, cseq) in [("INVITE", 3), ("BYE", 4)] {
        for answer in &answers {
            let request = within(&mut world, ALICE, method, cseq, answer, true);
            world.send(ALICE, &request);
            let request = world.read_request(BOB, method);
            world.send(BOB, &respond(BOB, &request, "200 OK"));
            if method == "INVITE" {
                world.read_status(ALICE, "100");
            }
            world.read_status(ALICE, "200");
        }
    }
}
