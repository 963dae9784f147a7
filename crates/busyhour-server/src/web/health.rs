use super::graph::sampler::Sample;
use crate::server::ClusterStats;
use busyhour_store::StoreStats;
use std::sync::Arc;

/// A server that serves but needs attention: shared limits that were reached during the
/// kept samples. A limit that a single source, account or device reaches does not
/// count, since it does not affect others.
pub(super) fn concerns(kept: &[Arc<Sample>]) -> Option<String> {
    let (before, now) = (&kept.first()?.stats, &kept.last()?.stats);
    // Without NATS limits are reached for that reason.
    if let Some(concern) = kept.last()?.stats.cluster.and_then(concern_of_cluster) {
        return Some(concern.to_owned());
    }
    if let Some(concern) = concern_of_journal(&now.store) {
        return Some(concern);
    }
    let counts = before.limits_of_all().into_iter().zip(now.limits_of_all());
    let grown = counts.filter(|((_, before), (_, now))| now > before);
    let names: Vec<&str> = grown.map(|(_, (name, _))| name).collect();
    (!names.is_empty()).then(|| format!("degraded: limits reached: {}", names.join(", ")))
}

/// Registrations are still acknowledged while there is room in the journal.
fn concern_of_journal(store: &StoreStats) -> Option<String> {
    let is_late = store.behind_ns > BEHIND_MAX_NS || !store.behind_error.is_empty();
    let is_long = store.journal_used > store.journal_bytes / 4 * 3;
    (is_late || is_long).then(|| {
        let seconds = store.behind_ns / 1_000_000_000;
        let percent = store.journal_used * 100 / store.journal_bytes.max(1);
        let why = match store.behind_error.is_empty() {
            true => String::new(),
            false => format!(": {}", store.behind_error),
        };
        format!(
            "degraded: the database is {seconds} s behind its journal, which is full to {percent} %{why}"
        )
    })
}

fn concern_of_cluster(cluster: ClusterStats) -> Option<&'static str> {
    match (cluster.is_broker_connected, cluster.is_whole) {
        (true, _) if cluster.is_version_mixed => {
            Some("degraded: another node has another version: upgrade it, or this one")
        }
        (false, _) => Some("degraded: NATS cannot be reached"),
        (true, false) => Some("degraded: the states of other nodes are read again"),
        (true, true) => None,
    }
}

/// `Ok` while the server serves, else the reason for the operator.
///
/// A store that failed to write a change during the kept samples counts as unhealthy:
/// devices were answered 503, and an operator should know before all of them are. A
/// store whose write takes too long counts as unhealthy, too.
pub(super) fn verdict(draining: bool, kept: &[Arc<Sample>]) -> Result<(), String> {
    if draining {
        return Err("shutting down".into());
    }
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
        return Ok(());
    };
    let (before, now) = (&first.stats.store, &last.stats.store);
    if !now.lost.is_empty() {
        return Err(format!("nothing can be stored: {}", now.lost));
    }
    if let Some(cluster) = &last.stats.cluster
        && !cluster.has_lease
    {
        return Err("the lease of this node of the cluster is over: nothing is answered".into());
    }
    if now.failed > before.failed {
        return Err(format!("the store fails: {}", now.last_error));
    }
    if now.stalled_ns > 0 {
        let seconds = now.stalled_ns / 1_000_000_000;
        return Err(format!(
            "the store has been busy with one write for {seconds} s"
        ));
    }
    Ok(())
}

/// Usual is one second.
const BEHIND_MAX_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerStats;
    use std::sync::OnceLock;

    fn sample(failed: u64) -> Arc<Sample> {
        let mut stats = ServerStats::default();
        stats.store.failed = failed;
        stats.store.last_error = "disk full".into();
        Arc::new(Sample {
            number: 1,
            stats,
            json: OnceLock::new(),
            queues_json: None,
        })
    }

    #[test]
    fn a_store_that_failed_recently_is_unhealthy_and_one_that_recovered_is_not() {
        assert_eq!(verdict(false, &[]), Ok(()));
        assert_eq!(verdict(false, &[sample(3), sample(3)]), Ok(()));
        let ill = verdict(false, &[sample(3), sample(4)]);
        assert_eq!(ill.unwrap_err(), "the store fails: disk full");
    }

    #[test]
    fn a_limit_that_was_reached_recently_degrades_health() {
        let shed = |count| {
            let mut stats = ServerStats::default();
            stats.traffic.shed = count;
            stats.store.refused = 7;
            let (number, json) = (1, OnceLock::new());
            Arc::new(Sample {
                number,
                stats,
                json,
                queues_json: None,
            })
        };
        assert_eq!(concerns(&[]), None);
        assert_eq!(concerns(&[shed(3), shed(3)]), None);
        let paused = |count| {
            let mut stats = ServerStats::default();
            stats.registrar.logins_paused = count;
            let (number, json) = (1, OnceLock::new());
            Arc::new(Sample {
                number,
                stats,
                json,
                queues_json: None,
            })
        };
        assert_eq!(concerns(&[paused(3), paused(4)]), None, "a matter of one");
        assert_eq!(
            concerns(&[shed(3), shed(4)]).unwrap(),
            "degraded: limits reached: the time that requests may wait"
        );
    }

    #[test]
    fn a_database_that_stays_behind_its_journal_degrades_health() {
        let mut stats = ServerStats::default();
        stats.store.journal_bytes = 1000;
        stats.store.journal_used = 700;
        stats.store.behind_ns = 9_000_000_000;
        let concern = |stats: &ServerStats| {
            let (number, json, stats) = (1, OnceLock::new(), stats.clone());
            let queues_json = None;
            concerns(&[Arc::new(Sample {
                number,
                stats,
                json,
                queues_json,
            })])
        };
        assert_eq!(concern(&stats), None);
        stats.store.behind_error = "disk full".into();
        let told = concern(&stats).unwrap();
        assert!(
            told.ends_with("9 s behind its journal, which is full to 70 %: disk full"),
            "{told}"
        );
        stats.store.behind_error.clear();
        stats.store.journal_used = 800;
        assert!(concern(&stats).unwrap().ends_with("full to 80 %"));
        (stats.store.journal_used, stats.store.behind_ns) = (100, 11_000_000_000);
        assert!(concern(&stats).unwrap().contains("11 s behind"));
    }

    #[test]
    fn a_store_that_does_not_answer_is_unhealthy() {
        let mut stats = ServerStats::default();
        stats.store.stalled_ns = 7_500_000_000;
        let stalled = Arc::new(Sample {
            number: 2,
            stats,
            json: OnceLock::new(),
            queues_json: None,
        });
        let ill = verdict(false, &[sample(0), stalled]);
        assert_eq!(
            ill.unwrap_err(),
            "the store has been busy with one write for 7 s"
        );
    }

    #[test]
    fn health_reports_that_the_server_is_draining() {
        assert_eq!(verdict(true, &[]).unwrap_err(), "shutting down");
    }
}
