//! The content of a report, for the page and for the Markdown tables.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};

use crate::{
    catalogue::own_names,
    compare::{ahead_by, figure, ratio_text, times},
    engine::Contract,
    markdown, page,
    plot::Curve,
    record::{Row, Status, short},
    scenario::{self, Scenario},
};

/// Writes `index.html` and `tables.md` below `folder`.
pub fn write(rows: &[Row], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let groups = groups(rows, &own_names()?);
    write_file(&folder.join("index.html"), &page::html(&groups, rows))?;
    write_file(&folder.join("tables.md"), &markdown::text(&groups, rows))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// The rows of one metric of one scenario that differ only in engine and axis.
pub struct Group<'a> {
    pub scenario: &'static Scenario,
    pub metric: String,
    fixed: String,
    pub unit: String,
    pub axis: Vec<u64>,
    pub engines: Vec<String>,
    /// Those of them that are Busyhour itself, which are no rivals.
    own: Vec<String>,
    rows: Vec<&'a Row>,
}

impl Group<'_> {
    pub fn row(&self, engine: &str, at: u64) -> Option<&Row> {
        let axis = self.scenario.axis;
        let is_it = |row: &&Row| row.engine == engine && row.params.get(axis) == Some(at);
        self.rows.iter().copied().find(is_it)
    }

    pub fn title(&self) -> String {
        let fixed = if self.fixed.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.fixed)
        };
        format!("{} · {}{fixed}", self.scenario.name, self.metric)
    }

    /// Whether the figure is the scenario's most important one.
    pub fn is_main(&self) -> bool {
        let mut names = self.scenario.metrics.iter().map(|metric| metric.name);
        names.position(|name| name == self.metric) < Some(MAIN_METRICS)
    }

    pub fn curves(&self) -> Vec<Curve> {
        let curve = |engine: &String| Curve {
            name: engine.clone(),
            is_ours: self.is_own(engine),
            points: self.points(engine),
        };
        let curves = self.engines.iter().map(curve);
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    fn points(&self, engine: &str) -> Vec<(f64, f64)> {
        let at = |x: &u64| Some((*x as f64, self.row(engine, *x)?.median?));
        self.axis.iter().filter_map(at).collect()
    }

    /// The titles of the columns.
    pub fn columns(&self) -> Vec<String> {
        let axis = self.scenario.axis;
        let sizes = self.axis.iter();
        sizes
            .map(|at| format!("{axis} {}", size(axis, *at)))
            .collect()
    }

    /// A cell: the median, the spread, and how far ahead Busyhour is.
    pub fn cell(&self, engine: &str, at: u64) -> Cell {
        let Some(row) = self.row(engine, at) else {
            return Cell::plain("left out".to_owned());
        };
        let ours = self.row(US, at).filter(|_| engine != US);
        let ratio = ours.and_then(|ours| ahead_by(ours, row));
        let is_partial = row.contract == Contract::Partial && row.status == Status::Ok;
        let star = if is_partial { " *" } else { "" };
        Cell {
            text: format!("{} {}{star}", figure(row), row.spread_text())
                .trim()
                .to_owned(),
            note: ratio.map_or(String::new(), ratio_text),
            is_losing: !is_partial
                && !self.is_own(engine)
                && ratio.is_some_and(|ratio| ratio.is_lost()),
            is_bad: row.status != Status::Ok,
        }
    }

    /// Where Busyhour is among the engines with the full contract; `None` if it is not
    /// among them.
    pub fn standing(&self) -> Option<Standing> {
        let leads: Vec<(u64, f64, &str)> = self
            .axis
            .iter()
            .filter_map(|at| self.best_rival(*at).map(|(lead, rival)| (*at, lead, rival)))
            .collect();
        let by_lead = |a: &&(u64, f64, &str), b: &&(u64, f64, &str)| a.1.total_cmp(&b.1);
        let (worst, best) = (leads.iter().min_by(by_lead)?, leads.iter().max_by(by_lead)?);
        let cells = self.engines.iter();
        let losing =
            cells.flat_map(|engine| self.axis.iter().map(move |at| self.cell(engine, *at)));
        let axis = self.scenario.axis;
        let say = |(at, lead, rival): &(u64, f64, &str)| {
            format!("{} of {rival} at {axis} {}", times(*lead), size(axis, *at))
        };
        Some(Standing {
            worst: say(worst),
            best: say(best),
            losing_count: losing.filter(|cell| cell.is_losing).count(),
        })
    }

    fn is_own(&self, engine: &str) -> bool {
        self.own.iter().any(|own| own == engine)
    }

    /// The smallest lead over an engine with the full contract at one size, and
    /// the name of that engine.
    fn best_rival(&self, at: u64) -> Option<(f64, &str)> {
        let ours = self.row(US, at)?;
        let rivals = self.engines.iter().filter(|engine| !self.is_own(engine));
        let leads = rivals.filter_map(|engine| {
            let row = self
                .row(engine, at)
                .filter(|row| row.contract == Contract::Full)?;
            Some((ahead_by(ours, row)?.median, engine.as_str()))
        });
        leads.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// The text for one engine at one size.
pub struct Cell {
    pub text: String,
    pub note: String,
    pub is_losing: bool,
    /// Whether the figure is missing or failed.
    pub is_bad: bool,
}

impl Cell {
    fn plain(text: String) -> Self {
        Self {
            text,
            note: String::new(),
            is_losing: false,
            is_bad: false,
        }
    }
}

/// A line of the summary.
pub struct Standing {
    pub worst: String,
    pub best: String,
    pub losing_count: usize,
}

/// How an engine's cost grows with the size, in random accesses to memory.
pub struct Growth {
    pub what: String,
    pub engine: String,
    pub from: String,
    pub ns: f64,
    pub accesses: f64,
}

/// From the second smallest size, which still fits into the caches, to the largest.
pub fn growths(groups: &[Group]) -> Vec<Growth> {
    let Some(access_ns) = random_access_ns(groups) else {
        return Vec::new();
    };
    let wanted = |group: &&Group| GROWING.contains(&group.metric.as_str());
    let of_group = |group: &Group| -> Vec<Growth> {
        let engines = group.engines.iter();
        engines
            .filter_map(|engine| growth(group, engine, access_ns))
            .collect()
    };
    groups.iter().filter(wanted).flat_map(of_group).collect()
}

fn growth(group: &Group, engine: &str, access_ns: f64) -> Option<Growth> {
    let per_second = group.unit.ends_with("/s");
    let ns = |figure: f64| if per_second { 1e9 / figure } else { figure };
    let points = group.points(engine);
    let from = points.iter().find(|(at, _)| *at >= 1_000.0)?;
    let to = points.last().filter(|(at, _)| *at > from.0)?;
    let grown = ns(to.1) - ns(from.1);
    Some(Growth {
        what: format!("{} {}", group.scenario.name, group.metric),
        engine: engine.to_owned(),
        from: format!(
            "{} {} → {}",
            group.scenario.axis,
            short(from.0),
            short(to.0)
        ),
        ns: grown,
        accesses: grown / access_ns,
    })
}

/// The machine's own figure for the largest memory of the record.
pub fn random_access_ns(groups: &[Group]) -> Option<f64> {
    let machine = groups
        .iter()
        .find(|group| group.metric == "random_access_ns")?;
    machine
        .row(machine.engines.first()?, *machine.axis.last()?)?
        .median
}

fn groups<'a>(rows: &'a [Row], own: &BTreeSet<String>) -> Vec<Group<'a>> {
    let mut keys: Vec<Key> = Vec::new();
    for key in rows.iter().filter_map(key) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // The figures of one part are together, the most important ones first.
    keys.sort_by_key(|key| {
        let place = |part: &Scenario| std::ptr::eq(part, key.scenario);
        let metric = |part: &Scenario| part.metrics.iter().position(|one| one.name == key.metric);
        (scenario::all().iter().position(place), metric(key.scenario))
    });
    let of_key = |wanted: Key| {
        let rows = rows.iter().filter(|row| key(row).as_ref() == Some(&wanted));
        build_group(wanted.clone(), rows.collect(), own)
    };
    keys.into_iter().filter_map(of_key).collect()
}

