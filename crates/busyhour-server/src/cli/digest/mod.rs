//! `busyhour digest` renders archives in parallel.

mod job;
mod time_argument;
mod output;
mod plot;
mod progress;
mod selection;

use super::Failure;
use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_pcp::{Archive, Counters, Error, RenderOptions, archives_in};
use clap::Args;
use job::Job;
use output::{Output, OutputFormat};
use selection::Selection;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use time_argument::TimeArgument;

/// Render the metrics of PCP archives: interpolated, counters as rates
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Digest {
    /// An archive, by the name that its files share, or a folder of archives
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,

    /// The first point in time: a date and time, or a time before the archive's end (-6h)
    /// or after its start (+30m) [default: the archive's start]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimeArgument>,

    /// The last point in time, in the same form [default: the archive's end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<TimeArgument>,

    /// The time between two values
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = step)]
    step: Duration,

    /// Only metrics that match, by name or by name[instance]; may be given several times
    #[arg(long, value_name = "GLOB")]
    metrics: Vec<String>,

    /// The largest number of threads [default and maximum: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Values of counters as they are, instead of their growth per second
    #[arg(long)]
    raw: bool,

    /// Assume that a counter that falls has wrapped around once
    #[arg(long)]
    counter_wrap: bool,

    /// Write the values to standard output, one JSON object a line for each archive
    #[arg(long, group = "format")]
    json: bool,

    /// Write the values to standard output as CSV: archive,time,metric,instance,value
    #[arg(long, group = "format")]
    csv: bool,

    /// Draw the values into this file: NAME.png or NAME.svg, at most 100 series
    #[arg(long, value_name = "FILE", group = "format", value_parser = picture)]
    plot: Option<PathBuf>,
}

impl Digest {
    /// Renders and reports.
    ///
    /// # Errors
    ///
    /// A mistake in the arguments, an archive that cannot be read, or where an archive
    /// is damaged. What could be read of a damaged archive has been written.
    pub fn run(self) -> Result<(), Failure> {
        let selection = Selection::new(&self.metrics).map_err(Failure::usage)?;
        let archives = self.archives()?;
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self
            .threads
            .map_or(cores, |threads| threads.get().min(cores));
        let pool = TaskPool::builder().name("digest").workers(threads).build();
        let job = Job {
            from: self.from,
            until: self.until,
            step: self.step,
            selection,
            options: self.options(threads, archives.len()),
            buffers: BufferPool::builder().build().map_err(Failure::running)?,
            pool: pool.map_err(Failure::running)?,
            keeps_values: self.format() != OutputFormat::Lines,
        };
        let output = Output::new(self.format(), self.raw);
        let mut output = output.map_err(Failure::running)?;
        job.run(archives, threads, &mut output)?;
        output.finish().map_err(Failure::running)
    }

    fn archives(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.archive.is_dir() {
            return Ok(vec![self.archive.clone()]);
        }
        let archives = archives_in(&self.archive).map_err(Failure::running)?;
        if archives.is_empty() {
            let path = self.archive.clone();
            return Err(Failure::running(Error::NotFound { path }));
        }
        Ok(archives)
    }

    /// The threads share a single archive; of many archives, each thread renders its
    /// own.
    fn options(&self, threads: usize, archive_count: usize) -> RenderOptions {
        RenderOptions {
            counters: if self.raw {
                Counters::Raw
            } else {
                Counters::Rate
            },
            counter_wrap: self.counter_wrap,
            threads: (threads / archive_count).max(1),
        }
    }

    fn format(&self) -> OutputFormat {
        match &self.plot {
            _ if self.json => OutputFormat::Json,
            _ if self.csv => OutputFormat::Csv,
            Some(file) => OutputFormat::Plot(file.clone()),
            None => OutputFormat::Lines,
        }
    }
}

fn step(text: &str) -> Result<Duration, String> {
    let step =
        humantime::parse_duration(text).map_err(|_| "give a time such as 500ms, 90s or 1h")?;
    if step < STEP_MIN {
        return Err("give at least 1ms".into());
    }
    Ok(step)
}

/// A file whose name ends with the format of the picture.
fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match plot::is_png(&path).is_some() {
        true => Ok(path),
        false => Err("a plot is a PNG or an SVG: give a name that ends in .png or .svg".into()),
    }
}

/// The name of an archive without its folder.
fn name_of(archive: &Archive) -> String {
    let name = archive.path().file_name().map(Path::new);
    name.unwrap_or(archive.path()).display().to_string()
}

const STEP_MIN: Duration = Duration::from_millis(1);

const AFTER_HELP: &str = "\
Values are those of PCP's pmrep: interpolated between samples, none across a gap
in the logging, counters as their growth per second.

Times:
  2026-11-22T08:00:00Z, 2026-11-22 08:00, 2026-11-22   UTC unless it has a zone
  @1763798400     seconds since 1970
  -6h, -1h30m     before the archive's end
  +30m            after the archive's start

Examples:
  busyhour digest /var/log/pcp/pmlogger/host/20261122
      one line: how many metrics, in what time
  busyhour digest 20261122 --from -6h --metrics 'disk.*' --csv
  busyhour digest 20261122 --metrics 'kernel.all.load*' --plot load.svg
  busyhour digest archives/ --step 5m --json | jq .archive
      a folder of archives, in parallel

Exit codes:
  0  everything was rendered
  1  an archive could not be read, or is damaged (its good records were rendered)
  2  wrong usage";
