//! What must hold for every request; fuzzer and tests share it.

use busyhour_graphite::{Graphite, Limits, Parameters, Points, Recorded, TimeLimit};
use std::sync::Arc;

/// Takes the first line of `bytes` as a time, and the rest as a target.
pub fn hold(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (from, target) = text.split_once('\n').unwrap_or(("540", &text));
    let form: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("target", target)
        .append_pair("from", from)
        .append_pair("until", "900")
        .append_pair("maxDataPoints", "7")
        .finish();
    let graphite = graphite();
    for format in ["json", "raw", "csv"] {
        let parameters = Parameters::parse(&format!("format={format}"), form.as_bytes());
        if let Ok(answer) = graphite.render(&parameters, 1_000_000, &TimeLimit::none()) {
            assert!(
                answer.body.len() <= BODY_LEN_MAX,
                "{} bytes",
                answer.body.len()
            );
        }
    }
    let query: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", target)
        .finish();
    let parameters = Parameters::parse(&query, b"");
    // There must be an answer or a refusal.
    let _ = graphite.find(&parameters);
    let _ = graphite.expand(&parameters);
}

fn graphite() -> Graphite {
    let values = || {
        Points::new(
            600,
            60,
            [Some(0.0), Some(60.0), None, Some(-1.5), Some(1e300), None],
        )
    };
    let coarse = Points::new(0, 70, [Some(2.0); 12]);
    let series = [("a.b.c", values()), ("a.b-1.c", values()), ("a.d", coarse)];
    let limits = Limits {
        points_max: 10_000,
        memory_bytes_max: 1 << 20,
        ..Limits::default()
    };
    Graphite::new(vec![Arc::new(Recorded::new(series))], limits)
}

/// The most bytes of a body with as many values and names as the limits allow.
const BODY_LEN_MAX: usize = 4 << 20;
