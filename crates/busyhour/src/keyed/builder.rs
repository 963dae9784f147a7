use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use super::{
    Keyed,
    rules::{Init, OnEvict, Rules},
    table::Table,
};
use crate::{serializer::SerializerTemplate, timer::Timers};

/// Options of [`Keyed`], from [`Keyed::builder`].
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
        let table = Arc::new_cyclic(|table| {
            let rules = Rules::new(
                (self.init, self.on_evict),
                (self.idle_after, self.max_keys),
                self.timers,
                table.clone(),
            );
            Table::new(self.template, rules)
        });
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
