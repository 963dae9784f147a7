//! One subscription from its SUBSCRIBE to its end.

mod connection;
mod notify_loss;
mod notify_writing;

use crate::registrar::{Advertised, Refusal, seconds};
use crate::watch::{
    DeviceState, Dialog, End, ListEntry, ListForm, ListedWatcher, NoBuffer, NotRestored,
    NotifyRates, Package, ResourceList, ResourceStates, State, Subscribe, Transmission,
    WatchPolicy,
    body::reginfo::ToldContacts,
    list::list_view::ListView,
    notifier::{
        notify_len::NotifyLen,
        notify_values::Phase,
        outstanding::{Outstanding, T1, WatcherSilence},
        watched_list::WatchedList,
        watcher_info_view::WatcherInfoView,
    },
    stored::{RunNumber, StoredList, StoredSubscription, is_row_old},
};
use busyhour::{buffer::BufferPool, bus::Name, clock::Instant};
use std::{sync::Arc, time::Duration};

/// A watcher's subscription to one device, extension or mailbox, or to a list of them.
///
/// It sends nothing before it has been told the state for the first time
/// ([`Subscription::state_is`]).
#[derive(Debug)]
pub struct Subscription {
    dialog: Dialog,
    device: Name,
    /// Who opened it, where that is known.
    account: Option<Box<str>>,
    package: Package,
    event_id: Option<Box<str>>,
    /// `None` if that was before a restart.
    opened_at: Option<Instant>,
    expires_at: Instant,
    phase: Phase,
    state: Known,
    /// A NOTIFY is owed as soon as none is on its way.
    owes_notify: bool,
    /// It does not wait for the notify interval: it answers a SUBSCRIBE, or is the last
    /// one.
    is_urgent: bool,
    /// Least time from one change that is told to the next.
    interval: Duration,
    /// How often the watcher wants to be told.
    rates: NotifyRates,
    /// Changes wait until then.
    next_change_at: Instant,
    /// The watcher is told something then in any case.
    tell_again_at: Option<Instant>,
    /// Boxed, since most watchers wait for nothing.
    outstanding: Option<Box<Outstanding>>,
    /// NOTIFYs were told anew, and none is answered.
    silence: Option<WatcherSilence>,
    /// When to try again after there was no buffer, or no room on the way.
    retry_at: Option<Instant>,
    /// Since when there has been no room.
    put_off_since: Option<Instant>,
    /// Its connection has ended.
    is_cut: bool,
    /// A NOTIFY was answered from where they go.
    is_heard: bool,
    version: u32,
    /// What was told of a registration.
    told_contacts: ToldContacts,
    /// How a list is written for it.
    list_form: ListForm,
    /// `None` if it watches one resource.
    list: Option<Box<WatchedList>>,
    /// `None` if it tells something else than watchers.
    watchers: Option<Box<WatcherInfoView>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// This, or that there is nothing to tell.
    State(Option<State>),
}

impl Subscription {
    /// Opens a subscription to `device`, an address of record; `local_tag` becomes our half of the
    /// dialog's name and must be new. A granted lifetime of zero is a fetch.
    pub fn open(
        subscribe: &Subscribe<'_>,
        device: Name,
        local_tag: &str,
        advertised: Advertised,
        now: Instant,
    ) -> Self {
        let mut subscription = Self {
            dialog: Dialog::open(subscribe, local_tag, advertised),
            device,
            account: None,
            package: subscribe.package,
            event_id: subscribe.event_id.map(Box::from),
            opened_at: Some(now),
            expires_at: now,
            phase: Phase::Active,
            state: Known::Nothing,
            owes_notify: true,
            is_urgent: true,
            interval: subscribe.notify_interval,
            rates: subscribe.rates,
            next_change_at: now,
            tell_again_at: None,
            outstanding: None,
            silence: None,
            retry_at: None,
            put_off_since: None,
            is_cut: false,
            is_heard: false,
            version: 0,
            told_contacts: ToldContacts::default(),
            list_form: subscribe.list_form,
            list: None,
            watchers: WatcherInfoView::of(subscribe),
        };
        subscription.extend(subscribe.granted_s, now);
        subscription
    }

