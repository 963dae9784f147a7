//! A device according to RFC 5456: it registers, unregisters, and remembers what the
//! server acknowledged.

use crate::faults::SECOND;
use crate::host::PASSWORD;
use crate::random::Random;
use crate::wire::*;
use std::net::SocketAddr;

pub struct Device {
    pub user: String,
    pub address: SocketAddr,
    pub belief: Belief,
    call: Option<Call>,
    last_call: u16,
    next_at: u64,
}

/// What a device knows of its registration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Belief {
    /// It may be registered or not: a call ended without an answer.
    Unknown,
    /// It is registered until this time.
    Registered { until: u64 },
    /// It is not registered.
    Released,
}

/// A call from the device's side.
struct Call {
    number: u16,
    subclass: u8,
    refresh_s: u16,
    begun_at: u64,
    peer: u16,
    oseq: u8,
    iseq: u8,
    sent: Wire,
    interval: u64,
    resend_at: u64,
}

impl Device {
    pub fn new(number: usize, random: &mut Random) -> Self {
        Self {
            user: format!("device{number}"),
            address: SocketAddr::from(([10, 0, 0, number as u8 + 1], 4569)),
            belief: Belief::Released,
            call: None,
            last_call: random.within(0, 0x7fff) as u16,
            next_at: random.within(0, 10 * SECOND),
        }
    }

    pub fn next_wake(&self) -> u64 {
        self.call
            .as_ref()
            .map_or(self.next_at, |call| call.resend_at)
    }

    pub fn is_idle(&self) -> bool {
        self.call.is_none()
    }

    /// The next call begins at this time.
    pub fn call_at(&mut self, at: u64) {
        self.next_at = at;
    }

    pub fn contact(&self) -> String {
        format!("iax:{}@{}", self.user, self.address)
    }

    /// Begins a call, or retransmits an unanswered frame.
    pub fn wake(&mut self, now: u64, random: &mut Random, out: &mut Vec<Wire>) {
        let Some(call) = &mut self.call else {
            return self.begin(now, random, out);
        };
        if now >= call.begun_at + GIVE_UP {
            self.call = None;
            self.next_at = now + random.within(0, 20 * SECOND);
            return;
        }
        call.sent.is_again = true;
        out.push(call.sent.clone());
        call.interval = (2 * call.interval).min(4 * SECOND);
        call.resend_at = now + call.interval;
    }

    pub fn receive(&mut self, now: u64, frame: &Wire, random: &mut Random, out: &mut Vec<Wire>) {
        let Some(call) = self.call.as_mut().filter(|call| call.number == frame.dcall) else {
            if !matches!(frame.subclass, ACK | INVAL | VNAK | CALLTOKEN) {
                out.push(reply(frame, INVAL, frame.iseq, frame.oseq));
            }
            return;
        };
        match frame.subclass {
            CALLTOKEN => return call.vouch(now, frame, out),
            INVAL => return self.end(now, random),
            ACK => return call.resend_at = call.begun_at + GIVE_UP,
            VNAK => return out.push(call.sent.clone()),
            _ if call.peer != 0 && call.peer != frame.scall => {
                return out.push(reply(frame, INVAL, frame.iseq, frame.oseq));
            }
            _ => {}
        }
        match frame.oseq.wrapping_sub(call.iseq) as i8 {
            0 => call.iseq += 1,
            behind if behind < 0 => return out.push(reply(frame, ACK, call.oseq, call.iseq)),
            _ => return out.push(reply(frame, VNAK, call.oseq, call.iseq)),
        }
        self.take(now, frame, random, out);
    }

