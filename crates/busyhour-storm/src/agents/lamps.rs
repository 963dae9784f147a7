//! The lamps of the called devices: what happened to each device, what its watcher was
//! told, and whether that is right.

use busyhour::clock::Instant;
use hdrhistogram::Histogram;

use crate::plan::call_plan::CallPlan;
use crate::results::call_tally::{histogram, note};

/// How far the call of a device is. A call only goes forwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LampState {
    /// There is none.
    #[default]
    Idle,
    /// The INVITE is on its way.
    Trying,
    /// It rings.
    Early,
    /// It was answered.
    Confirmed,
    /// It is over.
    Terminated,
}

/// Something that a side of a call did, which its lamp must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Happened {
    pub device: u32,
    pub stage: LampState,
}

/// One lamp for each device. A device has one call at a time, and no new one while its lamp
/// is lit. A notifier may skip states (RFC 6665 §4.2.1): of a call that was over before a
/// NOTIFY could tell of it, there is perhaps none, and the next call begins nevertheless.
/// The Call-ID says to which of the last two calls a NOTIFY belongs.
#[derive(Debug)]
pub(crate) struct Lamps {
    lamps: Vec<Lamp>,
    /// Of calls that are not among the last two of their device.
    skipped_of_forgotten: u64,
    pub tally: LampTally,
}

/// The counts of all lamps.
#[derive(Clone, Debug)]
pub(crate) struct LampTally {
    /// How often a watcher was told a state that it did not know.
    pub told: u64,
    /// States that came again.
    pub repeated: u64,
    /// States that were shown after a later one of the same call, or before they were so.
    pub stale: u64,
    /// From a state until its NOTIFY.
    pub told_ns: Histogram<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lamp {
    call: LampCall,
    before: LampCall,
    is_lit: bool,
}

/// What happened to a call, and what the watcher was told of it.
#[derive(Clone, Copy, Debug, Default)]
struct LampCall {
    number: Option<u32>,
    happened: LampState,
    told: LampState,
    /// When it rang, was answered, was over.
    since: [Option<Instant>; 3],
    was_told: [bool; 3],
}

/// What a NOTIFY shows, and of which call if it says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShownState {
    state: LampState,
    call: Option<u32>,
}

impl Lamps {
    pub fn new(devices: u32) -> Self {
        Self {
            lamps: vec![Lamp::default(); devices as usize],
            skipped_of_forgotten: 0,
            tally: LampTally {
                told: 0,
                repeated: 0,
                stale: 0,
                told_ns: histogram(),
            },
        }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.lamps.len() as u64
    }

    /// Whether the device can be called: its last call is over, and its lamp is dark.
    pub fn is_dark(&self, device: u32) -> bool {
        let lamp = self.lamps.get(device as usize);
        lamp.is_none_or(|lamp| !lamp.is_lit && (lamp.call.is_told() || lamp.call.is_superseded()))
    }

    /// The call of this number begins.
    pub fn begin(&mut self, device: u32, number: u32) {
        let Some(lamp) = self.lamps.get_mut(device as usize) else {
            return;
        };
        let next = LampCall {
            number: Some(number),
            ..LampCall::default()
        };
        let last = std::mem::replace(&mut lamp.call, next);
        let forgotten = std::mem::replace(&mut lamp.before, last);
        self.skipped_of_forgotten += forgotten.skipped();
    }

    /// What a side of the call did. Of several contacts the first that rings and the one
    /// that answers count.
    pub fn happened(&mut self, now: Instant, Happened { device, stage }: Happened) {
        if let Some(lamp) = self.lamps.get_mut(device as usize) {
            lamp.call.happened(now, stage);
        }
    }

    /// A NOTIFY came, with this body.
    pub fn notified(&mut self, now: Instant, device: u32, body: &[u8]) {
        let shown = shown_by(body);
        if let Some(lamp) = self.lamps.get_mut(device as usize) {
            lamp.is_lit = shown.state > LampState::Idle;
            if let Some(call) = lamp.shown_call(shown) {
                call.notified(now, shown.state, &mut self.tally);
            }
        }
    }

