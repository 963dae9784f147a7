use busyhour::{buffer::BufferPool, clock::UnixTime, pool::TaskPool};
use busyhour_graphite::{Error, Index, Points, Source, Window, node};
use busyhour_pcp::{Archive, RenderOptions, SeriesId};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The PCP archives of a folder: `archive.<file>.<metric>.<instance>`.
///
/// The folder is read for each request, so that archives can be added, grow and be
/// removed while the server runs. An archive that has not changed is not read again.
pub struct Archives {
    folder: PathBuf,
    step_seconds: i64,
    buffers: BufferPool,
    pool: TaskPool,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    archives: BTreeMap<PathBuf, Arc<CachedArchive>>,
    index: Arc<Index>,
}

/// The number of files in an archive, and the number of bytes in them; both only
/// grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Size {
    files: u64,
    bytes: u64,
}

/// An archive in the state in which it was last read.
struct CachedArchive {
    archive: Archive,
    size: Size,
    paths: BTreeMap<Arc<str>, SeriesId>,
}

impl Archives {
    /// Serves the archives of `folder`, with one value every `step_seconds`;
    /// records are read into `buffers`, and workers of `pool` help.
    pub fn new(folder: &Path, step_seconds: i64, buffers: BufferPool, pool: TaskPool) -> Self {
        Self {
            folder: folder.to_owned(),
            step_seconds: step_seconds.max(1),
            buffers,
            pool,
            opened: Mutex::default(),
        }
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The archive that contains `path`.
    fn entry(&self, path: &str) -> Option<Arc<CachedArchive>> {
        let opened = self.opened();
        let mut entries = opened.archives.values();
        entries
            .find(|entry| entry.paths.contains_key(path))
            .cloned()
    }

    /// Opens archives that are new or have grown, and forgets removed ones. An
    /// archive that cannot be read is left out and logged, so that the rest of the
    /// folder is still served.
    fn refresh(&self, opened: &mut Opened) {
        let found = busyhour_pcp::archives_in(&self.folder).unwrap_or_else(|error| {
            tracing::warn!(%error, folder = %self.folder.display(), "archives cannot be listed");
            Vec::new()
        });
        let sizes = sizes(&self.folder);
        let mut archives = BTreeMap::new();
        for base in found.into_iter().take(ARCHIVES_MAX) {
            let size = size_of_archive(&sizes, &file_name(&base));
            match self.read(&base, size, opened.archives.get(&base)) {
                Ok(entry) => drop(archives.insert(base, entry)),
                Err(error) => tracing::warn!(%error, archive = %base.display(), "archive left out"),
            }
        }
        let is_same = archives.len() == opened.archives.len()
            && archives
                .values()
                .zip(opened.archives.values())
                .all(|(new, old)| Arc::ptr_eq(new, old));
        if !is_same {
            let paths = archives
                .values()
                .flat_map(|entry| entry.paths.keys().cloned());
            opened.index = Arc::new(Index::new(paths));
            opened.archives = archives;
        }
    }

    fn read(
        &self,
        base: &Path,
        size: Size,
        before: Option<&Arc<CachedArchive>>,
    ) -> Result<Arc<CachedArchive>, busyhour_pcp::Error> {
        if let Some(before) = before.filter(|before| before.size == size) {
            return Ok(before.clone());
        }
        let archive = Archive::open(base, &self.buffers)?;
        let root = format!("{ROOT}.{}", node(&file_name(base)));
        let series = archive.series().into_iter();
        let paths = series
            .map(|id| (path(&root, &archive, id).into(), id))
            .collect();
        Ok(Arc::new(CachedArchive {
            archive,
            size,
            paths,
        }))
    }
}

impl Source for Archives {
    fn index(&self) -> Arc<Index> {
        let mut opened = self.opened();
        self.refresh(&mut opened);
        opened.index.clone()
    }

    fn len(&self, path: &str, window: Window) -> u64 {
        let entry = self.entry(path);
        let part = entry.and_then(|entry| entry.within(window, self.step_seconds));
        part.map_or(0, |(start, end)| ((end - start) / self.step_seconds) as u64)
    }

    fn fetch(&self, paths: &[Arc<str>], window: Window) -> Result<Vec<Points>, Error> {
        let mut points = vec![Points::default(); paths.len()];
        let entries: Vec<Arc<CachedArchive>> = self.opened().archives.values().cloned().collect();
        for entry in entries {
            let wanted = paths.iter().enumerate();
            let wanted = wanted.filter_map(|(place, path)| Some((place, *entry.paths.get(path)?)));
            let (places, series): (Vec<usize>, Vec<SeriesId>) = wanted.unzip();
            if !series.is_empty() {
                let rendered = entry.render(&series, window, self.step_seconds, &self.pool)?;
                for (place, rendered) in places.into_iter().zip(rendered) {
                    points[place] = rendered;
                }
            }
        }
        Ok(points)
    }
}

impl CachedArchive {
    /// The part of `window` that the archive covers.
    fn within(&self, window: Window, step: i64) -> Option<(i64, i64)> {
        let (start, end) = window.aligned(step);
        let whole = Window {
            from: seconds(self.archive.start()).saturating_sub(1),
            until: seconds(self.archive.end()),
        };
        let (first, last) = whole.aligned(step);
        let (start, end) = (start.max(first), end.min(last));
        (start < end && start >= step).then_some((start, end))
    }

    fn render(
        &self,
        series: &[SeriesId],
        window: Window,
        step: i64,
        pool: &TaskPool,
    ) -> Result<Vec<Points>, Error> {
        let Some((start, end)) = self.within(window, step) else {
            return Ok(vec![Points::default(); series.len()]);
        };
        let moment = |time: i64| UnixTime::from_secs(u64::try_from(time).unwrap_or(0));
        let distance = Duration::from_secs(u64::try_from(step).unwrap_or(1));
        // A rate needs the moment before the first one.
        let moments = busyhour_pcp::Window::new(moment(start - step), moment(end - step), distance);
        let options = RenderOptions {
            threads: THREADS_MAX,
            ..RenderOptions::default()
        };
        let rendering = self.archive.render(series, moments, options, Some(pool));
        let rendering = rendering.map_err(|error| {
            Error::Source(format!(
                "archive {}: {error}",
                self.archive.path().display()
            ))
        })?;
        let points = |at| {
            Points::new(
                start,
                step,
                rendering.points(at).skip(1).collect::<Vec<_>>(),
            )
        };
        Ok((0..series.len()).map(points).collect())
    }
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

fn size_of_archive(sizes: &BTreeMap<String, u64>, base: &str) -> Size {
    let begin = format!("{base}.");
    let files = sizes
        .range(begin.clone()..)
        .take_while(|(name, _)| name.starts_with(&begin));
    files.fold(Size::default(), |size, (_, bytes)| Size {
        files: size.files + 1,
        bytes: size.bytes + bytes,
    })
}

fn path(root: &str, archive: &Archive, id: SeriesId) -> String {
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

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

const ROOT: &str = "archive";
/// More than a year of daily archives from several hosts.
const ARCHIVES_MAX: usize = 4096;
/// The renderer takes no more threads than the machine has.
const THREADS_MAX: usize = 64;
