//! What holds for a client of `pmcd` whatever the other side sends, shared by the fuzzer
//! and the tests.

use busyhour_pcp::{LiveAction, LiveError, PmcdClient};

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
    let _ = run(&mut client, bytes, piece_len, true);
    assert!(client.metrics().len() <= METRICS_MAX);
    for metric in client.metrics() {
        assert_eq!(client.metric(metric.id), Some(metric));
        assert!(metric.is_numeric());
    }
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
    PmcdClient::new("", METRICS_MAX)
}

const METRICS_MAX: usize = 16;
