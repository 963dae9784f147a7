//! Rows in a dump of a database, as mysqldump, pg_dump and `.dump` of sqlite3 write it: INSERT
//! with or without columns, and COPY.

use busyhour_store::ForeignRow;
use std::collections::HashMap;

/// The rows of the tables that are `wanted`, each with its table, in lower case, and its line. Rows
/// of others are not kept.
pub(super) fn read(
    text: &str,
    wanted: &[&str],
) -> Result<Vec<(String, usize, ForeignRow)>, String> {
    let mut dump = Dump {
        rest: text,
        line: 1,
        wanted,
        escapes: None,
        columns: HashMap::new(),
        rows: Vec::new(),
    };
    while dump.statement()? {}
    Ok(dump.rows)
}

struct Dump<'t> {
    rest: &'t str,
    line: usize,
    wanted: &'t [&'t str],
    /// Whether a backslash in a text escapes the next character, as it does in MySQL; `None` until
    /// something tells which database wrote the dump.
    escapes: Option<bool>,
    /// Of tables whose CREATE TABLE was seen.
    columns: HashMap<String, Vec<String>>,
    rows: Vec<(String, usize, ForeignRow)>,
}

impl Dump<'_> {
    /// Reads a statement; `false` at the end.
    fn statement(&mut self) -> Result<bool, String> {
        self.blank();
        if self.rest.is_empty() {
            return Ok(false);
        }
        if self.rest.starts_with('\\') {
            // A command of psql, as `\restrict` of pg_dump, ends with its line.
            self.next_line();
            return Ok(true);
        }
        let word = self.word().to_ascii_uppercase();
        match word.as_str() {
            "INSERT" | "REPLACE" => self.insert()?,
            "COPY" => self.copy()?,
            "CREATE" => self.create()?,
            "PRAGMA" => {
                self.escapes.get_or_insert(false);
                self.skip_statement()?;
            }
            _ => self.skip_statement()?,
        }
        Ok(true)
    }

    fn is_wanted(&self, table: &str) -> bool {
        self.wanted.contains(&table)
    }

    fn insert(&mut self) -> Result<(), String> {
        while !self.keyword("INTO") {
            if self.word().is_empty() {
                return Err(self.mistake("INSERT without INTO"));
            }
        }
        let table = self.name();
        if !self.is_wanted(&table) {
            return self.skip_statement();
        }
        let columns = match self.symbol('(') {
            true => self.names()?,
            false => self.columns.get(&table).cloned().unwrap_or_default(),
        };
        if !self.keyword("VALUES") {
            return self.skip_statement();
        }
        loop {
            self.blank();
            let line = self.line;
            if !self.symbol('(') {
                return Err(self.mistake("a row must begin with `(`"));
            }
            let values = self.values()?;
            if columns.is_empty() {
                let reason = format!("the columns of table `{table}` are not known");
                return Err(self.mistake(&reason));
            }
            self.take(&table, line, &columns, values);
            if !self.symbol(',') {
                return self.skip_statement();
            }
        }
    }

    fn take(&mut self, table: &str, line: usize, columns: &[String], values: Vec<Option<String>>) {
        let given = columns.iter().zip(values);
        let fields = given.filter_map(|(column, value)| Some((column.clone(), value?)));
        self.rows.push((table.to_owned(), line, fields.collect()));
    }

    /// Rows follow, one a line, until a line `\.`.
    fn copy(&mut self) -> Result<(), String> {
        self.escapes.get_or_insert(false);
        let table = self.name();
        if !self.symbol('(') {
            return self.skip_statement();
        }
        let columns = self.names()?;
        self.skip_statement()?;
        self.next_line();
        loop {
            let line = self.line;
            let row = self.rest.lines().next().unwrap_or("\\.");
            self.next_line();
            if row == "\\." {
                return Ok(());
            }
            if self.is_wanted(&table) {
                let values = row.split('\t').map(copied).collect();
                self.take(&table, line, &columns, values);
            }
        }
    }

    fn create(&mut self) -> Result<(), String> {
        if !self.keyword("TABLE") {
            return self.skip_statement();
        }
        if self.keyword("IF") {
            let (_, _) = (self.keyword("NOT"), self.keyword("EXISTS"));
        }
        let table = self.name();
        if !self.is_wanted(&table) || !self.symbol('(') {
            return self.skip_statement();
        }
        let mut columns = Vec::new();
        loop {
            let name = self.name();
            let is_column = !CONSTRAINTS.contains(&name.to_ascii_uppercase().as_str());
            columns.extend(is_column.then_some(name));
            if !self.skip_definition()? {
                break;
            }
        }
        self.columns.insert(table, columns);
        self.skip_statement()
    }

    /// Behind a column of a definition; `false` behind the last one.
    fn skip_definition(&mut self) -> Result<bool, String> {
        let mut depth = 0;
        loop {
            self.blank();
            match self.rest.chars().next() {
                None | Some(';') => return Ok(false),
                Some(quote @ ('\'' | '"' | '`')) => _ = self.quoted(quote)?,
                Some(',') if depth == 0 => {
                    self.advance(1);
                    return Ok(true);
                }
                Some(')') if depth == 0 => {
                    self.advance(1);
                    return Ok(false);
                }
                Some(c) => {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    self.advance(c.len_utf8());
                }
            }
        }
    }

    fn names(&mut self) -> Result<Vec<String>, String> {
        let mut names = vec![self.name()];
        while self.symbol(',') {
            names.push(self.name());
        }
        match self.symbol(')') {
            true => Ok(names),
            false => Err(self.mistake("a list of columns must end with `)`")),
        }
    }

    fn values(&mut self) -> Result<Vec<Option<String>>, String> {
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            match (self.symbol(','), self.symbol(')')) {
                (true, _) => {}
                (false, true) => return Ok(values),
                (false, false) => return Err(self.mistake("a value must end with `,` or `)`")),
            }
        }
    }

    fn value(&mut self) -> Result<Option<String>, String> {
        self.blank();
        if self.rest.starts_with(['E', 'e']) && self.rest[1..].starts_with('\'') {
            self.advance(1);
            let escapes = self.escapes.replace(true);
            let text = self.quoted('\'');
            self.escapes = escapes;
            return text.map(Some);
        }
        if self.rest.starts_with('\'') {
            return self.quoted('\'').map(Some);
        }
        let mut depth = 0;
        let is_end = |c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth < 0 || depth == 0 && c == ','
        };
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let text = self.rest[..end].trim().to_owned();
        self.advance(end);
        Ok((!text.eq_ignore_ascii_case("NULL")).then_some(text))
    }

    /// A text in quotes, which are doubled within it.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let begin = self.line;
        self.advance(1);
        let mut text = String::new();
        loop {
            let Some(c) = self.rest.chars().next() else {
                return Err(format!("line {begin}: a text has no end"));
            };
            self.advance(c.len_utf8());
            if c == quote {
                if !self.rest.starts_with(quote) {
                    return Ok(text);
                }
                self.advance(1);
                text.push(quote);
            } else if c == '\\' && quote == '\'' && self.escapes == Some(true) {
                let next = self.rest.chars().next().unwrap_or('\\');
                self.advance(next.len_utf8().min(self.rest.len()));
                text.push(unescaped(next));
            } else {
                text.push(c);
            }
        }
    }

    /// The last part of a name that may have a schema before it, in lower case.
    fn name(&mut self) -> String {
        loop {
            self.blank();
            let name = match self.rest.chars().next() {
                Some(quote @ ('"' | '`')) => {
                    if quote == '`' {
                        self.escapes.get_or_insert(true);
                    }
                    self.quoted(quote).unwrap_or_default()
                }
                _ => self.word().to_owned(),
            };
            if !self.rest.starts_with('.') {
                return name.to_lowercase();
            }
            self.advance(1);
        }
    }

    /// Takes a word.
    fn word(&mut self) -> &str {
        self.blank();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = &self.rest[end..];
        word
    }

    /// Takes this word, if it is the next.
    fn keyword(&mut self, wanted: &str) -> bool {
        self.blank();
        let found = self.rest.get(..wanted.len());
        let is_it = found.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        if is_it {
            self.advance(wanted.len());
        }
        is_it
    }

    fn symbol(&mut self, wanted: char) -> bool {
        self.blank();
        let is_it = self.rest.starts_with(wanted);
        if is_it {
            self.advance(wanted.len_utf8());
        }
        is_it
    }

    fn skip_statement(&mut self) -> Result<(), String> {
        loop {
            self.blank();
            match self.rest.chars().next() {
                None => return Ok(()),
                Some(';') => {
                    self.advance(1);
                    return Ok(());
                }
                Some(quote @ ('\'' | '"' | '`')) => _ = self.quoted(quote)?,
                Some('$') => self.skip_dollars()?,
                Some(c) => self.advance(c.len_utf8()),
            }
        }
    }

    /// PostgreSQL's `$tag$ … $tag$`, as in the body of a function.
    fn skip_dollars(&mut self) -> Result<(), String> {
        let tag = self.rest[1..].split_once('$').map(|(tag, _)| tag);
        let is_tag = |tag: &&str| tag.chars().all(|c| c.is_alphanumeric() || c == '_');
        let Some(tag) = tag.filter(is_tag) else {
            self.advance(1);
            return Ok(());
        };
        let delimiter = &self.rest[..tag.len() + 2];
        let body = &self.rest[delimiter.len()..];
        let Some(end) = body.find(delimiter) else {
            return Err(self.mistake("a text has no end"));
        };
        self.advance(end + 2 * delimiter.len());
        Ok(())
    }

    /// Skips white space and comments, some of which tell who wrote the dump.
    fn blank(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let len = self.rest.len() - trimmed.len();
            self.advance(len);
            for (comment, escapes) in WRITERS {
                if self.rest.starts_with(comment) {
                    self.escapes.get_or_insert(escapes);
                }
            }
            if self.rest.starts_with("--") || self.rest.starts_with('#') {
                self.next_line();
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").map_or(self.rest.len(), |end| end + 2);
                self.advance(end);
            } else {
                return;
            }
        }
    }

    fn next_line(&mut self) {
        let end = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
        self.advance(end);
    }

    fn advance(&mut self, len: usize) {
        self.line += self.rest[..len].matches('\n').count();
        self.rest = &self.rest[len..];
    }

    fn mistake(&self, reason: &str) -> String {
        format!("line {}: {reason}", self.line)
    }
}

