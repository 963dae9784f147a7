//! Names with a number in them: `device{n}`, `10{n:06}`.

use std::fmt;
use std::str::FromStr;

/// A text in which `{n}` stands for a device's number, `{n:06}` for the number
/// filled with zeros to six digits. Without either, all devices share the text.
///
/// ```
/// use busyhour_storm::Pattern;
/// let user: Pattern = "10{n:04}".parse()?;
/// assert_eq!(user.with(7).to_string(), "100007");
/// # Ok::<(), busyhour_storm::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    number: Option<Number>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    digits: usize,
    after: String,
}

/// Braces that are not `{n}` or `{n:DIGITS}`, or more than one pair of
/// braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write {{n}} for the device's number, or {{n:06}} for six digits, at most once")]
pub struct PatternError;

impl Pattern {
    /// Displays the text for one number without building a string.
    pub fn with(&self, number: u64) -> impl fmt::Display + '_ {
        shown(move |f| {
            f.write_str(&self.before)?;
            match &self.number {
                Some(Number { digits, after }) => write!(f, "{number:0digits$}{after}"),
                None => Ok(()),
            }
        })
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let Some((before, rest)) = text.split_once('{') else {
            return plain(text);
        };
        let (inside, after) = rest.split_once('}').ok_or(PatternError)?;
        let digits = match inside.strip_prefix('n').ok_or(PatternError)? {
            "" => 0,
            width => digits(width).ok_or(PatternError)?,
        };
        let (before, after) = (plain(before)?.before, plain(after)?.before);
        Ok(Self {
            before,
            number: Some(Number { digits, after }),
        })
    }
}

/// A text that a closure writes, for names that are displayed and never
/// stored.
pub(crate) fn shown<F>(write: F) -> impl fmt::Display
where
    F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
{
    struct Shown<F>(F);
    impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Shown<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }
    Shown(write)
}

/// `:06` and `:6` both mean six digits.
fn digits(width: &str) -> Option<usize> {
    width
        .strip_prefix(':')?
        .parse()
        .ok()
        .filter(|digits| *digits <= 20)
}

fn plain(text: &str) -> Result<Pattern, PatternError> {
    if text.contains(['{', '}']) {
        return Err(PatternError);
    }
    Ok(Pattern {
        before: text.to_owned(),
        number: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_inserted_in_place_of_the_pattern() {
        let show = |pattern: &str| {
            pattern
                .parse::<Pattern>()
                .map(|pattern| pattern.with(42).to_string())
        };
        assert_eq!(show("device{n}"), Ok("device42".into()));
        assert_eq!(show("a{n:05}-x"), Ok("a00042-x".into()));
        assert_eq!(show("same"), Ok("same".into()));
        for broken in [
            "{", "}", "{m}", "{n", "{n:}", "{n:x}", "{n:21}", "{n}{n}", "a}b{n}",
        ] {
            assert_eq!(show(broken), Err(PatternError), "{broken}");
        }
    }
}
