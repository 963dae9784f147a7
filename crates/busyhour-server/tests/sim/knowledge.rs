//! What a device may conclude about its bindings from what it has sent and
//! received.

use std::{collections::BTreeMap, ops::Range};

/// For each contact, the times until when it must be bound, and may be bound.
#[derive(Default)]
pub struct Knowledge {
    contacts: BTreeMap<String, Span>,
}

#[derive(Clone, Copy, Default)]
struct Span {
    /// It is bound at every moment before this.
    must_until: u64,
    /// It is not bound at this moment or later.
    may_until: u64,
}

impl Knowledge {
    /// A registration of `contact` was sent: from now until its last copy is
    /// gone, it may bind the contact for `life`.
    pub fn may_bind(&mut self, contact: &str, now: u64, life: u64, dead_after: u64) {
        let span = self.contacts.entry(contact.to_owned()).or_default();
        span.must_until = span.must_until.min(now + life);
        span.may_until = span.may_until.max(now + dead_after + life);
    }

    /// A removal of `contact` was sent.
    pub fn may_remove(&mut self, contact: &str) {
        if let Some(span) = self.contacts.get_mut(contact) {
            span.must_until = 0;
        }
    }

    /// A removal of all contacts was sent.
    pub fn may_remove_all(&mut self) {
        self.contacts
            .values_mut()
            .for_each(|span| span.must_until = 0);
    }

    /// The server listed all bindings at some moment of `when`: each contact
    /// with its remaining time, in nanoseconds rounded up to a second.
    ///
    /// # Errors
    ///
    /// What contradicts the knowledge.
    pub fn told(&mut self, list: &[(String, u64)], when: Range<u64>) -> Result<(), String> {
        for (contact, _) in list {
            let span = self.contacts.get(contact);
            let span = span.ok_or_else(|| format!("{contact} was never sent"))?;
            if span.may_until <= when.start {
                return Err(format!("{contact} lives on after its time"));
            }
        }
        for (contact, span) in &mut self.contacts {
            let left = list.iter().find(|(told, _)| told == contact);
            *span = match left {
                Some((_, left)) => Span {
                    must_until: when.start + left.saturating_sub(SECOND),
                    may_until: when.end + left,
                },
                None if span.must_until > when.end => {
                    return Err(format!("{contact} was acknowledged and is lost"));
                }
                None => Span::default(),
            };
        }
        Ok(())
    }

    /// Compares with the contacts that a watcher believes to be bound at `now`.
    ///
    /// # Errors
    ///
    /// What is missing or too much, unless it changed within `margin`.
    pub fn agrees(&self, believed: &[String], now: u64, margin: u64) -> Result<(), String> {
        for (contact, span) in &self.contacts {
            let is_believed = believed.contains(contact);
            if span.must_until > now + margin && !is_believed {
                return Err(format!("{contact} is bound and not believed"));
            }
            if span.may_until + margin <= now && is_believed {
                return Err(format!("{contact} is believed and not bound"));
            }
        }
        match believed.iter().find(|c| !self.contacts.contains_key(*c)) {
            Some(unknown) => Err(format!("{unknown} was never sent")),
            None => Ok(()),
        }
    }

    /// The smallest and the largest possible number of contacts that are bound
    /// at `now`.
    pub fn count(&self, now: u64, margin: u64) -> (usize, usize) {
        let must = |span: &&Span| span.must_until > now + margin;
        let may = |span: &&Span| span.may_until + margin > now;
        let spans = || self.contacts.values();
        (spans().filter(must).count(), spans().filter(may).count())
    }
}

const SECOND: u64 = 1_000_000_000;
