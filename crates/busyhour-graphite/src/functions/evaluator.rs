use crate::{
    Call, Digested, Error, Expression, Limit, Limits, Series, Source, TimeLimit, Window,
    limits::{BYTES_PER_POINT, Meter},
    paths::index,
};
use std::sync::Arc;

/// Evaluates the targets of one request within its limits.
pub(crate) struct Evaluator<'a> {
    sources: &'a [Arc<dyn Source>],
    meter: Meter<'a>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(
        sources: &'a [Arc<dyn Source>],
        limits: &'a Limits,
        time: &'a TimeLimit,
    ) -> Self {
        let meter = Meter::new(limits, time);
        Self { sources, meter }
    }

    /// The series that `expression` stands for in `window`.
    pub(crate) fn evaluate(
        &mut self,
        expression: &Expression,
        window: Window,
    ) -> Result<Vec<Series>, Error> {
        // A function may evaluate an argument twice, and so may those within it.
        self.meter.time()?;
        match expression {
            Expression::Path(path) => self.fetch(path, window),
            Expression::Call(call) => self.call(call, window),
            other => {
                let what = format!("expected a path or a function, found {}", shown(other));
                Err(Error::Request(what))
            }
        }
    }

    /// What was fetched so far.
    pub(crate) fn digested(&self) -> Digested {
        self.meter.digested()
    }

    /// Before a function makes `count` new values.
    pub(crate) fn hold(&mut self, count: usize) -> Result<(), Error> {
        self.meter
            .bytes((count as u64).saturating_mul(BYTES_PER_POINT))
    }

    /// Before an answer of about `count` bytes is written.
    pub(crate) fn hold_bytes(&mut self, count: u64) -> Result<(), Error> {
        self.meter.bytes(count)
    }

    fn call(&mut self, call: &Call, window: Window) -> Result<Vec<Series>, Error> {
        let function = super::named(&call.name)?;
        super::check(function, call)?;
        let made = (function.apply)(self, &super::Arguments::new(function, call, window))?;
        for series in &made {
            self.name(series)?;
        }
        Ok(made)
    }

    /// Names grow with each call around them, some to twice their length.
    fn name(&mut self, series: &Series) -> Result<(), Error> {
        let len = series.name.len().max(series.expression.len());
        if len > NAME_LEN_MAX {
            let what = format!(
                "the name of a series would have {len} bytes (at most {NAME_LEN_MAX}); put alias() around it"
            );
            return Err(Error::TooLarge(Limit::Memory, what));
        }
        self.meter.bytes(2 * len as u64)
    }

    fn fetch(&mut self, expression: &str, window: Window) -> Result<Vec<Series>, Error> {
        self.meter.range(window.from, window.until)?;
        let mut fetched = Vec::new();
        for source in self.sources {
            let paths = index::matching(&source.index(), expression)?;
            self.meter.series(paths.len() as u64)?;
            for path in &paths {
                self.meter.points(source.len(path, window))?;
            }
            let points = source.fetch(&paths, window, self.meter.time_limit())?;
            let named = paths.iter().zip(points);
            fetched.extend(named.map(|(path, points)| Series::fetched(path, expression, points)));
        }
        match self.refusal(expression).filter(|_| fetched.is_empty()) {
            Some(refusal) => Err(Error::Request(refusal)),
            None => Ok(fetched),
        }
    }

    /// A pattern leaves out what has no values; a path that is named is refused.
    fn refusal(&self, expression: &str) -> Option<String> {
        if expression.contains(['*', '?', '[', '{']) {
            return None;
        }
        let mut sources = self.sources.iter();
        sources.find_map(|source| source.refusal(expression))
    }
}

/// Longer than what combines ten thousand series by patterns.
const NAME_LEN_MAX: usize = 64 << 10;

/// An argument, for a message about it.
pub(crate) fn shown(expression: &Expression) -> String {
    match expression {
        Expression::Path(path) => format!("`{path}`"),
        Expression::Call(call) => format!("{}(…)", call.name),
        Expression::Number(number, _) => format!("the number {number}"),
        Expression::Text(text) => format!("the text '{text}'"),
        Expression::Flag(flag) => flag.to_string(),
        Expression::Nothing => "None".into(),
    }
}
