//! The tags of dialogs, of whatever length.

use std::{borrow::Cow, hash::BuildHasher};

use foldhash::quality::FixedState;

use super::TAG_LEN_MAX;

/// A tag as it is kept: one that is too long is cut, and followed by a hash. So its dialog is
/// followed like others; but nobody can be asked about it.
pub(super) fn kept_tag(tag: &str) -> Cow<'_, str> {
    if tag.len() <= TAG_LEN_MAX {
        return tag.into();
    }
    let begin: String = tag.chars().take(BEGIN_LEN).collect();
    let hash = FixedState::with_seed(0).hash_one(tag);
    format!("{begin}{CUT}{hash:016x}").into()
}

/// Whether a kept tag is cut.
pub(super) fn is_cut(tag: &str) -> bool {
    tag.contains(CUT)
}

/// No token has it (RFC 3261 §25.1).
const CUT: char = '…';
const BEGIN_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tag_is_cut_and_stays_itself() {
        let long = "t".repeat(TAG_LEN_MAX + 1);
        let kept = kept_tag(&long);
        assert!(is_cut(&kept) && kept.len() <= TAG_LEN_MAX, "{kept}");
        assert_eq!(kept, kept_tag(&long));
        assert_ne!(kept, kept_tag(&format!("{long}t")));
        let longest = &long[1..];
        assert_eq!(kept_tag(longest), longest);
        assert!(!is_cut(longest));
    }
}
