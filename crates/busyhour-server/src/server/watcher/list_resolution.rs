//! From what a watcher of a list asks for to the resources that it is told.

use super::watcher_context::WatcherContext;
use busyhour::bus::Name;
use busyhour_registrar::{
    Refusal, address_of_record,
    watch::{Entry, ListEntry, ListedResource, Package, ResourceList, ResourceStanding, expand},
};
use busyhour_sip::Uri;

impl WatcherContext {
    /// The resources of the list at `uri`, or of `recipients`, which a SUBSCRIBE has brought.
    /// Each resource is judged as if `account` had subscribed to it alone.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotFound`] if there is no such list, [`Refusal::TooLarge`] if it has too many
    /// resources.
    pub(in crate::server) fn resolve_list(
        &self,
        uri: &str,
        recipients: Option<&[ListEntry]>,
        package: Package,
        account: Option<&str>,
    ) -> Result<ResourceList, Refusal> {
        let lists = self.lists.snapshot();
        let list = lists.get(self.accounts.account_of(uri));
        let (entries, name) = match (recipients, list) {
            (Some(recipients), _) => (recipients, None),
            (None, Some(list)) => (&*list.entries, list.title.as_deref()),
            (None, None) => return Err(Refusal::NotFound),
        };
        let own = account.map(|account| self.accounts.account_of_login(account));
        let is = |entry: &ListEntry| {
            let address = self.address_of(&entry.uri);
            // Who may not watch a list is not shown who is on it, wherever it is named.
            let inner = address
                .as_deref()
                .map(|address| self.accounts.account_of(address))
                .filter(|inner| own.is_none_or(|own| self.accounts.may_watch(own, inner)))
                .and_then(|inner| lists.get(inner));
            let key = address.clone().unwrap_or_else(|| Name::new(&entry.uri));
            match inner {
                Some(list) => Entry::List(
                    Name::new(self.accounts.account_of(&key)),
                    list.entries.clone(),
                ),
                None => Entry::Resource(key),
            }
        };
        let expanded = expand(entries, self.policy.list_resources_max, is);
        let expanded = expanded.map_err(|_| Refusal::TooLarge)?;
        let resources = expanded.into_iter().map(|(resource, name)| ListedResource {
            standing: self.standing(&resource, package, account),
            name: name.map(Box::from),
            resource,
        });
        Ok(ResourceList {
            uri: uri.into(),
            name: name.map(Box::from),
            resources: resources.collect(),
        })
    }

    fn address_of(&self, uri: &str) -> Option<Name> {
        let uri = Uri::parse(uri)?;
        address_of_record(&uri, &self.domains).ok().map(Name::from)
    }

    /// As a subscription to the resource alone is judged.
    fn standing(
        &self,
        resource: &str,
        package: Package,
        account: Option<&str>,
    ) -> ResourceStanding {
        let user = self.accounts.account_of(resource);
        if self.address_of(resource).is_none() {
            return ResourceStanding::NotFound;
        }
        let own = account.map(|account| self.accounts.account_of_login(account));
        let is_its_own = |own: &str| self.mailboxes.of(user) == self.mailboxes.of(own);
        match (package, own) {
            (Package::MessageSummary, Some(own)) if !is_its_own(own) => ResourceStanding::Rejected,
            (_, Some(own)) if !self.accounts.may_watch(own, user) => ResourceStanding::Rejected,
            // Only who may watch it learns whether there is such an account.
            _ if !self.knows(user) => ResourceStanding::NotFound,
            _ => ResourceStanding::Watched,
        }
    }

    /// With accounts, only they and hints have a state to watch.
    pub(in crate::server) fn knows(&self, user: &str) -> bool {
        self.is_open || self.accounts.may_exist(user) || self.hints.contain(user)
    }
}
