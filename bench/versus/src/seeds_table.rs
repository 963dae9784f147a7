//! The seeds' tables, for a terminal and for the report.

use comfy_table::{Attribute, Cell, Color, Table};

use crate::{
    compare::{ahead_by, empty, figure, times},
    record::Row,
    seeds::{Line, SEEDS, Seed, US},
    seeds_shares::SHARE_TABLES,
};

/// One cell: its text, and whether Busyhour is behind there.
pub struct SeedCell {
    pub text: String,
    pub is_losing: bool,
}

impl SeedCell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_losing: false,
        }
    }
}

/// One table, with its figures.
pub struct Grid {
    pub title: &'static str,
    /// The titles of the columns after the first.
    pub columns: &'static [&'static str],
    pub lines: Vec<(&'static str, Vec<SeedCell>)>,
}

impl Grid {
    /// For a terminal; cells in which Busyhour is behind are red.
    pub fn table(&self) -> Table {
        let titles: Vec<&str> = [&self.title]
            .into_iter()
            .chain(self.columns)
            .copied()
            .collect();
        let mut table = empty(&titles);
        for (what, cells) in &self.lines {
            let cells = cells.iter().map(|cell| {
                if cell.is_losing {
                    let text = format!("{} LOSES", cell.text);
                    Cell::new(text)
                        .fg(Color::Red)
                        .add_attribute(Attribute::Bold)
                } else {
                    Cell::new(&cell.text)
                }
            });
            table.add_row([Cell::new(what)].into_iter().chain(cells));
        }
        table
    }

    /// How many lines have Busyhour behind.
    pub fn losing_count(&self) -> usize {
        let loses = |cells: &Vec<SeedCell>| cells.iter().any(|cell| cell.is_losing);
        self.lines.iter().filter(|(_, cells)| loses(cells)).count()
    }
}

/// The tables of which a record has figures.
pub fn grids(rows: &[Row]) -> Vec<Grid> {
    let times = SEEDS.iter().filter_map(|seed| seed.grid(rows));
    let shares = SHARE_TABLES.iter().filter_map(|table| table.grid(rows));
    times.chain(shares).collect()
}

/// The titles of the columns after the first.
const COLUMNS: [&str; 7] = [
    "seed: before",
    "seed: after",
    "today: before",
    "today: after",
    "busyhour",
    "ahead of before",
    "ahead of after",
];

impl Seed {
    /// The table; `None` if the record has no figure of it.
    pub fn grid(&self, rows: &[Row]) -> Option<Grid> {
        let has_figure = |line: &Line| self.find(line, US, rows).is_some();
        self.lines.iter().any(has_figure).then(|| Grid {
            title: self.title,
            columns: &COLUMNS,
            lines: (self.lines.iter())
                .map(|line| (line.what, self.cells(line, rows)))
                .collect(),
        })
    }

    /// The cells of a line, in the order of the columns.
    fn cells(&self, line: &Line, rows: &[Row]) -> Vec<SeedCell> {
        let figure_of = |engine: &str| {
            let row = self.find(line, engine, rows);
            SeedCell::plain(row.map_or_else(|| "left out".to_owned(), figure))
        };
        vec![
            SeedCell::plain(line.before),
            SeedCell::plain(line.after),
            figure_of(self.before),
            figure_of(self.after),
            figure_of(US),
            self.lead(line, self.before, rows),
            self.lead(line, self.after, rows),
        ]
    }

    fn lead(&self, line: &Line, engine: &str, rows: &[Row]) -> SeedCell {
        let ratio = self.ratio(line, engine, rows);
        SeedCell {
            text: ratio.map_or_else(|| "–".to_owned(), times),
            is_losing: ratio.is_some_and(|ratio| ratio < 1.0),
        }
    }

    fn ratio(&self, line: &Line, engine: &str, rows: &[Row]) -> Option<f64> {
        let ours = self.find(line, US, rows)?;
        Some(ahead_by(ours, self.find(line, engine, rows)?)?.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::Contract, params::Params, record::Status, scenario::Better};

    fn row(engine: &str, ns: f64) -> Row {
        Row {
            scenario: "timers".to_owned(),
            engine: engine.to_owned(),
            params: Params::default().with("n", 100),
            metric: "add_ns".to_owned(),
            unit: "ns".to_owned(),
            better: Better::Lower,
            median: Some(ns),
            min: Some(ns),
            max: Some(ns),
            runs: 1,
            cpu_s: None,
            peak_kib: None,
            contract: Contract::Full,
            status: Status::Ok,
            reason: String::new(),
            rounds: vec![ns],
        }
    }

    #[test]
    fn a_line_with_busyhour_behind_is_marked() {
        let slow = [
            row("busyhour", 20.0),
            row("seed-before", 10.0),
            row("seed-after", 40.0),
        ];
        let grid = SEEDS[0].grid(&slow).unwrap();
        assert_eq!(grid.losing_count(), 1);
        assert!(grid.table().to_string().contains("0.50× LOSES"));
        let quick = [
            row("busyhour", 5.0),
            row("seed-before", 10.0),
            row("seed-after", 40.0),
        ];
        assert_eq!(SEEDS[0].grid(&quick).unwrap().losing_count(), 0);
    }
}
