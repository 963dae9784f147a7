//! A request goes on to the next address of a peer, and the log says so.

use crate::{
    log_lines::LogLines,
    peers::{GATEWAY, SPARE, call_to, world},
    world::{ALICE, respond, within},
};

#[test]
fn the_next_address_is_tried_after_a_503_and_after_silence() {
    let lines = LogLines::default();
    let _logged = lines.keep();
    let mut world = world();
    let invite = call_to(&mut world, GATEWAY, "030", "refused");
    world.send(
        GATEWAY,
        &respond(GATEWAY, &invite, "503 Service Unavailable"),
    );
    world.read_request(GATEWAY, "ACK");
    let invite = world.read_request(SPARE, "INVITE");
    let goes_on = "request goes on to the next address of a peer";
    lines.has(&[
        "INFO",
        goes_on,
        "peer=gateway",
        "address=\"192.0.2.10:5060\"",
        "next=\"192.0.2.11:5060\"",
        "reason=503 Service Unavailable",
        "caller=\"sip:alice@example.com\"",
    ]);
    assert_eq!(lines.take().matches(goes_on).count(), 1);
    world.send(SPARE, &respond(SPARE, &invite, "200 OK"));
    let answer = world.read_status(ALICE, "200");
    assert_eq!(
        world.server.calls(10)[0].callee_flow.as_deref(),
        Some("udp/192.0.2.1:5060-192.0.2.11:5060")
    );
    let bye = within(&mut world, ALICE, "BYE", 3, &answer, true);
    world.send(ALICE, &bye);
    let bye = world.read_request(SPARE, "BYE");
    world.send(SPARE, &respond(SPARE, &bye, "200 OK"));
    world.read_status(ALICE, "200");

    call_to(&mut world, GATEWAY, "030", "silent");
    world.pass(4_100);
    let invite = world.read_request(SPARE, "INVITE");
    assert_eq!(world.stats().peers.attempts_failed, 2);
    lines.has(&[goes_on, "reason=no answer"]);
    world.send(SPARE, &respond(SPARE, &invite, "503 Service Unavailable"));
    world.read_request(SPARE, "ACK");
    let failed = "all addresses of a peer have failed";
    lines.has(&[
        "WARN",
        failed,
        "peer=gateway",
        "address=\"192.0.2.11:5060\"",
    ]);
    assert_eq!(lines.take().matches(failed).count(), 1);
    assert_eq!(world.stats().peers.attempts_failed, 3);
    world.read_status(ALICE, "5");

    while world.try_read(GATEWAY).is_some() {}
    // Who is busy is busy everywhere.
    let invite = call_to(&mut world, GATEWAY, "031", "busy");
    world.send(GATEWAY, &respond(GATEWAY, &invite, "486 Busy Here"));
    world.read_status(ALICE, "486");
    assert_eq!(world.stats().peers.attempts_failed, 3);
    assert!(!lines.take().contains("of a peer"));
}
