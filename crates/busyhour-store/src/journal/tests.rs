//! A disk that loses what was not synchronised, sector by sector and in any choice, under the real
//! writer, ring and recovery.

use super::{
    JournalDamage, JournalFile, JournalHeader, JournalPosition, JournalRing, JournalWriter,
    RING_BEGIN, SyncedFile, recover_journal,
};
use crate::{Change, SoftState, SoftStateKind};
use busyhour::clock::UnixTime;
use busyhour_registrar::BindingId;
use std::io;

const SECTOR: usize = 512;
/// So little that records wrap all the time.
const LEN: u64 = RING_BEGIN + 6 * SECTOR as u64;

/// What is durable, and what was written since.
#[derive(Clone)]
struct LossyFile {
    durable: Vec<u8>,
    written: Vec<u8>,
    /// Operations until everything fails; as if the power went.
    lasts: usize,
}

impl LossyFile {
    fn new() -> Self {
        let mut durable = vec![0; LEN as usize];
        let header = JournalHeader::new(0, false, true).encode();
        durable[..header.len()].copy_from_slice(&header);
        Self {
            written: durable.clone(),
            durable,
            lasts: usize::MAX,
        }
    }

    fn use_up(&mut self) -> io::Result<()> {
        match self.lasts.checked_sub(1) {
            Some(left) => self.lasts = left,
            None => return Err(io::Error::other("no power")),
        }
        Ok(())
    }

    /// Sectors that differ.
    fn open_sectors(&self) -> Vec<usize> {
        let sectors = 0..self.durable.len() / SECTOR;
        let differ = |sector: &usize| {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            self.durable[range.clone()] != self.written[range]
        };
        sectors.filter(differ).collect()
    }

    /// What may be found after a crash: of each sector the old or the new, in each choice.
    fn after_crash(&self) -> impl Iterator<Item = Vec<u8>> {
        let open = self.open_sectors();
        assert!(open.len() < 12, "a record is not that long");
        (0..1_u32 << open.len()).map(move |choice| {
            let mut bytes = self.durable.clone();
            for (bit, sector) in open.iter().enumerate() {
                if choice >> bit & 1 == 1 {
                    let range = sector * SECTOR..(sector + 1) * SECTOR;
                    bytes[range.clone()].copy_from_slice(&self.written[range]);
                }
            }
            bytes
        })
    }
}

impl JournalFile for LossyFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let (at, outcome) = (at as usize, self.use_up());
        self.written[at..at + bytes.len()].copy_from_slice(bytes);
        outcome
    }

    fn sync(&mut self) -> io::Result<()> {
        self.use_up()?;
        self.durable.clone_from(&self.written);
        Ok(())
    }
}

/// A server's life on such a disk, with a database that is always durable.
struct Life {
    writer: JournalWriter<LossyFile>,
    ring: JournalRing,
    epoch: u64,
    /// Acknowledged and not yet in the database: number, end and text.
    acknowledged: Vec<(u64, u64, Change)>,
    position: JournalPosition,
    /// Written, and not acknowledged.
    offered: Option<Change>,
    count: u64,
}

impl Life {
    fn begin(file: LossyFile, epoch: u64) -> Self {
        let mut writer = JournalWriter::new(file, true);
        let position = JournalPosition {
            epoch,
            number: 0,
            end: RING_BEGIN,
        };
        let _power_may_go = writer.begin(epoch);
        Self {
            writer,
            ring: JournalRing::new(LEN),
            epoch,
            acknowledged: Vec::new(),
            position,
            offered: None,
            count: 0,
        }
    }

    /// `false` once the power has gone.
    fn offer(&mut self, len: usize) -> bool {
        self.count += 1;
        let change = change(self.epoch * 1000 + self.count, len);
        let room = self.writer.prepare([&change].into_iter());
        let at = loop {
            match self.ring.place(room) {
                Some(at) => break at,
                None => self.follow(1),
            }
        };
        self.offered = Some(change.clone());
        let Ok(number) = self.writer.append(at) else {
            return false;
        };
        self.offered = None;
        let end = self.ring.fill(at, room);
        self.acknowledged.push((number, end, change));
        true
    }

