use super::output::legend;
use crate::archive::{Archive, Rendering};
use jiff::Timestamp;
use plotters::{
    prelude::*,
    style::{FontStyle, register_font},
};
use std::{ops::Range, path::PathBuf};

/// Lines over time, collected from all archives and drawn at the end.
pub(super) struct Plot {
    file: PathBuf,
    lines: Vec<Line>,
}

struct Line {
    name: String,
    /// Seconds since 1970 and the value; split where there is none.
    pieces: Vec<Vec<(f64, f64)>>,
}

impl Plot {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            lines: Vec::new(),
        }
    }

    /// Takes in the series of one archive.
    pub(super) fn add(&mut self, archive: &Archive, rendering: &Rendering) -> Result<(), String> {
        if self.lines.len() + rendering.series().len() > LINES_MAX {
            return Err(format!(
                "more than {LINES_MAX} series make no readable plot: choose with --metrics"
            ));
        }
        for (index, id) in rendering.series().iter().enumerate() {
            self.lines.push(Line {
                name: legend(archive, *id),
                pieces: pieces(rendering, index),
            });
        }
        Ok(())
    }

    /// Writes the file.
    pub(super) fn draw(&self) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular())
            .map_err(|_| said(&"the font cannot be read"))?;
        let (times, values) = self.bounds();
        let area = SVGBackend::new(&self.file, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| said(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(32)
            .y_label_area_size(72)
            .build_cartesian_2d(times, values)
            .map_err(|error| said(&error))?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|seconds| clock_time(*seconds))
            .draw()
            .map_err(|error| said(&error))?;
        for (index, line) in self.lines.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            for (number, piece) in line.pieces.iter().enumerate() {
                let drawn = LineSeries::new(piece.iter().copied(), &color);
                let drawn = chart.draw_series(drawn).map_err(|error| said(&error))?;
                if number == 0 {
                    drawn
                        .label(&line.name)
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
                }
            }
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(|error| said(&error))?;
        area.present().map_err(|error| said(&error))
    }

    fn bounds(&self) -> (Range<f64>, Range<f64>) {
        let points = || {
            self.lines
                .iter()
                .flat_map(|line| line.pieces.iter().flatten())
        };
        let times = bounds(points().map(|(time, _)| *time));
        let values = bounds(points().map(|(_, value)| *value));
        // From zero where that leaves the lines their room.
        let low = if values.start > 0.0 && values.start < values.end / 2.0 {
            0.0
        } else {
            values.start
        };
        (times, low..values.end)
    }
}

/// The runs of moments that have a value.
fn pieces(rendering: &Rendering, index: usize) -> Vec<Vec<(f64, f64)>> {
    let window = rendering.window();
    let moments = rendering.points(index).enumerate().map(|(moment, value)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((window.time(moment).as_nanos() as f64 / 1e9, value))
    });
    let moments: Vec<Option<(f64, f64)>> = moments.collect();
    moments
        .split(Option::is_none)
        .map(|piece| piece.iter().copied().flatten().collect())
        .filter(|piece: &Vec<_>| !piece.is_empty())
        .collect()
}

/// From the least to the greatest, never empty.
fn bounds(values: impl Iterator<Item = f64>) -> Range<f64> {
    let nothing = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = values.fold(nothing, |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low < high {
        true => low..high,
        false if low.is_finite() => low - 0.5..low + 0.5,
        false => 0.0..1.0,
    }
}

fn clock_time(seconds: f64) -> String {
    let timestamp = Timestamp::from_second(seconds as i64);
    timestamp.map_or_else(
        |_| String::new(),
        |time| time.strftime("%m-%d %H:%M").to_string(),
    )
}

const SIZE: (u32, u32) = (1200, 600);

/// As many as colours can be told apart, with room to spare.
const LINES_MAX: usize = 100;
