//! The room of a request among those of all calls.

use super::Calls;
use crate::server::call::{
    checked::{Checked, Parties},
    permit::{CallRoom, NoRoom, Permit},
};
use busyhour_sip::Method;

impl Calls {
    pub(super) fn rooms(&self) -> [&CallRoom; 4] {
        [
            &self.room,
            &self.emergency_room,
            &self.within_room,
            &self.bye_room,
        ]
    }

    /// Emergencies, requests within dialogs and BYE, which frees more than it takes, have room of
    /// their own as well: a call that was let in can change and end, however many calls begin. The
    /// proxy bounds them all once more.
    pub(super) fn permit(&self, checked: &Checked<'_, '_>) -> Result<Permit, NoRoom> {
        let Checked {
            inbound, holder, ..
        } = *checked;
        // As it came, as it goes to each target, and its response.
        let copies = checked.located.called.len() as u64 + 2;
        let bytes = inbound.datagram.len() as u64 * copies;
        let is_within = matches!(checked.parties, Parties::Within(..));
        let is_bye = is_within && inbound.message.method() == Some(Method::Bye);
        let more = [
            (checked.is_emergency, &self.emergency_room),
            (is_within, &self.within_room),
            (is_bye, &self.bye_room),
        ];
        let mut rooms = more.iter().filter(|(may, _)| *may);
        let permit = self.room.take(holder, bytes);
        let permit = permit.or_else(|first| {
            let taken = rooms.find_map(|(_, room)| room.take(holder, bytes).ok());
            taken.ok_or(first)
        });
        match &permit {
            Err(NoRoom::Requests) => self.counters.refused_full.increment(),
            Err(NoRoom::Memory) => self.counters.refused_memory.increment(),
            Err(NoRoom::Share) | Ok(_) => {}
        }
        permit
    }
}
