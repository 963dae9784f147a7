//! The report of a record: one self-contained HTML page with plots, and the
//! same tables in Markdown.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    compare::{ahead_by, figure, ratio_text},
    engine::Contract,
    machine,
    plot::{self, Curve},
    record::{Row, Status},
    scenario::{self, Scenario},
};

/// Writes `index.html` and `tables.md` below `folder`.
pub fn write(rows: &[Row], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let groups = groups(rows);
    write_file(&folder.join("index.html"), &html(&groups))?;
    write_file(&folder.join("tables.md"), &markdown(&groups))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// The rows of one metric of one scenario that differ only in engine and axis.
struct Group<'a> {
    scenario: &'static Scenario,
    metric: String,
    fixed: String,
    unit: String,
    axis: Vec<u64>,
    engines: Vec<String>,
    rows: Vec<&'a Row>,
}

impl Group<'_> {
    fn row(&self, engine: &str, at: u64) -> Option<&Row> {
        let axis = self.scenario.axis;
        self.rows
            .iter()
            .copied()
            .find(|row| row.engine == engine && row.params.get(axis) == Some(at))
    }

    fn title(&self) -> String {
        let fixed = if self.fixed.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.fixed)
        };
        format!("{} · {}{fixed}", self.scenario.name, self.metric)
    }

    fn curves(&self) -> Vec<Curve> {
        let points = |engine: &String| {
            let at = |x: &u64| Some((*x as f64, self.row(engine, *x)?.median?));
            self.axis.iter().filter_map(at).collect::<Vec<_>>()
        };
        let curve = |engine: &String| Curve {
            name: engine.clone(),
            points: points(engine),
        };
        self.engines
            .iter()
            .map(curve)
            .filter(|curve| !curve.points.is_empty())
            .collect()
    }

    /// A cell: the median, the spread, and how far ahead Busyhour is.
    fn cell(&self, engine: &str, at: u64) -> Cell {
        let Some(row) = self.row(engine, at) else {
            return Cell::plain("left out".to_owned());
        };
        let ours = self.row(US, at).filter(|_| engine != US);
        let ratio = ours.and_then(|ours| ahead_by(ours, row));
        let spread = row
            .spread()
            .map_or(String::new(), |spread| format!(" ±{:.0} %", spread * 50.0));
        let partial = if row.contract == Contract::Partial && row.status == Status::Ok {
            " *"
        } else {
            ""
        };
        Cell {
            text: format!("{}{spread}{partial}", figure(row)),
            note: ratio.map_or(String::new(), ratio_text),
            is_losing: row.contract == Contract::Full && ratio.is_some_and(|ratio| ratio.max < 1.0),
        }
    }
}

struct Cell {
    text: String,
    note: String,
    is_losing: bool,
}

impl Cell {
    fn plain(text: String) -> Self {
        Self {
            text,
            note: String::new(),
            is_losing: false,
        }
    }
}

fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let key = |row: &Row| {
        let axis = scenario::find(&row.scenario)?.axis;
        Some((
            row.scenario.clone(),
            row.metric.clone(),
            row.params.without(axis).to_string(),
        ))
    };
    let mut seen = Vec::new();
    for row in rows {
        if let Some(key) = key(row).filter(|key| !seen.contains(key)) {
            seen.push(key);
        }
    }
    let group = |(name, metric, fixed): (String, String, String)| {
        let wanted = (name.clone(), metric.clone(), fixed.clone());
        let rows = rows
            .iter()
            .filter(|row| key(row).as_ref() == Some(&wanted))
            .collect();
        build_group(scenario::find(&name)?, metric, fixed, rows)
    };
    seen.into_iter().filter_map(group).collect()
}

fn build_group<'a>(
    scenario: &'static Scenario,
    metric: String,
    fixed: String,
    rows: Vec<&'a Row>,
) -> Option<Group<'a>> {
    let axis: BTreeSet<u64> = rows
        .iter()
        .filter_map(|row| row.params.get(scenario.axis))
        .collect();
    let mut engines: Vec<String> = Vec::new();
    for row in &rows {
        if !engines.contains(&row.engine) {
            engines.push(row.engine.clone());
        }
    }
    let unit = rows.first()?.unit.clone();
    Some(Group {
        scenario,
        metric,
        fixed,
        unit,
        axis: axis.into_iter().collect(),
        engines,
        rows,
    })
}

