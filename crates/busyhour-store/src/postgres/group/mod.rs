//! A group of changes as few statements, each for many rows.

mod binding_statements;

use super::{call_records, load};
use crate::{
    Account, CallRecordRow, Change, SoftState,
    account::{hashes_text, hints_text},
};
use busyhour::clock::UnixTime;
use busyhour_cluster::Member;
use busyhour_registrar::{BindingChange, BindingId, Contact, EndedBinding, Lease};
use postgres::{Client, Error, Statement, Transaction};
use std::{borrow::Cow, collections::BTreeMap};

pub(super) use binding_statements::BindingStatements;

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
    pub(super) bindings: BindingStatements,
    /// How often accounts were changed: asked each second, so it is not planned anew.
    pub(super) account_revision: Statement,
    remove_ended: Statement,
    put_soft_states: Statement,
    put_account: Statement,
    put_call_records: Statement,
}

impl Statements {
    /// `count` is [`FencingToken::count_sql`](super::fencing_token::FencingToken::count_sql).
    pub(super) fn prepare(client: &mut Client, count: fn(usize) -> String) -> Result<Self, Error> {
        Ok(Self {
            bindings: BindingStatements::prepare(client, count)?,
            account_revision: client.prepare(load::REVISION)?,
            remove_ended: client.prepare(REMOVE_ENDED)?,
            put_soft_states: client.prepare(PUT_SOFT_STATES)?,
            put_account: client.prepare(PUT_ACCOUNT)?,
            put_call_records: client.prepare(call_records::PUT)?,
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

    /// Whether [`write_bindings`](Self::write_bindings) writes all of it.
    pub(super) fn is_of_bindings(&self) -> bool {
        self.soft_states.is_empty() && self.call_records.is_empty() && self.others.is_empty()
    }

    /// Writes all but the bindings.
    pub(super) fn write_rest(
        &self,
        transaction: &mut Transaction<'_>,
        statements: &Statements,
    ) -> Result<(), Error> {
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
}

/// Removes the rows of what has ended, and leaves alone a lease that ends at
/// another time, and what belongs to a partition that this member does not have: a subscription can end before its lease, and
/// who has its partition has brought it back from its row.
pub(super) fn remove_ended(
    transaction: &mut Transaction<'_>,
    statements: &Statements,
    batch: &[EndedBinding],
    member: Option<Member>,
) -> Result<(), Error> {
    let ids: Vec<i64> = batch.iter().map(|ended| key(ended.id)).collect();
    let ends = batch.iter().map(|ended| nanos(ended.expires_at));
    let ends: Vec<i64> = ends.collect();
    transaction.execute(&statements.remove_ended, &[&ids, &ends])?;
    match member {
        None => transaction.execute(REMOVE_ENDED_SOFT_STATES, &[&ids, &ends])?,
        Some(Member { node, epoch }) => {
            let (node, epoch) = (node.0.cast_signed(), epoch.cast_signed());
            transaction.execute(
                REMOVE_ENDED_SOFT_STATES_OF_OURS,
                &[&ids, &ends, &node, &epoch],
            )?
        }
    };
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
/// A partition cannot be given away until this is committed. One that another transaction changes at this moment is taken for given: if
/// it stays here, the row stays until its time is over or the partition is read again.
const REMOVE_ENDED_SOFT_STATES_OF_OURS: &str = "WITH known AS MATERIALIZED (SELECT id, expires_at_ns, \
    (('x' || substr(md5(value::json->>'device'), 1, 2))::bit(8)::integer) AS partition \
    FROM soft_state JOIN unnest($1::bigint[], $2::bigint[]) AS ended (id, expires_at_ns) \
    USING (id, expires_at_ns)), \
    ours AS MATERIALIZED (SELECT partition FROM cluster_partition WHERE owner = $3 AND owner_epoch = $4 \
    AND partition IN (SELECT partition FROM known) FOR SHARE SKIP LOCKED) \
    DELETE FROM soft_state USING known JOIN ours USING (partition) \
    WHERE soft_state.id = known.id AND soft_state.expires_at_ns = known.expires_at_ns";
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