/// What the rows of a group have in common.
#[derive(Clone)]
struct Key {
    scenario: &'static Scenario,
    metric: String,
    fixed: String,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.scenario, other.scenario)
            && (&self.metric, &self.fixed) == (&other.metric, &other.fixed)
    }
}

fn key(row: &Row) -> Option<Key> {
    let scenario = scenario::of_row(row)?;
    Some(Key {
        scenario,
        metric: row.metric.clone(),
        fixed: row.params.without(&[scenario.axis]).to_string(),
    })
}

fn build_group<'a>(key: Key, rows: Vec<&'a Row>, own: &BTreeSet<String>) -> Option<Group<'a>> {
    let axis = rows
        .iter()
        .filter_map(|row| row.params.get(key.scenario.axis));
    let axis: BTreeSet<u64> = axis.collect();
    let mut engines: Vec<String> = Vec::new();
    for row in &rows {
        if !engines.contains(&row.engine) {
            engines.push(row.engine.clone());
        }
    }
    // Busyhour first, then in the order of the folders.
    engines.sort_by_key(|engine| !own.contains(engine));
    let is_own = |engine: &&String| own.contains(*engine);
    let own = engines.iter().filter(is_own).cloned().collect();
    Some(Group {
        scenario: key.scenario,
        metric: key.metric,
        fixed: key.fixed,
        unit: rows.first()?.unit.clone(),
        axis: axis.into_iter().collect(),
        engines,
        own,
        rows,
    })
}

