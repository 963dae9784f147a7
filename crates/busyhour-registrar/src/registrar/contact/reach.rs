/// What is known of whether messages reach a contact. It is not stored.
///
/// ```
/// use busyhour_registrar::Reach;
///
/// assert!(Reach::Reachable.is_believed() && Reach::Unverified.is_believed());
/// assert_eq!(Reach::Unverified.name(), "unverified");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The device has registered, or was heard, since the server runs, its connection has not
    /// ended, and it leaves no probe unanswered.
    Reachable,
    /// The contact was restored after a restart, and nothing was heard from the device since.
    /// Calls try it.
    Unverified,
    /// Its connection has ended, or it did not answer. Calls try it only where there is nothing
    /// else.
    Unreachable,
}

impl Reach {
    /// Whether watchers see the device as reachable: until the opposite is known, what was
    /// registered is believed.
    pub fn is_believed(self) -> bool {
        self != Self::Unreachable
    }

    /// Its name in the HTTP API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Unverified => "unverified",
            Self::Unreachable => "unreachable",
        }
    }
}
