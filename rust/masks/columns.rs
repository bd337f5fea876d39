//! Pixels that all workers marked alike, made one.

use std::collections::HashMap;

use rayon::prelude::*;

use super::Drawings;
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{par_tried, push, reserve, with_room, zeros};

/// Images as columns of classes, one for all pixels that all masks of the image have alike, and stretches of such pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Where the stretches of each image begin, and the last end.
    pub stretch_starts: Vec<i64>,
    /// The pixel after each stretch; the next begins there.
    pub ends: Vec<i64>,
    /// Column of each stretch, within its image.
    pub columns: Vec<u32>,
    /// Where the columns of each image begin, and the last end.
    pub column_starts: Vec<i64>,
    /// Pixels of each column.
    pub pixels: Vec<i64>,
    /// Classes: of each image (masks × columns), on end.
    pub said: Vec<u16>,
}

/// One image.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) ends: Vec<i64>,
    pub(super) columns: Vec<u32>,
    pub(super) pixels: Vec<i64>,
    pub(super) said: Vec<u16>,
}

/// Folds each image: columns in the order in which they first occur.
///
/// Time O(r log r + r · masks) for the r runs of an image; memory 12 bytes a stretch, of which there are at most two a run,
/// and 2 bytes for each mask of a column.
pub fn mask_columns(masks: &Drawings<'_>, control: &Control) -> Result<Columns> {
    masks.check()?;
    let columns = par_tried((0..masks.tasks.len()).into_par_iter().map(|task| {
        control.check()?;
        folded(masks, task)
    }))?;
    let sum = |of: fn(&Folded) -> usize| columns.iter().map(of).sum::<usize>();
    let mut all = Columns {
        stretch_starts: with_room(columns.len() + 1)?,
        ends: with_room(sum(|f| f.ends.len()))?,
        columns: with_room(sum(|f| f.columns.len()))?,
        column_starts: with_room(columns.len() + 1)?,
        pixels: with_room(sum(|f| f.pixels.len()))?,
        said: with_room(sum(|f| f.said.len()))?,
    };
    all.stretch_starts.push(0);
    all.column_starts.push(0);
    for image in columns {
        all.ends.extend_from_slice(&image.ends);
        all.columns.extend_from_slice(&image.columns);
        all.pixels.extend_from_slice(&image.pixels);
        all.said.extend_from_slice(&image.said);
        all.stretch_starts.push(all.ends.len() as i64);
        all.column_starts.push(all.pixels.len() as i64);
    }
    Ok(all)
}

pub(super) fn folded(masks: &Drawings<'_>, task: usize) -> Result<Folded> {
    let rows = masks.tasks.rows(task);
    let (n, size) = (rows.len(), masks.size(task).unwrap_or(0));
    let mut edges = vec![];
    for mask in rows.clone() {
        let runs = masks.runs(mask);
        reserve(&mut edges, 2 * runs.len())?;
        edges.extend(runs.clone().map(|run| masks.begins[run]).filter(|begin| *begin > 0));
        edges.extend(runs.map(|run| masks.ends[run]));
    }
    if size > 0 {
        push(&mut edges, size)?;
    }
    edges.sort_unstable();
    edges.dedup();
    // The classes of each stretch, masks side by side.
    let mut each = zeros::<u16>(edges.len() * n)?;
    for (place, mask) in rows.enumerate() {
        let mut at = 0;
        for run in masks.runs(mask) {
            while edges[at] <= masks.begins[run] {
                at += 1;
            }
            while at < edges.len() && edges[at] <= masks.ends[run] {
                each[at * n + place] = masks.classes[run] as u16;
                at += 1;
            }
        }
    }
    let mut places: HashMap<&[u16], u32> = HashMap::new();
    let mut firsts = vec![];
    let mut columns = with_room(edges.len())?;
    let mut pixels = vec![];
    let mut last = 0;
    for (at, &end) in edges.iter().enumerate() {
        let row = &each[at * n..(at + 1) * n];
        let next = firsts.len() as u32;
        places.try_reserve(1).map_err(|_| crate::Error::OutOfMemory(size_of::<(&[u16], u32)>()))?;
        let column = *places.entry(row).or_insert(next);
        if column == next {
            push(&mut firsts, at)?;
            push(&mut pixels, 0)?;
        }
        pixels[column as usize] += end - last;
        columns.push(column);
        last = end;
    }
    let mut classes = with_room(n * firsts.len())?;
    for place in 0..n {
        classes.extend(firsts.iter().map(|at| each[at * n + place]));
    }
    Ok(Folded { ends: edges, columns, pixels, said: classes })
}
