use crate::net::{HttpSenderOptions, TrustedRoots};
use std::path::PathBuf;

/// The `[http_client]` section: requests to other servers.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpClientSettings {
    /// Whose certificates of HTTPS servers are believed; `None`: the authorities of this machine.
    pub authorities: Option<PathBuf>,
    /// Requests under way for one purpose to one host.
    pub connections_per_host: usize,
}

impl HttpClientSettings {
    /// Reads the authorities.
    ///
    /// # Errors
    ///
    /// What is wrong with their file, and what to do.
    pub fn options(&self) -> Result<HttpSenderOptions, String> {
        let roots = self.authorities.as_deref().map(TrustedRoots::read);
        let roots = roots.transpose();
        Ok(HttpSenderOptions {
            connections_per_host: self.connections_per_host,
            roots: roots
                .map_err(|problem| format!("http_client.authorities: {problem}"))?
                .unwrap_or_default(),
        })
    }
}

impl Default for HttpClientSettings {
    fn default() -> Self {
        let options = HttpSenderOptions::default();
        Self {
            authorities: None,
            connections_per_host: options.connections_per_host,
        }
    }
}