    /// Brings back what [`stored`](Self::stored) gave in an earlier run, in the run that its device
    /// has now, until `expires_at`. The whole state is told at `told_at`, or later where it is not known by then. Over a
    /// connection nothing is told before a SUBSCRIBE comes over a new one, unless the old one
    /// [stands](Self::connection_stands).
    ///
    /// # Errors
    ///
    /// See [`NotRestored`].
    pub fn restore(
        stored: &str,
        run_of: impl FnOnce(&str) -> RunNumber,
        policy: &WatchPolicy,
        advertised: Advertised,
        expires_at: Instant,
        told_at: Instant,
    ) -> Result<Self, NotRestored> {
        let stored: StoredSubscription = serde_json::from_str(stored)?;
        let package = Package::from_name(&stored.package);
        let package = package.ok_or(NotRestored::Package(stored.package))?;
        let run = run_of(&stored.device);
        let dialog = Dialog::restore(stored.dialog, run, advertised)?;
        Ok(Self {
            device: Name::new(&stored.device),
            account: stored.account.map(Box::from),
            package,
            event_id: stored.event_id.map(Box::from),
            opened_at: None,
            expires_at,
            phase: Phase::Active,
            state: Known::Nothing,
            owes_notify: true,
            is_urgent: true,
            interval: stored.rates.interval(policy.notify_interval(package)),
            rates: stored.rates,
            next_change_at: told_at,
            tell_again_at: None,
            outstanding: None,
            silence: None,
            retry_at: Some(told_at),
            put_off_since: None,
            is_cut: dialog.flow().transport.is_reliable(),
            is_heard: true,
            // Each NOTIFY has counted both up, so this is higher than the last one, too.
            version: dialog.last_cseq(),
            told_contacts: ToldContacts::default(),
            list_form: (stored.list.as_ref()).map_or(ListForm::Standard, |list| list.form),
            list: stored.list.map(|list| {
                let recipients = list.recipients.map(Arc::from);
                Box::new(WatchedList::new(recipients, policy))
            }),
            watchers: (package.watched().is_some())
                .then(|| WatcherInfoView::new(NotifyLen::of(policy))),
            dialog,
        })
    }

    /// Makes it a subscription to a list: the one with these entries, which its SUBSCRIBE
    /// brought, or the one that is known by the URI that it watches. It tells nothing before
    /// it is told which resources the list has ([`list_is`](Self::list_is)).
    #[must_use]
    pub fn to_list(self, recipients: Option<Arc<[ListEntry]>>, policy: &WatchPolicy) -> Self {
        Self {
            list: Some(Box::new(WatchedList::new(recipients, policy))),
            ..self
        }
    }

    /// Whether it watches a list.
    pub fn is_of_list(&self) -> bool {
        self.list.is_some()
    }

    /// The entries of a list that its SUBSCRIBE brought.
    pub fn recipients(&self) -> Option<&Arc<[ListEntry]>> {
        self.list.as_ref()?.recipients.as_ref()
    }

    /// Tells which resources its list has, and where their states are. All of them are told
    /// next.
    pub fn list_is(&mut self, list: Arc<ResourceList>, states: Arc<dyn ResourceStates>) {
        let version = self.version;
        if let Some(watched) = self.list.as_mut() {
            watched.view = Some(ListView::new(list, states, version));
            self.owes_notify |= self.phase == Phase::Active;
        }
    }

    /// Tells that the states of the resources at these places of its list may have changed.
    /// Returns how many of them waited to be told already.
    pub fn resources_changed(&mut self, places: impl IntoIterator<Item = u32>) -> u64 {
        let Some(view) = self.list.as_mut().and_then(|list| list.view.as_mut()) else {
            return 0;
        };
        let conflated = places.into_iter().filter(|place| !view.changed(*place));
        let conflated = conflated.count();
        self.owes_notify |= self.phase == Phase::Active;
        conflated as u64
    }

    /// Notes the account that has opened it.
    #[must_use]
    pub fn opened_by(self, account: Option<&str>) -> Self {
        Self {
            account: account.map(Box::from),
            ..self
        }
    }

    /// The account that has opened it, where that is known.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// All that [`restore`](Self::restore) needs, but the time. Runs of the server are counted
    /// upwards; `run` is this one.
    pub fn stored(&self, run: RunNumber) -> String {
        self.stored_with(&self.dialog, self.rates, run)
    }

    /// As [`stored`](Self::stored), as it will be after such a refresh.
    pub fn stored_after(&self, subscribe: &Subscribe<'_>, run: RunNumber) -> String {
        let mut dialog = self.dialog.clone();
        // A request that `refresh` refuses is refused here as well; storing it is only
        // wasted.
        let _ = dialog.follow(subscribe);
        self.stored_with(&dialog, subscribe.rates, run)
    }

