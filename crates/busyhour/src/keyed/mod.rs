//! A serializer for each key, made when it is needed and removed when it is
//! idle.
//!
//! Tasks of one key run in the order in which they were pushed, one at a time;
//! tasks of different keys run in parallel. A key may own a state, which its
//! tasks get as `&mut S`. See README.md of this module for the protocol.
//!
//! ```
//! use std::time::Duration;
//! use busyhour::{keyed::Keyed, runtime::Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().workers(2).build()?;
//! let template = runtime.serializer("customer").capacity(1_000).template()?;
//! let customers = Keyed::<String>::builder(&template, runtime.timers())
//!     .idle_after(Duration::from_secs(60))
//!     .max_keys(100_000)
//!     .with_state(|_customer| 0_u32)
//!     .on_evict(|customer, orders| println!("{customer} made {orders} orders"))
//!     .build();
//! for _ in 0..3 {
//!     customers.push("alice", |orders| *orders += 1)?;
//! }
//! assert_eq!(customers.push_wait("alice", |orders| *orders)?, 3);
//! assert_eq!(customers.stats().key_count, 1);
//! # Ok(())
//! # }
//! ```

mod builder;
mod entry;
mod key_handle;
mod key_permit;
mod rules;
mod shard;
mod table;

#[cfg(all(test, shuttle))]
mod schedules;

use std::{borrow::Borrow, error::Error, fmt, future::Future, hash::Hash, sync::Arc};

pub use builder::KeyedBuilder;
pub use key_handle::KeyHandle;
pub use key_permit::KeyPermit;

use self::{entry::KeyEntry, table::Table};
use crate::{
    pool::{JoinHandle, PushError, WaitError},
    serializer::{ExclusiveFuture, SerializerTemplate},
    stats::KeyedStats,
    task::Rejected,
    timer::Timers,
};

/// Serializers by key, each with a state if the keys have one; clones share
/// them.
///
/// With the last handle the keys are dropped, and their states with them; what
/// was pushed before still runs. [`on_evict`](KeyedBuilder::on_evict) is not
/// called then: call [`evict_all`](Self::evict_all) before.
///
/// ```
/// use busyhour::{keyed::Keyed, runtime::Runtime};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().workers(2).build()?;
/// let template = runtime.serializer("room").template()?;
/// let rooms = Keyed::<String>::builder(&template, runtime.timers())
///     .with_state(|_room| Vec::new())
///     .build();
/// for (room, line) in [("hall", "hello"), ("bar", "cheers"), ("hall", "bye")] {
///     rooms.push(room, move |lines| lines.push(line))?; // in order in each room
/// }
/// assert_eq!(rooms.push_wait("hall", |lines| lines.join(", "))?, "hello, bye");
/// assert_eq!((rooms.len(), rooms.contains("attic")), (2, false));
/// assert_eq!(rooms.evict_all(), 2);
/// # Ok(())
/// # }
/// ```
#[doc(alias("actor registry", "sharding", "keyed executor", "striped"))]
pub struct Keyed<K, S = ()> {
    table: Arc<Table<K, S>>,
}

/// Why a push by key was refused. The task did not run and will not.
///
/// ```
/// use busyhour::{keyed::{Keyed, KeyedError}, pool::PushError, runtime::Runtime};
///
/// let runtime = Runtime::simulated(7);
/// let template = runtime.serializer("room").capacity(1).template().unwrap();
/// let rooms = Keyed::<u32>::builder(&template, runtime.timers()).max_keys(1).build();
/// rooms.push(&1, |()| ()).unwrap();
/// assert_eq!(rooms.push(&1, |()| ()), Err(KeyedError::Serializer(PushError::Full)));
/// assert!(matches!(rooms.push(&2, |()| ()), Err(KeyedError::TooManyKeys(_))));
/// // Both mean that there is no room now.
/// assert!(rooms.push(&1, |()| ()).is_err_and(|error| error.is_full()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyedError<E: Error + 'static> {
    /// The key is new, and [`max_keys`](KeyedBuilder::max_keys) are there.
    TooManyKeys(TooManyKeys),
    /// The serializer of the key refused it.
    Serializer(E),
}

impl KeyedError<PushError> {
    /// Whether there is no room now, for the key or in its queue, and there may be later.
    pub fn is_full(&self) -> bool {
        matches!(
            self,
            Self::TooManyKeys(_) | Self::Serializer(PushError::Full)
        )
    }
}

impl<E: Error + 'static> fmt::Display for KeyedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyKeys(error) => write!(f, "{error}"),
            Self::Serializer(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl<E: Error + 'static> std::error::Error for KeyedError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Serializer(error) => error.source(),
            _ => None,
        }
    }
}

