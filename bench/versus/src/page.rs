//! The report as one self-contained HTML page.

use std::fmt::Write;

use crate::{
    catalogue::engines_folder,
    engine::Engine,
    machine, plot,
    record::Row,
    report::{Group, US, growths, random_access_ns},
    seeds_table::{Grid, grids},
};

pub fn html(groups: &[Group], rows: &[Row]) -> String {
    let mut page = String::from(HEAD);
    page.push_str("<h1>Busyhour, side by side</h1>");
    contents(&mut page, groups);
    facts(&mut page);
    page.push_str(LEGEND);
    summary(&mut page, groups);
    let seeds = grids(rows);
    if !seeds.is_empty() {
        page.push_str("<h2 id=seeds>The seeds, then and now</h2>");
        seeds.iter().for_each(|grid| seed_table(&mut page, grid));
    }
    memory(&mut page, groups);
    sections(&mut page, groups);
    engines(&mut page, rows);
    page.push_str("</body></html>\n");
    page
}

fn contents(page: &mut String, groups: &[Group]) {
    let mut names: Vec<_> = groups.iter().map(|group| group.scenario.name).collect();
    names.dedup();
    page.push_str("<nav><a href=#summary>summary</a> <a href=#seeds>seeds</a>");
    for name in names {
        let _ = write!(page, " <a href=#{name}>{name}</a>");
    }
    page.push_str(" <a href=#engines>engines</a></nav>");
}

