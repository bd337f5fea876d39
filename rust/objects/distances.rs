//! Distances between all answers of each task.

use rayon::prelude::*;

use super::Tasks;
use crate::base::control::Control;
use crate::base::memory::{with_room, zeros};
use crate::{Error, Result};

/// How far apart two answers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Numbers: the sum of differences.
    Absolute,
    /// Numbers: the sum of squared differences.
    Squared,
    /// Words: 1 unless they are the same.
    Hamming,
    /// Words as sets (sorted, without repeats): the share of what is in one only.
    Jaccard,
    /// Words as orders of items, best first: the share of pairs of items in both that are in another order.
    Kendall,
    /// Words as texts: least number of insertions, deletions and replacements, as a share of the longer one.
    Levenshtein,
}

/// Distances between points of `dims` numbers, (answers × answers) for each task.
///
/// Time and memory O(Σ answers² · dims) and O(Σ answers²), sums over tasks.
pub fn value_distances(
    tasks: Tasks<'_>,
    values: &[f64],
    dims: usize,
    measure: Measure,
    control: &Control,
) -> Result<Vec<f64>> {
    if dims == 0 || !values.len().is_multiple_of(dims) || values.iter().any(|x| !x.is_finite()) {
        return Err(Error::invalid(format!("values must be rows of {dims} finite numbers")));
    }
    let squared = match measure {
        Measure::Absolute => false,
        Measure::Squared => true,
        other => return Err(Error::invalid(format!("{other:?} is not a distance between numbers"))),
    };
    tasks.check(values.len() / dims)?;
    let point = |row: usize| &values[row * dims..(row + 1) * dims];
    fill(tasks, control, || Ok(()), &|a, b, (): &mut ()| {
        let gaps = point(a).iter().zip(point(b)).map(|(x, y)| (x - y).abs());
        Ok(if squared { gaps.map(|gap| gap * gap).sum() } else { gaps.sum() })
    })
}

/// Distances between words: answer i is `codes[starts[i]..starts[i + 1]]`.
///
/// Time O(Σ answers² · length), of Kendall's and Levenshtein's the squared length; memory O(Σ answers²).
pub fn word_distances(
    tasks: Tasks<'_>,
    starts: &[u32],
    codes: &[u32],
    measure: Measure,
    control: &Control,
) -> Result<Vec<f64>> {
    let words = Tasks(starts);
    words.check(codes.len())?;
    tasks.check(words.len())?;
    let word = |row: usize| &codes[words.rows(row)];
    let longest = (0..words.len()).map(|row| words.rows(row).len()).max().unwrap_or(0);
    match measure {
        Measure::Absolute | Measure::Squared => {
            Err(Error::invalid(format!("{measure:?} is not a distance between words")))
        }
        Measure::Hamming => fill(tasks, control, || Ok(()), &|a, b, (): &mut ()| Ok(f64::from(word(a) != word(b)))),
        Measure::Jaccard => fill(tasks, control, || Ok(()), &|a, b, (): &mut ()| Ok(jaccard(word(a), word(b)))),
        Measure::Kendall => {
            let scratch = || with_room::<(u32, u32)>(longest);
            fill(tasks, control, scratch, &|a, b, places| kendall(word(a), word(b), places, control))
        }
        Measure::Levenshtein => {
            let scratch = || zeros::<u32>(longest + 1);
            fill(tasks, control, scratch, &|a, b, row| levenshtein(word(a), word(b), row, control))
        }
    }
}

/// Fills the block of each task with the result of `between` for two answers; it is asked of each pair once.
fn fill<S: Send>(
    tasks: Tasks<'_>,
    control: &Control,
    scratch: impl Fn() -> Result<S> + Sync + Send,
    between: &(impl Fn(usize, usize, &mut S) -> Result<f64> + Sync),
) -> Result<Vec<f64>> {
    let starts = tasks.blocks()?;
    let mut distances = zeros::<f64>(starts[tasks.len()])?;
    let mut blocks = with_room(tasks.len())?;
    let mut rest = &mut distances[..];
    for task in 0..tasks.len() {
        let (block, others) = rest.split_at_mut(starts[task + 1] - starts[task]);
        blocks.push(block);
        rest = others;
    }
    blocks.into_par_iter().enumerate().try_for_each_init(&scratch, |scratch, (task, block)| {
        let scratch = crate::base::memory::ready(scratch)?;
        let (first, n) = (tasks.rows(task).start, tasks.rows(task).len());
        for a in 0..n {
            control.check()?;
            for b in 0..a {
                let distance = between(first + a, first + b, scratch)?;
                block[a * n + b] = distance;
                block[b * n + a] = distance;
            }
        }
        Ok(())
    })?;
    Ok(distances)
}

fn jaccard(a: &[u32], b: &[u32]) -> f64 {
    let (mut i, mut j, mut common) = (0, 0, 0_usize);
    while i < a.len() && j < b.len() {
        common += usize::from(a[i] == b[j]);
        let (x, y) = (a[i], b[j]);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    let all = a.len() + b.len() - common;
    if all == 0 { 0.0 } else { 1.0 - common as f64 / all as f64 }
}

/// Orders that share fewer than two items have no information about each other: their distance is one half.
fn kendall(a: &[u32], b: &[u32], places: &mut Vec<(u32, u32)>, control: &Control) -> Result<f64> {
    places.clear();
    places.extend(b.iter().enumerate().map(|(place, &item)| (item, place as u32)));
    places.sort_unstable();
    let place_of = |item: u32| places.binary_search_by_key(&item, |&(item, _)| item).ok().map(|at| places[at].1);
    let common: Vec<u32> = a.iter().filter_map(|&item| place_of(item)).collect();
    let n = common.len();
    if n < 2 {
        return Ok(if a == b { 0.0 } else { 0.5 });
    }
    let mut discordant = 0_usize;
    for i in 0..n {
        if i % 1024 == 1023 {
            control.check()?;
        }
        discordant += common[i + 1..].iter().filter(|&&later| later < common[i]).count();
    }
    Ok(discordant as f64 / (n * (n - 1) / 2) as f64)
}

fn levenshtein(a: &[u32], b: &[u32], row: &mut [u32], control: &Control) -> Result<f64> {
    let longer = a.len().max(b.len());
    Ok(if longer == 0 { 0.0 } else { f64::from(edits(a, b, row, control)?) / longer as f64 })
}

/// Least number of insertions, deletions and replacements between two words; `row` has room for one more than `b` has.
pub(crate) fn edits(a: &[u32], b: &[u32], row: &mut [u32], control: &Control) -> Result<u32> {
    row[..=b.len()].iter_mut().zip(0..).for_each(|(cell, edits)| *cell = edits);
    for (i, x) in a.iter().enumerate() {
        if i % 1024 == 1023 {
            control.check()?;
        }
        let mut diagonal = row[0];
        row[0] = i as u32 + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + u32::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    Ok(row[b.len()])
}
