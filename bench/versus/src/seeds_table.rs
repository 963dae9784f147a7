//! The seeds' tables, for a terminal and for the report.

use comfy_table::{Attribute, Cell, Color, Table};

use crate::{
    compare::{ahead_by, empty, figure, times},
    record::Row,
    seeds::{Line, Seed, US},
};

/// One cell: its text, and whether Busyhour is behind there.
pub struct SeedCell {
    pub text: String,
    pub is_losing: bool,
}

/// The titles of the columns after the first.
pub const COLUMNS: [&str; 7] = [
    "seed: before",
    "seed: after",
    "today: before",
    "today: after",
    "busyhour",
    "ahead of before",
    "ahead of after",
];

impl Seed {
    /// A table for a terminal; cells in which Busyhour is behind are red.
    pub fn table(&self, rows: &[Row]) -> Table {
        let titles: Vec<&str> = [self.title].into_iter().chain(COLUMNS).collect();
        let mut table = empty(&titles);
        for line in self.lines {
            let cells = self.cells(line, rows).into_iter().map(|cell| {
                if cell.is_losing {
                    let text = format!("{} LOSES", cell.text);
                    Cell::new(text)
                        .fg(Color::Red)
                        .add_attribute(Attribute::Bold)
                } else {
                    Cell::new(cell.text)
                }
            });
            table.add_row([Cell::new(line.what)].into_iter().chain(cells));
        }
        table
    }

    /// The cells of a line, in the order of [`COLUMNS`].
    pub fn cells(&self, line: &Line, rows: &[Row]) -> Vec<SeedCell> {
        let plain = |text: String| SeedCell {
            text,
            is_losing: false,
        };
        let figure_of = |engine: &str| {
            let row = self.find(line, engine, rows);
            plain(row.map_or_else(|| "left out".to_owned(), figure))
        };
        vec![
            plain(line.before.to_owned()),
            plain(line.after.to_owned()),
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

    /// How many lines have Busyhour behind one of the seed's structures.
    pub fn losing_count(&self, rows: &[Row]) -> usize {
        let loses = |line: &&Line| {
            let cells = self.cells(line, rows);
            cells.iter().any(|cell| cell.is_losing)
        };
        self.lines.iter().filter(loses).count()
    }

    /// Whether a record has a figure of this table.
    pub fn is_in(&self, rows: &[Row]) -> bool {
        let has_figure = |line: &Line| self.find(line, US, rows).is_some();
        self.lines.iter().any(has_figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::Contract, params::Params, record::Status, scenario::Better, seeds::SEEDS};

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
        assert_eq!(SEEDS[0].losing_count(&slow), 1);
        assert!(SEEDS[0].table(&slow).to_string().contains("0.50× LOSES"));
        let quick = [
            row("busyhour", 5.0),
            row("seed-before", 10.0),
            row("seed-after", 40.0),
        ];
        assert_eq!(SEEDS[0].losing_count(&quick), 0);
    }
}
