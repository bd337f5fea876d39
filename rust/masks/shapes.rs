//! Outlines as distances: how far within each worker's outline a pixel lies, or how far outside of it.
//!
//! Distances are Euclidean, from the border between pixels, relative to how thick the image's objects are, and end at a
//! share of that. They are wanted on disputed pixels only, those on which masks differ; beyond an image is background.

use rayon::prelude::*;

use super::frame::{Frame, Scratch};
use super::runs::Runs;
use super::{Drawings, Found};
use crate::base::control::Control;
use crate::base::memory::{clear, copied, par_tried, with_room, zeros};
use crate::base::special::normal_below;
use crate::{Error, Result};

/// Number of disputed pixels that locate the middle mask.
const SAMPLE: usize = 512;
/// Masks with a smaller share change no mean that counts.
const LEAST_SHARE: f64 = 1e-10;
/// From twice as many disputed pixels on, those of some lines of the image show how masks differ.
const MANY: usize = 1 << 11;

/// Statistics of the masks over the disputed pixels of images, concatenated by task.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeness {
    /// Mean distance of each mask, and mean product of those of two, (masks × masks) an image.
    pub means: Vec<f64>,
    /// See there.
    pub products: Vec<f64>,
    /// Mean square of each mask's distance from the middle one, pixel by pixel, on some of them.
    pub spread: Vec<f64>,
    /// Mean of the middle distance, for each image.
    pub middle: Vec<f64>,
    /// How thick the objects of each image are, in pixels: the radius of a ball with such a surface; 0 where there are
    /// none.
    pub thickness: Vec<f64>,
    /// Disputed pixels of each image, and those that any worker marked.
    pub disputed: Vec<i64>,
    /// See there.
    pub marked: Vec<i64>,
}

/// How masks are put together.
#[derive(Debug, Clone, Copy)]
pub struct Pull<'a> {
    /// The share that each mask's distances have, which sum to one an image.
    pub share: &'a [f64],
    /// By how much each mask's distances are too great.
    pub bias: &'a [f64],
    /// Deviation of the distances that come out, for each image.
    pub doubt: &'a [f64],
}

fn check_most(most: f64) -> Result<()> {
    if most > 0.0 && most <= 100.0 {
        return Ok(());
    }
    Err(Error::invalid("distances must end at a positive share of the thickness of objects"))
}

/// What the masks of each image indicate about one another on its disputed pixels; distances end at `most` times the
/// radius.
///
/// Time O(masks · (box + sample · (reach + masks))) an image, where the box is that of all marked pixels, the reach
/// `most` radii in pixels, and the sample the disputed pixels, or some 2,000 of them; memory 7 bytes per pixel of the
/// box (15 with three dimensions or more) and 4 for each mask and pixel of the sample, for each thread.
pub fn shape_likeness(masks: &Drawings<'_>, most: f64, control: &Control) -> Result<Likeness> {
    masks.check()?;
    check_most(most)?;
    let each = (0..masks.tasks.len()).into_par_iter();
    let results =
        par_tried(each.map_init(Scratch::default, |scratch, task| one_likeness(masks, task, most, scratch, control)))?;
    let n_masks = masks.starts.len() - 1;
    let products = results.iter().map(|f| f.products.len()).sum();
    let mut all = Likeness {
        means: with_room(n_masks)?,
        products: with_room(products)?,
        spread: with_room(n_masks)?,
        middle: with_room(results.len())?,
        thickness: with_room(results.len())?,
        disputed: with_room(results.len())?,
        marked: with_room(results.len())?,
    };
    for image in results {
        all.means.extend_from_slice(&image.means);
        all.products.extend_from_slice(&image.products);
        all.spread.extend_from_slice(&image.spread);
        all.middle.extend_from_slice(&image.middle);
        all.thickness.extend_from_slice(&image.thickness);
        all.disputed.extend_from_slice(&image.disputed);
        all.marked.extend_from_slice(&image.marked);
    }
    Ok(all)
}

