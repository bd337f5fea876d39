//! Masks of images by several workers: runs of equal pixels, from pixels, run-lengths and polygons, folded into columns that
//! are voted on, or taken as distances from outlines.

mod columns;
mod frame;
mod polygons;
mod runs;
mod shapes;
mod staple;
#[cfg(test)]
mod tests;
mod votes;

pub use columns::{Columns, mask_columns};
pub use polygons::{Polygons, crossing_sides, polygon_runs};
pub use runs::{Found, Given, Pixel, Runs, coco_counts, coco_lengths, coco_runs, mask_pixels, mask_runs};
pub use shapes::{Likeness, Pull, densest, shape_likeness, shape_masks};
pub use staple::{Hands, Staple, StapleOptions, staple};
pub use votes::mask_vote;

use std::ops::Range;

use crate::objects::Tasks;
use crate::{Error, Result};

/// Most dimensions of an image.
const MOST_DIMS: usize = 16;

/// Masks on end, by task: mask i has the runs `starts[i]..starts[i + 1]` of pixels in row order that are of a class; others
/// are background, class 0.
#[derive(Debug, Clone, Copy)]
pub struct Drawings<'a> {
    /// Where the masks of each task begin, and where the last end.
    pub tasks: Tasks<'a>,
    /// Sizes of the images, (tasks × dimensions).
    pub shapes: &'a [i64],
    /// Dimensions of an image.
    pub dims: usize,
    /// Where the runs of each mask begin, and where the last end.
    pub starts: &'a [i64],
    /// First pixels of runs, those after the last, and their classes.
    pub begins: &'a [i64],
    /// See there.
    pub ends: &'a [i64],
    /// See there.
    pub classes: &'a [i64],
}

impl Drawings<'_> {
    fn check(&self) -> Result<()> {
        let (n_masks, n_runs) = (self.starts.len().saturating_sub(1), self.begins.len());
        self.tasks.check(n_masks)?;
        let lengths = self.ends.len() == n_runs && self.classes.len() == n_runs;
        let is_valid = self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(n_runs as i64))
            && self.starts.windows(2).all(|w| w[0] <= w[1]);
        let sized = (2..=MOST_DIMS).contains(&self.dims)
            && self.shapes.len() == self.tasks.len() * self.dims
            && (0..self.tasks.len()).all(|task| self.size(task).is_some());
        if !(lengths && is_valid && sized) {
            return Err(Error::invalid("runs of masks do not fit together"));
        }
        for task in 0..self.tasks.len() {
            let size = self.size(task).unwrap_or(0);
            for mask in self.tasks.rows(task) {
                let mut last = 0;
                for run in self.runs(mask) {
                    let (begin, end, class) = (self.begins[run], self.ends[run], self.classes[run]);
                    if begin < last || end <= begin || end > size || !(1..=i64::from(u16::MAX)).contains(&class) {
                        return Err(Error::invalid(format!("mask {mask} has runs that are not within its image")));
                    }
                    last = end;
                }
            }
        }
        Ok(())
    }

    fn shape(&self, task: usize) -> &[i64] {
        &self.shapes[task * self.dims..(task + 1) * self.dims]
    }

    /// Pixels of an image, if there is such an image.
    fn size(&self, task: usize) -> Option<i64> {
        self.shape(task).iter().try_fold(1_i64, |size, &n| if n < 0 { None } else { size.checked_mul(n) })
    }

    fn runs(&self, mask: usize) -> Range<usize> {
        self.starts[mask] as usize..self.starts[mask + 1] as usize
    }
}
