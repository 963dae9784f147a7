use super::{
    Error, Limits, TimeLimit,
    answer::Answer,
    data::{
        event::{Event, EventQuery},
        series::Series,
        source::{Source, Window},
    },
    find,
    functions::Evaluator,
    limits::Meter,
    paths::index::Index,
    render::{self, Format, Layout},
    request::{expression::Expression, parameters::Parameters},
    stats::{Counters, Digested, GraphiteStats, TelemetryStats},
};
use std::{sync::Arc, time::Duration};

/// The Graphite interface over some sources.
pub struct Graphite {
    sources: Vec<Arc<dyn Source>>,
    limits: Limits,
    counters: Counters,
}

impl Graphite {
    /// Serves `sources`, each request within `limits`.
    pub fn new(sources: Vec<Arc<dyn Source>>, limits: Limits) -> Self {
        let counters = Counters::default();
        Self {
            sources,
            limits,
            counters,
        }
    }

    /// Answers `/render`. `now` is in seconds since 1970. When the time is
    /// over, the sources stop reading and the request fails.
    ///
    /// # Errors
    ///
    /// See [`Error`]; each is counted.
    pub fn render(
        &self,
        parameters: &Parameters,
        now: i64,
        time: &TimeLimit,
    ) -> Result<Answer, Error> {
        Counters::count(&self.counters.renders);
        self.counted(self.rendered(parameters, now, time))
    }

    /// Answers `/metrics/find`.
    ///
    /// # Errors
    ///
    /// See [`Error`]; each is counted.
    pub fn find(&self, parameters: &Parameters) -> Result<Answer, Error> {
        Counters::count(&self.counters.lookups);
        let found = find::find(&self.indexes(), parameters, self.limits.series_max);
        self.counted(found.map(|found| Answer::json(&found)))
    }

    /// Answers `/metrics/expand`.
    ///
    /// # Errors
    ///
    /// See [`Error`]; each is counted.
    pub fn expand(&self, parameters: &Parameters) -> Result<Answer, Error> {
        Counters::count(&self.counters.lookups);
        let found = find::expand(&self.indexes(), parameters, self.limits.series_max);
        self.counted(found.map(|found| Answer::json(&found)))
    }

    /// Answers `/metrics/index.json`: every path.
    pub fn index(&self) -> Answer {
        Counters::count(&self.counters.lookups);
        Answer::json(&find::list(&self.indexes()))
    }

    /// Answers `/functions`: what targets may call.
    pub fn functions(&self) -> Answer {
        Answer::json(&find::functions())
    }

    /// Answers `/version`: the version of Graphite whose interface this is.
    pub fn version(&self) -> Answer {
        Answer {
            content_type: "text/plain; charset=utf-8",
            body: VERSION.into(),
            digested: None,
        }
    }

    /// Answers `/events/get_data`: what happened, in the order of time. Without `from` it
    /// is what happened in the last day. `tags` are words that an event must have; with
    /// `set=union` one of them is enough.
    ///
    /// # Errors
    ///
    /// See [`Error`]; each is counted.
    pub fn events(
        &self,
        parameters: &Parameters,
        now: i64,
        time: &TimeLimit,
    ) -> Result<Answer, Error> {
        Counters::count(&self.counters.lookups);
        self.counted(self.happened(parameters, now, time))
    }

