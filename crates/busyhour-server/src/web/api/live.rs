//! What the runtime and the server hold at this moment, as lists: `busyhour show` reads
//! them, and every other program may.

use super::{
    paging::limit,
    pending_commit::{PendingCommit, Rejection, completion, rejection},
};
use crate::{
    server::{
        ALL_QUEUES, CallView, CertificateStats, ClusterNodeView, PeerView, QueueView,
        RegistrarView, RelayView, ServerStats, nanos,
    },
    web::{
        Backend,
        parameters::{NoParameters, Parameters, PathName, PathNames},
    },
};
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use busyhour::{
    buffer::{BufferPool, LiveBuffer},
    runtime::Runtime,
    stats::{BufferStats, SubscriptionStats, TopicStats, WorkerStats},
    timer::{PendingPhase, TimerKind},
};
use busyhour_store::StoreStats;
use serde::{Deserialize, Serialize};
use std::{cmp::Reverse, collections::BinaryHeap, ptr, sync::Arc, time::Duration};

/// The routes, each with a list.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route("/api/v1/queues", get(queues))
        .route("/api/v1/calls", get(calls))
        .route("/api/v1/peers", get(peers))
        .route("/api/v1/cluster", get(cluster))
        .route("/api/v1/cluster/nodes/{name}/drain", post(drain_node))
        .route(
            "/api/v1/cluster/partitions/{partition}/move/{name}",
            post(move_partition),
        )
        .route(
            "/api/v1/cluster/partitions/{partition}/release",
            post(release_partition),
        )
        .route("/api/v1/registrars", get(registrars))
        .route("/api/v1/media", get(media))
        .route("/api/v1/timers", get(timers))
        .route("/api/v1/topics", get(topics))
        .route("/api/v1/subscriptions", get(subscriptions))
        .route("/api/v1/buffers", get(buffers))
        .route("/api/v1/workers", get(workers))
        .route("/api/v1/stores", get(stores))
        .route("/api/v1/alerts", get(alerts))
        .with_state(backend)
}

type LiveState = State<Arc<dyn Backend>>;

/// How many entries of a list are wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveQuery {
    limit: Option<usize>,
}

#[derive(Serialize)]
struct QueueList {
    queues: Vec<QueueView>,
}

