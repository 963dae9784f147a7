use super::SettingProblem;
use crate::server::SpanExportConfig;
use std::{fs, path::PathBuf};

/// The `[otlp]` section: a collector of OpenTelemetry that is told how long requests took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Where it is; `None`: no request is followed.
    pub endpoint: Option<String>,
    /// One of so many registrations and calls is followed.
    pub trace_one_in: u64,
    /// A file with headers for it.
    pub headers_file: Option<PathBuf>,
}

impl OtlpSettings {
    /// What the server needs, if there is a collector. Reads the file.
    ///
    /// # Errors
    ///
    /// The setting, what is wrong with it, and what to do.
    pub fn collector(&self) -> Result<Option<SpanExportConfig>, SettingProblem> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(None);
        };
        let wrong = |setting| move |reason: String| SettingProblem { setting, reason };
        let config = SpanExportConfig::new(endpoint, self.trace_one_in);
        let config =
            config.map_err(|mistake| wrong(ENDPOINT)(format!("`{endpoint}`: {mistake}")))?;
        let Some(path) = &self.headers_file else {
            return Ok(Some(config));
        };
        let shown = path.display();
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| wrong(HEADERS_FILE)(format!("{shown}: {error}")))?;
        let config = config.with_headers(&text);
        let config =
            config.map_err(|mistake| wrong(HEADERS_FILE)(format!("{shown}: {mistake}")))?;
        Ok(Some(config))
    }
}

impl Default for OtlpSettings {
    fn default() -> Self {
        Self {
            endpoint: None,
            trace_one_in: 100,
            headers_file: None,
        }
    }
}

pub(super) const ENDPOINT: &str = "otlp.endpoint";
pub(super) const HEADERS_FILE: &str = "otlp.headers_file";
