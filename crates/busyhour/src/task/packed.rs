//! A task in as few words as it needs, for queues of many tasks: the address of its
//! code, whose four lowest bits are free for its length; the words of its closure; and
//! the label, if it has one. A closure of one word takes 16 bytes, where a task takes 64.

use std::mem::MaybeUninit;

use super::{
    Task,
    closure::{Closure, ClosureCode, INLINE_BYTES},
};

/// A part of a packed task. Closures have no larger alignment.
pub(crate) type Word = MaybeUninit<u64>;

/// The most words of a packed task.
pub(crate) const PACKED_WORDS_MAX: usize = 2 + STORAGE_WORDS;

type Code = ClosureCode<INLINE_BYTES>;

/// Moves a task to memory; returns how many words it took.
///
/// # Safety
///
/// - `to` is aligned for a [`Word`], and from it on [`PACKED_WORDS_MAX`] words may be
///   written.
#[inline(always)]
pub(crate) unsafe fn pack(task: Task, to: *mut Word) -> usize {
    let task = std::mem::ManuallyDrop::new(task);
    let Closure { storage, code } = &task.closure;
    let (words, labels) = (code.words, usize::from(task.label.is_some()));
    let code = std::ptr::from_ref::<Code>(code);
    let tagged_code = code.wrapping_byte_add(words + labels * HAS_LABEL);
    // SAFETY: by contract there is room for a code, the words of the storage, and a
    // label. The closure is in these words of the storage; nobody else uses it or
    // drops it from now on.
    unsafe {
        to.cast::<*const Code>().write(tagged_code);
        let from = (&raw const *storage).cast::<Word>();
        for number in 0..STORAGE_WORDS {
            // Each word by itself: where the type of the closure is known, the rest
            // is left out, and where it is not, no function is called.
            if number < words {
                to.add(1 + number).write(from.add(number).read());
            }
        }
        if let Some(label) = task.label {
            to.add(1 + words)
                .cast::<&'static &'static str>()
                .write(label);
        }
    }
    1 + words + labels
}

/// Moves a packed task to `to`; returns how many words it had.
///
/// # Safety
///
/// - A task is packed at `from`, which is not used any more.
/// - From `from` on, [`PACKED_WORDS_MAX`] words may be read. `to` is not among them,
///   and may be written.
#[inline(always)]
pub(crate) unsafe fn unpack(from: *const Word, to: *mut Task) -> usize {
    // SAFETY: by contract a task is there, so the first word is the address of a code
    // with the bits of `pack`, and a label is where these say. All words of the
    // storage are copied, whatever the closure takes of them, since a copy of a fixed
    // length is a few instructions.
    unsafe {
        let tagged_code = from.cast::<*const Code>().read();
        let (words, labels) = closure_and_label_words(tagged_code);
        let code = tagged_code.wrapping_byte_sub(words + labels * HAS_LABEL);
        let storage = (&raw mut (*to).closure.storage).cast::<Word>();
        from.add(1).copy_to_nonoverlapping(storage, STORAGE_WORDS);
        (&raw mut (*to).closure.code).write(&*code);
        let label =
            (labels == 1).then(|| from.add(1 + words).cast::<&'static &'static str>().read());
        (&raw mut (*to).label).write(label);
        1 + words + labels
    }
}

/// How many words a packed task has.
///
/// # Safety
///
/// - A task is packed at `at`.
#[inline(always)]
pub(crate) unsafe fn packed_words(at: *const Word) -> usize {
    // SAFETY: by contract a task is there, which begins with the address of a code.
    let tagged_code = unsafe { at.cast::<*const Code>().read() };
    let (words, labels) = closure_and_label_words(tagged_code);
    1 + words + labels
}

#[inline(always)]
fn closure_and_label_words(tagged_code: *const Code) -> (usize, usize) {
    let bits = tagged_code.addr() & (align_of::<Code>() - 1);
    (bits % HAS_LABEL, bits / HAS_LABEL)
}

const STORAGE_WORDS: usize = INLINE_BYTES / size_of::<Word>();
const HAS_LABEL: usize = 8;
const _: () = assert!(STORAGE_WORDS < HAS_LABEL && 2 * HAS_LABEL <= align_of::<Code>());

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A task of `WORDS` words beside a witness, which it drops.
    fn holding<const WORDS: usize>(witness: &Arc<()>) -> Task {
        let (held, padding) = (Arc::clone(witness), [WORDS as u64; WORDS]);
        Task::new(move || {
            assert_eq!(padding, [WORDS as u64; WORDS]);
            drop(held);
        })
    }

    /// Packs a task and unpacks it somewhere else.
    fn packed_and_unpacked(task: Task, expected_words: usize) -> Task {
        let mut words = [Word::uninit(); PACKED_WORDS_MAX];
        let mut unpacked = MaybeUninit::uninit();
        // SAFETY: there is room for one task in `words`, and it is taken out once.
        unsafe {
            assert_eq!(pack(task, words.as_mut_ptr()), expected_words);
            assert_eq!(packed_words(words.as_ptr()), expected_words);
            let read = unpack(words.as_ptr(), unpacked.as_mut_ptr());
            assert_eq!(read, expected_words);
            unpacked.assume_init()
        }
    }

    #[test]
    fn a_task_takes_a_word_and_those_of_its_closure() {
        let witness = Arc::new(());
        packed_and_unpacked(Task::new(|| ()), 1).run();
        packed_and_unpacked(holding::<0>(&witness), 2).run();
        packed_and_unpacked(holding::<1>(&witness), 3).run();
        packed_and_unpacked(holding::<5>(&witness), 7).run();
        // Boxed, so it is one word.
        packed_and_unpacked(holding::<6>(&witness), 2).run();
        drop(packed_and_unpacked(holding::<5>(&witness), 7));
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_label_is_behind_the_closure() {
        let padding = [7_u64; STORAGE_WORDS];
        let longest = Task::labelled(&"longest", move || assert_eq!(padding[5], 7));
        let unpacked = packed_and_unpacked(longest, PACKED_WORDS_MAX);
        assert_eq!(unpacked.label(), Some("longest"));
        unpacked.run();
        let shortest = packed_and_unpacked(Task::labelled(&"shortest", || ()), 2);
        assert_eq!(shortest.label(), Some("shortest"));
    }

    #[test]
    fn a_closure_of_odd_length_takes_whole_words() {
        let bytes = [3_u8; 9];
        packed_and_unpacked(Task::new(move || assert_eq!(bytes, [3; 9])), 3).run();
    }
}
