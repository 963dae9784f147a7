//! A group of changes as few statements, each for many rows.

use super::{call_records, load};
use crate::{
    Account, CallRecordRow, Change, SoftState,
    account::{hashes_text, hints_text},
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{BindingChange, BindingId, Contact, ContactParts, EndedBinding, Lease};
use postgres::{Client, Error, Statement, Transaction};
use std::{borrow::Cow, collections::BTreeMap};

/// The final state of each binding, and all other changes in their order.
#[derive(Default)]
pub(super) struct Group<'c> {
    bindings: BTreeMap<BindingId, End<'c>>,
    /// `None` for those that go.
    soft_states: BTreeMap<BindingId, Option<&'c SoftState>>,
    call_records: Vec<&'c CallRecordRow>,
    others: Vec<&'c Change>,
}

/// What a binding is after the group.
enum End<'c> {
    Put(&'c str, &'c Contact, &'c Lease),
    Renewed(&'c Lease),
    Removed,
}

/// Compiled once a session.
pub(super) struct Statements {
    put_contacts: Statement,
    put_leases: Statement,
    renew_leases: Statement,
    remove_contacts: Statement,
    remove_leases: Statement,
    remove_ended: Statement,
    put_soft_states: Statement,
    put_account: Statement,
    put_call_records: Statement,
    /// See [`FencingToken::advance`](super::fencing_token::FencingToken::advance).
    pub(super) advance: Statement,
}

impl Statements {
    pub(super) fn prepare(client: &mut Client, advance: &str) -> Result<Self, Error> {
        Ok(Self {
            put_contacts: client.prepare(PUT_CONTACTS)?,
            put_leases: client.prepare(PUT_LEASES)?,
            renew_leases: client.prepare(RENEW_LEASES)?,
            remove_contacts: client.prepare("DELETE FROM contact WHERE id = ANY($1)")?,
            remove_leases: client.prepare("DELETE FROM lease WHERE id = ANY($1)")?,
            remove_ended: client.prepare(REMOVE_ENDED)?,
            put_soft_states: client.prepare(PUT_SOFT_STATES)?,
            put_account: client.prepare(PUT_ACCOUNT)?,
            put_call_records: client.prepare(call_records::PUT)?,
            advance: client.prepare(advance)?,
        })
    }
}

impl<'c> Group<'c> {
    pub(super) fn of(changes: impl Iterator<Item = &'c Change>) -> Self {
        let mut group = Self::default();
        for change in changes {
            match change {
                Change::Binding(change) => group.take(change),
                Change::PutSoftState(row) => drop(group.soft_states.insert(row.id, Some(row))),
                Change::RemoveSoftState(id) => drop(group.soft_states.insert(*id, None)),
                Change::PutCallRecord(row) => group.call_records.push(row),
                other => group.others.push(other),
            }
        }
        group
    }

    fn take(&mut self, change: &'c BindingChange) {
        match change {
            BindingChange::Put {
                id,
                aor,
                contact,
                lease,
            } => {
                self.bindings.insert(*id, End::Put(aor, contact, lease));
            }
            BindingChange::Renew { id, lease } => {
                let end = self.bindings.entry(*id).or_insert(End::Renewed(lease));
                match end {
                    End::Put(.., renewed) | End::Renewed(renewed) => *renewed = lease,
                    End::Removed => {}
                }
            }
            BindingChange::Remove { id } => {
                self.bindings.insert(*id, End::Removed);
            }
        }
    }

    pub(super) fn write(
        &self,
        transaction: &mut Transaction<'_>,
        statements: &Statements,
    ) -> Result<(), Error> {
        self.remove(transaction, statements)?;
        self.put(transaction, statements)?;
        let renewed = self.bindings.iter().filter_map(|(id, end)| match end {
            End::Renewed(lease) => Some((*id, *lease)),
            End::Put(..) | End::Removed => None,
        });
        Leases::of(renewed).write(transaction, &statements.renew_leases)?;
        self.write_soft_states(transaction, statements)?;
        call_records::put(
            transaction,
            &statements.put_call_records,
            &self.call_records,
        )?;
        let settings = self.others.iter().filter_map(|change| change.setting());
        if settings.into_iter().any(|(kind, _)| kind.is_counted()) {
            load::revision(transaction, load::SETTING_REVISION_LOCKED)?;
        }
        for change in &self.others {
            apply(transaction, statements, change)?;
        }
        Ok(())
    }

    fn remove(
        &self,
        transaction: &mut Transaction<'_>,
        statements: &Statements,
    ) -> Result<(), Error> {
        let removed = self
            .bindings
            .iter()
            .filter(|(_, end)| matches!(end, End::Removed));
        let removed: Vec<i64> = removed.map(|(id, _)| key(*id)).collect();
        if !removed.is_empty() {
            transaction.execute(&statements.remove_contacts, &[&removed])?;
            transaction.execute(&statements.remove_leases, &[&removed])?;
        }
        Ok(())
    }

    fn write_soft_states(
        &self,
        transaction: &mut Transaction<'_>,
        statements: &Statements,
    ) -> Result<(), Error> {
        let gone = self.soft_states.iter().filter(|(_, row)| row.is_none());
        let gone: Vec<i64> = gone.map(|(id, _)| key(*id)).collect();
        if !gone.is_empty() {
            transaction.execute("DELETE FROM soft_state WHERE id = ANY($1)", &[&gone])?;
        }
        let rows: Vec<&SoftState> = self.soft_states.values().filter_map(|row| *row).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = rows.iter().map(|row| key(row.id)).collect();
        let kinds: Vec<&str> = rows.iter().map(|row| row.kind.name()).collect();
        let values: Vec<Cow<'_, str>> = rows.iter().map(|row| storable(&row.value)).collect();
        let granted: Vec<i64> = rows.iter().map(|row| row.granted_s.into()).collect();
        let ends: Vec<i64> = rows.iter().map(|row| nanos(row.expires_at)).collect();
        transaction.execute(
            &statements.put_soft_states,
            &[&ids, &kinds, &values, &granted, &ends],
        )?;
        Ok(())
    }

    fn put(&self, transaction: &mut Transaction<'_>, statements: &Statements) -> Result<(), Error> {
        let put = || {
            self.bindings.iter().filter_map(|(id, end)| match end {
                End::Put(aor, contact, lease) => Some((*id, *aor, contact.parts(), *lease)),
                End::Renewed(_) | End::Removed => None,
            })
        };
        if put().next().is_none() {
            return Ok(());
        }
        let aors: Vec<Cow<'_, str>> = put().map(|(_, aor, ..)| storable(aor)).collect();
        let contacts: Vec<ContactParts<'_>> = put().map(|(_, _, contact, _)| contact).collect();
        let ids: Vec<i64> = put().map(|(id, ..)| key(id)).collect();
        let texts = |text: fn(&ContactParts<'c>) -> &'c str| -> Vec<Cow<'_, str>> {
            contacts
                .iter()
                .map(|contact| storable(text(contact)))
                .collect()
        };
        let flows = |text: fn(&ContactParts<'_>) -> String| -> Vec<String> {
            contacts.iter().map(|contact| text(contact)).collect()
        };
        let q: Vec<Option<i32>> = contacts
            .iter()
            .map(|one| one.q_milli.map(i32::from))
            .collect();
        transaction.execute(
            &statements.put_contacts,
            &[
                &ids,
                &aors,
                &texts(|contact| contact.uri),
                &texts(|contact| contact.parameters),
                &q,
                &texts(|contact| contact.call_id),
                &texts(|contact| contact.path),
                &texts(|contact| contact.user_agent),
                &flows(|contact| contact.flow.remote.to_string()),
                &flows(|contact| contact.flow.local_text()),
            ],
        )?;
        let leases = Leases::of(put().map(|(id, .., lease)| (id, lease)));
        leases.write(transaction, &statements.put_leases)
    }
}

/// Columns of leases.
#[derive(Default)]
struct Leases {
    ids: Vec<i64>,
    cseqs: Vec<i64>,
    granted: Vec<i64>,
    expiries: Vec<i64>,
    removed: Vec<bool>,
}

impl Leases {
    fn of<'c>(leases: impl Iterator<Item = (BindingId, &'c Lease)>) -> Self {
        let mut columns = Self::default();
        for (id, lease) in leases {
            columns.ids.push(key(id));
            columns.cseqs.push(i64::from(lease.cseq));
            columns.granted.push(i64::from(lease.granted_s));
            columns.expiries.push(nanos(lease.expires_at));
            columns.removed.push(lease.removed);
        }
        columns
    }

    fn write(&self, transaction: &mut Transaction<'_>, statement: &Statement) -> Result<(), Error> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let Self {
            ids,
            cseqs,
            granted,
            expiries,
            removed,
        } = self;
        transaction.execute(statement, &[ids, cseqs, granted, expiries, removed])?;
        Ok(())
    }
}