    fn happened(
        &self,
        parameters: &Parameters,
        now: i64,
        time: &TimeLimit,
    ) -> Result<Answer, Error> {
        let query = EventQuery {
            window: window(parameters, now)?,
            tags: parameters
                .all("tags")
                .flat_map(str::split_whitespace)
                .map(str::to_owned)
                .collect(),
            any_tag: parameters.get("set") == Some("union"),
            count_max: self.limits.events_max,
        };
        let meter = Meter::new(&self.limits, time);
        meter.range(query.window.from, query.window.until)?;
        let mut events = Vec::new();
        for source in &self.sources {
            let _ = source.index();
            events.append(&mut source.events(&query, time)?);
            meter.time()?;
        }
        let (count, max) = (events.len(), query.count_max);
        if count > max {
            let what =
                format!("{count} events (at most {max}); shorten the time range, or give tags");
            return Err(Error::TooLarge(super::Limit::Points, what));
        }
        events.sort_by(|a: &Event, b| (a.when, &a.what, &a.data).cmp(&(b.when, &b.what, &b.data)));
        events.dedup();
        let numbered = events.into_iter().enumerate().map(|(at, event)| {
            serde_json::json!({
                "id": at + 1, "when": event.when, "what": event.what, "data": event.data,
                "tags": event.tags,
            })
        });
        Ok(Answer::json(&numbered.collect()))
    }

    /// Counts a request that was turned away before it came here.
    pub fn count_busy(&self) {
        self.counters.busy();
    }

    /// Counts what a view was made of, and that it took `duration`.
    pub fn count_digest(&self, digested: Digested, duration: Duration) {
        self.counters.digested(digested, duration);
    }

    /// Counters of requests and refusals, with the statistics of `telemetry`.
    pub fn stats(&self, telemetry: TelemetryStats) -> GraphiteStats {
        let mut rings = self.sources.iter();
        GraphiteStats {
            pmcd: rings.find_map(|source| source.ring()).unwrap_or_default(),
            ..self.counters.stats(telemetry)
        }
    }

    fn rendered(
        &self,
        parameters: &Parameters,
        now: i64,
        time: &TimeLimit,
    ) -> Result<Answer, Error> {
        let format = Format::of(parameters)?;
        let layout = Layout::of(parameters)?;
        let window = window(parameters, now)?;
        let mut evaluator = Evaluator::new(&self.sources, &self.limits, time);
        let mut all: Vec<Series> = Vec::new();
        for target in self.targets(parameters)? {
            all.append(&mut evaluator.evaluate(&target, window)?);
        }
        evaluator.hold_bytes(format.bytes(&all, &layout))?;
        let digested = Some(evaluator.digested());
        let answer = render::render(format, all, &layout, window)?;
        Ok(Answer { digested, ..answer })
    }

    fn targets(&self, parameters: &Parameters) -> Result<Vec<Expression>, Error> {
        let targets: Vec<&str> = parameters
            .all("target")
            .filter(|target| !target.is_empty())
            .collect();
        let (found, max) = (targets.len(), self.limits.targets_max);
        if found > max {
            let what = format!("{found} targets (at most {max}); split the request");
            return Err(Error::TooLarge(super::Limit::Series, what));
        }
        targets
            .iter()
            .map(|target| Expression::parse(target, &self.limits))
            .collect()
    }

    fn indexes(&self) -> Vec<Arc<Index>> {
        self.sources.iter().map(|source| source.index()).collect()
    }

    fn counted(&self, outcome: Result<Answer, Error>) -> Result<Answer, Error> {
        outcome.inspect_err(|error| self.counters.failed(error))
    }
}

/// From the earlier of `from` and `until` to the later, as Graphite has it.
fn window(parameters: &Parameters, now: i64) -> Result<Window, Error> {
    if let Some(zone) = parameters.get("tz").filter(|zone| !UTC.contains(zone)) {
        let what = format!("tz: `{zone}` is not known here; leave it out: all times are in UTC");
        return Err(Error::Request(what));
    }
    let from = parameters.time("from", "-1d", now)?;
    let until = parameters.time("until", "now", now)?;
    if from == until {
        return Err(Error::request(
            "from and until are the same time; leave some between them",
        ));
    }
    Ok(Window {
        from: from.min(until),
        until: from.max(until),
    })
}

const VERSION: &str = "1.1.10";
const UTC: [&str; 4] = ["UTC", "Etc/UTC", "GMT", "Zulu"];
