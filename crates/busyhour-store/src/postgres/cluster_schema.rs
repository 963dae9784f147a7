//! The tables of a cluster, which a database gets when its first node joins.

use super::{
    PostgresOptions,
    schema::{self, Schema},
};
use crate::StoreError;
use postgres::Client;

/// Makes what is missing. A server without a cluster never calls it.
pub(super) fn make(client: &mut Client, options: &PostgresOptions) -> Result<(), StoreError> {
    schema::migrate(client, options)?;
    schema::migrate_with(client, options, &SCHEMA)?;
    let made = client.batch_execute(SHARE_ROUTE_KEY);
    made.map_err(|error| options.failed(&error))
}

/// The key by which servers sign routes of calls is the same for all nodes, whichever is first.
const SHARE_ROUTE_KEY: &str = "INSERT INTO setting (kind, name, value) \
    SELECT 'server', 'route-key', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '') \
    ON CONFLICT DO NOTHING";

const SCHEMA: Schema = Schema {
    versions: "cluster_schema_version",
    migrations: MIGRATIONS,
    minimum: 4,
};

/// As the other list: never edit one that has been released; append, and only add.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE cluster_node (
        node SMALLINT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        epoch BIGINT NOT NULL,
        lease_until TIMESTAMPTZ,
        lease_since TIMESTAMPTZ NOT NULL,
        is_draining BOOLEAN NOT NULL DEFAULT FALSE
    ) WITH (fillfactor = 50);
    CREATE TABLE cluster_fence (
        node SMALLINT PRIMARY KEY,
        epoch BIGINT NOT NULL,
        groups BIGINT NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE cluster_partition (
        partition SMALLINT PRIMARY KEY,
        owner SMALLINT,
        owner_epoch BIGINT NOT NULL DEFAULT 0,
        epoch BIGINT NOT NULL DEFAULT 0
    );
    INSERT INTO cluster_partition (partition) SELECT generate_series(0, 255);
    CREATE INDEX contact_partition ON contact ((('x' || substr(md5(aor), 1, 2))::bit(8)::integer));
",
    "
    -- Each node numbers its records of calls for itself, so the database has to number them all.
    CREATE SEQUENCE call_record_number;
    SELECT setval('call_record_number', (SELECT coalesce(max(id), 0) + 1 FROM call_record), false);
    CREATE FUNCTION number_call_record() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.id := nextval('call_record_number');
            RETURN NEW;
        END
    $$;
    CREATE TRIGGER number_call_record BEFORE INSERT ON call_record
        FOR EACH ROW EXECUTE FUNCTION number_call_record();
",
    "
    ALTER TABLE cluster_partition ADD COLUMN pinned SMALLINT;
",
    "
    ALTER TABLE cluster_schema_version ADD COLUMN minimum INTEGER NOT NULL DEFAULT 0;
",
];
