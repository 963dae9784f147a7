use super::Topic;
use crate::bus::{Event, EventStream, Message};
use futures_core::Stream;
use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The last value of one key, for a task that waits for changes and needs no
/// history; from [`Topic::watch`]. Dropping it ends the subscription.
///
/// ```
/// use busyhour::bus::{Event, Topic};
///
/// #[derive(Clone)]
/// struct Setting(&'static str, u32);
/// impl Event for Setting {
///     type Key = &'static str;
///     fn key(&self) -> &&'static str { &self.0 }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let settings = Topic::builder("settings").cached().build();
/// _ = settings.publish(Setting("limit", 10));
/// let mut limit = settings.watch("limit");
/// assert_eq!(limit.latest().unwrap().1, 10);
/// for number in 11..20 {
///     _ = settings.publish(Setting("limit", number));
/// }
/// limit.changed().await.unwrap(); // once for all of them
/// assert_eq!(limit.latest().unwrap().1, 19);
/// # });
/// ```
pub struct Watch<E: Event> {
    stream: EventStream<E>,
    last: Option<E>,
    /// The stream has delivered a change that the owner has not seen.
    is_changed: bool,
}

/// The topic was [closed](Topic::close), or its runtime was shut down: there are
/// no more changes.
///
/// ```
/// use busyhour::bus::{Event, Topic, WatchClosed};
///
/// #[derive(Clone)]
/// struct Setting(u32);
/// impl Event for Setting {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let settings = Topic::<Setting>::builder("settings").cached().build();
/// let mut limit = settings.watch(1);
/// settings.close();
/// assert_eq!(limit.changed().await, Err(WatchClosed));
/// # });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchClosed;

impl fmt::Display for WatchClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the topic is closed, so there are no more changes")
    }
}

impl std::error::Error for WatchClosed {}

impl<E: Event> Topic<E> {
    /// Watches one key: the last value now, if the topic is cached, and a notice
    /// when it has changed. Values that come faster than they are looked at
    /// replace each other; they count as conflated, not as lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::{bus::Event, runtime::Runtime};
    ///
    /// #[derive(Clone)]
    /// struct Level { tank: u32, percent: u8 }
    /// impl Event for Level {
    ///     type Key = u32;
    ///     fn key(&self) -> &u32 { &self.tank }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workers(1).build()?;
    /// let levels = runtime.topic::<Level>("levels").cached().build();
    /// _ = levels.publish(Level { tank: 1, percent: 30 });
    /// let mut watch = levels.watch(1);
    /// assert_eq!(watch.latest().unwrap().percent, 30);
    /// let low = runtime.pool().spawn(async move {
    ///     while watch.changed().await.is_ok() {
    ///         if watch.latest().is_some_and(|level| level.percent < 10) {
    ///             return true;
    ///         }
    ///     }
    ///     false
    /// });
    /// _ = levels.publish(Level { tank: 1, percent: 7 });
    /// assert_eq!(low.wait(), Ok(true));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("watch channel", "latest value"))]
    pub fn watch(&self, key: E::Key) -> Watch<E> {
        let stream = self.subscribe().key(key).conflate().capacity(1).replay();
        let mut watch = Watch {
            stream: stream.stream(),
            last: None,
            is_changed: false,
        };
        watch.latest();
        watch
    }
}

impl<E: Event> Watch<E> {
    /// The last value, which counts as seen then; `None` if the key has none, or
    /// was removed.
    #[doc(alias("borrow", "borrow_and_update"))]
    pub fn latest(&mut self) -> Option<&E> {
        // Whoever waits for a change keeps waiting, and a task that has used up its
        // budget gets no old value.
        while let Some(message) = self.stream.take_waiting() {
            self.apply(message);
        }
        self.is_changed = false;
        self.last.as_ref()
    }

    /// Waits until the value has changed since it was last seen: since this was
    /// made, or since [`latest`](Self::latest) or this has returned. If the
    /// future is dropped, no change is lost.
    ///
    /// # Errors
    ///
    /// [`WatchClosed`] once the topic is closed, or its runtime is shut down, and
    /// every change was seen.
    pub fn changed(&mut self) -> impl Future<Output = Result<(), WatchClosed>> {
        poll_fn(|context| self.poll_changed(context))
    }

    /// Polls for the next change; see [`changed`](Self::changed).
    ///
    /// # Errors
    ///
    /// Those of [`changed`](Self::changed).
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), WatchClosed>> {
        let polled = self.poll_stream(context);
        if mem::take(&mut self.is_changed) {
            return Poll::Ready(Ok(()));
        }
        ready!(polled);
        Poll::Ready(Err(WatchClosed))
    }

    /// Takes all that has come; ready once the stream has ended.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(message) = ready!(Pin::new(&mut self.stream).poll_next(context)) {
            self.apply(message);
        }
        Poll::Ready(())
    }

    fn apply(&mut self, message: Message<E>) {
        match message {
            Message::Event(event, _) => self.set(Some(event)),
            Message::Removed(..) => self.set(None),
            Message::Replayed | Message::Lost(_) => {}
        }
    }

    fn set(&mut self, value: Option<E>) {
        self.is_changed = true;
        self.last = value;
    }
}

impl<E: Event> fmt::Debug for Watch<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watch")
            .field("is_changed", &self.is_changed)
            .finish_non_exhaustive()
    }
}
