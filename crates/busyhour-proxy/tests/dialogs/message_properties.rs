//! What holds for any messages in any order; the fuzz target has the same body.

use busyhour::clock::{Instant, UnixTime};
use busyhour_proxy::dialogs::{
    CallHandle, DialogActions, DialogPolicy, DialogRequest, Dialogs, EndedFlow, Party,
    ProbeOutcome, Role,
};
use busyhour_registrar::{Now, watch::DeviceDialogs};
use busyhour_sip::{Flow, Message, Method};
use std::{collections::BTreeMap, time::Duration};

/// The bytes are messages with a zero between them, forwarded one after the other. Nothing
/// panics, and when nothing more is heard, no dialog, call or timer is left.
pub fn hold(bytes: &[u8]) {
    let mut table = Table {
        dialogs: Dialogs::new(1, 0, DialogPolicy::default()),
        out: DialogActions::default(),
        now: Instant::ZERO,
        call: None,
        request: None,
        devices: BTreeMap::new(),
    };
    for (index, chunk) in bytes.split(|byte| *byte == 0).enumerate() {
        match Message::parse(chunk) {
            Ok(message) => table.message(&message, index),
            Err(_) => table.other(chunk),
        }
        table.follow();
    }
    while let Some(next) = table.dialogs.next_deadline() {
        assert!(
            next < Instant::ZERO + Duration::from_secs(1_000_000),
            "a deadline that moves on"
        );
        table.now = table.now.max(next);
        table.dialogs.expire(table.now, &mut table.out);
        table.follow();
    }
    assert!(table.dialogs.is_empty() && table.dialogs.live().count() == 0);
    assert!(table.devices.values().all(|device| device.line().is_none()));
}

struct Table {
    dialogs: Dialogs,
    out: DialogActions,
    now: Instant,
    call: Option<CallHandle>,
    request: Option<DialogRequest>,
    devices: BTreeMap<String, DeviceDialogs>,
}

impl Table {
    fn message(&mut self, message: &Message<'_>, index: usize) {
        let (now, out) = (self.now, &mut self.out);
        let is_in_dialog = message.to().is_ok_and(|to| to.tag().is_some());
        match (message.method(), self.call, self.request) {
            (Some(Method::Invite), ..) if !is_in_dialog => {
                let unix = UnixTime::from_secs(1);
                let at = Now {
                    now,
                    unix,
                    steady: unix,
                };
                self.call = self.dialogs.invite(at, message, party(0), None, out);
                if let Some(call) = self.call {
                    self.dialogs.forwarded(call, 0, party(1));
                    self.dialogs.forwarded(call, 1, party(2));
                }
            }
            (Some(_), ..) => self.request = self.dialogs.request(now, message, party(0).flow, out),
            (None, Some(call), None) => {
                self.dialogs
                    .response(now, call, index as u16 % 2, message, out);
            }
            (None, _, Some(request)) => self.dialogs.answered(now, request, message, out),
            (None, None, None) => {
                let unix = UnixTime::from_secs(1);
                let at = Now {
                    now,
                    unix,
                    steady: unix,
                };
                self.dialogs
                    .adopt(at, message, [party(0), party(1)], Role::Caller, out);
            }
        }
    }

    /// What is no message says what else happens.
    fn other(&mut self, chunk: &[u8]) {
        let (now, out, number) = (self.now, &mut self.out, chunk.len() as u16);
        match (chunk.first(), self.call, self.request) {
            (Some(b'r'), Some(call), _) => self.dialogs.refused(now, call, 400 + number % 200, out),
            (Some(b'c'), Some(call), _) => self.dialogs.cancelled(call),
            (Some(b'f'), Some(call), _) => self.dialogs.failed(now, call, number % 2, 408, out),
            (Some(b'u'), _, Some(request)) => self.dialogs.unanswered(now, request, 408, out),
            (Some(b'n'), ..) => self.request = None,
            (Some(b'e'), ..) => {
                let device = party(u8::try_from(number % 3).unwrap_or(0))
                    .device
                    .expect("ours");
                self.dialogs.flow_ended(
                    now,
                    EndedFlow {
                        device: &device,
                        flow: None,
                    },
                );
            }
            _ => {
                self.now = now + Duration::from_secs(u64::from(number) * 10);
                self.dialogs.expire(self.now, out);
            }
        }
    }

    fn follow(&mut self) {
        for replaced in std::mem::take(&mut self.out.replaced) {
            self.dialogs.replace(self.now, &replaced, &mut self.out);
        }
        for probe in std::mem::take(&mut self.out.probes) {
            probe.write(&mut Vec::new(), "SIP/2.0/UDP a;branch=z9hG4bKp", None, None);
            let outcome = match self.now.as_nanos() % 3 {
                0 => ProbeOutcome::Answered(481),
                _ => ProbeOutcome::Silent,
            };
            self.dialogs
                .probed(self.now, probe.id, outcome, &mut self.out);
        }
        for change in self.out.changes.drain(..) {
            let device = self.devices.entry(change.device.to_string()).or_default();
            device.apply(change);
        }
        self.out.clear();
    }
}

fn party(number: u8) -> Party {
    let remote = ([192, 0, 2, number], 5_060).into();
    let aor = busyhour::bus::Name::new(&format!("sip:{number}@x"));
    Party::device(aor, Flow::udp(([192, 0, 2, 1], 5_060).into(), remote))
}
