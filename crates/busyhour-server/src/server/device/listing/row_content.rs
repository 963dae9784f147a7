//! What the index of devices has of one device.

use super::search::DeviceReach;
use busyhour_registrar::Binding;
use busyhour_sip::Transport;
use std::io::Write;

/// A row before it has its place, in memory that serves for the next one again.
#[derive(Default)]
pub(super) struct RowContent {
    /// The address of record as it is written, and what people look for in lower case, each behind the other with a byte
    /// between them that no text has.
    pub(super) text: Vec<u8>,
    pub(super) places: TextPlaces,
    pub(super) figures: Figures,
}

/// What lies where in the text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextPlaces {
    pub(super) text_len: u32,
    pub(super) aor_len: u32,
    /// The first user agent.
    pub(super) agent_at: u32,
    pub(super) agent_len: u32,
}

/// What is no text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// When it registered last, on the steady calendar; 0 if it is not registered.
    pub(super) seen_ns: u64,
    /// When its first contact runs out.
    pub(super) end_ns: Option<u64>,
    pub(super) contact_count: u32,
    pub(super) reach: DeviceReach,
    /// A bit for each transport.
    transports: u8,
}

impl RowContent {
    /// That of a device with these contacts.
    pub(super) fn fill(&mut self, aor: &str, bindings: &[Binding], reach: DeviceReach) {
        self.begin(aor, reach);
        for (index, binding) in bindings.iter().enumerate() {
            let parts = binding.contact.parts();
            self.add(parts.uri);
            let agent_at = self.text.len();
            self.add(parts.user_agent);
            self.choose_agent(index == 0, agent_at);
            // Addresses have no capitals, and writing to memory does not fail.
            let _ = write!(self.text, "{}", parts.flow.remote);
            self.text.push(SEPARATOR);
            self.figures.add(binding);
        }
        self.places.text_len = self.text.len() as u32;
    }

    /// As it is written.
    pub(super) fn aor(&self) -> &[u8] {
        &self.text[..self.places.aor_len as usize]
    }

    fn begin(&mut self, aor: &str, reach: DeviceReach) {
        self.text.clear();
        self.text.extend_from_slice(aor.as_bytes());
        self.text.push(SEPARATOR);
        let may_differ = |one: u8| one.is_ascii_uppercase() || !one.is_ascii();
        if aor.bytes().any(may_differ) {
            self.add(aor);
        }
        self.places = TextPlaces {
            aor_len: aor.len() as u32,
            ..TextPlaces::default()
        };
        self.figures = Figures {
            reach,
            ..Figures::default()
        };
    }

    fn add(&mut self, field: &str) {
        let at = self.text.len();
        match field.is_ascii() {
            true => {
                self.text.extend_from_slice(field.as_bytes());
                self.text[at..].make_ascii_lowercase();
            }
            false => self.text.extend_from_slice(field.to_lowercase().as_bytes()),
        }
        self.text.push(SEPARATOR);
    }

    /// The user agent that was added last is the first one if it comes before the others.
    fn choose_agent(&mut self, is_only: bool, at: usize) {
        let TextPlaces {
            agent_at,
            agent_len,
            ..
        } = self.places;
        let (known, new) = (agent_at as usize, &self.text[at..self.text.len() - 1]);
        if is_only || new < &self.text[known..known + agent_len as usize] {
            self.places.agent_at = at as u32;
            self.places.agent_len = new.len() as u32;
        }
    }
}

impl Figures {
    /// Whether it has a contact over this transport.
    pub(super) fn has(&self, transport: Transport) -> bool {
        self.transports & bit(transport) != 0
    }

    fn add(&mut self, binding: &Binding) {
        let granted_ns = u64::from(binding.lease().granted_s) * NANOS;
        let seen_ns = binding.lease().expires_at.as_nanos();
        self.seen_ns = self.seen_ns.max(seen_ns.saturating_sub(granted_ns));
        let ends = [self.end_ns, Some(binding.expires_at.as_nanos())];
        self.end_ns = ends.into_iter().flatten().min();
        self.contact_count += 1;
        self.transports |= bit(binding.contact.transport());
    }
}

fn bit(transport: Transport) -> u8 {
    1 << transport as u8
}

/// It is in no text in UTF-8.
const SEPARATOR: u8 = 0xff;
const NANOS: u64 = 1_000_000_000;