fn one_likeness(
    masks: &Drawings<'_>,
    task: usize,
    most: f64,
    scratch: &mut Scratch,
    control: &Control,
) -> Result<Likeness> {
    control.check()?;
    let rows = masks.tasks.rows(task);
    let n = rows.len();
    let mut likeness = Likeness {
        means: zeros(n)?,
        products: zeros(n * n)?,
        spread: zeros(n)?,
        middle: vec![0.0],
        thickness: vec![0.0],
        disputed: vec![0],
        marked: vec![0],
    };
    let Some(frame) = Frame::new(masks, task, most, scratch)? else { return Ok(likeness) };
    (likeness.disputed[0], likeness.marked[0]) = (frame.disputed.len() as i64, frame.marked);
    likeness.thickness[0] = frame.radius;
    if frame.disputed.is_empty() {
        return Ok(likeness);
    }
    let sample = frame.sample(MANY)?;
    let len = sample.len();
    let mut far = zeros::<f32>(n * len)?;
    let mut sorted = vec![0.0; n];
    let stride = (len / SAMPLE).max(1);
    for &class in &frame.classes {
        for (out, mask) in far.chunks_exact_mut(len).zip(rows.clone()) {
            control.check()?;
            frame.distances(mask, class, scratch, &sample, out)?;
        }
        for a in 0..n {
            let one = &far[a * len..(a + 1) * len];
            likeness.means[a] += one.iter().map(|x| f64::from(*x)).sum::<f64>();
            for b in 0..=a {
                let sum = dot(one, &far[b * len..(b + 1) * len]);
                likeness.products[a * n + b] += sum;
            }
        }
        for at in (0..len).step_by(stride) {
            sorted.iter_mut().enumerate().for_each(|(a, x)| *x = far[a * len + at]);
            sorted.sort_unstable_by(f32::total_cmp);
            let middle = f32::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
            likeness.middle[0] += f64::from(middle);
            likeness
                .spread
                .iter_mut()
                .enumerate()
                .for_each(|(a, s)| *s += f64::from(far[a * len + at] - middle).powi(2));
        }
    }
    let (total, sampled) = ((len * frame.classes.len()) as f64, (len.div_ceil(stride) * frame.classes.len()) as f64);
    let Likeness { means, products, spread, middle, .. } = &mut likeness;
    for a in 0..n {
        (0..a).for_each(|b| products[b * n + a] = products[a * n + b]);
    }
    [means, products].into_iter().flatten().for_each(|x| *x /= total);
    [spread, middle].into_iter().flatten().for_each(|x| *x /= sampled);
    Ok(likeness)
}

