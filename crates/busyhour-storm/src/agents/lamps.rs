//! The lamps of the called devices: what happened to each device, what its watcher was
//! told, and whether that is right.

use busyhour::clock::Instant;
use hdrhistogram::Histogram;

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

/// One lamp for each device. A device has one call at a time, and no new one until its
/// lamp is dark, so that each NOTIFY is of a known call.
#[derive(Debug)]
pub(crate) struct Lamps {
    lamps: Vec<Lamp>,
    pub tally: LampTally,
}

/// The counts of all lamps.
#[derive(Clone, Debug)]
pub(crate) struct LampTally {
    /// How often a watcher was told a state that it did not know.
    pub told: u64,
    /// States that came again.
    pub repeated: u64,
    /// States that were over before the watcher was told.
    pub skipped: u64,
    /// States that were shown after a later one of the same call, or before they were so.
    pub stale: u64,
    /// From a state until its NOTIFY.
    pub told_ns: Histogram<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lamp {
    happened: LampState,
    told: LampState,
    /// When it rang, was answered, was over.
    since: [Option<Instant>; 3],
    was_told: [bool; 3],
    is_lit: bool,
}

impl Lamps {
    pub fn new(devices: u32) -> Self {
        Self {
            lamps: vec![Lamp::default(); devices as usize],
            tally: LampTally {
                told: 0,
                repeated: 0,
                skipped: 0,
                stale: 0,
                told_ns: histogram(),
            },
        }
    }

    /// Whether the device can be called: its lamp shows the end of the last call.
    pub fn is_dark(&self, device: u32) -> bool {
        let lamp = self.lamps.get(device as usize);
        lamp.is_none_or(|lamp| lamp.told == lamp.happened && !lamp.is_lit)
    }

    /// A new call of the device begins.
    pub fn begin(&mut self, device: u32) {
        if let Some(lamp) = self.lamps.get_mut(device as usize) {
            *lamp = Lamp::default();
        }
    }

    /// What a side of the call did. Of several contacts the first that rings and the one
    /// that answers count.
    pub fn happened(&mut self, now: Instant, Happened { device, stage }: Happened) {
        let Some(lamp) = self.lamps.get_mut(device as usize) else {
            return;
        };
        if stage == LampState::Terminated && lamp.happened == LampState::Idle {
            // It ended before it rang, so the watcher need not have been told anything.
            lamp.told = LampState::Idle;
        } else if stage > lamp.happened {
            lamp.happened = stage;
            if let Some(since) = slot(stage).and_then(|slot| lamp.since.get_mut(slot)) {
                *since = Some(now);
            }
        }
    }

    /// A NOTIFY came, with this body.
    pub fn notified(&mut self, now: Instant, device: u32, body: &[u8]) {
        let shown = shown_by(body);
        let Some(lamp) = self.lamps.get_mut(device as usize) else {
            return;
        };
        lamp.is_lit = shown > LampState::Idle;
        let stage = match shown {
            LampState::Idle if lamp.happened == LampState::Idle => {
                lamp.told = LampState::Idle;
                return;
            }
            // Nothing is shown before a call, and after one.
            LampState::Idle
                if lamp.told == LampState::Idle && lamp.happened < LampState::Terminated =>
            {
                return;
            }
            LampState::Idle => LampState::Terminated,
            lit => lit,
        };
        if stage < lamp.told || (stage > lamp.happened && stage > LampState::Trying) {
            self.tally.stale += 1;
            return;
        }
        if stage == lamp.told {
            self.tally.repeated += 1;
            return;
        }
        lamp.told = stage;
        self.tally.told += 1;
        let Some(slot) = slot(stage) else {
            return;
        };
        lamp.was_told[slot] = true;
        if let Some(since) = lamp.since[slot] {
            note(&mut self.tally.told_ns, now - since);
        }
        if stage == LampState::Terminated {
            let missed = |slot: &usize| lamp.since[*slot].is_some() && !lamp.was_told[*slot];
            self.tally.skipped += (0..slot).filter(missed).count() as u64;
        }
    }

    /// Lamps that are lit, or were not told that the last call is over.
    pub fn wrong(&self) -> u64 {
        let devices = 0..self.lamps.len() as u32;
        devices.filter(|device| !self.is_dark(*device)).count() as u64
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
/// 4235 §4.1.2).
fn shown_by(body: &[u8]) -> LampState {
    let mut shown = LampState::Idle;
    for at in memchr::memmem::find_iter(body, b"<state") {
        let rest = body.get(at..).unwrap_or_default();
        let text = rest.splitn(2, |byte| *byte == b'>').nth(1);
        let text = text.and_then(|text| text.split(|byte| *byte == b'<').next());
        let stage = match text.unwrap_or_default().trim_ascii() {
            b"trying" | b"proceeding" => LampState::Trying,
            b"early" => LampState::Early,
            b"confirmed" => LampState::Confirmed,
            _ => LampState::Idle,
        };
        shown = shown.max(stage);
    }
    shown
}

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
        lamps.begin(0);
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
        assert_eq!((tally.skipped, tally.repeated), (0, 0));
        assert_eq!(tally.told_ns.len(), 3);
        assert_eq!(tally.told_ns.max() / 1_000_000, 2);
    }

    #[test]
    fn a_state_that_is_never_told_is_counted() {
        let lamps = lamps(&ALL, &[&["confirmed"], &[]]);
        assert_eq!((lamps.wrong(), lamps.tally.skipped), (0, 1));
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
        assert_eq!(
            shown_by(&document(&["terminated", "early"])),
            LampState::Early
        );
        let both = document(&["early", "confirmed"]);
        assert_eq!(shown_by(&both), LampState::Confirmed);
        assert_eq!(shown_by(&document(&["terminated"])), LampState::Idle);
        assert_eq!(shown_by(b""), LampState::Idle);
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
        lamps.begin(0);
        lamps.notified(at(1), 0, b"");
        assert_eq!((lamps.tally.told, lamps.tally.stale), (0, 0));
    }
}
