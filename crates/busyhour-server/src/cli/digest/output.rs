use super::{job::Digested, name_of, plot::Plot, selection::series_name};
use crate::console::{self, forgive_closed_pipe};
use busyhour_pcp::{Archive, Rendering, Semantics, SeriesId};
use jiff::Timestamp;
use serde::Serialize;
use std::{
    io::{self, BufWriter, StdoutLock, Write},
    path::PathBuf,
};

/// Where the values go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// Values are only counted.
    Lines,
    Json,
    Csv,
    Plot(PathBuf),
}

/// Where archives are written, one after another.
pub(super) struct Output {
    sink: Sink,
    is_raw: bool,
}

enum Sink {
    Lines,
    Json(BufWriter<StdoutLock<'static>>),
    Csv(Box<csv::Writer<StdoutLock<'static>>>),
    Plot(Plot),
}

/// An archive as a line of JSON.
#[derive(Serialize)]
struct Object<'a> {
    archive: String,
    host: &'a str,
    from: String,
    until: String,
    step_seconds: f64,
    series: Vec<Series<'a>>,
}

#[derive(Serialize)]
struct Series<'a> {
    metric: &'a str,
    instance: Option<&'a str>,
    units: String,
    values: Vec<Option<f64>>,
}

impl Output {
    pub(super) fn new(format: OutputFormat, is_raw: bool) -> Result<Self, String> {
        let sink = match format {
            OutputFormat::Lines => Sink::Lines,
            OutputFormat::Json => Sink::Json(BufWriter::new(io::stdout().lock())),
            OutputFormat::Csv => {
                let mut writer = csv::Writer::from_writer(io::stdout().lock());
                let header = writer.write_record(COLUMNS);
                header.map_err(|error| format!("standard output: {error}"))?;
                Sink::Csv(Box::new(writer))
            }
            OutputFormat::Plot(file) => Sink::Plot(Plot::new(file)),
        };
        Ok(Self { sink, is_raw })
    }

    /// Writes one archive and the line about it. The line goes to standard output if no
    /// values go there.
    pub(super) fn add(&mut self, digested: &Digested) -> Result<(), String> {
        let line = line(digested);
        let archive = &digested.archive;
        let written = match (&mut self.sink, &digested.rendering) {
            (Sink::Json(out), Some(rendering)) => write_json(out, archive, rendering, self.is_raw),
            (Sink::Csv(out), Some(rendering)) => write_csv(out, archive, rendering),
            (Sink::Plot(plot), Some(rendering)) => {
                plot.add(archive, rendering)?;
                return console::print(line);
            }
            _ => return console::print(line),
        };
        console::print_error(line);
        // If the reader has closed the pipe, this is not a failure: `| head` is a
        // normal use.
        forgive_closed_pipe(written)
    }

    /// Writes everything that is still buffered.
    pub(super) fn finish(self) -> Result<(), String> {
        let written = match self.sink {
            Sink::Json(mut out) => out.flush(),
            Sink::Csv(mut out) => out.flush(),
            Sink::Plot(plot) => return plot.draw(),
            Sink::Lines => Ok(()),
        };
        forgive_closed_pipe(written)
    }
}

/// The line has the form of pmwebd's, which the seed measured.
fn line(digested: &Digested) -> String {
    format!(
        "[{}] digested {} metrics, in {:.3}ms",
        name_of(&digested.archive),
        digested.series_count,
        digested.took.as_secs_f64() * 1e3
    )
}

fn write_json(
    out: &mut impl Write,
    archive: &Archive,
    rendering: &Rendering,
    is_raw: bool,
) -> io::Result<()> {
    let window = rendering.window();
    let object = Object {
        archive: name_of(archive),
        host: &archive.label().host,
        from: time(window.from().as_nanos()),
        until: time(window.until().as_nanos()),
        step_seconds: window.step().as_secs_f64(),
        series: rendering
            .series()
            .iter()
            .enumerate()
            .map(|(index, id)| series(archive, rendering, index, *id, is_raw))
            .collect(),
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

fn series<'a>(
    archive: &'a Archive,
    rendering: &Rendering,
    index: usize,
    id: SeriesId,
    is_raw: bool,
) -> Series<'a> {
    let metric = &archive.metrics()[id.metric];
    let instance = metric.instances[id.instance].name.as_str();
    let is_rate = !is_raw && metric.semantics == Semantics::Counter;
    Series {
        metric: metric.name(),
        instance: metric.domain.map(|_| instance),
        units: match is_rate {
            true => metric.units.per_second(),
            false => metric.units.to_string(),
        },
        // JSON has no infinity.
        values: rendering
            .points(index)
            .map(|value| value.filter(|value| value.is_finite()))
            .collect(),
    }
}

fn write_csv(
    out: &mut csv::Writer<impl Write>,
    archive: &Archive,
    rendering: &Rendering,
) -> io::Result<()> {
    let name = name_of(archive);
    let window = rendering.window();
    let times: Vec<String> = (0..window.count())
        .map(|index| time(window.time(index).as_nanos()))
        .collect();
    for (index, id) in rendering.series().iter().enumerate() {
        let metric = &archive.metrics()[id.metric];
        let instance = &metric.instances[id.instance].name;
        for (time, value) in times.iter().zip(rendering.points(index)) {
            let value = value.map_or(String::new(), |value| value.to_string());
            out.write_record([&name, time, metric.name(), instance, &value])?;
        }
    }
    Ok(())
}

/// ISO 8601, UTC.
fn time(nanos: u64) -> String {
    let timestamp = Timestamp::from_nanosecond(i128::from(nanos));
    timestamp.map_or_else(|_| nanos.to_string(), |time| time.to_string())
}

/// The name of a series of this archive, for a legend.
pub(super) fn legend(archive: &Archive, id: SeriesId) -> String {
    series_name(archive, id)
}

const COLUMNS: [&str; 5] = ["archive", "time", "metric", "instance", "value"];
