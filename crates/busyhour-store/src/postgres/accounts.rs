//! Accounts for tools, on a connection of their own.

use super::{
    PostgresOptions,
    group::{PUT_ACCOUNT, PUT_SETTING, REMOVE_ACCOUNT, REMOVE_SETTING, put_account},
    load, schema,
};
use crate::{Account, AccountAdmin, SettingKind, StoreError, WhenMissing};
use postgres::{Client, types::ToSql};
use std::collections::BTreeMap;

/// A connection beside the server's, without its lock.
pub(crate) struct PostgresAccounts {
    client: Client,
    options: PostgresOptions,
}

/// Locks in the order in which the server does, first the revision and then rows,
/// so that neither can wait for the other in a circle.
impl PostgresAccounts {
    pub(crate) fn open(
        options: PostgresOptions,
        when_missing: WhenMissing,
    ) -> Result<Self, StoreError> {
        let mut client = options.connect()?;
        let is_made = schema::is_made(&mut client).map_err(|error| options.failed(&error))?;
        if !is_made && when_missing == WhenMissing::Refuse {
            let path = options.path();
            return Err(StoreError::Missing { path });
        }
        schema::migrate(&mut client, &options)?;
        Ok(Self { client, options })
    }

    fn remove_one(&mut self, username: &str, realm: &str) -> Result<u64, postgres::Error> {
        let mut transaction = self.client.transaction()?;
        load::revision(&mut transaction, load::REVISION_LOCKED)?;
        let count = transaction.execute(REMOVE_ACCOUNT, &[&username, &realm])?;
        transaction.commit()?;
        Ok(count)
    }

    fn change_setting(
        &mut self,
        sql: &str,
        row: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, postgres::Error> {
        let mut transaction = self.client.transaction()?;
        load::revision(&mut transaction, load::SETTING_REVISION_LOCKED)?;
        let count = transaction.execute(sql, row)?;
        transaction.commit()?;
        Ok(count)
    }

    fn put_all(&mut self, accounts: &[Account]) -> Result<(), postgres::Error> {
        let mut transaction = self.client.transaction()?;
        load::revision(&mut transaction, load::REVISION_LOCKED)?;
        let statement = transaction.prepare(PUT_ACCOUNT)?;
        for account in accounts {
            put_account(&mut transaction, &statement, account)?;
        }
        transaction.commit()
    }
}

impl AccountAdmin for PostgresAccounts {
    fn put(&mut self, accounts: &[Account]) -> Result<(), StoreError> {
        let put = self.put_all(accounts);
        put.map_err(|error| self.options.failed(&error))
    }

    fn remove(&mut self, username: &str, realm: &str) -> Result<bool, StoreError> {
        let removed = self.remove_one(username, realm);
        removed
            .map(|count| count > 0)
            .map_err(|error| self.options.failed(&error))
    }

    fn all(&mut self) -> Result<Vec<Account>, StoreError> {
        let read = load::accounts(&mut self.client);
        read.map_err(|error| self.options.failed(&error))
    }

    fn put_setting(
        &mut self,
        kind: SettingKind,
        name: &str,
        value: &str,
    ) -> Result<(), StoreError> {
        let row = [&kind.name() as &(dyn ToSql + Sync), &name, &value];
        let put = self.change_setting(PUT_SETTING, &row);
        put.map(drop).map_err(|error| self.options.failed(&error))
    }

    fn remove_setting(&mut self, kind: SettingKind, name: &str) -> Result<bool, StoreError> {
        let key = [&kind.name() as &(dyn ToSql + Sync), &name];
        let removed = self.change_setting(REMOVE_SETTING, &key);
        removed
            .map(|count| count > 0)
            .map_err(|error| self.options.failed(&error))
    }

    fn settings(&mut self, kind: SettingKind) -> Result<BTreeMap<String, String>, StoreError> {
        let read = load::settings_of(&mut self.client, kind);
        read.map_err(|error| self.options.failed(&error))
    }
}
