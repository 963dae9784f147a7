use super::{AccountLocation, AccountStore, Creation, Failure, confirm, say};
use crate::json;
use busyhour_store::{Account, AccountEntry};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::HashSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Instant,
};

/// Add or replace many accounts, from a file
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Import {
    /// A CSV or JSON file, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The format of the file [default: by the ending of its name]
    #[arg(long, value_enum)]
    format: Option<ImportFormat>,

    /// Check the file, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    creation: Creation,

    #[command(flatten)]
    place: AccountLocation,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ImportFormat {
    /// A header line, and a line a device
    Csv,
    /// An array of objects
    Json,
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let begun = Instant::now();
        let name = self.file.display().to_string();
        let format = self.format()?;
        let text =
            read(&self.file).map_err(|error| Failure::running(format!("{name}: {error}")))?;
        let entries = match format {
            ImportFormat::Csv => from_csv(&text),
            ImportFormat::Json => from_json(&text),
        };
        let entries = entries.map_err(|reason| Failure::usage(format!("{name}: {reason}")))?;
        let mut target = self.place.open_or_create(&self.creation)?;
        let accounts = check(&name, entries, &|entry| target.checked(entry))?;
        if !self.dry_run {
            let bar = bar(accounts.len() as u64);
            for group in accounts.chunks(GROUP_LEN) {
                // A running server can write between two groups.
                target.admin.put(group).map_err(Failure::running)?;
                bar.inc(group.len() as u64);
            }
            bar.finish_and_clear();
        }
        self.report(accounts.len(), &target, begun)
    }

    fn format(&self) -> Result<ImportFormat, Failure> {
        let extension = self
            .file
            .extension()
            .and_then(|extension| extension.to_str());
        match (self.format, extension) {
            (Some(format), _) => Ok(format),
            (None, Some("csv")) => Ok(ImportFormat::Csv),
            (None, Some("json")) => Ok(ImportFormat::Json),
            _ => Err(Failure::usage(UNKNOWN_FORMAT)),
        }
    }

    fn report(&self, count: usize, target: &AccountStore, begun: Instant) -> Result<(), Failure> {
        let seconds = begun.elapsed().as_secs_f64();
        let AccountStore { realm, store, .. } = target;
        match (self.json, self.dry_run) {
            (true, dry_run) => say(serde_json::json!({
                "devices": count, "realm": realm, "store": store,
                "dry_run": dry_run, "seconds": seconds,
            })),
            (false, true) => confirm(format_args!(
                "{count} devices are valid; nothing was changed in database {store}"
            )),
            (false, false) => confirm(format_args!(
                "{count} devices may register in the realm {realm} (database {store}, {seconds:.1} s)"
            )),
        }
    }
}

/// A device of a file, and the line or element where the device is.
struct Placed {
    place: String,
    /// The account, or what is wrong with its form.
    entry: Result<AccountEntry, String>,
}

/// Returns all accounts, or all mistakes: one on each line, up to a limit.
fn check(
    name: &str,
    entries: Vec<Placed>,
    placing: &dyn Fn(AccountEntry) -> Result<Account, String>,
) -> Result<Vec<Account>, Failure> {
    let (mut accounts, mut mistakes) = (Vec::with_capacity(entries.len()), Vec::new());
    let mut seen = HashSet::new();
    for Placed { place, entry } in entries {
        match entry.and_then(placing) {
            Ok(Account {
                username, realm, ..
            }) if !seen.insert((username.clone(), realm.clone())) => {
                mistakes.push(format!("{name}: {place}: user `{username}` is given twice"));
            }
            Ok(account) => accounts.push(account),
            Err(reason) => mistakes.push(format!("{name}: {place}: {reason}")),
        }
    }
    let more = mistakes.len().saturating_sub(MISTAKES_SHOWN);
    mistakes.truncate(MISTAKES_SHOWN);
    if more > 0 {
        mistakes.push(format!("{name}: and {more} more"));
    }
    match mistakes.is_empty() {
        true => Ok(accounts),
        false => Err(Failure::usage(mistakes.join("\n"))),
    }
}

/// A line of a CSV file; an empty field is not given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    user: String,
    password: Option<String>,
    md5: Option<String>,
    sha256: Option<String>,
    sha512_256: Option<String>,
    iax2: Option<String>,
    max_contacts: Option<u32>,
    mailbox: Option<String>,
    hints: Option<String>,
}

fn from_csv(text: &str) -> Result<Vec<Placed>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut entries = Vec::new();
    let unknown: Vec<&str> = headers
        .iter()
        .filter(|name| !FIELDS.contains(name))
        .collect();
    if !unknown.is_empty() {
        let (unknown, known) = (unknown.join(", "), FIELDS.join(", "));
        return Err(format!(
            "line 1: unknown columns: {unknown}; there are: {known}"
        ));
    }
    if !headers.iter().any(|name| name == "user") {
        return Err("line 1: there is no column `user`".into());
    }
    for record in reader.records() {
        let number = |position: Option<&csv::Position>| position.map_or(0, csv::Position::line);
        entries.push(match record {
            Ok(record) => Placed {
                place: format!("line {}", number(record.position())),
                entry: of_record(&record, &headers),
            },
            Err(error) => Placed {
                place: format!("line {}", number(error.position())),
                entry: Err(reason(&error)),
            },
        });
    }
    Ok(entries)
}

fn of_record(
    record: &csv::StringRecord,
    headers: &csv::StringRecord,
) -> Result<AccountEntry, String> {
    let line: Line = record
        .deserialize(Some(headers))
        .map_err(|error| reason(&error))?;
    line.entry()
}

