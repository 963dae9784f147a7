//! Rows of a running server, filtered, sorted and drawn.

use super::subjects::{Column, Subject};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// A row, as the server gives it.
type Row = Map<String, Value>;

#[derive(Debug, Args)]
pub(super) struct TableOptions {
    /// Sort by this column: large numbers first, text in the order of the alphabet
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,

    /// Turn the order around
    #[arg(long)]
    reverse: bool,

    /// Show only rows of which this is true: COLUMN=TEXT if the column contains the text,
    /// COLUMN>VALUE or COLUMN<VALUE for numbers and times such as 10ms
    #[arg(long, value_name = "CONDITION")]
    filter: Vec<Condition>,

    /// Show these columns, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,

    /// Show at most so many rows; 0 shows all
    #[arg(long, value_name = "ROWS", default_value_t = 50)]
    limit: usize,
}

/// A condition on the rows, such as `kind=strand` or `queued_len>10`.
#[derive(Debug, Clone, PartialEq)]
struct Condition {
    column: String,
    test: ConditionTest,
}

#[derive(Debug, Clone, PartialEq)]
enum ConditionTest {
    Contains(String),
    Above(f64),
    Below(f64),
}

impl TableOptions {
    /// Whether all columns that are named exist.
    ///
    /// # Errors
    ///
    /// The sentence for the user, with the columns there are.
    pub(super) fn check(&self, subject: &Subject) -> Result<(), String> {
        let filtered = self.filter.iter().map(|condition| &condition.column);
        let named = self.sort.iter().chain(filtered).chain(&self.columns);
        for name in named {
            if subject.column(name).is_none() {
                let names: Vec<_> = subject.columns.iter().map(Column::name).collect();
                return Err(format!(
                    "there is no column {name}; give one of {}",
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// How many rows the server has to send: as many as are shown, if it knows which; or
    /// all, to select from them here.
    pub(super) fn asked_len(&self) -> usize {
        let is_selected_here = self.sort.is_some() || self.reverse || !self.filter.is_empty();
        match self.limit {
            0 => ASKED_MAX,
            _ if is_selected_here => ASKED_MAX,
            limit => limit.min(ASKED_MAX),
        }
    }

    /// The rows to show, in their order, and how many more there are.
    pub(super) fn select(&self, subject: &Subject, mut rows: Vec<Row>) -> (Vec<Row>, usize) {
        rows.retain(|row| {
            let mut conditions = self.filter.iter();
            conditions.all(|condition| condition.holds(subject, row))
        });
        let name = self.sort.as_deref().unwrap_or(subject.sort);
        if let Some(column) = subject.column(name) {
            rows.sort_by(|one, other| {
                let (one, other) = (
                    subject.values(one, column).next(),
                    subject.values(other, column).next(),
                );
                let order = compare(one, other);
                let is_known = !is_empty(one) && !is_empty(other);
                match column.is_smallest_first && is_known {
                    true => order.reverse(),
                    false => order,
                }
            });
        }
        if self.reverse {
            rows.reverse();
        }
        let limit = if self.limit == 0 {
            usize::MAX
        } else {
            self.limit
        };
        let left_out = rows.len().saturating_sub(limit);
        rows.truncate(limit);
        (rows, left_out)
    }

    /// The table, with a last line about the rows that are not shown.
    pub(super) fn draw(&self, subject: &Subject, rows: &[Row], left_out: usize) -> String {
        if rows.is_empty() {
            return match self.filter.is_empty() {
                true => subject.none.to_owned(),
                false => "no row fulfils the conditions".to_owned(),
            };
        }
        let lines: Vec<_> = rows.iter().flat_map(|row| subject.lines(row)).collect();
        let rows = lines.as_slice();
        let mut columns: Vec<&Column> = subject.columns.iter().collect();
        if !self.columns.is_empty() {
            let named = self.columns.iter();
            columns = named.filter_map(|name| subject.column(name)).collect();
        } else {
            // A column without a value would only take room.
            columns.retain(|column| rows.iter().any(|row| column.tells(row.get(column.key))));
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|column| column.name().to_uppercase()));
        for row in rows {
            let cell = |column: &&Column| match row.get(column.key) {
                // It stands in a line above.
                None if subject.nested.is_some() => String::new(),
                value => shown(column, value),
            };
            table.add_row(columns.iter().map(cell));
        }
        for (index, column) in columns.iter().enumerate() {
            let is_number = |row: &Row| row.get(column.key).is_some_and(Value::is_number);
            if rows.iter().any(is_number)
                && let Some(column) = table.column_mut(index)
            {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let more = match left_out {
            0 => String::new(),
            count => format!("\n… and {count} more; --limit 0 shows all"),
        };
        let lines = table.to_string();
        let lines: Vec<_> = lines.lines().map(str::trim_end).collect();
        lines.join("\n") + &more
    }
}

impl Condition {
    fn holds(&self, subject: &Subject, row: &Row) -> bool {
        let column = subject.column(&self.column);
        let mut values = column
            .into_iter()
            .flat_map(|column| subject.values(row, column));
        let is_number =
            |test: &dyn Fn(f64) -> bool, value: &Value| value.as_f64().is_some_and(test);
        match &self.test {
            ConditionTest::Contains(text) => {
                let text = text.to_lowercase();
                values.any(|value| plain(value).to_lowercase().contains(&text))
            }
            ConditionTest::Above(least) => values.any(|it| is_number(&|it| it > *least, it)),
            ConditionTest::Below(most) => values.any(|it| is_number(&|it| it < *most, it)),
        }
    }
}

impl Subject {
    /// What a row has in a column: one value, or one of each entry of its list.
    fn values<'r>(&self, row: &'r Row, column: &Column) -> impl Iterator<Item = &'r Value> {
        let key = column.key;
        let entries = self.nested.and_then(|list| row.get(list)?.as_array());
        let nested = entries.into_iter().flatten();
        row.get(key)
            .into_iter()
            .chain(nested.filter_map(move |entry| entry.get(key)))
    }

    /// The lines of a row: it has what it has itself in the first one.
    fn lines(&self, row: &Row) -> Vec<Row> {
        let Some((list, Some(Value::Array(entries)))) = self.nested.map(|it| (it, row.get(it)))
        else {
            return vec![row.clone()];
        };
        let mut lines: Vec<_> = entries
            .iter()
            .filter_map(Value::as_object)
            .cloned()
            .collect();
        if lines.is_empty() {
            lines.push(Row::new());
        }
        let own = row.iter().filter(|(key, _)| *key != list);
        lines[0].extend(own.map(|(key, value)| (key.clone(), value.clone())));
        lines
    }
}

impl Column {
    /// Whether the value is one for which the column is shown.
    fn tells(&self, value: Option<&Value>) -> bool {
        let is_zero = value.and_then(Value::as_f64) == Some(0.0);
        !(is_empty(value) || self.hides_zero && is_zero)
    }
}

impl std::str::FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = "give COLUMN=TEXT, COLUMN>VALUE or COLUMN<VALUE";
        let place = text.find(['=', '>', '<']).ok_or(how)?;
        let (column, rest) = text.split_at(place);
        let (sign, value) = rest.split_at(1);
        let number = || {
            let time = || humantime::parse_duration(value).ok();
            let nanos = || time().map(|time| time.as_nanos() as f64);
            let plain = value.trim().parse().ok();
            plain
                .or_else(nanos)
                .ok_or_else(|| format!("{value:?} is no number and no time such as 10ms"))
        };
        let test = match sign {
            "=" => ConditionTest::Contains(value.trim().to_owned()),
            ">" => ConditionTest::Above(number()?),
            _ => ConditionTest::Below(number()?),
        };
        match column.trim() {
            "" => Err(how.into()),
            column => Ok(Self {
                column: column.to_owned(),
                test,
            }),
        }
    }
}

/// Large numbers first, then text in the order of the alphabet, then what is not known.
fn compare(one: Option<&Value>, other: Option<&Value>) -> Ordering {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            let (one, other) = (one.as_f64(), other.as_f64());
            other.partial_cmp(&one).unwrap_or(Ordering::Equal)
        }
        (one, other) if is_empty(one) || is_empty(other) => is_empty(one).cmp(&is_empty(other)),
        (Some(one), Some(other)) => plain(one).cmp(&plain(other)),
        _ => Ordering::Equal,
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The value with its unit, as a person reads it.
fn shown(column: &Column, value: Option<&Value>) -> String {
    let Some(value) = value.filter(|_| !is_empty(value)) else {
        return "-".into();
    };
    match (value, value.as_f64()) {
        (Value::Bool(true), _) => "yes".into(),
        (Value::Bool(false), _) => "no".into(),
        (_, Some(0.0)) => "0".into(),
        (_, Some(number)) if column.key.ends_with("_at_ns") => {
            let at = jiff::Timestamp::from_millisecond((number / 1e6) as i64);
            at.map_or(plain(value), |at| format!("{at:.3}"))
        }
        (_, Some(number)) if column.key.contains("_ns") => duration(number),
        (_, Some(number)) if column.key.ends_with("_bytes") => bytes(number),
        (_, Some(number)) if column.key.ends_with("_seconds") && column.key.contains("unix") => {
            let at = jiff::Timestamp::from_second(number as i64);
            at.map_or(plain(value), |at| at.to_string())
        }
        (_, Some(number)) if column.key.ends_with("_seconds") => format!("{number} s"),
        _ => plain(value).chars().map(printable).collect(),
    }
}

/// Clients choose some texts: what a terminal would obey is not for them to send.
fn printable(one: char) -> char {
    match one.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => one,
    }
}

fn duration(nanos: f64) -> String {
    match nanos {
        under if under < 1e3 => format!("{nanos:.0} ns"),
        under if under < 1e6 => format!("{:.1} µs", nanos / 1e3),
        under if under < 1e9 => format!("{:.1} ms", nanos / 1e6),
        under if under < 120e9 => format!("{:.1} s", nanos / 1e9),
        under if under < 7200e9 => format!("{:.0} min", nanos / 60e9),
        _ => format!("{:.0} h", nanos / 3600e9),
    }
}

fn bytes(count: f64) -> String {
    match count {
        under if under < 1024.0 => format!("{count:.0} B"),
        under if under < 1024.0 * 1024.0 => format!("{:.1} KiB", count / 1024.0),
        _ => format!("{:.1} MiB", count / (1024.0 * 1024.0)),
    }
}

/// The longest list that the server sends.
const ASKED_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::show::subjects::{PEERS, QUEUES, TENANTS, TIMERS};
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        table: TableOptions,
    }

    fn options(words: &[&str]) -> TableOptions {
        let words = ["show"].iter().chain(words);
        CommandLine::try_parse_from(words).unwrap().table
    }

    fn queues() -> Vec<Row> {
        let rows = json!([
            { "kind": "pool", "name": "bh", "queued_len": 3, "oldest_waiting_ns": 1_500_000 },
            { "kind": "strand", "name": "17", "queued_len": 40, "oldest_waiting_ns": 20_000_000 },
            { "kind": "strand", "name": "4", "queued_len": 0, "oldest_waiting_ns": 0 },
        ]);
        serde_json::from_value(rows).unwrap()
    }

    fn names(options: &TableOptions) -> Vec<String> {
        let (rows, _) = options.select(&QUEUES, queues());
        rows.iter().map(|row| plain(&row["name"])).collect()
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        assert_eq!(names(&options(&[])), ["17", "bh", "4"]);
        assert_eq!(names(&options(&["--reverse"])), ["4", "bh", "17"]);
        assert_eq!(names(&options(&["--sort", "kind"])), ["bh", "17", "4"]);
        assert_eq!(names(&options(&["--filter", "kind=STRAND"])), ["17", "4"]);
        assert_eq!(names(&options(&["--filter", "queued_len>2"])), ["17", "bh"]);
        let both = [
            "--filter",
            "oldest_waiting>1ms",
            "--filter",
            "oldest_waiting<10ms",
        ];
        assert_eq!(names(&options(&both)), ["bh"]);
    }

    /// What a peer has done stands in its line, and its other addresses beneath it.
    #[test]
    fn the_sums_of_a_peer_stand_in_one_line() {
        let address = |address: &str, state: &str| json!({ "address": address, "state": state });
        let rows = json!([
            { "name": "pbx", "calls_to": 7, "addresses": [address("192.0.2.12", "up")] },
            {
                "name": "gateway", "calls_to": 40,
                "addresses": [address("192.0.2.10", "up"), address("192.0.2.11", "down")]
            },
        ]);
        let rows: Vec<Row> = serde_json::from_value(rows).unwrap();
        let drawn = |words: &[&str]| {
            let options = options(words);
            let (rows, _) = options.select(&PEERS, rows.clone());
            let text = options.draw(&PEERS, &rows, 0);
            let lines = text.lines().map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                words.join(" ")
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(
            drawn(&[]),
            [
                "NAME ADDRESS STATE CALLS_TO",
                "gateway 192.0.2.10 up 40",
                "192.0.2.11 down",
                "pbx 192.0.2.12 up 7",
            ]
        );
        assert_eq!(drawn(&["--filter", "state=down"]).len(), 3);
        assert_eq!(drawn(&["--filter", "address=192.0.2.12"]).len(), 2);
    }

    #[test]
    fn why_a_domain_was_refused_something_is_shown_where_it_was() {
        let rows = json!([
            { "name": "a.example", "refused": 3, "refused_contacts": 2, "refused_calls": 1, "refused_memory": 0 },
            { "name": "b.example", "refused": 0, "refused_contacts": 0, "refused_calls": 0, "refused_memory": 0 },
        ]);
        let rows: Vec<Row> = serde_json::from_value(rows).unwrap();
        let header = |words: &[&str], rows: &[Row]| {
            let text = options(words).draw(&TENANTS, rows, 0);
            let first = text.lines().next().unwrap().split_whitespace();
            first.map(str::to_owned).collect::<Vec<_>>()
        };
        let shown = ["NAME", "REFUSED", "REFUSED_CONTACTS", "REFUSED_CALLS"];
        assert_eq!(header(&[], &rows), shown);
        assert_eq!(header(&[], &rows[1..]), ["NAME", "REFUSED"]);
        let asked = ["--columns", "name,refused_memory"];
        assert_eq!(header(&asked, &rows), ["NAME", "REFUSED_MEMORY"]);
    }

    #[test]
    fn the_timer_that_is_due_first_comes_first() {
        let rows = json!([{ "due_in_ns": 9 }, { "due_in_ns": null }, { "due_in_ns": 4 }]);
        let rows = serde_json::from_value(rows).unwrap();
        let (rows, _) = options(&[]).select(&TIMERS, rows);
        let due: Vec<_> = rows.iter().map(|row| row["due_in_ns"].as_u64()).collect();
        assert_eq!(due, [Some(4), Some(9), None]);
    }

    #[test]
    fn a_table_has_units_and_says_what_it_leaves_out() {
        let options = options(&["--limit", "1"]);
        let (rows, left_out) = options.select(&QUEUES, queues());
        let text = options.draw(&QUEUES, &rows, left_out);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["KIND", "NAME", "QUEUED_LEN", "OLDEST_WAITING"]
        );
        assert!(lines[1].ends_with("20.0 ms"), "{text}");
        assert_eq!(lines[2], "… and 2 more; --limit 0 shows all");
        let empty = options.draw(&QUEUES, &[], 0);
        assert_eq!(empty, "no queues");
    }

    #[test]
    fn a_column_that_does_not_exist_is_refused_with_those_that_do() {
        for words in [
            ["--sort", "len"],
            ["--filter", "len=3"],
            ["--columns", "len"],
        ] {
            let problem = options(&words).check(&QUEUES).unwrap_err();
            assert!(problem.starts_with("there is no column len; give one of kind, name,"));
        }
        let bad = CommandLine::try_parse_from(["show", "--filter", "kind"])
            .err()
            .unwrap();
        assert!(
            bad.to_string().contains("give COLUMN=TEXT, COLUMN>VALUE"),
            "{bad}"
        );
        let bad = CommandLine::try_parse_from(["show", "--filter", "queued_len>many"]);
        let bad = bad.err().unwrap().to_string();
        assert!(
            bad.contains("\"many\" is no number and no time such as 10ms"),
            "{bad}"
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        let column = QUEUES.column("name").unwrap();
        let text = json!("lamp\u{1b}]52;c;eA==\u{7}\r\n 2\u{9b}J");
        let shown = shown(column, Some(&text));
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
        assert!(shown.starts_with("lamp\u{fffd}]52"), "{shown}");
    }

    #[test]
    fn only_what_is_shown_is_asked_for_unless_it_is_selected_here() {
        for (words, count) in [
            (vec![], 50),
            (vec!["--limit", "7"], 7),
            (vec!["--limit", "0"], ASKED_MAX),
            (vec!["--filter", "name=x"], ASKED_MAX),
            (vec!["--sort", "name"], ASKED_MAX),
        ] {
            assert_eq!(options(&words).asked_len(), count, "{words:?}");
        }
    }

    #[test]
    fn values_have_units_that_a_person_reads() {
        for (nanos, text) in [
            (17.0, "17 ns"),
            (1_500.0, "1.5 µs"),
            (2e6, "2.0 ms"),
            (90e9, "90.0 s"),
            (600e9, "10 min"),
            (7200e9, "2 h"),
        ] {
            assert_eq!(duration(nanos), text);
        }
        assert_eq!(
            [bytes(12.0), bytes(2048.0), bytes(3e6)],
            ["12 B", "2.0 KiB", "2.9 MiB"]
        );
    }
}
