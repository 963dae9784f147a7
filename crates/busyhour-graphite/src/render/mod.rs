//! Series as an answer: data in three formats, a picture in two.

mod json;
mod picture;
mod text;

use super::{Answer, Error, Parameters, Series, Window, answer::JSON};
use picture::Picture;
pub use picture::{Line, pieces};
use std::ops::Range;

/// What `/render` answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Raw,
    Csv,
    Png,
    Svg,
}

/// What else the request says about the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// Values of one series that are wanted at most.
    points_max: Option<usize>,
    leaves_out_missing: bool,
    width: u32,
    height: u32,
    title: String,
    hides_legend: bool,
}

impl Format {
    pub(super) fn of(parameters: &Parameters) -> Result<Self, Error> {
        if parameters.flag("rawData") {
            return Ok(Self::Raw);
        }
        Ok(match parameters.get("format").unwrap_or("png") {
            "json" => Self::Json,
            "raw" => Self::Raw,
            "csv" => Self::Csv,
            "png" => Self::Png,
            "svg" => Self::Svg,
            other => {
                return Err(Error::Request(format!(
                    "format: `{other}` is not allowed; give one of: json, raw, csv, png, svg"
                )));
            }
        })
    }

    /// About how many bytes the answer will have.
    pub(super) fn bytes(self, all: &[Series], layout: &Layout) -> u64 {
        let picture = u64::from(layout.width) * u64::from(layout.height) * 3;
        let data = |each: u64| {
            all.iter().fold(0_u64, |bytes, series| {
                bytes.saturating_add(series.values.len() as u64 * each + series.name.len() as u64)
            })
        };
        let rows: u64 = all
            .iter()
            .map(|series| series.name.len() as u64 * series.values.len() as u64)
            .sum();
        match self {
            Self::Json => data(32),
            Self::Raw => data(20),
            Self::Csv => data(48).saturating_add(rows),
            Self::Png => picture,
            Self::Svg => data(24).min(picture * 8),
        }
    }
}

impl Layout {
    pub(super) fn of(parameters: &Parameters) -> Result<Self, Error> {
        let points_max = parameters.whole("maxDataPoints", 1, u64::from(u32::MAX))?;
        let size = |name, default| {
            let size = parameters.whole(name, SIDE_MIN, SIDE_MAX)?;
            Ok(size
                .and_then(|size| u32::try_from(size).ok())
                .unwrap_or(default))
        };
        Ok(Self {
            points_max: points_max.and_then(|points| usize::try_from(points).ok()),
            leaves_out_missing: parameters.flag("noNullPoints"),
            width: size("width", 330)?,
            height: size("height", 250)?,
            title: parameters
                .get("title")
                .unwrap_or_default()
                .chars()
                .take(TITLE_LEN_MAX)
                .collect(),
            hides_legend: parameters.flag("hideLegend"),
        })
    }
}

/// Writes the answer.
pub(super) fn render(
    format: Format,
    all: Vec<Series>,
    layout: &Layout,
    window: Window,
) -> Result<Answer, Error> {
    let (content_type, body) = match format {
        Format::Json => (JSON, json::write(all, layout)?),
        Format::Raw => ("text/plain; charset=utf-8", text::raw(&all)),
        Format::Csv => ("text/csv; charset=utf-8", text::csv(&all)),
        Format::Png => {
            let picture = Picture::of(all, layout, window);
            ("image/png", picture::png(&picture)?)
        }
        Format::Svg => {
            let picture = Picture::of(all, layout, window);
            ("image/svg+xml", picture::svg(&picture)?)
        }
    };
    Ok(Answer {
        content_type,
        body,
        digested: None,
    })
}

/// Lines over time as a picture of that many pixels, for files: PNG or SVG.
///
/// # Errors
///
/// [`Error::Source`] when the picture cannot be made.
///
/// # Examples
///
/// ```
/// use busyhour_graphite::{chart, pieces};
///
/// let hits = pieces([(0.0, Some(1.0)), (60.0, None), (120.0, Some(3.0))].into_iter());
/// assert_eq!(hits.len(), 2);
/// let picture = chart(vec![("hits".into(), hits)], 0.0..120.0, "Hits", (300, 200), true)?;
/// assert!(picture.starts_with(b"\x89PNG"));
/// # Ok::<(), busyhour_graphite::Error>(())
/// ```
pub fn chart(
    lines: Vec<(String, Vec<Line>)>,
    times: Range<f64>,
    title: &str,
    (width, height): (u32, u32),
    is_png: bool,
) -> Result<Vec<u8>, Error> {
    let layout = Layout {
        points_max: None,
        leaves_out_missing: false,
        width,
        height,
        title: title.to_owned(),
        hides_legend: false,
    };
    let picture = Picture::new(lines, times, &layout);
    match is_png {
        true => picture::png(&picture),
        false => picture::svg(&picture),
    }
}

/// Of a picture, in pixels.
const SIDE_MIN: u64 = 16;
const SIDE_MAX: u64 = 4096;
const TITLE_LEN_MAX: usize = 200;