async fn queues(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<QueueList> {
    let queues = backend.queues();
    Json(QueueList { queues })
}

#[derive(Serialize)]
struct CallList {
    /// Those first that have been longest in their state, as many as were asked for.
    calls: Vec<CallView>,
    /// How many there are.
    call_count: u64,
}

async fn calls(
    State(backend): LiveState,
    Parameters(query): Parameters<LiveQuery>,
) -> Result<Json<CallList>, Rejection> {
    let calls = backend.calls(limit(query.limit)?);
    let call_count = backend.stats().calls.dialogs.call_count;
    Ok(Json(CallList { calls, call_count }))
}

#[derive(Serialize)]
struct PeerList {
    /// Each peer with its addresses, in the order of the configuration.
    peers: Vec<PeerView>,
}

async fn peers(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<PeerList> {
    let peers = backend.peers();
    Json(PeerList { peers })
}

#[derive(Serialize)]
struct ClusterNodeList {
    /// Each node that ever joined, by its number; none if the server is alone.
    nodes: Vec<ClusterNodeView>,
}

async fn cluster(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<ClusterNodeList> {
    let nodes = backend.cluster_nodes();
    Json(ClusterNodeList { nodes })
}

/// The answer comes after the commit and has the nodes from before; the node learns it in its next
/// beat.
async fn drain_node(
    State(backend): LiveState,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let (done, result) = completion();
    match backend.drain_node(&name, done) {
        Ok(true) => nodes_after(&*backend, result).await,
        Ok(false) => not_found(format!("no node `{name}` of this cluster lives\n")),
        Err(refused) => rejection(refused).into_response(),
    }
}

async fn move_partition(
    State(backend): LiveState,
    PathNames(partition, name): PathNames,
    _: Parameters<NoParameters>,
) -> Response {
    pin(&*backend, &partition, Some(&name)).await
}

async fn release_partition(
    State(backend): LiveState,
    PathName(partition): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    pin(&*backend, &partition, None).await
}

/// As [`drain_node`], for a partition.
async fn pin(backend: &dyn Backend, partition: &str, to: Option<&str>) -> Response {
    let Ok(partition) = partition.parse() else {
        return not_found(format!(
            "`{partition}` is no partition: give a number from 0 to 255\n"
        ));
    };
    let (done, result) = completion();
    match backend.move_partition(partition, to, done) {
        Ok(true) => nodes_after(backend, result).await,
        Ok(false) => not_found(match to {
            Some(name) => format!("no node of this cluster has the name `{name}`\n"),
            None => "this server is alone\n".to_owned(),
        }),
        Err(refused) => rejection(refused).into_response(),
    }
}

async fn nodes_after(backend: &dyn Backend, result: PendingCommit) -> Response {
    if let Err(lost) = result.settle().await {
        return lost.into_response();
    }
    let nodes = backend.cluster_nodes();
    Json(ClusterNodeList { nodes }).into_response()
}

fn not_found(text: String) -> Response {
    (StatusCode::NOT_FOUND, text).into_response()
}

#[derive(Serialize)]
struct RelayList {
    /// Each media relay, in the order of the configuration.
    media: Vec<RelayView>,
}

async fn media(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<RelayList> {
    let media = backend.relays();
    Json(RelayList { media })
}

#[derive(Serialize)]
struct RegistrarList {
    registrars: Vec<RegistrarView>,
}

async fn registrars(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<RegistrarList> {
    let registrars = backend.registrars();
    Json(RegistrarList { registrars })
}

#[derive(Serialize)]
struct TimerList {
    /// Those that are due first, as many as were asked for.
    timers: Vec<TimerView>,
    /// How many are pending.
    pending_count: usize,
}

/// A pending timer.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct TimerView {
    due_in_ns: Option<u64>,
    label: &'static str,
    phase: &'static str,
    period_ns: Option<u64>,
    owner: Option<u64>,
    executor: String,
}

/// However many timers there are, only as many as were asked for are kept.
async fn timers(
    State(backend): LiveState,
    Parameters(query): Parameters<LiveQuery>,
) -> Result<Json<TimerList>, Rejection> {
    let limit = limit(query.limit)?;
    let mut first = BinaryHeap::new();
    let mut pending_count = 0;
    if let Some(runtime) = backend.runtime() {
        let now = runtime.clock().now();
        for timer in runtime.timers().pending() {
            pending_count += 1;
            let period = match timer.kind {
                Some(TimerKind::Every(period) | TimerKind::FixedDelay(period)) => Some(period),
                _ => None,
            };
            first.push(TimerView {
                due_in_ns: timer.due.map(|due| nanos(due - now)),
                label: timer.label,
                phase: match timer.phase {
                    PendingPhase::Waiting => "waiting",
                    PendingPhase::Delivered => "delivered",
                    PendingPhase::Running => "running",
                },
                period_ns: period.map(nanos),
                owner: timer.owner,
                executor: timer.executor,
            });
            if first.len() > limit {
                first.pop();
            }
        }
    }
    Ok(Json(TimerList {
        timers: first.into_sorted_vec(),
        pending_count,
    }))
}

#[derive(Serialize)]
struct TopicList {
    topics: Vec<TopicStats>,
}

async fn topics(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<TopicList> {
    let topics = backend.stats().runtime.topics;
    Json(TopicList { topics })
}

#[derive(Serialize)]
struct SubscriptionList {
    /// Those with the longest queues first, as many as were asked for.
    subscriptions: Vec<SubscriptionStats>,
    /// How many there are.
    subscription_count: usize,
}

async fn subscriptions(
    State(backend): LiveState,
    Parameters(query): Parameters<LiveQuery>,
) -> Result<Json<SubscriptionList>, Rejection> {
    let limit = limit(query.limit)?;
    let runtime = backend.runtime();
    let mut subscriptions = runtime.map_or(Vec::new(), Runtime::subscriptions);
    let subscription_count = subscriptions.len();
    subscriptions.sort_by_key(|one| Reverse((one.queued_len, one.lost)));
    subscriptions.truncate(limit);
    Ok(Json(SubscriptionList {
        subscriptions,
        subscription_count,
    }))
}

#[derive(Serialize, Default)]
struct BufferList {
    owners: Vec<OwnerView>,
    /// The oldest buffers, the oldest first.
    oldest: Vec<LiveBufferView>,
}

/// What one owner holds, or all together.
#[derive(Serialize, Default)]
struct OwnerView {
    owner: String,
    live_count: u64,
    live_bytes: u64,
    oldest_age_ns: u64,
    /// As of its oldest buffer, if that is among the oldest of all.
    oldest_begins: Option<String>,
    /// Buffers handed out since the start; only known of all.
    allocated: Option<u64>,
    /// Those of them that were handed out by address.
    found: Option<u64>,
    /// Buffers that were pinned by address.
    pinned: Option<u64>,
}

/// A buffer in use.
#[derive(Serialize)]
struct LiveBufferView {
    owner: String,
    len_bytes: usize,
    /// Its first line, if that is text.
    begins: Option<String>,
    age_ns: u64,
    handles: u64,
    pins: u64,
    /// The functions that took it, the innermost one first, if it was traced.
    taken_in: Option<String>,
    /// The whole trace.
    trace: Option<String>,
}

async fn buffers(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<BufferList> {
    let Some(runtime) = backend.runtime() else {
        return Json(BufferList::default());
    };
    let (pool, dump) = (runtime.buffers(), runtime.buffers().dump());
    let oldest_age = dump.owners.iter().map(|usage| usage.oldest_age).max();
    let all = all_owners(&pool.stats(), oldest_age.unwrap_or_default());
    let oldest = dump.oldest.into_iter().map(|buffer| LiveBufferView {
        begins: first_line(pool, &buffer),
        owner: buffer.owner,
        len_bytes: buffer.len,
        age_ns: nanos(buffer.age),
        handles: buffer.handles,
        pins: buffer.pins,
        taken_in: buffer.trace.as_deref().map(taken_in),
        trace: buffer.trace,
    });
    let oldest: Vec<LiveBufferView> = oldest.collect();
    let owners = dump.owners.into_iter().map(|usage| {
        let first = oldest.iter().find(|buffer| buffer.owner == usage.owner);
        OwnerView {
            oldest_begins: first.and_then(|buffer| buffer.begins.clone()),
            owner: usage.owner,
            live_count: usage.live_count,
            live_bytes: usage.live_bytes,
            oldest_age_ns: nanos(usage.oldest_age),
            ..OwnerView::default()
        }
    });
    Json(BufferList {
        owners: std::iter::once(all).chain(owners).collect(),
        oldest,
    })
}

fn all_owners(stats: &BufferStats, oldest_age: Duration) -> OwnerView {
    OwnerView {
        owner: ALL_QUEUES.into(),
        live_count: stats.live_count,
        live_bytes: stats.live_bytes,
        oldest_age_ns: nanos(oldest_age),
        allocated: Some(stats.allocated),
        found: Some(stats.found),
        pinned: Some(stats.pinned),
        ..OwnerView::default()
    }
}

/// The innermost functions of the server in a trace.
fn taken_in(trace: &str) -> String {
    let functions = trace.lines().filter_map(|line| {
        let (number, function) = line.trim_start().split_once(": ")?;
        number.parse::<u32>().ok()?;
        let function = function.trim_start_matches('<');
        // Without types, closures and what the compiler has added.
        let name = function.split(['<', '{', ' ']).next()?;
        let is_ours = function.starts_with("busyhour_");
        is_ours.then(|| name.trim_end_matches("::"))
    });
    let mut functions: Vec<_> = functions.collect();
    functions.dedup();
    functions.truncate(TAKEN_IN_MAX);
    functions.join(" < ")
}

/// Holds the buffer by its address to read its first line. The pool refuses the address if
/// the buffer has been released since it was listed, or is not written yet.
fn first_line(pool: &BufferPool, listed: &LiveBuffer) -> Option<String> {
    let held = pool
        .buffer_at(ptr::without_provenance(listed.address))
        .ok()?;
    // Another buffer may be there by now.
    let bytes = Some(&*held).filter(|bytes| bytes.len() == listed.len)?;
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~');
    let text = !line.is_empty() && line.iter().all(is_text);
    let shown = &line[..line.len().min(BEGIN_CHARS_MAX)];
    text.then(|| String::from_utf8_lossy(shown).into_owned())
}

#[derive(Serialize)]
struct WorkerList {
    workers: Vec<WorkerStats>,
}

async fn workers(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<WorkerList> {
    let runtime = backend.runtime();
    let workers = runtime.map_or(Vec::new(), |runtime| runtime.pool().worker_stats());
    Json(WorkerList { workers })
}

#[derive(Serialize)]
struct StoreList {
    stores: Vec<StoreStats>,
}

async fn stores(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<StoreList> {
    let stores = vec![backend.stats().store];
    Json(StoreList { stores })
}

#[derive(Serialize)]
struct AlertList {
    alerts: Vec<AlertView>,
}

/// A limit that was reached, or a queue that is too long.
#[derive(Serialize, Default)]
struct AlertView {
    limit: String,
    /// Which queue or subscriber, where it is one of many.
    name: Option<String>,
    /// How often, since the server started.
    count: Option<u64>,
    /// Whether it lasts, if it is something that ends.
    is_active: Option<bool>,
    /// How many tasks or events wait.
    queued_len: Option<u64>,
    concerns: &'static str,
}

async fn alerts(State(backend): LiveState, _: Parameters<NoParameters>) -> Json<AlertList> {
    let stats = backend.stats();
    let mut alerts = reached(&stats);
    alerts.extend(long_queues(&stats, backend.queues()));
    let subscriptions = backend.runtime().map(Runtime::subscriptions);
    alerts.extend(slow_subscribers(subscriptions.unwrap_or_default()));
    let problem = backend.certificates().and_then(|it| it.problem());
    alerts.extend(certificates(&stats.certificates, problem));
    Json(AlertList { alerts })
}

fn reached(stats: &ServerStats) -> Vec<AlertView> {
    let of = |limits: &[(&'static str, u64)], concerns| {
        let reached = limits.iter().filter(|(_, count)| *count > 0);
        let views = reached.map(|&(limit, count)| AlertView {
            limit: limit.into(),
            count: Some(count),
            concerns,
            ..AlertView::default()
        });
        views.collect::<Vec<_>>()
    };
    let mut alerts = of(&stats.limits_of_all(), EVERYBODY);
    alerts.extend(of(&stats.limits_of_one(), ONE_CLIENT));
    alerts
}

/// Certificates that expire soon, and files that cannot be used.
fn certificates(shown: &[CertificateStats], problem: Option<String>) -> Vec<AlertView> {
    let about = |limit: String, name: Option<String>| AlertView {
        limit,
        name,
        is_active: Some(true),
        concerns: EVERYBODY,
        ..AlertView::default()
    };
    let soon = shown.iter().filter(|it| it.expires_soon());
    let soon = soon.map(|it| {
        about(
            format!("a certificate ends at {}", it.not_after),
            Some(it.name.clone()),
        )
    });
    let unused = problem.map(|problem| about(format!("certificate not reloaded: {problem}"), None));
    soon.chain(unused).collect()
}

/// The kinds of queues of which one was longer than its high watermark, and those that
/// are so now, by name.
fn long_queues(stats: &ServerStats, queues: Vec<QueueView>) -> Vec<AlertView> {
    let concerns = |kind: &str| match kind {
        "watcher" => ONE_CLIENT,
        _ => EVERYBODY,
    };
    let limit = |kind: &str, mark: u64| format!("the high watermark of {kind} ({mark} waiting)");
    let kinds = stats.queues.iter().filter(|kind| kind.alerts_raised > 0);
    let kinds = kinds.map(|kind| AlertView {
        limit: limit(kind.name, kind.high_watermark),
        count: Some(kind.alerts_raised),
        is_active: Some(kind.high_count > 0),
        concerns: concerns(kind.name),
        ..AlertView::default()
    });
    let named = queues.into_iter();
    let named = named.filter(|queue| queue.is_high == Some(true) && queue.name != ALL_QUEUES);
    let named = named.map(|queue| AlertView {
        limit: limit(queue.kind, queue.high_watermark.unwrap_or(0)),
        name: Some(queue.name),
        is_active: Some(true),
        queued_len: Some(queue.queued_len),
        concerns: concerns(queue.kind),
        ..AlertView::default()
    });
    kinds.chain(named).collect()
}

/// Those that have lost events, that lag, or whose queue is half full.
fn slow_subscribers(subscriptions: Vec<SubscriptionStats>) -> Vec<AlertView> {
    let is_active = |one: &SubscriptionStats| one.is_lagging || one.queued_len * 2 > one.capacity;
    let slow = subscriptions.into_iter();
    let slow = slow.filter(|one| one.lost > 0 || is_active(one));
    let mut slow: Vec<_> = slow.collect();
    slow.sort_by_key(|one| Reverse((is_active(one), one.queued_len, one.lost)));
    let views = slow.into_iter().take(SLOW_MAX).map(|one| AlertView {
        limit: format!("the queue of a subscriber of {}", one.topic),
        is_active: Some(is_active(&one)),
        count: Some(one.lost),
        queued_len: Some(one.queued_len),
        name: Some(one.name),
        concerns: ONE_CLIENT,
    });
    views.collect()
}

const TAKEN_IN_MAX: usize = 3;
const EVERYBODY: &str = "everybody";
const ONE_CLIENT: &str = "one client";
/// So many slow subscribers are listed; `/api/v1/subscriptions` has all of them.
const SLOW_MAX: usize = 20;
/// Enough to tell what a message is.
const BEGIN_CHARS_MAX: usize = 100;
