//! Plots as SVG: cost against size on two logarithmic axes, or bars if there is
//! only one size.

use std::ops::Range;

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::{Shift, combinators::LogCoord},
    prelude::{
        Cartesian2d, Circle, Color, DrawingArea, IntoDrawingArea, IntoLogRange, LineSeries,
        PathElement, RGBColor, Rectangle, SVGBackend, Text,
    },
    style::{BLACK, IntoFont, RGBAColor, ShapeStyle, TextStyle, WHITE},
};

use crate::record::{short, with_unit};

/// The figures of one engine, by size.
pub struct Curve {
    pub name: String,
    pub is_ours: bool,
    pub points: Vec<(f64, f64)>,
}

/// The SVG for the curves; empty if there is nothing to show.
pub fn picture(axis: &str, unit: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = range(points().map(|(x, _)| x), 1.15);
    let y = range(points().map(|(_, y)| y), 1.4);
    let mut svg = String::new();
    // Drawing into a string does not fail; if it did, there would still be the
    // table.
    let drawn = match (x, y) {
        (Some(x), Some(y)) if x.end > x.start * 1.5 => {
            lines(&mut svg, (axis, unit), (x, y), curves).is_ok()
        }
        (Some(_), Some(y)) => bars(&mut svg, unit, y.end / 1.4, curves).is_ok(),
        _ => false,
    };
    if drawn { svg } else { String::new() }
}

type Error<'a> = Box<dyn std::error::Error + 'a>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type LogChart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;

fn lines<'a>(
    svg: &'a mut String,
    (axis, unit): (&str, &str),
    (x, y): (Range<f64>, Range<f64>),
    curves: &[Curve],
) -> Result<(), Error<'a>> {
    let height = HEIGHT.max(40 + 20 * curves.len() as u32);
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let (plot, legend) = area.split_horizontally(WIDTH - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&plot)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| with_unit(*value, unit))
        .label_style(font(13))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(228, 228, 228))
        .draw()?;
    // Busyhour last, so that it is on top.
    for (index, curve) in curves.iter().enumerate().rev() {
        curve_of(&mut chart, index, curve)?;
    }
    names(&legend, curves)?;
    area.present()?;
    Ok(())
}

fn curve_of<'b>(
    chart: &mut LogChart<'_, 'b>,
    index: usize,
    curve: &Curve,
) -> Result<(), Error<'b>> {
    let style = style(index, curve);
    let line = LineSeries::new(curve.points.iter().copied(), style);
    chart.draw_series(line).map_err(|error| error.to_string())?;
    let size = if curve.is_ours { 4 } else { 3 };
    let dots = curve.points.iter();
    let dots = dots.map(|point| Circle::new(*point, size, style.color.filled()));
    chart.draw_series(dots).map_err(|error| error.to_string())?;
    Ok(())
}

/// The legend beside the plot, so that it covers nothing; in the order in which the lines
/// end at the right.
fn names(area: &Area<'_>, curves: &[Curve]) -> Result<(), String> {
    let mut order: Vec<usize> = (0..curves.len()).collect();
    let end = |index: &usize| curves[*index].points.last().copied().unwrap_or((0.0, 0.0));
    order.sort_by(|a, b| end(b).1.total_cmp(&end(a).1));
    for (place, index) in order.into_iter().enumerate() {
        let (curve, y) = (&curves[index], 24 + 20 * place as i32);
        let style = style(index, curve);
        let line = PathElement::new([(0, y), (22, y)], style);
        let weight = if curve.is_ours {
            font(14).color(&OURS)
        } else {
            font(13).color(&BLACK)
        };
        let text = Text::new(curve.name.clone(), (30, y - 8), weight);
        area.draw(&line).map_err(|error| error.to_string())?;
        area.draw(&text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// One bar for each engine, the longest first.
fn bars<'a>(svg: &'a mut String, unit: &str, most: f64, curves: &[Curve]) -> Result<(), Error<'a>> {
    let height = 16 + BAR * curves.len() as u32;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let value = |curve: &Curve| curve.points.first().map_or(0.0, |point| point.1);
    let mut order: Vec<&Curve> = curves.iter().collect();
    order.sort_by(|a, b| value(b).total_cmp(&value(a)));
    for (place, curve) in order.into_iter().enumerate() {
        let top = 8 + (BAR as usize * place) as i32;
        let length = (value(curve) / most * f64::from(WIDTH - 320)) as i32;
        let color = if curve.is_ours { OURS } else { OTHERS };
        let bar = [(200, top + 3), (200 + length.max(1), top + BAR as i32 - 5)];
        area.draw(&Rectangle::new(bar, color.filled()))?;
        area.draw(&Text::new(curve.name.clone(), (8, top + 4), font(13)))?;
        let figure = with_unit(value(curve), unit);
        area.draw(&Text::new(figure, (208 + length, top + 4), font(13)))?;
    }
    area.present()?;
    Ok(())
}

fn style(index: usize, curve: &Curve) -> ShapeStyle {
    let color: RGBAColor = if curve.is_ours {
        OURS.to_rgba()
    } else {
        COLORS[index % COLORS.len()].to_rgba()
    };
    color.stroke_width(if curve.is_ours { 4 } else { 2 })
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().into()
}

/// From the smallest to the largest positive value, with some room around.
fn range(values: impl Iterator<Item = f64>, room: f64) -> Option<Range<f64>> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    (high > 0.0).then_some(low / room..high * room)
}

const WIDTH: u32 = 1_120;
const HEIGHT: u32 = 420;
const LEGEND_WIDTH: u32 = 230;
const BAR: u32 = 24;
const OURS: RGBColor = RGBColor(200, 16, 46);
const OTHERS: RGBColor = RGBColor(150, 160, 175);

/// Dark enough on white, and different enough beside each other.
const COLORS: [RGBColor; 16] = [
    RGBColor(31, 119, 180),
    RGBColor(44, 140, 44),
    RGBColor(148, 103, 189),
    RGBColor(230, 126, 20),
    RGBColor(23, 160, 175),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(110, 110, 110),
    RGBColor(170, 160, 20),
    RGBColor(0, 70, 140),
    RGBColor(0, 100, 60),
    RGBColor(90, 40, 130),
    RGBColor(150, 70, 0),
    RGBColor(0, 90, 100),
    RGBColor(60, 60, 60),
    RGBColor(190, 110, 150),
];
