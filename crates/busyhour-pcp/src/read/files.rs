//! The only place that touches files: which belong to an archive, and their
//! bytes, on a disk or in memory.

use crate::Error;
use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The files of one archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files {
    /// The name that they share, with its folder.
    pub(crate) base: PathBuf,
    pub(crate) metadata: PathBuf,
    pub(crate) index: Option<PathBuf>,
    /// The data volumes in order.
    pub(crate) volumes: Vec<PathBuf>,
    /// Of each volume, as its name says.
    numbers: Vec<u32>,
    /// What is read instead of the disk.
    memory: Option<HashMap<PathBuf, Arc<[u8]>>>,
}

/// An uncompressed file.
trait Bytes: Read + Seek + Send {}

impl<T: Read + Seek + Send> Bytes for T {}

impl Files {
    /// The files of the archive that `path` names: by their common name, or by the name
    /// of one of them.
    pub(crate) fn find(path: &Path) -> Result<Self, Error> {
        let not_found = || Error::NotFound { path: path.into() };
        let folder = folder(path);
        let name = path.file_name().ok_or_else(not_found)?.to_string_lossy();
        let names = names(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_found(),
            _ => Error::unreadable(folder, error),
        })?;
        let is_archive = |base: &str| names.iter().any(|name| is_metadata_of(name, base));
        let base = match split(&name) {
            Some((base, _)) if is_archive(base) => base,
            _ if is_archive(&name) => &name,
            _ => return Err(not_found()),
        };
        Self::of(folder, base, &names).ok_or_else(not_found)
    }

    /// Those among `files`, by name, that make up the archive `base`.
    pub(crate) fn in_memory(base: &str, files: HashMap<String, Vec<u8>>) -> Result<Self, Error> {
        let mut names: Vec<String> = files.keys().cloned().collect();
        names.sort();
        let found = Self::of(Path::new(""), base, &names);
        let path = PathBuf::from(base);
        let found = found.ok_or(Error::NotFound { path })?;
        let files = files.into_iter();
        let memory = files.map(|(name, bytes)| (PathBuf::from(name), bytes.into()));
        Ok(Self {
            memory: Some(memory.collect()),
            ..found
        })
    }

    fn of(folder: &Path, base: &str, names: &[String]) -> Option<Self> {
        let mut volumes = Vec::new();
        let (mut metadata, mut index) = (None, None);
        for name in names {
            match split(name).filter(|(found, _)| *found == base) {
                Some((_, Part::Metadata)) => metadata = Some(folder.join(name)),
                Some((_, Part::Index)) => index = Some(folder.join(name)),
                Some((_, Part::Volume(number))) => volumes.push((number, folder.join(name))),
                None => {}
            }
        }
        volumes.sort();
        // If a volume exists twice, as while it is being compressed, only one is read.
        volumes.dedup_by_key(|(number, _)| *number);
        Some(Self {
            base: folder.join(base),
            metadata: metadata?,
            index,
            numbers: volumes.iter().map(|(number, _)| *number).collect(),
            volumes: volumes.into_iter().map(|(_, path)| path).collect(),
            memory: None,
        })
    }

    /// The place among the volumes of that with this number.
    pub(crate) fn volume(&self, number: u32) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }

    /// Bytes of all volumes as they lie on the disk.
    pub(crate) fn volume_bytes(&self) -> u64 {
        let len = |path: &PathBuf| match &self.memory {
            None => path.metadata().map_or(0, |metadata| metadata.len()),
            Some(memory) => memory.get(path).map_or(0, |bytes| bytes.len() as u64),
        };
        self.volumes.iter().map(len).sum()
    }

    /// The bytes of a file, decompressed if its name says that it is compressed.
    pub(crate) fn open(&self, path: &Path) -> Result<Box<dyn Read + Send>, Error> {
        let file = self.raw(path);
        let file = file.map_err(|error| Error::unreadable(path, error))?;
        let suffix = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        Ok(match suffix {
            "xz" => Box::new(XzReader::new(file, true)),
            "gz" => Box::new(MultiGzDecoder::new(file)),
            "bz2" => Box::new(MultiBzDecoder::new(file)),
            "zst" => {
                let decoder = StreamingDecoder::new(file);
                Box::new(decoder.map_err(|error| Error::unreadable(path, error))?)
            }
            _ => Box::new(file),
        })
    }

    /// The bytes of a file that is not compressed, from `offset` on.
    pub(crate) fn open_at(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = self.raw(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }

    /// All bytes of a file of at most `len_max`.
    pub(crate) fn read(&self, path: &Path, len_max: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.open(path)?.take(len_max + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::unreadable(path, error))?;
        if bytes.len() as u64 > len_max {
            let reason = format!("it is longer than {len_max} bytes");
            return Err(Error::unreadable(path, reason));
        }
        Ok(bytes)
    }

    /// The last record of a volume that is not compressed, up to `len_max`
    /// bytes of it, if the length at the file's end leads to one.
    pub(crate) fn last_record(&self, path: &Path, len_max: usize) -> Option<Vec<u8>> {
        if is_compressed(path) {
            return None;
        }
        let mut file = self.raw(path).ok()?;
        let end = file.seek(SeekFrom::End(-4)).ok()? + 4;
        let mut tail = [0; 4];
        file.read_exact(&mut tail).ok()?;
        let len = u64::from(u32::from_be_bytes(tail));
        file.seek(SeekFrom::Start(end.checked_sub(len)?)).ok()?;
        let mut record = vec![0; len_max.min(usize::try_from(len).ok()?)];
        file.read_exact(&mut record).ok()?;
        record.starts_with(&tail).then_some(record)
    }

    fn raw(&self, path: &Path) -> io::Result<Box<dyn Bytes>> {
        let Some(memory) = &self.memory else {
            return Ok(Box::new(File::open(path)?));
        };
        let bytes = memory.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(Arc::clone(bytes))))
    }
}

/// The archives in a folder, by the name that the files of each share, in the
/// order of their names. Folders in it are not looked into.
///
/// # Errors
///
/// [`Error::Unreadable`] when the folder is.
pub fn archives_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let names = names(folder).map_err(|error| Error::unreadable(folder, error))?;
    let mut bases: Vec<PathBuf> = names
        .iter()
        .filter_map(|name| match split(name)? {
            (base, Part::Metadata) => Some(folder.join(base)),
            _ => None,
        })
        .collect();
    bases.sort();
    bases.dedup();
    Ok(bases)
}

/// What a file is to its archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Metadata,
    Index,
    Volume(u32),
}

/// The archive's name and the part that a file's name says.
fn split(name: &str) -> Option<(&str, Part)> {
    let stem = COMPRESSED
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let (base, part) = stem.rsplit_once('.')?;
    let part = match part {
        "meta" => Part::Metadata,
        "index" => Part::Index,
        digits => Part::Volume(digits.parse().ok()?),
    };
    Some((base, part))
}

fn is_metadata_of(name: &str, base: &str) -> bool {
    split(name) == Some((base, Part::Metadata))
}

/// Whether a file must be read from its start.
pub(crate) fn is_compressed(path: &Path) -> bool {
    let name = path.to_string_lossy();
    COMPRESSED.iter().any(|suffix| name.ends_with(suffix))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// What [`Files::open`] can decompress.
const COMPRESSED: &[&str] = &[".xz", ".gz", ".bz2", ".zst"];