    /// The database takes so many records.
    fn follow(&mut self, count: usize) {
        let count = count.min(self.acknowledged.len());
        let last = self.acknowledged.drain(..count).next_back();
        if let Some((number, end, _)) = last {
            (self.position.number, self.position.end) = (number, end);
            self.ring.release_until(end, self.acknowledged.is_empty());
        }
    }

    /// All that was acknowledged, in its order, and at most what was on its way.
    fn check(&mut self) {
        let mut expected: Vec<Change> = self.acknowledged.iter().map(|one| one.2.clone()).collect();
        let acknowledged = expected.len();
        expected.extend(self.offered.clone());
        let file = self.writer.file().clone();
        for bytes in file.after_crash() {
            let found = recover_journal(&bytes, Some(self.position)).unwrap();
            let found = found.records.into_iter().flat_map(|record| record.changes);
            let found: Vec<Change> = found.collect();
            assert!(
                found.len() >= acknowledged,
                "{} records lost",
                acknowledged - found.len()
            );
            assert_eq!(found, expected[..found.len()]);
        }
    }
}

/// One of many bytes.
fn change(id: u64, len: usize) -> Change {
    Change::PutSoftState(SoftState {
        id: BindingId(id),
        kind: SoftStateKind::Publication,
        value: "x".repeat(len).into(),
        granted_s: 60,
        expires_at: UnixTime::from_secs(id),
    })
}

/// Each operation of each schedule is the last one before the power goes, and then each choice of
/// sectors is found. The next life begins on what is found.
#[test]
fn what_was_acknowledged_is_found_after_a_crash_at_each_point_and_with_each_choice_of_sectors() {
    // Lengths of changes, and how many records the database takes after each.
    let schedules: [&[(usize, usize)]; 4] = [
        &[
            (10, 0),
            (700, 0),
            (10, 2),
            (900, 0),
            (300, 1),
            (10, 0),
            (800, 0),
            (5, 9),
        ],
        &[
            (400, 1),
            (400, 1),
            (400, 0),
            (400, 1),
            (400, 2),
            (400, 0),
            (400, 1),
            (400, 1),
        ],
        &[
            (1, 0),
            (1, 0),
            (1, 0),
            (1400, 0),
            (1, 3),
            (1400, 0),
            (1, 0),
            (1400, 0),
        ],
        &[
            (463, 0),
            (463, 1),
            (464, 0),
            (465, 1),
            (440, 1),
            (441, 0),
            (439, 2),
            (512, 0),
        ],
    ];
    let mut crashes = 0;
    for schedule in schedules {
        let mut begun = vec![LossyFile::new()];
        for epoch in 1..=3 {
            let mut left = Vec::new();
            for file in &begun {
                for lasts in 0..=2 * schedule.len() + 2 {
                    let mut life = Life::begin(
                        LossyFile {
                            lasts,
                            ..file.clone()
                        },
                        epoch,
                    );
                    life.check();
                    for (len, taken) in schedule {
                        let goes_on = life.offer(*len);
                        life.check();
                        if !goes_on {
                            break;
                        }
                        life.follow(*taken);
                        life.check();
                    }
                    crashes += 1;
                    // The next start takes everything first; what was lost stays as it is.
                    let file = life.writer.file().clone();
                    left.extend(file.after_crash().map(|bytes| LossyFile {
                        written: bytes.clone(),
                        durable: bytes,
                        lasts: 0,
                    }));
                }
            }
            // Some of very many.
            let step = left.len().div_ceil(25);
            begun = left.into_iter().step_by(step).collect();
        }
    }
    assert!(crashes > 1_000, "{crashes}");
}

