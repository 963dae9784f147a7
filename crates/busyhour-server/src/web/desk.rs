//! What the HTTP API may read and change: mailboxes and hints.

use crate::{
    server::{
        HintConfig, HintListing, HintRefusal, HintView, Mailbox, MailboxListing, MailboxRefusal,
        MessageSummary, Server,
    },
    store::Completion,
};

/// Mailboxes and hints; the server, or a stand-in in tests. Each method is the
/// server's of the same name.
#[allow(missing_docs, reason = "each is the server's method of the same name")]
pub trait Desk: Send + Sync {
    fn mailbox(&self, id: &str) -> Option<Mailbox>;
    fn mailboxes(&self, after: Option<&str>, limit: usize) -> MailboxListing;
    fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal>;
    fn remove_mailbox(&self, id: &str, done: Completion) -> Result<bool, MailboxRefusal>;
    fn hint(&self, extension: &str) -> Option<HintView>;
    fn hints(&self, after: Option<&str>, limit: usize) -> HintListing;
    fn set_hint(&self, hint: &HintConfig, done: Completion) -> Result<bool, HintRefusal>;
    fn remove_hint(&self, extension: &str, done: Completion) -> Result<bool, HintRefusal>;
}

impl Desk for Server {
    fn mailbox(&self, id: &str) -> Option<Mailbox> {
        self.mailbox(id)
    }

    fn mailboxes(&self, after: Option<&str>, limit: usize) -> MailboxListing {
        self.mailboxes(after, limit)
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

    fn hints(&self, after: Option<&str>, limit: usize) -> HintListing {
        self.hints(after, limit)
    }

    fn set_hint(&self, hint: &HintConfig, done: Completion) -> Result<bool, HintRefusal> {
        self.set_hint(hint, done)
    }

    fn remove_hint(&self, extension: &str, done: Completion) -> Result<bool, HintRefusal> {
        self.remove_hint(extension, done)
    }
}
