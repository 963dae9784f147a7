//! A table with its devices, and messages as text.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_proxy::dialogs::{
    CallEvent, CallHandle, CallRecord, DialogActions, DialogPolicy, DialogRequest, Dialogs,
    LiveCall, Party, Probe,
};
use busyhour_registrar::{
    Now,
    watch::{DeviceDialogs, DialogChange, DialogEnd, DialogInfo, DialogStep, LineState},
};
use busyhour_sip::{Flow, Message};

/// A table and what follows from it. It checks with each change that dialogs only go
/// forward and that their versions grow.
pub struct Rig {
    pub dialogs: Dialogs,
    pub now: Instant,
    pub out: DialogActions,
    pub progressed: Vec<LiveCall>,
    pub records: Vec<CallRecord>,
    /// Call-IDs whose calls have ended.
    pub ended: Vec<Arc<str>>,
    pub probes: Vec<Probe>,
    pub changes: Vec<DialogChange>,
    devices: BTreeMap<Name, DeviceDialogs>,
    seen: BTreeMap<(Name, u64), (u64, Option<DialogInfo>)>,
}

/// What a message says of its dialog.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub call_id: &'a str,
    pub from: &'a str,
    pub from_tag: &'a str,
    pub to: &'a str,
    /// Empty is none.
    pub to_tag: &'a str,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(DialogPolicy::default())
    }

    pub fn with(policy: DialogPolicy) -> Self {
        Self {
            dialogs: Dialogs::new(7, 1, policy),
            now: Instant::ZERO + Duration::from_secs(1_000),
            out: DialogActions::default(),
            progressed: Vec::new(),
            records: Vec::new(),
            ended: Vec::new(),
            probes: Vec::new(),
            changes: Vec::new(),
            devices: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    pub fn at(&self) -> Now {
        let unix = UnixTime::from_secs(1_800_000_000) + (self.now - Instant::ZERO);
        Now {
            now: self.now,
            unix,
            steady: unix,
        }
    }

    pub fn invite(&mut self, names: Names<'_>, body: &str) -> Option<CallHandle> {
        let text = request("INVITE", 1, names, body);
        self.invite_text(&text, &user(names.from))
    }

    pub fn invite_text(&mut self, text: &str, caller: &Party) -> Option<CallHandle> {
        let message = Message::parse(text.as_bytes()).expect("sound");
        let at = self.at();
        let call = self.dialogs.invite(
            at,
            &message,
            caller.clone(),
            caller.device.as_ref(),
            &mut self.out,
        );
        self.apply();
        call
    }

    /// A response to the INVITE comes on a branch.
    pub fn response(&mut self, call: CallHandle, branch: u16, status: u16, names: Names<'_>) {
        self.response_with(call, branch, status, names, "");
    }

    pub fn response_with(
        &mut self,
        call: CallHandle,
        branch: u16,
        status: u16,
        names: Names<'_>,
        body: &str,
    ) {
        let text = response(status, 1, "INVITE", names, body);
        let message = Message::parse(text.as_bytes()).expect("sound");
        self.dialogs
            .response(self.now, call, branch, &message, &mut self.out);
        self.apply();
    }

    pub fn refused(&mut self, call: CallHandle, status: u16) {
        self.dialogs.refused(self.now, call, status, &mut self.out);
        self.apply();
    }

    pub fn failed(&mut self, call: CallHandle, branch: u16, status: u16) {
        self.dialogs
            .failed(self.now, call, branch, status, &mut self.out);
        self.apply();
    }

    /// A request within the dialog.
    pub fn within(
        &mut self,
        method: &str,
        cseq: u32,
        names: Names<'_>,
        body: &str,
    ) -> Option<DialogRequest> {
        let text = request(method, cseq, names, body);
        let message = Message::parse(text.as_bytes()).expect("sound");
        let flow = user(names.from).flow;
        let request = self
            .dialogs
            .request(self.now, &message, flow, &mut self.out);
        self.apply();
        request
    }

    /// An INFO or the like that comes on the flow of `sender`, whatever From says.
    pub fn within_from(
        &mut self,
        sender: &Party,
        method: &str,
        names: Names<'_>,
    ) -> Option<DialogRequest> {
        let text = request(method, 9, names, "");
        let message = Message::parse(text.as_bytes()).expect("sound");
        let request = self
            .dialogs
            .request(self.now, &message, sender.flow, &mut self.out);
        self.apply();
        request
    }

    pub fn answered(&mut self, request: DialogRequest, response: &str) {
        let message = Message::parse(response.as_bytes()).expect("sound");
        self.dialogs
            .answered(self.now, request, &message, &mut self.out);
        self.apply();
    }

    /// Time passes, and all that is due is done when it is due.
    pub fn wait(&mut self, seconds: u64) {
        self.wait_until(self.now + Duration::from_secs(seconds));
    }

    pub fn wait_until(&mut self, until: Instant) {
        while let Some(next) = self.dialogs.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.dialogs.expire(self.now, &mut self.out);
            self.apply();
        }
        self.now = until;
    }

    /// The line of a device; `Idle` if it has no dialog.
    pub fn line(&self, user: &str) -> LineState {
        let device = self.devices.get(&aor(user));
        device
            .and_then(DeviceDialogs::line)
            .unwrap_or(LineState::Idle)
    }

    pub fn infos(&self, user: &str) -> Vec<DialogInfo> {
        let device = self.devices.get(&aor(user));
        let live = device.into_iter().flat_map(DeviceDialogs::live);
        live.map(|(_, info)| info.clone()).collect()
    }

    /// The states of a device's dialogs, in order.
    pub fn states(&self, user: &str) -> Vec<&'static str> {
        self.infos(user)
            .iter()
            .map(|info| info.state.as_str())
            .collect()
    }

    /// Why dialogs of a device have ended, in order.
    pub fn ends(&self, user: &str) -> Vec<DialogEnd> {
        let of_user = self
            .changes
            .iter()
            .filter(|change| change.device == aor(user));
        let ends = of_user.filter_map(|change| match change.step {
            DialogStep::Ended { end, .. } => Some(end),
            DialogStep::Is(_) => None,
        });
        ends.collect()
    }

    /// A call from alice to bob that is answered and acknowledged.
    pub fn talk(&mut self) -> CallHandle {
        self.talk_with(SENDRECV, "", SENDRECV)
    }

    pub fn talk_with(&mut self, offer: &str, headers: &str, answer: &str) -> CallHandle {
        let call = self.invite(AB, offer).expect("room");
        self.dialogs.forwarded(call, 0, user("bob"));
        let text = response(200, 1, "INVITE", ABT, answer);
        let text = text.replacen("\r\n", &format!("\r\n{headers}"), 1);
        let message = Message::parse(text.as_bytes()).expect("sound");
        self.dialogs
            .response(self.now, call, 0, &message, &mut self.out);
        self.apply();
        self.within("ACK", 1, ABT, "");
        call
    }

    pub fn apply(&mut self) {
        for replaced in std::mem::take(&mut self.out.replaced) {
            self.dialogs.replace(self.now, &replaced, &mut self.out);
        }
        self.probes.append(&mut self.out.probes);
        self.ended.append(&mut self.out.ended);
        for event in std::mem::take(&mut self.out.calls) {
            match event {
                CallEvent::Began(call) | CallEvent::Answered(call) => self.progressed.push(call),
                CallEvent::Ended(record) => self.records.push(record),
            }
        }
        for change in std::mem::take(&mut self.out.changes) {
            self.check(&change);
            self.changes.push(change.clone());
            let device = self.devices.entry(change.device.clone()).or_default();
            device.apply(change);
        }
    }

    /// Forbidden: a dialog that goes back, that comes back, or whose version does not
    /// grow.
    fn check(&mut self, change: &DialogChange) {
        let key = (change.device.clone(), change.id);
        let before = self.seen.get(&key).cloned();
        let info = match &change.step {
            DialogStep::Is(info) => Some(info.clone()),
            DialogStep::Ended { .. } => None,
        };
        if let Some((version, before)) = before {
            assert!(change.version > version, "a version that does not grow");
            let before = before.expect("a dialog that comes back");
            if let Some(info) = &info {
                assert!(info.state >= before.state, "a dialog that goes back");
            }
        } else {
            assert!(
                info.is_some(),
                "the end of a dialog that nobody was told of"
            );
        }
        self.seen.insert(key, (change.version, info));
    }
}

