use super::{
    Annotation, Counters, Damage, Domain, Error, IndexEntry, Label, Metric, RenderOptions,
    Rendering, SeriesId, StopCheck, Window,
    error::Flaw,
    format::{catalog::Catalog, fields::Version, index, record::Head},
    read::{
        annotations::Annotations,
        files::Files,
        place::Places,
        records::Records,
        volume::{CHUNK_BYTES, Position, Volumes, heads},
    },
    render::{
        merge::Merge, plan::Plan, prior::Priors, rendering::check_size, scan::Scan, segment::Task,
        threads,
    },
};
use busyhour::{buffer::BufferPool, clock::UnixTime, pool::TaskPool};
use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An opened PCP archive, version 2 or 3. Any number of threads may read it
/// at the same time.
///
/// # Examples
///
/// ```no_run
/// use busyhour::buffer::BufferPool;
/// use busyhour_pcp::{Archive, Window};
/// use std::time::Duration;
///
/// let buffers = BufferPool::builder().build()?;
/// let archive = Archive::open("/var/log/pcp/pmlogger/host/20261122", &buffers)?;
/// let window = Window::new(archive.start(), archive.end(), Duration::from_secs(60));
/// let load = archive.find("kernel.all.load", Some("1 minute")).expect("it is logged");
/// let rendering = archive.render(&[load], window, Default::default(), None)?;
/// for (index, value) in rendering.points(0).enumerate() {
///     println!("{} {value:?}", window.time(index).as_secs());
/// }
/// # Ok::<(), busyhour_pcp::Error>(())
/// ```
#[derive(Debug)]
pub struct Archive {
    files: Arc<Files>,
    label: Label,
    catalog: Catalog,
    index: Vec<IndexEntry>,
    places: Places,
    end: UnixTime,
    damage: Option<Damage>,
    buffers: BufferPool,
}

impl Archive {
    /// Opens the archive that `path` names: by the name that its files share,
    /// or by the name of one of them. Records are read into `buffers`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Unreadable`], and [`Error::Damaged`] when
    /// the metadata has no label. Other damage is left out, see
    /// [`damage`](Self::damage).
    pub fn open(path: impl AsRef<Path>, buffers: &BufferPool) -> Result<Self, Error> {
        Self::of(Files::find(path.as_ref())?, buffers)
    }