/// Sum of products, in eight lanes.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0.0_f64; 8];
    let (ones, others) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = ones.remainder().iter().zip(others.remainder()).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    for (x, y) in ones.zip(others) {
        for (lane, (x, y)) in lanes.iter_mut().zip(x.iter().zip(y)) {
            *lane += f64::from(*x) * f64::from(*y);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Puts the masks of each image together: a disputed pixel is of the class whose outline it is farthest within, by the
/// mean of all masks' distances, less their bias; of equal ones the lowest. Others are as all masks have them.
///
/// Time O(masks · (box + disputed · reach)) an image; memory as for [`shape_likeness`], and 22 bytes a disputed pixel.
pub fn shape_masks(masks: &Drawings<'_>, most: f64, pull: &Pull<'_>, control: &Control) -> Result<Found> {
    masks.check()?;
    check_most(most)?;
    let (n, m) = (masks.tasks.len(), masks.starts.len() - 1);
    let finite = [pull.share, pull.bias, pull.doubt].iter().all(|values| values.iter().all(|x| x.is_finite()));
    if pull.share.len() != m || pull.bias.len() != m || pull.doubt.len() != n || !finite {
        return Err(Error::invalid("there must be a finite share and bias for each mask, and a doubt for each image"));
    }
    let each = (0..n).into_par_iter();
    let images = par_tried(
        each.map_init(Scratch::default, |scratch, task| one_mask(masks, task, most, pull, scratch, control)),
    )?;
    Found::joined(images.iter())
}

fn one_mask(
    masks: &Drawings<'_>,
    task: usize,
    most: f64,
    pull: &Pull<'_>,
    scratch: &mut Scratch,
    control: &Control,
) -> Result<Found> {
    control.check()?;
    let (mut runs, mut confidence) = (Runs::default(), 1.0);
    let Some(frame) = Frame::new(masks, task, most, scratch)? else { return Found::one(runs, confidence) };
    let (rows, len) = (masks.tasks.rows(task), frame.disputed.len());
    let mut best: Vec<f64> = zeros(len)?;
    let mut second: Vec<f64> = zeros(len)?;
    let mut classes = zeros::<u16>(len)?;
    let (mut far, mut mean) = (zeros::<f32>(len)?, zeros::<f64>(len)?);
    let mut put = |class: u16, scratch: &mut Scratch, mean: &mut Vec<f64>| -> Result<()> {
        clear(mean, len)?;
        for mask in rows.clone().filter(|mask| pull.share[*mask].abs() > LEAST_SHARE) {
            control.check()?;
            frame.distances(mask, class, scratch, &frame.disputed, &mut far)?;
            // Who marks too much leaves too little background.
            let bias = if class == 0 { -pull.bias[mask] } else { pull.bias[mask] };
            mean.iter_mut().zip(&far).for_each(|(t, d)| *t += pull.share[mask] * (f64::from(*d) - bias));
        }
        Ok(())
    };
    if len > 0 {
        put(frame.classes[0], scratch, &mut mean)?;
        let alone = frame.classes.len() == 1;
        if alone {
            // Background is as far outside as the only class is within.
            for (at, t) in mean.iter().enumerate() {
                (best[at], second[at]) = (t.abs(), -t.abs());
                classes[at] = if *t > 1e-9 { frame.classes[0] } else { 0 };
            }
        } else {
            best.copy_from_slice(&mean);
            classes.fill(frame.classes[0]);
            second.fill(f64::NEG_INFINITY);
            for &class in frame.classes[1..].iter().chain(&[0]) {
                put(class, scratch, &mut mean)?;
                for (at, t) in mean.iter().enumerate() {
                    // Background comes last here and is before all others.
                    let ahead = if class == 0 { *t >= best[at] - 1e-9 } else { *t > best[at] + 1e-9 };
                    if ahead {
                        (second[at], best[at], classes[at]) = (best[at], *t, class);
                    } else {
                        second[at] = second[at].max(*t);
                    }
                }
            }
        }
        let doubt = pull.doubt[task].max(f64::MIN_POSITIVE);
        let sure = |at: usize| normal_below(((best[at] - second[at]) / 2.0).max(0.0) / doubt);
        confidence = ((0..len).map(sure).sum::<f64>() / len as f64).min(1.0);
    }
    frame.fill(rows.start, &mut scratch.pixels)?;
    for (at, class) in frame.disputed.iter().zip(&classes) {
        scratch.pixels[*at as usize] = *class;
    }
    frame.write_runs(&scratch.pixels, &mut runs)?;
    Found::one(runs, confidence)
}

/// Values at which densities are compared.
const TRIED: usize = 64;
/// Steps to the summit, at most.
const STEPS: usize = 50;

/// Where values of such widths lie most densely: a mode of Cauchy densities, by steps of the mean shift from the best
/// of 64 of the values. O(64 · values).
pub fn densest(values: &[f64], weights: &[f64], widths: &[f64]) -> Result<f64> {
    let fits = weights.len() == values.len() && widths.len() == values.len() && !values.is_empty();
    let good = values.iter().all(|x| x.is_finite()) && weights.iter().chain(widths).all(|x| *x > 0.0 && x.is_finite());
    if !(fits && good) {
        return Err(Error::invalid("each of the values, which must be finite, needs a positive weight and width"));
    }
    let each = || values.iter().zip(weights).zip(widths).map(|((x, weight), width)| (*x, *weight, *width));
    let mut sorted = copied(values)?;
    sorted.sort_unstable_by(f64::total_cmp);
    let density = |at: f64| each().map(|(x, weight, width)| weight / width / (1.0 + ((x - at) / width).powi(2))).sum();
    let (mut best, mut most) = (sorted[0], f64::NEG_INFINITY);
    let last = sorted.len() - 1;
    for step in 0..TRIED {
        let candidate = sorted[(last as f64 * step as f64 / (TRIED - 1) as f64).round_ties_even() as usize];
        let height: f64 = density(candidate);
        if height > most {
            (best, most) = (candidate, height);
        }
    }
    for _ in 0..STEPS {
        let (mut sum, mut total) = (0.0, 0.0);
        for (x, weight, width) in each() {
            let near = weight / (width * width) / (1.0 + ((x - best) / width).powi(2)).powi(2);
            sum += near * x;
            total += near;
        }
        let before = best;
        best = sum / total;
        if (best - before).abs() < 1e-7 {
            break;
        }
    }
    Ok(best)
}
