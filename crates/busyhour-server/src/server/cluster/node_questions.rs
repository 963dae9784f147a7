//! Questions of one node to another that want an answer: requests of the HTTP interface for what another node has.
//! What they say is the business of who asks and who answers.

use super::cluster_node::ClusterNode;
use crate::server::{Server, stats::counters::Counter};
use busyhour_cluster::{Broker, BrokerError, BrokerMessage, Life};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A question of another node. If it is dropped, that node waits until its time is over.
pub struct NodeQuestion {
    /// What is asked.
    pub text: Vec<u8>,
    broker: Arc<dyn Broker>,
    reply: String,
}

/// Why a node gives no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSilence {
    /// It was not asked, or does not hear such questions: nothing was done.
    NotAsked,
    /// Its time is over, and what was asked for may have been done.
    Late,
}

/// Called once with the answer, from any thread; it must be quick.
pub type OnNodeAnswer = Box<dyn FnOnce(Result<Vec<u8>, NodeSilence>) + Send>;

/// Called with each question, one after the other; it must be quick.
pub type OnNodeQuestion = Box<dyn Fn(NodeQuestion) + Send + Sync>;

impl NodeQuestion {
    /// Answers it.
    pub fn answer(self, answer: Vec<u8>) {
        // Without an answer the other node takes it for lost.
        let _ = self.broker.publish(&self.reply, answer);
    }
}

impl Server {
    /// Asks another node of the cluster, which has five seconds.
    ///
    /// # Errors
    ///
    /// When it is certainly not asked; then `done` is dropped.
    pub fn ask_node(
        &self,
        node: &str,
        question: Vec<u8>,
        done: OnNodeAnswer,
    ) -> Result<(), NodeSilence> {
        let cluster = self.core.cluster.as_ref();
        let cluster = cluster.ok_or(NodeSilence::NotAsked)?;
        cluster.ask(node, question, done)
    }

    /// From now on questions of other nodes are heard.
    pub fn hear_nodes(&self, hear: OnNodeQuestion) {
        if let Some(cluster) = &self.core.cluster {
            cluster.hear_questions(hear);
        }
    }

    /// Whether what is in memory may be told: always, if the server is alone.
    pub fn has_lease(&self) -> bool {
        let cluster = self.core.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.routes.has_lease(self.core.clock.now()))
    }
}

impl ClusterNode {
    fn ask(&self, node: &str, question: Vec<u8>, done: OnNodeAnswer) -> Result<(), NodeSilence> {
        let lives = self.find(|one| &*one.name == node && one.life != Life::Over);
        let member = lives.ok_or(NodeSilence::NotAsked)?;
        let (link, questions) = (&self.link, self.link.questions.clone());
        if !questions.begin() {
            return Err(NodeSilence::NotAsked);
        }
        let answered = Box::new(move |answer: Result<Vec<u8>, BrokerError>| {
            questions.end(answer.is_ok());
            done(answer.map_err(silence));
        });
        let subject = link.subject_of_questions(member.node.0);
        let sent = link
            .broker()
            .request(&subject, question, PATIENCE, answered);
        sent.map_err(|error| {
            link.questions.end(false);
            silence(error)
        })
    }

    fn hear_questions(&self, hear: OnNodeQuestion) {
        let (link, broker) = (&self.link, self.link.broker().clone());
        let (own, questions) = (link.own(), link.questions.clone());
        let receive = Box::new(move |message: BrokerMessage| {
            let Some(reply) = message.reply else { return };
            questions.heard.increment();
            hear(NodeQuestion {
                text: message.payload,
                broker: broker.clone(),
                reply,
            });
        });
        let subject = link.subject_of_questions(own);
        if let Err(error) = link.broker().subscribe(&subject, receive) {
            tracing::error!(%error, subject, "questions of other nodes are not heard");
        }
    }
}

/// What was asked, and what not answered.
#[derive(Default)]
pub(super) struct QuestionCounters {
    pub(super) asked: Counter,
    /// Those that were not sent, or to which no answer came in time.
    pub(super) unanswered: Counter,
    /// Those of other nodes.
    pub(super) heard: Counter,
    waiting: AtomicU64,
}

impl QuestionCounters {
    /// `false` if too many wait for their answers.
    fn begin(&self) -> bool {
        self.asked.increment();
        let is_free = self.waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX;
        if !is_free {
            self.end(false);
        }
        is_free
    }

    fn end(&self, is_answered: bool) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if !is_answered {
            self.unanswered.increment();
        }
    }
}

/// Of a message that was sent the answer may be lost, too.
fn silence(error: BrokerError) -> NodeSilence {
    match error {
        BrokerError::Late => NodeSilence::Late,
        BrokerError::Away | BrokerError::TooLarge | BrokerError::Full | BrokerError::Nobody => {
            NodeSilence::NotAsked
        }
    }
}

/// How long a node may take for an answer: a commit waits for a standby, and a search looks at each device.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions whose answers are awaited.
const WAITING_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_questions_wait_than_may_and_each_is_counted() {
        let questions = QuestionCounters::default();
        for _ in 0..WAITING_MAX {
            assert!(questions.begin());
        }
        assert!(!questions.begin());
        assert_eq!(questions.unanswered.get(), 1);
        questions.end(true);
        assert!(questions.begin());
        assert_eq!(questions.asked.get(), WAITING_MAX + 2);
        assert_eq!(questions.unanswered.get(), 1);
    }
}