/// A value on the axis; memory has its own units.
fn size(axis: &str, at: u64) -> String {
    match at {
        at if axis != "bytes" => short(at as f64),
        at if at >= 1 << 30 => format!("{} GiB", at >> 30),
        at => format!("{} MiB", at >> 20),
    }
}

/// The engine whose lead is shown.
pub const US: &str = "busyhour";

/// How many of a scenario's figures are shown; the others are folded.
pub const MAIN_METRICS: usize = 2;

const GROWING: [&str; 3] = ["cancelled_life_ns", "expired_life_ns", "messages_per_s"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Better;

    fn row(engine: &str, figure: f64) -> Row {
        let part = scenario::parts("pool-requeue")[0];
        let metric = part.metrics[0];
        Row {
            scenario: part.name.to_owned(),
            engine: engine.to_owned(),
            params: (part.tiny)()[0].clone(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            better: Better::Higher,
            median: Some(figure),
            min: Some(figure),
            max: Some(figure),
            runs: 2,
            cpu_s: None,
            peak_kib: None,
            contract: Contract::Full,
            status: Status::Ok,
            reason: String::new(),
            rounds: vec![figure, figure],
        }
    }

    #[test]
    fn a_cell_is_lost_to_another_library_and_not_to_busyhour_called_from_c() {
        let engines = [
            "busyhour",
            "busyhour-c",
            "libpcp-on-busyhour",
            "tokio-spawn",
        ];
        let rows: Vec<Row> = engines.map(|name| row(name, 200.0)).into();
        let rows = [vec![row(US, 100.0)], rows[1..].to_vec()].concat();
        let group = &groups(&rows, &own_names().unwrap())[0];
        let at = group.axis[0];
        let losing = engines.map(|engine| group.cell(engine, at).is_losing);
        assert_eq!(losing, [false, false, false, true]);
        let standing = group.standing().unwrap();
        assert_eq!(standing.losing_count, 1);
        assert!(standing.worst.contains("tokio-spawn"), "{}", standing.worst);
    }

    #[test]
    fn every_engine_that_is_named_after_busyhour_is_declared_to_be_it() {
        let engines = crate::engine::Engine::load_all(&crate::catalogue::engines_folder());
        for engine in engines.unwrap() {
            assert_eq!(
                engine.is_busyhour(),
                engine.name.contains(US),
                "{}",
                engine.name
            );
        }
    }
}
