//! Reading everything back at the start, in one consistent snapshot.

use super::{PostgresOptions, call_records, fencing_token};
use crate::{
    Account, AccountKey, AccountNews, Contents, SettingKind, SoftState, SoftStateKind, StoreError,
    StoredBinding,
    account::{hints_of_row, secret_of_row},
    outside_changes::{ACCOUNT_NAMES_KEPT, BATCH_LEN, SettingKey, are_names_kept},
    setting::Settings,
};
use busyhour::clock::UnixTime;
use busyhour_cluster::Grant;
use busyhour_registrar::{BindingId, Contact, ContactParts, Lease};
use busyhour_sip::Flow;
use postgres::{
    Client, Error, GenericClient, IsolationLevel, Row, ToStatement, Transaction,
    fallible_iterator::FallibleIterator,
};
use std::collections::BTreeMap;

pub(super) fn contents(options: &PostgresOptions) -> Result<Contents, StoreError> {
    let wrap = |error| options.failed(&error);
    let mut client = options.connect()?;
    let mut snapshot = snapshot(&mut client).map_err(wrap)?;
    // A node of a cluster reads those of its partitions when they are granted to it.
    let has_rows = options.member.is_none();
    Ok(Contents {
        bindings: match has_rows {
            true => bindings(&mut snapshot, options, BINDINGS, None)?,
            false => Vec::new(),
        },
        soft_states: match has_rows {
            true => soft_states(&mut snapshot, SOFT_STATES, None).map_err(wrap)?,
            false => Vec::new(),
        },
        last_id: match has_rows {
            true => 0,
            false => revision(&mut snapshot, LAST_ID).map_err(wrap)?,
        },
        accounts: accounts(&mut snapshot).map_err(wrap)?,
        account_revision: revision(&mut snapshot, REVISION).map_err(wrap)?,
        run: fencing_token::run(&mut snapshot).map_err(wrap)?,
        last_call_record: call_records::last(&mut snapshot).map_err(wrap)?,
        settings: settings(&mut snapshot).map_err(wrap)?,
        setting_revision: revision(&mut snapshot, SETTING_REVISION).map_err(wrap)?,
    })
}

/// The bindings and soft states of some partitions.
pub(super) fn partitions(
    client: &mut Client,
    options: &PostgresOptions,
    grants: &[Grant],
) -> Result<Contents, StoreError> {
    let wrap = |error| options.failed(&error);
    let mut snapshot = snapshot(client).map_err(wrap)?;
    let numbers: Vec<i32> = grants.iter().map(|it| it.partition.0.into()).collect();
    let epochs: Vec<i64> = grants.iter().map(|it| it.epoch.cast_signed()).collect();
    let earlier = snapshot.query_opt(EARLIER_GRANT, &[&numbers, &epochs]);
    if let Some(row) = earlier.map_err(wrap)? {
        let partition: i32 = row.try_get(0).map_err(wrap)?;
        return Err(options.behind(partition));
    }
    Ok(Contents {
        bindings: bindings(&mut snapshot, options, BINDINGS_IN, Some(&numbers))?,
        soft_states: soft_states(&mut snapshot, SOFT_STATES_IN, Some(&numbers)).map_err(wrap)?,
        ..Contents::default()
    })
}

/// The changes of accounts since the revision `known`, and the current revision. `None`
/// if there are too many.
pub(super) fn news(
    client: &mut Client,
    known: u64,
) -> Result<(Option<Vec<AccountNews>>, u64), Error> {
    let mut snapshot = snapshot(client)?;
    let revision = revision(&mut snapshot, REVISION)?;
    let news = match are_names_kept(known, revision, ACCOUNT_NAMES_KEPT) {
        true => Some(changed_since(known, &mut snapshot)?),
        false => None,
    };
    Ok((news, revision))
}

/// At most [`BATCH_LEN`] accounts, in the order of the bytes of their names.
pub(super) fn batch(
    client: &mut Client,
    after: Option<&AccountKey>,
) -> Result<Vec<Account>, Error> {
    let limit = BATCH_LEN as i64;
    let rows = match after {
        Some(key) => client.query(ACCOUNTS_AFTER, &[&limit, &key.username, &key.realm])?,
        None => client.query(ACCOUNTS_FIRST, &[&limit])?,
    };
    rows.iter().map(account).collect()
}