/// Removes the rows of what has ended, and leaves alone a lease that ends at
/// another time.
pub(super) fn remove_ended(
    transaction: &mut Transaction<'_>,
    statements: &Statements,
    batch: &[EndedBinding],
) -> Result<(), Error> {
    let ids: Vec<i64> = batch.iter().map(|ended| key(ended.id)).collect();
    let ends = batch.iter().map(|ended| nanos(ended.expires_at));
    let ends: Vec<i64> = ends.collect();
    transaction.execute(&statements.remove_ended, &[&ids, &ends])?;
    transaction.execute(REMOVE_ENDED_SOFT_STATES, &[&ids, &ends])?;
    Ok(())
}

fn apply(
    transaction: &mut Transaction<'_>,
    statements: &Statements,
    change: &Change,
) -> Result<(), Error> {
    match change {
        Change::PutAccount(account) => put_account(transaction, &statements.put_account, account)?,
        Change::RemoveAccount { username, realm } => {
            transaction.execute(REMOVE_ACCOUNT, &[username, realm])?;
        }
        Change::PutSetting { kind, name, value } => {
            transaction.execute(PUT_SETTING, &[&kind.name(), name, value])?;
        }
        Change::RemoveSetting { kind, name } => {
            transaction.execute(REMOVE_SETTING, &[&kind.name(), name])?;
        }
        Change::Binding(_)
        | Change::PutSoftState(_)
        | Change::RemoveSoftState(_)
        | Change::PutCallRecord(_) => {}
    }
    Ok(())
}

