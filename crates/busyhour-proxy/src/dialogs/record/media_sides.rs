use crate::dialogs::CallHandle;
use busyhour_sip::Flow;

/// Between which sides of a call the media does not flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaSides {
    /// The caller and whoever answers.
    All,
    /// The caller and whom its INVITE reaches on this branch.
    Branch(CallHandle, u16),
    /// The caller and whom something goes to over this flow. If there are several, it is the one who has answered, or else
    /// the first.
    Flow(Flow),
}
