//! Parallel loops over blocks of rows.
//!
//! They take what is to be done as a trait object: a generic loop would be compiled again, as a tree of joins, for
//! every job. The call costs nothing compared with a block. Blocks are a function of the data, so that sums over them
//! do not depend on the number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::Result;

/// Runs `job(first row, rows)` on blocks of `n` rows of `width` numbers.
pub(crate) fn each_block(values: &mut [f64], width: usize, n: usize, job: &(dyn Fn(usize, &mut [f64]) + Sync)) {
    values.par_chunks_mut((width * n).max(1)).enumerate().for_each(|(i, rows)| job(i * n, rows));
}

/// The same, until one of them fails.
pub(crate) fn try_each_block(
    values: &mut [f64],
    width: usize,
    n: usize,
    job: &(dyn Fn(usize, &mut [f64]) -> Result<()> + Sync),
) -> Result<()> {
    values.par_chunks_mut((width * n).max(1)).enumerate().try_for_each(|(i, rows)| job(i * n, rows))
}

/// The sum of what `job` makes of blocks of `n` of `len` rows, in their order.
pub(crate) fn sum_blocks(len: usize, n: usize, job: &(dyn Fn(Range<usize>) -> f64 + Sync)) -> f64 {
    let block = |i: usize| job(i * n..len.min((i + 1) * n));
    (0..len.div_ceil(n)).into_par_iter().map(block).collect::<Vec<f64>>().into_iter().sum()
}

/// Bytes of chunks' tables that are always granted.
const SMALL: usize = 1 << 25;

/// How many chunks of tasks keep all cores busy, without looking at their tables.
pub(crate) fn wanted_chunks(n_annotations: usize) -> usize {
    const ROWS_PER_CHUNK: usize = 1 << 15;
    const MOST_CHUNKS: usize = 32;
    n_annotations.div_ceil(ROWS_PER_CHUNK).clamp(1, MOST_CHUNKS)
}

/// How many tables of this many numbers there is room for.
pub(crate) fn room_for(n_annotations: usize, numbers: usize) -> usize {
    SMALL.max(8 * n_annotations) / (numbers * size_of::<f64>()).max(1)
}

/// How many chunks there are if each has a table of this many numbers.
///
/// Two tables at least, whatever room they take: one would leave the other cores idle.
pub(crate) fn chunks_with_tables(n_annotations: usize, numbers: usize) -> usize {
    wanted_chunks(n_annotations).min(room_for(n_annotations, numbers).max(2))
}

/// Deals out rows of `width` numbers to chunks, as many to each as it has tasks.
pub(crate) fn with_rows<'c, C>(
    chunks: &'c mut [C],
    tasks: impl Fn(&C) -> usize,
    rows: &'c mut [f64],
    width: usize,
) -> Vec<(&'c mut C, &'c mut [f64])> {
    let mut rest = rows;
    let deal = |chunk: &'c mut C| {
        let (out, tail) = std::mem::take(&mut rest).split_at_mut(tasks(chunk) * width);
        rest = tail;
        (chunk, out)
    };
    chunks.iter_mut().map(deal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn blocks_hold_whole_rows_and_know_where_they_begin() {
        let mut values = vec![0.0; 14];
        each_block(&mut values, 2, 3, &|first, rows| {
            rows.chunks_exact_mut(2).enumerate().for_each(|(i, row)| row.fill((first + i) as f64));
        });
        assert!(values.iter().enumerate().all(|(i, x)| *x == (i / 2) as f64));
        let failed = try_each_block(&mut values, 2, 3, &|first, _| {
            if first == 6 { Err(Error::Cancelled) } else { Ok(()) }
        });
        assert_eq!(failed, Err(Error::Cancelled));
        assert_eq!(sum_blocks(7, 3, &|rows| rows.map(|i| i as f64).sum()), 21.0);
    }
}
