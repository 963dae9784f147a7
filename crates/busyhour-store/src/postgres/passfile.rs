//! The file in which PostgreSQL's clients find passwords: `~/.pgpass`, or the one
//! that `PGPASSFILE` names.

use postgres::{Config, config::Host};
use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The password for this database, if the file has one.
pub(super) fn password(config: &Config) -> Option<String> {
    let path = path()?;
    let found = fs::metadata(&path).ok()?;
    if found.is_file() && found.mode() & READABLE_BY_OTHERS != 0 {
        let path = path.display();
        tracing::warn!(
            %path,
            "the password file is ignored, since other users than its owner can read it; run chmod 600 on it"
        );
        return None;
    }
    find(&fs::read_to_string(path).ok()?, &wanted(config)?)
}

fn path() -> Option<PathBuf> {
    let named = env::var_os("PGPASSFILE").filter(|path| !path.is_empty());
    let own = || dirs::home_dir().map(|home| home.join(".pgpass"));
    named.map(PathBuf::from).or_else(own)
}

/// What a line must match: any of the hosts, the port, the database and the user.
struct Wanted {
    hosts: Vec<String>,
    port: String,
    database: String,
    user: String,
}

fn wanted(config: &Config) -> Option<Wanted> {
    let user = config.get_user()?.to_owned();
    let host = config.get_hosts().first();
    let hosts = match host {
        Some(Host::Tcp(name)) => vec![name.clone()],
        Some(Host::Unix(folder)) => vec![shown(folder), LOCAL.to_owned()],
        None => vec![config.get_hostaddrs().first()?.to_string()],
    };
    Some(Wanted {
        hosts,
        port: config.get_ports().first().unwrap_or(&5432).to_string(),
        database: config.get_dbname().unwrap_or(&user).to_owned(),
        user,
    })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The first line that fits: `host:port:database:user:password`, where `*` is anything
/// and a backslash takes the meaning from what follows.
fn find(text: &str, wanted: &Wanted) -> Option<String> {
    let fits = |field: &str, value: &str| field == "*" || unescaped(field) == value;
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let [host, port, database, user, password] = fields(line)?;
            let is_one = wanted.hosts.iter().any(|name| fits(host, name))
                && fits(port, &wanted.port)
                && fits(database, &wanted.database)
                && fits(user, &wanted.user);
            is_one.then(|| unescaped(password))
        })
}

fn fields(line: &str) -> Option<[&str; 5]> {
    let mut fields = [""; 5];
    let mut rest = line;
    for field in &mut fields[..4] {
        let end = end_of_field(rest)?;
        (*field, rest) = (&rest[..end], &rest[end + 1..]);
    }
    fields[4] = rest;
    Some(fields)
}

fn end_of_field(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b':' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescaped(field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            other => out.push(other),
        }
    }
    out
}

const LOCAL: &str = "localhost";
const READABLE_BY_OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, url: &str) -> Option<String> {
        find(text, &wanted(&url.parse().unwrap()).unwrap())
    }

    #[test]
    fn the_first_matching_line_has_the_password() {
        let text = "# db:*:*:*:comment\nother:*:*:*:no\ndb:5433:*:*:port\n\
            db:*:bh:busyhour:a\\:b\\\\c:d\n*:*:*:*:last\n";
        let one = found(text, "postgres://busyhour@db/bh").unwrap();
        assert_eq!(one, "a:b\\c:d");
        assert_eq!(found(text, "postgres://x@db:5433/bh").unwrap(), "port");
        assert_eq!(found(text, "postgres://x@db/bh").unwrap(), "last");
        assert_eq!(found("db:5432:bh", "postgres://x@db/bh"), None);
    }

    #[test]
    fn a_socket_is_localhost_and_the_database_is_called_as_the_user() {
        let url = "postgres://busyhour@/?host=/run/postgresql";
        assert_eq!(
            found("localhost:5432:busyhour:busyhour:p", url).unwrap(),
            "p"
        );
        assert_eq!(found("/run/postgresql:*:*:*:q", url).unwrap(), "q");
        assert_eq!(found("db:*:*:*:q", url), None);
    }
}
