//! The thread that orders and renews.

use super::{
    AcmeOptions, ChallengeAnswers,
    authority::{OrderError, order},
    renewal::Renewal,
    requested::RequestedOrders,
    storage::{acme_files, has_certificate_of_authority, replace, requested_path, write_beside},
};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Keeps a certificate current; dropping it stops that. An order in progress is not waited for:
/// nothing is lost with it.
pub struct AcmeClient {
    wake: SyncSender<()>,
    requested_path: PathBuf,
    state: Arc<Mutex<ClientState>>,
}

#[derive(Default)]
struct ClientState {
    /// Why the last order failed, until one succeeds.
    problem: Option<String>,
}

impl AcmeClient {
    /// Begins. `renewed` is called when there is a new certificate.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(
        options: AcmeOptions,
        answers: ChallengeAnswers,
        renewed: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let requested_path = requested_path(&options);
        let (wake, woken) = mpsc::sync_channel(1);
        let state = Arc::new(Mutex::new(ClientState::default()));
        let orders = Orders {
            options,
            answers,
            runtime,
            state: state.clone(),
            renewal: Renewal::default(),
        };
        let thread = thread::Builder::new().name(THREAD.into());
        drop(thread.spawn(move || orders.run(&woken, &renewed))?);
        Ok(Self {
            wake,
            requested_path,
            state,
        })
    }

    /// Orders now, whatever the time; twice in four days, also across restarts.
    ///
    /// # Errors
    ///
    /// How long until it may be asked for again.
    pub fn renew(&self) -> Result<(), Duration> {
        let _one_at_a_time = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let path = &self.requested_path;
        let kept = fs::read_to_string(path).unwrap_or_default();
        let mut requested = RequestedOrders::of_text(&kept);
        requested.take(now())?;
        let written = write_beside(path, &requested.text());
        let written = written.and_then(|beside| replace(&beside, path));
        if let Err(error) = written {
            // Without a folder there is no certificate either.
            tracing::warn!(%error, path = %path.display(), "an order by request cannot be counted");
        }
        // If one waits already, that is enough.
        let _ = self.wake.try_send(());
        Ok(())
    }

    /// Why there is no new certificate.
    pub fn problem(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.problem.clone()
    }
}

/// What the thread has.
struct Orders {
    options: AcmeOptions,
    answers: ChallengeAnswers,
    runtime: tokio::runtime::Runtime,
    state: Arc<Mutex<ClientState>>,
    renewal: Renewal,
}

impl Orders {
    /// Orders when it is time, or when it is woken, until the client is dropped.
    fn run(mut self, woken: &Receiver<()>, renewed: &dyn Fn()) {
        let mut chosen = chance();
        let mut rest = None;
        let mut wait = until_due(&self.options, chosen);
        loop {
            let step = wait.min(LOOK);
            match woken.recv_timeout(step) {
                Err(RecvTimeoutError::Disconnected) => return,
                // The clock may have been set.
                Err(RecvTimeoutError::Timeout) if step < wait => {
                    rest = rest.map(|rest: Duration| rest.saturating_sub(step));
                    wait = rest.unwrap_or_else(|| until_due(&self.options, chosen));
                    continue;
                }
                _ => {}
            }
            rest = self.order(renewed);
            chosen = chance();
            wait = rest.unwrap_or_else(|| until_due(&self.options, chosen).max(LEAST));
        }
    }

    /// Returns how long to rest if there is no certificate.
    fn order(&mut self, renewed: &dyn Fn()) -> Option<Duration> {
        let ordered = self.runtime.block_on(async {
            let ordered = order(&self.options, &self.answers);
            tokio::time::timeout(ORDER_MAX, ordered).await
        });
        self.answers.clear();
        let Err(failed) = ordered.unwrap_or_else(|_| Err(OrderError::late())) else {
            self.tell(None);
            self.renewal.succeeded();
            tracing::info!(names = ?self.options.names, "a new certificate by ACME");
            renewed();
            return None;
        };
        let rest = self.renewal.rest(failed.kind, chance());
        let (problem, again) = (failed.problem, rest.as_secs());
        tracing::error!(
            problem,
            again,
            "no certificate by ACME; tried again in so many seconds"
        );
        self.tell(Some(problem));
        Some(rest)
    }

    fn tell(&self, problem: Option<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.problem = problem;
    }
}

/// How long until the certificate has to be renewed; at once if there is none from this authority
/// that is for all names.
fn until_due(options: &AcmeOptions, chance: f64) -> Duration {
    let usable = acme_files(options).and_then(|files| files.check_for(&options.names).ok());
    let Some((not_before, not_after)) = usable.filter(|_| has_certificate_of_authority(options))
    else {
        return Duration::ZERO;
    };
    Renewal::due_in(not_before, not_after, now() as i64, chance)
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// A number from 0 to below 1.
fn chance() -> f64 {
    let hash = RandomState::new().hash_one(0);
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

const THREAD: &str = "bh-acme";
/// Between two orders, whatever a certificate says of its life.
const LEAST: Duration = Duration::from_secs(3600);
/// How long the clock is believed.
const LOOK: Duration = Duration::from_secs(3600);
/// For an order as a whole, so that an authority that hangs is left.
const ORDER_MAX: Duration = Duration::from_secs(600);
