use crate::sync::{Mutex, lock};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::{
    cmp::Ordering,
    fmt,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher},
    ops::Deref,
    ptr,
    sync::{Arc, LazyLock, Weak},
};

/// An interned string with its hash in front.
///
/// Two names with the same text share one allocation. So comparing two names
/// compares two pointers, and hashing a name copies eight bytes; neither reads
/// the text. Any thread may intern. The text is freed when its last name is
/// dropped.
///
/// # Examples
///
/// ```
/// use busyhour::bus::Name;
///
/// let door = Name::new("SIP/door");
/// assert_eq!(door, Name::from(String::from("SIP/door")));
/// assert_ne!(door, Name::new("SIP/gate"));
/// assert_eq!(door.len(), 8);
/// ```
#[derive(Clone)]
pub struct Name(Arc<Entry>);

/// The text that all equal names share; it is removed from the interner when
/// the last of them is dropped.
struct Entry {
    hash: u64,
    text: Box<str>,
}

impl Name {
    /// Interns the text, or finds the interned one.
    pub fn new(text: &str) -> Self {
        let hash = hash_of(text);
        INTERNER.shard(hash).intern(hash, text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl PartialEq for Name {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Name {}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), out)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        INTERNER.shard(self.hash).forget(self);
    }
}

/// Every entry that some name keeps alive, each in the shard of its hash.
struct Interner {
    /// A text's own hash is the same in every process, so the tables mix it
    /// with a secret: nobody can choose texts that crowd one bucket.
    secret: RandomState,
    shards: [InternerShard; Self::SHARD_COUNT],
}

#[derive(Default)]
struct InternerShard(Mutex<HashTable<InternedName>>);

/// A table entry. It does not keep the text alive.
struct InternedName {
    spread: u64,
    entry: Weak<Entry>,
}

static INTERNER: LazyLock<Interner> = LazyLock::new(|| Interner {
    secret: RandomState::default(),
    shards: Default::default(),
});

impl Interner {
    const SHARD_COUNT: usize = 32;

    fn shard(&self, hash: u64) -> &InternerShard {
        &self.shards[hash as usize % Self::SHARD_COUNT]
    }

    fn spread(&self, hash: u64) -> u64 {
        self.secret.hash_one(hash)
    }
}

impl InternerShard {
    fn intern(&self, hash: u64, text: &str) -> Name {
        let spread = INTERNER.spread(hash);
        // Entries of other texts with the same hash. Dropping the last handle
        // of one takes this same lock, so they are dropped after it is
        // released.
        let mut others = Vec::new();
        let mut table = lock(&self.0);
        let same_text = |entry: Arc<Entry>| {
            if *entry.text == *text {
                return Some(entry);
            }
            others.push(entry);
            None
        };
        let known = table
            .iter_hash(spread)
            .filter(|known| known.spread == spread)
            .filter_map(|known| known.entry.upgrade())
            .find_map(same_text);
        let entry = known.unwrap_or_else(|| {
            let entry = Arc::new(Entry {
                hash,
                text: text.into(),
            });
            let known = InternedName {
                spread,
                entry: Arc::downgrade(&entry),
            };
            table.insert_unique(spread, known, |known| known.spread);
            entry
        });
        drop(table);
        Name(entry)
    }

    /// Removes the entry whose last handle was dropped.
    ///
    /// Before this call an equal text may have been interned again; that entry
    /// has another address.
    fn forget(&self, entry: &Entry) {
        let mut table = lock(&self.0);
        let is_it = |known: &InternedName| ptr::eq(known.entry.as_ptr(), entry);
        if let Ok(known) = table.find_entry(INTERNER.spread(entry.hash), is_it) {
            known.remove();
        }
        if table.capacity() > 4 * table.len().max(16) {
            table.shrink_to_fit(|known| known.spread);
        }
    }
}

/// The standard library's default hash without its random key: strong enough
/// that different texts do not share all 64 bits, however they were chosen.
fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn equal_texts_are_one_allocation() {
        let (first, second) = (Name::new("one text"), Name::from("one text"));
        assert!(ptr::eq(first.as_str(), second.as_str()));
        assert_eq!(first, second);
        assert_ne!(first, Name::new("another text"));
        assert_eq!(first.to_string(), "one text");
    }

    #[test]
    fn a_text_is_freed_with_its_last_name() {
        let text = "a text of this test only";
        let name = Name::new(text);
        let weak = Arc::downgrade(&name.0);
        drop(name.clone());
        assert!(weak.upgrade().is_some());
        drop(name);
        assert!(weak.upgrade().is_none());
        let shard = INTERNER.shard(hash_of(text));
        let spread = INTERNER.spread(hash_of(text));
        let left = |known: &InternedName| known.spread == spread;
        assert!(lock(&shard.0).find(spread, left).is_none());
    }

    #[test]
    fn threads_that_intern_and_drop_the_same_texts_agree() {
        let texts: Vec<String> = (0..8).map(|n| format!("contended {n}")).collect();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2_000 {
                        let text = &texts[round % texts.len()];
                        let (first, second) = (Name::new(text), Name::new(text));
                        assert_eq!(first, second);
                        assert_eq!(first, text.as_str());
                    }
                });
            }
        });
        for text in &texts {
            let spread = INTERNER.spread(hash_of(text));
            let table = lock(&INTERNER.shard(hash_of(text)).0);
            assert!(table.find(spread, |known| known.spread == spread).is_none());
        }
    }
}
