//! Cost against size on two logarithmic axes, as SVG.

use std::ops::Range;

use plotters::{
    chart::{ChartBuilder, ChartContext, SeriesLabelPosition},
    coord::combinators::LogCoord,
    prelude::{
        Cartesian2d, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, PathElement,
        SVGBackend,
    },
    style::{BLACK, Palette, Palette99, WHITE},
};

/// One engine's figures by size.
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// An SVG of the curves; empty when there are fewer than two sizes to join.
pub fn log_log(title: &str, axis: &str, unit: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let x = range(points().map(|(x, _)| x));
    let y = range(points().map(|(_, y)| y));
    match (x, y) {
        (Some(x), Some(y)) if x.end > x.start * 1.5 => {
            let mut svg = String::new();
            // Drawing into a string cannot fail; were it to, the table still stands.
            let drawn = draw(&mut svg, title, (axis, unit), (x, y), curves).is_ok();
            if drawn { svg } else { String::new() }
        }
        _ => String::new(),
    }
}

type Error<'a> = Box<dyn std::error::Error + 'a>;

fn draw<'a>(
    svg: &'a mut String,
    title: &str,
    (axis, unit): (&str, &str),
    (x, y): (Range<f64>, Range<f64>),
    curves: &[Curve],
) -> Result<(), Error<'a>> {
    let area = SVGBackend::with_string(svg, (960, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc(unit)
        .light_line_style(WHITE)
        .draw()?;
    for (index, curve) in curves.iter().enumerate() {
        draw_curve(&mut chart, index, curve)?;
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

type LogChart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;

fn draw_curve<'b>(
    chart: &mut LogChart<'_, 'b>,
    index: usize,
    curve: &Curve,
) -> Result<(), Error<'b>> {
    let color = Palette99::pick(index).to_rgba();
    let width = if curve.name == "busyhour" { 4 } else { 1 };
    let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(width));
    let series = chart.draw_series(line).map_err(|error| error.to_string())?;
    series
        .label(&curve.name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(width)));
    let dots = curve
        .points
        .iter()
        .map(|point| Circle::new(*point, 3, color.filled()));
    chart.draw_series(dots).map_err(|error| error.to_string())?;
    Ok(())
}

fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    (high > 0.0).then_some(low * 0.8..high * 1.25)
}
