use super::{name_of, output::legend};
use busyhour_graphite::{Line, chart, pieces};
use busyhour_pcp::{Archive, Rendering};
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// Lines over time, collected from all archives and drawn at the end.
pub(super) struct Plot {
    file: PathBuf,
    /// The name of the first archive, for the title.
    name: Option<String>,
    lines: Vec<(String, Vec<Line>)>,
    /// The time of all windows, in seconds since 1970.
    times: Option<Range<f64>>,
}

impl Plot {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            name: None,
            lines: Vec::new(),
            times: None,
        }
    }

    /// Adds the series of one archive.
    pub(super) fn add(&mut self, archive: &Archive, rendering: &Rendering) -> Result<(), String> {
        if self.lines.len() + rendering.series().len() > LINES_MAX {
            return Err(format!(
                "more than {LINES_MAX} series make an unreadable plot: choose fewer with --metrics"
            ));
        }
        self.name.get_or_insert_with(|| name_of(archive));
        let window = rendering.window();
        let seconds = |index| window.time(index).as_nanos() as f64 / 1e9;
        let (from, until) = (seconds(0), seconds(window.count() - 1));
        let times = self.times.take().unwrap_or(from..until);
        self.times = Some(times.start.min(from)..times.end.max(until));
        for (index, id) in rendering.series().iter().enumerate() {
            let points = rendering.points(index).enumerate();
            let points = points.map(|(index, value)| (seconds(index), value));
            self.lines.push((legend(archive, *id), pieces(points)));
        }
        Ok(())
    }

    /// Writes the file as PNG or SVG, depending on its name.
    pub(super) fn draw(self) -> Result<(), String> {
        let Self {
            file,
            name,
            lines,
            times,
        } = self;
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let is_png = is_png(&file).unwrap_or(false);
        let times = times.unwrap_or(0.0..1.0);
        // A window of one moment is drawn as one second.
        let times = times.start..times.end.max(times.start + 1.0);
        let picture = chart(lines, times, &name.unwrap_or_default(), SIZE, is_png);
        let picture = picture.map_err(|error| said(&error))?;
        fs::write(&file, picture).map_err(|error| said(&error))
    }
}

/// Whether the name ends as that of a PNG; `None` if it ends as none of our formats.
pub(super) fn is_png(file: &Path) -> Option<bool> {
    let suffix = file.extension()?.to_str()?;
    match suffix.to_ascii_lowercase().as_str() {
        "png" => Some(true),
        "svg" => Some(false),
        _ => None,
    }
}

const SIZE: (u32, u32) = (1200, 600);

/// A reader can still follow this many lines.
const LINES_MAX: usize = 100;
