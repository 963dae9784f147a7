//! A callback that runs now, as the wait graph sees it.

use super::timer_service::Service;
use crate::{pool::Turns, timer::handle::TimerHandle};
use std::sync::Arc;

/// A timer whose run is awaited.
pub(super) struct RunningCallback {
    pub(super) service: Arc<Service>,
    pub(super) handle: TimerHandle,
}

impl Turns for RunningCallback {
    fn runner(&self) -> Option<usize> {
        let state = self.service.shard_of(&self.handle)?.lock();
        state.runner(self.handle.timer).map(|runner| runner.thread)
    }
}