    /// States that no NOTIFY told, of calls whose end was told or that another call followed.
    pub fn skipped(&self) -> u64 {
        let is_over = |call: &LampCall| call.told == LampState::Terminated;
        let last = self.lamps.iter().map(|lamp| lamp.call).filter(is_over);
        let all = last.chain(self.lamps.iter().map(|lamp| lamp.before));
        self.skipped_of_forgotten + all.map(|call| call.skipped()).sum::<u64>()
    }

    /// Lamps that are lit, or were not told that the last call is over.
    pub fn wrong(&self) -> u64 {
        let lamps = self.lamps.iter();
        let wrong = lamps.filter(|lamp| lamp.is_lit || !lamp.call.is_told());
        wrong.count() as u64
    }
}

impl Lamp {
    /// The call that a NOTIFY is of; `None` if it is of an earlier one.
    fn shown_call(&mut self, shown: ShownState) -> Option<&mut LampCall> {
        let Self { call, before, .. } = self;
        match shown.call {
            // A dark lamp is the end of what was shown.
            None if shown.state == LampState::Idle && before.is_shown() => Some(before),
            None => Some(call),
            of if of == call.number => Some(call),
            of if of == before.number => Some(before),
            Some(_) => None,
        }
    }
}

impl LampCall {
    /// Whether the watcher knows all that happened.
    fn is_told(&self) -> bool {
        self.told == self.happened
    }

    /// Whether it was over before the watcher was told anything.
    fn is_superseded(&self) -> bool {
        (self.happened, self.told) == (LampState::Terminated, LampState::Idle)
    }

    /// Whether the watcher was told of it, and not of its end.
    fn is_shown(&self) -> bool {
        self.told > LampState::Idle && self.told < LampState::Terminated
    }

    fn happened(&mut self, now: Instant, stage: LampState) {
        if stage == LampState::Terminated && self.happened == LampState::Idle {
            // It ended before it rang, so the watcher need not have been told anything.
            self.told = LampState::Idle;
        } else if stage > self.happened {
            self.happened = stage;
            if let Some(since) = slot(stage).and_then(|slot| self.since.get_mut(slot)) {
                *since = Some(now);
            }
        }
    }

    fn notified(&mut self, now: Instant, shown: LampState, tally: &mut LampTally) {
        let stage = match shown {
            LampState::Idle if self.happened == LampState::Idle => {
                self.told = LampState::Idle;
                return;
            }
            // Nothing is shown before a call, and after one.
            LampState::Idle
                if self.told == LampState::Idle && self.happened < LampState::Terminated =>
            {
                return;
            }
            LampState::Idle => LampState::Terminated,
            lit => lit,
        };
        if stage < self.told || (stage > self.happened && stage > LampState::Trying) {
            tally.stale += 1;
            return;
        }
        if stage == self.told {
            tally.repeated += 1;
            return;
        }
        self.told = stage;
        tally.told += 1;
        let Some(slot) = slot(stage) else {
            return;
        };
        self.was_told[slot] = true;
        if let Some(since) = self.since[slot] {
            note(&mut tally.told_ns, now - since);
        }
    }

    /// States that happened and were not told.
    fn skipped(&self) -> u64 {
        let states = self.since.iter().zip(self.was_told);
        let skipped = states.filter(|(since, was_told)| since.is_some() && !was_told);
        skipped.count() as u64
    }
}

/// The place of a state with a time.
fn slot(stage: LampState) -> Option<usize> {
    match stage {
        LampState::Idle | LampState::Trying => None,
        LampState::Early => Some(0),
        LampState::Confirmed => Some(1),
        LampState::Terminated => Some(2),
    }
}