    /// Opens the archive `base` that lies in memory: its files by their names,
    /// as `base.meta`, `base.index` and `base.0`.
    ///
    /// # Errors
    ///
    /// As of [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    /// use busyhour_pcp::{Archive, Error};
    ///
    /// let buffers = BufferPool::builder().build()?;
    /// let files = [("a.meta".to_owned(), b"no archive".to_vec())];
    /// let error = Archive::from_memory("a", files.into(), &buffers).unwrap_err();
    /// assert!(error.to_string().starts_with("a.meta: damaged at byte 0"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn from_memory(
        base: &str,
        files: HashMap<String, Vec<u8>>,
        buffers: &BufferPool,
    ) -> Result<Self, Error> {
        Self::of(Files::in_memory(base, files)?, buffers)
    }

    fn of(files: Files, buffers: &BufferPool) -> Result<Self, Error> {
        let files = Arc::new(files);
        let metadata = files.read(&files.metadata, METADATA_BYTES_MAX)?;
        let flaw = |problem| Flaw { offset: 0, problem }.of(&files.metadata);
        let (label, label_len) = Label::parse(&metadata).map_err(flaw)?;
        let rest = &metadata[label_len..];
        let (catalog, flaw) = Catalog::parse(rest, label_len as u64, label.version);
        let end = end(&files, label.version, buffers)?;
        let index = read_index(&files, label.version);
        Ok(Self {
            places: Places::new(Arc::clone(&files), label.version, &index),
            index,
            end: end.unwrap_or(label.start).max(label.start),
            damage: flaw.map(|flaw| flaw.of(&files.metadata)),
            buffers: buffers.clone(),
            files,
            label,
            catalog,
        })
    }

    /// The name that its files share, with its folder.
    pub fn path(&self) -> &Path {
        &self.files.base
    }

    /// What the metadata's label says.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// When logging began.
    pub fn start(&self) -> UnixTime {
        self.label.start
    }

    /// The time of the last record.
    pub fn end(&self) -> UnixTime {
        self.end
    }

    /// Its metrics in the order of their names.
    pub fn metrics(&self) -> &[Metric] {
        &self.catalog.metrics
    }

    /// The instances of a metric's [`domain`](Metric::domain) over time.
    pub fn domain(&self, number: u32) -> Option<&Domain> {
        self.catalog.domains.get(&number)
    }

    /// The temporal index; empty when the archive has none.
    pub fn index(&self) -> &[IndexEntry] {
        &self.index
    }

    /// The first damage in the metadata, if there is any. The metrics are then
    /// those that could be read.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// The data volumes in order.
    pub fn volumes(&self) -> &[PathBuf] {
        &self.files.volumes
    }

    /// Bytes of the data volumes, as they lie on the disk.
    pub fn volume_bytes(&self) -> u64 {
        self.files.volume_bytes()
    }

    /// Every series that can be rendered: each instance of each numeric metric.
    pub fn series(&self) -> Vec<SeriesId> {
        let numeric = self.metrics().iter().enumerate();
        numeric
            .filter(|(_, found)| found.is_numeric())
            .flat_map(|(metric, found)| {
                (0..found.instances.len()).map(move |instance| SeriesId { metric, instance })
            })
            .collect()
    }

    /// The series of a metric with any of its names, and of the instance with
    /// that name; `None` for a metric without instances.
    pub fn find(&self, metric: &str, instance: Option<&str>) -> Option<SeriesId> {
        let has_name = |found: &Metric| found.names.iter().any(|name| name == metric);
        let metric = self.metrics().iter().position(has_name)?;
        let instances = &self.metrics()[metric].instances;
        let instance = instances
            .iter()
            .position(|found| found.name == instance.unwrap_or_default())?;
        Some(SeriesId { metric, instance })
    }

    /// The values of `series` at the moments of `window`, as PCP's tools would
    /// show them. With a `pool`, its workers help the calling thread.
    ///
    /// Reading begins where the temporal index, or the first record of a
    /// volume, says that the window does. It goes back from there only for
    /// series that have no sample at the window's start yet.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyPoints`], [`Error::Unreadable`], [`Error::Buffer`].
    /// Damage is no error: see [`Rendering::damage`].
    ///
    /// # Panics
    ///
    /// When `series` has an index that is not of this archive.
    pub fn render(
        &self,
        series: &[SeriesId],
        window: Window,
        options: RenderOptions,
        pool: Option<&TaskPool>,
    ) -> Result<Rendering, Error> {
        self.render_until(series, window, options, pool, &StopCheck::never())
    }

    /// As [`render`](Self::render), unless `stop` ends it before.
    ///
    /// # Errors
    ///
    /// Those of [`render`](Self::render), and [`Error::Stopped`].
    ///
    /// # Panics
    ///
    /// When `series` has an index that is not of this archive.
    pub fn render_until(
        &self,
        series: &[SeriesId],
        window: Window,
        options: RenderOptions,
        pool: Option<&TaskPool>,
        stop: &StopCheck,
    ) -> Result<Rendering, Error> {
        check_size(series.len(), &window)?;
        let task = self.task(series, window, options.counter_wrap);
        let mut bytes_read = 0;
        let begin = match window.from() > self.start() {
            true => (self.places).last_until(window.from(), usize::MAX, &mut bytes_read),
            false => 0,
        };
        let volumes = self.places.volumes(begin..usize::MAX).until(stop);
        let scan = Arc::new(Scan::new(task.clone(), volumes, self.buffers.clone()));
        scan.lead(|| {
            if let Some(pool) = pool {
                self.ask_for_help(&scan, pool, options.threads);
            }
        });
        let (mut merge, volumes) = scan.finish()?;
        let mut priors = self.priors(&task, series, stop);
        priors.complete(&mut merge, begin)?;
        let damage = priors.damage.or(volumes.damage);
        let mut rendering = Rendering {
            window,
            series: series.to_vec(),
            record_count: merge.record_count,
            bytes_read: bytes_read + volumes.bytes_read + priors.bytes_read,
            damage: damage.or_else(|| self.damage_of(&merge)),
            values: merge.finish(self.end.as_nanos()),
        };
        if options.counters == Counters::Rate {
            super::render::rate::convert(&task.plan, &window, &mut rendering.values);
        }
        Ok(rendering)
    }

    /// The records of all volumes, one after the other; their values point
    /// into pinned buffers.
    pub fn records(&self) -> Records {
        let volumes = Volumes::new(Arc::clone(&self.files), self.label.version);
        Records::new(volumes, self.label.version, self.buffers.clone())
    }

    /// Gives each text and each event from `from` until `until`, both included, to
    /// `visit`, in the order in which they were logged, until it breaks. A text is given
    /// when it differs from the one before it. Texts longer than 1,024 bytes are cut.
    ///
    /// Of damaged volumes the records before the first damage are read.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`], [`Error::Buffer`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use busyhour::buffer::BufferPool;
    /// use busyhour_pcp::Archive;
    /// use std::ops::ControlFlow;
    ///
    /// let buffers = BufferPool::builder().build()?;
    /// let archive = Archive::open("/var/log/pcp/pmlogger/host/20261122", &buffers)?;
    /// archive.annotations(archive.start(), archive.end(), |annotation| {
    ///     let metric = &archive.metrics()[annotation.series.metric];
    ///     println!("{} {}: {}", annotation.time.as_secs(), metric.name(), annotation.text);
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), busyhour_pcp::Error>(())
    /// ```
    pub fn annotations(
        &self,
        from: UnixTime,
        until: UnixTime,
        visit: impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.annotations_until(from, until, &StopCheck::never(), visit)
    }

    /// As [`annotations`](Self::annotations), unless `stop` ends it before.
    ///
    /// # Errors
    ///
    /// Those of [`annotations`](Self::annotations), and [`Error::Stopped`].
    pub fn annotations_until(
        &self,
        from: UnixTime,
        until: UnixTime,
        stop: &StopCheck,
        visit: impl FnMut(Annotation) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let annotations = Annotations::new(self.metrics(), from, until);
        if annotations.is_empty() {
            return Ok(());
        }
        let begin = match from > self.start() {
            true => self.places.last_until(from, usize::MAX, &mut 0),
            false => 0,
        };
        let volumes = self.places.volumes(begin..usize::MAX).until(stop);
        let records = Records::new(volumes, self.label.version, self.buffers.clone());
        annotations.read(records, visit)
    }

    fn priors<'a>(
        &'a self,
        task: &'a Task,
        series: &'a [SeriesId],
        stop: &'a StopCheck,
    ) -> Priors<'a> {
        Priors {
            places: &self.places,
            buffers: &self.buffers,
            metrics: self.metrics(),
            series,
            task,
            stop,
            bytes_read: 0,
            damage: None,
        }
    }

    fn task(&self, series: &[SeriesId], window: Window, wraps: bool) -> Task {
        Task {
            plan: Arc::new(Plan::new(self.metrics(), series, wraps)),
            window,
            version: self.label.version,
            origin: self.label.start.as_nanos(),
        }
    }

    /// Asks as many workers as there are chunks for, beside the caller.
    fn ask_for_help(&self, scan: &Arc<Scan>, pool: &TaskPool, threads: usize) {
        let chunks = self.volume_bytes() / CHUNK_BYTES as u64;
        let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
        let scan = Arc::clone(scan);
        threads::ask(pool, threads::helper_count(threads, chunks), move || {
            scan.work();
        });
    }

    fn damage_of(&self, merge: &Merge) -> Option<Damage> {
        let (volume, flaw) = merge.flaw?;
        Some(flaw.of(&self.files.volumes[volume]))
    }
}

