//! Applying a registration: the rules of RFC 3261 §10.3, step 7, all or nothing.

use super::{
    Binding, BindingChange, BindingId, Bindings, Contact, ContactParts, ContactRequest, Now, Reach,
    Refusal, Registration, RegistrationPolicy, RequestedContact,
    answer::{CONTACTS_LEN_MAX, contact_len},
    binding::Grant,
};
use busyhour_sip::Uri;
use std::cmp::Ordering;

/// The outcome of a registration that is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The bindings as they will be once `changes` are durable.
    pub bindings: Bindings,
    /// The changes to store first; empty if nothing changed.
    pub changes: Vec<BindingChange>,
    /// What happened, for the counters.
    pub tally: Tally,
}

/// How many bindings a registration added, refreshed and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bindings added.
    pub added: u64,
    /// Bindings refreshed.
    pub refreshed: u64,
    /// How many of the refreshed bindings were unreachable before.
    pub returned: u64,
    /// Bindings removed.
    pub removed: u64,
}

impl Bindings {
    /// Applies a registration to a copy. If one part of it is refused, nothing changes.
    ///
    /// A contact whose binding was made by the same Call-ID and CSeq is left as
    /// it is: the request is a duplicate of the one that made it.
    ///
    /// # Errors
    ///
    /// [`Refusal::IntervalTooBrief`], [`Refusal::OutOfOrder`],
    /// [`Refusal::TooManyContacts`], [`Refusal::BadRequest`]
    /// for a contact that is no URI, [`Refusal::TooLongToKeep`] for one that is too
    /// long, [`Refusal::TooLongToAnswer`] where all together are.
    pub fn update(
        &self,
        registration: &Registration<'_>,
        policy: &RegistrationPolicy,
        at: Now,
        next_id: &mut impl FnMut() -> BindingId,
    ) -> Result<Update, Refusal> {
        registration.wish.check_length(policy)?;
        let mut draft = Draft {
            registration,
            policy,
            at,
            list: self.list.to_vec(),
            changes: Vec::new(),
            tally: Tally::default(),
            is_longer: false,
        };
        match &registration.wish {
            ContactRequest::Query => {}
            ContactRequest::RemoveAll => draft.remove_all()?,
            ContactRequest::Update(wishes) => {
                for wish in wishes {
                    draft.apply(wish, next_id)?;
                }
            }
        }
        draft.finish()
    }
}

impl ContactRequest<'_> {
    /// Each contact is compared with each binding: more than can be replaced at
    /// once are refused before that.
    fn check_length(&self, policy: &RegistrationPolicy) -> Result<(), Refusal> {
        match self {
            Self::Update(wishes) if wishes.len() > 2 * policy.contacts_max => {
                Err(Refusal::TooManyContacts)
            }
            _ => Ok(()),
        }
    }
}

/// An update in the making.
struct Draft<'d, 'a> {
    registration: &'d Registration<'a>,
    policy: &'d RegistrationPolicy,
    at: Now,
    list: Vec<Binding>,
    changes: Vec<BindingChange>,
    tally: Tally,
    /// There is a contact that was not there before.
    is_longer: bool,
}

