use super::Layout;
use crate::{Error, Series, Window, data::series::span, request::calendar::date_time};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{
        BitMapBackend, DrawingBackend, IntoDrawingArea, LineSeries, PathElement, SVGBackend,
    },
    style::{BLACK, Color, FontStyle, IntoFont, RGBColor, WHITE, register_font},
};
use std::{ops::Range, sync::OnceLock};

/// A picture of pixels.
pub(super) fn png(picture: &Picture<'_>) -> Result<Vec<u8>, Error> {
    let (width, height) = (picture.layout.width, picture.layout.height);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
    draw(backend, picture)?;
    encode(&pixels, width, height).map_err(failed)
}

/// A picture of lines.
pub(super) fn svg(picture: &Picture<'_>) -> Result<Vec<u8>, Error> {
    let mut text = String::new();
    let size = (picture.layout.width, picture.layout.height);
    draw(SVGBackend::with_string(&mut text, size), picture)?;
    Ok(text.into_bytes())
}

/// What is drawn: lines without gaps, and the ranges they lie in.
pub(super) struct Picture<'a> {
    layout: &'a Layout,
    times: Range<f64>,
    values: Range<f64>,
    lines: Vec<(String, Vec<Line>)>,
}

/// Seconds since 1970 and a value each.
pub type Line = Vec<(f64, f64)>;

impl<'a> Picture<'a> {
    /// Of series, with as many points as there are pixels.
    pub(super) fn of(all: Vec<Series>, layout: &'a Layout, window: Window) -> Self {
        let lines = all.into_iter().map(|mut series| {
            let each = series.values.len().div_ceil(layout.width as usize);
            series.consolidate(each);
            let lines = lines(&series);
            (series.name, lines)
        });
        let times = window.from as f64..window.until as f64;
        Self::new(lines.collect(), times, layout)
    }

    /// Of lines with names, each in the pieces that its gaps leave.
    pub(super) fn new(
        lines: Vec<(String, Vec<Line>)>,
        times: Range<f64>,
        layout: &'a Layout,
    ) -> Self {
        let values = lines
            .iter()
            .flat_map(|(_, lines)| lines.iter().flatten())
            .map(|(_, value)| *value);
        Self {
            layout,
            times,
            values: range(values),
            lines,
        }
    }

    fn caption(&self) -> &str {
        if self.lines.iter().all(|(_, lines)| lines.is_empty()) {
            return "No data";
        }
        &self.layout.title
    }

    /// As many names as a reader can tell apart; small pictures have room for none.
    fn has_legend(&self) -> bool {
        let Layout {
            width,
            height,
            hides_legend,
            ..
        } = *self.layout;
        let names_max = (height / LEGEND_LINE_HEIGHT) as usize;
        !hides_legend
            && (1..=names_max).contains(&self.lines.len())
            && width >= 200
            && height >= 120
    }
}

fn draw<B: DrawingBackend>(backend: B, picture: &Picture<'_>) -> Result<(), Error> {
    fonts()?;
    let area = backend.into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let is_large = picture.layout.width >= 120 && picture.layout.height >= 80;
    let (left, below) = if is_large { (60, 25) } else { (0, 0) };
    let mut builder = ChartBuilder::on(&area);
    builder
        .margin(if is_large { 8 } else { 0 })
        .x_label_area_size(below)
        .y_label_area_size(left);
    if is_large && !picture.caption().is_empty() {
        builder.caption(picture.caption(), (FONT, 14).into_font());
    }
    let ranges = (picture.times.clone(), picture.values.clone());
    let mut chart = builder
        .build_cartesian_2d(ranges.0, ranges.1)
        .map_err(failed)?;
    let long = picture.times.end - picture.times.start > TWO_DAYS;
    let time = move |time: &f64| time_label(*time as i64, long);
    let value = |value: &f64| value_label(*value);
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(5)
        .y_labels(6)
        .label_style((FONT, 11).into_font())
        .light_line_style(WHITE);
    mesh.x_label_formatter(&time).y_label_formatter(&value);
    if !is_large {
        mesh.disable_mesh().disable_axes();
    }
    mesh.draw().map_err(failed)?;
    for (at, (name, lines)) in picture.lines.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        for (part, line) in lines.iter().enumerate() {
            let style = color.stroke_width(1);
            let points = line.iter().copied();
            let drawn = chart
                .draw_series(LineSeries::new(points, style))
                .map_err(failed)?;
            // One name a series, however many gaps it has.
            if part == 0 {
                let sample = move |(x, y)| PathElement::new([(x, y), (x + 12, y)], color);
                drawn.label(shortened(name)).legend(sample);
            }
        }
    }
    if picture.has_legend() {
        let mut legend = chart.configure_series_labels();
        legend
            .position(SeriesLabelPosition::UpperLeft)
            .label_font((FONT, 11).into_font());
        legend
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.2));
        legend.draw().map_err(failed)?;
    }
    area.present().map_err(failed)
}

