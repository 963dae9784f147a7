//! What the proxy forwards, and what it tells the table.

use busyhour_proxy::dialogs::{DialogRequest, ProbeOutcome, Role};
use busyhour_sip::Message;

use super::{Forwarded, Happening, Invite, Key, PHONES, SESSION, Wire, World};
use crate::rig::user;

impl World {
    pub(super) fn at_proxy(&mut self, wire: Wire) {
        match (wire.method, wire.to, wire.status) {
            ("INVITE", None, 0) => self.fork(wire),
            ("CANCEL", _, 0) => self.cancel_branches(wire.transaction, true),
            ("INVITE", None, _) => self.branch_response(wire),
            ("ACK", ..) => {
                self.tell_request(&wire);
                self.send_to_phone(wire.to.unwrap_or(0), wire);
            }
            (_, _, 0) => self.forward(wire),
            _ => self.forward_response(wire),
        }
    }

    pub(super) fn fork(&mut self, wire: Wire) {
        if self.proxy.invites.contains_key(&wire.transaction) {
            return;
        }
        let text = self.text(&wire, "");
        let caller = user(PHONES[wire.from].1);
        let handle = self.rig.invite_text(&text, &caller);
        let phones = PHONES.iter().enumerate();
        let of_callee = phones.filter(|(_, (_, device))| *device == wire.callee);
        let targets: Vec<usize> = of_callee.map(|(phone, _)| phone).collect();
        for (branch, target) in targets.iter().enumerate() {
            if let Some(handle) = handle {
                self.rig
                    .dialogs
                    .forwarded(handle, branch as u16, user(wire.callee));
            }
            let copy = Wire {
                branch: branch as u16,
                ..wire.clone()
            };
            self.send_to_phone(*target, copy);
            self.after(
                180_000,
                Happening::BranchTimeout(wire.transaction, branch as u16),
            );
        }
        let invite = Invite {
            handle,
            branches: vec![None; targets.len()],
            targets,
            is_done: false,
            wire: wire.clone(),
        };
        self.proxy.invites.insert(wire.transaction, invite);
    }

    pub(super) fn cancel_branches(&mut self, transaction: u64, by_caller: bool) {
        let Some(invite) = self.proxy.invites.get(&transaction) else {
            return;
        };
        if by_caller && let Some(handle) = invite.handle {
            self.rig.dialogs.cancelled(handle);
        }
        let wire = Wire {
            method: "CANCEL",
            ..invite.wire.clone()
        };
        let branches = invite.branches.iter().zip(&invite.targets).enumerate();
        let open = branches.filter(|(_, (status, _))| status.is_none());
        for (branch, target) in open.map(|(b, (_, t))| (b as u16, *t)).collect::<Vec<_>>() {
            self.send_to_phone(
                target,
                Wire {
                    branch,
                    ..wire.clone()
                },
            );
            self.after(32_000, Happening::BranchTimeout(transaction, branch));
        }
    }

