//! What carries messages between nodes, and may lose them.

use std::time::Duration;
use thiserror::Error;

/// Publish and subscribe, and requests with answers. Nothing here blocks.
///
/// The messages that one node publishes arrive at each subscription in their order, as far as they
/// arrive.
pub trait Broker: Send + Sync {
    /// Sends a message to all who subscribe to its subject.
    ///
    /// # Errors
    ///
    /// When it is certainly not sent.
    fn publish(&self, subject: &str, payload: Vec<u8>) -> Result<(), BrokerError>;

    /// Sends a message to one who subscribes to its subject, and calls `done` once with the
    /// answer, from any thread.
    ///
    /// # Errors
    ///
    /// When it is certainly not sent; then `done` is dropped.
    fn request(
        &self,
        subject: &str,
        payload: Vec<u8>,
        patience: Duration,
        done: Answered,
    ) -> Result<(), BrokerError>;

    /// From now on calls `receive` with each message of this subject, one after the other. It
    /// must be quick.
    ///
    /// # Errors
    ///
    /// When there is no room for it.
    fn subscribe(&self, subject: &str, receive: Receive) -> Result<(), BrokerError>;

    /// Whether messages get through, as far as is known.
    fn is_connected(&self) -> bool;

    /// How often this process has lost messages that had come, as far as it knows. What is lost on the way it does not know.
    fn lost_count(&self) -> u64 {
        0
    }
}

/// Called with the answer to a request.
pub type Answered = Box<dyn FnOnce(Result<Vec<u8>, BrokerError>) + Send>;

/// Called with each message.
pub type Receive = Box<dyn FnMut(BrokerMessage) + Send>;

/// A message that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerMessage {
    /// What was sent.
    pub payload: Vec<u8>,
    /// The subject on which the answer is awaited, if the message is a request.
    pub reply: Option<String>,
}

/// Why a message does not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum BrokerError {
    /// The broker cannot be reached.
    #[error("the broker cannot be reached")]
    Away,
    /// It is larger than the broker carries.
    #[error("the message is too large")]
    TooLarge,
    /// Too many messages wait to be sent.
    #[error("too many messages wait for the broker")]
    Full,
    /// Nobody subscribes to the subject of a request.
    #[error("nobody listens to this subject")]
    Nobody,
    /// No answer has come in time; the request may have been done.
    #[error("no answer in time")]
    Late,
}