/// Long runs of random lengths, with crashes at random moments.
#[test]
fn what_was_acknowledged_is_found_in_any_run() {
    use proptest::prelude::*;
    let steps = proptest::collection::vec((0..1400_usize, 0..5_usize), 1..60);
    let strategy = (steps, 0..140_usize, 1..3_u64);
    proptest!(|((steps, lasts, lives) in strategy)| {
        let mut file = LossyFile::new();
        for epoch in 1..=lives {
            let mut life = Life::begin(LossyFile { lasts, ..file }, epoch);
            for (len, taken) in &steps {
                if !life.offer(*len) {
                    break;
                }
                life.follow(*taken);
            }
            life.check();
            file = life.writer.file().clone();
            let found = file.after_crash().next().unwrap();
            file = LossyFile { written: found.clone(), durable: found, lasts };
        }
    });
}

fn three_records() -> (Life, Vec<u8>) {
    let mut life = Life::begin(LossyFile::new(), 1);
    for len in [100, 200, 300] {
        assert!(life.offer(len));
    }
    let bytes = life.writer.file().durable.clone();
    (life, bytes)
}

/// Without what is behind it in its last sector.
fn record_len(bytes: &[u8]) -> usize {
    28 + u32::from_le_bytes(*bytes[8..].first_chunk().unwrap()) as usize
}

/// Their records shared sectors.
#[test]
fn a_journal_of_the_version_before_is_read() {
    let (life, bytes) = three_records();
    let mut before = vec![0; LEN as usize];
    let (mut from, mut to, mut ends) = (RING_BEGIN as usize, RING_BEGIN as usize, Vec::new());
    for (_, end, _) in &life.acknowledged {
        let len = record_len(&bytes[from..]);
        before[to..to + len].copy_from_slice(&bytes[from..from + len]);
        to += len.next_multiple_of(16);
        ends.push(to as u64);
        from = *end as usize;
    }
    before[..36].copy_from_slice(&bytes[..36]);
    (before[16], before[20]) = (1, before[20] & 3);
    let sum = crc32fast::hash(&before[..32]);
    before[32..36].copy_from_slice(&sum.to_le_bytes());
    let found = recover_journal(&before, Some(life.position)).unwrap();
    let found_ends: Vec<u64> = found.records.iter().map(|record| record.end).collect();
    assert_eq!(found_ends, ends);
    let changes: Vec<Change> = found
        .records
        .into_iter()
        .flat_map(|one| one.changes)
        .collect();
    let expected: Vec<Change> = life.acknowledged.iter().map(|one| one.2.clone()).collect();
    assert_eq!(changes, expected);
    before[ends[0] as usize + 40] ^= 1;
    let damage = recover_journal(&before, Some(life.position)).unwrap_err();
    let (number, at, later) = (2, ends[0], 3);
    assert_eq!(damage, JournalDamage::Record { number, at, later });
}

/// By either way the same bytes come into the file, and no byte of another sector changes.
#[test]
fn a_real_file_has_what_was_written_past_the_page_cache_or_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    for is_synced in [false, true] {
        std::fs::write(&path, vec![7; 16 * SECTOR]).unwrap();
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path);
        let mut file = SyncedFile::new(file.unwrap(), is_synced);
        let mut expected = vec![7; 16 * SECTOR];
        for (sector, len) in [(0, 36), (1, 512), (3, 1), (8, 2000), (5, 513), (15, 500)] {
            let bytes: Vec<u8> = (0..len).map(|at| (sector + at) as u8).collect();
            file.write_at(&bytes, (sector * SECTOR) as u64).unwrap();
            file.sync().unwrap();
            let begin = sector * SECTOR;
            expected[begin..begin + len].copy_from_slice(&bytes);
            let found = std::fs::read(&path).unwrap();
            let padding = begin + len..(begin + len).next_multiple_of(SECTOR);
            expected[padding.clone()].copy_from_slice(&found[padding.clone()]);
            assert_eq!(found, expected, "{len} bytes in sector {sector}");
        }
    }
}