fn read_index(files: &Files, version: Version) -> Vec<IndexEntry> {
    let read = |path: &PathBuf| files.read(path, METADATA_BYTES_MAX).ok();
    let bytes = files.index.as_ref().and_then(read).unwrap_or_default();
    match Label::parse(&bytes) {
        Ok((label, len)) if label.version == version => index::parse(&bytes[len..], version),
        _ => Vec::new(),
    }
}

/// The time of the last record of the last volume that has one.
fn end(
    files: &Arc<Files>,
    version: Version,
    buffers: &BufferPool,
) -> Result<Option<UnixTime>, Error> {
    for number in (0..files.volumes.len()).rev() {
        let last = files.last_record(&files.volumes[number], HEAD_BYTES_MAX);
        let head = last.and_then(|record| Head::parse(&record, version).ok());
        let time = match head {
            Some(head) => Some(head.time),
            None => last_time(files, number, version, buffers)?,
        };
        if time.is_some() {
            return Ok(time);
        }
    }
    Ok(None)
}

/// The latest time in one volume, from all of its records.
fn last_time(
    files: &Arc<Files>,
    number: usize,
    version: Version,
    buffers: &BufferPool,
) -> Result<Option<UnixTime>, Error> {
    let place = |volume| Position { volume, offset: 0 };
    let part = place(number)..place(number + 1);
    let mut volumes = Volumes::between(Arc::clone(files), version, part);
    let (mut last, mut spare) = (None, None);
    while let Some(chunk) = volumes.next(buffers, spare.take())? {
        heads(&chunk, version, |head| last = last.max(Some(head.time)));
        spare = Some(chunk.into_spare());
    }
    Ok(last)
}

/// The metadata is read as a whole.
const METADATA_BYTES_MAX: u64 = 1 << 30;

const HEAD_BYTES_MAX: usize = 20;
