//! Outlines as polygons: which pixels they hold, and whether they cross themselves.

use super::runs::Runs;
use crate::base::control::Control;
use crate::base::memory::{collected, push, with_room};
use crate::{Error, Result};

/// Coordinates beyond are of no image.
const FARTHEST: f64 = 1e9;
/// Sides that are looked at between two looks for Ctrl-C.
const BLOCK: usize = 1 << 12;

type Point = [f64; 2];

/// Polygons on end: polygon i has the corners `starts[i]..starts[i + 1]`, x to the right and y down.
#[derive(Debug, Clone, Copy)]
pub struct Polygons<'a> {
    /// Where the corners of each polygon begin, and the last end.
    pub starts: &'a [i64],
    /// Corners, (corners × 2).
    pub corners: &'a [f64],
}

impl Polygons<'_> {
    fn corner(&self, at: usize) -> Point {
        [self.corners[2 * at], self.corners[2 * at + 1]]
    }

    fn check(&self) -> Result<()> {
        let n = self.corners.len() / 2;
        let whole = self.corners.len().is_multiple_of(2)
            && self.starts.first() == Some(&0)
            && self.starts.last() == Some(&(n as i64))
            && self.starts.windows(2).all(|w| w[1] - w[0] >= 3);
        if !whole {
            return Err(Error::invalid("polygons need three corners each"));
        }
        if !self.corners.iter().all(|x| x.abs() <= FARTHEST) {
            return Err(Error::invalid("corners of polygons must be finite and within a billion pixels"));
        }
        Ok(())
    }

    /// Sides of each polygon: numbers of their first corner and the next.
    fn sides(&self) -> impl Iterator<Item = (usize, usize)> {
        self.starts.windows(2).flat_map(|w| {
            let (first, end) = (w[0] as usize, w[1] as usize);
            (first..end).map(move |at| (at, if at + 1 < end { at + 1 } else { first }))
        })
    }
}

/// Runs of the pixels of an image whose centers lie within an odd number of polygons, so that one within another is a
/// hole.
///
/// O(c log c) time for the c times that sides cross rows of pixels, 16 bytes each.
pub fn polygon_runs(polygons: &Polygons<'_>, height: i64, width: i64, control: &Control) -> Result<Runs> {
    polygons.check()?;
    if height < 0 || width < 0 || height.checked_mul(width).is_none() {
        return Err(Error::invalid("an image must have a height and a width"));
    }
    // First pixels to the right of each side, in each row of pixels it crosses.
    let mut turns: Vec<(i64, i64)> = vec![];
    for (one, other) in polygons.sides() {
        control.check()?;
        let ([x0, y0], [x1, y1]) = (polygons.corner(one), polygons.corner(other));
        let row = |y: f64| ((y - 0.5).ceil() as i64).clamp(0, height);
        for at in row(y0.min(y1))..row(y0.max(y1)) {
            let across = x0 + (at as f64 + 0.5 - y0) * (x1 - x0) / (y1 - y0);
            push(&mut turns, (at, ((across - 0.5).ceil() as i64).clamp(0, width)))?;
        }
    }
    turns.sort_unstable();
    let mut runs = Runs::default();
    // Every polygon crosses a row an even number of times.
    for pair in turns.chunks_exact(2) {
        runs.add(pair[0].0 * width + pair[0].1, pair[1].0 * width + pair[1].1, 1)?;
    }
    Ok(runs)
}

/// Two sides of a polygon that cross, the first there are; sides that only touch do not.
///
/// O(n log n + p) time for n sides of which p pairs share a row, and O(n) memory.
pub fn crossing_sides(corners: &[f64], control: &Control) -> Result<Option<(usize, usize)>> {
    let n = corners.len() / 2;
    let polygons = Polygons { starts: &[0, n as i64], corners };
    polygons.check()?;
    let mut sides = with_room(n)?;
    sides.extend(polygons.sides().map(|(a, b)| (polygons.corner(a), polygons.corner(b))));
    let low = |side: usize| sides[side].0[1].min(sides[side].1[1]);
    let high = |side: usize| sides[side].0[1].max(sides[side].1[1]);
    let mut order: Vec<usize> = collected(0..n)?;
    order.sort_unstable_by(|a, b| low(*a).total_cmp(&low(*b)).then(a.cmp(b)));
    let mut open: Vec<usize> = vec![];
    let mut best: Option<(usize, usize)> = None;
    for (place, &side) in order.iter().enumerate() {
        if place % BLOCK == 0 || open.len() > BLOCK {
            control.check()?;
        }
        open.retain(|other| high(*other) >= low(side));
        for &other in &open {
            let pair = (side.min(other), side.max(other));
            // Neighbors share a corner.
            let apart = pair.1 > pair.0 + 1 && !(pair.0 == 0 && pair.1 == n - 1);
            if apart && best.is_none_or(|best| pair < best) && cross(sides[side], sides[other]) {
                best = Some(pair);
            }
        }
        push(&mut open, side)?;
    }
    Ok(best)
}

fn cross((a, b): (Point, Point), (c, d): (Point, Point)) -> bool {
    turn(a, b, c) * turn(a, b, d) < 0.0 && turn(c, d, a) * turn(c, d, b) < 0.0
}

/// The side of a directed line on which a point lies: -1, 0 or 1.
fn turn(a: Point, b: Point, c: Point) -> f64 {
    let area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    if area == 0.0 { 0.0 } else { area.signum() }
}