#[test]
fn a_damaged_record_with_one_behind_it_is_an_error_wherever_it_is_damaged() {
    let (life, bytes) = three_records();
    let ends: Vec<usize> = life.acknowledged.iter().map(|one| one.1 as usize).collect();
    for (number, range) in [(1, RING_BEGIN as usize..ends[0]), (2, ends[0]..ends[1])] {
        for at in range.clone().take(record_len(&bytes[range.clone()])) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let damage = recover_journal(&damaged, Some(life.position)).unwrap_err();
            let expected = JournalDamage::Record {
                number,
                at: range.start as u64,
                later: number + 1,
            };
            assert_eq!(damage, expected, "byte {at}");
        }
    }
    let mut cut = bytes.clone();
    cut[ends[1] + 20] ^= 1;
    let found = recover_journal(&cut, Some(life.position)).unwrap();
    assert_eq!(
        found.records.len(),
        2,
        "nothing proves that the last was whole"
    );
}

/// A release that comes late, of what was released before, frees nothing that came since.
#[test]
fn a_full_ring_is_not_taken_for_an_empty_one() {
    let mut ring = JournalRing::new(RING_BEGIN + 64);
    assert_eq!(ring.place(32), Some(RING_BEGIN));
    let released = ring.fill(RING_BEGIN, 32);
    ring.release_until(released, true);
    for at in [released, RING_BEGIN] {
        assert_eq!(ring.place(32), Some(at));
        ring.fill(at, 32);
    }
    ring.release_until(released, false);
    assert_eq!((ring.place(16), ring.used()), (None, 64));
    ring.release_until(RING_BEGIN + 32, true);
    assert_eq!(ring.used(), 0);
}

/// It may have lost any sectors in a power cut, so damage is no error.
#[test]
fn a_journal_that_was_not_synchronised_gives_what_is_before_the_damage() {
    let mut life = Life::begin(LossyFile::new(), 1);
    life.writer = JournalWriter::new(life.writer.file().clone(), false);
    life.writer.begin(1).unwrap();
    for len in [100, 200, 300] {
        assert!(life.offer(len));
    }
    let mut bytes = life.writer.file().durable.clone();
    bytes[life.acknowledged[0].1 as usize + 40] ^= 1;
    let found = recover_journal(&bytes, Some(life.position)).unwrap();
    assert_eq!(found.records.len(), 1);
    assert!(matches!(
        found.cut,
        Some(JournalDamage::Record { number: 2, .. })
    ));
}

#[test]
fn a_journal_of_another_epoch_is_ignored_if_it_is_older_and_refused_if_it_is_newer() {
    let (mut life, bytes) = three_records();
    let at = |epoch| {
        Some(JournalPosition {
            epoch,
            ..life.position
        })
    };
    let begun = at(2).map(|position| JournalPosition {
        number: 0,
        ..position
    });
    let older = recover_journal(&bytes, begun).unwrap();
    assert!(older.records.is_empty(), "the database had all of it");
    assert_eq!(
        recover_journal(
            &bytes,
            Some(JournalPosition {
                number: 4,
                ..at(2).unwrap()
            })
        ),
        Err(JournalDamage::Old {
            journal: 1,
            database: 2
        })
    );
    let beyond = JournalPosition {
        end: bytes.len() as u64 + 16,
        ..life.position
    };
    assert!(matches!(
        recover_journal(&bytes, Some(beyond)),
        Err(JournalDamage::Short { .. })
    ));
    for (position, database) in [(at(0), 0), (None, 0)] {
        let damage = recover_journal(&bytes, position).unwrap_err();
        assert_eq!(
            damage,
            JournalDamage::Foreign {
                journal: 1,
                database
            }
        );
    }
    life.writer.end().unwrap();
    let ended = life.writer.file().durable.clone();
    assert_eq!(
        (bytes[16], ended[16]),
        (2, 1),
        "the version before can be started with one that has ended"
    );
    assert!(recover_journal(&ended, None).unwrap().records.is_empty());
    assert_eq!(recover_journal(&ended, at(1)).unwrap().records.len(), 3);
    for (range, word) in [
        (0..1, "begin as one"),
        (16..17, "another version"),
        (24..25, "checksum"),
    ] {
        let mut damaged = bytes.clone();
        damaged[range.start] ^= 0xFF;
        let damage = recover_journal(&damaged, at(1)).unwrap_err();
        assert!(damage.to_string().contains(word), "{damage}");
    }
}
