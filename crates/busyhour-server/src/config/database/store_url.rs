//! The URL of the database, from whichever setting has it.

use crate::config::Store;
use busyhour_store::PostgresOptions;
use std::fs;

impl Store {
    /// The URL of the PostgreSQL database; `None` if the store is an SQLite file.
    ///
    /// # Errors
    ///
    /// When the file for the URL has none.
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

    /// Whether the store is a PostgreSQL database.
    pub fn is_postgres(&self) -> bool {
        self.url.is_some() || self.url_file.is_some()
    }
}
