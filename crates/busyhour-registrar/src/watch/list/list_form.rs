//! How a list is written for whom: as the RFCs have it, or as liblinphone reads it.
//!
//! liblinphone (5.1.65, which Debian 12 has, was tried; its source of June 2025 reads the same) shows nothing of a
//! list that is written by RFC 4662. It subscribes to `presence` and reads NOTIFYs of `Presence` only, which RFC 6665
//! §8.2.1 takes for another event, and it looks for a part whose `Content-Id`, spelled so, is the `cid` of the resource
//! to the letter, where RFC 2392 §2 and RFC 4662 §5.5 have angle brackets in the header and none in `cid`. No one form
//! is right and shows something there, so the form follows the User-Agent of the SUBSCRIBE.

use crate::watch::Package;
use busyhour_sip::{HeaderName, Message};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// The form of the NOTIFYs of one subscription to a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListForm {
    /// RFC 4662 and RFC 6665.
    #[default]
    Standard,
    /// What liblinphone shows.
    Liblinphone,
}

impl ListForm {
    /// The one that the sender of a SUBSCRIBE reads.
    pub(in crate::watch) fn of(message: &Message<'_>, package: Package) -> Self {
        let agent = message.header(HeaderName::UserAgent).unwrap_or_default();
        match package == Package::Presence && is_liblinphone(agent) {
            true => Self::Liblinphone,
            false => Self::Standard,
        }
    }

    /// What Event says.
    pub(in crate::watch) fn event(self, package: Package) -> &'static str {
        match self {
            Self::Standard => package.name(),
            Self::Liblinphone => "Presence",
        }
    }

    /// The header line of a part, without its end.
    pub(in crate::watch) fn content_id(self, id: impl Display) -> impl Display {
        ContentId(self, id)
    }

    pub(in crate::watch) fn is_standard(&self) -> bool {
        *self == Self::Standard
    }
}

/// Its programs name themselves Linphone, Linphonec, LinphoneAndroid and so on; programs of others that are built on it
/// name its signalling.
fn is_liblinphone(agent: &str) -> bool {
    let has = |name: &str| {
        let mut windows = agent.as_bytes().windows(name.len());
        windows.any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
    };
    has("linphone") || has("belle-sip")
}

struct ContentId<I>(ListForm, I);

impl<I: Display> Display for ContentId<I> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self(ListForm::Standard, id) => write!(f, "Content-ID: <{id}>"),
            Self(ListForm::Liblinphone, id) => write!(f, "Content-Id: {id}"),
        }
    }
}
