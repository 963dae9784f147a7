//! What operators ask of a running server: how it is, who they are, its settings and its log, and that it
//! reads its configuration again.

use super::storm::{StormPlan, StormRefusal, StormView};
use crate::{
    logs::recent::{LogLine, LogQuery, RecentLog},
    web::{
        Backend, Scope,
        access::Visitor,
        api::{paging::limit, pending_commit::Rejection},
        findings::{FindingLog, Health, Surroundings},
        graph::sampler::Sampler,
        health,
        parameters::{NoParameters, Parameters},
    },
};
use axum::{
    Json, Router,
    extract::{Extension, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{self, MissedTickBehavior};
use utoipa::ToSchema;

/// What the program around the server knows and does.
pub trait OperatorApi: Send + Sync {
    /// Each setting in effect.
    fn settings(&self) -> Vec<SettingView>;

    /// Reads the configuration again. It blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// All that is wrong with the configuration; then nothing has changed.
    fn reload(&self) -> Result<ReloadReport, String>;

    /// The last lines of the log.
    fn log(&self) -> &RecentLog;

    /// The storm that lasts, or how the last one was.
    fn storm(&self) -> StormView;

    /// Begins a storm against the server.
    ///
    /// # Errors
    ///
    /// See [`StormRefusal`].
    fn start_storm(&self, plan: StormPlan) -> Result<StormView, StormRefusal>;
}

/// A setting in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SettingView {
    /// Section and name, such as `sip.listen`.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Where the value comes from: `default`, a place in the file, a variable or a flag.
    pub origin: String,
    /// What it may be.
    pub allowed: String,
    /// What it does.
    pub help: &'static str,
    /// Whether a reload changes it; else it needs a restart.
    pub live: bool,
}

/// What reading the configuration again has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReloadReport {
    /// Accounts of the configuration, which are in effect now.
    pub configured_accounts: u64,
    /// Tokens of the configuration, which are in effect now.
    pub tokens: u64,
    /// Why the certificates could not be read again; those from before are still shown.
    pub certificate_problem: Option<String>,
    /// Settings and kinds of tables that have changed, and are in effect now.
    pub changed: Vec<String>,
    /// Settings and kinds of tables that have changed and need a restart.
    pub needs_restart: Vec<String>,
}

/// The routes.
pub(in crate::web) fn router(
    backend: Arc<dyn Backend>,
    sampler: Arc<Sampler>,
    operator: Option<Arc<dyn OperatorApi>>,
    has_telephone: bool,
) -> Router {
    let desk = Desk {
        backend,
        sampler,
        operator,
        findings: Arc::default(),
        has_telephone,
    };
    tokio::spawn(look_forever(desk.clone()));
    Router::new()
        .route("/api/v1/health", get(show_health))
        .route("/api/v1/session", get(session))
        .route("/api/v1/settings", get(settings))
        .route("/api/v1/log", get(log))
        .route("/api/v1/reload", post(reload))
        .with_state(desk)
}

#[derive(Clone)]
struct Desk {
    backend: Arc<dyn Backend>,
    sampler: Arc<Sampler>,
    operator: Option<Arc<dyn OperatorApi>>,
    findings: Arc<FindingLog>,
    has_telephone: bool,
}

async fn show_health(State(desk): State<Desk>, _: Parameters<NoParameters>) -> Json<Health> {
    Json(desk.health())
}

/// So a finding is as old as it is, whether somebody asked or not. It ends with the runtime of the thread.
async fn look_forever(desk: Desk) {
    let mut ticks = time::interval(LOOK_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        desk.health();
    }
}

impl Desk {
    fn health(&self) -> Health {
        let kept = self.sampler.kept();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let around = Surroundings {
            verdict: health::verdict(self.backend.is_draining(), &kept),
            certificates: kept
                .last()
                .map_or(Vec::new(), |last| last.stats.certificates.clone()),
            certificate_problem: self.backend.certificates().and_then(|it| it.problem()),
            peers: self.backend.peers(),
            relays: self.backend.relays(),
            unix_seconds: since_1970.unwrap_or_default().as_secs(),
        };
        self.findings.health(&kept, around)
    }
}

/// Who sends a request, and what they may do.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::web) struct Session {
    /// The name of the token; null without one.
    token: Option<String>,
    /// What may be done: `read`, or `write`, which includes it.
    #[schema(value_type = String)]
    scope: Scope,
    /// The only domain that the token is for.
    domain: Option<String>,
    /// Whether the telephone for browsers is served.
    telephone: bool,
    /// The version of the program.
    version: &'static str,
}

/// Without a guard nobody is a stranger: that is the local socket.
async fn session(
    State(desk): State<Desk>,
    visitor: Option<Extension<Visitor>>,
    _: Parameters<NoParameters>,
) -> Json<Session> {
    let visitor = visitor.map_or(Visitor::local(), |Extension(visitor)| visitor);
    Json(Session {
        token: visitor.token,
        scope: visitor.scope,
        domain: visitor.domain,
        telephone: desk.has_telephone,
        version: env!("CARGO_PKG_VERSION"),
    })
}

async fn settings(State(desk): State<Desk>, _: Parameters<NoParameters>) -> Response {
    #[derive(Serialize)]
    struct SettingList {
        settings: Vec<SettingView>,
    }
    match &desk.operator {
        Some(operator) => Json(SettingList {
            settings: operator.settings(),
        })
        .into_response(),
        None => nobody(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogWanted {
    after: Option<u64>,
    limit: Option<usize>,
    level: Option<String>,
    search: Option<String>,
}

async fn log(
    State(desk): State<Desk>,
    Parameters(wanted): Parameters<LogWanted>,
) -> Result<Response, Rejection> {
    #[derive(Serialize)]
    struct LogList<'l> {
        lines: Vec<&'l LogLine>,
        /// When the first line was kept, in milliseconds since 1970: another log, other numbers.
        begun_unix_ms: u64,
    }
    let level = wanted.level.as_deref();
    if level.is_some_and(|level| !LEVELS.contains(&level)) {
        let reason = format!("level: give one of {}\n", LEVELS.join(", "));
        return Err((StatusCode::BAD_REQUEST, reason));
    }
    let query = LogQuery {
        after: wanted.after.unwrap_or(0),
        limit: limit(wanted.limit)?,
        level: level.and_then(|level| level.parse().ok()),
        text: wanted.search.filter(|text| !text.is_empty()),
    };
    Ok(match &desk.operator {
        Some(operator) => Json(LogList {
            lines: operator
                .log()
                .lines(&query)
                .iter()
                .map(|line| &**line)
                .collect(),
            begun_unix_ms: operator.log().begun_unix_ms(),
        })
        .into_response(),
        None => nobody(),
    })
}

async fn reload(State(desk): State<Desk>, _: Parameters<NoParameters>) -> Response {
    let Some(operator) = &desk.operator else {
        return nobody();
    };
    match operator.reload() {
        Ok(report) => Json(report).into_response(),
        Err(problems) => (StatusCode::CONFLICT, format!("{problems}\n")).into_response(),
    }
}

fn nobody() -> Response {
    let reason = "this server has no configuration of its own to show or to read again\n";
    (StatusCode::NOT_FOUND, reason).into_response()
}

/// How exactly it is known since when something is wrong.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
pub(in crate::web) const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
