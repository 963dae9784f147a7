//! Numbers and lists as Graphite writes them into the names of results.

use crate::{Expression, Series};

/// C's `%g`: six digits, no zeros at the end, an exponent for the very large and small.
pub(super) fn general(number: f64) -> String {
    let exponent = if number == 0.0 {
        0
    } else {
        number.abs().log10().floor() as i32
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.decimals$}")).to_owned();
    }
    let text = format!("{number:.5e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), power.abs())
}

fn trimmed(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

/// A number as it was written: `1500`, or `1500.5`.
pub(super) fn literal(expression: &Expression) -> String {
    match expression {
        Expression::Number(number, true) => format!("{number:.0}"),
        Expression::Number(number, false) => format!("{number:?}"),
        _ => String::new(),
    }
}

/// The expressions of `list`, each once, in order.
pub(super) fn expressions(list: &[Series]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for series in list {
        if !once.contains(&series.expression.as_str()) {
            once.push(&series.expression);
        }
    }
    once.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        for (number, expected) in [
            (10.0, "10"),
            (0.0, "0"),
            (-0.125, "-0.125"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (0.000_012, "1.2e-05"),
            (1.0 / 3.0, "0.333333"),
            (123_456_789.0, "1.23457e+08"),
        ] {
            assert_eq!(general(number), expected);
        }
    }
}