impl<'a> Names<'a> {
    /// The same dialog with this tag of the callee.
    pub fn to_tag(self, to_tag: &'a str) -> Self {
        Self { to_tag, ..self }
    }

    /// As the other side names it.
    pub fn reversed(self) -> Self {
        Self {
            call_id: self.call_id,
            from: self.to,
            from_tag: self.to_tag,
            to: self.from,
            to_tag: self.from_tag,
        }
    }
}

pub fn request(method: &str, cseq: u32, names: Names<'_>, body: &str) -> String {
    let line = format!("{method} sip:{}@example.com SIP/2.0\r\n", names.to);
    line + &headers(cseq, method, names, names.from, body)
}

pub fn response(status: u16, cseq: u32, method: &str, names: Names<'_>, body: &str) -> String {
    let line = format!("SIP/2.0 {status} Because\r\n");
    line + &headers(cseq, method, names, names.to, body)
}

/// All that follows the first line; `sender` is the user part of Contact.
pub fn headers(cseq: u32, method: &str, names: Names<'_>, sender: &str, body: &str) -> String {
    let Names {
        call_id,
        from,
        from_tag,
        to,
        to_tag,
    } = names;
    let to_tag = match to_tag {
        "" => String::new(),
        tag => format!(";tag={tag}"),
    };
    let media = match body {
        "" => "",
        _ => "Content-Type: application/sdp\r\n",
    };
    format!(
        "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{cseq}\r\n\
         From: \"{from}\" <sip:{from}@example.com>;tag={from_tag}\r\n\
         To: <sip:{to}@example.com>{to_tag}\r\nCall-ID: {call_id}\r\n\
         CSeq: {cseq} {method}\r\nContact: <sip:{sender}@192.0.2.9>\r\n{media}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Our user of this name; one that begins with `#` is a peer, with `+` nobody
/// in particular.
pub fn user(name: &str) -> Party {
    let port = 10_000 + name.bytes().map(u16::from).sum::<u16>();
    let remote = format!("192.0.2.9:{port}").parse().expect("an address");
    let local = "192.0.2.1:5060".parse().expect("an address");
    let flow = Flow::udp(local, remote);
    match name.chars().next() {
        Some('+') => Party::nobody(flow),
        Some('#') => Party::peer(Name::new(name), flow),
        _ => Party::device(aor(name), flow),
    }
}

pub fn aor(user: &str) -> Name {
    Name::new(&format!("sip:{user}@example.com"))
}

/// Alice calls bob, who has no tag yet.
pub const AB: Names<'static> = Names {
    call_id: "c1",
    from: "alice",
    from_tag: "a",
    to: "bob",
    to_tag: "",
};
/// The same with his tag.
pub const ABT: Names<'static> = Names { to_tag: "b", ..AB };
pub const SENDRECV: &str = "m=audio 4000 RTP/AVP 0\r\n";
pub const SENDONLY: &str = "m=audio 4000 RTP/AVP 0\r\na=sendonly\r\n";
pub const RECVONLY: &str = "m=audio 4000 RTP/AVP 0\r\na=recvonly\r\n";
