//! Health in words: what is wrong, since when, and what to do about it.

use super::graph::sampler::Sample;
use crate::server::{CertificateStats, PeerView, RelayView};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use utoipa::ToSchema;

/// How a server is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, `notice` (somebody may be limited), `warning` (everybody may be), or `critical`
    /// (the server cannot do its work).
    pub(super) status: HealthSeverity,
    /// What is wrong, the worst first.
    pub(super) findings: Vec<HealthFinding>,
    /// The version of the program.
    pub(super) version: &'static str,
    /// Seconds since the server started.
    pub(super) uptime_seconds: u64,
}

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct HealthFinding {
    /// How bad it is.
    pub(super) severity: HealthSeverity,
    /// What stays the same while the words change: figures and reasons.
    #[serde(skip)]
    kind: String,
    /// What is wrong.
    pub(super) what: String,
    /// Since when at least, in seconds since 1970.
    pub(super) since_unix_seconds: u64,
    /// How often it happened within two minutes.
    pub(super) count: Option<u64>,
    /// What to do.
    pub(super) advice: String,
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum HealthSeverity {
    /// Nothing is wrong.
    Ok,
    /// One client is limited, so that the others are not.
    Notice,
    /// Somebody who did nothing unusual may be refused.
    Warning,
    /// The server cannot do its work.
    Critical,
}

/// Since when each finding is there.
#[derive(Default)]
pub(super) struct FindingLog(Mutex<BTreeMap<String, u64>>);

/// What is looked at beside the samples.
pub(super) struct Surroundings {
    pub(super) verdict: Result<(), String>,
    pub(super) certificates: Vec<CertificateStats>,
    pub(super) certificate_problem: Option<String>,
    pub(super) peers: Vec<PeerView>,
    pub(super) relays: Vec<RelayView>,
    pub(super) unix_seconds: u64,
}

impl FindingLog {
    /// What is wrong by samples of the last two minutes, one a second.
    pub(super) fn health(&self, kept: &[Arc<Sample>], around: Surroundings) -> Health {
        let now = around.unix_seconds;
        let mut findings = Vec::new();
        if let Err(reason) = &around.verdict {
            findings.push(lasting(
                HealthSeverity::Critical,
                (advice_of_verdict(reason).to_owned(), reason.clone()),
                advice_of_verdict(reason),
                now,
            ));
        }
        findings.extend(reached(kept, now));
        findings.extend(
            around
                .certificates
                .iter()
                .filter(|it| it.expires_soon())
                .map(|it| {
                    let what = format!("the certificate {} ends at {}", it.name, it.not_after);
                    lasting(
                        HealthSeverity::Warning,
                        (what.clone(), what),
                        "renew it; the server takes a changed file by itself",
                        now,
                    )
                }),
        );
        findings.extend(around.certificate_problem.map(|problem| {
            let what = format!("the newer certificates are not used: {problem}");
            lasting(
                HealthSeverity::Warning,
                ("certificates".to_owned(), what),
                "mend the file; `busyhour check-config` says more",
                now,
            )
        }));
        let addresses = around.peers.iter().flat_map(|peer| {
            let addresses = peer.addresses.iter();
            addresses.map(|address| (&peer.name, address))
        });
        let down = addresses.filter(|(_, it)| it.state == Some("down"));
        findings.extend(down.map(|(peer, it)| {
            let what = format!("the peer {peer} does not answer at {}", it.address);
            lasting(
                HealthSeverity::Warning,
                (what.clone(), what),
                "look whether it runs and whether a firewall lies between",
                now,
            )
        }));
        let down = around.relays.iter().filter(|relay| relay.state == "down");
        findings.extend(down.map(|relay| {
            let what = format!("the media relay at {} does not answer", relay.address);
            lasting(
                HealthSeverity::Warning,
                (what.clone(), what),
                "start rtpengine there, or take it out of media.relays",
                now,
            )
        }));
        self.remember(&mut findings);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let uptime_ns = kept.last().map_or(0, |last| last.stats.uptime_ns);
        Health {
            status: findings
                .first()
                .map_or(HealthSeverity::Ok, |worst| worst.severity),
            findings,
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: uptime_ns / 1_000_000_000,
        }
    }

    /// What was there before is as old as it was then.
    fn remember(&self, findings: &mut [HealthFinding]) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *since);
        for finding in findings {
            if let Some(first) = before.get(&finding.kind) {
                finding.since_unix_seconds = finding.since_unix_seconds.min(*first);
            }
            since.insert(finding.kind.clone(), finding.since_unix_seconds);
        }
    }
}

/// Limits whose counters have grown.
fn reached(kept: &[Arc<Sample>], now: u64) -> Vec<HealthFinding> {
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
        return Vec::new();
    };
    let of_all = first.stats.limits_of_all().len();
    let counts = |sample: &Sample| sample.stats.limits_reached();
    let before = counts(first);
    let grown = counts(last)
        .into_iter()
        .enumerate()
        .filter_map(|(index, (name, count))| {
            let grown = count
                .checked_sub(before[index].1)
                .filter(|grown| *grown > 0)?;
            let begun = kept
                .iter()
                .find(|sample| counts(sample)[index].1 > before[index].1);
            let age = begun.map_or(0, |sample| last.number - sample.number);
            let severity = match index < of_all {
                true => HealthSeverity::Warning,
                false => HealthSeverity::Notice,
            };
            Some(HealthFinding {
                severity,
                kind: name.to_owned(),
                what: format!("a limit is reached: {name}"),
                since_unix_seconds: now.saturating_sub(age),
                count: Some(grown),
                advice: advice_of_limit(name, severity),
            })
        });
    grown.collect()
}

