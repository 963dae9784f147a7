//! Calls, and nodes that watch devices for their hints.

use super::{Event, World};
use crate::letter::Bye;

impl World {
    pub(super) fn watch_or_call(&mut self, device: usize) {
        let number = self.below(self.machines.len() as u64) as usize;
        let (choice, id) = (self.below(4), self.dialogs);
        let aor = self.devices[device].aor.clone();
        let machine = &mut self.machines[number];
        let Some(life) = machine.life.as_mut().filter(|_| !machine.is_stopped) else {
            return;
        };
        let known = life.carries.iter().find(|(of, _)| *of == aor);
        match (choice, known.map(|(_, id)| *id)) {
            (0 | 1, _) => life.want(&aor, choice == 0),
            (2, _) => {
                self.dialogs += 1;
                life.carry(&aor, id, true);
            }
            (_, Some(id)) => {
                let came_to = self.below(self.machines.len() as u64) as usize;
                let bye = Bye {
                    aor,
                    id,
                    carrier: number,
                    came_to,
                };
                return self.send_bye(bye, 0);
            }
            (_, None) => {}
        }
        let out = life.take_out();
        self.follow(number, out);
    }

    /// A telephone sends its BYE again until there is an answer, or nobody waits any more.
    pub(super) fn send_bye(&mut self, bye: Bye, sent: u32) {
        let is_over = self.over.contains_key(&(bye.aor.clone(), bye.id));
        if is_over || sent == BYES_MAX {
            return;
        }
        for delay in self.delays() {
            self.push(delay, Event::Bye(bye.came_to, bye.clone()));
        }
        self.push(500, Event::ByeSent(bye, sent + 1));
    }
}

/// For longer than any fault.
const BYES_MAX: u32 = 64;
