//! The functions on series, and the evaluator that calls them. One table,
//! [`FUNCTIONS`], serves the evaluation, the check of arguments and the list that
//! editors ask for.

mod alias;
mod arguments;
mod combine;
mod evaluator;
mod moving;
mod naming;
mod percent;
mod select;
mod shift;
mod summarize;
mod table;
mod transform;

pub(super) use arguments::{Arguments, check};
pub(super) use evaluator::Evaluator;
pub(super) use table::{FUNCTIONS, Function, Kind, Parameter};

use super::{Error, Series};

/// What a function answers with.
type Outcome = Result<Vec<Series>, Error>;

/// The function called `name`.
pub(super) fn named(name: &str) -> Result<&'static Function, Error> {
    let is_it = |function: &&Function| function.name == name || function.aliases.contains(&name);
    FUNCTIONS.iter().find(is_it).ok_or_else(|| {
        let distance = |function: &&Function| strsim::damerau_levenshtein(function.name, name);
        let nearest = FUNCTIONS
            .iter()
            .min_by_key(distance)
            .map_or("", |nearest| nearest.name);
        Error::Request(format!(
            "there is no function `{name}` (did you mean {nearest}?); /functions lists them all"
        ))
    })
}
