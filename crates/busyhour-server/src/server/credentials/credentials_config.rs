use super::credential_request;
use crate::server::{HttpRequest, HttpUrl, HttpUrlMistake};
use hyper::header::HeaderValue;
use std::time::Duration;
use thiserror::Error;

/// Where the credentials of users without an account here are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialsConfig {
    /// What is asked, with `user`, `realm` and `domain` in the query.
    pub url: HttpUrl,
    /// The value of the header Authorization.
    pub authorization: Option<HeaderValue>,
    /// How long an answer may take.
    pub time_limit: Duration,
    /// How long an account counts without being asked for again.
    pub cache: Duration,
    /// How long it counts that there is no such account.
    pub missing: Duration,
    /// How much longer an account counts when the service does not answer.
    pub stale: Duration,
}

/// What is wrong with a [`CredentialsConfig`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CredentialsMistake {
    /// The URL.
    #[error("{0}")]
    Url(#[from] HttpUrlMistake),
    /// What cannot stand in a header.
    #[error("give one line of text, such as `Bearer` and a token")]
    Authorization,
}

impl CredentialsConfig {
    /// The service at a URL: an answer may take two seconds, an account counts for five minutes,
    /// an hour longer when the service does not answer, and a missing one for 30 s.
    ///
    /// # Errors
    ///
    /// When it is no URL of `http` or `https`, or has a password.
    pub fn new(url: &str) -> Result<Self, CredentialsMistake> {
        Ok(Self {
            url: url.parse::<HttpUrl>()?,
            authorization: None,
            time_limit: Duration::from_secs(2),
            cache: Duration::from_secs(300),
            missing: Duration::from_secs(30),
            stale: Duration::from_secs(3600),
        })
    }

    /// With the value of the header Authorization, which logs do not show.
    ///
    /// # Errors
    ///
    /// When it cannot stand in a header.
    pub fn authorized_by(self, authorization: &str) -> Result<Self, CredentialsMistake> {
        let value = HeaderValue::from_str(authorization.trim());
        let mut value = value.map_err(|_| CredentialsMistake::Authorization)?;
        value.set_sensitive(true);
        Ok(Self {
            authorization: Some(value),
            ..self
        })
    }

    /// What the service is asked for a user.
    pub fn request(&self, user: &str, realm: &str, domain: Option<&str>) -> Option<HttpRequest> {
        credential_request::request(self, user, realm, domain)
    }
}
