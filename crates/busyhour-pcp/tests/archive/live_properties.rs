//! What holds for a client of `pmcd` whatever the other side sends, shared by the fuzzer
//! and the tests.

use busyhour_pcp::{LiveAction, LiveError, LiveLimits, PmcdClient};
use std::collections::HashMap;

/// The first byte says how long the pieces are in which the rest comes in. The client
/// gives the same actions as for all at once, and never holds more than it says.
pub fn hold(bytes: &[u8]) {
    let Some((piece_len, bytes)) = bytes.split_first() else {
        return;
    };
    let piece_len = usize::from(*piece_len).max(1);
    let whole = run(&mut client(), bytes, bytes.len().max(1), false);
    assert_eq!(run(&mut client(), bytes, piece_len, false), whole);
    // The same with an owner that fetches whenever it can.
    let mut client = client();
    let (actions, _) = run(&mut client, bytes, piece_len, true);
    for action in &actions {
        if let LiveAction::Sample(sample) = action {
            assert!(sample.values.len() <= LIMITS.values_max);
        }
    }
    let (mut names, mut instances) = (0, HashMap::new());
    for metric in client.metrics() {
        assert_eq!(client.metric(metric.id), Some(metric));
        assert!(metric.is_numeric());
        names += metric.names.len();
        let of_metric = metric.instances.iter().map(|found| &found.name);
        for name in metric.names.iter().chain(of_metric) {
            // What is no text becomes one of up to three times the length.
            assert!(name.len() <= 3 * LIMITS.name_len_max);
        }
        if let Some(domain) = metric.domain {
            let same = instances.insert(domain, metric.instances.clone());
            assert!(same.is_none_or(|same| same == metric.instances));
        }
    }
    assert!(names <= LIMITS.metrics_max);
    let instances: usize = instances.values().map(|found| found.len()).sum();
    assert!(instances <= LIMITS.instances_max);
}

fn run(
    client: &mut PmcdClient,
    bytes: &[u8],
    piece_len: usize,
    fetches: bool,
) -> (Vec<LiveAction>, Option<LiveError>) {
    let mut actions = Vec::new();
    for piece in bytes.chunks(piece_len) {
        match client.receive(piece) {
            Ok(more) => actions.extend(more),
            // What was done before the error counts only as a whole.
            Err(error) => return (Vec::new(), Some(error)),
        }
        if fetches {
            let _ = client.fetch();
        }
    }
    (actions, None)
}

fn client() -> PmcdClient {
    PmcdClient::new("", LIMITS)
}

const LIMITS: LiveLimits = LiveLimits {
    metrics_max: 16,
    instances_max: 24,
    values_max: 32,
    name_len_max: 64,
};
