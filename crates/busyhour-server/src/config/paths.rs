use std::{env, path::PathBuf};

/// The database used when none is configured: `busyhour.db` in the state
/// folder that systemd gives (`STATE_DIRECTORY`), else in the user's
/// (`$XDG_STATE_HOME/busyhour`, `~/.local/state/busyhour`), else in `/var/lib/busyhour`.
pub fn default_database() -> PathBuf {
    let given = env::var("STATE_DIRECTORY").ok().and_then(first_of);
    let own = || dirs::state_dir().map(|state| state.join("busyhour"));
    let folder = given.or_else(own);
    folder
        .unwrap_or_else(|| PathBuf::from("/var/lib/busyhour"))
        .join("busyhour.db")
}

/// The first folder; systemd separates several state folders by colons.
fn first_of(directories: String) -> Option<PathBuf> {
    let first = directories
        .split(':')
        .next()
        .filter(|first| !first.is_empty());
    first.map(PathBuf::from)
}