    fn stored_with(&self, dialog: &Dialog, rates: NotifyRates, run: RunNumber) -> String {
        let stored = StoredSubscription {
            device: self.device.to_string(),
            account: self.account.as_deref().map(str::to_owned),
            package: self.package.name().to_owned(),
            event_id: self.event_id.as_deref().map(str::to_owned),
            rates,
            list: self.list.as_ref().map(|list| StoredList {
                recipients: list.recipients.as_ref().map(|entries| entries.to_vec()),
                form: self.list_form,
            }),
            dialog: dialog.stored(run),
        };
        // Texts and numbers can always be written.
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// The CSeq number of the last NOTIFY; zero before the first.
    pub fn last_cseq(&self) -> u32 {
        self.dialog.last_cseq()
    }

    /// Whether so many NOTIFYs were sent since it was stored, with `last_cseq` then, that it
    /// has to be stored again: after a crash their numbers must not be used a second time.
    pub fn has_outgrown(&self, last_cseq: u32) -> bool {
        is_row_old(last_cseq, self.dialog.last_cseq())
    }

    /// Whether it was restored from a row whose run is of the other count. That row has to be stored again at once: the next
    /// run would not know which numbers are used in this one.
    pub fn is_counted_otherwise(&self) -> bool {
        self.dialog.is_counted_otherwise()
    }

    /// Takes in a SUBSCRIBE inside of the dialog: a refresh, or the end.
    /// Either is followed by a NOTIFY.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSubscription`] when it belongs to another dialog or event,
    /// or this one is over; [`Refusal::OutOfOrder`] when its CSeq is lower
    /// than the last one's.
    pub fn refresh(&mut self, subscribe: &Subscribe<'_>, now: Instant) -> Result<(), Refusal> {
        self.check_refresh(subscribe, now)?;
        let before = self.dialog.flow();
        self.dialog.follow(subscribe)?;
        (self.is_cut, self.silence) = (false, None);
        (self.interval, self.rates) = (subscribe.notify_interval, subscribe.rates);
        if self.dialog.flow() != before {
            // The NOTIFY on the old flow may never arrive. The next one contains
            // everything again.
            self.outstanding = None;
            self.is_heard = false;
            (self.retry_at, self.put_off_since) = (None, None);
        }
        if (self.outstanding.as_ref()).is_some_and(|it| it.is_silent(now)) {
            // The watcher lives and may not have got it. The next one contains everything again.
            self.outstanding = None;
        }
        self.extend(subscribe.granted_s, now);
        Ok(())
    }

    /// Whether [`refresh`](Self::refresh) would take in such a SUBSCRIBE.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn check_refresh(&self, subscribe: &Subscribe<'_>, now: Instant) -> Result<(), Refusal> {
        let same_event =
            subscribe.package == self.package && subscribe.event_id == self.event_id.as_deref();
        let alive = self.phase == Phase::Active && now < self.expires_at;
        match same_event && alive {
            true => self.dialog.check(subscribe),
            false => Err(Refusal::NoSubscription),
        }
    }

    /// Tells the device's state, `None` when it cannot be reached. Returns
    /// whether an earlier state was replaced before it could leave.
    pub fn device_is(&mut self, state: Option<DeviceState>) -> bool {
        self.state_is(state.map(State::Device))
    }

    /// Tells the state of whatever is watched, `None` when there is nothing to
    /// tell. Returns whether an earlier state was replaced before it could leave.
    pub fn state_is(&mut self, state: Option<State>) -> bool {
        let is_first = match &self.state {
            Known::Nothing => true,
            Known::State(known) if self.package.tells_the_same(known.as_ref(), state.as_ref()) => {
                // The next body may say more of it.
                self.state = Known::State(state);
                return false;
            }
            Known::State(_) => false,
        };
        let replaces = self.owes_notify && !is_first;
        self.state = Known::State(state);
        self.owes_notify |= self.phase == Phase::Active;
        replaces
    }

    /// The bus has delivered the whole replay: a device without a state is unreachable,
    /// and a mailbox without one is empty. Returns `false`, since nothing was replaced.
    pub fn nothing_more_is_known(&mut self) -> bool {
        self.state == Known::Nothing && self.state_is(None)
    }

