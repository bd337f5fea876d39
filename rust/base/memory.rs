//! Memory that may be rejected, hints to the memory system, and the only `unsafe` in the crate.
//!
//! An allocation that fails inside `vec!`, `collect` or `clone` ends the process. So whatever grows with the tasks, the
//! workers, the annotations, pairs of them or the square of the classes is asked for here, and a rejection is
//! [`Error::OutOfMemory`]. What is bounded (a row of the classes is at most half a megabyte) is allocated as usual:
//! each large allocation makes sure that there is room left for it.

use std::alloc::{Layout, alloc_zeroed};
use std::hint::black_box;
use std::ops::Range;
use std::ptr::slice_from_raw_parts_mut;

use rayon::prelude::*;

use crate::{Error, Result};

/// From this many bytes on, an allocation counts as large.
const LARGE: usize = 1 << 20;

/// What must remain next to a large allocation, for the small ones that cannot be rejected. Above the 32 MB up to which
/// glibc learns from what is freed: the question must not change how memory is handed out.
const REMAINDER: usize = 1 << 26;

/// Numbers for which all bits zero means zero.
///
/// # Safety
///
/// Memory that is all zeros must be a valid value, and the type must need no drop.
#[allow(unsafe_code)]
pub(crate) unsafe trait Zero: Copy {}

macro_rules! zero {
    ($($number:ty),*) => {
        $(
            // SAFETY: plain numbers, whose bits may all be zero.
            #[allow(unsafe_code)]
            unsafe impl Zero for $number {}
        )*
    };
}
zero!(bool, u8, u16, u32, u64, usize, i16, i32, i64, f32, f64);

// SAFETY: nothing but numbers, side by side.
#[allow(unsafe_code)]
unsafe impl<T: Zero, const N: usize> Zero for [T; N] {}

/// As many zeros. The system hands out large ones as pages that have not been touched yet: each thread maps what it
/// writes.
#[allow(unsafe_code)]
pub(crate) fn zeros<T: Zero>(len: usize) -> Result<Vec<T>> {
    let out_of_memory = || refusal::<T>(len);
    let layout = Layout::array::<T>(len).map_err(|_| out_of_memory())?;
    grant(layout.size())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty; the pointer, if there is one, comes from the global allocator with that layout,
    // and `len` zeros are values of `T`.
    let memory = unsafe {
        let pointer = alloc_zeroed(layout).cast::<T>();
        if pointer.is_null() {
            return Err(out_of_memory());
        }
        Box::from_raw(slice_from_raw_parts_mut(pointer, len)).into_vec()
    };
    in_large_pages(memory.as_ptr(), layout.size());
    leave_room(layout.size())?;
    Ok(memory)
}

/// An empty vector with room for `len` items.
pub(crate) fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    reserve(&mut values, len)?;
    Ok(values)
}

/// Makes room for exactly this many more items.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    if items.capacity() - items.len() >= more {
        return Ok(());
    }
    let len = items.len().saturating_add(more);
    let bytes = len.saturating_mul(size_of::<T>());
    grant(bytes)?;
    items.try_reserve_exact(more).map_err(|_| refusal::<T>(len))?;
    in_large_pages(items.as_ptr(), bytes);
    leave_room(bytes)
}

/// Makes room for more items where how many there will be in all is not known: it at least doubles.
pub(crate) fn grow<T>(items: &mut Vec<T>, more: usize) -> Result<()> {
    if items.capacity() - items.len() >= more {
        return Ok(());
    }
    reserve(items, more.max(items.len()).max(16))
}

/// Adds one item, where how many there will be is not known.
#[inline]
pub(crate) fn push<T>(items: &mut Vec<T>, item: T) -> Result<()> {
    grow(items, 1)?;
    items.push(item);
    Ok(())
}

/// The same value this many times.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut copies = with_room(len)?;
    copies.resize(len, value);
    Ok(copies)
}

/// Makes `items` this many zeros, in the room it has if that suffices: scratch that is used again and again.
pub(crate) fn clear<T: Zero + Default>(items: &mut Vec<T>, len: usize) -> Result<()> {
    items.clear();
    reserve(items, len)?;
    items.resize(len, T::default());
    Ok(())
}

