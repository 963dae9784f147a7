use super::entry::{Reported, TableEntry};
use crate::net::CertificateFiles;

/// Reads a `[[certificate]]`; its files are read later.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<CertificateFiles, Reported> {
    let certificate = entry.required("certificate", TableEntry::text);
    let key = entry.required("key", TableEntry::text);
    let names = entry.texts("names");
    let is_default = entry.yes_or_no("default");
    Ok(CertificateFiles {
        certificate: certificate?.into(),
        key: key?.into(),
        names: names?.unwrap_or_default(),
        is_default: is_default?.unwrap_or_default(),
        settings: ["certificate of [[certificate]]", "key of [[certificate]]"],
    })
}

pub(in crate::config) const FIELDS: &[&str] = &["certificate", "key", "names", "default"];
