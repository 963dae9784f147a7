//! A naive model: what each callee's tag means, without tables, sides or timers. Messages
//! come in any order, again, or not at all.

use std::time::Duration;

use busyhour::clock::Instant;
use busyhour_proxy::dialogs::{CallHandle, DialogPolicy};
use busyhour_registrar::watch::LineState;
use proptest::prelude::*;

use crate::rig::{AB, Names, RECVONLY, Rig, SENDONLY, SENDRECV, response, user};

/// Something that the proxy forwards, or time that passes. Tags are numbers; tag 2·b and
/// 2·b + 1 come on branch b.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Forward {
        branch: usize,
    },
    Ring {
        tag: usize,
    },
    Answer {
        tag: usize,
    },
    Fail {
        branch: usize,
        by_message: bool,
    },
    Refuse,
    Cancel,
    Ack {
        tag: usize,
    },
    Bye {
        tag: usize,
        by_callee: bool,
    },
    Unknown {
        tag: usize,
    },
    Hold {
        tag: usize,
        by_callee: bool,
        is_on: bool,
        succeeds: bool,
    },
    Wait {
        seconds: u64,
    },
}

/// What has become of a tag.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Tag {
    Never,
    Early,
    /// Its branch has failed; the caller does not know yet.
    Failed,
    /// Another one was answered, or none: this one may still be.
    Lost,
    Talking {
        since: Instant,
        is_acked: bool,
        holds: [bool; 2],
    },
    Spent,
}

#[derive(Debug, Clone)]
struct ModelCall {
    is_pending: bool,
    is_forwarded: [bool; BRANCHES],
    has_failed: [bool; BRANCHES],
    tags: [Tag; TAGS],
}

impl ModelCall {
    fn new() -> Self {
        Self {
            is_pending: true,
            is_forwarded: [false; BRANCHES],
            has_failed: [false; BRANCHES],
            tags: [Tag::Never; TAGS],
        }
    }

    fn apply(&mut self, operation: Operation, now: Instant) {
        match operation {
            Operation::Forward { branch } => self.is_forwarded[branch] = true,
            Operation::Ring { tag } => {
                if self.is_pending && self.is_open(tag / 2) && self.tags[tag] == Tag::Never {
                    self.tags[tag] = Tag::Early;
                }
            }
            Operation::Answer { tag } => self.answer(tag, now),
            Operation::Fail { branch, .. } => self.fail(branch),
            Operation::Refuse => {
                if self.is_pending {
                    self.lose();
                }
            }
            Operation::Cancel => {}
            Operation::Ack { tag } => {
                if let Tag::Talking { is_acked, .. } = &mut self.tags[tag] {
                    *is_acked = true;
                }
            }
            Operation::Bye { tag, .. } | Operation::Unknown { tag } => {
                if !matches!(self.tags[tag], Tag::Never | Tag::Lost) {
                    self.tags[tag] = Tag::Spent;
                }
            }
            Operation::Hold {
                tag,
                by_callee,
                is_on,
                succeeds,
            } => {
                if let (Tag::Talking { holds, .. }, true) = (&mut self.tags[tag], succeeds) {
                    holds[usize::from(by_callee)] = is_on;
                    holds[usize::from(!by_callee)] = false;
                }
            }
            Operation::Wait { .. } => {}
        }
    }

    fn wait(&mut self, now: Instant) {
        for tag in &mut self.tags {
            if let Tag::Talking {
                since,
                is_acked: false,
                ..
            } = *tag
                && since + Duration::from_secs(33) <= now
            {
                *tag = Tag::Spent;
            }
        }
    }

    fn is_open(&self, branch: usize) -> bool {
        self.is_forwarded[branch] && !self.has_failed[branch]
    }

    fn answer(&mut self, tag: usize, now: Instant) {
        let can_be = !matches!(self.tags[tag], Tag::Talking { .. } | Tag::Spent);
        if can_be && self.is_forwarded[tag / 2] {
            self.lose();
            self.tags[tag] = Tag::Talking {
                since: now,
                is_acked: false,
                holds: [false; 2],
            };
        }
    }

