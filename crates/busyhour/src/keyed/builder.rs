use std::{
    fmt,
    hash::Hash,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Keyed,
    rules::{Init, OnEvict, Rules},
    table::Table,
};
use crate::{pool::Describes, serializer::SerializerTemplate, stats::KeyTableStats, timer::Timers};

/// Options of [`Keyed`], from [`Keyed::builder`].
///
/// ```
/// use std::{collections::HashMap, sync::{Arc, Mutex}, time::Duration};
/// use busyhour::{keyed::Keyed, runtime::Runtime};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::simulated(7);
/// let saved = Arc::new(Mutex::new(HashMap::<u32, u64>::new())); // stands for a database
/// let (loading, saving) = (Arc::clone(&saved), Arc::clone(&saved));
/// let template = runtime.serializer("account").capacity(100).template()?;
/// let accounts = Keyed::<u32>::builder(&template, runtime.timers())
///     .idle_after(Duration::from_secs(60))
///     .max_keys(1_000)
///     .with_state(move |account| loading.lock().unwrap().get(account).copied().unwrap_or(0))
///     .on_evict(move |account, balance| _ = saving.lock().unwrap().insert(*account, balance))
///     .build();
/// accounts.push(&7, |balance| *balance += 10)?;
/// runtime.simulation().unwrap().run_for(Duration::from_secs(180));
/// assert_eq!((accounts.len(), saved.lock().unwrap()[&7]), (0, 10));
/// assert_eq!(accounts.push_wait(&7, |balance| *balance)?, 10);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct KeyedBuilder<K, S = ()> {
    template: SerializerTemplate,
    timers: Timers,
    idle_after: Option<Duration>,
    max_keys: usize,
    init: Init<K, S>,
    on_evict: Option<OnEvict<K, S>>,
}

impl<K: 'static> KeyedBuilder<K> {
    pub(super) fn new(template: &SerializerTemplate, timers: &Timers) -> Self {
        Self {
            template: template.clone(),
            timers: timers.clone(),
            idle_after: None,
            max_keys: DEFAULT_MAX_KEYS,
            init: Box::new(|_| ()),
            on_evict: None,
        }
    }

    /// Gives each key a state, which `init` makes when the first task of the key
    /// runs, as part of that task. If it panics, that task does not run, and the
    /// next one tries again. Call this before [`on_evict`](KeyedBuilder::on_evict):
    /// a hook of keys without a state is dropped here.
    pub fn with_state<S: 'static>(
        self,
        init: impl Fn(&K) -> S + Send + Sync + 'static,
    ) -> KeyedBuilder<K, S> {
        KeyedBuilder {
            template: self.template,
            timers: self.timers,
            idle_after: self.idle_after,
            max_keys: self.max_keys,
            init: Box::new(init),
            on_evict: None,
        }
    }
}

impl<K, S> KeyedBuilder<K, S> {
    /// Evicts a key that has had no task for so long. One look for each key and
    /// period finds them, so it may take up to twice as long. Without this, keys
    /// stay until room is needed.
    pub fn idle_after(mut self, period: Duration) -> Self {
        self.idle_after = Some(period);
        self
    }

    /// How many keys there may be, at least 1; default 1,048,576. From seven
    /// eighths on, each new key evicts up to two idle ones. If all those that it
    /// looks at are in use, or are not gone yet, a key is refused at the limit.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys.max(1);
        self
    }

    /// Called with the state of each key that is evicted, as a task of the key:
    /// after all its tasks, and before a new state is made if the key comes back.
    /// So what is saved here is found there. A panic in it is isolated, and the
    /// state is gone.
    pub fn on_evict(mut self, hook: impl Fn(&K, S) + Send + Sync + 'static) -> Self {
        self.on_evict = Some(Box::new(hook));
        self
    }

    /// Creates the table, which has no keys yet.
    pub fn build(self) -> Keyed<K, S>
    where
        K: Hash + Eq + Send + Sync + 'static,
        S: Send + 'static,
    {
        let pool = self.template.pool().shared().clone();
        let table = Arc::new_cyclic(|table: &Weak<Table<K, S>>| {
            let rules = Rules::new(
                (self.init, self.on_evict),
                (self.idle_after, self.max_keys),
                self.timers,
                table.clone(),
            );
            Table::new(self.template, rules)
        });
        let described: Arc<dyn Describes<KeyTableStats>> = table.clone();
        pool.key_tables.add(&Arc::downgrade(&described));
        Keyed { table }
    }
}

impl<K, S> fmt::Debug for KeyedBuilder<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedBuilder")
            .field("idle_after", &self.idle_after)
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

const DEFAULT_MAX_KEYS: usize = 1 << 20;