    /// Takes the next frame in order.
    fn take(&mut self, now: u64, frame: &Wire, random: &mut Random, out: &mut Vec<Wire>) {
        let Some(call) = &mut self.call else { return };
        match frame.subclass {
            REGAUTH => call.prove(now, frame, &self.user, out),
            REGACK => {
                out.push(reply(frame, ACK, call.oseq, call.iseq));
                assert_eq!(frame.text(IE_USERNAME), self.user);
                let (subclass, begun_at) = (call.subclass, call.begun_at);
                self.belief = believed(subclass, frame, begun_at);
                self.end(now, random);
            }
            REGREJ => {
                out.push(reply(frame, ACK, call.oseq, call.iseq));
                let code = frame.element(IE_CAUSECODE);
                assert_eq!(
                    code,
                    Some(&[41][..]),
                    "a registration is refused only when the store fails"
                );
                self.end(now, random);
            }
            _ => out.push(reply(frame, ACK, call.oseq, call.iseq)),
        }
    }

    fn begin(&mut self, now: u64, random: &mut Random, out: &mut Vec<Wire>) {
        self.last_call = self.last_call % 0x7fff + 1;
        let refresh_s = random.within(10, 100) as u16;
        let subclass = if random.permille(250) { REGREL } else { REGREQ };
        let sent = Wire {
            scall: self.last_call,
            ts: random.within(1, 5) as u32,
            subclass,
            ..Wire::default()
        };
        let sent = sent
            .with(IE_USERNAME, self.user.as_str())
            .with(IE_REFRESH, refresh_s.to_be_bytes())
            .with(IE_CALLTOKEN, "");
        self.belief = Belief::Unknown;
        out.push(sent.clone());
        self.call = Some(Call {
            number: self.last_call,
            subclass,
            refresh_s,
            begun_at: now,
            peer: 0,
            oseq: 1,
            iseq: 0,
            sent,
            interval: SECOND / 2,
            resend_at: now + SECOND / 2,
        });
    }

    fn end(&mut self, now: u64, random: &mut Random) {
        self.call = None;
        self.next_at = now + random.within(0, 30 * SECOND);
    }
}

impl Call {
    /// Sends the first frame again, with the token.
    fn vouch(&mut self, now: u64, frame: &Wire, out: &mut Vec<Wire>) {
        if self.peer != 0 {
            return;
        }
        let token = frame.element(IE_CALLTOKEN).expect("a token");
        self.sent.elements[2].1 = token.to_vec();
        self.send(now, out);
    }

    fn prove(&mut self, now: u64, frame: &Wire, user: &str, out: &mut Vec<Wire>) {
        self.peer = frame.scall;
        let result = md5_result(&frame.text(IE_CHALLENGE), PASSWORD);
        let proof = Wire {
            scall: self.number,
            dcall: self.peer,
            ts: ((now - self.begun_at) / 1_000_000) as u32 + 5,
            oseq: self.oseq,
            iseq: self.iseq,
            subclass: self.subclass,
            ..Wire::default()
        };
        self.sent = proof
            .with(IE_USERNAME, user)
            .with(IE_REFRESH, self.refresh_s.to_be_bytes())
            .with(IE_MD5_RESULT, result);
        self.oseq += 1;
        self.send(now, out);
    }

    fn send(&mut self, now: u64, out: &mut Vec<Wire>) {
        self.sent.is_again = false;
        out.push(self.sent.clone());
        self.interval = SECOND / 2;
        self.resend_at = now + self.interval;
    }
}

/// A registration begins when the server grants it, which is after the call
/// began.
fn believed(subclass: u8, frame: &Wire, begun_at: u64) -> Belief {
    if subclass == REGREL {
        return Belief::Released;
    }
    let refresh = frame.element(IE_REFRESH).expect("a refresh");
    let refresh_s = u64::from(u16::from_be_bytes(refresh.try_into().expect("two")));
    Belief::Registered {
        until: begun_at + refresh_s * SECOND,
    }
}

fn reply(to: &Wire, subclass: u8, oseq: u8, iseq: u8) -> Wire {
    Wire {
        scall: to.dcall,
        dcall: to.scall,
        ts: to.ts,
        oseq,
        iseq,
        subclass,
        ..Wire::default()
    }
}

/// How long a device retransmits.
pub const GIVE_UP: u64 = 16 * SECOND;
