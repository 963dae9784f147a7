use crate::server::{
    AddressOwner, DevicePage, DeviceQuery, DeviceView, NodeSilence, OnNodeAnswer, OnNodeQuestion,
    QueueView, RemovalListener, ServerStats, WatcherPage,
};
use crate::web::{
    Access, AccountsApi, Backend, BindingPage, CertificatesApi, WebhooksApi,
    connection::{in_progress::InProgress, load::Load},
    on_worker::Portions,
};
use busyhour::{
    clock::Clock,
    pool::TaskPool,
    runtime::Runtime,
    timer::{TimerHandle, Timers},
};
use busyhour_graphite::{
    Answer, Digested, Error, Graphite, GraphiteStats, Limits, Parameters, Source, Telemetry,
    TelemetryOptions, TimeLimit,
};
use busyhour_store::{Completion, Refused};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, oneshot},
    time,
};

/// The Graphite interface. Its requests run on the pool's workers, a few at a time,
/// so that a large request neither delays the pages nor keeps every worker busy.
pub struct Graphs {
    graphite: Graphite,
    telemetry: Arc<Telemetry>,
    pool: TaskPool,
    clock: Clock,
    timers: Timers,
    options: GraphOptions,
    places: Arc<Semaphore>,
    /// Requests that wait for a place, and those that have one.
    waiting: InProgress,
    running: InProgress,
}

/// The limits of the Graphite interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphOptions {
    /// The limits of one request.
    pub limits: Limits,
    /// The longest time of one request, from its arrival.
    pub duration_max: Duration,
    /// Requests that run at a time; other requests wait.
    pub running_max: usize,
    /// The server's own values.
    pub telemetry: TelemetryOptions,
}

/// Why a request got no result.
#[derive(Debug)]
pub(in crate::web) enum RenderFailure {
    /// An error in the request or in its evaluation.
    Graphite(Error),
    /// All places are taken, or the server is shutting down.
    Busy,
    /// The task that should have answered it panicked.
    Lost,
}

/// Takes samples until it is dropped.
pub(in crate::web) struct GraphSampling {
    timers: Timers,
    timer: TimerHandle,
}

type Ask = fn(&Graphite, &Parameters, i64, &TimeLimit) -> Result<Answer, Error>;

impl Graphs {
    /// The interface over the server's own values and `sources`.
    pub fn new(
        runtime: &Runtime,
        options: GraphOptions,
        mut sources: Vec<Arc<dyn Source>>,
    ) -> Arc<Self> {
        let telemetry = Arc::new(Telemetry::new(options.telemetry));
        sources.insert(0, telemetry.clone());
        Arc::new(Self {
            graphite: Graphite::new(sources, options.limits.clone()),
            telemetry,
            pool: runtime.pool().clone(),
            clock: runtime.clock().clone(),
            timers: runtime.timers().clone(),
            places: Arc::new(Semaphore::new(options.running_max.max(1))),
            waiting: InProgress::default(),
            running: InProgress::default(),
            options,
        })
    }

    /// Takes a sample of the snapshot now, and then one after every step.
    pub(in crate::web) fn sample(self: &Arc<Self>, backend: Arc<dyn Backend>) -> GraphSampling {
        let (telemetry, clock) = (self.telemetry.clone(), self.clock.clone());
        let take = move || {
            let now = seconds(&clock);
            // The snapshot contains only plain numbers and texts, so it can always be
            // serialized.
            telemetry.record(
                now,
                &serde_json::to_value(backend.stats()).unwrap_or_default(),
            );
        };
        take();
        let step = u64::try_from(self.options.telemetry.step_seconds)
            .unwrap_or(1)
            .max(1);
        let timer = self
            .timers
            .every(Duration::from_secs(step), &self.pool, take);
        let timers = self.timers.clone();
        GraphSampling { timers, timer }
    }

