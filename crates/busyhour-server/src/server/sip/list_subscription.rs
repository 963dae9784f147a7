//! A SUBSCRIBE to a list: one that is known by its URI (RFC 4662), or one that the request
//! brings with it (RFC 5367).

use super::receive::Request;
use crate::server::{
    core::Core,
    watcher::list_watching::{ResolvedList, is_told_of_lists},
};
use busyhour::bus::Name;
use busyhour_registrar::{
    EVENTLIST, RECIPIENT_LIST, Refusal, address_of_record, decoded_body,
    watch::{ListEntry, Subscribe, Unreadable, read_recipients},
};
use busyhour_sip::{HeaderName, Limits, Message, SipUri, Uri};
use std::sync::Arc;

/// The list that a SUBSCRIBE asks for.
pub(super) enum WantedList {
    /// The one of this URI.
    Known,
    /// The one in its body.
    Brought(Vec<ListEntry>),
}

impl Core {
    /// The list that a SUBSCRIBE asks for; `None` if it asks for one resource.
    pub(super) fn wanted_list(
        &self,
        message: &Message<'_>,
        uri: &SipUri<'_>,
    ) -> Result<Option<WantedList>, Refusal> {
        let brings = message.has_token(HeaderName::Require, RECIPIENT_LIST);
        let content_type = message.content_type()?;
        let is_list = content_type.is_some_and(|it| it.covers("application", "resource-lists+xml"));
        if brings || is_list {
            return self.brought_list(message, is_list).map(Some);
        }
        let Ok(address) = address_of_record(&Uri::Sip(*uri), &self.domains) else {
            return Ok(None);
        };
        let is_known = self
            .watching
            .lists
            .snapshot()
            .contains_key(self.accounts.account_of(&address));
        Ok(is_known.then_some(WantedList::Known))
    }

    fn brought_list(&self, message: &Message<'_>, is_list: bool) -> Result<WantedList, Refusal> {
        if !is_list {
            return Err(Refusal::UnsupportedMedia(RESOURCE_LISTS));
        }
        // In plain it may be as long as one that comes so.
        let body = decoded_body(message, Limits::default().body_bytes, RESOURCE_LISTS);
        self.responder.traffic.count_body(message, &body);
        let entries = read_recipients(&body?, self.config.watch.list_resources_max);
        let bad = |Unreadable(reason)| Refusal::BadRequest(reason.into());
        Ok(WantedList::Brought(entries.map_err(bad)?))
    }

    pub(super) fn open_list_subscription(
        self: &Arc<Self>,
        request: &Request<'_>,
        uri: &SipUri<'_>,
        wanted: WantedList,
    ) -> Result<(), Refusal> {
        let Request { message, flow, .. } = *request;
        let address = address_of_record(&Uri::Sip(*uri), &self.domains);
        let list = match (&wanted, &address) {
            (WantedList::Known, Ok(address)) => Some(self.accounts.account_of(address)),
            _ => None,
        };
        let Some(sender) = self.admission.admit_list_subscription(request, list)? else {
            return Ok(());
        };
        let subscribe = Subscribe::read(message, &self.config.watch, flow)?;
        let package = subscribe.package;
        if !is_told_of_lists(package) {
            return Err(Refusal::BadEvent);
        }
        if !subscribe.supports_lists {
            return Err(Refusal::ExtensionRequired(EVENTLIST));
        }
        self.watchers.check_kept_len(&subscribe)?;
        let (account, username) = (sender.account(), sender.username());
        let recipients = match wanted {
            WantedList::Known => None,
            WantedList::Brought(entries) => Some(Arc::from(entries)),
        };
        // A list that is brought may be sent to the server as such, without a user.
        let address = match recipients {
            Some(_) => address.unwrap_or_else(|_| uri.text.to_owned()),
            None => address?,
        };
        let changes = self.watchers.list_changes();
        let list =
            self.watching
                .resolve_list(&address, recipients.as_deref(), package, username)?;
        let holder = self.holder(flow, account);
        let Some(inbound) = self.begin(request, holder, account)? else {
            return Ok(());
        };
        let (id, subscription) = self.subscription(&subscribe, Name::new(&address), username);
        let subscription = subscription.to_list(recipients, &self.config.watch);
        self.start_watcher(
            message,
            &subscribe,
            (id, subscription),
            Some(ResolvedList { list, changes }),
            holder,
            inbound,
        )
    }
}

const RESOURCE_LISTS: &str = "application/resource-lists+xml";