pub(super) fn put_account(
    transaction: &mut Transaction<'_>,
    statement: &Statement,
    account: &Account,
) -> Result<(), Error> {
    let contacts_max = account.contacts_max.map(u32::cast_signed);
    transaction.execute(
        statement,
        &[
            &account.username,
            &account.realm,
            &account.secret.password().map(storable),
            &hashes_text(&account.secret),
            &contacts_max,
            &account.mailbox,
            &hints_text(&account.hints),
            &hints_text(&account.aliases),
            &account.watchers.as_deref().map(hints_text),
            &account.is_disabled,
        ],
    )?;
    Ok(())
}

/// PostgreSQL's text cannot hold NUL; a device that sends one must not make the whole
/// group fail.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => text.replace('\0', "\u{fffd}").into(),
        false => text.into(),
    }
}

/// PostgreSQL's integers are signed; ids are counted up from one and never reach the sign.
fn key(id: BindingId) -> i64 {
    id.0.cast_signed()
}

fn nanos(time: UnixTime) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

const PUT_CONTACTS: &str = "INSERT INTO contact \
    (id, aor, uri, parameters, q_milli, call_id, path, user_agent, remote, local) \
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::integer[], \
    $6::text[], $7::text[], $8::text[], $9::text[], $10::text[]) \
    ON CONFLICT (id) DO UPDATE SET aor = excluded.aor, uri = excluded.uri, \
    parameters = excluded.parameters, q_milli = excluded.q_milli, call_id = excluded.call_id, \
    path = excluded.path, user_agent = excluded.user_agent, remote = excluded.remote, \
    local = excluded.local";
const PUT_LEASES: &str = "INSERT INTO lease (id, cseq, granted_s, expires_at_ns, removed) \
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[]) \
    ON CONFLICT (id) DO UPDATE SET cseq = excluded.cseq, granted_s = excluded.granted_s, \
    expires_at_ns = excluded.expires_at_ns, removed = excluded.removed";
const RENEW_LEASES: &str = "UPDATE lease SET cseq = new.cseq, granted_s = new.granted_s, \
    expires_at_ns = new.expires_at_ns, removed = new.removed \
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[]) \
    AS new (id, cseq, granted_s, expires_at_ns, removed) WHERE lease.id = new.id";
const REMOVE_ENDED: &str = "WITH gone AS (DELETE FROM lease \
    USING unnest($1::bigint[], $2::bigint[]) AS ended (id, expires_at_ns) \
    WHERE lease.id = ended.id AND lease.expires_at_ns = ended.expires_at_ns RETURNING lease.id) \
    DELETE FROM contact USING gone WHERE contact.id = gone.id";
const PUT_SOFT_STATES: &str = "INSERT INTO soft_state \
    (id, kind, value, granted_s, expires_at_ns) \
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) \
    ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, value = excluded.value, \
    granted_s = excluded.granted_s, expires_at_ns = excluded.expires_at_ns";
const REMOVE_ENDED_SOFT_STATES: &str = "DELETE FROM soft_state \
    USING unnest($1::bigint[], $2::bigint[]) AS ended (id, expires_at_ns) \
    WHERE soft_state.id = ended.id AND soft_state.expires_at_ns = ended.expires_at_ns";
pub(super) const PUT_ACCOUNT: &str = "INSERT INTO account \
    (username, realm, password, hashes, contacts_max, mailbox, hints, aliases, watchers, \
    disabled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (username, realm) DO UPDATE SET \
    password = excluded.password, hashes = excluded.hashes, \
    contacts_max = excluded.contacts_max, mailbox = excluded.mailbox, hints = excluded.hints, \
    aliases = excluded.aliases, watchers = excluded.watchers, disabled = excluded.disabled";
pub(super) const REMOVE_ACCOUNT: &str = "DELETE FROM account WHERE username = $1 AND realm = $2";
pub(super) const PUT_SETTING: &str = "INSERT INTO setting (kind, name, value) VALUES ($1, $2, $3) \
    ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value";
pub(super) const REMOVE_SETTING: &str = "DELETE FROM setting WHERE kind = $1 AND name = $2";
