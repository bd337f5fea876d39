//! The part of an image that anybody marked, and distances from outlines in it.

use super::shapes::Found;
use super::{Drawings, MOST_DIMS};
use crate::memory::{clear, push, with_room, zeros};
use crate::{Error, Result};

/// A square of a distance that is beyond all that is asked for.
const FAR: u32 = 1 << 30;

/// What a thread works with.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    first: Vec<u16>,
    pub(super) pixels: Vec<u16>,
    /// Squared distances to what is not of a class, and to what is.
    without: Vec<u32>,
    within: Vec<u32>,
    line: Vec<u32>,
}

/// The part of an image that anybody marked, with a pixel of background around it.
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
    radius: f64,
}

impl<'a> Frame<'a> {
    /// Nothing where all masks are empty.
    pub(super) fn new(masks: &'a Drawings<'a>, task: usize, scratch: &mut Scratch) -> Result<Option<Self>> {
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
        let mut frame = Self { masks, task, low, size, disputed: vec![], marked: 0, classes, radius: 1.0 };
        frame.look(scratch)?;
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
            let area = scratch.pixels.iter().filter(|c| **c > 0).count();
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
            total += pixels.iter().zip(&pixels[stride..]).filter(|(a, b)| (**a > 0) != (**b > 0)).count();
            stride *= self.size[axis];
        }
        total
    }

    /// Distances of the disputed pixels from a mask's outline of a class, positive within, into `out`.
    pub(super) fn distances(
        &self,
        mask: usize,
        class: u16,
        most: f64,
        scratch: &mut Scratch,
        out: &mut [f32],
    ) -> Result<()> {
        let mut pixels = std::mem::take(&mut scratch.pixels);
        self.fill(mask, &mut pixels)?;
        let reach = (most * self.radius + 0.5).ceil().min(30_000.0) as u32;
        self.along_first(&pixels, class, reach, scratch)?;
        for axis in 1..self.masks.dims - 1 {
            self.along(axis, reach, scratch)?;
        }
        let (width, reach) = (self.size[self.masks.dims - 1], reach as usize);
        let ends = (reach + 1) * (reach + 1);
        // Of every square up to the reach; those beyond are as far as any.
        let far_of = |square: usize| (((square as f64).sqrt() - 0.5) / self.radius).min(most) as f32;
        let mut known = with_room(ends + 1)?;
        known.extend((0..ends).map(far_of));
        known.push(most as f32);
        let across: Vec<u32> = (0..=2 * reach).map(|i| (i.abs_diff(reach) * i.abs_diff(reach)) as u32).collect();
        for (out, &at) in out.iter_mut().zip(&self.disputed) {
            let at = at as usize;
            let inside = pixels[at] == class;
            let field = if inside { &scratch.without } else { &scratch.within };
            let x = at % width;
            let (left, right) = (x.min(reach), (width - 1 - x).min(reach));
            let along = field[at - left..=at + right].iter().zip(&across[reach - left..]);
            let square = along.fold(FAR, |least, (far, across)| least.min(far + across));
            let far = known[(square as usize).min(ends)];
            *out = if inside { far } else { -far };
        }
        scratch.pixels = pixels;
        Ok(())
    }

    /// Squared distances along the first axis, by a sweep forth and one back.
    fn along_first(&self, pixels: &[u16], class: u16, reach: u32, scratch: &mut Scratch) -> Result<()> {
        let inner = self.len() / self.size[0];
        for (field, wanted) in [(&mut scratch.without, false), (&mut scratch.within, true)] {
            clear(field, pixels.len())?;
            let far = reach + 1;
            let there = |pixel: u16| (pixel == class) == wanted;
            field[..inner].iter_mut().zip(pixels).for_each(|(d, p)| *d = if there(*p) { 0 } else { far });
            for at in (inner..pixels.len()).step_by(inner) {
                let (before, here) = field.split_at_mut(at);
                let each = here[..inner].iter_mut().zip(&before[at - inner..]).zip(&pixels[at..]);
                each.for_each(|((d, before), p)| *d = if there(*p) { 0 } else { (before + 1).min(far) });
            }
            for at in (inner..pixels.len()).step_by(inner).rev() {
                let (before, here) = field.split_at_mut(at);
                before[at - inner..].iter_mut().zip(here).for_each(|(d, after)| *d = (*d).min(*after + 1));
            }
            field.iter_mut().for_each(|d| *d = if *d > reach { FAR } else { *d * *d });
        }
        Ok(())
    }

    /// Least sums of a distance along another axis and those found so far.
    fn along(&self, axis: usize, reach: u32, scratch: &mut Scratch) -> Result<()> {
        let (n, inner) = (self.size[axis], self.size[axis + 1..].iter().product::<usize>());
        let reach = reach as usize;
        let Scratch { without, within, line, .. } = scratch;
        for field in [without, within] {
            for block in field.chunks_exact_mut(n * inner) {
                for x in 0..inner {
                    clear(line, n)?;
                    line.iter_mut().enumerate().for_each(|(i, value)| *value = block[i * inner + x]);
                    for i in 0..n {
                        let near = i.saturating_sub(reach)..(i + reach + 1).min(n);
                        let least = near.map(|j| line[j].saturating_add((i.abs_diff(j) * i.abs_diff(j)) as u32)).min();
                        block[i * inner + x] = least.unwrap_or(FAR).min(FAR);
                    }
                }
            }
        }
        Ok(())
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
    pub(super) fn write_runs(&self, pixels: &[u16], found: &mut Found) -> Result<()> {
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
                if class > 0 {
                    let begin = start + from as i64 + self.low[dims - 1];
                    let end = start + x as i64 + self.low[dims - 1];
                    let again = found.ends.last() == Some(&begin) && found.classes.last() == Some(&i64::from(class));
                    if again {
                        found.ends.pop();
                    } else {
                        push(&mut found.begins, begin)?;
                        push(&mut found.classes, i64::from(class))?;
                    }
                    push(&mut found.ends, end)?;
                }
            }
        }
        Ok(())
    }
}
