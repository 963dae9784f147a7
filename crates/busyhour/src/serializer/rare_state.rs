use super::{exclusive::WaitingSection, room::RoomQueue};

/// What few serializers have at a time: what holds their tasks up, and who
/// waits for them. Stored separately, so that the others stay small, and looked
/// at only if it is there.
#[derive(Default)]
pub(super) struct RareState {
    /// Suspensions not yet resumed.
    pub(super) suspension_count: u32,
    /// Threads to notify when a task here has ended.
    pub(super) waiting_thread_count: u32,
    /// The future that keeps the serializer for itself.
    pub(super) section: Option<WaitingSection>,
    pub(super) room: RoomQueue,
}

impl RareState {
    pub(super) fn is_nothing(&self) -> bool {
        self.suspension_count == 0
            && self.waiting_thread_count == 0
            && self.section.is_none()
            && self.room.is_nothing()
    }

    /// Whether something may start, if nothing runs: the section's poll, or a
    /// task if there is no section.
    pub(super) fn may_begin(&self, has_tasks: bool) -> bool {
        let section = self.section.as_ref();
        self.suspension_count == 0 && section.map_or(has_tasks, |section| section.poll.is_some())
    }
}