fn facts(page: &mut String) {
    page.push_str("<table class=facts>");
    for (name, value) in machine::facts() {
        let _ = write!(page, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
    }
    page.push_str("</table>");
}

fn summary(page: &mut String, groups: &[Group]) {
    page.push_str("<h2 id=summary>Where Busyhour stands</h2><p>Against the best engine with the full contract at each size.</p>");
    page.push_str("<table><tr><th>figure</th><th>smallest lead</th><th>largest lead</th><th>losing cells</th></tr>");
    for (index, group) in groups.iter().enumerate() {
        if let Some(standing) = group.standing() {
            let class = if standing.losing_count > 0 {
                " class=losing"
            } else {
                ""
            };
            let _ = write!(
                page,
                "<tr><th><a href=#g{index}>{}</a></th><td>{}</td><td>{}</td><td{class}>{}</td></tr>",
                escape(&group.title()),
                escape(&standing.worst),
                escape(&standing.best),
                standing.losing_count
            );
        }
    }
    page.push_str("</table>");
}

fn seed_table(page: &mut String, grid: &Grid) {
    let _ = write!(page, "<table><tr><th>{}</th>", escape(grid.title));
    for title in grid.columns {
        let _ = write!(page, "<th>{title}</th>");
    }
    page.push_str("</tr>");
    for (what, cells) in &grid.lines {
        let _ = write!(page, "<tr><th>{}</th>", escape(what));
        for cell in cells {
            let class = if cell.is_losing { " class=losing" } else { "" };
            let _ = write!(page, "<td{class}>{}</td>", escape(&cell.text));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

fn memory(page: &mut String, groups: &[Group]) {
    let Some(access_ns) = random_access_ns(groups) else {
        return;
    };
    let _ = write!(
        page,
        "<h2>In random memory accesses</h2><p>How much an operation's cost grows from a size that fits into the caches \
         to the largest, in loads at random addresses ({access_ns:.0} ns each in this run).</p><table><tr><th>figure</th>\
         <th>engine</th><th>sizes</th><th>growth</th><th>accesses</th></tr>"
    );
    for growth in growths(groups) {
        let class = if growth.engine == US {
            " class=ours"
        } else {
            ""
        };
        let _ = write!(
            page,
            "<tr{class}><th>{}</th><td>{}</td><td>{}</td><td>{:.0} ns</td><td>{:.2}</td></tr>",
            escape(&growth.what),
            escape(&growth.engine),
            escape(&growth.from),
            growth.ns,
            growth.accesses
        );
    }
    page.push_str("</table>");
}

/// A section for each scenario, with a part for each figure; less important
/// figures are folded.
fn sections(page: &mut String, groups: &[Group]) {
    let mut last = "";
    for (index, group) in groups.iter().enumerate() {
        if group.scenario.name != last {
            last = group.scenario.name;
            let _ = write!(page, "<h2 id={last}>{last}</h2>");
        }
        let open = if group.is_main() { " open" } else { "" };
        let _ = write!(
            page,
            "<details{open} id=g{index}><summary>{}</summary><p>{}</p>{}{}</details>",
            escape(&group.title()),
            escape(group.scenario.about),
            plot::picture(group.scenario.axis, &group.unit, &group.curves()),
            table(group)
        );
    }
}

fn table(group: &Group) -> String {
    let mut table = String::from("<table><tr><th>engine</th>");
    for title in group.columns() {
        let _ = write!(table, "<th>{title}</th>");
    }
    table.push_str("</tr>");
    for engine in &group.engines {
        let class = if engine == US { " class=ours" } else { "" };
        let _ = write!(table, "<tr{class}><th>{}</th>", escape(engine));
        for at in &group.axis {
            let cell = group.cell(engine, *at);
            let class = match (cell.is_losing, cell.is_bad) {
                (true, _) => " class=losing",
                (_, true) => " class=bad",
                _ => "",
            };
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

/// The engines that took part, their versions, and what each lacks.
fn engines(page: &mut String, rows: &[Row]) {
    let Ok(engines) = Engine::load_all(&engines_folder()) else {
        return;
    };
    page.push_str("<h2 id=engines>Engines</h2><table><tr><th>engine</th><th>what</th><th>version</th><th>lacks</th></tr>");
    let mut seen = Vec::new();
    for engine in engines
        .iter()
        .filter(|engine| rows.iter().any(|row| row.engine == engine.name))
    {
        if seen.contains(&&engine.name) {
            continue;
        }
        seen.push(&engine.name);
        let _ = write!(
            page,
            "<tr><th>{}</th><td class=text>{}</td><td class=text>{}</td><td class=text>{}</td></tr>",
            escape(&engine.name),
            escape(engine.about()),
            escape(&engine.version()),
            escape(&engine.lacking())
        );
    }
    page.push_str("</table>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

const LEGEND: &str = "<p>A cell: median of the rounds ± half their spread; below it, how far ahead busyhour is, \
    as the median and the range of the ratios of rounds that ran next to each other. <i>open</i>: the range crosses 1, \
    so the run does not decide. <span class=losing>Red</span>: busyhour loses this cell to an engine with the full \
    contract. <b>*</b>: the engine lacks part of what the scenario asks (BIAS.md). Plots are logarithmic on both axes.</p>";

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8><title>Busyhour, side by side</title>\
    <meta name=viewport content='width=device-width'>\
    <style>body{font:15px/1.45 system-ui,sans-serif;max-width:1180px;margin:1.5em auto;padding:0 1em;color:#222;\
    background:#fff}nav{position:sticky;top:0;background:#fff;padding:.5em 0;border-bottom:1px solid #ddd}\
    nav a{margin-right:.6em}a{color:#06c;text-decoration:none}h2{margin-top:2em;border-bottom:2px solid #eee}\
    table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto;font-size:13px}\
    td,th{border:1px solid #ddd;padding:.25em .6em;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
    th{background:#f7f7f7;font-weight:600}tr>th:first-child,td.text{text-align:left}td.text{white-space:normal}\
    small{color:#777}.losing{background:#fdd;color:#900}.losing small{color:#900}.bad{color:#a60;white-space:normal}\
    .ours th,.ours td{background:#eef5ff;font-weight:600}summary{cursor:pointer;font-weight:600;margin:1em 0 .3em}\
    svg{max-width:100%;height:auto}.facts td,.facts th{text-align:left}</style></head><body>\n";
