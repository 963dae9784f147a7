//! The driver: one thread hands in a group, waits until it is durable, and goes on with the next.

use crate::{newest::Newest, refresh::Refresh};
use kit::{Args, Output, Random};
use rustix::time::{ClockId, clock_gettime};
use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// What can make groups of refreshes durable.
pub trait DurableLog: Sized {
    /// In an empty folder, with bindings 1 to `bindings`, each with a first lease.
    fn open(folder: &Path, setup: Setup) -> Outcome<Self>;

    /// Opens what a crash has left, so that commits can go on, and says what a start finds there.
    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)>;

    /// Returns when all of the group is durable.
    fn commit(&mut self, group: &[Refresh]) -> Outcome<()>;

    /// Copies what `seen` needs beside the folder's files, after the last acknowledgement and before `settle`.
    fn copy(&self, _folder: &Path) -> Outcome<()> {
        Ok(())
    }

    /// Does all work that was put off.
    fn settle(&mut self) -> Outcome<()>;

    /// How many refreshes are found when the folder is opened again.
    fn seen(folder: &Path, setup: Setup) -> Outcome<u64>;
}

#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub bindings: u64,
    pub group: u64,
    /// A database follows the log.
    pub is_followed: bool,
}

impl Setup {
    pub fn from(args: &Args) -> Outcome<Self> {
        let setup = Self {
            bindings: args.number("bindings"),
            group: args.number("group"),
            is_followed: args.optional("database") != Some(0),
        };
        match setup.group == 0 || setup.group > setup.bindings {
            true => Err("a group has one refresh at least, and none of a binding twice".into()),
            false => Ok(setup),
        }
    }
}

pub fn run<L: DurableLog>(args: &Args) -> Outcome<()> {
    let setup = Setup::from(args)?;
    let mut refreshes = Refreshes::new(args.number("seed"), setup.bindings);
    let limit = Duration::from_millis(args.number("ms"));
    if limit.is_zero() {
        return Err("ms=0 leaves no time for a group; ms is 1 at least".into());
    }
    let folder = Folder::make(Path::new(args.word("folder").unwrap_or(".")))?;
    let mut log = L::open(&folder.0, setup)?;
    let (mut group, mut took) = (Vec::new(), Vec::new());
    let (begun, cpu) = (Instant::now(), cpu_time());
    while begun.elapsed() < limit {
        refreshes.fill(&mut group, setup);
        let handed_in = Instant::now();
        log.commit(&group)?;
        took.push(handed_in.elapsed());
    }
    let acknowledged = took.len() as u64 * setup.group;
    let elapsed = begun.elapsed();
    log.copy(&folder.0)?;
    log.settle()?;
    let cpu = cpu_time() - cpu;
    drop(log);

    took.sort_unstable();
    let at = |part: usize| us(took[(took.len() * part / 100).min(took.len() - 1)]);
    let mut output = Output::default();
    output.figure("records_per_s", acknowledged as f64 / elapsed.as_secs_f64());
    output.figure("commit_p50_us", at(50));
    output.figure("commit_p99_us", at(99));
    output.figure("commit_max_us", at(100));
    output.figure("cpu_us_per_record", us(cpu) / acknowledged as f64);
    output.check("acknowledged", acknowledged);
    output.check("seen", L::seen(&folder.0, setup)?);
    output.finish();
    Ok(())
}

/// All bindings in a random order, again and again, so that none is twice in a group.
pub struct Refreshes {
    ids: Vec<u64>,
    given: u64,
}

impl Refreshes {
    pub fn new(seed: u64, bindings: u64) -> Self {
        let mut ids: Vec<u64> = (1..=bindings).collect();
        let mut random = Random::new(seed);
        for at in (1..ids.len()).rev() {
            ids.swap(at, (random.next() % (at as u64 + 1)) as usize);
        }
        Self { ids, given: 0 }
    }

    /// The next group.
    pub fn fill(&mut self, group: &mut Vec<Refresh>, setup: Setup) {
        group.clear();
        group.extend((0..setup.group).map(|_| self.next()));
    }

    pub fn next(&mut self) -> Refresh {
        let bindings = self.ids.len() as u64;
        let (turn, at) = (self.given / bindings, self.given % bindings);
        self.given += 1;
        Refresh {
            id: self.ids[at as usize],
            cseq: turn as u32 + 2,
        }
    }
}

/// Vanishes with what is in it.
struct Folder(PathBuf);

impl Folder {
    /// Removes first what processes that were killed have left there.
    fn make(around: &Path) -> Outcome<Self> {
        let wrap = |error: io::Error| format!("{}: {error}", around.display());
        for entry in fs::read_dir(around).map_err(wrap)? {
            let entry = entry.map_err(wrap)?;
            let is_folder = entry.file_type().map_err(wrap)?.is_dir();
            if is_folder && is_left_behind(&entry.file_name().to_string_lossy()) {
                fs::remove_dir_all(entry.path()).map_err(wrap)?;
            }
        }
        let path = around.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(wrap)?;
        Ok(Self(path))
    }
}

/// Whether it is the name of a folder whose process has ended. One that has this process's number is of an earlier process.
fn is_left_behind(name: &str) -> bool {
    let process: Option<u32> = name
        .strip_prefix(PREFIX)
        .and_then(|number| number.parse().ok());
    process.is_some_and(|id| {
        id == std::process::id() || !Path::new("/proc").join(id.to_string()).exists()
    })
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The process ends; the next one removes what is left.
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

/// Of all threads, also of those that have ended.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

const PREFIX: &str = "durable-log-";