/// A field of COPY.
fn copied(field: &str) -> Option<String> {
    if field == "\\N" {
        return None;
    }
    let mut text = String::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => unescaped(chars.next().unwrap_or('\\')),
            c => c,
        });
    }
    Some(text)
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        c => c,
    }
}

/// Comments at the beginning of dumps, and whether a backslash escapes there. `/*!` and `/*M!` are
/// statements for MySQL and MariaDB alone.
const WRITERS: [(&str, bool); 5] = [
    ("-- MySQL dump", true),
    ("-- MariaDB dump", true),
    ("/*!", true),
    ("/*M!", true),
    ("-- PostgreSQL", false),
];
const CONSTRAINTS: [&str; 7] = [
    "PRIMARY",
    "KEY",
    "UNIQUE",
    "CONSTRAINT",
    "INDEX",
    "CHECK",
    "FOREIGN",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A table, the line, and the fields sorted by their columns.
    type SortedRow = (String, usize, Vec<(String, String)>);

    fn rows(text: &str) -> Vec<SortedRow> {
        let rows = read(text, &["subscriber"]).unwrap().into_iter();
        rows.map(|(table, line, fields)| {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort();
            (table, line, fields)
        })
        .collect()
    }

    fn read_t(text: &str) -> Result<Vec<(String, usize, ForeignRow)>, String> {
        read(text, &["t"])
    }

    fn field(column: &str, value: &str) -> (String, String) {
        (column.to_owned(), value.to_owned())
    }

    #[test]
    fn rows_of_each_kind_of_dump_are_read_with_their_lines() {
        let mysql = "-- MySQL dump\n/*!40101 SET x=1 */;\nCREATE TABLE `subscriber` (\n  `id` int(10) unsigned NOT NULL,\n  \
            `username` varchar(64) DEFAULT ',(',\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `a` (`username`)\n) ENGINE=InnoDB;\n\
            INSERT INTO `subscriber` VALUES (1,'o\\'b'),\n(2,NULL);\n";
        let expected = [
            (
                "subscriber".to_owned(),
                9,
                vec![field("id", "1"), field("username", "o'b")],
            ),
            ("subscriber".to_owned(), 10, vec![field("id", "2")]),
        ];
        assert_eq!(rows(mysql), expected);
        let postgres = "SET x = 'a;b';\nCOPY public.subscriber (id, username) FROM stdin;\n1\ta\\tb\n2\t\\N\n\\.\n\
            INSERT INTO public.\"subscriber\" (id, username) VALUES (3, E'c\\'d'), (4, now());\n";
        let found = rows(postgres);
        assert_eq!(
            found[0],
            (
                "subscriber".to_owned(),
                3,
                vec![field("id", "1"), field("username", "a\tb")]
            )
        );
        assert_eq!(found[1].2, [field("id", "2")]);
        assert_eq!(found[2].2, [field("id", "3"), field("username", "c'd")]);
        assert_eq!(found[3].2, [field("id", "4"), field("username", "now()")]);
        let sqlite = "PRAGMA foreign_keys=OFF;\nCREATE TABLE subscriber (\n id INTEGER PRIMARY KEY NOT NULL,\n username TEXT\n);\n\
            INSERT INTO subscriber VALUES(1,'it''s \\');";
        assert_eq!(rows(sqlite)[0].2[1], field("username", "it's \\"));
    }

    #[test]
    fn what_is_no_dump_is_said_with_its_line() {
        let unknown = read_t("\nINSERT INTO t VALUES (1);").unwrap_err();
        assert!(
            unknown.starts_with("line 2: the columns of table `t`"),
            "{unknown}"
        );
        for text in [
            "INSERT INTO t (a) VALUES ('x",
            "SELECT 'x;\nINSERT INTO t (a) VALUES (1);",
            "DO $$ it's",
        ] {
            assert!(read_t(text).unwrap_err().contains("no end"), "{text}");
        }
        assert!(read_t("INSERT INTO t (a) VALUES (1").is_err());
        assert!(read_t("INSERT").is_err());
        for text in [
            "",
            ";",
            "'",
            "\\",
            "COPY t (a) FROM stdin;\nx",
            "CREATE TABLE t (",
            "é'",
        ] {
            let _ = read_t(text);
        }
    }

    #[test]
    fn whether_a_backslash_escapes_depends_on_who_wrote_the_dump() {
        let value_in = |text: &str| {
            let rows = read_t(text).unwrap();
            rows[0].2["a"].clone()
        };
        let insert = "INSERT INTO t (a, b) VALUES ('C:\\x', 'a ` here');\n";
        for (before, expected) in [
            ("", "C:\\x"),
            (
                "PRAGMA foreign_keys=OFF;\nCREATE TABLE `t` (`a` TEXT);\n",
                "C:\\x",
            ),
            ("-- PostgreSQL database dump\n\\restrict x\n", "C:\\x"),
            ("-- MySQL dump 10.13\n", "C:x"),
            ("/*M!999999\\- enable the sandbox mode */;\n", "C:x"),
            ("CREATE TABLE `t` (`a` text);\n", "C:x"),
        ] {
            assert_eq!(value_in(&format!("{before}{insert}")), expected, "{before}");
        }
    }

    #[test]
    fn a_name_of_many_parts_is_its_last_one() {
        let many = format!("INSERT INTO {}t (a) VALUES (1);", "x.".repeat(1_000_000));
        assert_eq!(read_t(&many).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_wanted_is_skipped_whatever_it_is() {
        let text = "CREATE FUNCTION f() AS $body$ it's; $body$ LANGUAGE sql;\n\
            INSERT INTO acc VALUES (1, 'x');\nCOPY acc (id) FROM stdin;\n1\n\\.\n\
            SELECT $1;\nINSERT INTO t (a) VALUES (1);";
        let rows = read_t(text).unwrap();
        assert_eq!((rows.len(), rows[0].0.as_str(), rows[0].1), (1, "t", 7));
    }
}
