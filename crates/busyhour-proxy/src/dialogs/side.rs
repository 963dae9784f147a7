//! One side of a dialog: how far it is, and whether its device is still there.

use busyhour::clock::Instant;
use busyhour_registrar::watch::{DialogEnd, DialogState};

/// A dialog as one of its two devices has it.
#[derive(Debug)]
pub(super) struct Side {
    stage: Stage,
    /// Where its requests go (RFC 3261 §12.1).
    pub contact: Option<Box<str>>,
    pub probe: ProbeStage,
    /// Watchers know of it.
    is_told: bool,
    /// It differs from what watchers know.
    is_changed: bool,
}

/// How far a side is. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request may not have come there.
    Unseen,
    Live(DialogState),
    Ended(DialogEnd, Option<u16>),
}

/// Whether somebody asks its device if it still knows the dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeStage {
    Idle,
    /// Its flow ended, so it is asked at this time unless it is heard of before.
    DueAt(Instant),
    /// It was asked, and must answer before this time.
    AnswerBy(Instant),
}

/// What watchers have to be told of a side.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    Is(DialogState),
    Ended(DialogEnd, Option<u16>),
}

impl Side {
    pub fn new(stage: Stage, contact: Option<Box<str>>) -> Self {
        Self {
            is_changed: stage != Stage::Unseen,
            stage,
            contact,
            probe: ProbeStage::Idle,
            is_told: false,
        }
    }

    pub fn state(&self) -> Option<DialogState> {
        match self.stage {
            Stage::Live(state) => Some(state),
            Stage::Unseen | Stage::Ended(..) => None,
        }
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(..))
    }

    /// Its device can be asked if it still knows the dialog.
    pub fn can_be_asked(&self) -> bool {
        self.contact.is_some() && self.state() == Some(DialogState::Confirmed)
    }

    /// It is at least as far as `state`, unless it has ended.
    pub fn advance(&mut self, state: DialogState) {
        let advances = match self.stage {
            Stage::Unseen => true,
            Stage::Live(now) => state > now,
            Stage::Ended(..) => false,
        };
        if advances {
            self.stage = Stage::Live(state);
            self.is_changed = true;
        }
    }

    /// It ends, if it has not ended before; returns whether it does.
    pub fn end(&mut self, end: DialogEnd, code: Option<u16>) -> bool {
        if self.is_ended() {
            return false;
        }
        self.stage = Stage::Ended(end, code);
        self.probe = ProbeStage::Idle;
        self.is_changed = true;
        true
    }

    /// Something else that watchers see has changed.
    pub fn touch(&mut self) {
        self.is_changed = true;
    }

    /// What watchers have to be told since the last time.
    pub fn take_news(&mut self) -> Option<News> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        match self.stage {
            Stage::Unseen => None,
            Stage::Live(state) => {
                self.is_told = true;
                Some(News::Is(state))
            }
            Stage::Ended(end, code) => {
                std::mem::take(&mut self.is_told).then_some(News::Ended(end, code))
            }
        }
    }
}
