//! What is imported: a file, a folder, a database or standard input, and what it has.

use super::{
    ImportOrigin,
    own_form::{self, ImportFormat},
    tables,
};
use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// A source that was named, and was read if it is a text.
pub(super) struct Source {
    /// As it was named.
    name: String,
    pub(super) kind: SourceKind,
    /// Empty for a folder and for a database.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// Accounts in a form of ours.
    Own(ImportFormat),
    /// Rows of one table of another server.
    TableCsv,
    /// A dump of its database.
    Dump,
    /// Its database.
    Sqlite,
    /// The same.
    Postgres,
    /// Asterisk's `pjsip.conf`.
    PjsipConf,
    /// A file of FreeSWITCH.
    Xml,
    /// A folder of such files.
    XmlFolder,
}

impl Source {
    /// Reads a source once. What it has is found out from its name, then from its content.
    pub(super) fn open(
        name: &str,
        from: Option<ImportOrigin>,
        format: Option<ImportFormat>,
    ) -> Result<Self, String> {
        let of_kind = |kind, text| Self {
            name: name.to_owned(),
            kind,
            text,
        };
        if name.starts_with("postgres://") || name.starts_with("postgresql://") {
            return Ok(of_kind(SourceKind::Postgres, String::new()));
        }
        if Path::new(name).is_dir() {
            return Ok(of_kind(SourceKind::XmlFolder, String::new()));
        }
        let shown = shown(name);
        let bytes = bytes_of(name).map_err(|error| format!("{shown}: {error}"))?;
        if bytes.starts_with(SQLITE) {
            return match name {
                STANDARD_INPUT => Err(format!("{shown}: {SQLITE_NEEDS_A_FILE}")),
                _ => Ok(of_kind(SourceKind::Sqlite, String::new())),
            };
        }
        let text = String::from_utf8(bytes).map_err(|_| format!("{shown}: it is no UTF-8 text"))?;
        let text = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) => text.to_owned(),
            None => text,
        };
        let kind = kind_of(Path::new(name), &text, from, format)
            .ok_or_else(|| format!("{shown}: {UNKNOWN_FORMAT}"))?;
        Ok(of_kind(kind, text))
    }

    /// As errors name it.
    pub(super) fn shown(&self) -> &str {
        shown(&self.name)
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(&self.name)
    }

    /// The URL of a PostgreSQL database.
    pub(super) fn url(&self) -> &str {
        &self.name
    }

    /// The name of a file without its ending, in lower case.
    pub(super) fn stem(&self) -> String {
        stem(self.path())
    }
}

impl SourceKind {
    /// Whose it is; `None` for tables, whose names say it.
    pub(super) fn origin(self) -> Option<ImportOrigin> {
        match self {
            Self::Own(_) => Some(ImportOrigin::Busyhour),
            Self::PjsipConf => Some(ImportOrigin::Asterisk),
            Self::Xml | Self::XmlFolder => Some(ImportOrigin::Freeswitch),
            Self::TableCsv | Self::Dump | Self::Sqlite | Self::Postgres => None,
        }
    }
}

fn kind_of(
    path: &Path,
    text: &str,
    from: Option<ImportOrigin>,
    format: Option<ImportFormat>,
) -> Option<SourceKind> {
    let by_content = || kind_of_content(path, text);
    match (from, format) {
        (Some(ImportOrigin::Freeswitch), _) => Some(SourceKind::Xml),
        (Some(ImportOrigin::Busyhour) | None, Some(format)) => Some(SourceKind::Own(format)),
        (Some(ImportOrigin::Busyhour), None) => {
            let by_content = by_content().filter(|kind| matches!(kind, SourceKind::Own(_)));
            own_format_of_name(path).map(SourceKind::Own).or(by_content)
        }
        (Some(origin), _) => Some(match kind_of_name(path, text).or_else(by_content) {
            Some(SourceKind::PjsipConf) if origin == ImportOrigin::Asterisk => {
                SourceKind::PjsipConf
            }
            Some(SourceKind::TableCsv | SourceKind::Own(ImportFormat::Csv)) => SourceKind::TableCsv,
            _ => SourceKind::Dump,
        }),
        (None, None) => kind_of_name(path, text).or_else(by_content),
    }
}

