use super::SettingProblem;
use crate::server::CredentialsConfig;
use std::{fs, path::PathBuf, time::Duration};

/// The `[credentials]` section: a service that has accounts.
#[derive(Debug, Clone, PartialEq)]
pub struct CredentialSettings {
    /// Where it is asked; `None`: nobody is.
    pub url: Option<String>,
    /// A file with the value of the header Authorization.
    pub authorization_file: Option<PathBuf>,
    /// How long an answer may take.
    pub time_limit: Duration,
    /// How long an account counts.
    pub cache: Duration,
    /// How long it counts that there is none.
    pub missing: Duration,
    /// How much longer an account counts when the service does not answer.
    pub stale: Duration,
}

impl CredentialSettings {
    /// What the server needs, if there is a service. Reads the file.
    ///
    /// # Errors
    ///
    /// The setting, what is wrong with it, and what to do.
    pub fn service(&self) -> Result<Option<CredentialsConfig>, SettingProblem> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let wrong = |setting| move |reason: String| SettingProblem { setting, reason };
        let config = CredentialsConfig::new(url);
        let config = config.map_err(|mistake| wrong(URL)(format!("`{url}`: {mistake}")))?;
        let config = CredentialsConfig {
            time_limit: self.time_limit,
            cache: self.cache,
            missing: self.missing,
            stale: self.stale,
            ..config
        };
        let Some(path) = &self.authorization_file else {
            return Ok(Some(config));
        };
        let shown = path.display();
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| wrong(FILE)(format!("{shown}: {error}")))?;
        let config = match text.trim().is_empty() {
            true => return Err(wrong(FILE)(format!("{shown}: it is empty"))),
            false => config.authorized_by(&text),
        };
        let config = config.map_err(|mistake| wrong(FILE)(format!("{shown}: {mistake}")))?;
        Ok(Some(config))
    }
}

impl Default for CredentialSettings {
    fn default() -> Self {
        Self {
            url: None,
            authorization_file: None,
            time_limit: Duration::from_secs(2),
            cache: Duration::from_secs(300),
            missing: Duration::from_secs(30),
            stale: Duration::from_secs(3600),
        }
    }
}

pub(super) const URL: &str = "credentials.url";
pub(super) const FILE: &str = "credentials.authorization_file";
