//! Who may read the file that holds passwords.

use super::Config;
use crate::store::masked;
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// A sentence when the file at `path` holds secrets and every user can read it.
pub(super) fn warning(path: &Path, config: &Config) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let is_open = found.mode() & READABLE_BY_ALL != 0;
    (is_open && holds_secrets(config)).then(|| {
        let path = path.display();
        format!("{path}: every user of this machine can read the secrets in it; chmod 640 it")
    })
}

/// A hash is as good as the password of the digest that it is for.
fn holds_secrets(config: &Config) -> bool {
    let has_password = |url: &String| masked(url) != *url;
    !config.accounts.is_empty() || config.store.url.as_ref().is_some_and(has_password)
}

const READABLE_BY_ALL: u32 = 0o004;
