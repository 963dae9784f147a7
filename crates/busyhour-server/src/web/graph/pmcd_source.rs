use super::{
    pmcd_address::PmcdAddress,
    pmcd_stream::{PmcdShutdown, PmcdStream},
};
use busyhour::clock::{Clock, UnixTime};
use busyhour_graphite::{
    Error, Index, Points, Source, Telemetry, TelemetryOptions, TelemetryStats, TimeLimit, Window,
    node,
};
use busyhour_pcp::{LiveAction, LiveLimits, LiveSample, LiveValue, PmcdClient, Semantics};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The values of a running `pmcd`: `pmcd.<metric>.<instance>`, counters as rates.
///
/// One thread, `bh-pmcd`, asks for a sample at every step and keeps it in a ring of
/// bounded memory. When `pmcd` is gone it logs that once, and tries again at every step;
/// the series have gaps there. Dropping the source ends the thread.
pub struct PmcdSource {
    ring: Arc<Telemetry>,
    stop: Option<Sender<()>>,
    connection: LivePmcd,
    thread: Option<JoinHandle<()>>,
}

/// The connection of the moment, which the end of the source shuts down.
type LivePmcd = Arc<Mutex<Option<PmcdShutdown>>>;

/// What the thread works with.
struct PmcdSampler {
    address: PmcdAddress,
    prefix: String,
    step: Duration,
    ring: Arc<Telemetry>,
    clock: Clock,
    stop: Receiver<()>,
    connection: LivePmcd,
    counters: LiveCounters,
}

/// The counters of the last sample, by metric and instance.
#[derive(Default)]
struct LiveCounters {
    time: UnixTime,
    values: HashMap<(u32, i32), f64>,
}

/// Why a conversation has ended.
enum PmcdEnd {
    Stopped,
    Failed(String),
}

impl PmcdSource {
    /// Samples the metrics whose names begin with `prefix` of the `pmcd` at `address`.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        address: PmcdAddress,
        prefix: &str,
        options: TelemetryOptions,
        clock: &Clock,
    ) -> io::Result<Self> {
        let ring = Arc::new(Telemetry::new(options));
        let (stop, stopped) = mpsc::channel();
        let connection = LivePmcd::default();
        let step = u64::try_from(options.step_seconds).unwrap_or(1).max(1);
        let sampler = PmcdSampler {
            address,
            prefix: prefix.to_owned(),
            step: Duration::from_secs(step),
            ring: ring.clone(),
            clock: clock.clone(),
            stop: stopped,
            connection: connection.clone(),
            counters: LiveCounters::default(),
        };
        let thread = thread::Builder::new().name(THREAD.into());
        Ok(Self {
            ring,
            stop: Some(stop),
            connection,
            thread: Some(thread.spawn(move || sampler.run())?),
        })
    }
}

impl Source for PmcdSource {
    fn index(&self) -> Arc<Index> {
        self.ring.index()
    }

    fn len(&self, path: &str, window: Window) -> u64 {
        self.ring.len(path, window)
    }

    fn fetch(
        &self,
        paths: &[Arc<str>],
        window: Window,
        time: &TimeLimit,
    ) -> Result<Vec<Points>, Error> {
        self.ring.fetch(paths, window, time)
    }

    fn ring(&self) -> Option<TelemetryStats> {
        Some(self.ring.stats())
    }
}

impl Drop for PmcdSource {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that connects after this looks at `stop` before it reads.
        if let Some(connection) = &*lock(&self.connection) {
            connection.shut();
        }
        if let Some(thread) = self.thread.take() {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }
}

impl PmcdSampler {
    fn run(mut self) {
        let mut last_problem = String::new();
        loop {
            match self.converse(&mut last_problem) {
                Err(PmcdEnd::Stopped) | Ok(()) => return,
                Err(PmcdEnd::Failed(problem)) if problem != last_problem => {
                    tracing::warn!(pmcd = %self.address, %problem, "pmcd is not sampled");
                    last_problem = problem;
                }
                Err(PmcdEnd::Failed(_)) => {}
            }
            *lock(&self.connection) = None;
            // Where it left a gap there is no growth.
            self.counters = LiveCounters::default();
            if self.wait(self.step).is_err() {
                return;
            }
        }
    }

