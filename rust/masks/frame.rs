//! The part of an image that any worker marked, and distances from outlines in it.

use std::ops::Add;

use super::runs::Runs;
use super::{Drawings, MOST_DIMS};
use crate::base::memory::{clear, copied, push, with_room, zeros};
use crate::{Error, Result};

/// A square of a distance that is beyond all that is asked for.
const FAR: u32 = 1 << 30;

/// Up to this reach, two squares of distances and their sum are small numbers.
const MOST_SMALL: u32 = 126;
/// Pixels that are counted at once.
const LANES: usize = 1 << 12;

/// What a thread works with.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    first: Vec<u16>,
    pub(super) pixels: Vec<u16>,
    /// How far it is along the first axis to what is not of a class, from pixels that are; negative from others to what
    /// is.
    near: Vec<i16>,
    /// Squares of distances along all axes but the last, where these are more than one.
    squares: Vec<u32>,
    other: Vec<u32>,
    line: Vec<u32>,
    /// Squares along a stretch of a line, before and after the last axis.
    small: (Vec<i16>, Vec<i16>),
    large: (Vec<u32>, Vec<u32>),
}

/// The part of an image that any worker marked, with a pixel of background around it.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    masks: &'a Drawings<'a>,
    task: usize,
    /// First coordinates, which may be -1, and sizes.
    low: [i64; MOST_DIMS],
    size: [usize; MOST_DIMS],
    /// Disputed pixels, as places in the frame.
    pub(super) disputed: Vec<u32>,
    pub(super) marked: i64,
    /// Classes that occur, background aside.
    pub(super) classes: Vec<u16>,
    /// How thick objects are: the radius of a ball with such a surface.
    pub(super) radius: f64,
    /// Distances end at this many radii, which are at most this many pixels.
    most: f64,
    reach: u32,
    /// Distances of the first squares.
    known: Vec<f32>,
}

impl<'a> Frame<'a> {
    /// Nothing where all masks are empty.
    pub(super) fn new(masks: &'a Drawings<'a>, task: usize, most: f64, scratch: &mut Scratch) -> Result<Option<Self>> {
        let dims = masks.dims;
        let (mut low, mut high) = ([i64::MAX; MOST_DIMS], [i64::MIN; MOST_DIMS]);
        let mut classes = vec![];
        for mask in masks.tasks.rows(task) {
            for run in masks.runs(mask) {
                let class = masks.classes[run] as u16;
                if !classes.contains(&class) {
                    push(&mut classes, class)?;
                }
            }
            pieces(masks, task, mask, |lead, from, to, _| {
                for (axis, at) in lead.iter().enumerate() {
                    (low[axis], high[axis]) = (low[axis].min(*at), high[axis].max(*at));
                }
                (low[dims - 1], high[dims - 1]) = (low[dims - 1].min(from), high[dims - 1].max(to - 1));
            });
        }
        if classes.is_empty() {
            return Ok(None);
        }
        classes.sort_unstable();
        let mut size = [1; MOST_DIMS];
        for axis in 0..dims {
            low[axis] -= 1;
            size[axis] = (high[axis] - low[axis] + 2) as usize;
        }
        let len = size.iter().try_fold(1_usize, |len, n| len.checked_mul(*n)).filter(|len| *len < u32::MAX as usize);
        if len.is_none() {
            return Err(Error::invalid("an image has masks of more than four billion pixels; cut it into parts"));
        }
        let mut frame = Self {
            masks,
            task,
            low,
            size,
            disputed: vec![],
            marked: 0,
            classes,
            radius: 1.0,
            most,
            reach: 1,
            known: vec![],
        };
        frame.look(scratch)?;
        frame.reach = (most * frame.radius + 0.5).ceil().clamp(1.0, 30_000.0) as u32;
        if frame.reach <= MOST_SMALL {
            let mut squares = with_room(frame.farthest() as usize + 1)?;
            squares.extend((0..=frame.farthest()).map(|square| frame.far(square)));
            frame.known = squares;
        }
        Ok(Some(frame))
    }

    fn len(&self) -> usize {
        self.size.iter().product()
    }

