//! Telephones: most register in datagrams, at any node; every third one over a connection, which ends with its process or
//! when it closes it.

use super::{BEGIN, Event, World, clients::is_mute};
use crate::{device::Connection, letter::Asked, node::Life};
use std::time::Duration;

impl World {
    /// Its next request, to any node; now and then somebody begins or ends to watch, or a call
    /// begins or ends.
    pub(super) fn device(&mut self, number: usize) {
        if is_over_connection(number) {
            return self.connected_device(number);
        }
        let has_answer = self.devices[number].waiting.is_none();
        if has_answer && (!self.is_busy || self.is_kept_alive(number)) {
            return;
        }
        // Every other one seldom registers, so that it is asked whether it is there.
        let pause = (200 + self.below(800)) * if number.is_multiple_of(2) { 1 } else { 8 };
        self.push(pause, Event::Device(number));
        let any = self.below(self.machines.len() as u64) as usize;
        // Who sends keep-alives sends them, and copies of a request, where the request went.
        let is_copy = self.devices[number].waiting.is_some() && is_mute(number);
        let came_to = if is_copy {
            self.devices[number].asked
        } else {
            any
        };
        let asked = Asked {
            device: number,
            cseq: self.devices[number].next(),
            came_to,
            connection: None,
        };
        (self.devices[number].asked, self.devices[number].asked_at) = (came_to, self.now);
        for delay in self.delays() {
            self.push(delay, Event::Request(came_to, asked));
        }
        if self.is_rough && self.below(4) == 0 {
            self.watch_or_call(number);
        }
    }

    /// Over a connection it registers once, so that whoever has it since has to know that it is there.
    fn connected_device(&mut self, number: usize) {
        let leaves = leaves(number) && self.now >= BEGIN + LEAVE_AT;
        if leaves {
            self.devices[number].is_away = true;
            return self.close(number);
        }
        let (pause, node) = (200 + self.below(800), self.any_node());
        self.push(pause, Event::Device(number));
        let is_registered = self.devices[number].is_registered_now();
        if !self.stands(number) {
            let machine = &self.machines[node];
            if machine.life.is_some() {
                self.devices[number].connect(node, machine.process);
            }
        } else if is_registered {
            if self.is_rough && self.below(8) == 0 {
                self.close(number);
            }
            return;
        }
        let device = &mut self.devices[number];
        let Some(Connection {
            node,
            process,
            number: connection,
        }) = device.connection
        else {
            return;
        };
        let asked = Asked {
            device: number,
            cseq: device.next(),
            came_to: node,
            connection: Some((process, connection)),
        };
        self.push(2, Event::Request(node, asked));
    }

    fn close(&mut self, number: usize) {
        let Some(Connection {
            node,
            process,
            number: connection,
        }) = self.devices[number].connection.take()
        else {
            return;
        };
        let asked = Asked {
            device: number,
            cseq: 0,
            came_to: node,
            connection: Some((process, connection)),
        };
        self.tell(|| format!("telephone {number} closes {connection} at {node}"));
        self.push(2, Event::Closed(node, process, asked.flow()));
    }

    fn stands(&self, number: usize) -> bool {
        self.devices[number].connection.is_some_and(|it| {
            let machine = &self.machines[it.node];
            machine.process == it.process && machine.life.is_some()
        })
    }

    /// Ten seconds after the last connection has ended, whoever is there is known to be, and nobody else.
    pub(super) fn check_telephone(&self, number: usize, owner: &Life) {
        if !is_over_connection(number) {
            return;
        }
        let (seed, device) = (self.seed, &self.devices[number]);
        let (aor, reaches) = (
            &device.aor,
            owner.reaches(self.local(owner.number), &device.aor),
        );
        match device.is_away {
            true => assert!(!reaches, "seed {seed}: {aor} is told as there"),
            false => {
                let is_there = self.stands(number) && device.is_registered_now();
                assert!(is_there, "seed {seed}: {aor} has not registered again");
                assert!(reaches, "seed {seed}: {aor} is told as gone");
            }
        }
    }
}

fn is_over_connection(number: usize) -> bool {
    number % 3 == 1
}

/// Some of them are away in the end.
fn leaves(number: usize) -> bool {
    number % 6 == 1
}

/// There are faults for a while after that.
const LEAVE_AT: Duration = Duration::from_secs(20);
