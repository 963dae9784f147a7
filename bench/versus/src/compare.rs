//! Ratios from a record: one engine against every other, for each size.

use std::io::IsTerminal;

use comfy_table::{Attribute, Cell, Color, Table, presets::UTF8_FULL_CONDENSED};

use crate::{
    record::{Ratio, Row, Status, with_unit},
    scenario::Better,
};

/// A table of `metric`: each row is an engine at a size, with its ratio to
/// `base`. Above 1× `base` is ahead, whether small or large figures are better.
pub fn table(rows: &[Row], metric: &str, base: &str) -> Table {
    let mut table = empty(&[
        "scenario",
        "parameters",
        "engine",
        "median",
        "spread",
        &format!("{base} is ahead by"),
    ]);
    for row in rows
        .iter()
        .filter(|row| row.metric == metric && row.engine != base)
    {
        let ours = rows.iter().find(|ours| {
            ours.engine == base
                && ours.metric == metric
                && ours.scenario == row.scenario
                && ours.params == row.params
        });
        table.add_row([
            Cell::new(&row.scenario),
            Cell::new(&row.params),
            Cell::new(&row.engine),
            Cell::new(figure(row)),
            Cell::new(row.spread_text()),
            advantage(ours, row),
        ]);
    }
    table
}

/// How far `ours` is ahead of `theirs`; more than 1 is better.
///
/// `None` if one of the figures is almost zero, as for work that only some engines put
/// off.
pub fn ahead_by(ours: &Row, theirs: &Row) -> Option<Ratio> {
    let is_nothing = |row: &Row| row.unit == "ns" && row.median.is_some_and(|ns| ns < CLOCK_NS);
    if is_nothing(ours) || is_nothing(theirs) {
        return None;
    }
    match ours.better {
        Better::Lower => Ratio::of(theirs, ours),
        Better::Higher => Ratio::of(ours, theirs),
    }
}

/// The median with its unit, or why there is none.
pub fn figure(row: &Row) -> String {
    match (row.status, row.median) {
        (Status::Ok, Some(median)) => with_unit(median, &row.unit),
        (Status::Cut, _) => row.reason.clone(),
        (Status::Missing, _) => format!("missing: {}", row.reason),
        _ => format!("failed: {}", row.reason),
    }
}

/// The ratio as text, with its range and, if necessary, what the range means.
pub fn ratio_text(ratio: Ratio) -> String {
    let median = times(ratio.median);
    if ratio.count == 1 {
        return format!("{median} (one round)");
    }
    let warning = if ratio.is_meaningless() {
        " MEANINGLESS: too much spread"
    } else if ratio.is_open() {
        " open: the spread crosses 1"
    } else {
        ""
    };
    format!(
        "{median} ({}–{}){warning}",
        digits(ratio.min),
        digits(ratio.max)
    )
}

/// A multiple with its significant digits.
pub fn times(ratio: f64) -> String {
    format!("{}×", digits(ratio))
}

fn digits(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

pub fn empty(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(
        header
            .iter()
            .map(|title| Cell::new(title).add_attribute(Attribute::Bold)),
    );
    if !std::io::stdout().is_terminal() {
        table.force_no_tty();
    }
    table
}

fn advantage(ours: Option<&Row>, theirs: &Row) -> Cell {
    match ours.and_then(|ours| ahead_by(ours, theirs)) {
        Some(ratio) if ratio.is_lost() => Cell::new(ratio_text(ratio)).fg(Color::Red),
        Some(ratio) => Cell::new(ratio_text(ratio)),
        None => Cell::new("–"),
    }
}

/// A smaller figure is only the cost of reading the clock, divided by many
/// operations.
const CLOCK_NS: f64 = 0.5;