    /// Writes the classes of a mask into `pixels`.
    pub(super) fn fill(&self, mask: usize, pixels: &mut Vec<u16>) -> Result<()> {
        clear(pixels, self.len())?;
        let dims = self.masks.dims;
        pieces(self.masks, self.task, mask, |lead, from, to, class| {
            let row = lead
                .iter()
                .enumerate()
                .fold(0, |row, (axis, at)| row * self.size[axis] + (at - self.low[axis]) as usize);
            let start = row * self.size[dims - 1];
            let (from, to) = ((from - self.low[dims - 1]) as usize, (to - self.low[dims - 1]) as usize);
            pixels[start + from..start + to].fill(class);
        });
        Ok(())
    }

    /// Finds disputed pixels, and how thick objects are.
    fn look(&mut self, scratch: &mut Scratch) -> Result<()> {
        let rows = self.masks.tasks.rows(self.task);
        let mut differs = zeros::<u8>(self.len())?;
        let mut radii = with_room(rows.len())?;
        let ball = ball_over_surface(self.masks.dims);
        self.fill(rows.start, &mut scratch.first)?;
        for mask in rows {
            self.fill(mask, &mut scratch.pixels)?;
            let each = differs.iter_mut().zip(&scratch.first).zip(&scratch.pixels);
            each.for_each(|((d, a), b)| *d |= u8::from(a != b) | u8::from(*b > 0) << 1);
            let area: i64 = self.masks.runs(mask).map(|run| self.masks.ends[run] - self.masks.begins[run]).sum();
            if area > 0 {
                radii.push(ball * area as f64 / self.faces(&scratch.pixels) as f64);
            }
        }
        for (at, d) in differs.iter().enumerate() {
            if d & 1 > 0 {
                push(&mut self.disputed, at as u32)?;
            }
            self.marked += i64::from(*d > 0);
        }
        radii.sort_unstable_by(f64::total_cmp);
        let n = radii.len();
        self.radius = f64::midpoint(radii[(n - 1) / 2], radii[n / 2]);
        Ok(())
    }

    /// Sides of pixels on one of which is background.
    fn faces(&self, pixels: &[u16]) -> usize {
        let mut stride = 1;
        let mut total = 0;
        for axis in (0..self.masks.dims).rev() {
            // The frame begins and ends with background, so that what follows the end of a line is like it.
            let (ones, others) = (pixels[..pixels.len() - stride].chunks(LANES), pixels[stride..].chunks(LANES));
            for (ones, others) in ones.zip(others) {
                // In numbers as small as pixels, so that many are added at once.
                let each = ones.iter().zip(others).map(|(a, b)| u16::from((*a > 0) != (*b > 0)));
                total += usize::from(each.sum::<u16>());
            }
            stride *= self.size[axis];
        }
        total
    }

    /// The disputed pixels, or those of some lines where there are many more than that.
    pub(super) fn sample(&self, many: usize) -> Result<Vec<u32>> {
        let (stride, width) = (self.disputed.len() / many, self.size[self.masks.dims - 1]);
        if stride > 1 {
            let mut pixels = with_room(self.disputed.len())?;
            pixels.extend(self.disputed.iter().filter(|at| (**at as usize / width).is_multiple_of(stride)));
            if pixels.len() >= many / 2 {
                return Ok(pixels);
            }
        }
        copied(&self.disputed)
    }

    /// Distances of pixels, in their order, from a mask's outline of a class, positive within, into `out`.
    pub(super) fn distances(
        &self,
        mask: usize,
        class: u16,
        scratch: &mut Scratch,
        pixels: &[u32],
        out: &mut [f32],
    ) -> Result<()> {
        self.fill(mask, &mut scratch.pixels)?;
        self.along_first(class, scratch)?;
        if self.masks.dims > 2 {
            self.along_others(scratch)?;
        }
        let width = self.size[self.masks.dims - 1];
        let mut from = 0;
        while from < pixels.len() {
            let start = pixels[from] as usize / width * width;
            let to = from + pixels[from..].partition_point(|at| (*at as usize) < start + width);
            self.across(start, &pixels[from..to], scratch, &mut out[from..to])?;
            from = to;
        }
        Ok(())
    }

