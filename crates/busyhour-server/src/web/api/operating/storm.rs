//! A small storm against the server itself: begun, watched.

use super::operator::OperatorApi;
use crate::web::{
    api::body,
    parameters::{NoParameters, Parameters},
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;
use utoipa::ToSchema;

/// What a storm does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StormPlan {
    /// How many devices register, each once.
    #[schema(minimum = 1, maximum = 2000)]
    pub devices: u32,
    /// Over how many seconds.
    #[schema(minimum = 1, maximum = 60)]
    pub seconds: u32,
    /// How many subscriptions watch them.
    #[schema(minimum = 0, maximum = 2000)]
    pub watchers: u32,
}

/// A storm, and how it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct StormView {
    /// Whether it lasts.
    pub is_running: bool,
    /// What it does; null if there was none since the start.
    pub plan: Option<StormPlan>,
    /// When it began, in milliseconds since 1970.
    pub begun_unix_ms: Option<u64>,
    /// What it met, as `busyhour storm --json` tells it.
    #[schema(value_type = Option<Object>)]
    pub report: Option<Value>,
    /// Why there is no report.
    pub problem: Option<String>,
}

/// Why no storm begins.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StormRefusal {
    /// One lasts.
    #[error("a storm lasts; wait until it is over")]
    Running,
    /// Nobody can be asked over UDP.
    #[error("the server takes no SIP over UDP; set sip.listen")]
    NoTarget,
    /// The system gives no thread.
    #[error("no thread can be started: {0}")]
    NoThread(String),
}

impl Default for StormPlan {
    fn default() -> Self {
        Self {
            devices: 200,
            seconds: 10,
            watchers: 0,
        }
    }
}

impl StormPlan {
    fn mistake(self) -> Option<&'static str> {
        match self {
            _ if !(1..=DEVICES_MAX).contains(&self.devices) => Some(
                "devices: give a whole number from 1 to 2000; `busyhour storm` makes larger ones",
            ),
            _ if !(1..=SECONDS_MAX).contains(&self.seconds) => {
                Some("seconds: give a whole number from 1 to 60")
            }
            _ if self.watchers > self.devices => {
                Some("watchers: give no more than there are devices")
            }
            _ => None,
        }
    }
}

/// The route.
pub(in crate::web) fn router(operator: Option<Arc<dyn OperatorApi>>) -> Router {
    Router::new()
        .route("/api/v1/storm", get(show).post(start))
        .with_state(operator)
}

type Operator = State<Option<Arc<dyn OperatorApi>>>;

async fn show(State(operator): Operator, _: Parameters<NoParameters>) -> Response {
    match operator {
        Some(operator) => Json(operator.storm()).into_response(),
        None => nobody(),
    }
}

async fn start(State(operator): Operator, _: Parameters<NoParameters>, body: Bytes) -> Response {
    let plan = match body::object_or_nothing::<StormPlan>(&body) {
        Ok(plan) => plan,
        Err(rejection) => return rejection.into_response(),
    };
    if let Some(mistake) = plan.mistake() {
        return (StatusCode::BAD_REQUEST, format!("{mistake}\n")).into_response();
    }
    let Some(operator) = operator else {
        return nobody();
    };
    match operator.start_storm(plan) {
        Ok(storm) => (StatusCode::CREATED, Json(storm)).into_response(),
        Err(refusal) => (StatusCode::CONFLICT, format!("{refusal}\n")).into_response(),
    }
}

fn nobody() -> Response {
    let reason = "the program around this server makes no storms\n";
    (StatusCode::NOT_FOUND, reason).into_response()
}

const DEVICES_MAX: u32 = 2000;
const SECONDS_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_small() {
        let plan = StormPlan::default();
        assert_eq!(plan.mistake(), None);
        for (wrong, field) in [
            (
                StormPlan {
                    devices: 2001,
                    ..plan
                },
                "devices",
            ),
            (StormPlan { devices: 0, ..plan }, "devices"),
            (
                StormPlan {
                    seconds: 61,
                    ..plan
                },
                "seconds",
            ),
            (
                StormPlan {
                    watchers: 201,
                    ..plan
                },
                "watchers",
            ),
        ] {
            assert!(wrong.mistake().unwrap().starts_with(field));
        }
    }
}
