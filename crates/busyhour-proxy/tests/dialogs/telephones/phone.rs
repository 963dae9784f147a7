//! What telephones do with messages.

use busyhour_proxy::dialogs::Role;

use super::{Happening, Key, PHONES, SESSION_MS, Talk, Wire, World, network::tag_owner};
use crate::rig::{RECVONLY, SENDONLY};

impl World {
    pub(super) fn at_phone(&mut self, phone: usize, wire: Wire) {
        if self.phones[phone].is_off {
            return;
        }
        if wire.status > 0 {
            return self.response_at_phone(phone, wire);
        }
        if let Some(answer) = self.phones[phone].answers.get(&wire.transaction)
            && !matches!(wire.method, "ACK" | "CANCEL")
        {
            let again = answer.clone();
            return self.send_to_proxy(again);
        }
        match (wire.method, wire.to) {
            ("INVITE", None) => self.ring(phone, wire),
            ("CANCEL", _) => self.refuse(phone, wire.transaction, 487),
            ("ACK", _) => {
                if let Some(talk) = self.phones[phone].talks.get_mut(&wire.key) {
                    talk.is_acked = true;
                }
            }
            _ => self.serve(phone, wire),
        }
    }

    pub(super) fn ring(&mut self, phone: usize, mut wire: Wire) {
        if self.phones[phone].ringing.contains_key(&wire.transaction) {
            return;
        }
        self.serial += 1;
        wire.key.tag = self.serial;
        let transaction = wire.transaction;
        self.phones[phone].ringing.insert(transaction, wire.clone());
        self.send_to_proxy(Wire {
            status: 180,
            ..wire
        });
        self.after_random(25_000, Happening::Pick(phone, transaction));
        self.after(60_000, Happening::RingOut(phone, transaction));
    }

    pub(super) fn pick(&mut self, phone: usize, transaction: u64) {
        match self.below(4) {
            0 => self.refuse(phone, transaction, 486),
            1 => {}
            _ => self.answer(phone, transaction),
        }
    }

    pub(super) fn answer(&mut self, phone: usize, transaction: u64) {
        let Some(invite) = self.phones[phone].ringing.remove(&transaction) else {
            return;
        };
        let talk = self.talk(Role::Callee, invite.from, invite.has_timer);
        self.phones[phone].talks.insert(invite.key, talk);
        let answer = Wire {
            status: 200,
            ..invite
        };
        self.phones[phone]
            .answers
            .insert(transaction, answer.clone());
        self.after(500, Happening::Again(phone, answer.key, 1));
        self.send_to_proxy(answer);
    }

    pub(super) fn talk(&self, role: Role, peer: usize, has_timer: bool) -> Talk {
        Talk {
            role,
            peer,
            holds: false,
            cseq: 100,
            is_acked: role == Role::Caller,
            has_timer,
            refreshed_at: self.now,
            lonely_since: None,
            offer: None,
        }
    }

    pub(super) fn again(&mut self, phone: usize, key: Key, tries: u32) {
        let Some(talk) = self.phones[phone].talks.get(&key) else {
            return;
        };
        if talk.is_acked {
            return;
        }
        if tries >= 10 {
            return self.hang_up(phone, key);
        }
        let answers = self.phones[phone].answers.values();
        let of_call = |wire: &&Wire| wire.key == key && wire.to.is_none();
        if let Some(answer) = answers.clone().find(of_call).cloned() {
            self.send_to_proxy(answer);
        }
        let wait = (500 << tries).min(4_000);
        self.after(wait, Happening::Again(phone, key, tries + 1));
    }

    pub(super) fn refuse(&mut self, phone: usize, transaction: u64, status: u16) {
        if let Some(invite) = self.phones[phone].ringing.remove(&transaction) {
            let answer = Wire { status, ..invite };
            self.phones[phone]
                .answers
                .insert(transaction, answer.clone());
            self.send_to_proxy(answer);
        }
    }

    /// A request within a dialog.
    pub(super) fn serve(&mut self, phone: usize, wire: Wire) {
        let now = self.now;
        let talk = self.phones[phone].talks.get_mut(&wire.key);
        let (status, offer) = match talk {
            None => (481, ""),
            Some(_) if wire.method == "BYE" => (200, ""),
            Some(talk) if talk.offer.is_some() && !wire.offer.is_empty() => (491, ""),
            Some(talk) => {
                if wire.method == "UPDATE" {
                    talk.refreshed_at = now;
                }
                if !wire.offer.is_empty() {
                    talk.holds = false;
                }
                (
                    200,
                    if wire.offer == SENDONLY {
                        RECVONLY
                    } else {
                        wire.offer
                    },
                )
            }
        };
        if wire.method == "BYE" {
            self.phones[phone].talks.remove(&wire.key);
        }
        let answer = Wire {
            status,
            offer,
            ..wire
        };
        self.phones[phone]
            .answers
            .insert(answer.transaction, answer.clone());
        self.send_to_proxy(answer);
    }