    /// Distances of some pixels of a line, from what is known along all other axes.
    fn across(&self, start: usize, pixels: &[u32], scratch: &mut Scratch, out: &mut [f32]) -> Result<()> {
        let (width, reach) = (self.size[self.masks.dims - 1], self.reach as usize);
        let (first, last) = (pixels[0] as usize - start, pixels[pixels.len() - 1] as usize - start);
        let (mut x, end) = (first.saturating_sub(reach), (last + reach + 1).min(width));
        let mut place = 0;
        while x < end {
            let inside = scratch.near[start + x] > 0;
            let from = x;
            x += scratch.near[start + x..start + end].iter().take_while(|near| (**near > 0) == inside).count();
            let here = place + pixels[place..].partition_point(|at| (*at as usize) < start + x);
            if here == place {
                continue;
            }
            // What is cut off is out of reach; a neighbor of the other side is 0 away.
            let (before, after) = (usize::from(from > 0), usize::from(x < width));
            let (offset, len, filled) = (start + from - before, before + x - from + after, before..before + x - from);
            let (places, out) = (&pixels[place..here], &mut out[place..here]);
            let Scratch { near, squares, small, large, .. } = &mut *scratch;
            if squares.is_empty() && self.reach <= MOST_SMALL {
                clear(&mut small.0, len)?;
                clear(&mut small.1, len)?;
                let near = &near[start + from..start + x];
                small.0[filled].iter_mut().zip(near).for_each(|(square, near)| *square = near * near);
                scan(&small.0, &mut small.1, reach, |far| (far * far) as i16);
                self.read(places, offset, inside, &small.1, out);
            } else {
                clear(&mut large.0, len)?;
                clear(&mut large.1, len)?;
                for (at, square) in large.0[filled].iter_mut().enumerate() {
                    let beside = u32::from(near[start + from + at].unsigned_abs()).pow(2);
                    *square = squares.get(start + from + at).map_or(beside, |near| (*near).min(self.farthest()));
                }
                scan(&large.0, &mut large.1, reach, |far| (far * far) as u32);
                self.read(places, offset, inside, &large.1, out);
            }
            place = here;
        }
        Ok(())
    }

    /// The square of a distance that is out of reach.
    fn farthest(&self) -> u32 {
        (self.reach + 1).pow(2)
    }

    fn read<T: Copy + TryInto<u32>>(&self, pixels: &[u32], offset: usize, inside: bool, least: &[T], out: &mut [f32]) {
        for (out, at) in out.iter_mut().zip(pixels) {
            let square = least[*at as usize - offset].try_into().unwrap_or(u32::MAX);
            let far = self.known.get(square as usize).copied().unwrap_or_else(|| self.far(square));
            *out = if inside { far } else { -far };
        }
    }

    /// The distance of a square, relative to how thick objects are.
    fn far(&self, square: u32) -> f32 {
        ((f64::from(square).sqrt() - 0.5) / self.radius).min(self.most) as f32
    }

    /// Signed distances along the first axis, by a sweep forth and one back; none beyond the reach by more than one.
    fn along_first(&self, class: u16, scratch: &mut Scratch) -> Result<()> {
        let inner = self.len() / self.size[0];
        let Scratch { pixels, near, .. } = scratch;
        clear(near, pixels.len())?;
        let far = self.reach as i16 + 1;
        let sign = |pixel: u16| if pixel == class { 1_i16 } else { -1 };
        near[..inner].iter_mut().zip(pixels.iter()).for_each(|(d, p)| *d = sign(*p) * far);
        for at in (inner..pixels.len()).step_by(inner) {
            let (before, here) = near.split_at_mut(at);
            for ((d, before), p) in here[..inner].iter_mut().zip(&before[at - inner..]).zip(&pixels[at..]) {
                let sign = sign(*p);
                // What was of the other side is one away.
                *d = sign * ((before * sign).max(0) + 1).min(far);
            }
        }
        for at in (inner..pixels.len()).step_by(inner).rev() {
            let (before, here) = near.split_at_mut(at);
            for (d, after) in before[at - inner..].iter_mut().zip(&here[..inner]) {
                let sign = d.signum();
                *d = sign * (*d * sign).min((after * sign).max(0) + 1);
            }
        }
        Ok(())
    }

