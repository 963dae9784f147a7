//! Ratios from a record: one engine against every other, size by size.

use std::io::IsTerminal;

use comfy_table::{Attribute, Cell, Color, Table, presets::UTF8_FULL_CONDENSED};

use crate::{
    record::{Ratio, Row, Status, with_unit},
    scenario::Better,
};

/// A table of `metric`: each row an engine at a size, with `base`'s figure as a
/// multiple of it. Above 1× the base is ahead, whichever way the metric points.
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

/// How far ahead `ours` is of `theirs`, larger than 1 meaning better.
///
/// Nothing where one of them did next to nothing, as with work that only some put off.
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

/// The median with its unit, or what became of the engine.
pub fn figure(row: &Row) -> String {
    match (row.status, row.median) {
        (Status::Ok, Some(median)) => with_unit(median, &row.unit),
        (Status::Cut, _) => row.reason.clone(),
        (Status::Missing, _) => format!("missing: {}", row.reason),
        _ => format!("failed: {}", row.reason),
    }
}

/// The ratio in words: with its spread, and what the spread says against it.
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

/// A multiple with the digits that matter.
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

/// Below this a figure is the clock's own cost, spread over many operations.
const CLOCK_NS: f64 = 0.5;
