//! Checks who may read the file that holds passwords.

use super::{Config, Loaded, SettingOrigin};
use busyhour_store::masked;
use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The text of a credential of systemd (`LoadCredential=`, `SetCredentialEncrypted=`), if `text`
/// is `credential:NAME`.
///
/// # Errors
///
/// What is missing.
pub(super) fn credential(text: &str) -> Result<Option<String>, String> {
    let Some(path) = credential_path(text)? else {
        return Ok(None);
    };
    let read = fs::read_to_string(&path);
    let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
    // Editors end files with a line end, which is no part of a password.
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Where the credential is.
///
/// # Errors
///
/// As for [`credential`].
pub(super) fn credential_path(text: &str) -> Result<Option<PathBuf>, String> {
    let Some(name) = text.trim().strip_prefix("credential:") else {
        return Ok(None);
    };
    let folder = env::var_os("CREDENTIALS_DIRECTORY").ok_or_else(|| {
        format!("there is no credential `{name}`: systemd gives them to a service that has LoadCredential={name}:FILE")
    })?;
    match name.is_empty() || name.contains('/') {
        true => Err(format!("`{name}` is no name of a credential")),
        false => Ok(Some(Path::new(&folder).join(name))),
    }
}

/// A warning if the file at `path` holds secrets and every user can read it.
pub(super) fn warning(path: &Path, config: &Config) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let is_open = found.mode() & READABLE_BY_ALL != 0;
    (is_open && holds_secrets(config)).then(|| {
        let path = path.display();
        format!(
            "{path}: every user of this machine can read the secrets in it; run chmod 640 on it"
        )
    })
}

/// A warning if a password is in the arguments of this process.
pub(super) fn argument_warning(loaded: &Loaded) -> Option<String> {
    let origin = loaded.origins.get("store.url")?;
    let is_argument = matches!(origin, SettingOrigin::Flag(_));
    (is_argument && has_password(&loaded.config)).then(|| {
        format!(
            "{origin}: every user of this machine can read the password in it while this runs; \
             write the URL into a file and give --store-url-file FILE, or the password into \
             ~/.pgpass"
        )
    })
}

/// A warning if every user can read the file that has the URL.
pub(super) fn url_file_warning(config: &Config) -> Option<String> {
    let path = config.store.url_file.as_deref()?;
    let url = config.store.database_url().ok()??;
    let is_open = fs::metadata(path).ok()?.mode() & READABLE_BY_ALL != 0;
    (is_open && masked(&url) != url).then(|| {
        let path = path.display();
        format!(
            "{path}: every user of this machine can read the password in it; run chmod 600 on it"
        )
    })
}

/// A hash is a secret, too: it can replace the password of the digest that it is for.
fn holds_secrets(config: &Config) -> bool {
    !config.accounts.is_empty() || has_password(config)
}

fn has_password(config: &Config) -> bool {
    let url = config.store.url.as_ref();
    config.hep.password.is_some() || url.is_some_and(|url| masked(url) != *url)
}

const READABLE_BY_ALL: u32 = 0o004;
