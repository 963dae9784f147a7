//! Whether the service for credentials answers.

use super::Finding;
use crate::{
    config::Config,
    net::HttpSender,
    server::{CredentialsConfig, HttpAnswer, HttpClient, HttpFailure},
};
use std::{
    net::IpAddr,
    sync::mpsc,
    time::{Duration, Instant},
};

/// Nothing without a service.
pub(super) fn finding(config: &Config) -> Option<Finding> {
    let service = match config.credentials.service() {
        Ok(service) => service?,
        Err(problem) => return Some(Finding::problem(CHECK, problem.to_string(), "mend it")),
    };
    let begun = Instant::now();
    let answer = ask(config, &service);
    let took = begun.elapsed().as_millis();
    let url = service.url.to_string();
    Some(match answer {
        Ok(answer) if answer.status.as_u16() == 404 => match is_overheard(&service) {
            true => Finding::warning(
                CHECK,
                format!("{url} answers, and sends hashes unencrypted"),
                "give an https URL: whoever reads a hash can log in with it",
            ),
            false => Finding::good(CHECK, format!("{url} answers in {took} ms")),
        },
        Ok(answer) => Finding::problem(
            CHECK,
            format!("{url} answers {} for a user `{NOBODY}`", answer.status),
            "it must answer 404 where there is no such user, and take credentials.authorization_file",
        ),
        Err(reason) => Finding::problem(
            CHECK,
            format!("{url}: {reason}"),
            "start it, or mend credentials.url; until then users without an account here are answered 503",
        ),
    })
}

fn ask(config: &Config, service: &CredentialsConfig) -> Result<HttpAnswer, String> {
    let sender = HttpSender::new(config.http_client.options()?);
    let request = service.request(NOBODY, &config.sip.realm, None);
    let request = request.ok_or("it cannot be asked")?;
    let (told, outcome) = mpsc::channel();
    let listener = Box::new(move |outcome| drop(told.send(outcome)));
    let sent = sender.send(request, listener);
    sent.map_err(|failure| failure.to_string())?;
    // The client ends it by itself.
    let outcome = outcome.recv_timeout(service.time_limit + PATIENCE);
    let outcome = outcome.unwrap_or(Err(HttpFailure::Late));
    outcome.map_err(|failure| failure.to_string())
}

/// Whether it is another machine, and nothing is encrypted.
fn is_overheard(service: &CredentialsConfig) -> bool {
    let host = service.url.uri().host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    !service.url.is_tls() && !is_here
}

const CHECK: &str = "credentials";
const NOBODY: &str = "busyhour-doctor";
const PATIENCE: Duration = Duration::from_secs(5);
