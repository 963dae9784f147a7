//! The NOTIFY that a subscription owes, written.

use super::{Known, Subscription};
use crate::registrar::EVENTLIST;
use crate::watch::{
    State, Told, WatcherInfo,
    body::watcher_info::WatcherInfoWriting,
    list::list_view::ListWriting,
    notifier::{
        notify_values::{EventValue, Phase, StateValue},
        watched_list::WatchedList,
        watcher_info_view::WatcherInfoView,
    },
};
use busyhour::clock::Instant;
use busyhour_sip::{HeaderName, RequestBuilder};
use std::sync::Arc;

impl Subscription {
    /// Writes the NOTIFY that is owed; returns whether another one has to follow, and `None` if
    /// there is nothing to tell.
    pub(super) fn write_notify(
        &mut self,
        cseq: u32,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        if let Some(mut list) = self.list.take() {
            let written = self.write_list_notify(&mut list, cseq, now, out);
            self.list = Some(list);
            return written;
        }
        if let Some(mut view) = self.watchers.take() {
            let written = self.write_watchers_notify(&mut view, cseq, now, out);
            self.watchers = Some(view);
            return written;
        }
        self.write_state_notify(cseq, now, out);
        Some(false)
    }

    fn write_watchers_notify(
        &self,
        view: &mut WatcherInfoView,
        cseq: u32,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        self.head(out, cseq, self.state_value(now, true), false)
            .finish();
        let head_len = std::mem::take(out).len();
        let is_reliable = self.dialog.flow().transport.is_reliable();
        let is_due = self.tell_again_at.is_some_and(|at| now >= at);
        let nobody = self.nobody();
        let info = match &self.state {
            Known::State(Some(State::Watchers(info))) => info,
            _ => &nobody,
        };
        let (body, owes_more) = view.told.write(WatcherInfoWriting {
            info,
            version: self.version,
            len_max: view.len.body_max(is_reliable, head_len),
            wants_empty: is_due || self.phase != Phase::Active,
            now,
        })?;
        self.head(out, cseq, self.state_value(now, owes_more), false)
            .body(self.package.content_type(), body.as_bytes());
        Some(owes_more)
    }

    fn nobody(&self) -> WatcherInfo {
        WatcherInfo {
            resource: self.device.clone(),
            package: self.package.watched().unwrap_or(self.package),
            watchers: Arc::new([]),
        }
    }

    fn write_list_notify(
        &self,
        list: &mut WatchedList,
        cseq: u32,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        let boundary = format!("{}.{cseq}", self.dialog.local_tag());
        let is_ending = self.phase != Phase::Active;
        if is_ending && list.is_left {
            self.head(out, cseq, self.state_value(now, false), true)
                .finish();
            return Some(false);
        }
        self.head(out, cseq, self.state_value(now, true), true)
            .finish();
        let head_len = std::mem::take(out).len();
        let is_reliable = self.dialog.flow().transport.is_reliable();
        let is_due = self.tell_again_at.is_some_and(|at| now >= at);
        let (body, owes_more) = list.write(ListWriting {
            package: self.package,
            boundary: &boundary,
            version: self.version,
            form: self.list_form,
            len_max: list.len.body_max(is_reliable, head_len),
            wants_empty: is_due || is_ending,
        })?;
        self.head(out, cseq, self.state_value(now, owes_more), true)
            .body(&body.content_type, &body.body);
        Some(owes_more)
    }

    fn state_value(&self, now: Instant, owes_more: bool) -> StateValue {
        StateValue {
            phase: self.phase,
            left_s: self.left_s(now),
            rates: self.rates,
            owes_more,
        }
    }

    /// A NOTIFY up to its body.
    fn head<'o>(
        &self,
        out: &'o mut Vec<u8>,
        cseq: u32,
        state: StateValue,
        is_of_list: bool,
    ) -> RequestBuilder<'o, Vec<u8>> {
        let package = match is_of_list {
            true => self.list_form.event(self.package),
            false => self.package.name(),
        };
        let event = EventValue(package, self.event_id.as_deref());
        let head = self
            .dialog
            .notify(out, cseq)
            .header(HeaderName::Event, event)
            .header(HeaderName::SubscriptionState, state);
        match is_of_list {
            true => head.header(HeaderName::Require, EVENTLIST),
            false => head,
        }
    }

    fn write_state_notify(&self, cseq: u32, now: Instant, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(BODY_LEN_USUAL);
        let state = match &self.state {
            Known::State(state) => state.as_ref(),
            Known::Nothing => None,
        };
        let told = Told {
            entity: &self.device,
            state,
            version: self.version,
        };
        match state {
            Some(State::Registration(registration)) => {
                let contacts = &registration.contacts;
                self.told_contacts
                    .write(&mut body, told, contacts, self.is_urgent, now);
            }
            _ => self.package.write_body(&mut body, told),
        }
        self.head(out, cseq, self.state_value(now, false), false)
            .body(self.package.content_type(), &body);
    }
}

const BODY_LEN_USUAL: usize = 512;
