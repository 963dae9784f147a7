//! The interface through which the HTTP API reads and changes mailboxes, hints and lists.

use crate::server::{
    HintConfig, HintRefusal, HintView, ListConfig, ListRefusal, ListView, MailboxRefusal,
    NamedPage, Server,
};
use busyhour_registrar::watch::{Mailbox, MessageSummary};
use busyhour_store::Completion;

/// The backend for mailboxes, hints and lists: the server, or a fake in tests. Each method
/// calls the server's method of the same name and returns its errors.
pub trait SettingsApi: Send + Sync {
    /// The message counts of a mailbox.
    fn mailbox(&self, id: &str) -> Option<Mailbox>;

    /// At most `limit` mailboxes behind the name `after`; only those of `domain`, if given.
    fn mailboxes(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<Mailbox>;

    /// Sets the message counts of a mailbox. Returns whether it is new.
    fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal>;

    /// Removes the message counts that were set; `false` if there are none.
    fn remove_mailbox(&self, id: &str, done: Completion) -> Result<bool, MailboxRefusal>;

    /// A hint.
    fn hint(&self, extension: &str) -> Option<HintView>;

    /// At most `limit` hints behind the extension `after`; only those of `domain`, if given.
    fn hints(&self, after: Option<&str>, limit: usize, domain: Option<&str>)
    -> NamedPage<HintView>;

    /// Sets the devices of an extension. Returns whether the hint is new.
    fn set_hint(&self, hint: &HintConfig, done: Completion) -> Result<bool, HintRefusal>;

    /// Removes what was set for a hint; `false` if there is none.
    fn remove_hint(&self, extension: &str, done: Completion) -> Result<bool, HintRefusal>;

    /// A list of resources.
    fn list(&self, name: &str) -> Option<ListView>;

    /// At most `limit` lists behind the name `after`.
    fn lists(&self, after: Option<&str>, limit: usize, domain: Option<&str>)
    -> NamedPage<ListView>;

    /// Sets a list. Returns whether it is new.
    fn set_list(&self, list: &ListConfig, done: Completion) -> Result<bool, ListRefusal>;

    /// Removes a list; `false` if there is none.
    fn remove_list(&self, name: &str, done: Completion) -> Result<bool, ListRefusal>;
}

impl SettingsApi for Server {
    fn mailbox(&self, id: &str) -> Option<Mailbox> {
        self.mailbox(id)
    }

    fn mailboxes(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<Mailbox> {
        self.mailboxes(after, limit, domain)
    }

    fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        self.set_mailbox(id, summary, done)
    }

    fn remove_mailbox(&self, id: &str, done: Completion) -> Result<bool, MailboxRefusal> {
        self.remove_mailbox(id, done)
    }

    fn hint(&self, extension: &str) -> Option<HintView> {
        self.hint(extension)
    }

    fn hints(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<HintView> {
        self.hints(after, limit, domain)
    }

    fn set_hint(&self, hint: &HintConfig, done: Completion) -> Result<bool, HintRefusal> {
        self.set_hint(hint, done)
    }

    fn remove_hint(&self, extension: &str, done: Completion) -> Result<bool, HintRefusal> {
        self.remove_hint(extension, done)
    }

    fn list(&self, name: &str) -> Option<ListView> {
        self.list(name)
    }

    fn lists(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<ListView> {
        self.lists(after, limit, domain)
    }

    fn set_list(&self, list: &ListConfig, done: Completion) -> Result<bool, ListRefusal> {
        self.set_list(list, done)
    }

    fn remove_list(&self, name: &str, done: Completion) -> Result<bool, ListRefusal> {
        self.remove_list(name, done)
    }
}
