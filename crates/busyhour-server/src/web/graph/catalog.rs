use super::cached_archive::{ArchiveSize, CachedArchive};
use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_graphite::{Index, node};
use busyhour_pcp::{Archive, SeriesId, ValueType};
use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What is in a folder of archives at one moment; it never changes.
#[derive(Default)]
pub(super) struct Catalog {
    /// In the order of their start, then of their names.
    archives: Vec<Arc<CachedArchive>>,
    /// Those that could not be read, so that each is read and logged once.
    failed: BTreeMap<PathBuf, ArchiveSize>,
    paths: Arc<ArchivePaths>,
}

/// Every path, and where its values are.
#[derive(Default)]
struct ArchivePaths {
    index: Arc<Index>,
    entries: HashMap<Arc<str>, Vec<CatalogEntry>>,
    /// Those that have no numbers, with their type and the name of their first archive.
    unplotted: HashMap<String, (ValueType, String)>,
}

/// One series of one archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CatalogEntry {
    /// The number of the archive in the catalog.
    pub(super) archive: usize,
    pub(super) series: SeriesId,
}

/// Reads the folder.
pub(super) struct CatalogFolder {
    folder: PathBuf,
    buffers: BufferPool,
    pool: TaskPool,
}

impl Catalog {
    pub(super) fn index(&self) -> Arc<Index> {
        self.paths.index.clone()
    }

    /// Where the values of `path` are, in the order of the archives' start.
    pub(super) fn entries(&self, path: &str) -> &[CatalogEntry] {
        self.paths.entries.get(path).map_or(&[], Vec::as_slice)
    }

    /// Why `path` cannot be drawn, if that is so.
    pub(super) fn refusal(&self, path: &str) -> Option<String> {
        let (value_type, archive) = self.paths.unplotted.get(path)?;
        let advice = match value_type.is_annotation() {
            true => {
                "ask for it as annotations, with the name of the metric as a tag: /events/get_data?tags=METRIC"
            }
            false => "PCP's own pmdumplog prints it",
        };
        Some(format!(
            "{path}: the metric is of the type {value_type} in the archive {archive}, \
             and only numbers are drawn; {advice}"
        ))
    }

    pub(super) fn archives(&self) -> &[Arc<CachedArchive>] {
        &self.archives
    }

    pub(super) fn archive(&self, number: usize) -> &Arc<CachedArchive> {
        &self.archives[number]
    }

    fn new(mut archives: Vec<Arc<CachedArchive>>, before: &Self) -> Self {
        archives.sort_by_key(|cached| (cached.archive.start(), cached.archive.path().to_owned()));
        let paths = match has_same_metadata(&archives, &before.archives) {
            true => before.paths.clone(),
            false => Arc::new(ArchivePaths::new(&archives)),
        };
        Self {
            archives,
            failed: BTreeMap::new(),
            paths,
        }
    }
}

impl ArchivePaths {
    fn new(archives: &[Arc<CachedArchive>]) -> Self {
        let mut entries: HashMap<Arc<str>, Vec<CatalogEntry>> = HashMap::new();
        let mut unplotted = HashMap::new();
        for (number, cached) in archives.iter().enumerate() {
            let root = root(&cached.archive);
            for series in cached.archive.series() {
                let path = path(&root, &cached.archive, series);
                let entry = CatalogEntry {
                    archive: number,
                    series,
                };
                match entries.get_mut(path.as_str()) {
                    Some(found) => found.push(entry),
                    None => drop(entries.insert(path.into(), vec![entry])),
                }
            }
            for (path, value_type) in unplotted_in(&root, &cached.archive) {
                let name = || (value_type, file_name(cached.archive.path()));
                unplotted.entry(path).or_insert_with(name);
            }
        }
        Self {
            index: Arc::new(Index::new(entries.keys().cloned())),
            entries,
            unplotted,
        }
    }
}

impl CatalogFolder {
    pub(super) fn new(folder: &Path, buffers: BufferPool, pool: TaskPool) -> Self {
        Self {
            folder: folder.to_owned(),
            buffers,
            pool,
        }
    }

