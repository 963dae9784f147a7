//! What a device publishes about itself: the bodies of the packages, read.

use crate::watch::{
    Elements, LineState, MessageSummary, Package,
    body::{dialog_info, elements, pidf},
};
use roxmltree::Node;
use std::sync::Arc;

/// A published state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Presence: tuples, notes and what extends them (RFC 3863, RFC 4479).
    Presence(Elements),
    /// Dialogs (RFC 4235).
    Dialog {
        /// The dialogs as they are told.
        dialogs: Elements,
        /// What they mean for the line.
        line: LineState,
    },
    /// What waits in a mailbox (RFC 3842).
    Messages(Arc<MessageSummary>),
}

/// Why a body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub &'static str);

impl Document {
    /// Reads the body of a package, which may take `written_len_max` bytes in
    /// what watchers are told.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] says why the body is invalid.
    pub fn read(package: Package, body: &[u8], written_len_max: usize) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable("Body Is Not UTF-8"))?;
        match package {
            Package::Presence => presence(text, written_len_max),
            Package::Dialog => dialogs(text, written_len_max),
            Package::Registration => Err(Unreadable("Registrations Are Not Published")),
            Package::MessageSummary => {
                let summary = MessageSummary::parse(text)?;
                Ok(Self::Messages(Arc::new(summary)))
            }
            Package::PresenceWatchers
            | Package::DialogWatchers
            | Package::MessageSummaryWatchers => Err(Unreadable("Watchers Are Not Published")),
        }
    }

    /// The package it belongs to.
    pub fn package(&self) -> Package {
        match self {
            Self::Presence(_) => Package::Presence,
            Self::Dialog { .. } => Package::Dialog,
            Self::Messages(_) => Package::MessageSummary,
        }
    }

    /// The same with the dialogs that `keeps` keeps, by their Call-ID and whether they are
    /// over; `None` if that is all of them, or it has no dialogs.
    pub(in crate::watch) fn with_dialogs(
        &self,
        keeps: impl Fn(Option<&str>, bool) -> bool,
    ) -> Option<Self> {
        let Self::Dialog { dialogs, .. } = self else {
            return None;
        };
        let text = whole(dialogs);
        let document = elements::read(&text, dialog_info::NAMESPACE, "dialog-info").ok()?;
        let is_kept = |node: Node<'_, '_>| keeps(node.attribute("call-id"), is_over(node));
        let mut all = document.root_element().children().filter(Node::is_element);
        if all.all(is_kept) {
            return None;
        }
        let is_kept = |node: Node<'_, '_>| is_dialog(node) && is_kept(node);
        dialogs_of(&document, is_kept, dialogs.len_max()).ok()
    }

    /// The Call-IDs of the dialogs that it says are over.
    pub(in crate::watch) fn ended_call_ids(&self) -> Vec<Arc<str>> {
        let Self::Dialog { dialogs, .. } = self else {
            return Vec::new();
        };
        if !dialogs.mentions(TERMINATED) {
            return Vec::new();
        }
        let text = whole(dialogs);
        let document = elements::read(&text, dialog_info::NAMESPACE, "dialog-info");
        let Ok(document) = document else {
            return Vec::new();
        };
        let ended = document.root_element().children().filter(|it| is_over(*it));
        let call_ids = ended.filter_map(|dialog| dialog.attribute("call-id"));
        call_ids.map(Arc::from).collect()
    }

    /// The most bytes that it takes beside others in what watchers are told; a
    /// mailbox tells of one alone.
    pub(in crate::watch) fn written_len_max(&self) -> usize {
        match self {
            Self::Presence(elements) => elements.len_max(),
            Self::Dialog { dialogs, .. } => dialogs.len_max(),
            Self::Messages(_) => 0,
        }
    }
}

fn presence(text: &str, written_len_max: usize) -> Result<Document, Unreadable> {
    let document = elements::read(text, pidf::NAMESPACE, "presence")?;
    Elements::of(&document, |_| true, written_len_max).map(Document::Presence)
}

fn dialogs(text: &str, written_len_max: usize) -> Result<Document, Unreadable> {
    let document = elements::read(text, dialog_info::NAMESPACE, "dialog-info")?;
    if document.root_element().attribute("state") != Some("full") {
        return Err(Unreadable("Dialogs Must Be Published In Full"));
    }
    dialogs_of(&document, is_dialog, written_len_max)
}

/// A document of these dialogs, to be read again.
fn whole(dialogs: &Elements) -> String {
    format!(
        "<dialog-info xmlns=\"{}\" state=\"full\">{}</dialog-info>",
        dialog_info::NAMESPACE,
        dialogs.without_owner()
    )
}

fn is_over(dialog: Node<'_, '_>) -> bool {
    state_of(dialog) == Some(TERMINATED)
}

fn is_dialog(node: Node<'_, '_>) -> bool {
    node.has_tag_name((dialog_info::NAMESPACE, "dialog"))
}

fn dialogs_of(
    document: &roxmltree::Document<'_>,
    wanted: impl Fn(Node<'_, '_>) -> bool,
    written_len_max: usize,
) -> Result<Document, Unreadable> {
    let children = document.root_element().children();
    let states = children.filter(|node| wanted(*node)).map(line_of);
    Ok(Document::Dialog {
        line: LineState::aggregate(states.chain([LineState::Idle])),
        dialogs: Elements::of(document, wanted, written_len_max)?,
    })
}

/// A dialog begins early and is confirmed (RFC 4235 §3.7.1); one on hold
/// renders nothing (RFC 4235 §4.1.5, RFC 3840).
fn line_of(dialog: Node<'_, '_>) -> LineState {
    let named = |name: &'static str| move |node: &Node<'_, '_>| node.tag_name().name() == name;
    let is_caller = dialog.attribute("direction") == Some("initiator");
    // Of the other side it says that the device is on hold, which it still uses.
    let local = dialog.children().find(named("local"));
    let mut params = local
        .iter()
        .flat_map(Node::descendants)
        .filter(named("param"));
    let is_held = params.any(|param| {
        let no = |value: &str| value.eq_ignore_ascii_case("no");
        param.attribute("pname") == Some("+sip.rendering")
            && param
                .attribute("pval")
                .or(param.attribute("pvalue"))
                .is_some_and(no)
    });
    match state_of(dialog) {
        Some("confirmed") if is_held => LineState::OnHold,
        Some("confirmed") => LineState::InUse,
        Some("trying" | "proceeding" | "early") if is_caller => LineState::InUse,
        Some("trying" | "proceeding" | "early") => LineState::Ringing,
        _ => LineState::Idle,
    }
}

fn state_of<'d>(dialog: Node<'d, '_>) -> Option<&'d str> {
    let is_state = |node: &Node<'_, '_>| node.tag_name().name() == "state";
    let state = dialog.children().find(is_state)?;
    state.text().map(str::trim)
}

/// The state of a dialog that is over (RFC 4235 §3.7.1).
const TERMINATED: &str = "terminated";