    /// Least sums of distances along all axes but the last, to the other side.
    fn along_others(&self, scratch: &mut Scratch) -> Result<()> {
        let reach = self.reach as usize;
        let Scratch { near, squares, other, line, .. } = scratch;
        // To what is not of the class, and to what is; each is 0 on the other side.
        for (field, sign) in [(&mut *squares, 1), (&mut *other, -1)] {
            clear(field, near.len())?;
            for (square, near) in field.iter_mut().zip(near.iter()) {
                let far = (i32::from(*near) * sign).max(0) as u32;
                *square = if far > self.reach { FAR } else { far * far };
            }
            for axis in 1..self.masks.dims - 1 {
                let (n, inner) = (self.size[axis], self.size[axis + 1..].iter().product::<usize>());
                for block in field.chunks_exact_mut(n * inner) {
                    for x in 0..inner {
                        clear(line, n)?;
                        line.iter_mut().enumerate().for_each(|(i, value)| *value = block[i * inner + x]);
                        for i in 0..n {
                            let close = i.saturating_sub(reach)..(i + reach + 1).min(n);
                            let sum = |j: usize| line[j].saturating_add((i.abs_diff(j) * i.abs_diff(j)) as u32);
                            block[i * inner + x] = close.map(sum).min().unwrap_or(FAR).min(FAR);
                        }
                    }
                }
            }
        }
        squares.iter_mut().zip(other).for_each(|(square, other)| *square = (*square).max(*other));
        Ok(())
    }
}

/// Least sums, along a stretch of a line, of a square that is known there and that of the distance to there.
///
/// Ends of the stretch are of the other side, where the square is 0. Small numbers are compared many at once.
fn scan<T: Copy + Ord + Add<Output = T>>(known: &[T], least: &mut [T], reach: usize, square: impl Fn(usize) -> T) {
    let len = known.len();
    least.copy_from_slice(known);
    for far in 1..=reach.min(len - 1) {
        let more = square(far);
        least[far..].iter_mut().zip(known).for_each(|(least, known)| *least = (*least).min(*known + more));
        least[..len - far]
            .iter_mut()
            .zip(&known[far..])
            .for_each(|(least, known)| *least = (*least).min(*known + more));
    }
}

/// The radius of a ball for each unit of volume over the sides of its pixels.
fn ball_over_surface(dims: usize) -> f64 {
    // Volumes of balls: 1, 2, π, ….
    let mut volumes = [1.0, 2.0];
    for d in 2..=dims {
        volumes = [volumes[1], volumes[0] * std::f64::consts::TAU / d as f64];
    }
    2.0 * dims as f64 * volumes[0] / volumes[1]
}

/// Calls `each` with the parts of a mask's runs in one line of pixels: leading coordinates, from, to and class.
fn pieces(masks: &Drawings<'_>, task: usize, mask: usize, mut each: impl FnMut(&[i64], i64, i64, u16)) {
    let shape = masks.shape(task);
    let (width, lead) = (shape[masks.dims - 1], masks.dims - 1);
    let mut at = [0; MOST_DIMS];
    for run in masks.runs(mask) {
        let (mut begin, end) = (masks.begins[run], masks.ends[run]);
        while begin < end {
            let (mut row, from) = (begin / width, begin % width);
            let to = (from + end - begin).min(width);
            for axis in (0..lead).rev() {
                (at[axis], row) = (row % shape[axis], row / shape[axis]);
            }
            each(&at[..lead], from, to, masks.classes[run] as u16);
            begin += to - from;
        }
    }
}

impl Frame<'_> {
    /// Adds the runs of pixels in the frame, as those of the image.
    pub(super) fn write_runs(&self, pixels: &[u16], found: &mut Runs) -> Result<()> {
        let dims = self.masks.dims;
        let shape = self.masks.shape(self.task);
        let width = self.size[dims - 1];
        for (row, line) in pixels.chunks_exact(width).enumerate() {
            let mut rest = row;
            let mut place = [0; MOST_DIMS];
            for axis in (0..dims - 1).rev() {
                (place[axis], rest) = ((rest % self.size[axis]) as i64 + self.low[axis], rest / self.size[axis]);
            }
            // Lines beyond the image are background.
            let start = (0..dims - 1).fold(0, |at, axis| at * shape[axis] + place[axis]) * shape[dims - 1];
            let mut x = 0;
            while x < width {
                let class = line[x];
                let from = x;
                x += line[x..].iter().take_while(|c| **c == class).count();
                let place = start + self.low[dims - 1];
                found.add(place + from as i64, place + x as i64, class)?;
            }
        }
        Ok(())
    }
}
