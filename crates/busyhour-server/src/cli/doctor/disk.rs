//! The folder of the database: room, speed, and whether a synchronised byte is on a disk.

use super::Finding;
use crate::{
    cli::service::database,
    config::{Config, Durability},
};
use rustix::fs::statvfs;
use std::{
    fs::{self, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(super) fn findings(config: &Config) -> Vec<Finding> {
    if config.store.durability == Durability::Memory || config.store.is_postgres() {
        return Vec::new();
    }
    let path = database(&config.store);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    if !folder.is_dir() {
        let found = format!("{} is not there yet; the server makes it", folder.display());
        return vec![Finding::good("disk", found)];
    }
    let mut findings = vec![room(&folder)];
    findings.extend(kind(&folder));
    findings.push(speed(&folder));
    findings
}

fn room(folder: &Path) -> Finding {
    let name = folder.display();
    match statvfs(folder) {
        Ok(found) => {
            let free = found.f_bavail * found.f_frsize;
            let mib = free >> 20;
            match free < ROOM_MIN {
                true => Finding::problem(
                    "disk room",
                    format!("{mib} MiB are free in {name}"),
                    "make room: without it no registration is acknowledged",
                ),
                false => Finding::good("disk room", format!("{mib} MiB are free in {name}")),
            }
        }
        Err(error) => Finding::warning("disk room", format!("{name}: {error}"), ""),
    }
}

/// A file system that is no disk, if it is one.
fn kind(folder: &Path) -> Option<Finding> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let folder = folder.canonicalize().ok()?;
    let lines = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let (_, kind) = lines
        .filter(|(place, _)| folder.starts_with(place))
        .max_by_key(|(place, _)| place.len())?;
    match kind {
        "tmpfs" | "ramfs" => Some(Finding::problem(
            "disk kind",
            format!("{} is in memory ({kind})", folder.display()),
            "give store.path a folder on a disk, or set store.durability = \"memory\" if that is meant",
        )),
        "nfs" | "nfs4" | "cifs" | "fuse.sshfs" => Some(Finding::problem(
            "disk kind",
            format!(
                "{} is on a network ({kind}), where SQLite's locks do not hold",
                folder.display()
            ),
            "use a local disk, or PostgreSQL",
        )),
        _ => None,
    }
}

/// How long it takes until a page is on the disk.
fn speed(folder: &Path) -> Finding {
    let times = match synchronised(folder) {
        Ok(times) => times,
        Err(error) => {
            return Finding::problem(
                "disk speed",
                format!("{} cannot be written: {error}", folder.display()),
                "run this as the server's user; it must own the folder",
            );
        }
    };
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    let (median, worst) = (at(50), at(99));
    let found = format!(
        "a page is on the disk after {} (99 of 100: {})",
        shown(median),
        shown(worst)
    );
    match () {
        () if median < HONEST_MIN => Finding::warning(
            "disk speed",
            found,
            "that is quicker than a disk without a battery can be: it may only say so, as many virtual \
             disks do, and a power cut loses what it said; ask whoever runs the disk whether its cache \
             survives one",
        ),
        () if median > SLOW => Finding::warning(
            "disk speed",
            found,
            "registrations wait for it, though all that come meanwhile share one wait; a disk with a \
             protected cache helps",
        ),
        () => Finding::good("disk speed", found),
    }
}

/// Sorted times of many small writes, each synchronised.
fn synchronised(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!(".busyhour-doctor-{}", std::process::id()));
    let times = write_pages(&path);
    let _ = fs::remove_file(&path);
    times
}

fn write_pages(path: &Path) -> io::Result<Vec<Duration>> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    while times.len() < WRITES && (times.is_empty() || begun.elapsed() < PATIENCE) {
        let page = [times.len() as u8; 4096];
        let begun = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

fn shown(time: Duration) -> String {
    match time.as_micros() {
        micros if micros < 1000 => format!("{micros} µs"),
        micros => format!("{:.1} ms", micros as f64 / 1000.0),
    }
}

/// Less than this, and the next burst of call records may fill it.
const ROOM_MIN: u64 = 256 << 20;
const WRITES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(3);
/// The fastest disks with a protected cache need some ten microseconds.
const HONEST_MIN: Duration = Duration::from_micros(15);
const SLOW: Duration = Duration::from_millis(20);
