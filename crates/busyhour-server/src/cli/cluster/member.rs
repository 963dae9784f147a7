//! Joins the cluster before anything else is opened.

use crate::{
    cli::{Failure, signals::ShutdownTrigger},
    config::Config,
    server::ClusterMembership,
};
use busyhour_cluster::NatsBroker;
use busyhour_store::{JoinError, PostgresOptions, PostgresOwnership};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// The life of this node that begins now; `None` for a server alone.
///
/// # Errors
///
/// When the database or the settings of NATS cannot be used, and when another process has the
/// name of this node for longer than a lease.
pub(in crate::cli) fn join(
    config: &Config,
    ending: &ShutdownTrigger,
) -> Result<Option<ClusterMembership>, Failure> {
    let Some(name) = &config.cluster.node else {
        return Ok(None);
    };
    let url = config.store.database_url().map_err(Failure::usage)?;
    let options = PostgresOptions::new(&url.unwrap_or_default()).map_err(Failure::usage)?;
    let timing = config.cluster.timing();
    let broker = NatsBroker::connect(config.cluster.nats_options()).map_err(Failure::running)?;
    let mut ownership = PostgresOwnership::open(options, timing).map_err(Failure::running)?;
    let secret = ownership.secret().map_err(Failure::running)?;
    let begun = Instant::now();
    let (asked_at, member) = loop {
        let asked_at = Instant::now();
        match ownership.join(name) {
            Ok(member) => break (asked_at, member),
            // That may be the last life of this node, which was killed.
            Err(JoinError::InUse(_)) if begun.elapsed() < timing.lease + PATIENCE => {
                thread::sleep(PACE);
            }
            Err(error) => return Err(Failure::running(format!("cluster.node {name}: {error}"))),
        }
    };
    tracing::info!(
        node = member.node.0,
        epoch = member.epoch,
        name,
        "joined the cluster"
    );
    let ending = ending.clone();
    Ok(Some(ClusterMembership {
        member,
        timing,
        asked_at,
        ownership: Box::new(ownership),
        broker: Arc::new(broker),
        subjects: subjects(&secret),
        on_end: Box::new(move |reason| ending.because(reason)),
    }))
}

/// Clusters that share NATS do not hear each other, and who does not know the database cannot
/// guess the subjects.
fn subjects(secret: &str) -> String {
    let hash = Sha256::digest(format!("subjects of {secret}"));
    hash.iter()
        .take(12)
        .fold("busyhour.".to_owned(), |mut subjects, byte| {
            // Writing into a text never fails.
            let _ = write!(subjects, "{byte:02x}");
            subjects
        })
}

/// Beyond a lease, for a database that is slow.
const PATIENCE: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(100);
