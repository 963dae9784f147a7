//! Rows of other programs' tables, wherever they come from: a dump, a CSV file, a database.

use super::{
    source::{Source, SourceKind},
    sql_dump,
};
use busyhour_store::{ForeignRow, PostgresOptions, read_postgres_table, read_sqlite_table};
use std::{collections::BTreeMap, path::Path};

/// A row, and where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableRow {
    pub(super) place: String,
    pub(super) fields: ForeignRow,
}

/// Rows by the names of their tables, in lower case.
#[derive(Debug, Default)]
pub(super) struct Tables(BTreeMap<String, Vec<TableRow>>);

impl TableRow {
    /// A field that is given and not empty.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let text = self.fields.get(column)?.as_str();
        (!text.is_empty()).then_some(text)
    }
}

impl Tables {
    pub(super) fn has(&self, table: &str) -> bool {
        self.0.contains_key(table)
    }

    /// The rows of a table; none if it was not given.
    pub(super) fn rows(&self, table: &str) -> &[TableRow] {
        self.0.get(table).map_or(&[], Vec::as_slice)
    }

    /// Adds what a source has of the tables that are known here.
    pub(super) fn read(&mut self, source: &Source) -> Result<(), String> {
        match source.kind {
            SourceKind::Postgres => self.read_postgres(source.url()),
            SourceKind::Sqlite => self.read_sqlite(source.path()),
            SourceKind::TableCsv => self.read_csv(source),
            _ => self.read_dump(source.shown(), &source.text),
        }
    }

    fn read_postgres(&mut self, url: &str) -> Result<(), String> {
        let options = PostgresOptions::new(url).map_err(|error| error.to_string())?;
        for table in KNOWN {
            let rows = read_postgres_table(&options, table).map_err(|error| error.to_string())?;
            self.add(table, table, rows);
        }
        Ok(())
    }

    fn read_sqlite(&mut self, path: &Path) -> Result<(), String> {
        for table in KNOWN {
            let rows = read_sqlite_table(path, table).map_err(|error| error.to_string())?;
            self.add(&format!("{}: {table}", path.display()), table, rows);
        }
        Ok(())
    }

    fn add(&mut self, place: &str, table: &str, rows: Option<Vec<ForeignRow>>) {
        let Some(rows) = rows else {
            return;
        };
        let rows = rows.into_iter().enumerate().map(|(index, fields)| {
            let number = fields
                .get("id")
                .cloned()
                .unwrap_or_else(|| (index + 1).to_string());
            TableRow {
                place: format!("{place} row {number}"),
                fields,
            }
        });
        self.0.entry(table.to_owned()).or_default().extend(rows);
    }

    /// The name of the file says which table it is; so do its columns.
    fn read_csv(&mut self, source: &Source) -> Result<(), String> {
        let name = source.shown();
        let mut reader = csv::Reader::from_reader(source.text.as_bytes());
        let headers = reader
            .headers()
            .map_err(|error| format!("{name}: {error}"))?
            .clone();
        let Some(table) = table_of(&source.stem(), &source.text) else {
            let known = KNOWN.join(", ");
            return Err(format!(
                "{name}: its columns are of no known table; name the file after one: {known}"
            ));
        };
        let table = table.to_owned();
        let rows = self.0.entry(table).or_default();
        for record in reader.records() {
            let record = record.map_err(|error| format!("{name}: {error}"))?;
            let line = record.position().map_or(0, csv::Position::line);
            let fields = headers
                .iter()
                .zip(record.iter())
                .filter(|(_, value)| *value != "NULL");
            let fields = fields.map(|(column, value)| (column.to_owned(), value.to_owned()));
            rows.push(TableRow {
                place: format!("{name}: line {line}"),
                fields: fields.collect(),
            });
        }
        Ok(())
    }

    fn read_dump(&mut self, name: &str, text: &str) -> Result<(), String> {
        let dumped = sql_dump::read(text, &KNOWN).map_err(|reason| format!("{name}: {reason}"))?;
        for (table, line, fields) in dumped {
            let place = format!("{name}: line {line}");
            let rows = self.0.entry(table).or_default();
            rows.push(TableRow { place, fields });
        }
        Ok(())
    }
}

/// Which table a CSV file has, by its name without ending, or by its columns.
pub(super) fn table_of(stem: &str, text: &str) -> Option<&'static str> {
    if let Some(known) = KNOWN.into_iter().find(|known| *known == stem) {
        return Some(known);
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().ok()?;
    let has = |column: &str| headers.iter().any(|header| header == column);
    match () {
        () if has("username") && (has("ha1") || has("domain")) => Some("subscriber"),
        () if has("auth_type") || has("md5_cred") => Some("ps_auths"),
        () if has("aors") && has("id") => Some("ps_endpoints"),
        () if has("max_contacts") && has("id") => Some("ps_aors"),
        () if has("expiration_time") && has("uri") => Some("ps_contacts"),
        () => None,
    }
}

/// The tables that an import looks for.
pub(super) const KNOWN: [&str; 7] = [
    "subscriber",
    "dbaliases",
    "location",
    "ps_auths",
    "ps_endpoints",
    "ps_aors",
    "ps_contacts",
];
