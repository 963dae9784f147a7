//! What one step of a shard brings about, kept by each thread and used again.

use super::target::NameLookup;
use crate::server::peer::way_failure::WayFailure;
use busyhour::buffer::Buffer;
use busyhour_media::MediaActions;
use busyhour_proxy::{Actions, Outbound, TransactionId, dialogs::DialogActions};
use busyhour_sip::Flow;
use std::cell::RefCell;

/// What follows from one step.
#[derive(Default)]
pub(super) struct StepActions {
    pub(super) proxy: Actions,
    pub(super) dialogs: DialogActions,
    pub(super) probes: Vec<(Flow, Buffer)>,
    /// By this request a dialog is known from now on: other nodes of a cluster have to be told.
    pub(super) adopted: Option<Buffer>,
    /// Requests that wait for DNS.
    pub(super) lookups: Vec<(TransactionId, Box<NameLookup>)>,
    /// What was looked at and leaves.
    pub(super) leaving: Vec<Outbound>,
    pub(super) media: MediaActions<Outbound>,
    /// What is logged of ways to peers.
    pub(super) way_failures: Vec<WayFailure>,
}

/// Lends the thread's room for actions, empty.
pub(super) fn with_actions<R>(use_actions: impl FnOnce(&mut StepActions) -> R) -> R {
    thread_local! {
        static ACTIONS: RefCell<StepActions> = RefCell::new(StepActions::default());
    }
    ACTIONS.with(|actions| match actions.try_borrow_mut() {
        Ok(mut actions) => {
            actions.proxy.clear();
            actions.dialogs.clear();
            actions.probes.clear();
            actions.adopted = None;
            actions.lookups.clear();
            actions.leaving.clear();
            actions.way_failures.clear();
            actions.media.commands.clear();
            actions.media.ready.clear();
            use_actions(&mut actions)
        }
        // Already lent further up this thread's stack.
        Err(_) => use_actions(&mut StepActions::default()),
    })
}
