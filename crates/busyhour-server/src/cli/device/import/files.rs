//! The files that a configuration includes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The files that a path means, in their order: `*`, `?` and `[` in its last part stand for others,
/// but not for a dot at the beginning. None if there are none.
pub(super) fn matching(path: &Path) -> Result<Vec<PathBuf>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    if has_pattern(&folder.to_string_lossy()) {
        let path = path.display();
        return Err(format!("`{path}`: a pattern may be in the last part only"));
    }
    if !has_pattern(&name) {
        return Ok(Vec::from_iter(path.exists().then(|| path.to_owned())));
    }
    let glob = globset::Glob::new(&name).map_err(|error| error.to_string())?;
    let matcher = glob.compile_matcher();
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(failed)?.path();
        let is_hidden = |name: &str| name.starts_with('.');
        let found = file.file_name().is_some_and(|found| {
            matcher.is_match(found) && is_hidden(&found.to_string_lossy()) <= is_hidden(&name)
        });
        files.extend(found.then_some(file));
    }
    files.sort();
    Ok(files)
}

/// The same file has the same one, whatever it is called.
pub(super) fn identity(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn has_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}