/// A new key was refused: as many as may be are there, and those that are idle
/// are being removed or could not be found at once.
///
/// ```
/// use busyhour::{keyed::{Keyed, KeyedError, TooManyKeys}, runtime::Runtime};
///
/// let runtime = Runtime::simulated(7);
/// let template = runtime.serializer("room").template().unwrap();
/// let rooms = Keyed::<u32>::builder(&template, runtime.timers()).max_keys(1).build();
/// rooms.push(&1, |()| ()).unwrap();
/// let refused = rooms.push(&2, |()| ()).unwrap_err();
/// assert_eq!(refused, KeyedError::TooManyKeys(TooManyKeys { max: 1 }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyKeys {
    /// The limit.
    pub max: usize,
}

impl fmt::Display for TooManyKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, .. } = self;
        write!(
            f,
            "{max} keys are in use, which is the limit; raise max_keys, or push again later"
        )
    }
}

impl std::error::Error for TooManyKeys {}

impl<K> Keyed<K>
where
    K: Hash + Eq + Send + Sync + 'static,
{
    /// Options of new keys. `template` has those of each key's serializer;
    /// `timers` find the idle ones.
    pub fn builder(template: &SerializerTemplate, timers: &Timers) -> KeyedBuilder<K> {
        KeyedBuilder::new(template, timers)
    }
}