impl Draft<'_, '_> {
    fn remove_all(&mut self) -> Result<(), Refusal> {
        for index in 0..self.list.len() {
            if self.order(index)? == Order::Newer {
                self.remove(index);
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        wish: &RequestedContact<'_>,
        next_id: &mut impl FnMut() -> BindingId,
    ) -> Result<(), Refusal> {
        let granted_s = self.policy.grant(wish.expires_s);
        let granted_s = granted_s.ok_or(Refusal::IntervalTooBrief(self.policy.expires_min))?;
        let Some(index) = self.find(wish)? else {
            if granted_s > 0 {
                self.add(wish, granted_s, next_id())?;
            }
            return Ok(());
        };
        match (self.order(index)?, granted_s) {
            (Order::Same, _) => {}
            (Order::Newer, 0) => self.remove(index),
            (Order::Newer, _) => self.renew(index, wish, granted_s)?,
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Update, Refusal> {
        let is_active = |binding: &&Binding| binding.is_active(self.at.now);
        let active_count = self.list.iter().filter(is_active).count();
        if active_count > self.policy.contacts_max && self.tally.added > 0 {
            return Err(Refusal::TooManyContacts);
        }
        if self.is_longer && self.contacts_len() > CONTACTS_LEN_MAX {
            return Err(Refusal::TooLongToAnswer);
        }
        self.forget_oldest_removed();
        let list = self.list.into();
        Ok(Update {
            bindings: Bindings { list },
            changes: self.changes,
            tally: self.tally,
        })
    }

    /// The binding that a requested contact belongs to: the one with the same flow of
    /// the same device (RFC 5626 §6), otherwise the one with an equal URI.
    fn find(&self, wish: &RequestedContact<'_>) -> Result<Option<usize>, Refusal> {
        let list = &self.list;
        let uri = wish.uri;
        if let Some(key) = wish.key {
            // A URI that cannot be compared must not be stored.
            Uri::parse(uri).ok_or(Refusal::BadRequest("Bad Contact".into()))?;
            return Ok(list.iter().position(|b| b.contact.flow_key() == Some(key)));
        }
        if let Some(same_text) = list.iter().position(|b| b.contact.has_uri_text(uri)) {
            return Ok(Some(same_text));
        }
        let wanted = Uri::parse(uri).ok_or(Refusal::BadRequest("Bad Contact".into()))?;
        Ok(list.iter().position(|b| b.contact.has_uri(&wanted)))
    }

    /// The order of the registration relative to the one that made the binding.
    fn order(&self, index: usize) -> Result<Order, Refusal> {
        let binding = &self.list[index];
        if !binding.contact.has_call_id(self.registration.call_id) {
            return Ok(Order::Newer);
        }
        match self.registration.cseq.cmp(&binding.lease().cseq) {
            Ordering::Less => Err(Refusal::OutOfOrder),
            Ordering::Equal => Ok(Order::Same),
            Ordering::Greater => Ok(Order::Newer),
        }
    }

    /// The most that they take in an answer.
    fn contacts_len(&self) -> usize {
        let active = self.list.iter().filter(|b| b.is_active(self.at.now));
        let aor = self.registration.aor;
        active.map(|b| contact_len(&b.contact, aor)).sum()
    }

    fn add(
        &mut self,
        wish: &RequestedContact<'_>,
        granted_s: u32,
        id: BindingId,
    ) -> Result<(), Refusal> {
        let contact = self.contact(wish)?;
        let binding = Binding::begin(id, contact, self.grant(granted_s), self.at);
        self.changes.push(binding.put(self.registration.aor));
        self.list.push(binding);
        self.tally.added += 1;
        Ok(())
    }

    fn renew(
        &mut self,
        index: usize,
        wish: &RequestedContact<'_>,
        granted_s: u32,
    ) -> Result<(), Refusal> {
        let old = &self.list[index];
        let unchanged = self.describes(wish, &old.contact);
        let contact = match unchanged {
            // A device that registers can be reached.
            true => old.contact.with_reach(Reach::Reachable),
            false => self.contact(wish)?,
        };
        let old = &self.list[index];
        let was_active = old.is_active(self.at.now);
        let was_lost = !old.contact.is_reachable();
        let binding = Binding::begin(old.id, contact, self.grant(granted_s), self.at);
        self.changes.push(match unchanged {
            true => binding.renew(),
            false => binding.put(self.registration.aor),
        });
        self.list[index] = binding;
        match was_active {
            true => self.tally.refreshed += 1,
            false => self.tally.added += 1,
        }
        self.tally.returned += u64::from(was_active && was_lost);
        Ok(())
    }

    /// The lease stays, marked, with the CSeq that a duplicate is judged by: also if it was marked already,
    /// since a request between the two may come later than both.
    fn remove(&mut self, index: usize) {
        let old = &self.list[index];
        let same_call = old.contact.call_id() == self.registration.call_id;
        let is_later = same_call && self.registration.cseq > old.lease().cseq;
        if old.is_removed() && !is_later {
            return;
        }
        let was_active = old.is_active(self.at.now);
        let cseq = match same_call {
            true => self.registration.cseq,
            false => old.lease().cseq,
        };
        let binding = old.removed(cseq, self.at);
        self.changes.push(binding.renew());
        self.list[index] = binding;
        self.tally.removed += u64::from(was_active);
    }

    /// Removed leases are few, however often a device changes its contact.
    fn forget_oldest_removed(&mut self) {
        let list = &mut self.list;
        let removed = |binding: &Binding| binding.is_removed();
        while list.iter().filter(|b| removed(b)).count() > self.policy.contacts_max {
            let oldest = (0..list.len())
                .filter(|&index| removed(&list[index]))
                .min_by_key(|&index| list[index].expires_at);
            let Some(oldest) = oldest else { return };
            let id = list.remove(oldest).id;
            self.changes.push(BindingChange::Remove { id });
        }
    }

    fn grant(&self, granted_s: u32) -> Grant {
        Grant {
            cseq: self.registration.cseq,
            granted_s,
            removed: false,
        }
    }

    /// A contact that was not there before, if it is not too long to be kept.
    fn contact(&mut self, wish: &RequestedContact<'_>) -> Result<Contact, Refusal> {
        self.is_longer = true;
        let parts = self.parts(wish);
        let kept_len = parts.kept_len() + self.registration.aor.len();
        match kept_len <= self.policy.contact_bytes_max {
            true => Ok(Contact::new(parts)),
            false => Err(Refusal::TooLongToKeep),
        }
    }

    fn describes(&self, wish: &RequestedContact<'_>, contact: &Contact) -> bool {
        contact.is_made_of(&self.parts(wish))
    }

    fn parts<'p>(&'p self, wish: &'p RequestedContact<'_>) -> ContactParts<'p> {
        let registration = self.registration;
        ContactParts {
            uri: wish.uri,
            parameters: &wish.parameters,
            q_milli: wish.q_milli,
            call_id: registration.call_id,
            path: &registration.path,
            user_agent: registration.user_agent,
            flow: registration.flow,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Order {
    /// A duplicate of the registration that made the binding.
    Same,
    /// A later one, or one of another Call-ID, which has no order with it.
    Newer,
}
