//! Rows of other programs' tables, wherever they come from: a dump, a CSV file, a database.

use super::sql_dump;
use busyhour_store::{ForeignRow, PostgresOptions, read_postgres_table, read_sqlite_table};
use std::{collections::BTreeMap, fs, path::Path};

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
    pub(super) fn read(&mut self, source: &str) -> Result<(), String> {
        if source.starts_with("postgres://") || source.starts_with("postgresql://") {
            return self.read_postgres(source);
        }
        let path = Path::new(source);
        let bytes = fs::read(path).map_err(|error| format!("{source}: {error}"))?;
        if bytes.starts_with(SQLITE) {
            return self.read_sqlite(path);
        }
        let text =
            String::from_utf8(bytes).map_err(|_| format!("{source}: it is no UTF-8 text"))?;
        match path.extension().is_some_and(|extension| extension == "csv") {
            true => self.read_csv(path, &text),
            false => self.read_dump(source, &text),
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
    fn read_csv(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let name = path.display();
        let headers = reader
            .headers()
            .map_err(|error| format!("{name}: {error}"))?
            .clone();
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().to_lowercase());
        let known = stem.filter(|stem| KNOWN.contains(&stem.as_str()));
        let Some(table) = known.or_else(|| table_of(&headers).map(str::to_owned)) else {
            let known = KNOWN.join(", ");
            return Err(format!(
                "{name}: its columns are of no known table; name the file after one: {known}"
            ));
        };
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
        let dumped = sql_dump::read(text).map_err(|reason| format!("{name}: {reason}"))?;
        for (table, line, fields) in dumped {
            if KNOWN.contains(&table.as_str()) {
                let place = format!("{name}: line {line}");
                self.0
                    .entry(table)
                    .or_default()
                    .push(TableRow { place, fields });
            }
        }
        Ok(())
    }
}

fn table_of(headers: &csv::StringRecord) -> Option<&'static str> {
    let has = |column: &str| headers.iter().any(|header| header == column);
    match () {
        () if has("username") && (has("ha1") || has("domain")) => Some("subscriber"),
        () if has("auth_type") || has("md5_cred") => Some("ps_auths"),
        () if has("aors") && has("id") => Some("ps_endpoints"),
        () if has("max_contacts") && has("id") => Some("ps_aors"),
        () => None,
    }
}

const SQLITE: &[u8] = b"SQLite format 3\0";
/// The tables that an import looks for.
pub(super) const KNOWN: [&str; 6] = [
    "subscriber",
    "dbaliases",
    "location",
    "ps_auths",
    "ps_endpoints",
    "ps_aors",
];