fn changed_since(known: u64, snapshot: &mut Transaction<'_>) -> Result<Vec<AccountNews>, Error> {
    let rows = snapshot.query(CHANGED, &[&known.cast_signed()])?;
    rows.iter().map(one_news).collect()
}

/// Without hashes there is no account of this name any more.
fn one_news(row: &Row) -> Result<AccountNews, Error> {
    if row.try_get::<_, Option<&str>>(3)?.is_some() {
        return account(row).map(AccountNews::Put);
    }
    Ok(AccountNews::Removed {
        username: row.try_get(0)?,
        realm: row.try_get(1)?,
    })
}

/// How often accounts were changed.
pub(super) fn revision<Q: ToStatement + ?Sized>(
    client: &mut impl GenericClient,
    query: &Q,
) -> Result<u64, Error> {
    let row = client.query_one(query, &[])?;
    row.try_get::<_, i64>(0).map(i64::cast_unsigned)
}

fn snapshot(client: &mut Client) -> Result<Transaction<'_>, Error> {
    let transaction = client.build_transaction().read_only(true);
    transaction
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()
}

/// Row by row: a million of them must not be in memory twice.
fn bindings(
    snapshot: &mut Transaction<'_>,
    options: &PostgresOptions,
    query: &str,
    partitions: Option<&Vec<i32>>,
) -> Result<Vec<StoredBinding>, StoreError> {
    let wrap = |error| options.failed(&error);
    let mut rows = snapshot.query_raw(query, partitions).map_err(wrap)?;
    let mut bindings = Vec::new();
    while let Some(row) = rows.next().map_err(wrap)? {
        let id: i64 = row.try_get(0).map_err(wrap)?;
        bindings.push(binding(&row, id).map_err(|reason| StoreError::Row {
            path: options.path(),
            table: "contact",
            row: id,
            reason,
        })?);
    }
    Ok(bindings)
}

fn binding(row: &Row, id: i64) -> Result<StoredBinding, String> {
    Ok(StoredBinding {
        id: BindingId(id.cast_unsigned()),
        aor: text(row, 1)?.into(),
        contact: contact(row)?,
        lease: lease(row)?,
    })
}

fn contact(row: &Row) -> Result<Contact, String> {
    let text = |column| text(row, column);
    let q: Option<i32> = row.try_get(4).map_err(|error| error.to_string())?;
    Ok(Contact::new(ContactParts {
        uri: text(2)?,
        parameters: text(3)?,
        q_milli: q
            .map(u16::try_from)
            .transpose()
            .map_err(|error| error.to_string())?,
        call_id: text(5)?,
        path: text(6)?,
        user_agent: text(7)?,
        flow: Flow {
            connection: connection(row)?,
            ..flow(text(8)?, text(9)?)?
        },
    }))
}

fn connection(row: &Row) -> Result<u32, String> {
    let number: i64 = row.try_get(14).map_err(|error| error.to_string())?;
    u32::try_from(number).map_err(|error| error.to_string())
}

fn text(row: &Row, column: usize) -> Result<&str, String> {
    row.try_get(column).map_err(|error| error.to_string())
}

fn lease(row: &Row) -> Result<Lease, String> {
    let number = |column| {
        row.try_get::<_, i64>(column)
            .map_err(|error| error.to_string())
    };
    let small = |column| u32::try_from(number(column)?).map_err(|error| error.to_string());
    Ok(Lease {
        cseq: small(10)?,
        granted_s: small(11)?,
        expires_at: UnixTime::from_nanos(u64::try_from(number(12)?).unwrap_or(0)),
        removed: row.try_get(13).map_err(|error| error.to_string())?,
    })
}

fn flow(remote: &str, local: &str) -> Result<Flow, String> {
    let flow = Flow::from_texts(local, remote);
    flow.ok_or_else(|| format!("{remote:?} and {local:?} are not two addresses with ports"))
}

/// Every account.
pub(super) fn accounts(client: &mut impl GenericClient) -> Result<Vec<Account>, Error> {
    let rows = client.query(ACCOUNTS, &[])?;
    rows.iter().map(account).collect()
}