fn lasting(
    severity: HealthSeverity,
    (kind, what): (String, String),
    advice: &str,
    now: u64,
) -> HealthFinding {
    HealthFinding {
        severity,
        kind,
        what,
        since_unix_seconds: now,
        count: None,
        advice: advice.to_owned(),
    }
}

fn advice_of_verdict(reason: &str) -> &'static str {
    match reason {
        _ if reason.starts_with("shutting") => "wait, or look at who stops it",
        _ if reason.starts_with("nothing can be stored") => {
            "restart the server once the database is back in its place"
        }
        _ => "look at the disk or the database: is it full, slow or gone?",
    }
}

fn advice_of_limit(name: &str, severity: HealthSeverity) -> String {
    let is_setting = !name.contains(' ') && name.contains('.');
    let known = match name {
        "the kernel's receive buffer" => {
            "more comes than the server reads, or REGISTERs are dropped since more come than it can serve (then network.early_drops_begun \
             grows): look at the processor, and at `to read` in Queues; if that is full in short bursts only, raise net.core.rmem_max and sip.receive_buffer_kib (`busyhour doctor` says to what)"
        }
        "the time that requests may wait"
        | "the time that messages of calls may wait to be read" => {
            "more comes than the machine can do: look at the processor and at Queues, and give it more cores or less load"
        }
        "wrong passwords" => {
            "somebody tries passwords: the Log names user and address; the fail2ban filter can shut the address out"
        }
        "the rows that wait to be removed" | "the records of calls that wait" => {
            "the database is too slow: look at its disk"
        }
        _ if is_setting => "",
        _ => "docs/limits.md describes the limit and its counters",
    };
    match (known, severity) {
        ("", HealthSeverity::Notice) => {
            format!("the Log names who reached {name}; raise the setting if they should have more")
        }
        ("", _) => format!(
            "raise {name} if the load is wanted and the machine has memory; otherwise the Log names who sends it"
        ),
        (known, _) => known.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerStats;
    use std::sync::OnceLock;

    fn sample(number: u64, shed: u64, paused: u64) -> Arc<Sample> {
        let mut stats = ServerStats::default();
        stats.traffic.shed = shed;
        stats.registrar.logins_paused = paused;
        Arc::new(Sample {
            number,
            stats,
            json: OnceLock::new(),
            queues_json: None,
        })
    }

    fn around(verdict: Result<(), String>, unix_seconds: u64) -> Surroundings {
        Surroundings {
            verdict,
            certificates: Vec::new(),
            certificate_problem: None,
            peers: Vec::new(),
            relays: Vec::new(),
            unix_seconds,
        }
    }

    #[test]
    fn a_quiet_server_is_well() {
        let log = FindingLog::default();
        let health = log.health(&[sample(1, 5, 5), sample(2, 5, 5)], around(Ok(()), 1000));
        assert_eq!(
            (health.status, health.findings),
            (HealthSeverity::Ok, Vec::new())
        );
        assert_eq!(
            log.health(&[], around(Ok(()), 1000)).status,
            HealthSeverity::Ok
        );
    }

    #[test]
    fn a_finding_stays_as_old_as_it_is_when_its_words_change() {
        let log = FindingLog::default();
        let since = |seconds: u64, now: u64| {
            let busy = format!("the store has been busy with one write for {seconds} s");
            log.health(&[], around(Err(busy), now)).findings[0].since_unix_seconds
        };
        assert_eq!([since(7, 1000), since(9, 1002), since(11, 1004)], [1000; 3]);
    }

    #[test]
    fn the_worst_comes_first_and_says_since_when_and_what_to_do() {
        let log = FindingLog::default();
        let kept = [
            sample(1, 0, 0),
            sample(2, 0, 1),
            sample(3, 4, 2),
            sample(5, 6, 2),
        ];
        let ill = Err("the store fails: disk full".to_owned());
        let health = log.health(&kept, around(ill.clone(), 1000));
        let found: Vec<_> = health
            .findings
            .iter()
            .map(|it| (it.severity, it.since_unix_seconds, it.count))
            .collect();
        assert_eq!(
            found,
            [
                (HealthSeverity::Critical, 1000, None),
                (HealthSeverity::Warning, 998, Some(6)),
                (HealthSeverity::Notice, 997, Some(2)),
            ]
        );
        assert!(
            health
                .findings
                .iter()
                .all(|finding| !finding.advice.is_empty())
        );
        let later = log.health(&kept, around(ill, 1060));
        let since: Vec<_> = later
            .findings
            .iter()
            .map(|it| it.since_unix_seconds)
            .collect();
        assert_eq!(since, [1000, 998, 997], "it is as old as before");
        log.health(&kept[..1], around(Ok(()), 1100));
        let again = log.health(&kept, around(Ok(()), 1200));
        assert_eq!(
            again.findings[0].since_unix_seconds, 1198,
            "it was gone in the meantime"
        );
    }
}
