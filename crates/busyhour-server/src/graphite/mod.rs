//! Graphite's HTTP interface without the HTTP: a request's parameters go in,
//! an [`Answer`] comes out. No clock, thread or socket; data comes through the
//! [`Source`] trait, and every request has [`Limits`].
//!
//! The way of a `/render`:
//!
//! 1. [`Parameters`]: the pairs of the URL and of the form.
//! 2. `time`: `from` and `until` in Graphite's grammar, in UTC.
//! 3. [`Expression`]: each `target` is parsed, no deeper than allowed.
//! 4. `evaluator`: paths are matched with `glob` and fetched from the sources;
//!    `functions` has what can be done with [`Series`].
//! 5. `render`: JSON, raw, CSV, PNG or SVG.
//!
//! Semantics are those of Graphite 1.1: its documentation (*The Render URL
//! API*, *The Metrics API*, *Functions*) is the reference for names of results,
//! for missing values and for consolidation.
//!
//! ```
//! use busyhour_server::graphite::{Graphite, Limits, Parameters, Points, Recorded};
//! use std::sync::Arc;
//!
//! let recorded = Recorded::new([("web.1.hits", Points::new(60, 60, [Some(1.0), Some(2.0)]))]);
//! let graphite = Graphite::new(vec![Arc::new(recorded)], Limits::default());
//! let query = "target=scale(web.*.hits,10)&from=-3min&until=-1min&format=json";
//! let answer = graphite.render(&Parameters::parse(query, b""), 180, &|| false).unwrap();
//! let body = String::from_utf8(answer.body).unwrap();
//! assert!(body.contains(r#""target":"scale(web.1.hits,10)""#));
//! assert!(body.contains(r#""datapoints":[[10.0,60],[20.0,120]]"#));
//! ```

mod aggregation;
mod answer;
mod calendar;
mod error;
mod evaluator;
mod expression;
mod find;
mod functions;
mod glob;
mod index;
mod limits;
mod node;
mod parameters;
mod parser;
mod recorded;
mod render;
mod series;
mod source;
mod stats;
mod telemetry;
mod time;

pub use answer::{Answer, Graphite};
pub use error::{Error, Limit};
pub use expression::{Argument, Call, Expression};
pub use index::Index;
pub use limits::Limits;
pub use node::{node, unescaped};
pub use parameters::Parameters;
pub use recorded::Recorded;
pub(crate) use render::{Line, chart, pieces};
pub use series::Series;
pub use source::{Points, Source, Window};
pub use stats::GraphiteStats;
pub use telemetry::{Telemetry, TelemetryOptions};
pub use time::{parse_interval, parse_time};