fn account(row: &Row) -> Result<Account, Error> {
    Ok(Account {
        username: row.try_get(0)?,
        realm: row.try_get(1)?,
        secret: secret_of_row(row.try_get(2)?, row.try_get(3)?),
        contacts_max: row.try_get::<_, Option<i32>>(4)?.map(i32::cast_unsigned),
        mailbox: row.try_get(5)?,
        hints: hints_of_row(row.try_get(6)?),
        aliases: hints_of_row(row.try_get(7)?),
        watchers: row.try_get::<_, Option<&str>>(8)?.map(hints_of_row),
        is_disabled: row.try_get(9)?,
    })
}

/// A kind that is not known here is of a newer version, and as good as absent.
fn soft_states(
    snapshot: &mut Transaction<'_>,
    query: &str,
    partitions: Option<&Vec<i32>>,
) -> Result<Vec<SoftState>, Error> {
    let mut rows = snapshot.query_raw(query, partitions)?;
    let mut soft_states = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(kind) = SoftStateKind::from_name(row.try_get(1)?) else {
            continue;
        };
        let (granted_s, expires_at_ns): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
        soft_states.push(SoftState {
            id: BindingId(row.try_get::<_, i64>(0)?.cast_unsigned()),
            kind,
            value: row.try_get::<_, &str>(2)?.into(),
            granted_s: u32::try_from(granted_s).unwrap_or(0),
            expires_at: UnixTime::from_nanos(u64::try_from(expires_at_ns).unwrap_or(0)),
        });
    }
    Ok(soft_states)
}

/// A kind that is not known here is of a newer version, and as good as absent.
fn settings(snapshot: &mut Transaction<'_>) -> Result<Settings, Error> {
    let mut settings = BTreeMap::new();
    for row in snapshot.query("SELECT kind, name, value FROM setting", &[])? {
        if let Some(kind) = SettingKind::from_name(row.try_get(0)?) {
            settings.insert((kind, row.try_get(1)?), row.try_get(2)?);
        }
    }
    Ok(settings)
}

/// What settings of some kinds are since the revision `known`, `None` where one is gone, and
/// those that are named besides; with the revision at which that is so. All, if `known` is `None` or
/// the names of what was changed since are not kept.
pub(super) fn setting_news(
    client: &mut Client,
    kinds: &[SettingKind],
    known: Option<u64>,
    named: &[SettingKey],
) -> Result<(SettingNews, u64), Error> {
    let mut snapshot = snapshot(client)?;
    let revision = revision(&mut snapshot, SETTING_REVISION)?;
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let known = known.filter(|known| are_names_kept(*known, revision, SETTING_NAMES_KEPT));
    let news = match known {
        Some(known) => {
            let mut rows = snapshot.query(CHANGED_SETTINGS, &[&known.cast_signed(), &kinds])?;
            let (of, names): (Vec<&str>, Vec<&str>) = (named.iter())
                .map(|(kind, name)| (kind.name(), name.as_str()))
                .unzip();
            if !named.is_empty() {
                rows.extend(snapshot.query(NAMED_SETTINGS, &[&of, &names])?);
            }
            SettingNews::Changed(rows.iter().map(setting_row).collect::<Result<_, _>>()?)
        }
        None => {
            let rows = snapshot.query(SETTINGS_OF_KINDS, &[&kinds])?;
            SettingNews::All(rows.iter().map(setting_row).collect::<Result<_, _>>()?)
        }
    };
    Ok((news, revision))
}

/// Settings that were read.
pub(super) enum SettingNews {
    /// Those that were changed.
    Changed(Vec<SettingFound>),
    /// All of the kinds that were asked for.
    All(Vec<SettingFound>),
}

/// A setting, and what it is, if it is there.
pub(super) type SettingFound = (SettingKey, Option<String>);

fn setting_row(row: &Row) -> Result<SettingFound, Error> {
    let kind = SettingKind::from_name(row.try_get(0)?);
    // Only kinds that are known are asked for.
    let kind = kind.unwrap_or(SettingKind::Server);
    Ok(((kind, row.try_get(1)?), row.try_get(2)?))
}