    /// Runs one request on the pool.
    pub(in crate::web) async fn ask(
        self: Arc<Self>,
        parameters: Parameters,
        ask: Ask,
    ) -> Result<Answer, RenderFailure> {
        let deadline = self.clock.now() + self.options.duration_max;
        let place = time::timeout(
            self.options.duration_max,
            self.places.clone().acquire_owned(),
        );
        let view = view_of(&parameters);
        let waiting = self.waiting.begin(&view);
        let Ok(Ok(place)) = place.await else {
            self.graphite.count_busy();
            return Err(RenderFailure::Busy);
        };
        drop(waiting);
        let (answer, answered) = oneshot::channel();
        let graphs = self.clone();
        let task = move || {
            // The place stays taken until the task ends, even if the client has gone.
            let _place = place;
            let _running = graphs.running.begin(&view);
            let (now, clock) = (seconds(&graphs.clock), graphs.clock.clone());
            let time = TimeLimit::new(move || clock.now() > deadline);
            let begin = graphs.clock.now();
            // It may last for seconds: another thread takes the worker's place.
            let ask = || ask(&graphs.graphite, &parameters, now, &time);
            let outcome = graphs.pool.blocking(ask);
            if let Some(digested) = outcome.as_ref().ok().and_then(|answer| answer.digested) {
                graphs.note_digest(&parameters, digested, graphs.clock.now() - begin);
            }
            // The client may be gone.
            let _ = answer.send(outcome);
        };
        if self.pool.try_push(task).is_err() {
            self.graphite.count_busy();
            return Err(RenderFailure::Busy);
        }
        answered
            .await
            .map_err(|_| RenderFailure::Lost)?
            .map_err(RenderFailure::Graphite)
    }

    /// Counts and logs what a view was made of.
    fn note_digest(&self, parameters: &Parameters, digested: Digested, duration: Duration) {
        self.graphite.count_digest(digested, duration);
        let Digested { metrics, values } = digested;
        let duration_ms = duration.as_micros() as f64 / 1e3;
        let view = view_of(parameters);
        tracing::info!(
            metrics,
            values,
            duration_ms,
            ?view,
            event = "archives_digested",
            "digested {metrics} metrics in {duration_ms} ms"
        );
    }

    /// The parts that need no evaluation.
    pub(in crate::web) fn graphite(&self) -> &Graphite {
        &self.graphite
    }

    fn stats(&self) -> GraphiteStats {
        self.graphite.stats(self.telemetry.stats())
    }

    /// The requests that wait for their turn, and those that are evaluated.
    fn queues(&self) -> [QueueView; 2] {
        let of = |requests: &InProgress, name: &str| QueueView {
            kind: "graphite",
            ..requests.queue(name)
        };
        let waiting = of(&self.waiting, "waiting");
        [
            QueueView {
                oldest_waiting_ns: Some(waiting.running_for_ns.unwrap_or(0)),
                running: None,
                running_for_ns: None,
                refused: Some(self.stats().refused_busy),
                ..waiting
            },
            QueueView {
                capacity: Some(self.options.running_max as u64),
                ..of(&self.running, "evaluated")
            },
        ]
    }
}

impl Drop for GraphSampling {
    fn drop(&mut self) {
        // A sample that is being taken now is still recorded.
        let _ = self.timers.cancel(&self.timer);
    }
}

/// A backend whose snapshot includes the counts of the Graphite interface.
pub(in crate::web) struct Charted {
    pub(in crate::web) backend: Arc<dyn Backend>,
    pub(in crate::web) graphs: Arc<Graphs>,
    pub(in crate::web) access: Arc<Access>,
    pub(in crate::web) load: Arc<Load>,
    pub(in crate::web) local_load: Arc<Load>,
    pub(in crate::web) certificates: Option<Arc<dyn CertificatesApi>>,
}

impl Backend for Charted {
    fn stats(&self) -> ServerStats {
        ServerStats {
            graphite: self.graphs.stats(),
            http: crate::server::HttpStats {
                refused_local: self.local_load.refused_connections(),
                ..self.load.stats(self.access.stats())
            },
            ..self.backend.stats()
        }
    }