    fn fail(&mut self, branch: usize) {
        if !self.is_forwarded[branch] {
            return;
        }
        self.has_failed[branch] = true;
        for tag in [2 * branch, 2 * branch + 1] {
            if self.tags[tag] == Tag::Early {
                self.tags[tag] = Tag::Failed;
            }
        }
    }

    fn lose(&mut self) {
        self.is_pending = false;
        for tag in &mut self.tags {
            if matches!(tag, Tag::Early | Tag::Failed) {
                *tag = Tag::Lost;
            }
        }
    }

    /// The lines of the dialogs of a device, which is the caller or behind some branches.
    fn lines(&self, is_caller: bool, branches: &[usize]) -> Vec<LineState> {
        let mut lines = Vec::new();
        for (number, tag) in self.tags.iter().enumerate() {
            match tag {
                Tag::Talking { holds, .. } => {
                    let line = |hold| {
                        if hold {
                            LineState::OnHold
                        } else {
                            LineState::InUse
                        }
                    };
                    lines.extend(is_caller.then(|| line(holds[0])));
                    let is_callee = branches.contains(&(number / 2));
                    lines.extend(is_callee.then(|| line(holds[1])));
                }
                Tag::Early if branches.contains(&(number / 2)) => lines.push(LineState::Ringing),
                _ => {}
            }
        }
        let is_seen = self.tags.iter().any(|tag| *tag != Tag::Never);
        let waits = |tag: &Tag| matches!(tag, Tag::Early | Tag::Failed);
        if is_caller && self.is_pending && (!is_seen || self.tags.iter().any(waits)) {
            lines.push(LineState::InUse);
        }
        lines
    }
}

/// The real table and the model, side by side.
struct Pair {
    rig: Rig,
    handles: Vec<CallHandle>,
    calls: Vec<ModelCall>,
    cseq: u32,
}

impl Pair {
    fn new() -> Self {
        let long = Duration::from_secs(1_000_000);
        let mut rig = Rig::with(DialogPolicy {
            setup_max: long,
            quiet_max: long,
            silence_max: long,
            linger: long,
            ..DialogPolicy::default()
        });
        let handles = CALLS
            .iter()
            .map(|names| rig.invite(*names, SENDRECV).expect("room"));
        Self {
            handles: handles.collect(),
            rig,
            calls: vec![ModelCall::new(); CALLS.len()],
            cseq: 1,
        }
    }

    fn apply(&mut self, call: usize, operation: Operation) {
        self.cseq += 1;
        let (rig, handle, names) = (&mut self.rig, self.handles[call], CALLS[call]);
        match operation {
            Operation::Forward { branch } => {
                rig.dialogs
                    .forwarded(handle, branch as u16, user(CALLEES[branch]));
            }
            Operation::Ring { tag } => {
                rig.response(handle, tag as u16 / 2, 180, names.to_tag(TAG_TEXTS[tag]));
            }
            Operation::Answer { tag } => {
                let names = names.to_tag(TAG_TEXTS[tag]);
                rig.response_with(handle, tag as u16 / 2, 200, names, SENDRECV);
            }
            Operation::Fail {
                branch,
                by_message: true,
            } => {
                rig.response(handle, branch as u16, 486, names.to_tag("any"));
            }
            Operation::Fail { branch, .. } => rig.failed(handle, branch as u16, 408),
            Operation::Refuse => rig.refused(handle, 486),
            Operation::Cancel => rig.dialogs.cancelled(handle),
            Operation::Ack { tag } => {
                rig.within("ACK", 1, names.to_tag(TAG_TEXTS[tag]), "");
            }
            Operation::Bye { tag, by_callee } => {
                let names = side(names.to_tag(TAG_TEXTS[tag]), by_callee);
                rig.within("BYE", self.cseq, names, "");
            }
            Operation::Unknown { tag } => {
                let names = names.to_tag(TAG_TEXTS[tag]);
                if let Some(request) = rig.within("INFO", self.cseq, names, "") {
                    rig.answered(request, &response(481, self.cseq, "INFO", names, ""));
                }
            }
            Operation::Hold {
                tag,
                by_callee,
                is_on,
                succeeds,
            } => {
                let names = side(names.to_tag(TAG_TEXTS[tag]), by_callee);
                let (offer, answer) = match is_on {
                    true => (SENDONLY, RECVONLY),
                    false => (SENDRECV, SENDRECV),
                };
                let status = if succeeds { 200 } else { 491 };
                if let Some(request) = rig.within("INVITE", self.cseq, names, offer) {
                    let text = response(status, self.cseq, "INVITE", names, answer);
                    rig.answered(request, &text);
                    rig.answered(request, &text);
                }
            }
            Operation::Wait { seconds } => rig.wait(seconds),
        }
        self.calls[call].apply(operation, self.rig.now);
        let now = self.rig.now;
        self.calls.iter_mut().for_each(|call| call.wait(now));
    }

