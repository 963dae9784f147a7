//! The parameters of a Via that its receiver reads or writes, found in one reading.

use std::ops::Range;

use crate::sip::Params;

/// Which of them were found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sip) struct ViaParams<'a> {
    /// The value of the first `branch`.
    pub branch: Option<&'a str>,
    /// The value of the first `rport`, if there is one.
    pub rport: Option<Option<&'a str>>,
    /// If what a receiver writes is the parameters as they stand, but for one `rport`: what stands before and behind it.
    pub around_rport: Option<[&'a str; 2]>,
}

impl<'a> ViaParams<'a> {
    /// Reads all parameters; `None` when something else is there.
    pub fn parse(text: &'a str) -> Option<(Params<'a>, Self)> {
        let (mut branch, mut rport, mut cut) = (None, None, text.len()..text.len());
        let mut is_plain = true;
        let params = Params::parse_each(text, |name, value, place| {
            is_plain &= is_compact(name, value, &place);
            match name.len() {
                6 if name.eq_ignore_ascii_case("branch") => branch = branch.or(Some(value)),
                5 if name.eq_ignore_ascii_case("rport") => {
                    is_plain &= rport.is_none();
                    rport = rport.or(Some(value));
                    cut = place;
                }
                8 if name.eq_ignore_ascii_case("received") => is_plain = false,
                4 if name.eq_ignore_ascii_case("keep") => is_plain = false,
                _ => {}
            }
        })?;
        let is_plain = is_plain && (text.is_empty() || text.starts_with(';'));
        let around = is_plain.then(|| Some([text.get(..cut.start)?, text.get(cut.end..)?]));
        let read = Self {
            branch: branch.flatten(),
            rport,
            around_rport: around.flatten(),
        };
        Some((params, read))
    }
}

/// Whether a parameter has neither quotes nor white space.
fn is_compact(name: &str, value: Option<&str>, place: &Range<usize>) -> bool {
    let len = 1 + name.len() + value.map_or(0, |value| 1 + value.len());
    len == place.len()
}