fn lines(series: &Series) -> Vec<Line> {
    let time = |at| series.start.saturating_add(span(series.step, at)) as f64;
    let values = series.values.iter().enumerate();
    pieces(values.map(|(at, value)| (time(at), *value)))
}

/// The parts of a line between its gaps; a value alone is a line to itself.
pub fn pieces(points: impl Iterator<Item = (f64, Option<f64>)>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::new();
    for (time, value) in points {
        match value.filter(|value| value.abs() <= VALUE_MAX) {
            Some(value) => line.push((time, value)),
            None => finish(&mut line, &mut lines),
        }
    }
    finish(&mut line, &mut lines);
    lines
}

fn finish(line: &mut Line, lines: &mut Vec<Line>) {
    let line = std::mem::take(line);
    if let [only] = line.as_slice() {
        lines.push(vec![*only, *only]);
    } else if !line.is_empty() {
        lines.push(line);
    }
}

/// From the least to the greatest, with some room; a constant is in the middle.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, greatest) = values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, greatest), value| (least.min(value), greatest.max(value)),
    );
    if least > greatest {
        return 0.0..1.0;
    }
    let room = ((greatest - least) * 0.05)
        .max(least.abs().max(greatest.abs()) * 1e-6)
        .max(1e-6);
    least - room..greatest + room
}

fn time_label(time: i64, is_long: bool) -> String {
    let text = date_time(time);
    let part = if is_long {
        text.get(5..10)
    } else {
        text.get(11..16)
    };
    part.unwrap_or(&text).to_owned()
}

/// Three digits and the prefix of a thousand.
fn value_label(value: f64) -> String {
    let prefixes = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let prefix = prefixes.iter().find(|(factor, _)| value.abs() >= *factor);
    let (factor, prefix) = prefix.copied().unwrap_or((1.0, ""));
    let scaled = value / factor;
    if scaled != 0.0 && (scaled.abs() < 0.01 || scaled.abs() >= 10_000.0) {
        return format!("{scaled:.1e}{prefix}");
    }
    let text = format!("{scaled:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{prefix}")
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LEN_MAX {
        return name.to_owned();
    }
    let head: String = name.chars().take(NAME_LEN_MAX - 1).collect();
    head + "…"
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(out)
}

/// The one font is part of the program, so that pictures need none of the system's.
fn fonts() -> Result<(), Error> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_registered = REGISTERED
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if *is_registered {
        return Ok(());
    }
    Err(Error::Source(
        "the font of pictures cannot be read; ask for json or csv".into(),
    ))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Source(format!("the picture cannot be drawn: {error}"))
}

const FONT: &str = "sans-serif";
/// Pixels, with as much again for the lines.
const LEGEND_LINE_HEIGHT: u32 = 25;
const NAME_LEN_MAX: usize = 48;
const TWO_DAYS: f64 = 2.0 * 86_400.0;
/// Beyond it, differences of values are no numbers any more.
const VALUE_MAX: f64 = 1e300;
const COLORS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
    RGBColor(255, 127, 14),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parameters, Points};

    fn pictures(query: &str, values: &[Option<f64>]) -> (Vec<u8>, String) {
        let layout = Layout::of(&Parameters::parse(query, b"")).unwrap();
        let window = Window {
            from: 0,
            until: 600,
        };
        let all = vec![Series::fetched("a<b", "a", Points::new(60, 60, values))];
        let picture = Picture::of(all, &layout, window);
        let svg = svg(&picture).unwrap();
        (png(&picture).unwrap(), String::from_utf8(svg).unwrap())
    }

    #[test]
    fn a_picture_has_its_size_title_and_lines() {
        let values = [Some(1.0), Some(4.0), None, Some(2.0), Some(3.0)];
        let (png, svg) = pictures("width=400&height=300&title=load", &values);
        assert!(svg.contains("load") && svg.contains("a&lt;b"));
        assert!(svg.matches("<polyline").count() >= 2, "{svg}");
        let info = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        assert_eq!((info.info().width, info.info().height), (400, 300));
    }

    #[test]
    fn a_picture_without_series_has_a_message() {
        let (_, svg) = pictures("width=400&height=300", &[None, None]);
        assert!(svg.contains("No data"));
    }

    #[test]
    fn extremes_are_drawn() {
        for values in [
            vec![Some(f64::MAX), Some(f64::MIN)],
            vec![Some(1e300), Some(-1e300)],
            vec![Some(5e-324)],
            vec![Some(0.0); 700],
            vec![Some(f64::INFINITY), Some(1.0)],
        ] {
            for size in [
                "width=16&height=16",
                "width=130&height=90",
                "width=500&height=20",
            ] {
                pictures(size, &values);
            }
        }
    }

    #[test]
    fn labels_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (1500.0, "1.5k"),
            (2.5e9, "2.5G"),
            (0.25, "0.25"),
            (1e-9, "1.0e-9"),
        ] {
            assert_eq!(value_label(value), expected);
        }
        assert_eq!(time_label(1_289_665_949, false), "16:32");
        assert_eq!(time_label(1_289_665_949, true), "11-13");
    }
}
