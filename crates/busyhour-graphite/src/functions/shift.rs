use super::Arguments;
use crate::{
    Error, Series, Window, functions::evaluator::Evaluator, request::time::parse_interval,
};

/// Shows the values of an earlier time (with `+`, of a later one) at the current time.
pub(super) fn time_shift(
    evaluator: &mut Evaluator<'_>,
    arguments: &Arguments<'_>,
) -> Result<Vec<Series>, Error> {
    let text = arguments.text(1)?.unwrap_or_default();
    let resets_end = arguments.flag(2, true)?;
    if arguments.flag(3, false)? {
        return arguments.refuse("alignDst is not needed: all times are in UTC; leave it out");
    }
    let is_unsigned = text.starts_with(|c: char| c.is_ascii_digit());
    let text = if is_unsigned {
        format!("-{text}")
    } else {
        text.to_owned()
    };
    let by = parse_interval(&text).map_err(|error| arguments.inside(error))?;
    let here = arguments.series(evaluator)?;
    let Some(first) = here.first() else {
        return Ok(here);
    };
    let (start, end) = (first.start, first.end);
    drop(here);
    let window = Window {
        from: arguments.window.from.saturating_add(by),
        until: arguments.window.until.saturating_add(by),
    };
    let shifted = |series: Series| {
        let name = format!("timeShift({}, \"{text}\")", series.name);
        let length = series.end.saturating_sub(series.start);
        let end = if resets_end {
            end
        } else {
            start.saturating_add(length)
        };
        Series {
            name,
            start,
            end,
            ..series
        }
    };
    Ok(arguments
        .series_in(evaluator, window)?
        .into_iter()
        .map(shifted)
        .collect())
}