    /// Connects, and samples until something fails.
    fn converse(&mut self, last_problem: &mut String) -> Result<(), PmcdEnd> {
        let mut stream = PmcdStream::connect(&self.address, &self.clock)?;
        *lock(&self.connection) = Some(stream.shutdown()?);
        let mut client = PmcdClient::new(&self.prefix, LiveLimits::default());
        let mut bytes = vec![0; READ_BYTES];
        let mut due = self.clock.now();
        loop {
            if self.stop.try_recv() != Err(TryRecvError::Empty) {
                return Err(PmcdEnd::Stopped);
            }
            for action in client.receive(stream.read(&mut bytes)?)? {
                match action {
                    LiveAction::Send(bytes) => stream.write(&bytes)?,
                    LiveAction::Ready => {
                        let metrics = client.metrics().len();
                        let (left_out, instances) =
                            (client.left_out(), client.left_out_instances());
                        tracing::debug!(
                            pmcd = %self.address, metrics, left_out, left_out_instances = instances,
                            "pmcd told its metrics"
                        );
                    }
                    LiveAction::Sample(sample) => {
                        self.record(&client, &sample);
                        if !last_problem.is_empty() {
                            tracing::info!(pmcd = %self.address, "pmcd is sampled again");
                            last_problem.clear();
                        }
                    }
                }
            }
            if client.is_ready() {
                self.wait(due - self.clock.now())?;
                due = self.clock.now().max(due) + self.step;
                stream.write(&client.fetch().unwrap_or_default())?;
            }
        }
    }

    fn wait(&self, duration: Duration) -> Result<(), PmcdEnd> {
        match self.stop.recv_timeout(duration) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(PmcdEnd::Stopped),
        }
    }

    /// Keeps the values at the server's own time: both clocks may differ.
    fn record(&mut self, client: &PmcdClient, sample: &LiveSample) {
        let counters = LiveCounters::of(client, sample);
        let before = std::mem::replace(&mut self.counters, counters);
        let seconds = self.counters.seconds_since(&before);
        let of_value = |found: &LiveValue| match self.counters.values.get(&key(found)) {
            None => Some(found.value),
            Some(now) => {
                let grown = before.values.get(&key(found));
                let grown = grown.map(|before| (now - before) / seconds);
                grown.filter(|grown| grown.is_finite() && *grown >= 0.0)
            }
        };
        let values = sample.values.iter().flat_map(|found| {
            let value = of_value(found);
            let named = value.map(|value| paths(client, found).map(move |path| (path, value)));
            named.into_iter().flatten()
        });
        let now = i64::try_from(self.clock.unix_time().as_secs()).unwrap_or(i64::MAX);
        self.ring.record_values(now, values);
    }
}

impl LiveCounters {
    fn of(client: &PmcdClient, sample: &LiveSample) -> Self {
        let is_counter = |found: &&LiveValue| {
            let metric = client.metric(found.metric);
            metric.is_some_and(|metric| metric.semantics == Semantics::Counter)
        };
        let counters = sample.values.iter().filter(is_counter);
        Self {
            time: sample.time,
            values: counters.map(|found| (key(found), found.value)).collect(),
        }
    }

    fn seconds_since(&self, before: &Self) -> f64 {
        let nanos = (self.time.as_nanos()).saturating_sub(before.time.as_nanos());
        Duration::from_nanos(nanos).as_secs_f64()
    }
}

fn key(value: &LiveValue) -> (u32, i32) {
    (value.metric.0, value.instance)
}

/// One for each name of the metric; none for an instance that has no name (yet).
fn paths(client: &PmcdClient, value: &LiveValue) -> impl Iterator<Item = String> {
    let metric = client.metric(value.metric);
    let instance = client.instance(value).map(|found| match &*found.name {
        "" => String::new(),
        name => format!(".{}", node(name)),
    });
    let names = metric.into_iter().flat_map(|metric| &metric.names);
    names.filter_map(move |name| {
        let nodes: Vec<String> = name.split('.').map(node).collect();
        Some(format!("{ROOT}.{}{}", nodes.join("."), instance.as_ref()?))
    })
}

impl From<io::Error> for PmcdEnd {
    fn from(error: io::Error) -> Self {
        Self::Failed(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".into(),
            io::ErrorKind::WouldBlock => "it does not answer".into(),
            _ => error.to_string(),
        })
    }
}

impl From<busyhour_pcp::LiveError> for PmcdEnd {
    fn from(error: busyhour_pcp::LiveError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn lock(connection: &LivePmcd) -> std::sync::MutexGuard<'_, Option<PmcdShutdown>> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

const THREAD: &str = "bh-pmcd";
const ROOT: &str = "pmcd";
const READ_BYTES: usize = 64 << 10;