    pub(super) fn branch_response(&mut self, wire: Wire) {
        let now = self.rig.now;
        let text = self.text(&wire, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let Some(invite) = self.proxy.invites.get_mut(&wire.transaction) else {
            return;
        };
        let before = invite.branches[usize::from(wire.branch)];
        // RFC 6026 §7.2: after a final response only another 2xx passes.
        if before.is_some() && !(before == Some(200) && wire.status == 200) {
            return;
        }
        if let Some(handle) = invite.handle {
            let out = &mut self.rig.out;
            self.rig
                .dialogs
                .response(now, handle, wire.branch, &message, out);
            self.rig.apply();
        }
        if wire.status < 200 {
            return;
        }
        invite.branches[usize::from(wire.branch)] = Some(wire.status);
        if wire.status == 200 {
            let is_first = !std::mem::replace(&mut invite.is_done, true);
            let caller = invite.wire.from;
            if is_first {
                self.cancel_branches(wire.transaction, false);
            }
            return self.send_to_phone(caller, wire);
        }
        self.conclude_invite(wire.transaction);
    }

    pub(super) fn conclude_invite(&mut self, transaction: u64) {
        let Some(invite) = self.proxy.invites.get_mut(&transaction) else {
            return;
        };
        if invite.is_done || invite.branches.iter().any(Option::is_none) {
            return;
        }
        invite.is_done = true;
        let status = invite
            .branches
            .iter()
            .flatten()
            .copied()
            .min()
            .unwrap_or(480);
        let (wire, handle) = (invite.wire.clone(), invite.handle);
        if let Some(handle) = handle {
            self.rig.refused(handle, status);
        }
        self.send_to_phone(wire.from, Wire { status, ..wire });
    }

    pub(super) fn branch_timeout(&mut self, transaction: u64, branch: u16) {
        let Some(invite) = self.proxy.invites.get_mut(&transaction) else {
            return;
        };
        let status = &mut invite.branches[usize::from(branch)];
        if status.is_some() {
            return;
        }
        *status = Some(408);
        if let Some(handle) = invite.handle {
            self.rig.failed(handle, branch, 408);
        }
        // Timer C (RFC 3261 §16.8) cancels it as well.
        let cancel = Wire {
            method: "CANCEL",
            branch,
            ..invite.wire.clone()
        };
        let target = invite.targets[usize::from(branch)];
        self.send_to_phone(target, cancel);
        self.conclude_invite(transaction);
    }

    pub(super) fn tell_request(&mut self, wire: &Wire) -> Option<DialogRequest> {
        let text = self.text(wire, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let flow = user(PHONES[wire.from].1).flow;
        let now = self.rig.now;
        let known = self
            .rig
            .dialogs
            .request(now, &message, flow, &mut self.rig.out);
        self.rig.apply();
        known
    }

    pub(super) fn forward(&mut self, wire: Wire) {
        if self.proxy.requests.contains_key(&wire.transaction) {
            return;
        }
        let known = self.tell_request(&wire);
        let forwarded = Forwarded {
            wire: wire.clone(),
            known,
            is_done: false,
        };
        self.proxy.requests.insert(wire.transaction, forwarded);
        self.after(32_000, Happening::RequestTimeout(wire.transaction));
        self.send_to_phone(wire.to.expect("a dialog"), wire);
    }

    pub(super) fn forward_response(&mut self, wire: Wire) {
        let text = self.text(&wire, SESSION);
        let Some(forwarded) = self.proxy.requests.get_mut(&wire.transaction) else {
            return;
        };
        if std::mem::replace(&mut forwarded.is_done, true) {
            return;
        }
        let message = Message::parse(text.as_bytes()).expect("sound");
        let (now, at) = (self.rig.now, self.rig.at());
        match forwarded.known {
            Some(known) => self
                .rig
                .dialogs
                .answered(now, known, &message, &mut self.rig.out),
            None => {
                let mut parties = [wire.from, wire.to.unwrap()].map(|it| user(PHONES[it].1));
                if wire.sender == Role::Callee {
                    parties.reverse();
                }
                self.rig
                    .dialogs
                    .adopt(at, &message, parties, wire.sender, &mut self.rig.out);
            }
        }
        self.rig.apply();
        self.send_to_phone(wire.from, wire);
    }

    pub(super) fn request_timeout(&mut self, transaction: u64) {
        let Some(forwarded) = self.proxy.requests.get_mut(&transaction) else {
            return;
        };
        if std::mem::replace(&mut forwarded.is_done, true) {
            return;
        }
        let (known, wire) = (forwarded.known, forwarded.wire.clone());
        if let Some(known) = known {
            let now = self.rig.now;
            self.rig
                .dialogs
                .unanswered(now, known, 408, &mut self.rig.out);
            self.rig.apply();
        }
        self.send_to_phone(
            wire.from,
            Wire {
                status: 408,
                ..wire
            },
        );
    }

    /// Probes are sent again for 32 seconds, so only a telephone that is off misses one.
    pub(super) fn probe(&mut self) {
        for probe in std::mem::take(&mut self.rig.probes) {
            let mut text = Vec::new();
            probe.write(
                &mut text,
                "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKp",
                None,
                None,
            );
            let options = Message::parse(&text).expect("sound");
            let number = |text: &str| text[1..].parse::<u64>().expect("a number");
            let call = number(options.call_id().unwrap());
            let tags =
                [options.from(), options.to()].map(|it| it.unwrap().tag().unwrap().to_owned());
            let tag = tags
                .iter()
                .find(|tag| tag.starts_with('t'))
                .expect("the callee's");
            let key = Key {
                call,
                tag: number(tag),
            };
            let name = probe
                .uri
                .trim_start_matches("sip:")
                .split('@')
                .next()
                .unwrap_or("");
            let phone = self
                .phones
                .iter()
                .find(|phone| phone.name == name)
                .expect("a telephone");
            let (wait, outcome) = match (phone.is_off, phone.talks.contains_key(&key)) {
                (true, _) => (32_000, ProbeOutcome::Silent),
                (false, true) => (50, ProbeOutcome::Answered(500)),
                (false, false) => (50, ProbeOutcome::Answered(481)),
            };
            self.after(wait, Happening::Probed(probe.id, outcome));
        }
    }
}
