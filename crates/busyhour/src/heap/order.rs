use std::cmp::Ordering;

/// Says which of two entries comes out first.
///
/// [`Min`] and [`Max`] follow [`Ord`]; a closure `Fn(&T, &T) -> Ordering` is an
/// order too. What compares [`Ordering::Less`] is nearer to the top.
///
/// ```
/// use busyhour::heap::Heap;
///
/// let (mut least, mut greatest) = (Heap::min(), Heap::max());
/// let mut nearest = Heap::ordered_by(|a: &i32, b: &i32| (a - 5).abs().cmp(&(b - 5).abs()));
/// for number in [3, 9, 6] {
///     _ = (least.push(number), greatest.push(number), nearest.push(number));
/// }
/// assert_eq!((least.pop(), greatest.pop(), nearest.pop()), (Some(3), Some(9), Some(6)));
/// ```
pub trait Order<T> {
    /// Compares two entries.
    fn compare(&self, a: &T, b: &T) -> Ordering;
}

/// The least entry on top.
///
/// ```
/// use busyhour::heap::{Heap, Min};
///
/// let mut heap: Heap<u32, Min> = Heap::min();
/// for number in [3, 9, 6] {
///     heap.push(number);
/// }
/// assert_eq!(heap.pop(), Some(3));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Min;

/// The greatest entry on top.
///
/// ```
/// use busyhour::heap::{Heap, Max};
///
/// let mut heap: Heap<u32, Max> = Heap::max();
/// for number in [3, 9, 6] {
///     heap.push(number);
/// }
/// assert_eq!(heap.pop(), Some(9));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Max;

impl<T: Ord> Order<T> for Min {
    #[inline]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        a.cmp(b)
    }
}

impl<T: Ord> Order<T> for Max {
    #[inline]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        b.cmp(a)
    }
}

impl<T, F: Fn(&T, &T) -> Ordering> Order<T> for F {
    #[inline]
    fn compare(&self, a: &T, b: &T) -> Ordering {
        self(a, b)
    }
}