/// A copy of a slice.
pub(crate) fn copied<T: Clone>(values: &[T]) -> Result<Vec<T>> {
    let mut copy = with_room(values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// What an iterator of known length yields.
pub(crate) fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = with_room(values.len())?;
    list.extend(values);
    Ok(list)
}

/// Several vectors on end.
pub(crate) fn joined<T: Clone>(parts: &[Vec<T>]) -> Result<Vec<T>> {
    let mut list = with_room(parts.iter().map(Vec::len).sum())?;
    parts.iter().for_each(|part| list.extend_from_slice(part));
    Ok(list)
}

/// What a parallel iterator of known length yields, in its order.
pub(crate) fn par_collected<T: Send>(values: impl IndexedParallelIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = with_room(values.len())?;
    values.collect_into_vec(&mut list);
    Ok(list)
}

/// The same of items that may fail: the first error in their order, if there is one.
pub(crate) fn par_tried<T: Send>(values: impl IndexedParallelIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let results = par_collected(values)?;
    let mut list = with_room(results.len())?;
    for item in results {
        list.push(item?);
    }
    Ok(list)
}

/// What a thread works with, or why it has none.
pub(crate) fn ready<T>(scratch: &mut Result<T>) -> Result<&mut T> {
    scratch.as_mut().map_err(|error| error.clone())
}

/// Fails where a stable sort of the items would not find the room it takes next to them.
pub(crate) fn room_to_sort<T>(items: &[T]) -> Result<()> {
    with_room::<T>(items.len()).map(drop)
}

fn refusal<T>(len: usize) -> Error {
    Error::OutOfMemory(len.saturating_mul(size_of::<T>()))
}

/// Fails unless there is also room for the small allocations that follow a large one.
fn leave_room(bytes: usize) -> Result<()> {
    if bytes < LARGE {
        return Ok(());
    }
    let mut remainder = Vec::<u8>::new();
    let reserved = remainder.try_reserve_exact(REMAINDER);
    black_box(&mut remainder); // else the compiler sees that it is unused, and does not ask
    reserved.map_err(|_| Error::OutOfMemory(bytes))
}

/// Every allocation asks here first; tests make it reject one.
#[cfg(not(test))]
#[inline(always)]
#[allow(clippy::unnecessary_wraps)]
fn grant(_bytes: usize) -> Result<()> {
    Ok(())
}

#[cfg(test)]
use tests::grant;

/// A table below this size stays in the processor's own cache: hints would only cost time.
const WORTHWHILE: usize = 1 << 15;

/// Whether prefetching rows of `data` saves more time than it costs.
#[inline(always)]
pub(crate) fn worthwhile(data: &[f64]) -> bool {
    cfg!(target_arch = "x86_64") && data.len() >= WORTHWHILE
}

/// Asks for the cache lines that hold `data[at]`; out-of-range requests are ignored.
///
/// The rows of the worker tables are visited in random order: without the hint every visit waits for memory.
#[inline(always)]
pub(crate) fn prefetch<T>(data: &[T], at: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(row) = data.get(at) {
        for line in row.chunks_exact(const { 64 / size_of::<T>() }) {
            hint(&line[0]);
        }
        if let Some(last) = row.last() {
            hint(last);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

/// Asks for the cache line in which `data[at]` starts; out-of-range requests are ignored.
#[inline(always)]
pub(crate) fn prefetch_at<T>(data: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = data.get(at) {
        hint(item);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, at);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn hint<T>(item: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the reference is valid, and a prefetch neither reads nor writes memory as far as the program can observe.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>()) }
}

/// Asks that memory which is about to be written come in large pages: small ones are mapped one by one, each on first
/// touch, which takes longer than to write them.
fn in_large_pages<T>(start: *const T, bytes: usize) {
    #[cfg(target_os = "linux")]
    advise(start.cast(), bytes, libc::MADV_HUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

/// Puts a table that is visited in random order into large pages: with small ones, most visits would also miss the
/// processor's list of pages. Systems without such pages are left alone.
pub(crate) fn large_pages(data: &[f64]) {
    #[cfg(target_os = "linux")]
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_COLLAPSE] {
        advise(data.as_ptr().cast(), size_of_val(data), advice);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}

/// Advises the system how the whole pages of an allocation are used, unless there are too few to gain.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn advise(start: *const u8, bytes: usize, advice: libc::c_int) {
    const SMALL: usize = 4096;
    const WORTHWHILE: usize = 1 << 22;
    let first = start.addr().next_multiple_of(SMALL);
    let len = (start.addr() + bytes).saturating_sub(first) / SMALL * SMALL;
    if len < WORTHWHILE {
        return;
    }
    // SAFETY: the callers' memory is allocated and as long as they say, the range lies within it, and neither of the
    // two advices given here changes what memory holds. Failure is harmless.
    unsafe { libc::madvise(start.with_addr(first).cast_mut().cast(), len, advice) };
}

#[cfg(test)]
mod tests;
