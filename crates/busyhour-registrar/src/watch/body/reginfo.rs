//! The registration body (RFC 3680): which contacts an address of record has,
//! and what became of each.
//!
//! The event of a contact follows from the last body that the watcher received: a new
//! contact was registered, one that lives longer was refreshed, one that is gone has
//! expired or was removed. So conflated states lose nothing, and every body fits the
//! one before it.

use crate::registrar::{BindingId, Bindings, Contact, seconds};
use crate::watch::{Told, body::xml::Escaped};
use busyhour::{
    bus::{Event, Name},
    clock::Instant,
};
use busyhour_sip::Quality;
use std::{io::Write, sync::Arc};

/// The registration of an address of record, as it goes over the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationState {
    /// The address of record.
    pub aor: Name,
    /// Its contacts in the order in which they registered.
    pub contacts: Arc<[Registered]>,
}

/// One contact and its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The binding's id.
    pub id: BindingId,
    /// The contact.
    pub contact: Contact,
    /// CSeq of the registration that granted the lease.
    pub cseq: u32,
    /// When the lease ends.
    pub expires_at: Instant,
}

/// What a watcher has received about a registration, which decides what it receives
/// next.
#[derive(Debug, Default)]
pub(in crate::watch) struct ToldContacts {
    told: Option<Arc<[Registered]>>,
}

/// What happened to a contact since it was told of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    None,
    Registered,
    Refreshed,
    Shortened,
    Expired,
    Unregistered,
}

impl RegistrationState {
    /// That nothing is registered.
    pub fn none(aor: &Name) -> Self {
        Self {
            aor: aor.clone(),
            contacts: Arc::new([]),
        }
    }

    /// The state that follows from bindings.
    pub fn of(aor: &Name, bindings: &Bindings, now: Instant) -> Self {
        let contacts = bindings.active(now).map(|binding| Registered {
            id: binding.id,
            contact: binding.contact.clone(),
            cseq: binding.lease().cseq,
            expires_at: binding.expires_at,
        });
        Self {
            aor: aor.clone(),
            contacts: contacts.collect(),
        }
    }
}

impl Event for RegistrationState {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.aor
    }
}

impl ToldContacts {
    /// The watcher has been told of these contacts.
    pub(in crate::watch) fn told(&mut self, contacts: &Arc<[Registered]>) {
        self.told = Some(contacts.clone());
    }

    /// Appends the body: whole where `is_full`, else what has changed.
    pub(in crate::watch) fn write(
        &self,
        out: &mut Vec<u8>,
        told: Told<'_>,
        contacts: &[Registered],
        is_full: bool,
        now: Instant,
    ) {
        let is_full = is_full || self.told.is_none();
        let before = self.told.as_deref().unwrap_or(&[]);
        let gone = || before.iter().filter(|old| find(contacts, old.id).is_none());
        let state = match (contacts.is_empty(), gone().next()) {
            (false, _) => "active",
            (true, Some(_)) => "terminated",
            (true, None) => "init",
        };
        let extent = if is_full { "full" } else { "partial" };
        // Writing to a Vec can't fail.
        let _ = write!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
             <reginfo xmlns=\"urn:ietf:params:xml:ns:reginfo\" version=\"{}\" state=\"{extent}\">\r\n\
             <registration aor=\"{}\" id=\"r\" state=\"{state}\">\r\n",
            told.version,
            Escaped(told.entity)
        );
        for contact in contacts {
            let step = step(find(before, contact.id), contact);
            if is_full || step != Step::None {
                write_contact(out, contact, step, now);
            }
        }
        for contact in gone() {
            let step = match contact.expires_at <= now {
                true => Step::Expired,
                false => Step::Unregistered,
            };
            write_contact(out, contact, step, now);
        }
        out.extend_from_slice(b"</registration>\r\n</reginfo>\r\n");
    }
}

fn find(contacts: &[Registered], id: BindingId) -> Option<&Registered> {
    contacts.iter().find(|contact| contact.id == id)
}

fn step(before: Option<&Registered>, contact: &Registered) -> Step {
    match before {
        None => Step::Registered,
        Some(before) if contact.expires_at < before.expires_at => Step::Shortened,
        Some(before) if contact == before => Step::None,
        Some(_) => Step::Refreshed,
    }
}

fn write_contact(out: &mut Vec<u8>, registered: &Registered, step: Step, now: Instant) {
    let (state, event) = match step {
        // Told in full, and nothing happened: it was registered once.
        Step::None | Step::Registered => ("active", "registered"),
        Step::Refreshed => ("active", "refreshed"),
        Step::Shortened => ("active", "shortened"),
        Step::Expired => ("terminated", "expired"),
        Step::Unregistered => ("terminated", "unregistered"),
    };
    let Registered {
        id, contact, cseq, ..
    } = registered;
    let _ = write!(
        out,
        "<contact id=\"b{}\" state=\"{state}\" event=\"{event}\" callid=\"{}\" cseq=\"{cseq}\"",
        id.0,
        Escaped(contact.call_id())
    );
    if state == "active" {
        let left = seconds(registered.expires_at - now);
        let _ = write!(out, " expires=\"{left}\"");
    }
    if let Some(q_milli) = contact.q_milli() {
        let _ = write!(out, " q=\"{}\"", Quality::from_thousandths(q_milli));
    }
    let _ = write!(out, "><uri>{}</uri></contact>\r\n", Escaped(contact.uri()));
}