/// The settings of a kind, by their names.
pub(super) fn settings_of(
    client: &mut impl GenericClient,
    kind: SettingKind,
) -> Result<BTreeMap<String, String>, Error> {
    let rows = client.query(SETTINGS_OF, &[&kind.name()])?;
    let setting = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(setting).collect()
}

const SETTINGS_OF: &str = "SELECT name, value FROM setting WHERE kind = $1";
const SETTINGS_OF_KINDS: &str = "SELECT kind, name, value FROM setting WHERE kind = ANY($1)";
const CHANGED_SETTINGS: &str = "SELECT kind, name, value FROM ( \
    SELECT kind, name, max(revision) AS last FROM setting_change \
    WHERE revision > $1 AND kind = ANY($2) GROUP BY kind, name) AS changed \
    LEFT JOIN setting USING (kind, name) ORDER BY last";
const NAMED_SETTINGS: &str = "SELECT kind, name, value \
    FROM unnest($1::text[], $2::text[]) AS named (kind, name) \
    LEFT JOIN setting USING (kind, name)";
const BINDINGS: &str = "SELECT id, aor, uri, parameters, q_milli, call_id, path, user_agent, \
    remote, local, cseq, granted_s, expires_at_ns, removed, connection \
    FROM contact JOIN lease USING (id) ORDER BY id";
/// The partition of an address is an index of the table.
const BINDINGS_IN: &str = "SELECT id, aor, uri, parameters, q_milli, call_id, path, user_agent, \
    remote, local, cseq, granted_s, expires_at_ns, removed, connection \
    FROM contact JOIN lease USING (id) \
    WHERE (('x' || substr(md5(aor), 1, 2))::bit(8)::integer) = ANY($1) ORDER BY id";
const SOFT_STATES: &str =
    "SELECT id, kind, value, granted_s, expires_at_ns FROM soft_state ORDER BY id";
const SOFT_STATES_IN: &str = "SELECT id, kind, value, granted_s, expires_at_ns FROM soft_state \
    WHERE (('x' || substr(md5(value::json->>'device'), 1, 2))::bit(8)::integer) = ANY($1) \
    ORDER BY id";
const EARLIER_GRANT: &str = "SELECT number FROM unnest($1::int[], $2::bigint[]) AS granted (number, granted_epoch) \
    LEFT JOIN cluster_partition ON partition = number WHERE epoch IS NULL OR epoch < granted_epoch LIMIT 1";
const LAST_ID: &str = "SELECT greatest(0, (SELECT max(id) FROM contact), \
    (SELECT max(id) FROM soft_state))::bigint";
const ACCOUNTS: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, hints, \
    aliases, watchers, disabled FROM account ORDER BY username COLLATE \"C\", realm COLLATE \"C\"";
const ACCOUNTS_FIRST: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, \
    hints, aliases, watchers, disabled FROM account ORDER BY username COLLATE \"C\", realm COLLATE \"C\" LIMIT $1";
const ACCOUNTS_AFTER: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, \
    hints, aliases, watchers, disabled FROM account WHERE (username COLLATE \"C\", realm COLLATE \"C\") > ($2, $3) \
    ORDER BY username COLLATE \"C\", realm COLLATE \"C\" LIMIT $1";
const CHANGED: &str = "SELECT username, realm, password, hashes, contacts_max, mailbox, hints, \
    aliases, watchers, disabled FROM (SELECT username, realm, max(revision) AS last FROM account_change \
        WHERE revision > $1 GROUP BY username, realm) AS changed \
    LEFT JOIN account USING (username, realm) ORDER BY last, username COLLATE \"C\"";
/// Names of changed settings that the database keeps; its trigger knows the same number.
const SETTING_NAMES_KEPT: u64 = 10_000;
pub(super) const SETTING_REVISION: &str = "SELECT count FROM revision WHERE name = 'setting'";
/// As for accounts. Whoever changes several settings locks it first, so that no two wait for each
/// other.
pub(super) const SETTING_REVISION_LOCKED: &str =
    "SELECT count FROM revision WHERE name = 'setting' FOR UPDATE";
pub(super) const REVISION: &str = "SELECT count FROM revision WHERE name = 'account'";
/// The row lock keeps other programs from changing accounts until the transaction ends.
pub(super) const REVISION_LOCKED: &str =
    "SELECT count FROM revision WHERE name = 'account' FOR UPDATE";
