use super::{Function, Kind};
use crate::{
    Call, Error, Expression, Series, Window,
    data::aggregation::Aggregation,
    functions::evaluator::{Evaluator, shown},
    request::time::parse_interval,
};

/// The arguments of a call, by position or by name.
pub(crate) struct Arguments<'a> {
    function: &'static Function,
    call: &'a Call,
    pub(crate) window: Window,
}

/// A count of points, or a span of time as it was written and in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Width {
    Points(usize),
    Span(String, i64),
}

/// Refuses what no call of `function` may have: unknown names, too many or missing arguments.
pub(crate) fn check(function: &Function, call: &Call) -> Result<(), Error> {
    let (name, parameters) = (function.name, function.parameters);
    let positional = call
        .arguments
        .iter()
        .filter(|argument| argument.name.is_none());
    let is_open = parameters.last().is_some_and(|last| last.is_multiple);
    let (given, max) = (positional.count(), parameters.len());
    if given > max && !is_open {
        return Err(Error::Request(format!(
            "{name} takes {max} arguments, found {given}"
        )));
    }
    for argument in &call.arguments {
        if let Some(named) = &argument.name
            && !parameters.iter().any(|parameter| parameter.name == *named)
        {
            let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
            let known = known.join(", ");
            return Err(Error::Request(format!(
                "{name} has no argument `{named}`; it has {known}"
            )));
        }
    }
    let arguments = Unchecked(call);
    let is_missing = |(place, parameter): (usize, &super::table::Parameter)| {
        (parameter.is_required && arguments.find(place, parameter.name).is_none())
            .then_some(parameter.name)
    };
    match parameters.iter().enumerate().find_map(is_missing) {
        Some(missing) => Err(Error::Request(format!(
            "{name} needs the argument {missing}"
        ))),
        None => Ok(()),
    }
}

/// A call alone, before its function is known to fit.
struct Unchecked<'a>(&'a Call);

