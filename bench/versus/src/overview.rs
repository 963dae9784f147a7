//! What a run prints at its end.

use std::collections::BTreeSet;

use comfy_table::Table;

use crate::{
    compare::{ahead_by, empty, figure, ratio_text},
    record::{Row, Status},
    report::{MAIN_METRICS, US},
    scenario::Scenario,
};

/// A table for each figure of the part, then the engines that are in none.
pub fn print(rows: &[Row], part: &Scenario) {
    let rows: Vec<&Row> = rows.iter().filter(|row| part.has(row)).collect();
    for metric in part.metrics.iter().take(MAIN_METRICS) {
        let of_metric = rows.iter().copied().filter(|row| row.metric == metric.name);
        let of_metric: Vec<&Row> = of_metric.collect();
        if of_metric.iter().any(|row| row.status == Status::Ok) {
            println!("{}", table(&of_metric, metric.name));
        }
    }
    let others = part.metrics.iter().skip(MAIN_METRICS);
    let others: Vec<_> = others.map(|metric| metric.name).collect();
    if !others.is_empty() {
        println!(
            "in the record too (`versus compare FILE --metric NAME`): {}",
            others.join(", ")
        );
    }
    for line in not_ok(rows.iter().copied()) {
        println!("{line}");
    }
}

fn table(rows: &[&Row], metric: &str) -> Table {
    let mut table = empty(&[
        "engine",
        "parameters",
        metric,
        "spread",
        "CPU s",
        "peak KiB",
        "busyhour is ahead by",
    ]);
    for row in rows.iter().filter(|row| row.status == Status::Ok) {
        let is_ours = |ours: &&&Row| ours.engine == US && ours.params == row.params;
        let ours = rows.iter().find(is_ours).filter(|_| row.engine != US);
        let ratio = ours.and_then(|ours| ahead_by(ours, row));
        table.add_row([
            row.engine.clone(),
            row.params.to_string(),
            figure(row),
            row.spread_text(),
            row.cpu_s.map_or(String::new(), |cpu| format!("{cpu:.2}")),
            row.peak_kib.map_or(String::new(), |kib| kib.to_string()),
            ratio.map_or(String::new(), ratio_text),
        ]);
    }
    table
}

/// A line for each engine that is missing, failed or cut; each reason is
/// printed once.
pub fn not_ok<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    for row in rows.into_iter().filter(|row| row.status != Status::Ok) {
        if seen.insert((&row.scenario, &row.engine, &row.reason)) {
            let word = match row.status {
                Status::Missing => "MISSING",
                Status::Cut => "CUT",
                _ => "FAILED",
            };
            let (scenario, engine, reason) = (&row.scenario, &row.engine, &row.reason);
            let at = match row.status {
                Status::Missing => String::new(),
                _ => format!(" at {}", row.params),
            };
            lines.push(format!("{word}: {scenario} / {engine}{at}: {reason}"));
        }
    }
    lines
}

/// How many engines have this status at any size.
pub fn engine_count(rows: &[Row], status: Status) -> usize {
    let engines = rows.iter().filter(|row| row.status == status);
    engines
        .map(|row| &row.engine)
        .collect::<BTreeSet<_>>()
        .len()
}
