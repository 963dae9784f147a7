//! Versions of peers: from an engine's lock file, or from the peer itself.

use std::{fs, path::Path, process::Command};

/// `name version`, as in the lock file in `folder`.
pub fn of_crate(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join("Cargo.lock")).ok()?;
    let entry = text.split("[[package]]").find(|entry| {
        let mut lines = entry.lines();
        lines.any(|line| line == format!("name = \"{name}\""))
    })?;
    let line = entry.lines().find(|line| line.starts_with("version = "))?;
    Some(format!("{name} {}", line.split('"').nth(1)?))
}

/// The first line that the command prints, on either stream.
pub fn of_command(words: &[String]) -> Option<String> {
    let (program, args) = words.split_first()?;
    let output = Command::new(program).args(args).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_names_versions() {
        let folder = std::env::temp_dir().join(format!("versus-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let lock = "version = 4\n\n[[package]]\nname = \"bytes\"\nversion = \"1.2.3\"\n";
        fs::write(folder.join("Cargo.lock"), lock).unwrap();
        assert_eq!(of_crate(&folder, "bytes").as_deref(), Some("bytes 1.2.3"));
        assert_eq!(of_crate(&folder, "tokio"), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