fn html(groups: &[Group]) -> String {
    let mut page = String::from(HEAD);
    page.push_str("<h1>Busyhour, side by side</h1><table class=facts>");
    for (name, value) in machine::facts() {
        let _ = write!(page, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
    }
    page.push_str("</table>");
    page.push_str(LEGEND);
    for group in groups {
        let _ = write!(
            page,
            "<h2>{}</h2><p>{}</p>",
            escape(&group.title()),
            escape(group.scenario.about)
        );
        let axis = group.scenario.axis;
        page.push_str(&plot::log_log(
            &group.title(),
            axis,
            &group.unit,
            &group.curves(),
        ));
        page.push_str(&html_table(group));
    }
    page.push_str("</body></html>\n");
    page
}

fn html_table(group: &Group) -> String {
    let mut table = format!(
        "<table><tr><th>engine</th>{}</tr>",
        header(group, "<th>", "</th>")
    );
    for engine in &group.engines {
        let _ = write!(table, "<tr><th>{}</th>", escape(engine));
        for at in &group.axis {
            let cell = group.cell(engine, *at);
            let class = if cell.is_losing { " class=losing" } else { "" };
            let _ = write!(
                table,
                "<td{class}>{}<br><small>{}</small></td>",
                escape(&cell.text),
                escape(&cell.note)
            );
        }
        table.push_str("</tr>");
    }
    table + "</table>"
}

fn markdown(groups: &[Group]) -> String {
    let mut page = String::from("# Busyhour, side by side\n\n");
    for (name, value) in machine::facts() {
        let _ = writeln!(page, "- {name}: {value}");
    }
    page.push_str("\nA cell: median, half the spread of the rounds, and in brackets how far ahead busyhour is\n");
    page.push_str("(the median and range of the ratios round by round). `*`: partial contract, see BIAS.md.\n");
    page.push_str("**Bold**: a losing row.\n");
    for group in groups {
        let _ = writeln!(
            page,
            "\n## {}\n\n| engine |{}",
            group.title(),
            header(group, " ", " |")
        );
        let _ = writeln!(page, "|---|{}", "---|".repeat(group.axis.len()));
        for engine in &group.engines {
            let cells = group
                .axis
                .iter()
                .map(|at| markdown_cell(&group.cell(engine, *at)));
            let _ = writeln!(
                page,
                "| {engine} | {} |",
                cells.collect::<Vec<_>>().join(" | ")
            );
        }
    }
    page
}

fn markdown_cell(cell: &Cell) -> String {
    let note = if cell.note.is_empty() {
        String::new()
    } else {
        format!(" [{}]", cell.note)
    };
    let text = format!("{}{note}", cell.text).replace('|', "/");
    if cell.is_losing {
        format!("**{text}**")
    } else {
        text
    }
}

fn header(group: &Group, before: &str, after: &str) -> String {
    let title = |at: &u64| format!("{before}{} {at}{after}", group.scenario.axis);
    group.axis.iter().map(title).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

const US: &str = "busyhour";

const LEGEND: &str = "<p>A cell: median of the rounds ± half their spread; below it, how far ahead busyhour is, \
    as the median and the range of the ratios of rounds that ran next to each other. A ratio whose range crosses 1 \
    decides nothing. <span class=losing>Red</span>: busyhour loses this cell to an engine with the full contract. \
    *: the engine lacks part of what the scenario asks (BIAS.md).</p>";

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8><title>Busyhour, side by side</title>\
    <style>body{font:15px/1.45 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222;\
    background:#fff}table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}\
    td,th{border:1px solid #ddd;padding:.25em .6em;text-align:right;white-space:nowrap}th{background:#f5f5f5}\
    th:first-child{text-align:left}small{color:#777}.losing{background:#fdd;color:#900}svg{max-width:100%;height:auto}\
    .facts td,.facts th{text-align:left}</style></head><body>\n";