/// The state that a lamp shows: that of the dialog which is furthest and not over (RFC
/// 4235 §4.1.2), and its call.
fn shown_by(body: &[u8]) -> ShownState {
    let mut shown = ShownState::default();
    for at in memchr::memmem::find_iter(body, b"<dialog ") {
        let dialog = body.get(at..).unwrap_or_default();
        let state = state_of(dialog);
        if state > shown.state || shown.call.is_none() {
            shown = ShownState {
                state,
                call: call_of(dialog),
            };
        }
    }
    shown
}

fn state_of(dialog: &[u8]) -> LampState {
    let at = memchr::memmem::find(dialog, b"<state");
    let rest = at.and_then(|at| dialog.get(at..)).unwrap_or_default();
    let text = rest.splitn(2, |byte| *byte == b'>').nth(1);
    let text = text.and_then(|text| text.split(|byte| *byte == b'<').next());
    match text.unwrap_or_default().trim_ascii() {
        b"trying" | b"proceeding" => LampState::Trying,
        b"early" => LampState::Early,
        b"confirmed" => LampState::Confirmed,
        _ => LampState::Idle,
    }
}

/// The number of the call in the Call-ID of a dialog.
fn call_of(dialog: &[u8]) -> Option<u32> {
    let tag = dialog.split(|byte| *byte == b'>').next()?;
    let at = memchr::memmem::find(tag, CALL_ID)? + CALL_ID.len();
    let value = tag.get(at..)?.split(|byte| *byte == b'"').next()?;
    CallPlan::number_of(std::str::from_utf8(value).ok()?)
}