impl<K, S> Keyed<K, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    S: Send + 'static,
{
    /// Queues `f` behind everything pushed before for this key; see
    /// [`Serializer::push`](crate::serializer::Serializer::push).
    ///
    /// The key's `Hash`, `Eq` and `ToOwned` run here, under no lock; `ToOwned`
    /// only if the key is new.
    ///
    /// # Errors
    ///
    /// See [`KeyedError`].
    pub fn push<Q>(
        &self,
        key: &Q,
        f: impl FnOnce(&mut S) + Send + 'static,
    ) -> Result<(), KeyedError<PushError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let pushed = serializer.push(move || in_use.run(f));
        pushed.map_err(KeyedError::Serializer)
    }

    /// Like [`push`](Self::push), but never waits, and returns a refused task.
    ///
    /// # Errors
    ///
    /// See [`KeyedError`]; [`Rejected`] holds the task and the reason.
    ///
    /// ```
    /// use busyhour::{keyed::{Keyed, KeyedError}, runtime::Runtime};
    ///
    /// let runtime = Runtime::simulated(7);
    /// let template = runtime.serializer("customer").capacity(1).template().unwrap();
    /// let customers = Keyed::<String>::builder(&template, runtime.timers()).build();
    /// customers.try_push("alice", |()| println!("first")).unwrap();
    /// let Err(KeyedError::Serializer(refused)) = customers.try_push("alice", |()| ()) else {
    ///     panic!("there is no room");
    /// };
    /// println!("{}", refused.reason); // refused.task may be pushed again
    /// ```
    pub fn try_push<Q>(
        &self,
        key: &Q,
        f: impl FnOnce(&mut S) + Send + 'static,
    ) -> Result<(), KeyedError<Rejected>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let pushed = serializer.try_push(move || in_use.run(f));
        pushed.map_err(KeyedError::Serializer)
    }

    /// Queues `f` and returns a handle of its result, to be awaited or waited
    /// for; see [`Serializer::run`](crate::serializer::Serializer::run).
    ///
    /// # Errors
    ///
    /// See [`KeyedError`]; `f` is then dropped.
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let template = runtime.serializer("customer").template()?;
    /// let customers = Keyed::<String>::builder(&template, runtime.timers())
    ///     .with_state(|_customer| 0_u32)
    ///     .build();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let orders = customers.run("alice", |orders| { *orders += 1; *orders })?;
    /// assert_eq!(orders.await?, 1);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    #[doc(alias("ask", "call", "request"))]
    pub fn run<Q, R, F>(&self, key: &Q, f: F) -> Result<JoinHandle<R>, KeyedError<PushError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let running = serializer.run(move || in_use.run(f));
        running.map_err(KeyedError::Serializer)
    }

    /// Waits, without blocking the thread, until the key's queue has room, and
    /// keeps a place there for one task; see
    /// [`Serializer::reserve`](crate::serializer::Serializer::reserve). The key
    /// is made at once, if it is new, and stays meanwhile.
    ///
    /// # Errors
    ///
    /// See [`KeyedError`].
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let template = runtime.serializer("customer").capacity(1).template()?;
    /// let customers = Keyed::<String>::builder(&template, runtime.timers()).build();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let place = customers.reserve("alice").await?;
    /// assert!(customers.push("alice", |()| ()).is_err(), "the place is kept");
    /// let order = "read from the network only now".to_owned();
    /// place.push(move |()| println!("{order}"))?;
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    #[doc(alias("permit", "poll_ready", "back pressure"))]
    pub fn reserve<Q>(
        &self,
        key: &Q,
    ) -> impl Future<Output = Result<KeyPermit<K, S>, KeyedError<PushError>>> + use<K, S, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let entered = self.table.enter(key).map_err(KeyedError::TooManyKeys);
        async move {
            let in_use = entered?;
            let reserved = in_use.serializer().reserve().await;
            let permit = reserved.map_err(KeyedError::Serializer)?;
            Ok(KeyPermit::new(permit, in_use))
        }
    }

    /// Keeps a place in the key's queue for one task, if there is room now; see
    /// [`Serializer::try_reserve`](crate::serializer::Serializer::try_reserve).
    /// The key is made if it is new, and stays meanwhile.
    ///
    /// # Errors
    ///
    /// See [`KeyedError`].
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let template = runtime.serializer("customer").capacity(1).template()?;
    /// let customers = Keyed::<String>::builder(&template, runtime.timers()).build();
    /// let place = customers.try_reserve("alice")?;
    /// assert!(customers.try_reserve("alice").is_err_and(|error| error.is_full()));
    /// let order = "written to the disk only now".to_owned();
    /// place.push(move |()| println!("{order}"))?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("load shedding"))]
    pub fn try_reserve<Q>(&self, key: &Q) -> Result<KeyPermit<K, S>, KeyedError<PushError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let reserved = in_use.serializer().try_reserve();
        let permit = reserved.map_err(KeyedError::Serializer)?;
        Ok(KeyPermit::new(permit, in_use))
    }

    /// A handle of the key, which is made if it is new and is not idle as long
    /// as the handle lives. It is an executor: timers and subscriptions on it
    /// run in the key's order.
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`].
    ///
    /// ```
    /// use busyhour::{bus::{Delivery, Event, Topic}, keyed::Keyed, runtime::Runtime};
    ///
    /// #[derive(Clone)]
    /// struct Price { article: u32, cents: u64 }
    /// impl Event for Price {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.article }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::simulated(7);
    /// let prices = Topic::<Price>::builder("prices").cached().build();
    /// let template = runtime.serializer("customer").template()?;
    /// let customers = Keyed::<String>::builder(&template, runtime.timers())
    ///     .with_state(|_customer| 0_u64)
    ///     .build();
    /// let alice = customers.key("alice")?;
    /// let noting = alice.clone();
    /// let _subscription = prices.subscribe().key(1).on(&alice).start(move |delivery| {
    ///     if let Delivery::Event(Price { cents, .. }, _) = delivery {
    ///         let cents = *cents;
    ///         _ = noting.push(move |last_seen| *last_seen = cents);
    ///     }
    /// });
    /// _ = prices.publish(Price { article: 1, cents: 990 });
    /// runtime.simulation().unwrap().run_until_idle();
    /// assert_eq!(customers.push_wait("alice", |last_seen| *last_seen)?, 990);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key<Q>(&self, key: &Q) -> Result<KeyHandle<K, S>, TooManyKeys>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.table.enter(key).map(KeyHandle::new)
    }

    /// Waits, without blocking the thread, until the key's queue has room, then
    /// queues `f`; see
    /// [`Serializer::push_async`](crate::serializer::Serializer::push_async).
    /// The key is made at once, if it is new, and stays meanwhile.
    ///
    /// # Errors
    ///
    /// See [`KeyedError`].
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime, task::Overflow};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let template = runtime.serializer("customer").capacity(1).overflow(Overflow::Block);
    /// let template = template.template()?;
    /// let customers = Keyed::<u64>::builder(&template, runtime.timers())
    ///     .with_state(|_customer| 0_u32)
    ///     .build();
    /// let pushing = customers.clone();
    /// let pushed = runtime.pool().spawn(async move {
    ///     for _ in 0..100 {
    ///         pushing.push_async(&7, |orders| *orders += 1).await?;
    ///     }
    ///     Ok::<_, busyhour::keyed::KeyedError<_>>(())
    /// });
    /// pushed.wait()??;
    /// assert_eq!(customers.push_wait(&7, |orders| *orders)?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn push_async<Q, F>(
        &self,
        key: &Q,
        f: F,
    ) -> impl Future<Output = Result<(), KeyedError<PushError>>> + use<K, S, Q, F>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce(&mut S) + Send + 'static,
    {
        let entered = self.table.enter(key).map_err(KeyedError::TooManyKeys);
        async move {
            let in_use = entered?;
            let reserved = in_use.serializer().reserve().await;
            let pushed = reserved.and_then(|permit| permit.push(move || in_use.run(f)));
            pushed.map_err(KeyedError::Serializer)
        }
    }

    /// Queues `f` and waits for its result; see
    /// [`Serializer::push_wait`](crate::serializer::Serializer::push_wait).
    ///
    /// # Errors
    ///
    /// See [`KeyedError`].
    pub fn push_wait<Q, R, F>(&self, key: &Q, f: F) -> Result<R, KeyedError<WaitError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: FnOnce(&mut S) -> R + Send + 'static,
        R: Send + 'static,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let result = serializer.push_wait(move || in_use.run(f));
        result.map_err(KeyedError::Serializer)
    }

    /// Runs a future whose polls are tasks of this key, which are queued beyond
    /// the capacity; see
    /// [`Serializer::spawn`](crate::serializer::Serializer::spawn). The key
    /// stays until the future ends. Other tasks of the key run between two
    /// polls, so the future does not get the state; that of
    /// [`spawn_exclusive`](Self::spawn_exclusive) does.
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`]; the future is dropped.
    pub fn spawn<Q, F>(&self, key: &Q, future: F) -> Result<JoinHandle<F::Output>, TooManyKeys>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let in_use = self.table.enter(key)?;
        let serializer = in_use.serializer().clone();
        Ok(serializer.spawn(async move {
            let _in_use = in_use;
            future.await
        }))
    }

    /// Like [`spawn`](Self::spawn), but the first poll needs room in the key's
    /// queue; see
    /// [`Serializer::try_spawn`](crate::serializer::Serializer::try_spawn).
    ///
    /// # Errors
    ///
    /// See [`KeyedError`]; the future is then dropped.
    ///
    /// ```
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::simulated(7);
    /// let template = runtime.serializer("customer").capacity(1).template()?;
    /// let customers = Keyed::<String>::builder(&template, runtime.timers()).build();
    /// let first = customers.try_spawn("alice", async { 1 })?;
    /// assert!(customers.try_spawn("alice", async { 2 }).is_err());
    /// assert_eq!(first.wait()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_spawn<Q, F>(
        &self,
        key: &Q,
        future: F,
    ) -> Result<JoinHandle<F::Output>, KeyedError<PushError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let spawned = serializer.try_spawn(async move {
            let _in_use = in_use;
            future.await
        });
        spawned.map_err(KeyedError::Serializer)
    }

    /// Runs a future that has the state of the key until it ends; no other task
    /// of the key runs meanwhile. See
    /// [`Serializer::spawn_exclusive`](crate::serializer::Serializer::spawn_exclusive)
    /// and
    /// [`StatefulSerializer::spawn_exclusive`](crate::serializer::StatefulSerializer::spawn_exclusive).
    ///
    /// # Errors
    ///
    /// See [`KeyedError`]; the future is then dropped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{keyed::Keyed, runtime::Runtime};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(2).build()?;
    /// let template = runtime.serializer("order").template()?;
    /// let orders = Keyed::<u64>::builder(&template, runtime.timers())
    ///     .with_state(|_order| Vec::new())
    ///     .build();
    /// let timers = runtime.timers().clone();
    /// let payment = orders.spawn_exclusive(&7, move |steps| {
    ///     Box::pin(async move {
    ///         steps.push("reserved");
    ///         timers.sleep(Duration::from_millis(1)).await;
    ///         steps.push("paid");
    ///     })
    /// })?;
    /// orders.push(&7, |steps| steps.push("sent"))?;
    /// payment.wait()?;
    /// assert_eq!(orders.push_wait(&7, |steps| steps.join(" "))?, "reserved paid sent");
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_exclusive<Q, R, F>(
        &self,
        key: &Q,
        f: F,
    ) -> Result<JoinHandle<R>, KeyedError<PushError>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        F: for<'a> FnOnce(&'a mut S) -> ExclusiveFuture<'a, R> + Send + 'static,
        R: Send + 'static,
    {
        let in_use = self.table.enter(key).map_err(KeyedError::TooManyKeys)?;
        let serializer = in_use.serializer().clone();
        let spawned = serializer.spawn_exclusive(in_use.exclusive(f));
        spawned.map_err(KeyedError::Serializer)
    }

    /// Whether the key is there: its serializer, and its state if a task has
    /// run.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.table.find(key).is_some()
    }

    /// Evicts a key behind what was pushed before: its state is handed to
    /// [`on_evict`](KeyedBuilder::on_evict). What is pushed later gets a new
    /// state. `false` if the key is not there.
    pub fn evict<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let found = self.table.find(key);
        found.is_some_and(|entry| entry.evict_soon())
    }

    /// [Evicts](Self::evict) all keys; returns how many. Looks at each key.
    pub fn evict_all(&self) -> usize {
        let entries = self.table.entries();
        entries
            .map(KeyEntry::evict_soon)
            .filter(|is_pushed| *is_pushed)
            .count()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What there is now, and what has been done.
    pub fn stats(&self) -> KeyedStats {
        self.table.stats()
    }
}

impl<K, S> Clone for Keyed<K, S> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
        }
    }
}

impl<K, S> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("key_count", &self.table.len())
            .finish_non_exhaustive()
    }
}
