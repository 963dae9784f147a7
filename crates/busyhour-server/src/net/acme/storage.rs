//! The folder of an account: its key, and the certificate. Both are for the server's user alone,
//! and are replaced in one step.

use super::AcmeOptions;
use crate::net::CertificateFiles;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The certificate of a folder, with its key in the same file; `None` until there is one.
pub fn acme_files(options: &AcmeOptions) -> Option<CertificateFiles> {
    let path = certificate_path(options);
    path.exists().then(|| files(options, &path))
}

pub(super) fn files(options: &AcmeOptions, path: &Path) -> CertificateFiles {
    CertificateFiles {
        certificate: path.to_owned(),
        key: path.to_owned(),
        names: options.names.clone(),
        is_default: false,
        settings: ["acme", "acme"],
    }
}

pub(super) fn certificate_path(options: &AcmeOptions) -> PathBuf {
    options.folder.join("certificate.pem")
}

pub(super) fn account_path(options: &AcmeOptions) -> PathBuf {
    options.folder.join("account.json")
}

/// When somebody asked for an order.
pub(super) fn requested_path(options: &AcmeOptions) -> PathBuf {
    options.folder.join("requested")
}

/// The certificate's file: first from whom it is, which readers of PEM skip, then the key and the
/// chain.
pub(super) fn certificate_text(options: &AcmeOptions, key: &str, chain: &str) -> String {
    format!("{}{key}\n{chain}", first_line(options))
}

/// Whether the certificate is from the authority of these options; `false` without one.
pub(super) fn has_certificate_of_authority(options: &AcmeOptions) -> bool {
    let kept = fs::read_to_string(certificate_path(options));
    kept.is_ok_and(|kept| kept.starts_with(&first_line(options)))
}

fn first_line(options: &AcmeOptions) -> String {
    format!("directory {}\n", options.directory)
}

/// Whether the account is at the authority of these options; `false` without one.
pub(super) fn has_account_at_authority(options: &AcmeOptions) -> bool {
    let kept = fs::read(account_path(options)).ok();
    let kept = kept.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    kept.is_some_and(|kept| kept["directory"] == options.directory)
}

/// A file beside `path`, with this text.
///
/// # Errors
///
/// What is wrong with the folder.
pub(super) fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let beside = path.with_extension("new");
    // One that was left behind may have another mode.
    let _ = fs::remove_file(&beside);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(beside)
}

/// Puts a file in the place of `path`, so that after a crash there is the old or the new one.
pub(super) fn replace(beside: &Path, path: &Path) -> io::Result<()> {
    fs::rename(beside, path)?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::AcmeChallenge;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_kept_is_for_the_owner_alone_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("acme/account.json");
        for text in ["one", "two"] {
            let beside = write_beside(&path, text).unwrap();
            replace(&beside, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert!(!beside.exists());
        }
        let mut options = AcmeOptions {
            directory: "https://one.example/dir".to_owned(),
            names: Vec::new(),
            contact: None,
            challenge: AcmeChallenge::Http01,
            dns_hook: None,
            folder: folder.path().join("acme"),
            authorities: None,
        };
        assert!(
            !has_account_at_authority(&options),
            "what is kept is no account"
        );
        fs::write(&path, r#"{"directory":"https://one.example/dir"}"#).unwrap();
        let certificate = certificate_path(&options);
        assert!(!has_certificate_of_authority(&options));
        fs::write(certificate, certificate_text(&options, "key", "chain")).unwrap();
        assert!(has_account_at_authority(&options) && has_certificate_of_authority(&options));
        options.directory = "https://one.example/dir2".to_owned();
        assert!(!has_account_at_authority(&options) && !has_certificate_of_authority(&options));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }
}
