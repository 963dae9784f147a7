//! The report's tables in Markdown.

use std::fmt::Write;

use crate::{
    machine,
    record::Row,
    report::{Cell, Group, growths, random_access_ns},
    seeds_table::grids,
};

pub fn text(groups: &[Group], rows: &[Row]) -> String {
    let mut page = String::from("# Busyhour, side by side\n\n");
    for (name, value) in machine::facts() {
        let _ = writeln!(page, "- {name}: {value}");
    }
    page.push_str(LEGEND);
    summary(&mut page, groups);
    seeds(&mut page, rows);
    memory(&mut page, groups);
    for group in groups {
        table(&mut page, group);
    }
    page
}

fn summary(page: &mut String, groups: &[Group]) {
    page.push_str("\n## Where Busyhour stands\n\n");
    page.push_str("Against the best engine with the full contract at each size.\n\n");
    page.push_str("| figure | smallest lead | largest lead | losing cells |\n|---|---|---|---|\n");
    for group in groups {
        if let Some(standing) = group.standing() {
            let (title, worst, best) = (group.title(), standing.worst, standing.best);
            let _ = writeln!(
                page,
                "| {title} | {worst} | {best} | {} |",
                standing.losing_count
            );
        }
    }
}

fn seeds(page: &mut String, rows: &[Row]) {
    for grid in grids(rows) {
        let _ = writeln!(
            page,
            "\n## Seed {}\n\n| | {} |",
            grid.title,
            grid.columns.join(" | ")
        );
        let _ = writeln!(page, "|---|{}", "---|".repeat(grid.columns.len()));
        for (what, cells) in &grid.lines {
            let cells = cells.iter();
            let cells: Vec<_> = cells
                .map(|cell| emphasized(&cell.text, cell.is_losing))
                .collect();
            let _ = writeln!(page, "| {what} | {} |", cells.join(" | "));
        }
    }
}

fn memory(page: &mut String, groups: &[Group]) {
    let Some(access_ns) = random_access_ns(groups) else {
        return;
    };
    page.push_str("\n## In random memory accesses\n\n");
    let _ = writeln!(
        page,
        "One costs {access_ns:.0} ns in this run, in the largest memory measured.\n"
    );
    page.push_str("| figure | engine | sizes | growth | accesses |\n|---|---|---|---|---|\n");
    for growth in growths(groups) {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {:.0} ns | {:.2} |",
            growth.what, growth.engine, growth.from, growth.ns, growth.accesses
        );
    }
}

fn table(page: &mut String, group: &Group) {
    let _ = writeln!(
        page,
        "\n## {}\n\n| engine | {} |",
        group.title(),
        group.columns().join(" | ")
    );
    let _ = writeln!(page, "|---|{}", "---|".repeat(group.axis.len()));
    for engine in &group.engines {
        let cells = group.axis.iter().map(|at| words(&group.cell(engine, *at)));
        let cells: Vec<_> = cells.collect();
        let _ = writeln!(page, "| {engine} | {} |", cells.join(" | "));
    }
}

fn words(cell: &Cell) -> String {
    let note = if cell.note.is_empty() {
        String::new()
    } else {
        format!(" [{}]", cell.note)
    };
    emphasized(
        &format!("{}{note}", cell.text).replace('|', "/"),
        cell.is_losing,
    )
}

fn emphasized(text: &str, is_losing: bool) -> String {
    if is_losing {
        format!("**{text} LOSES**")
    } else {
        text.to_owned()
    }
}

const LEGEND: &str = "
A cell: median of the rounds, half their spread, and in brackets how far ahead busyhour is: the median and the range of
the ratios of rounds that ran next to each other. *open*: the range crosses 1. `*`: the engine lacks part of what the
scenario asks, see BIAS.md. **Bold**: busyhour loses that cell to an engine with the full contract.
";
