use super::{
    cached_archive::{ArchivePart, CachedArchive},
    catalog::{self, Catalog, CatalogFolder},
    joined_events::JoinedEvents,
    joined_points::JoinedPoints,
};
use crate::lock::lock;
use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_graphite::{Error, Event, EventQuery, Index, Points, Source, TimeLimit, Window};
use busyhour_pcp::SeriesId;
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
};

/// The PCP archives of a folder: `archive.<file>.<metric>.<instance>`, and
/// `archive.<host>.<metric>.<instance>` for those that are named after their date.
///
/// The folder is read for each request, so that archives can be added, grow and be
/// removed while the server runs. An archive that has not changed is not read again.
///
/// Several archives may have the same path, as the daily ones of a host do. Their values
/// are one series (`JoinedPoints`).
pub struct Archives {
    folder: CatalogFolder,
    step_seconds: i64,
    pool: TaskPool,
    /// Held only to take or replace what it contains, so that no request waits for
    /// another one that reads the folder.
    catalog: Mutex<Arc<Catalog>>,
    /// Held while the folder is read.
    reading: Mutex<()>,
}

/// What one request wants from one archive.
struct ArchiveJob {
    archive: Arc<CachedArchive>,
    part: ArchivePart,
    /// The places among the paths of the request, and the series of each.
    places: Vec<usize>,
    series: Vec<SeriesId>,
}

impl Archives {
    /// Serves the archives of `folder`, with one value every `step_seconds`;
    /// records are read into `buffers`, and workers of `pool` help.
    pub fn new(folder: &Path, step_seconds: i64, buffers: BufferPool, pool: TaskPool) -> Self {
        Self {
            folder: CatalogFolder::new(folder, buffers, pool.clone()),
            step_seconds: step_seconds.max(1),
            pool,
            catalog: Mutex::default(),
            reading: Mutex::default(),
        }
    }

    fn catalog(&self) -> Arc<Catalog> {
        lock(&self.catalog).clone()
    }

    /// The archives that have something for the request, in the order of their start.
    fn jobs(&self, catalog: &Catalog, paths: &[Arc<str>], window: Window) -> Vec<ArchiveJob> {
        let mut jobs: BTreeMap<usize, ArchiveJob> = BTreeMap::new();
        for (place, path) in paths.iter().enumerate() {
            for entry in catalog.entries(path) {
                let archive = catalog.archive(entry.archive);
                let Some(part) = archive.within(window, self.step_seconds) else {
                    continue;
                };
                let job = jobs.entry(entry.archive).or_insert_with(|| ArchiveJob {
                    archive: archive.clone(),
                    part,
                    places: Vec::new(),
                    series: Vec::new(),
                });
                job.places.push(place);
                job.series.push(entry.series);
            }
        }
        jobs.into_values().collect()
    }
}

impl Source for Archives {
    fn index(&self) -> Arc<Index> {
        let _reading = lock(&self.reading);
        let before = self.catalog();
        let Some(catalog) = self.folder.read(&before) else {
            return before.index();
        };
        let index = catalog.index();
        *lock(&self.catalog) = Arc::new(catalog);
        index
    }

    fn len(&self, path: &str, window: Window) -> u64 {
        let catalog = self.catalog();
        let entries = catalog.entries(path).iter();
        let parts = entries.filter_map(|entry| {
            let archive = catalog.archive(entry.archive);
            archive.within(window, self.step_seconds)
        });
        let whole = parts.reduce(ArchivePart::joined);
        whole.map_or(0, |whole| whole.len() as u64)
    }

    /// Several archives are rendered at once, each by one thread; the threads share a
    /// single one. Results are joined in the order of the archives' start.
    fn fetch(
        &self,
        paths: &[Arc<str>],
        window: Window,
        time: &TimeLimit,
    ) -> Result<Vec<Points>, Error> {
        let jobs = self.jobs(&self.catalog(), paths, window);
        let mut joined = JoinedPoints::new(paths.len());
        for job in &jobs {
            job.places.iter().for_each(|at| joined.cover(*at, job.part));
        }
        let threads = (THREADS_MAX / jobs.len().max(1)).max(1);
        let (pool, time) = (self.pool.clone(), time.clone());
        let render = move |job: ArchiveJob| {
            let rendering = (job.archive).render(&job.series, job.part, threads, &pool, &time);
            (job, rendering)
        };
        let join =
            |joined: &mut Result<JoinedPoints, Error>, (job, rendering): (ArchiveJob, _)| match (
                joined, rendering,
            ) {
                (Ok(joined), Ok(rendering)) => {
                    joined.add(&job.places, job.part, &rendering);
                    ControlFlow::Continue(())
                }
                (joined, Err(error)) => {
                    *joined = Err(error);
                    ControlFlow::Break(())
                }
                (Err(_), Ok(_)) => ControlFlow::Break(()),
            };
        let joined = busyhour_pcp::in_order(
            jobs,
            THREADS_MAX,
            Some(&self.pool),
            Ok(joined),
            render,
            join,
        );
        let joined = joined.map_err(|error| Error::Source(format!("archives: {error}")))??;
        Ok(joined.into_points())
    }

    /// Archives are read several at once. A text that a later archive of the same path
    /// begins with, and that the earlier one ended with, is told once.
    fn events(&self, query: &EventQuery, time: &TimeLimit) -> Result<Vec<Event>, Error> {
        let catalog = self.catalog();
        let is_in = |archive: &&Arc<CachedArchive>| archive.within(query.window, 1).is_some();
        let jobs: Vec<Arc<CachedArchive>> =
            catalog.archives().iter().filter(is_in).cloned().collect();
        let (wanted, time) = (query.clone(), time.clone());
        let read = move |cached: Arc<CachedArchive>| {
            let (root, head) = (
                catalog::root(&cached.archive),
                catalog::head(&cached.archive),
            );
            let path = |series| catalog::path(&root, &cached.archive, series);
            cached.events(&head, &wanted, &time, path)
        };
        let join = |joined: &mut Result<JoinedEvents, Error>, events: Result<_, Error>| match (
            joined, events,
        ) {
            (Ok(joined), Ok(events)) => joined.add(events),
            (joined, Err(error)) => {
                *joined = Err(error);
                ControlFlow::Break(())
            }
            (Err(_), Ok(_)) => ControlFlow::Break(()),
        };
        let joined = Ok(JoinedEvents::new(query.count_max));
        let joined =
            busyhour_pcp::in_order(jobs, THREADS_MAX, Some(&self.pool), joined, read, join);
        let joined = joined.map_err(|error| Error::Source(format!("archives: {error}")))??;
        Ok(joined.into_events())
    }

    fn refusal(&self, path: &str) -> Option<String> {
        self.catalog().refusal(path)
    }
}

/// The renderer takes no more threads than the machine has.
const THREADS_MAX: usize = 64;