    fn bindings(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> BindingPage {
        self.backend.bindings(after, limit, domain)
    }

    fn bindings_of(&self, user: &str) -> BindingPage {
        self.backend.bindings_of(user)
    }

    fn address_of_record(&self, text: &str) -> Option<String> {
        self.backend.address_of_record(text)
    }

    fn owner_of(&self, aor: &str) -> AddressOwner {
        self.backend.owner_of(aor)
    }

    fn tell_of_owner(&self, aor: &str, is_of_node: bool, told: Box<dyn FnOnce() + Send>) {
        self.backend.tell_of_owner(aor, is_of_node, told);
    }

    fn has_lease(&self) -> bool {
        self.backend.has_lease()
    }

    fn ask_node(
        &self,
        node: &str,
        question: Vec<u8>,
        done: OnNodeAnswer,
    ) -> Result<(), NodeSilence> {
        self.backend.ask_node(node, question, done)
    }

    fn hear_nodes(&self, hear: OnNodeQuestion) {
        self.backend.hear_nodes(hear);
    }

    fn bindings_at(&self, aor: &str) -> BindingPage {
        self.backend.bindings_at(aor)
    }

    fn find_devices(&self, query: DeviceQuery) -> Portions<DevicePage> {
        self.backend.find_devices(query)
    }

    fn device(&self, aor: &str) -> Option<DeviceView> {
        self.backend.device(aor)
    }

    fn find_watchers(&self, text: Option<&str>, after: Option<u64>, limit: usize) -> WatcherPage {
        self.backend.find_watchers(text, after, limit)
    }

    fn remove_bindings(&self, aor: &str, contact: Option<&str>, listener: RemovalListener) {
        self.backend.remove_bindings(aor, contact, listener);
    }

    fn queues(&self) -> Vec<QueueView> {
        let mut queues = self.backend.queues();
        queues.extend(self.load.queues());
        queues.extend(self.local_load.queues());
        queues.extend(self.graphs.queues());
        queues
    }

    fn calls(&self, limit: usize) -> Vec<crate::server::CallView> {
        self.backend.calls(limit)
    }

    fn call_records(
        &self,
        query: &busyhour_store::CallRecordQuery,
    ) -> Result<Vec<busyhour_store::CallRecordRow>, String> {
        self.backend.call_records(query)
    }

    fn trace(
        &self,
        request: crate::server::TraceRequest,
        listener: crate::server::TraceListener,
    ) -> Option<crate::server::Trace> {
        self.backend.trace(request, listener)
    }

    fn certificates(&self) -> Option<&dyn CertificatesApi> {
        self.certificates.as_deref()
    }

    fn drain_node(&self, name: &str, done: Completion) -> Result<bool, Refused> {
        self.backend.drain_node(name, done)
    }

    fn move_partition(
        &self,
        partition: u8,
        to: Option<&str>,
        done: Completion,
    ) -> Result<bool, Refused> {
        self.backend.move_partition(partition, to, done)
    }

    fn cluster_nodes(&self) -> Vec<crate::server::ClusterNodeView> {
        self.backend.cluster_nodes()
    }

    fn peers(&self) -> Vec<crate::server::PeerView> {
        self.backend.peers()
    }

    fn relays(&self) -> Vec<crate::server::RelayView> {
        self.backend.relays()
    }

    fn changes(
        &self,
        request: crate::server::ChangeRequest,
    ) -> Option<crate::server::ChangeReader> {
        self.backend.changes(request)
    }

    fn runtime(&self) -> Option<&Runtime> {
        self.backend.runtime()
    }

    fn is_draining(&self) -> bool {
        self.backend.is_draining()
    }

    fn accounts(&self) -> Option<&dyn AccountsApi> {
        self.backend.accounts()
    }

    fn registrars(&self) -> Vec<crate::server::RegistrarView> {
        self.backend.registrars()
    }

    fn webhooks(&self) -> Option<&dyn WebhooksApi> {
        self.backend.webhooks()
    }

    fn tenants(&self) -> Option<&dyn crate::web::TenantsApi> {
        self.backend.tenants()
    }

    fn failures(&self, user: Option<&str>, limit: usize) -> Vec<crate::server::FailureView> {
        self.backend.failures(user, limit)
    }

    fn api(&self) -> Option<Arc<dyn crate::web::SettingsApi>> {
        self.backend.api()
    }
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            duration_max: Duration::from_secs(30),
            running_max: 2,
            telemetry: TelemetryOptions::default(),
        }
    }
}

/// The first target, by which a person recognises the view.
fn view_of(parameters: &Parameters) -> String {
    let view = parameters.all("target").next().unwrap_or_default();
    view.chars().take(TARGET_CHARS_MAX).collect()
}

fn seconds(clock: &Clock) -> i64 {
    i64::try_from(clock.unix_time().as_secs()).unwrap_or(i64::MAX)
}

/// Enough of the first target of a view to find it in a dashboard.
const TARGET_CHARS_MAX: usize = 200;
