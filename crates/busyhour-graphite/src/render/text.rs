use crate::{Series, data::series::span, request::calendar::date_time};
use std::fmt::Write;

/// A line a series: its name, times and values.
pub(super) fn raw(all: &[Series]) -> Vec<u8> {
    let mut out = String::new();
    for series in all {
        let values: Vec<String> = series
            .values
            .iter()
            .map(|value| shown(*value, "None"))
            .collect();
        let Series {
            name,
            start,
            end,
            step,
            ..
        } = series;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name},{start},{end},{step}|{}", values.join(","));
    }
    out.into_bytes()
}

/// A line a value: name, time and value.
pub(super) fn csv(all: &[Series]) -> Vec<u8> {
    let mut out = String::new();
    for series in all {
        let name = field(&series.name);
        for (at, value) in series.values.iter().enumerate() {
            let time = date_time(series.start.saturating_add(span(series.step, at)));
            let _ = write!(out, "{name},{time},{}\r\n", shown(*value, ""));
        }
    }
    out.into_bytes()
}

fn shown(value: Option<f64>, missing: &str) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or_else(|| missing.to_owned(), |value| format!("{value:?}"))
}

/// A field of RFC 4180.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Points;

    #[test]
    fn raw_and_csv_have_graphites_format() {
        let points = Points::new(1_289_665_920, 60, [Some(1.0), None, Some(2.5)]);
        let all = [Series::fetched("f(a,b)", "a", points)];
        let raw = String::from_utf8(raw(&all)).unwrap();
        assert_eq!(raw, "f(a,b),1289665920,1289666100,60|1.0,None,2.5\n");
        let csv = String::from_utf8(csv(&all)).unwrap();
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines[0], "\"f(a,b)\",2010-11-13 16:32:00,1.0");
        assert_eq!(lines[1], "\"f(a,b)\",2010-11-13 16:33:00,");
        assert_eq!(lines.len(), 4);
    }
}
