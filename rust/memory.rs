//! Hints to the memory system, and the only `unsafe` in the crate.

use std::ops::Range;

/// A table below this size stays in the processor's own cache: hints would only cost time.
const WORTHWHILE: usize = 1 << 15;

/// Whether hints about rows of `data` are worth their instructions.
#[inline(always)]
pub(crate) fn worthwhile(data: &[f64]) -> bool {
    cfg!(target_arch = "x86_64") && data.len() >= WORTHWHILE
}

/// Asks for the cache lines that hold `data[at]`; out-of-range requests are ignored.
///
/// The rows of the worker tables are visited in random order: without the hint every visit waits for memory.
#[inline(always)]
pub(crate) fn prefetch(data: &[f64], at: Range<usize>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(row) = data.get(at) {
        const DOUBLES_PER_LINE: usize = 8;
        for line in row.chunks_exact(DOUBLES_PER_LINE) {
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
    // SAFETY: the reference is valid, and a prefetch neither reads nor writes memory as far as the program can tell.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>()) }
}

/// Asks for large pages under a table that is visited in random order: with small ones, most visits would also miss the
/// processor's list of pages. Tables too small to gain, and systems without such pages, are left alone.
#[allow(unsafe_code)]
pub(crate) fn large_pages(data: &[f64]) {
    #[cfg(target_os = "linux")]
    {
        const SMALL: usize = 4096;
        const WORTHWHILE: usize = 1 << 22;
        let range = data.as_ptr_range();
        let first = range.start.addr().next_multiple_of(SMALL);
        let len = range.end.addr().saturating_sub(first) / SMALL * SMALL;
        if len < WORTHWHILE {
            return;
        }
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_COLLAPSE] {
            // SAFETY: the range lies within `data`, and neither advice changes what memory holds. Failure is harmless.
            unsafe { libc::madvise(range.start.with_addr(first).cast_mut().cast(), len, advice) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
}