    /// Takes in a response to the NOTIFY of this CSeq number; any other is
    /// stray, and `false`.
    pub fn answered(&mut self, cseq: u32, status: u16) -> bool {
        let Some(outstanding) = self.outstanding.as_mut() else {
            return false;
        };
        if outstanding.cseq != cseq {
            return false;
        }
        let is_last = outstanding.is_last;
        self.is_heard |= (200..300).contains(&status);
        match status {
            ..200 => outstanding.slow_down(),
            200..300 => self.confirmed(is_last),
            300.. => self.over(End::Refused(status)),
        }
        true
    }

    /// Ends the subscription with a last NOTIFY, or without one when there is
    /// nothing to tell, no buffer or no room for 32 s.
    pub fn end(&mut self, end: End, now: Instant) {
        if self.phase == Phase::Active {
            self.phase = Phase::Ending(end, now + 64 * T1);
            self.owes_notify = true;
            self.is_urgent = true;
        }
    }

    /// What has to be sent at `now`, if anything. Ask again until there is
    /// nothing, and then at [`Subscription::deadline`]. `scratch` is room to
    /// write in and holds nothing afterwards.
    ///
    /// # Errors
    ///
    /// [`NoBuffer`] when `buffers` have no room for what has to be sent.
    pub fn poll(
        &mut self,
        now: Instant,
        scratch: &mut Vec<u8>,
        buffers: &BufferPool,
    ) -> Result<Option<Transmission>, NoBuffer> {
        if (self.outstanding.as_ref()).is_some_and(|it| it.gives_way(now)) {
            self.outstanding = None;
            self.tell_anew();
        }
        if let Some(outstanding) = self.outstanding.as_mut() {
            if outstanding.is_hopeless(now) {
                self.over(End::Unanswered);
                return Ok(None);
            }
            let is_again = true;
            let again = |datagram| Transmission { datagram, is_again };
            return Ok(outstanding.resend(now).map(again));
        }
        if now >= self.expires_at {
            self.end(End::Expired, now);
        }
        if self.tell_again_at.is_some_and(|at| now >= at) {
            self.owes_notify |= self.phase == Phase::Active;
        }
        if let (true, Phase::Ending(end, _)) = (self.is_cut, self.phase) {
            self.over(end);
        }
        let sent = match self.may_notify(now) {
            true => self.notify(now, scratch, buffers),
            false => Ok(None),
        };
        if !matches!(sent, Ok(Some(_))) {
            self.give_up(now);
        }
        sent
    }

    /// When to poll again; `None` when only an event can bring something new.
    pub fn deadline(&self) -> Option<Instant> {
        match (&self.outstanding, self.phase) {
            (_, Phase::Over(_)) => None,
            (Some(outstanding), _) => Some(outstanding.deadline()),
            (None, Phase::Active) if self.is_cut => Some(self.expires_at),
            (None, _) if self.retry_at.is_some() && self.knows_state() => self.retry_at,
            (None, Phase::Active) if self.owes_notify && self.knows_state() => {
                Some(self.next_change_at.min(self.expires_at))
            }
            (None, Phase::Active) => {
                let again_at = self.tell_again_at.unwrap_or(self.expires_at);
                Some(again_at.min(self.expires_at))
            }
            (None, Phase::Ending(_, give_up_at)) => Some(give_up_at),
        }
    }

    /// Length of the NOTIFY that waits for its answer, in bytes; zero without one.
    pub fn outstanding_len(&self) -> usize {
        let outstanding = self.outstanding.as_ref();
        outstanding.map_or(0, |outstanding| outstanding.datagram.len())
    }

    /// How it ended; `None` while it lives or its last NOTIFY is on its way.
    pub fn ended(&self) -> Option<End> {
        match self.phase {
            Phase::Over(end) => Some(end),
            Phase::Active | Phase::Ending(..) => None,
        }
    }

    /// Whether the watcher knows that the subscription is over, so that it can be
    /// dropped.
    pub fn tells_its_end(&self) -> bool {
        let is_last = self.outstanding.as_ref().is_some_and(|sent| sent.is_last);
        is_last || self.ended().is_some()
    }

    /// Whether a NOTIFY was answered from the current destination. Until then it may
    /// belong to anybody, since the subscriber names it.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// The dialog it lives in.
    pub fn dialog(&self) -> &Dialog {
        &self.dialog
    }

    /// The address of record it watches.
    pub fn device(&self) -> &Name {
        &self.device
    }

