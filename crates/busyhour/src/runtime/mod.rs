//! The five components connected to each other.
//!
//! [`Runtime::builder`] starts threads and uses the machine's clock.
//! [`Runtime::simulated`] gives the same API without threads, in virtual time,
//! in an order that depends only on its seed: the same seed runs the same way
//! on every machine.
//!
//! ```
//! use std::time::Duration;
//! use busyhour::runtime::Runtime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().workers(2).build()?;
//! let calls = runtime.serializer("calls").build()?;
//! calls.push(|| println!("in order"))?;
//! assert!(runtime.shutdown(Duration::from_secs(5)).is_clean());
//! # Ok(())
//! # }
//! ```
//!
//! # Where your code runs
//!
//! The runtime itself calls no user code: each component calls the hooks,
//! callbacks and wakers that it was given, and no lock of the runtime is held
//! meanwhile. So [`Runtime::shutdown`] may be called, and the last handle may
//! be dropped, inside any of them.

mod builder;
mod description;
mod exploration;
mod fnv;
mod simulation;
mod trial;
mod queue_alert;

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

pub use builder::{RuntimeBuildError, RuntimeBuilder};
pub use description::{Description, TopicDescription};
pub use exploration::{Counterexample, explore};
pub use simulation::Simulation;
pub use trial::Trial;

use queue_alert::Alerts;

use crate::{
    buffer::BufferPool,
    bus::{Event, Registry, Topic, TopicBuilder},
    clock::Clock,
    pool::{ShutdownReport, TaskPool},
    stats::{Snapshot, SubscriptionStats},
    sync::{Mutex, lock},
    timer::{Driver, Timers},
};

/// All components of one process (or of one simulated machine); clones share
/// them.
#[doc(alias("io_context", "uv_loop_t", "event loop"))]
#[derive(Clone)]
pub struct Runtime {
    components: Arc<Components>,
}

struct Components {
    clock: Clock,
    buffers: BufferPool,
    pool: TaskPool,
    timers: Timers,
    /// Until the shutdown; `None` in a simulation.
    driver: Mutex<Option<Driver>>,
    topics: Registry,
    alerts: Alerts,
    simulation: Option<Simulation>,
}

impl Runtime {
    /// Options of a new runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// A runtime without threads, driven through its
    /// [`simulation`](Self::simulation). Its buffers have a budget of 64 MiB.
    ///
    /// # Panics
    ///
    /// If the system has no address space for the buffers.
    ///
    /// ```
    /// use busyhour::runtime::Runtime;
    ///
    /// let runtime = Runtime::simulated(42);
    /// runtime.pool().push(|| ()).unwrap();
    /// runtime.simulation().unwrap().run_until_idle();
    /// assert_eq!(runtime.stats().pool.processed, 1);
    /// ```
    pub fn simulated(seed: u64) -> Self {
        RuntimeBuilder::new().build_simulated(seed)
    }

    /// The worker pool.
    pub fn pool(&self) -> &TaskPool {
        &self.components.pool
    }

    /// The clock of all components.
    pub fn clock(&self) -> &Clock {
        &self.components.clock
    }

    /// The timer service.
    pub fn timers(&self) -> &Timers {
        &self.components.timers
    }

    /// The pinned buffers.
    pub fn buffers(&self) -> &BufferPool {
        &self.components.buffers
    }

    /// Options of a new topic named `name`, which [`stats`](Self::stats) will list.
    pub fn topic<E: Event>(&self, name: &str) -> TopicBuilder<E> {
        Topic::builder(name).registry(&self.components.topics)
    }

    /// The controls of a simulated runtime; `None` for a real one.
    pub fn simulation(&self) -> Option<&Simulation> {
        self.components.simulation.as_ref()
    }

    /// Everything the runtime knows about itself at this moment.
    pub fn stats(&self) -> Snapshot {
        Snapshot {
            taken_at_ns: self.clock().now().as_nanos(),
            buffers: self.buffers().stats(),
            pool: self.pool().stats(),
            serializers: self.pool().serializer_stats(),
            timers: self.timers().stats(),
            topics: self.components.topics.stats(),
        }
    }

    /// The subscriptions of all topics made with [`topic`](Self::topic), the
    /// longest queue first; see [`Topic::subscriptions`].
    pub fn subscriptions(&self) -> Vec<SubscriptionStats> {
        self.components.topics.subscriptions()
    }

    /// Shuts the runtime down within `deadline`:
    ///
    /// 1. The timers are closed: waiting ones are dropped, and none can be
    ///    added. The driver's thread ends, at once unless it is inside a waker
    ///    or an executor of yours; the call waits for it until the deadline.
    /// 2. The pool is shut down in the remaining time; see
    ///    [`TaskPool::shutdown`].
    ///
    /// It may be called from anywhere, for example inside a task, a timer's
    /// callback, or a waker.
    pub fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let began = Instant::now();
        self.timers().close();
        let driver = lock(&self.components.driver).take();
        if let Some(driver) = driver {
            let _ended = driver.stop_within(deadline);
        }
        let report = self
            .pool()
            .shutdown(deadline.saturating_sub(began.elapsed()));
        self.components.topics.end_streams();
        report
    }

    /// Like [`shutdown`](Self::shutdown), but blocks no thread of the caller;
    /// see [`TaskPool::shutdown_async`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::runtime::Runtime;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let runtime = Runtime::builder().workers(1).build().unwrap();
    /// let report = runtime.shutdown_async(Duration::from_secs(5)).await;
    /// assert!(report.is_clean());
    /// # });
    /// ```
    pub fn shutdown_async(
        &self,
        deadline: Duration,
    ) -> impl Future<Output = ShutdownReport> + Send + use<> + 'static {
        let runtime = self.clone();
        let pool = self.pool().shared();
        pool.shut_down_apart(move || runtime.shutdown(deadline))
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("clock", &self.components.clock)
            .field("pool", &self.components.pool)
            .finish_non_exhaustive()
    }
}
