//! Which migrations a database still needs.

use crate::StoreError;
use std::path::Path;

/// Those of `all` that a database of version `found` has not seen: element `n` brings
/// it from version `n` to `n + 1`.
///
/// # Errors
///
/// [`StoreError::Newer`] if a newer program made the database at `path`.
pub(crate) fn not_seen(
    all: &'static [&'static str],
    found: u32,
    path: &Path,
) -> Result<&'static [&'static str], StoreError> {
    all.get(found as usize..).ok_or_else(|| StoreError::Newer {
        path: path.to_owned(),
        found,
        known: all.len() as u32,
    })
}
