//! How messages travel: as text, and not always once.

use busyhour_proxy::dialogs::Role;

use super::{Happening, Key, PHONES, Phone, SESSION, Wire, World};
use crate::rig::{Names, headers};

impl World {
    /// A message as text.
    pub(super) fn text(&self, wire: &Wire, extra: &str) -> String {
        let call_id = format!("c{}", wire.key.call);
        let (caller_tag, callee_tag) =
            (format!("f{}", wire.key.call), format!("t{}", wire.key.tag));
        let (names, sender) = (
            Names {
                call_id: &call_id,
                from: "caller",
                from_tag: &caller_tag,
                to: "callee",
                to_tag: if wire.key.tag == 0 { "" } else { &callee_tag },
            },
            match (wire.status, wire.to) {
                (0, _) => PHONES[wire.from].0,
                (_, Some(to)) => PHONES[to].0,
                (_, None) => tag_owner(self, wire.key),
            },
        );
        let names = match wire.sender {
            Role::Caller => names,
            Role::Callee => names.reversed(),
        };
        let method = if wire.method == "ACK" {
            "ACK"
        } else {
            wire.method
        };
        let line = match wire.status {
            0 => format!("{method} sip:x@example.com SIP/2.0\r\n"),
            status => format!("SIP/2.0 {status} Because\r\n"),
        };
        let is_timed = wire.status == 200 && wire.has_timer && wire.method != "BYE";
        let timer = if is_timed { SESSION } else { extra };
        let timer = if wire.has_timer { timer } else { "" };
        line + timer + &headers(wire.cseq, method, names, sender, wire.offer)
    }

    pub(super) fn send_to_proxy(&mut self, wire: Wire) {
        self.carry(wire.method, Happening::ToProxy(wire));
    }

    pub(super) fn send_to_phone(&mut self, phone: usize, wire: Wire) {
        self.carry(wire.method, Happening::ToPhone(phone, wire));
    }

    /// Some messages are lost for good, some come twice, and all in any order.
    pub(super) fn carry(&mut self, method: &str, happening: Happening) {
        // An ACK is sent again with each 200.
        let loss = if method == "ACK" { 10 } else { 4 };
        let copies = match self.below(100) {
            chance if chance < loss && !self.is_quiet => 0,
            chance if chance > 92 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let slowest = if self.below(10) == 0 { 2_000 } else { 60 };
            let wait = 1 + self.below(slowest) as u64;
            self.after(wait, happening.clone());
        }
    }

    pub(super) fn after(&mut self, wait_ms: u64, happening: Happening) {
        self.serial += 1;
        self.queue
            .insert((self.now + wait_ms, self.serial), happening);
    }

    pub(super) fn after_random(&mut self, wait_max_ms: u64, happening: Happening) {
        let wait_ms = self.below(wait_max_ms as usize) as u64;
        self.after(wait_ms, happening);
    }

    /// splitmix64.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// The telephone that made this tag of a callee.
pub(super) fn tag_owner(world: &World, key: Key) -> &'static str {
    let has_it = |phone: &&Phone| {
        phone
            .answers
            .values()
            .any(|it| it.key == key && it.to.is_none())
            || phone.ringing.values().any(|it| it.key == key)
    };
    world
        .phones
        .iter()
        .find(has_it)
        .map_or("", |phone| phone.name)
}
