//! The interface to DNS: the server only asks.

use busyhour_proxy::dns::{DnsAnswer, Question};

/// Asks DNS; the machine's, or a simulation's.
pub trait Resolver: Send + Sync {
    /// Asks a question. Never blocks. `listener` is called exactly once, in the end also if
    /// nobody answers; from any thread, and maybe before this returns.
    fn ask(&self, question: Question, listener: AnswerListener);
}

/// Takes the answer to a question.
pub type AnswerListener = Box<dyn FnOnce(DnsAnswer) + Send>;

/// Knows no names: for a server whose next hops all have addresses. A lookup fails at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResolver;

impl Resolver for NoResolver {
    fn ask(&self, _: Question, listener: AnswerListener) {
        listener(DnsAnswer::Failed);
    }
}
