//! What the pool promises.

mod corners;
mod futures;
mod options;
mod pushing;
mod turns;
mod watermarks;
mod workers;
