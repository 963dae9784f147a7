//! Tables of other programs, read as text and changed by nothing.

use super::{PostgresOptions, StoreError, sqlite::sqlite_error};
use postgres::SimpleQueryMessage;
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use std::{collections::HashMap, path::Path};

/// One row: its fields that are not null, by their columns.
pub type ForeignRow = HashMap<String, String>;

/// The rows of a table in an SQLite database of another program; `None` if there is no such
/// table.
///
/// # Errors
///
/// When the file is missing, is no database, or cannot be read.
pub fn read_sqlite_table(path: &Path, table: &str) -> Result<Option<Vec<ForeignRow>>, StoreError> {
    let read = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        let known = "SELECT count(*) FROM sqlite_master WHERE name = ?1";
        let count: i64 = connection.query_row(known, [table], |row| row.get(0))?;
        match count {
            0 => Ok(None),
            _ => sqlite_rows(&connection, table).map(Some),
        }
    };
    read().map_err(|source| sqlite_error(path, source))
}

fn sqlite_rows(connection: &Connection, table: &str) -> rusqlite::Result<Vec<ForeignRow>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {}", quoted(table)))?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([], |row| {
        let mut fields = ForeignRow::new();
        for (index, column) in columns.iter().enumerate() {
            if let Some(text) = text_of(row.get_ref(index)?) {
                fields.insert(column.clone(), text);
            }
        }
        Ok(fields)
    })?;
    rows.collect()
}

fn text_of(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// The rows of a table in a PostgreSQL database of another program; `None` if there is no such
/// table.
///
/// # Errors
///
/// When there is no connection, or the table cannot be read.
pub fn read_postgres_table(
    options: &PostgresOptions,
    table: &str,
) -> Result<Option<Vec<ForeignRow>>, StoreError> {
    let mut client = options.connect()?;
    let mut read = || {
        let name = quoted(table);
        let known = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name])?;
        if !known.get::<_, bool>(0) {
            return Ok(None);
        }
        let messages = client.simple_query(&format!("SELECT * FROM {name}"))?;
        Ok(Some(messages.iter().filter_map(postgres_row).collect()))
    };
    read().map_err(|error: postgres::Error| options.failed(&error))
}

fn postgres_row(message: &SimpleQueryMessage) -> Option<ForeignRow> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let columns = row.columns().iter().enumerate();
    let fields = columns.filter_map(|(index, column)| {
        let text = row.get(index)?;
        Some((column.name().to_owned(), text.to_owned()))
    });
    Some(fields.collect())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
