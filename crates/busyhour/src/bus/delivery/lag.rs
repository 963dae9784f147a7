/// The subscriber has received every change up to `since`, and nothing after it.
#[derive(Clone, Copy)]
pub(in crate::bus) struct Lag {
    pub(in crate::bus) since: u64,
    pub(in crate::bus) lost: u64,
    /// It has received nothing yet: its replay will deliver everything.
    pub(in crate::bus) is_new: bool,
}

impl Lag {
    /// The lag of a subscriber that has received nothing yet.
    pub(in crate::bus) const NEW: Self = Self {
        since: 0,
        lost: 0,
        is_new: true,
    };
}
