//! The URL of the database, wherever it is written.

use super::Store;
use busyhour_store::PostgresOptions;
use std::fs;

impl Store {
    /// The URL of the PostgreSQL database; `None` where it is a file of SQLite's.
    ///
    /// # Errors
    ///
    /// A sentence when the file that should have it has none.
    pub fn database_url(&self) -> Result<Option<String>, String> {
        match (&self.url, &self.url_file) {
            (Some(url), _) => Ok(Some(url.clone())),
            (None, None) => Ok(None),
            (None, Some(path)) => {
                let said = |problem| format!("{}: {problem}", path.display());
                let text = fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
                let url = text.trim();
                PostgresOptions::check_url(url).map_err(said)?;
                Ok(Some(url.to_owned()))
            }
        }
    }

    /// Whether it is a PostgreSQL database.
    pub fn is_postgres(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }
}