    /// Opens archives that are new or have grown, several at once, and forgets removed
    /// ones; `None` if nothing has changed. An archive that cannot be read is left out
    /// and logged, so that the rest of the folder is still served.
    pub(super) fn read(&self, before: &Catalog) -> Option<Catalog> {
        let found = busyhour_pcp::archives_in(&self.folder).unwrap_or_else(|error| {
            tracing::warn!(%error, folder = %self.folder.display(), "archives cannot be listed");
            Vec::new()
        });
        let left_out = found.len().saturating_sub(ARCHIVES_MAX);
        let sizes = sizes(&self.folder);
        let known = before.archives.iter();
        let known: HashMap<&Path, &Arc<CachedArchive>> =
            known.map(|known| (known.archive.path(), known)).collect();
        let (mut same, mut failed, mut changed) = (Vec::new(), BTreeMap::new(), Vec::new());
        for base in found.into_iter().take(ARCHIVES_MAX) {
            let size = size_of_archive(&sizes, &file_name(&base));
            match known.get(&*base).filter(|known| known.size == size) {
                Some(known) => same.push(Arc::clone(known)),
                None if before.failed.get(&base) == Some(&size) => {
                    failed.insert(base, size);
                }
                None => changed.push((base, size)),
            }
        }
        let is_same = changed.is_empty()
            && same.len() == before.archives.len()
            && failed.len() == before.failed.len();
        if is_same {
            return None;
        }
        if left_out > 0 {
            tracing::warn!(
                left_out,
                folder = %self.folder.display(),
                event = "too_many_archives",
                "more than {ARCHIVES_MAX} archives: the last ones by name are left out; \
                 join old ones with pmlogextract, or remove them"
            );
        }
        for (base, size, opened) in self.open(changed) {
            match opened {
                Ok(archive) => same.push(Arc::new(CachedArchive { archive, size })),
                Err(error) => {
                    tracing::warn!(%error, archive = %base.display(), "archive left out");
                    failed.insert(base, size);
                }
            }
        }
        Some(Catalog {
            failed,
            ..Catalog::new(same, before)
        })
    }

    fn open(&self, archives: Vec<(PathBuf, ArchiveSize)>) -> Vec<OpenedArchive> {
        let buffers = self.buffers.clone();
        let opened = busyhour_pcp::in_order(
            archives,
            THREADS_MAX,
            Some(&self.pool),
            Vec::new(),
            move |(base, size)| {
                let archive = Archive::open(&base, &buffers);
                (base, size, archive)
            },
            |all, opened| {
                all.push(opened);
                ControlFlow::Continue(())
            },
        );
        opened.unwrap_or_else(|error| {
            tracing::warn!(%error, "archives left out until the next request");
            Vec::new()
        })
    }
}

type OpenedArchive = (PathBuf, ArchiveSize, Result<Archive, busyhour_pcp::Error>);

/// Whether the paths are the same, since every archive has the metadata that it had.
fn has_same_metadata(new: &[Arc<CachedArchive>], old: &[Arc<CachedArchive>]) -> bool {
    let is_same = |(new, old): (&Arc<CachedArchive>, &Arc<CachedArchive>)| {
        new.archive.path() == old.archive.path()
            && new.size.metadata_bytes == old.size.metadata_bytes
    };
    new.len() == old.len() && new.iter().zip(old).all(is_same)
}

/// The size of every file in `folder`, by name; empty if the folder cannot be read.
fn sizes(folder: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sized = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, entry.metadata().ok()?.len()))
    };
    entries.filter_map(sized).collect()
}

fn size_of_archive(sizes: &BTreeMap<String, u64>, base: &str) -> ArchiveSize {
    let begin = format!("{base}.");
    let files = sizes
        .range(begin.clone()..)
        .take_while(|(name, _)| name.starts_with(&begin))
        .filter(|(name, _)| is_part(&name[begin.len()..]));
    files.fold(ArchiveSize::default(), |size, (name, bytes)| {
        let is_metadata = name[begin.len()..].starts_with("meta");
        ArchiveSize {
            files: size.files + 1,
            bytes: size.bytes + bytes,
            metadata_bytes: size.metadata_bytes + if is_metadata { *bytes } else { 0 },
        }
    })
}

/// Whether it ends the name of a file of this archive: `20261122.00.10.0` is no part of
/// `20261122`.
fn is_part(rest: &str) -> bool {
    match rest.split_once('.') {
        None => true,
        Some((_, suffix)) => matches!(suffix, "xz" | "gz" | "bz2" | "zst"),
    }
}