    pub(super) fn response_at_phone(&mut self, phone: usize, wire: Wire) {
        match (wire.to, wire.status) {
            (_, 100..=199) => {}
            (None, 200) => self.answered(phone, wire),
            (None, _) => {
                let calling = &mut self.phones[phone].calling;
                if calling
                    .as_ref()
                    .is_some_and(|it| it.transaction == wire.transaction)
                {
                    *calling = None;
                }
            }
            _ if !self.phones[phone].waiting.remove(&wire.transaction) => {}
            _ => self.concluded(phone, wire),
        }
    }

    /// A 200 to the INVITE: each one gets an ACK, and a BYE if it is one too many.
    pub(super) fn answered(&mut self, phone: usize, wire: Wire) {
        let peer = PHONES
            .iter()
            .position(|(name, _)| *name == tag_owner(self, wire.key));
        let Some(peer) = peer else { return };
        let calling = self.phones[phone].calling.take();
        let is_mine = calling
            .as_ref()
            .is_some_and(|it| it.transaction == wire.transaction);
        let is_wanted = is_mine && !self.phones[phone].is_cancelled;
        if !is_mine {
            self.phones[phone].calling = calling;
        }
        let is_known = self.phones[phone].talks.contains_key(&wire.key);
        let ack = Wire {
            status: 0,
            method: "ACK",
            offer: "",
            to: Some(peer),
            from: phone,
            ..wire.clone()
        };
        self.send_to_proxy(ack);
        if !is_known {
            let talk = self.talk(Role::Caller, peer, wire.has_timer);
            self.phones[phone].talks.insert(wire.key, talk);
            if !is_wanted {
                self.hang_up(phone, wire.key);
            }
        }
    }

    /// A final response to a request within a dialog.
    pub(super) fn concluded(&mut self, phone: usize, wire: Wire) {
        let now = self.now;
        let Some(talk) = self.phones[phone].talks.get_mut(&wire.key) else {
            return;
        };
        let is_offer = talk.offer.take_if(|it| it.transaction == wire.transaction);
        match (wire.status, is_offer) {
            (481 | 408, _) => self.hang_up(phone, wire.key),
            (200, Some(offer)) => {
                talk.holds = offer.offer == SENDONLY;
                let ack = Wire {
                    method: "ACK",
                    offer: "",
                    ..offer
                };
                self.send_to_proxy(ack);
            }
            (200, None) if wire.method == "UPDATE" => talk.refreshed_at = now,
            _ => {}
        }
    }

    /// RFC 3261 §12.2.1.2: no answer at all is a 408.
    pub(super) fn give_up(&mut self, phone: usize, wire: Wire) {
        if wire.to.is_some() {
            if self.phones[phone].waiting.remove(&wire.transaction) {
                self.concluded(
                    phone,
                    Wire {
                        status: 408,
                        ..wire
                    },
                );
            }
            return;
        }
        let calling = &mut self.phones[phone].calling;
        calling.take_if(|it| it.transaction == wire.transaction);
    }

    /// Without media for a minute a telephone hangs up, and when its session expires.
    pub(super) fn look(&mut self, phone: usize) {
        self.after(10_000, Happening::Look(phone));
        for (key, talk) in self.phones[phone].talks.clone() {
            let age = self.now - talk.refreshed_at;
            let has_peer = self.phones[talk.peer].talks.contains_key(&key);
            let lonely_since = match has_peer {
                true => None,
                false => Some(talk.lonely_since.unwrap_or(self.now)),
            };
            self.phones[phone].talks.get_mut(&key).unwrap().lonely_since = lonely_since;
            let is_lonely = lonely_since.is_some_and(|since| self.now - since >= 60_000);
            if is_lonely || (talk.has_timer && age > SESSION_MS) {
                self.hang_up(phone, key);
            } else if talk.has_timer && talk.role == Role::Caller && age > SESSION_MS / 2 {
                self.request(phone, key, "UPDATE", "");
            }
        }
    }
}
