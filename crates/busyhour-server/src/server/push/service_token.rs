//! What says to a service who we are, kept as long as it is good.

use busyhour::clock::Instant;
use std::{future::Future, time::Duration};
use tokio::sync::Mutex;

/// The token of one service. While one is asked for, the others wait for it.
#[derive(Default)]
pub(super) struct ServiceToken(Mutex<KeptToken>);

#[derive(Default)]
struct KeptToken {
    /// With when it was made, and until when it is good.
    token: Option<(String, Instant, Instant)>,
    /// Why there is none, and until when nobody asks again.
    failed: Option<(String, Instant)>,
}

impl ServiceToken {
    /// The kept one, or a new one that `make` gives with its life.
    pub(super) async fn get(
        &self,
        now: Instant,
        make: impl Future<Output = Result<(String, Duration), String>>,
    ) -> Result<String, String> {
        let mut kept = self.0.lock().await;
        if let Some((token, _, until)) = &kept.token
            && *until > now
        {
            return Ok(token.clone());
        }
        if let Some((said, until)) = &kept.failed
            && *until > now
        {
            return Err(said.clone());
        }
        match make.await {
            Ok((token, life)) => {
                kept.token = Some((token.clone(), now, now + life));
                kept.failed = None;
                Ok(token)
            }
            Err(said) => {
                kept.failed = Some((said.clone(), now + REST));
                Err(said)
            }
        }
    }

    /// The service does not believe this one. A newer one stays; so does one that is younger than
    /// the service wants.
    pub(super) async fn refused(&self, token: &str, now: Instant, youngest: Duration) {
        let mut kept = self.0.lock().await;
        let is_it =
            |(it, made, _): &(String, Instant, Instant)| it == token && now - *made >= youngest;
        if kept.token.as_ref().is_some_and(is_it) {
            kept.token = None;
        }
    }
}

/// After a failure all who wait get the same answer.
const REST: Duration = Duration::from_secs(1);