const CALL_ID: &[u8] = b" call-id=\"";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn document(states: &[&str]) -> Vec<u8> {
        let dialog = |state: &&str| format!("<dialog id=\"1\"><state>{state}</state></dialog>");
        let dialogs: String = states.iter().map(dialog).collect();
        format!("<dialog-info state=\"full\">{dialogs}</dialog-info>").into_bytes()
    }

    /// Lets all of these happen, and tells the lamp what stands in `documents`.
    fn lamps(happened: &[LampState], documents: &[&[&str]]) -> Lamps {
        let mut lamps = Lamps::new(1);
        lamps.begin(0, 0);
        for stage in happened {
            let stage = *stage;
            lamps.happened(at(1), Happened { device: 0, stage });
        }
        for states in documents {
            lamps.notified(at(3), 0, &document(states));
        }
        lamps
    }

    const ALL: [LampState; 3] = [
        LampState::Early,
        LampState::Confirmed,
        LampState::Terminated,
    ];

    #[test]
    fn a_lamp_that_is_told_each_state_is_right() {
        let lamps = lamps(&ALL, &[&["early"], &["confirmed"], &["terminated"]]);
        let tally = &lamps.tally;
        assert_eq!((lamps.wrong(), tally.told, tally.stale), (0, 3, 0));
        assert_eq!((lamps.skipped(), tally.repeated), (0, 0));
        assert_eq!(tally.told_ns.len(), 3);
        assert_eq!(tally.told_ns.max() / 1_000_000, 2);
    }

    #[test]
    fn a_state_that_is_never_told_is_counted() {
        let lamps = lamps(&ALL, &[&["confirmed"], &[]]);
        assert_eq!((lamps.wrong(), lamps.skipped()), (0, 1));
    }

    #[test]
    fn early_after_the_end_is_stale_and_leaves_a_wrong_lamp() {
        let lamps = lamps(&ALL, &[&["early"], &["confirmed"], &[], &["early"]]);
        assert_eq!((lamps.wrong(), lamps.tally.stale), (1, 1));
        assert!(!lamps.is_dark(0));
    }

    #[test]
    fn a_state_before_it_is_so_is_stale() {
        let lamps = lamps(&[LampState::Early], &[&["confirmed"]]);
        assert_eq!(lamps.tally.stale, 1);
    }

    #[test]
    fn a_lamp_that_is_never_told_the_end_is_wrong() {
        assert_eq!(lamps(&ALL, &[&["early"], &["confirmed"]]).wrong(), 1);
        assert_eq!(lamps(&ALL, &[]).wrong(), 1);
    }

    #[test]
    fn of_two_dialogs_the_one_that_is_furthest_counts() {
        let shown = |states: &[&str]| shown_by(&document(states)).state;
        assert_eq!(shown(&["terminated", "early"]), LampState::Early);
        assert_eq!(shown(&["early", "confirmed"]), LampState::Confirmed);
        assert_eq!(shown(&["terminated"]), LampState::Idle);
        assert_eq!(shown(&[]), LampState::Idle);
    }

    #[test]
    fn a_call_that_never_rang_needs_no_lamp() {
        assert_eq!(lamps(&[LampState::Terminated], &[]).wrong(), 0);
        assert_eq!(lamps(&[LampState::Terminated], &[&["trying"]]).wrong(), 1);
        assert_eq!(
            lamps(&[LampState::Terminated], &[&["trying"], &[]]).wrong(),
            0
        );
    }

    #[test]
    fn a_lamp_before_the_first_call_is_dark() {
        let mut lamps = Lamps::new(1);
        lamps.notified(at(1), 0, b"");
        assert!(lamps.is_dark(0));
        lamps.begin(0, 0);
        lamps.notified(at(1), 0, b"");
        assert_eq!((lamps.tally.told, lamps.tally.stale), (0, 0));
    }

    /// The document with the dialog of a call in this state; without one it is dark.
    fn document_of(call: u32, state: &str) -> String {
        format!(
            "<dialog-info state=\"full\"><dialog id=\"1\" call-id=\"beef.{call}.0@storm\" \
             direction=\"recipient\"><state>{state}</state></dialog></dialog-info>"
        )
    }

    /// Two calls, of which the watcher is told nothing before the second begins.
    fn untold_then_another() -> Lamps {
        let mut lamps = lamps(&ALL, &[]);
        assert!(lamps.is_dark(0), "nothing was shown that had to end");
        assert_eq!((lamps.wrong(), lamps.skipped()), (1, 0));
        lamps.begin(0, 1);
        assert_eq!(lamps.skipped(), 3);
        lamps
    }

    #[test]
    fn a_call_that_is_over_before_a_notify_is_skipped_once_a_later_state_is_told() {
        let mut lamps = untold_then_another();
        for stage in ALL {
            lamps.happened(at(2), Happened { device: 0, stage });
        }
        assert_eq!(lamps.wrong(), 1, "no NOTIFY has told an end");
        lamps.notified(at(3), 0, document_of(1, "early").as_bytes());
        assert!(!lamps.is_dark(0));
        lamps.notified(at(3), 0, &document(&[]));
        assert!(lamps.is_dark(0));
        let tally = &lamps.tally;
        assert_eq!((tally.told, tally.stale, lamps.skipped()), (2, 0, 4));
        assert_eq!(lamps.wrong(), 0);
    }

    #[test]
    fn a_state_of_the_call_before_is_told_late_and_must_end() {
        let mut lamps = untold_then_another();
        lamps.notified(at(3), 0, document_of(0, "confirmed").as_bytes());
        assert_eq!((lamps.tally.told, lamps.tally.stale), (1, 0));
        assert!(!lamps.is_dark(0));
        lamps.notified(at(3), 0, &document(&[]));
        assert_eq!((lamps.tally.told, lamps.skipped()), (2, 1));
        lamps.notified(at(3), 0, document_of(0, "early").as_bytes());
        assert_eq!((lamps.tally.stale, lamps.wrong()), (1, 1));
    }

    #[test]
    fn a_call_that_stays_lit_is_wrong_and_no_other_begins() {
        let lamps = lamps(&ALL, &[&["confirmed"]]);
        assert_eq!((lamps.is_dark(0), lamps.wrong()), (false, 1));
    }
}
