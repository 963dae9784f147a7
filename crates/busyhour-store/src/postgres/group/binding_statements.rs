//! What a group does to bindings, and its count, as one statement: one round trip, and no transaction
//! around it if the group has nothing else.
//!
//! Each statement begins with the count of groups, by which a server or a node shows that it may
//! write (`fencing_token.rs`). Its other parts write only if the group is counted, so the
//! statement does all or nothing. No two of its parts touch the same row, because a group has
//! one end for each binding; so it does not matter that PostgreSQL runs them in any order.

use super::{End, Group, key, nanos, storable};
use busyhour_registrar::{BindingId, ContactParts, Lease};
use postgres::{Client, Error, GenericClient, Statement, types::ToSql};
use std::borrow::Cow;

/// Compiled once a session.
pub(in crate::postgres) struct BindingStatements {
    /// For the many groups that only renew.
    renew: Statement,
    write: Statement,
}

/// What became of the count of a group.
pub(in crate::postgres) struct CountRow {
    /// If not, nothing was written.
    pub(in crate::postgres) is_counted: bool,
    /// The places of grants that do not hold.
    pub(in crate::postgres) lost: Vec<i64>,
}

/// A value of a statement.
pub(in crate::postgres) type Parameter<'p> = &'p (dyn ToSql + Sync);

impl BindingStatements {
    /// `count` makes two common table expressions whose first parameter has a number:
    /// `counted`, which counts the group and has a row if it could; and `lost`, which has the
    /// `place` of each grant that does not hold.
    pub(super) fn prepare(client: &mut Client, count: fn(usize) -> String) -> Result<Self, Error> {
        let renew = format!(
            "WITH {}, {RENEW} {COUNT_ROW}",
            count(1 + Leases::PARAMETERS)
        );
        let write = format!(
            "WITH {}, {RENEW}, {PUT_CONTACTS}, {PUT_LEASES}, {REMOVE} {COUNT_ROW}",
            count(1 + WRITE_PARAMETERS)
        );
        Ok(Self {
            renew: client.prepare(&renew)?,
            write: client.prepare(&write)?,
        })
    }
}

impl Group<'_> {
    /// Counts the group and writes what it does to bindings, if it can be counted. `count` has the
    /// parameters of the count.
    pub(in crate::postgres) fn write_bindings(
        &self,
        client: &mut impl GenericClient,
        statements: &BindingStatements,
        count: &[Parameter<'_>],
    ) -> Result<CountRow, Error> {
        let renewed = self.bindings.iter().filter_map(|(id, end)| match end {
            End::Renewed(lease) => Some((*id, *lease)),
            End::Put(..) | End::Removed => None,
        });
        let renewed = Leases::of(renewed);
        let mut parameters = renewed.parameters();
        if renewed.ids.len() == self.bindings.len() {
            parameters.extend(count);
            return count_row(client, &statements.renew, &parameters);
        }
        let put = self.bindings.iter().filter_map(|(id, end)| match end {
            End::Put(aor, contact, lease) => Some((*id, *aor, contact.parts(), *lease)),
            End::Renewed(_) | End::Removed => None,
        });
        let put = Contacts::of(put);
        let removed = self.bindings.iter().filter_map(|(id, end)| match end {
            End::Removed => Some(key(*id)),
            End::Put(..) | End::Renewed(_) => None,
        });
        let removed: Vec<i64> = removed.collect();
        parameters.extend(put.parameters());
        parameters.push(&removed);
        parameters.extend(count);
        count_row(client, &statements.write, &parameters)
    }
}

fn count_row(
    client: &mut impl GenericClient,
    statement: &Statement,
    parameters: &[Parameter<'_>],
) -> Result<CountRow, Error> {
    let row = client.query_one(statement, parameters)?;
    Ok(CountRow {
        is_counted: row.try_get(0)?,
        lost: row.try_get(1)?,
    })
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
    const PARAMETERS: usize = 5;

    fn of<'c>(leases: impl Iterator<Item = (BindingId, &'c Lease)>) -> Self {
        let mut columns = Self::default();
        for (id, lease) in leases {
            columns.push(id, lease);
        }
        columns
    }

    fn push(&mut self, id: BindingId, lease: &Lease) {
        self.ids.push(key(id));
        self.cseqs.push(i64::from(lease.cseq));
        self.granted.push(i64::from(lease.granted_s));
        self.expiries.push(nanos(lease.expires_at));
        self.removed.push(lease.removed);
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let columns: [Parameter<'_>; Self::PARAMETERS] = [
            &self.ids,
            &self.cseqs,
            &self.granted,
            &self.expiries,
            &self.removed,
        ];
        columns.to_vec()
    }
}

