//! A hint to the memory system, and the only `unsafe` in the crate.

/// Asks for the cache lines that hold `data[start..start + len]`; out-of-range requests are ignored.
///
/// The rows of the worker tables are visited in random order: without the hint every visit waits for memory.
#[inline(always)]
pub(crate) fn prefetch(data: &[f64], start: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if start + len <= data.len() {
        const DOUBLES_PER_LINE: usize = 8;
        let mut at = start;
        while at < start + len {
            hint(&data[at]);
            at += DOUBLES_PER_LINE;
        }
        // A row need not begin on a line: its last element may lie one line further.
        hint(&data[start + len - 1]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, start, len);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn hint(item: &f64) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the reference is valid, and a prefetch neither reads nor writes memory as far as the program can tell.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>()) }
}