    /// The package it is told in.
    pub fn package(&self) -> Package {
        self.package
    }

    /// Itself as one of the watchers of what it watches; they are told apart by `id`.
    pub fn listed(&self, id: u64) -> ListedWatcher {
        ListedWatcher {
            id,
            uri: self.dialog.remote_uri().into(),
            opened_at: self.opened_at,
            expires_at: self.expires_at,
            ended: None,
        }
    }

    /// Seconds until it ends, rounded up.
    pub fn left_s(&self, now: Instant) -> u32 {
        seconds(self.expires_at - now)
    }

    fn extend(&mut self, granted_s: u32, now: Instant) {
        self.expires_at = now + Duration::from_secs(granted_s.into());
        self.owes_notify = true;
        self.is_urgent = true;
        if let Some(view) = self.watchers.as_mut() {
            view.told.forget();
        }
        let was_told = self.version > 0;
        if let Some(list) = self.list.as_mut() {
            // A watcher that goes needs no state; one that only fetches needs all of it.
            list.is_left = granted_s == 0 && was_told;
            if let Some(view) = list.view.as_mut().filter(|_| granted_s > 0) {
                view.tell_all();
            }
        }
        if granted_s == 0 {
            self.end(End::Unsubscribed, now);
        }
    }

    fn view_mut(&mut self) -> Option<&mut ListView> {
        self.list.as_mut()?.view.as_mut()
    }

    /// Whether there is something that could be told.
    fn knows_state(&self) -> bool {
        match &self.list {
            Some(list) => list.view.is_some(),
            None => self.state != Known::Nothing,
        }
    }

    fn confirmed(&mut self, is_last: bool) {
        (self.outstanding, self.silence) = (None, None);
        self.put_off_since = None;
        if let (true, Phase::Ending(end, _)) = (is_last, self.phase) {
            self.over(end);
        }
    }

    /// The last NOTIFY could not be written until now, or found no room.
    fn give_up(&mut self, now: Instant) {
        if let Phase::Ending(end, give_up_at) = self.phase
            && now >= give_up_at
        {
            self.over(end);
        }
    }

    fn over(&mut self, end: End) {
        self.phase = Phase::Over(end);
        self.outstanding = None;
        self.owes_notify = false;
        self.retry_at = None;
    }

    fn may_notify(&self, now: Instant) -> bool {
        let may_try = self.retry_at.is_none_or(|at| now >= at);
        let is_over = matches!(self.phase, Phase::Over(_));
        let is_time = self.is_urgent || now >= self.next_change_at;
        let has_way = !is_over && !self.is_cut;
        self.owes_notify && self.knows_state() && has_way && is_time && may_try
    }

    fn notify(
        &mut self,
        now: Instant,
        scratch: &mut Vec<u8>,
        buffers: &BufferPool,
    ) -> Result<Option<Transmission>, NoBuffer> {
        let cseq = self.dialog.next_cseq();
        scratch.clear();
        let Some(owes_more) = self.write_notify(cseq, now, scratch) else {
            self.dialog.take_back_cseq();
            self.owes_notify = false;
            return Ok(None);
        };
        let datagram = buffers.copy_from(scratch);
        scratch.clear();
        let Ok(datagram) = datagram else {
            if let Some(view) = self.view_mut() {
                view.take_back();
            }
            (self.retry_at, self.silence) = (Some(now + T1), None);
            return Err(NoBuffer);
        };
        self.retry_at = None;
        self.owes_notify = owes_more;
        if let Known::State(Some(State::Registration(state))) = &self.state {
            self.told_contacts.told(&state.contacts);
        }
        if let (Some(view), Known::State(Some(State::Watchers(info)))) =
            (self.watchers.as_mut(), &self.state)
        {
            view.told.has_left(info);
        }
        // What does not fit follows at once.
        self.is_urgent = owes_more;
        self.next_change_at = now + self.interval;
        let again = self.rates.interval_max();
        self.tell_again_at = again.map(|interval| now + interval);
        self.version = self.version.wrapping_add(1);
        let is_last = self.phase != Phase::Active && !owes_more;
        let is_reliable = self.dialog.flow().transport.is_reliable();
        let outstanding = Outstanding::new(
            cseq,
            is_last,
            datagram.clone(),
            is_reliable,
            self.is_heard,
            now,
        );
        self.outstanding = Some(outstanding.into());
        let is_again = false;
        Ok(Some(Transmission { datagram, is_again }))
    }
}
