//! Telephones behind an address translation that forgets: any seed, in virtual time.
//!
//! The translation gives a port to each telephone that sends something, and forgets it when the
//! telephone has sent nothing for 35 s, or when it starts anew. It gives no port twice: who
//! gets the forgotten port of another cannot be told from it by its address.

use crate::{
    Fixture,
    exchange::{ok, open_config},
    random::Random,
    register_as,
};
use busyhour_registrar::Reach;
use busyhour_server::server::ServerConfig;
use std::{net::SocketAddr, time::Duration};

struct Telephone {
    is_on: bool,
    cseq: u32,
    registers_in: u64,
    /// Its port outside, and until when the translation keeps it.
    outside: Option<(u16, u64)>,
}

struct World {
    server: Fixture,
    telephones: Vec<Telephone>,
    random: Random,
    second: u64,
    last_port: u16,
}

/// When nothing has happened for a while, the server believes in no contact that cannot be
/// reached, and in each that can.
#[test]
fn after_a_while_the_server_knows_which_contacts_can_be_reached() {
    let mut random = Random::new();
    let scale = std::env::var("BUSYHOUR_TEST_SCALE").ok();
    let scale: usize = scale.map_or(1, |scale| scale.parse().expect("a number"));
    for _ in 0..ROUNDS * scale {
        let mut world = World::new(random.fork());
        for _ in 0..SECONDS {
            world.happen();
            world.pass();
        }
        for _ in 0..QUIET_SECONDS {
            world.pass();
        }
        world.check();
    }
}

impl World {
    fn new(random: Random) -> Self {
        let server = Fixture::with(ServerConfig {
            nat_probe_interval: Duration::from_secs(30),
            ..open_config()
        });
        let telephone = |_| Telephone {
            is_on: false,
            cseq: 0,
            registers_in: 0,
            outside: None,
        };
        Self {
            server,
            telephones: (0..TELEPHONES).map(telephone).collect(),
            random,
            second: 0,
            last_port: 10_000,
        }
    }

    /// Something happens to one telephone, or to all of them.
    fn happen(&mut self) {
        let number = self.random.below(TELEPHONES);
        match self.random.below(100) {
            0..4 => {
                self.telephones[number].is_on = true;
                self.telephones[number].registers_in = 0;
            }
            // Without a word.
            4..6 => self.telephones[number].is_on = false,
            // The translation starts anew.
            6 => self.telephones.iter_mut().for_each(|it| it.outside = None),
            7..9 if self.telephones[number].is_on => self.send(number, "\r\n\r\n"),
            _ => {}
        }
    }

    /// A second passes: telephones that are on register when it is time, and answer.
    fn pass(&mut self) {
        for number in 0..TELEPHONES {
            let telephone = &mut self.telephones[number];
            if !telephone.is_on {
                continue;
            }
            if telephone.registers_in > 0 {
                telephone.registers_in -= 1;
                continue;
            }
            telephone.registers_in = 300 + self.random.below(600) as u64;
            telephone.cseq += 1;
            let contact = format!("Contact: <sip:d{number}@{}>;expires=3600", inside(number));
            let user = format!("d{number}");
            let request = register_as(&user, telephone.cseq, &contact);
            self.send(number, &request);
            self.server.settle();
        }
        self.server.pass(1);
        self.second += 1;
        for (flow, message) in self.server.sent.take_all() {
            let message = String::from_utf8(message.to_vec()).unwrap();
            if let Some(number) = self
                .behind(flow.remote)
                .filter(|_| message.starts_with("OPTIONS "))
            {
                self.send(number, &ok(&message));
            }
        }
    }

    fn send(&mut self, number: usize, message: &str) {
        let until = self.second + KEPT_SECONDS;
        let outside = &mut self.telephones[number].outside;
        let kept = outside.filter(|(_, until)| *until >= self.second);
        let port = kept.map_or_else(
            || {
                self.last_port += 1;
                self.last_port
            },
            |(port, _)| port,
        );
        *outside = Some((port, until));
        self.server
            .receive_from(outside_address(port), message.as_bytes());
    }

    /// The telephone that gets what is sent there now.
    fn behind(&self, remote: SocketAddr) -> Option<usize> {
        let is_it = |it: &Telephone| {
            let outside = it.outside.filter(|(_, until)| *until >= self.second);
            it.is_on && outside.is_some_and(|(port, _)| outside_address(port) == remote)
        };
        self.telephones.iter().position(is_it)
    }

    fn check(&self) {
        let page = self.server.server.bindings(None, 100, None);
        for one in &page.bindings {
            let contact = &one.binding.contact;
            let can_be_reached = self.behind(contact.flow().remote).is_some();
            let expected = match can_be_reached {
                true => Reach::Reachable,
                false => Reach::Unreachable,
            };
            let seed = self.random.seed;
            assert_eq!(contact.reach(), expected, "{seed}: {}", contact.uri());
        }
    }
}

fn inside(number: usize) -> SocketAddr {
    ([192, 168, 1, number as u8], 5060).into()
}

fn outside_address(port: u16) -> SocketAddr {
    ([192, 0, 2, 9], port).into()
}

const ROUNDS: usize = 5;
const TELEPHONES: usize = 12;
const SECONDS: u64 = 600;
/// An interval, three questions, and the second in which they are asked.
const QUIET_SECONDS: u64 = 30 + 6 + 1;
const KEPT_SECONDS: u64 = 35;
