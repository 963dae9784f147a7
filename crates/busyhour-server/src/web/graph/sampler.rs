use crate::server::{QueueView, ServerStats};
use crate::web::Backend;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tokio::{
    sync::broadcast,
    task::JoinHandle,
    time::{self, MissedTickBehavior},
};

/// Takes one snapshot a second for all readers together, so that a hundred open pages
/// cost the server the same as one. Keeps the last two minutes. While somebody reads,
/// it lists the queues as well.
pub(in crate::web) struct Sampler(Mutex<History>);

struct History {
    samples: VecDeque<Arc<Sample>>,
    /// Removed when sampling ends; this ends the streams of all subscribers.
    live: Option<broadcast::Sender<Arc<Sample>>>,
    taken: u64,
}

/// One snapshot with its text, which all readers share and the first one makes.
pub(in crate::web) struct Sample {
    /// The number of the sample, counted from 1; it is the id of the event.
    pub(in crate::web) number: u64,
    pub(in crate::web) stats: ServerStats,
    pub(in crate::web) json: OnceLock<String>,
    /// The queues at that time as text, if somebody read.
    pub(in crate::web) queues_json: Option<String>,
}

impl Sample {
    pub(in crate::web) fn json(&self) -> &str {
        let written = || serde_json::to_string(&self.stats).unwrap_or_default();
        self.json.get_or_init(written)
    }
}

/// The samples that a new reader has missed, and all later ones.
pub(in crate::web) struct Feed {
    pub(in crate::web) past: Vec<Arc<Sample>>,
    pub(in crate::web) live: broadcast::Receiver<Arc<Sample>>,
}

impl Sampler {
    /// Takes samples from now on, until the task is aborted.
    pub(in crate::web) fn start(backend: Arc<dyn Backend>) -> (Arc<Self>, Sampling) {
        let sampler = Arc::new(Self(Mutex::new(History {
            samples: VecDeque::with_capacity(HISTORY_LEN),
            live: Some(broadcast::channel(LAG_MAX).0),
            taken: 0,
        })));
        let task = tokio::spawn(sample_forever(sampler.clone(), backend));
        let sampling = Sampling {
            sampler: sampler.clone(),
            task,
        };
        (sampler, sampling)
    }

    /// The kept samples after number `seen`, and the later ones: no gap, no duplicate.
    pub(in crate::web) fn feed(&self, seen: u64) -> Feed {
        let history = self.history();
        let live = history.live.as_ref();
        let missed = history.samples.iter().filter(|sample| sample.number > seen);
        Feed {
            past: missed.cloned().collect(),
            // After the end, this stream ends at once.
            live: live.map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe),
        }
    }

    /// The kept samples, oldest first.
    pub(in crate::web) fn kept(&self) -> Vec<Arc<Sample>> {
        self.history().samples.iter().cloned().collect()
    }

    /// Takes a sample of the server.
    fn look_at(&self, backend: &dyn Backend) {
        let live = self.history().live.clone();
        let is_read = live.is_some_and(|live| live.receiver_count() > 0);
        // Listing the queues visits every watcher, so it is not done for nobody.
        self.take(backend.stats(), is_read.then(|| backend.queues()));
    }

    fn take(&self, stats: ServerStats, queues: Option<Vec<QueueView>>) {
        let queues_json = queues.map(|queues| serde_json::to_string(&queues).unwrap_or_default());
        let mut history = self.history();
        history.taken += 1;
        let number = history.taken;
        let sample = Arc::new(Sample {
            number,
            stats,
            json: OnceLock::new(),
            queues_json,
        });
        if history.samples.len() == HISTORY_LEN {
            history.samples.pop_front();
        }
        history.samples.push_back(sample.clone());
        if let Some(live) = &history.live {
            // If nobody listens, this is not an error.
            let _ = live.send(sample);
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running sampler.
pub(in crate::web) struct Sampling {
    sampler: Arc<Sampler>,
    task: JoinHandle<()>,
}

impl Sampling {
    /// Ends the sampling, and with it every stream of samples.
    pub(in crate::web) fn abort(self) {
        self.task.abort();
        self.sampler.history().live = None;
    }
}

async fn sample_forever(sampler: Arc<Sampler>, backend: Arc<dyn Backend>) {
    let mut ticks = time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        sampler.look_at(&*backend);
    }
}

const PERIOD: Duration = Duration::from_secs(1);
const HISTORY_LEN: usize = 120;
/// The number of samples by which a slow reader may fall behind before it skips some.
const LAG_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler() -> Sampler {
        Sampler(Mutex::new(History {
            samples: VecDeque::new(),
            live: Some(broadcast::channel(LAG_MAX).0),
            taken: 0,
        }))
    }

    #[test]
    fn a_reader_gets_the_missed_samples_and_then_each_later_one_once() {
        let sampler = sampler();
        for _ in 0..5 {
            sampler.take(ServerStats::default(), None);
        }
        let mut feed = sampler.feed(3);
        sampler.take(ServerStats::default(), None);
        let past: Vec<u64> = feed.past.iter().map(|sample| sample.number).collect();
        assert_eq!(past, [4, 5]);
        assert_eq!(feed.live.try_recv().unwrap().number, 6);
        assert!(feed.live.try_recv().is_err());
    }

    #[test]
    fn history_is_bounded() {
        let sampler = sampler();
        for _ in 0..HISTORY_LEN + 7 {
            sampler.take(ServerStats::default(), None);
        }
        let kept = sampler.kept();
        assert_eq!(kept.len(), HISTORY_LEN);
        assert_eq!(kept[0].number, 8);
    }
}