/// The paths of metrics without numbers.
fn unplotted_in(root: &str, archive: &Archive) -> Vec<(String, ValueType)> {
    let mut paths = Vec::new();
    for (metric, found) in archive.metrics().iter().enumerate() {
        if found.is_numeric() {
            continue;
        }
        for instance in 0..found.instances.len() {
            let series = SeriesId { metric, instance };
            paths.push((path(root, archive, series), found.value_type));
        }
    }
    paths
}

/// `archive.<host>` for an archive that is named after its date, as `pmlogger`'s own
/// scripts name them; otherwise `archive.<file>`. What stands before the date counts as
/// the name of the host.
pub(super) fn root(archive: &Archive) -> String {
    format!("{ROOT}.{}", node(&head(archive)))
}

/// The host or file below which its metrics are found.
pub(super) fn head(archive: &Archive) -> String {
    let name = file_name(archive.path());
    match before_date(&name) {
        Some("") => archive.label().host.clone(),
        Some(host) => host.to_owned(),
        None => name,
    }
}

/// What stands before `YYYYMMDD`, `YYYYMMDD.HH.MM` or `YYYYMMDD.HH.MM-NN`, without the
/// `-`, `_` or `.` between the two.
fn before_date(name: &str) -> Option<&str> {
    let is_digits = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    let without_number = name
        .rsplit_once('-')
        .filter(|(_, number)| is_digits(number, 2));
    let timed = without_number.map_or(name, |(timed, _)| timed);
    let without_minute = timed
        .rsplit_once('.')
        .filter(|(_, minute)| is_digits(minute, 2));
    let without_hour = without_minute
        .and_then(|(hour, _)| hour.rsplit_once('.'))
        .filter(|(_, hour)| is_digits(hour, 2));
    let dated = match (without_hour, without_number) {
        (Some((dated, _)), _) => dated,
        (None, None) => timed,
        (None, Some(_)) => return None,
    };
    let (before, date) = dated.split_at_checked(dated.len().checked_sub(8)?)?;
    if !is_date(date) {
        return None;
    }
    match before.is_empty() {
        true => Some(before),
        false => before.strip_suffix(['-', '_', '.']),
    }
}

fn is_date(text: &str) -> bool {
    let number = |part: std::ops::Range<usize>| text.get(part)?.parse::<u32>().ok();
    text.bytes().all(|byte| byte.is_ascii_digit())
        && number(0..4).is_some_and(|year| year >= 1990)
        && number(4..6).is_some_and(|month| (1..=12).contains(&month))
        && number(6..8).is_some_and(|day| (1..=31).contains(&day))
}

pub(super) fn path(root: &str, archive: &Archive, id: SeriesId) -> String {
    let metric = &archive.metrics()[id.metric];
    let nodes: Vec<String> = metric.name().split('.').map(node).collect();
    let instance = &metric.instances[id.instance].name;
    let metric = nodes.join(".");
    if instance.is_empty() {
        return format!("{root}.{metric}");
    }
    format!("{root}.{metric}.{}", node(instance))
}

fn file_name(base: &Path) -> String {
    base.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

const ROOT: &str = "archive";
/// More than a year of daily archives from several hosts.
const ARCHIVES_MAX: usize = 4096;
/// More threads than the machine has cores are not used.
const THREADS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_date_are_those_that_pmlogger_gives() {
        for (name, host) in [
            ("20261122", Some("")),
            ("20261122.00.10", Some("")),
            ("20261122.00.10-03", Some("")),
            ("web1-20261122", Some("web1")),
            ("web1.20261122.00.10", Some("web1")),
            ("a.b_20261122.23.59-00", Some("a.b")),
            ("-20261122", Some("")),
            ("web120261122", None),
            ("20261322", None),
            ("20261100", None),
            ("19001122", None),
            ("2026112", None),
            ("20261122.00", None),
            ("20261122-03", None),
            ("20261122.1.2", None),
            ("20261122.kept", None),
            ("2026.1", None),
            ("é0261122", None),
            ("", None),
        ] {
            assert_eq!(before_date(name), host, "{name}");
        }
    }
}
