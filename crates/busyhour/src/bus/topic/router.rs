use crate::bus::{Delivery, Event, nodes::NodeId};
use std::{collections::HashMap, fmt, hash::Hash};

type Handler<E> = Box<dyn FnMut(&E, NodeId) + Send>;
type Rest<E> = Box<dyn FnMut(Delivery<'_, E>) + Send>;

/// Calls, for each event, the one handler for events of its sort.
///
/// A router is a callback with a table inside: it needs one subscription and
/// keeps one order. An event costs one lookup, however many sorts there are.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Event, Router, Topic};
/// use std::sync::mpsc;
///
/// #[derive(Clone)]
/// struct Call { line: u32, state: &'static str }
/// impl Event for Call {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.line }
/// }
///
/// let (ringing, other) = (mpsc::channel(), mpsc::channel());
/// let router = Router::by(|call: &Call| call.state)
///     .route("ringing", move |call, _| ringing.0.send(call.line).unwrap())
///     .otherwise(move |_| other.0.send(()).unwrap());
/// let calls = Topic::builder("calls").build();
/// let _router = calls.subscribe().start(router.into_callback());
/// _ = calls.publish(Call { line: 1, state: "ringing" });
/// _ = calls.publish(Call { line: 2, state: "up" });
/// assert_eq!(ringing.1.try_recv(), Ok(1));
/// assert_eq!(other.1.try_iter().count(), 1);
/// ```
pub struct Router<E: Event, S> {
    sort_of: Box<dyn Fn(&E) -> S + Send>,
    handlers: HashMap<S, Handler<E>>,
    otherwise: Option<Rest<E>>,
}

impl<E: Event, S: Eq + Hash + Send + 'static> Router<E, S> {
    /// A router without routes. `sort_of` returns the sort of an event.
    pub fn by(sort_of: impl Fn(&E) -> S + Send + 'static) -> Self {
        Self {
            sort_of: Box::new(sort_of),
            handlers: HashMap::new(),
            otherwise: None,
        }
    }

    /// Passes events of this sort, with their origin, to `handler`; replaces an
    /// earlier handler of the sort.
    #[must_use]
    pub fn route(mut self, sort: S, handler: impl FnMut(&E, NodeId) + Send + 'static) -> Self {
        self.handlers.insert(sort, Box::new(handler));
        self
    }

    /// Passes events of all other sorts, removed keys and notices to `handler`.
    #[must_use]
    pub fn otherwise(mut self, handler: impl FnMut(Delivery<'_, E>) + Send + 'static) -> Self {
        self.otherwise = Some(Box::new(handler));
        self
    }

    /// The router as the callback of a subscription.
    pub fn into_callback(mut self) -> impl FnMut(Delivery<'_, E>) + Send + 'static {
        move |delivery| self.hear(delivery)
    }

    fn hear(&mut self, delivery: Delivery<'_, E>) {
        if let Delivery::Event(event, origin) = delivery {
            let sort = (self.sort_of)(event);
            if let Some(handler) = self.handlers.get_mut(&sort) {
                return handler(event, origin);
            }
        }
        if let Some(otherwise) = &mut self.otherwise {
            otherwise(delivery);
        }
    }
}

impl<E: Event, S> fmt::Debug for Router<E, S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Router")
            .field("route_count", &self.handlers.len())
            .finish_non_exhaustive()
    }
}
