//! Whether the collector of spans takes any.

use super::Finding;
use crate::{
    config::Config,
    net::HttpSender,
    server::{HttpAnswer, HttpClient, HttpFailure, SpanExportConfig},
};
use std::{sync::mpsc, time::Duration};

/// Nothing without a collector.
pub(super) fn finding(config: &Config) -> Option<Finding> {
    let collector = match config.otlp.collector() {
        Ok(collector) => collector?,
        Err(problem) => return Some(Finding::problem(CHECK, problem.to_string(), "mend it")),
    };
    let url = collector.url.to_string();
    Some(match ask(config, &collector) {
        Ok(answer) if answer.status.is_success() => {
            Finding::good(CHECK, format!("{url} takes spans"))
        }
        // Telephones do not notice.
        Ok(answer) => Finding::warning(
            CHECK,
            format!("{url} answers {}", answer.status),
            "it must take OTLP over HTTP in JSON at this URL, and the headers of otlp.headers_file",
        ),
        Err(reason) => Finding::warning(
            CHECK,
            format!("{url}: {reason}"),
            "start it, or mend otlp.endpoint; until then spans are lost, and counted",
        ),
    })
}

/// Tells it nothing, which it has to take.
fn ask(config: &Config, collector: &SpanExportConfig) -> Result<HttpAnswer, String> {
    let sender = HttpSender::new(config.http_client.options()?);
    let request = collector.request(b"{\"resourceSpans\":[]}".to_vec());
    let time_limit = request.time_limit;
    let (told, outcome) = mpsc::channel();
    let listener = Box::new(move |outcome| drop(told.send(outcome)));
    let sent = sender.send(request, listener);
    sent.map_err(|failure| failure.to_string())?;
    // The client ends it by itself.
    let outcome = outcome.recv_timeout(time_limit + PATIENCE);
    let outcome = outcome.unwrap_or(Err(HttpFailure::Late));
    outcome.map_err(|failure| failure.to_string())
}

const CHECK: &str = "collector";
const PATIENCE: Duration = Duration::from_secs(5);
