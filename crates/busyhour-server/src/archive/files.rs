//! The only place that touches files: which belong to an archive, and their bytes.

use super::Error;
use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The files of one archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    /// The name that they share, with its folder.
    pub(super) base: PathBuf,
    pub(super) metadata: PathBuf,
    pub(super) index: Option<PathBuf>,
    /// The data volumes in order.
    pub(super) volumes: Vec<PathBuf>,
}

impl Files {
    /// Those of the archive that `path` names: by the name they share, or by
    /// that of any of them.
    pub(super) fn find(path: &Path) -> Result<Self, Error> {
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
        // Of a volume that lies there twice, as while it is being compressed, one is read.
        volumes.dedup_by_key(|(number, _)| *number);
        Some(Self {
            base: folder.join(base),
            metadata: metadata?,
            index,
            volumes: volumes.into_iter().map(|(_, path)| path).collect(),
        })
    }

    /// Bytes of all volumes as they lie on the disk.
    pub(super) fn volume_bytes(&self) -> u64 {
        let len = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        self.volumes.iter().map(len).sum()
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

/// The bytes of a file, decompressed if its name says that it is compressed.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read + Send>, Error> {
    let file = File::open(path).map_err(|error| Error::unreadable(path, error))?;
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

/// All bytes of a file of at most `len_max`.
pub(super) fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(len_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| Error::unreadable(path, error))?;
    if bytes.len() as u64 > len_max {
        let reason = format!("it is longer than {len_max} bytes");
        return Err(Error::unreadable(path, reason));
    }
    Ok(bytes)
}

/// The last record of a volume that is not compressed, up to `len_max` bytes
/// of it, if the length at the file's end leads to one.
pub(super) fn last_record(path: &Path, len_max: usize) -> Option<Vec<u8>> {
    if is_compressed(path) {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let end = file.seek(SeekFrom::End(-4)).ok()? + 4;
    let mut tail = [0; 4];
    file.read_exact(&mut tail).ok()?;
    let len = u64::from(u32::from_be_bytes(tail));
    file.seek(SeekFrom::Start(end.checked_sub(len)?)).ok()?;
    let mut record = vec![0; len_max.min(usize::try_from(len).ok()?)];
    file.read_exact(&mut record).ok()?;
    record.starts_with(&tail).then_some(record)
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

fn is_compressed(path: &Path) -> bool {
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

/// What [`open`] can decompress.
const COMPRESSED: &[&str] = &[".xz", ".gz", ".bz2", ".zst"];