    fn check(&self) {
        for (device, called) in [("alice", &[][..]), ("bob", &[0, 2]), ("carol", &[1])] {
            let calls = self.calls.iter().zip(CALLS);
            let lines: Vec<_> = calls
                .flat_map(|(call, names)| call.lines(names.from == device, called))
                .collect();
            let expected = LineState::aggregate(lines.iter().copied().chain([LineState::Idle]));
            assert_eq!(
                self.rig.line(device),
                expected,
                "{device}: {:?}",
                self.calls
            );
            if device != "alice" {
                let mut told: Vec<_> = self
                    .rig
                    .infos(device)
                    .iter()
                    .map(|info| info.line())
                    .collect();
                let mut lines = lines;
                // The caller has a dialog for each of those that ring, the model one for all.
                let is_early = |line: &LineState| *line == LineState::InUse;
                if device == "carol" {
                    told.retain(|line| !is_early(line));
                    lines.retain(|line| !is_early(line));
                }
                told.sort();
                lines.sort();
                assert_eq!(told, lines, "{device}: {:?}", self.calls);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_table_agrees_with_the_model_and_forgets_all(
        operations in proptest::collection::vec((0..CALLS.len(), operation()), 0..80)
    ) {
        let mut pair = Pair::new();
        for (call, operation) in operations {
            pair.apply(call, operation);
            pair.check();
        }
        pair.rig.wait(10_000_000);
        for device in ["alice", "bob", "carol"] {
            assert_eq!(pair.rig.line(device), LineState::Idle);
        }
        assert_eq!(pair.rig.records.len(), CALLS.len());
        assert!(pair.rig.dialogs.is_empty());
        assert_eq!(pair.rig.dialogs.next_deadline(), None);
        assert_eq!(pair.rig.dialogs.stats().lingering_count, 0);
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let (tag, branch) = (0..TAGS, 0..BRANCHES);
    prop_oneof![
        4 => branch.clone().prop_map(|branch| Operation::Forward { branch }),
        4 => tag.clone().prop_map(|tag| Operation::Ring { tag }),
        3 => tag.clone().prop_map(|tag| Operation::Answer { tag }),
        1 => (branch, any::<bool>())
            .prop_map(|(branch, by_message)| Operation::Fail { branch, by_message }),
        1 => Just(Operation::Refuse),
        1 => Just(Operation::Cancel),
        3 => tag.clone().prop_map(|tag| Operation::Ack { tag }),
        2 => (tag.clone(), any::<bool>())
            .prop_map(|(tag, by_callee)| Operation::Bye { tag, by_callee }),
        1 => tag.clone().prop_map(|tag| Operation::Unknown { tag }),
        3 => (tag, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(tag, by_callee, is_on, succeeds)| Operation::Hold { tag, by_callee, is_on, succeeds }
        ),
        2 => (0..20u64).prop_map(|seconds| Operation::Wait { seconds }),
    ]
}

fn side(names: Names<'_>, by_callee: bool) -> Names<'_> {
    match by_callee {
        true => names.reversed(),
        false => names,
    }
}

const CALLS: [Names<'static>; 2] = [
    AB,
    Names {
        call_id: "c2",
        from: "carol",
        from_tag: "k",
        ..AB
    },
];
/// The device behind each branch.
const CALLEES: [&str; BRANCHES] = ["bob", "carol", "bob"];
const TAG_TEXTS: [&str; TAGS] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const BRANCHES: usize = 3;
const TAGS: usize = 2 * BRANCHES;