fn kind_of_name(path: &Path, text: &str) -> Option<SourceKind> {
    match path.extension()?.to_str()? {
        "conf" => Some(SourceKind::PjsipConf),
        "xml" => Some(SourceKind::Xml),
        "sql" => Some(SourceKind::Dump),
        "csv" if is_table(path, text) => Some(SourceKind::TableCsv),
        _ => own_format_of_name(path).map(SourceKind::Own),
    }
}

fn own_format_of_name(path: &Path) -> Option<ImportFormat> {
    match path.extension()?.to_str()? {
        "csv" => Some(ImportFormat::Csv),
        "json" => Some(ImportFormat::Json),
        _ => None,
    }
}

fn kind_of_content(path: &Path, text: &str) -> Option<SourceKind> {
    let lines = text.lines().map(str::trim);
    let first = lines
        .clone()
        .find(|line| !line.is_empty() && !line.starts_with(';'))?;
    let is_config = || first.starts_with("#include") || first.starts_with("#tryinclude");
    let is_array = || {
        let inside = text.trim_start().strip_prefix('[').map(str::trim_start);
        inside.is_some_and(|inside| inside.starts_with(['{', ']']))
    };
    let has_statement = || {
        let begins = |line: &str| {
            let line = line.get(..12).unwrap_or(line).to_ascii_uppercase();
            STATEMENTS
                .iter()
                .any(|statement| line.starts_with(statement))
        };
        lines.clone().any(begins)
    };
    match () {
        () if first.starts_with('<') => Some(SourceKind::Xml),
        () if is_array() => Some(SourceKind::Own(ImportFormat::Json)),
        () if first.starts_with('[') || is_config() => Some(SourceKind::PjsipConf),
        () if is_table(path, text) => Some(SourceKind::TableCsv),
        () if own_form::is_csv(text) => Some(SourceKind::Own(ImportFormat::Csv)),
        () if has_statement() => Some(SourceKind::Dump),
        () => None,
    }
}

fn is_table(path: &Path, text: &str) -> bool {
    !own_form::is_csv(text) && tables::table_of(&stem(path), text).is_some()
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().to_lowercase()
}

fn shown(name: &str) -> &str {
    match name {
        STANDARD_INPUT => "standard input",
        name => name,
    }
}

fn bytes_of(name: &str) -> io::Result<Vec<u8>> {
    if name != STANDARD_INPUT {
        return fs::read(name);
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

const STANDARD_INPUT: &str = "-";
const SQLITE: &[u8] = b"SQLite format 3\0";
/// Spreadsheets write it.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// With what lines of a dump begin.
const STATEMENTS: [&str; 4] = ["INSERT INTO ", "REPLACE INTO", "CREATE TABLE", "COPY "];
const SQLITE_NEEDS_A_FILE: &str = "an SQLite database is read from its file: name that";
const UNKNOWN_FORMAT: &str =
    "the format of the file is unknown; give --format csv or --format json, or --from";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_is_shows_in_its_content() {
        let csv = SourceKind::Own(ImportFormat::Csv);
        let json = SourceKind::Own(ImportFormat::Json);
        for (text, expected) in [
            ("user,password\na,b\n", Some(csv)),
            ("password,user\n", Some(csv)),
            ("username,domain,ha1\n", Some(SourceKind::TableCsv)),
            ("id,auth_type\n", Some(SourceKind::TableCsv)),
            (" [\n {\"user\": \"a\"}]", Some(json)),
            ("[]", Some(json)),
            (
                "; a comment\n\n[alice](phone)\n",
                Some(SourceKind::PjsipConf),
            ),
            ("#include a.conf\n", Some(SourceKind::PjsipConf)),
            ("\n<include/>", Some(SourceKind::Xml)),
            (
                "-- dump\nCOPY public.subscriber (id) FROM stdin;\n",
                Some(SourceKind::Dump),
            ),
            ("insert into t values (1);", Some(SourceKind::Dump)),
            ("é é é é é é é é é é\nnothing known", None),
            ("", None),
        ] {
            assert_eq!(
                kind_of(Path::new("-"), text, None, None),
                expected,
                "{text}"
            );
        }
        let of_name = |name: &str, text: &str| kind_of(Path::new(name), text, None, None);
        assert_eq!(of_name("location.csv", "a,b\n"), Some(SourceKind::TableCsv));
        assert_eq!(of_name("devices.csv", "usr,password\n"), Some(csv));
        assert_eq!(of_name("x.sql", ""), Some(SourceKind::Dump));
    }
}