impl Line {
    fn entry(self) -> Result<AccountEntry, String> {
        let iax2 = match self.iax2.as_deref().unwrap_or("no") {
            "yes" | "true" | "1" => true,
            "no" | "false" | "0" | "" => false,
            other => return Err(format!("iax2: `{other}` is not allowed; give yes or no")),
        };
        let hints = self.hints.unwrap_or_default();
        Ok(AccountEntry {
            user: self.user,
            password: self.password,
            md5: self.md5,
            sha256: self.sha256,
            sha512_256: self.sha512_256,
            iax2,
            max_contacts: self.max_contacts,
            mailbox: self.mailbox,
            hints: hints.split_ascii_whitespace().map(str::to_owned).collect(),
            ..AccountEntry::default()
        })
    }
}

/// What is wrong with a field. The value is left out, since it may be a password.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            // `max_contacts` is the only number in a line.
            Some(_) => "max_contacts: give a whole number".to_owned(),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} fields, but the first line names {expected_len}"),
        _ => error.to_string(),
    }
}

fn from_json(text: &str) -> Result<Vec<Placed>, String> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|error| json::mistake_at(&error))?;
    let mut lines = Lines::new(text);
    let placed = |element: &RawValue| {
        let first = lines.line_of(element.get());
        let parsed = serde_json::from_str(element.get());
        let place = |error: &serde_json::Error| first + error.line().saturating_sub(1);
        Placed {
            place: format!("line {}", parsed.as_ref().map_or_else(place, |_| first)),
            entry: parsed.map_err(|error| json::mistake(&error)),
        }
    };
    Ok(elements.into_iter().map(placed).collect())
}

/// The lines of a text. The pieces must be looked up in their order.
struct Lines<'t> {
    text: &'t str,
    offset: usize,
    line: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
        }
    }

    /// The line on which `piece` begins, counted from 1.
    fn line_of(&mut self, piece: &str) -> usize {
        let offset = piece.as_ptr().addr() - self.text.as_ptr().addr();
        let between = self.text.get(self.offset..offset).unwrap_or_default();
        self.line += between.matches('\n').count();
        self.offset = offset;
        self.line
    }
}

fn read(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(file)
}

/// A progress bar; silent unless standard error is a terminal.
fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The columns of a CSV file.
const FIELDS: [&str; 9] = [
    "user",
    "password",
    "md5",
    "sha256",
    "sha512_256",
    "iax2",
    "max_contacts",
    "mailbox",
    "hints",
];
const TEMPLATE: &str = "{elapsed_precise} {wide_bar} {pos}/{len} devices, {per_sec}";
const GROUP_LEN: usize = 1000;
const MISTAKES_SHOWN: usize = 20;
const UNKNOWN_FORMAT: &str =
    "the format of the file is unknown; give --format csv or --format json";
const AFTER_HELP: &str = "\
A CSV file has a header line with some of: user, password, md5, sha256, sha512_256,
iax2 (yes or no), max_contacts, mailbox, hints (parted by spaces):

  user,password,mailbox,hints
  alice,something long,100,200 201

A JSON file is an array of objects with the same names; hints is an array:

  [{\"user\": \"alice\", \"password\": \"something long\", \"hints\": [\"200\", \"201\"]}]

The whole file is checked first; one with mistakes changes nothing.

Exit codes: 0 done, 1 failed, 2 mistakes in the file or wrong usage.";

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(checked: Result<Vec<Account>, Failure>) -> String {
        format!("{:?}", checked.unwrap_err())
    }

    #[test]
    fn csv_and_json_give_the_same_accounts() {
        let csv = "user,password,iax2,max_contacts,mailbox,hints\n\
            alice,\"a,b\",yes,2,100,200 201\nbob,c,,,,\n";
        let json = r#"[{"user": "alice", "password": "a,b", "iax2": true, "max_contacts": 2,
            "mailbox": "100", "hints": ["200", "201"]}, {"user": "bob", "password": "c"}]"#;
        let of_csv = check("f", from_csv(csv).unwrap(), &|entry: AccountEntry| {
            entry.check("r")
        })
        .unwrap();
        let of_json = check("f", from_json(json).unwrap(), &|entry: AccountEntry| {
            entry.check("r")
        })
        .unwrap();
        assert_eq!(of_csv, of_json);
        assert_eq!(of_csv[0].hints, ["200", "201"]);
    }

    #[test]
    fn errors_name_their_line_and_never_a_secret() {
        let entries = from_csv("user,password\na b,x\nc,\nd,y\nd,y\n").unwrap();
        let failure = failure(check("f.csv", entries, &|entry: AccountEntry| {
            entry.check("r")
        }));
        assert!(
            failure.contains("f.csv: line 2: `a b` is not a user name"),
            "{failure}"
        );
        assert!(
            failure.contains("f.csv: line 3: password: give 1 to")
                || failure.contains("f.csv: line 3: give a password"),
            "{failure}"
        );
        assert!(
            failure.contains("f.csv: line 5: user `d` is given twice"),
            "{failure}"
        );
        let unknown = from_csv("user,pasword\na,secret\n").err().unwrap();
        assert!(
            unknown.contains("pasword") && !unknown.contains("secret"),
            "{unknown}"
        );
    }

    #[test]
    fn a_long_list_of_errors_is_shortened() {
        let text = "user,password\n".to_owned() + &"a b,x\n".repeat(30);
        let failure = failure(check(
            "f",
            from_csv(&text).unwrap(),
            &|entry: AccountEntry| entry.check("r"),
        ));
        assert!(failure.contains("f: and 10 more"), "{failure}");
    }
}
