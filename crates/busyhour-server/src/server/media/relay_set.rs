//! The media relays, and what all calls know of them.

use super::view::RelayView;
use crate::server::{MediaConfig, server_clock::ServerClock, sip::responder::Responder};
use busyhour::{runtime::Runtime, timer::AddError};
use busyhour_media::{MediaStats, MediaWish, Relays};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The relays of the configuration.
pub(in crate::server) struct RelaySet {
    relays: Relays,
    wish: MediaWish,
    /// A call that needs a relay is refused when none answers.
    pub(in crate::server) refuses: bool,
    /// Which of them the log has called down.
    told_down: Mutex<Vec<SocketAddr>>,
    clock: Arc<ServerClock>,
    responder: Arc<Responder>,
}

impl RelaySet {
    pub(in crate::server) fn new(
        config: &MediaConfig,
        seed: u64,
        clock: Arc<ServerClock>,
        responder: Arc<Responder>,
    ) -> Self {
        Self {
            relays: Relays::new(&config.relays, seed, clock.now()),
            wish: config.wish,
            refuses: config.refuses,
            told_down: Mutex::default(),
            clock,
            responder,
        }
    }

    pub(in crate::server) fn relays(&self) -> &Relays {
        &self.relays
    }

    /// Which calls use one, unless a peer has a rule of its own.
    pub(in crate::server) fn wish(&self) -> MediaWish {
        self.wish
    }

    pub(in crate::server) fn stats(&self) -> MediaStats {
        self.relays.counters.stats()
    }

    /// Each relay, in the order of the configuration.
    pub(in crate::server) fn list(&self) -> Vec<RelayView> {
        let now = self.clock.now();
        let states = self.relays.states();
        states
            .iter()
            .map(|state| RelayView::new(state, now))
            .collect()
    }

    /// How many are down.
    pub(in crate::server) fn down_count(&self) -> u64 {
        self.relays.states().iter().filter(|it| !it.is_up).count() as u64
    }

    /// Sends a command; one that does not leave is sent again, as if it were lost.
    pub(in crate::server) fn send(&self, relay: SocketAddr, command: &[u8]) {
        let packet = self.responder.write(|out| out.extend_from_slice(command));
        if let Some(packet) = packet {
            let _ = self.responder.network().send_media(relay, packet);
        }
    }

    /// `true` if a reply was to a ping, and is done with.
    pub(in crate::server) fn take_pong(&self, from: SocketAddr, reply: &[u8]) -> bool {
        self.relays.take_pong(from, reply, self.clock.now())
    }

    /// Asks each relay every two seconds whether it is there.
    pub(in crate::server) fn start_pinging(
        self: &Arc<Self>,
        runtime: &Runtime,
    ) -> Result<(), AddError> {
        if self.relays.is_empty() {
            return Ok(());
        }
        let set = Arc::downgrade(self);
        let ping = move || match set.upgrade() {
            Some(set) => {
                for (relay, command) in set.relays.ping(set.clock.now()) {
                    set.send(relay, &command);
                }
                set.tell();
                LOOK_PERIOD
            }
            None => Duration::ZERO,
        };
        let timer = runtime.timers().timer().label("media relays");
        let timer = timer.after(FIRST_LOOK).on(runtime.pool());
        timer.run_with_next_delay(ping).map(drop)
    }

    /// Logs which relays have gone down and come back.
    fn tell(&self) {
        let mut told = self
            .told_down
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for state in self.relays.states() {
            let relay = state.config.address;
            match (state.is_up, told.contains(&relay)) {
                (false, false) => {
                    let without_any = match self.refuses {
                        true => "calls that need a relay are refused if none is left",
                        false => "calls that need a relay go on without one if none is left",
                    };
                    tracing::warn!(%relay, without_any, "media relay does not answer");
                    told.push(relay);
                }
                (true, true) => {
                    tracing::info!(%relay, "media relay answers again");
                    told.retain(|it| *it != relay);
                }
                _ => {}
            }
        }
    }
}

const FIRST_LOOK: Duration = Duration::from_millis(10);
const LOOK_PERIOD: Duration = Duration::from_secs(1);