/// Columns of contacts and their leases.
#[derive(Default)]
struct Contacts<'c> {
    leases: Leases,
    aors: Vec<Cow<'c, str>>,
    uris: Vec<Cow<'c, str>>,
    uri_parameters: Vec<Cow<'c, str>>,
    q_milli: Vec<Option<i32>>,
    call_ids: Vec<Cow<'c, str>>,
    paths: Vec<Cow<'c, str>>,
    user_agents: Vec<Cow<'c, str>>,
    remotes: Vec<String>,
    locals: Vec<String>,
    connections: Vec<i64>,
}

impl<'c> Contacts<'c> {
    fn of(
        contacts: impl Iterator<Item = (BindingId, &'c str, ContactParts<'c>, &'c Lease)>,
    ) -> Self {
        let mut columns = Self::default();
        for (id, aor, contact, lease) in contacts {
            columns.leases.push(id, lease);
            columns.aors.push(storable(aor));
            columns.uris.push(storable(contact.uri));
            columns.uri_parameters.push(storable(contact.parameters));
            columns.q_milli.push(contact.q_milli.map(i32::from));
            columns.call_ids.push(storable(contact.call_id));
            columns.paths.push(storable(contact.path));
            columns.user_agents.push(storable(contact.user_agent));
            columns.remotes.push(contact.flow.remote_text());
            columns.locals.push(contact.flow.local_text());
            columns.connections.push(contact.flow.connection.into());
        }
        columns
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let columns: [Parameter<'_>; CONTACT_PARAMETERS] = [
            &self.aors,
            &self.uris,
            &self.uri_parameters,
            &self.q_milli,
            &self.call_ids,
            &self.paths,
            &self.user_agents,
            &self.remotes,
            &self.locals,
            &self.connections,
        ];
        [self.leases.parameters(), columns.to_vec()].concat()
    }
}

/// Beside those of their leases.
const CONTACT_PARAMETERS: usize = 10;
/// Those of the renewed leases, of the contacts and their leases, and the ids that are removed.
const WRITE_PARAMETERS: usize = 2 * Leases::PARAMETERS + CONTACT_PARAMETERS + 1;
const COUNT_ROW: &str = "SELECT EXISTS (SELECT FROM counted), ARRAY(SELECT place FROM lost)";
const RENEW: &str = "renewed AS (UPDATE lease SET cseq = new.cseq, granted_s = new.granted_s, \
    expires_at_ns = new.expires_at_ns, removed = new.removed \
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[]) \
    AS new (id, cseq, granted_s, expires_at_ns, removed) \
    WHERE lease.id = new.id AND EXISTS (SELECT FROM counted))";
const PUT_LEASES: &str = "put_leases AS (INSERT INTO lease \
    (id, cseq, granted_s, expires_at_ns, removed) \
    SELECT * FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[]) \
    WHERE EXISTS (SELECT FROM counted) \
    ON CONFLICT (id) DO UPDATE SET cseq = excluded.cseq, granted_s = excluded.granted_s, \
    expires_at_ns = excluded.expires_at_ns, removed = excluded.removed)";
const PUT_CONTACTS: &str = "put_contacts AS (INSERT INTO contact \
    (id, aor, uri, parameters, q_milli, call_id, path, user_agent, remote, local, connection) \
    SELECT * FROM unnest($6::bigint[], $11::text[], $12::text[], $13::text[], $14::integer[], \
    $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::bigint[]) \
    WHERE EXISTS (SELECT FROM counted) \
    ON CONFLICT (id) DO UPDATE SET aor = excluded.aor, uri = excluded.uri, \
    parameters = excluded.parameters, q_milli = excluded.q_milli, call_id = excluded.call_id, \
    path = excluded.path, user_agent = excluded.user_agent, remote = excluded.remote, \
    local = excluded.local, connection = excluded.connection)";
const REMOVE: &str = "removed_contacts AS (DELETE FROM contact \
    WHERE id = ANY($21::bigint[]) AND EXISTS (SELECT FROM counted)), \
    removed_leases AS (DELETE FROM lease \
    WHERE id = ANY($21::bigint[]) AND EXISTS (SELECT FROM counted))";
