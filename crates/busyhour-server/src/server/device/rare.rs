//! What few devices have, and those seldom.

use super::device_request::DeviceRequest;
use busyhour_registrar::watch::{DeviceDialogs, Publications};
use std::collections::VecDeque;

/// Memory that an idle device does not take.
#[derive(Default)]
pub(super) struct Rare {
    /// The dialogs that the proxy carries.
    pub(super) dialogs: DeviceDialogs,
    /// What a device in a call seldom has as well.
    pub(super) more: Option<Box<MoreRare>>,
}

/// What is rarer than a call.
#[derive(Default)]
pub(super) struct MoreRare {
    pub(super) publications: Publications,
    /// Requests behind the one that is pending.
    pub(super) waiting: VecDeque<DeviceRequest>,
}

impl Rare {
    /// Frees the memory of what is not there any more.
    pub(super) fn tidy(&mut self) {
        self.more.take_if(|more| more.is_empty());
    }

    pub(super) fn is_empty(&self) -> bool {
        // What is known of ended dialogs is for publications that come late.
        let is_quiet = self.dialogs.live().next().is_none();
        self.more.is_none() && is_quiet
    }
}

impl MoreRare {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.publications.is_empty()
    }
}
