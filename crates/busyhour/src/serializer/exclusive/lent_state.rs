use crate::sync::{Mutex, lock};

/// A state that an exclusive section has taken out of its place, into which it
/// goes back when this is dropped. Only tasks of one serializer reach the place,
/// and none of them runs meanwhile.
pub(crate) struct LentState<P: StatePlace> {
    place: P,
    /// Until it is dropped.
    state: Option<P::State>,
}

/// What leads to the place of a state.
pub(crate) trait StatePlace {
    type State;
    fn place(&self) -> &Mutex<Option<Self::State>>;
}

impl<P: StatePlace> LentState<P> {
    /// Takes the state, or a new one if there is none yet.
    pub(crate) fn take(place: P, init: impl FnOnce() -> P::State) -> Self {
        let known = lock(place.place()).take();
        let state = Some(known.unwrap_or_else(init));
        Self { place, state }
    }

    pub(crate) fn get_mut(&mut self) -> &mut P::State {
        self.state.as_mut().expect("until it is dropped")
    }
}

impl<P: StatePlace> Drop for LentState<P> {
    fn drop(&mut self) {
        let replaced = match self.state.take() {
            Some(state) => lock(self.place.place()).replace(state),
            None => None,
        };
        debug_assert!(replaced.is_none(), "only the section had a state");
    }
}

impl<S> StatePlace for std::sync::Arc<Mutex<Option<S>>> {
    type State = S;

    fn place(&self) -> &Mutex<Option<S>> {
        self
    }
}
