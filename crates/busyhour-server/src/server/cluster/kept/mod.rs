//! Requests that came while nobody served their partition: they wait for whoever has it next, here or elsewhere.
//!
//! **Why none is forgotten.** A request looks who has its partition, and waits if nobody has; the node's thread says that somebody has
//! it, and then looks what waits. If the thread looked too early, its route was there before the request waited; so whoever has put a
//! request there looks at the route once more. It is the same with the end of a turn: who ends one looks once more.
//!
//! **Why none overtakes another.** What comes for a partition of which something waits or goes on at this moment waits behind that.
//!
//! **Why none goes round in circles.** A node that hands a request on says by which epoch of the partition it knows the owner. Who is
//! handed one that it does not serve hands it on only by a later epoch, and otherwise waits until it knows more. So it never comes to
//! a node twice that knows nothing new.

pub(in crate::server) mod kept_messages;
mod turns;

#[cfg(test)]
mod tests;