impl<'a> Unchecked<'a> {
    fn find(&self, place: usize, name: &str) -> Option<&'a Expression> {
        let by_name = |argument: &&crate::Argument| argument.name.as_deref() == Some(name);
        let named = self.0.arguments.iter().find(by_name);
        let mut positional = self
            .0
            .arguments
            .iter()
            .filter(|argument| argument.name.is_none());
        named
            .or_else(|| positional.nth(place))
            .map(|argument| &argument.value)
    }
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(function: &'static Function, call: &'a Call, window: Window) -> Self {
        Self {
            function,
            call,
            window,
        }
    }

    /// The argument at `place`, given there or by name; `None` when left out.
    pub(super) fn get(&self, place: usize) -> Option<&'a Expression> {
        let name = self
            .function
            .parameters
            .get(place)
            .map_or("", |parameter| parameter.name);
        Unchecked(self.call).find(place, name)
    }

    /// The series of the first argument.
    pub(super) fn series(&self, evaluator: &mut Evaluator<'_>) -> Result<Vec<Series>, Error> {
        self.series_in(evaluator, self.window)
    }

    /// The series of the first argument, in another window.
    pub(super) fn series_in(
        &self,
        evaluator: &mut Evaluator<'_>,
        window: Window,
    ) -> Result<Vec<Series>, Error> {
        match self.get(0) {
            Some(expression) => evaluator
                .evaluate(expression, window)
                .map_err(|error| self.inside(error)),
            None => Ok(Vec::new()),
        }
    }

    /// The series of all arguments.
    pub(super) fn all_series(&self, evaluator: &mut Evaluator<'_>) -> Result<Vec<Series>, Error> {
        let mut all = Vec::new();
        for argument in &self.call.arguments {
            let series = evaluator.evaluate(&argument.value, self.window);
            all.append(&mut series.map_err(|error| self.inside(error))?);
        }
        Ok(all)
    }

    pub(super) fn number(&self, place: usize) -> Result<Option<f64>, Error> {
        match self.get(place) {
            None | Some(Expression::Nothing) => Ok(None),
            Some(Expression::Number(number, _)) => Ok(Some(*number)),
            Some(other) => Err(self.unfit(place, "a number", other)),
        }
    }

    pub(super) fn whole(&self, place: usize) -> Result<Option<i64>, Error> {
        match self.get(place) {
            Some(other @ Expression::Number(_, false)) => {
                Err(self.unfit(place, "a whole number", other))
            }
            _ => Ok(self.number(place)?.map(|number| number as i64)),
        }
    }

    /// All whole numbers from `place` on.
    pub(super) fn wholes(&self, place: usize) -> Result<Vec<i64>, Error> {
        let mut numbers = Vec::new();
        for place in place..self.call.arguments.len() {
            numbers.extend(self.whole(place)?);
        }
        Ok(numbers)
    }

    pub(super) fn text(&self, place: usize) -> Result<Option<&'a str>, Error> {
        match self.get(place) {
            None | Some(Expression::Nothing) => Ok(None),
            Some(Expression::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.unfit(place, "a text in quotes", other)),
        }
    }

    pub(super) fn flag(&self, place: usize, default: bool) -> Result<bool, Error> {
        match self.get(place) {
            None | Some(Expression::Nothing) => Ok(default),
            Some(Expression::Flag(flag)) => Ok(*flag),
            Some(other) => Err(self.unfit(place, "true or false", other)),
        }
    }

    /// The aggregation named at `place`, and its name as it was written.
    pub(super) fn aggregation(
        &self,
        place: usize,
        default: &'a str,
    ) -> Result<(Aggregation, &'a str), Error> {
        let name = self.text(place)?.unwrap_or(default);
        let aggregation = Aggregation::named(name).map_err(|error| self.inside(error))?;
        Ok((aggregation, name))
    }

    /// A span of at least one second.
    pub(super) fn interval(&self, place: usize) -> Result<(&'a str, i64), Error> {
        let text = self.text(place)?.unwrap_or_default();
        let seconds = parse_interval(text).map_err(|error| self.inside(error))?;
        if seconds == 0 {
            return Err(self.inside(Error::request(format!("'{text}' is no time at all"))));
        }
        Ok((text, seconds))
    }

    /// A count of points or a span, at least 1.
    pub(super) fn width(&self, place: usize) -> Result<Width, Error> {
        if let Some(Expression::Text(_)) = self.get(place) {
            let (text, seconds) = self.interval(place)?;
            return Ok(Width::Span(text.to_owned(), seconds.saturating_abs()));
        }
        let count = self
            .whole(place)?
            .filter(|count| (1..=WIDTH_MAX).contains(count));
        match count {
            Some(count) => Ok(Width::Points(count as usize)),
            None => Err(self.inside(Error::request(format!(
                "give a count of points from 1 to {WIDTH_MAX}, or a span in quotes such as '5min'"
            )))),
        }
    }

    /// An error, with the function it came up in.
    pub(super) fn inside(&self, error: Error) -> Error {
        match error {
            Error::Request(what) => Error::Request(format!("{}: {what}", self.function.name)),
            other => other,
        }
    }

    pub(super) fn refuse<T>(&self, what: impl Into<String>) -> Result<T, Error> {
        Err(self.inside(Error::request(what)))
    }

    fn unfit(&self, place: usize, wanted: &str, found: &Expression) -> Error {
        let parameters = self.function.parameters;
        let parameter = parameters.get(place).or(parameters.last());
        let name = parameter.map_or("", |parameter| parameter.name);
        self.inside(Error::request(format!(
            "{name} is {wanted}, found {}",
            shown(found)
        )))
    }
}

impl Kind {
    /// As Graphite's list of functions calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Series => "seriesList",
            Self::Number => "float",
            Self::Whole => "integer",
            Self::Text => "string",
            Self::Flag => "boolean",
            Self::Aggregation => "aggFunc",
            Self::Interval => "interval",
            Self::Width => "intOrInterval",
            Self::Node => "node",
            Self::Any => "any",
        }
    }
}

/// Points of a moving window; more is a span.
const WIDTH_MAX: i64 = 1_000_000;
