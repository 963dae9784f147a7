//! One dialog of a device (RFC 4235 §4.1) as somebody knows it who carries it, and what
//! becomes of it.

use crate::watch::{
    Document, Elements, LineState,
    body::{
        call_names::{CallNames, DialogIdentity},
        elements::OWNER,
        xml::Escaped,
    },
};
use busyhour::bus::Name;
use std::{
    fmt::{self, Display, Formatter, Write},
    sync::Arc,
};

/// A dialog from the side of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogInfo {
    /// Its Call-ID, the caller's tag, and who the sides are.
    pub names: Arc<CallNames>,
    /// The tag of the called side, where it has one by now.
    pub callee_tag: Option<Arc<str>>,
    /// Who called.
    pub direction: DialogDirection,
    /// How far it is.
    pub state: DialogState,
    /// The device has the other side on hold.
    pub is_local_hold: bool,
    /// The other side has the device on hold.
    pub is_remote_hold: bool,
}

/// Whether the device began the dialog (RFC 4235 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialogDirection {
    /// It calls.
    Initiator,
    /// It is called.
    Recipient,
}

/// The states of a dialog that lives (RFC 4235 §3.7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DialogState {
    /// The INVITE is on its way.
    Trying,
    /// There was a provisional response without a tag.
    Proceeding,
    /// There was a provisional response with a tag.
    Early,
    /// It was answered.
    Confirmed,
}

/// Why a dialog is terminated (RFC 4235 §3.7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialogEnd {
    /// The caller hung up before the answer, or another device answered.
    Cancelled,
    /// The INVITE was refused.
    Rejected,
    /// Another dialog took its place (RFC 3891).
    Replaced,
    /// The device hung up.
    LocalBye,
    /// The other side hung up.
    RemoteBye,
    /// A side does not know it any more, or cannot be reached.
    Error,
    /// Nothing was heard of it for too long.
    Timeout,
}

/// What becomes of one dialog of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogChange {
    /// The device's address of record.
    pub device: Name,
    /// Tells the dialogs of a device apart, over all of their changes. One that has
    /// ended never comes back: its next dialog has another id.
    pub id: u64,
    /// Grows with each change of the same dialog.
    pub version: u64,
    /// What it is now.
    pub step: DialogStep,
}

/// What a dialog is after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogStep {
    /// It lives.
    Is(DialogInfo),
    /// It has ended.
    Ended {
        /// Why.
        end: DialogEnd,
        /// The status of the response that ended it.
        code: Option<u16>,
    },
}

impl DialogState {
    /// As it stands in the `state` element.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Proceeding => "proceeding",
            Self::Early => "early",
            Self::Confirmed => "confirmed",
        }
    }
}

impl DialogEnd {
    /// As it stands in the `event` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
            Self::Replaced => "replaced",
            Self::LocalBye => "local-bye",
            Self::RemoteBye => "remote-bye",
            Self::Error => "error",
            Self::Timeout => "timeout",
        }
    }

    /// Whether messages ended the dialog, rather than the lack of them.
    pub fn is_certain(self) -> bool {
        !matches!(self, Self::Error | Self::Timeout)
    }
}

impl DialogDirection {
    /// As it stands in the `direction` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Recipient => "recipient",
        }
    }

    /// That of the other side.
    pub fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Recipient,
            Self::Recipient => Self::Initiator,
        }
    }
}

impl DialogInfo {
    /// The tag of the device, where it has one by now.
    pub fn local_tag(&self) -> Option<&str> {
        self.tag(self.direction)
    }

    /// The tag of the other side, where it has one by now.
    pub fn remote_tag(&self) -> Option<&str> {
        self.tag(self.direction.other())
    }

    /// Who the other side is, where that is known.
    pub fn remote(&self) -> Option<DialogIdentity<'_>> {
        self.names.identity(self.direction.other())
    }

    fn tag(&self, side: DialogDirection) -> Option<&str> {
        match side {
            DialogDirection::Initiator => Some(self.names.caller_tag()),
            DialogDirection::Recipient => self.callee_tag.as_deref(),
        }
    }

    /// What it means for the line: the same as if the device had published it.
    pub fn line(&self) -> LineState {
        match (self.state, self.direction) {
            (DialogState::Confirmed, _) if self.is_local_hold => LineState::OnHold,
            (DialogState::Confirmed, _) | (_, DialogDirection::Initiator) => LineState::InUse,
            (_, DialogDirection::Recipient) => LineState::Ringing,
        }
    }
}

impl Document {
    /// The document that tells of a device's dialogs, each with its id. It has as many of
    /// them as one NOTIFY has room for beside what the device publishes; the line is the
    /// state of all of them.
    pub(in crate::watch) fn of_dialogs<'d>(
        device: &Name,
        dialogs: impl Iterator<Item = (u64, &'d DialogInfo)> + Clone,
    ) -> Self {
        let mut text = String::new();
        for (id, info) in dialogs.clone() {
            let before = text.len();
            // Writing to a String can't fail.
            let _ = write!(text, "{}", Element { device, id, info });
            if text.len() > WRITTEN_LEN_MAX {
                text.truncate(before);
                break;
            }
        }
        Self::Dialog {
            line: LineState::aggregate(dialogs.map(|(_, info)| info.line())),
            dialogs: Elements::written(text),
        }
    }
}

/// A dialog as an element of its own line. The target is the identity: only the device's
/// own account may see where it is.
struct Element<'a> {
    device: &'a Name,
    id: u64,
    info: &'a DialogInfo,
}

impl Display for Element<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let info = self.info;
        write!(f, "<dialog id=\"{OWNER}{}\"", self.id)?;
        write!(f, " call-id=\"{}\"", Escaped(info.names.call_id()))?;
        let tags = [("local", info.local_tag()), ("remote", info.remote_tag())];
        for (side, tag) in tags {
            if let Some(tag) = tag {
                write!(f, " {side}-tag=\"{}\"", Escaped(tag))?;
            }
        }
        write!(f, " direction=\"{}\">", info.direction.as_str())?;
        write!(f, "<state>{}</state>", info.state.as_str())?;
        self.local(f)?;
        self.remote(f)?;
        f.write_str("</dialog>\r\n")
    }
}

impl Element<'_> {
    fn local(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let device = Escaped(self.device);
        write!(f, "<local><identity>{device}</identity>")?;
        write!(f, "<target uri=\"{device}\">")?;
        // RFC 4235 §4.1.6.2: who holds a call does not play its media.
        let rendering = if self.info.is_local_hold { "no" } else { "yes" };
        write!(
            f,
            "<param pname=\"+sip.rendering\" pval=\"{rendering}\"/></target></local>"
        )
    }

    fn remote(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(remote) = self.info.remote() else {
            return Ok(());
        };
        f.write_str("<remote><identity")?;
        if !remote.display.is_empty() {
            write!(f, " display=\"{}\"", Escaped(remote.display))?;
        }
        let uri = Escaped(remote.uri);
        write!(f, ">{uri}</identity><target uri=\"{uri}\"")?;
        match self.info.is_remote_hold {
            true => f.write_str("><param pname=\"+sip.rendering\" pval=\"no\"/></target></remote>"),
            false => f.write_str("/></remote>"),
        }
    }
}

/// Beside 48 KiB of publications, in a datagram of 64 KiB.
const WRITTEN_LEN_MAX: usize = 8 << 10;
