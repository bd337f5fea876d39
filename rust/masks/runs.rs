//! Masks in few numbers: runs of equal pixels, from pixels, from run-lengths of COCO, and back.

use super::MOST_DIMS;
use crate::base::memory::{collected, filled, push, reserve, with_room, zeros};
use crate::{Error, Result};

/// Pixels that are looked at together.
const CHUNK: usize = 64;

/// Masks on end: runs of pixels in row order that are of a class other than background.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Runs {
    /// The first pixel of each run.
    pub begins: Vec<i64>,
    /// See there.
    pub ends: Vec<i64>,
    /// See there.
    pub classes: Vec<i64>,
}

impl Runs {
    /// Adds a run, made one with the last where it goes on; background is left out.
    pub(super) fn add(&mut self, begin: i64, end: i64, class: u16) -> Result<()> {
        if class == 0 || begin == end {
            return Ok(());
        }
        if self.ends.last() == Some(&begin) && self.classes.last() == Some(&i64::from(class)) {
            self.ends.pop();
        } else {
            push(&mut self.begins, begin)?;
            push(&mut self.classes, i64::from(class))?;
        }
        push(&mut self.ends, end)
    }

    pub(super) fn reserve(&mut self, more: usize) -> Result<()> {
        reserve(&mut self.begins, more)?;
        reserve(&mut self.ends, more)?;
        reserve(&mut self.classes, more)
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.begins.extend_from_slice(&other.begins);
        self.ends.extend_from_slice(&other.ends);
        self.classes.extend_from_slice(&other.classes);
    }
}

/// Masks that were put together, of all images, and the mean probability of their disputed pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Where the runs of each image begin, and the last end.
    pub starts: Vec<i64>,
    /// Runs of all images.
    pub runs: Runs,
    /// Mean probability of the choice, for each image; 1 where nothing is disputed.
    pub confidence: Vec<f64>,
}

impl Found {
    /// Runs of a single image.
    pub(super) fn one(runs: Runs, confidence: f64) -> Result<Self> {
        let starts = collected([0, runs.begins.len() as i64].into_iter())?;
        Ok(Self { starts, runs, confidence: collected([confidence].into_iter())? })
    }

    /// Those of several images, one after the other.
    pub(super) fn joined<'a>(images: impl ExactSizeIterator<Item = &'a Self> + Clone) -> Result<Self> {
        let n = images.len();
        let mut all = Self { starts: with_room(n + 1)?, runs: Runs::default(), confidence: with_room(n)? };
        all.runs.reserve(images.clone().map(|image| image.runs.begins.len()).sum())?;
        all.starts.push(0);
        for image in images {
            all.runs.extend(&image.runs);
            all.confidence.extend_from_slice(&image.confidence);
            all.starts.push(all.runs.begins.len() as i64);
        }
        Ok(all)
    }
}

/// Runs of one mask, as they are given.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The first pixel of each run.
    pub begins: &'a [i64],
    /// Where each run ends, exclusive.
    pub ends: &'a [i64],
    /// The class of each run.
    pub classes: &'a [i64],
}

/// What a pixel may be.
pub trait Pixel: Copy + PartialEq + Into<u16> + TryFrom<i64> + Default {}
impl Pixel for u8 {}
impl Pixel for u16 {}

/// Runs of a mask given pixel by pixel. O(pixels) time, and memory for the runs.
pub fn mask_runs<T: Pixel>(pixels: &[T]) -> Result<Runs> {
    let mut runs = Runs::default();
    let Some(&first) = pixels.first() else { return Ok(runs) };
    let (mut last, mut begin) = (first, 0);
    for (place, chunk) in pixels.chunks(CHUNK).enumerate() {
        // Most chunks are of one class; counted, and not looked for, so that many pixels are compared at once.
        if chunk.iter().map(|pixel| u8::from(*pixel != last)).sum::<u8>() == 0 {
            continue;
        }
        for (at, &pixel) in chunk.iter().enumerate() {
            if pixel != last {
                let end = (place * CHUNK + at) as i64;
                runs.add(begin, end, last.into())?;
                (last, begin) = (pixel, end);
            }
        }
    }
    runs.add(begin, pixels.len() as i64, last.into())?;
    Ok(runs)
}

/// The pixels that runs stand for. O(pixels).
pub fn mask_pixels<T: Pixel>(runs: Given<'_>, size: usize) -> Result<Vec<T>> {
    let mut pixels = filled(T::default(), size)?;
    if runs.ends.len() != runs.begins.len() || runs.classes.len() != runs.begins.len() {
        return Err(Error::invalid("runs of a mask need a begin, an end and a class each"));
    }
    for ((&begin, &end), &class) in runs.begins.iter().zip(runs.ends).zip(runs.classes) {
        let place = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
        let part = place.and_then(|(begin, end)| pixels.get_mut(begin..end));
        let (Some(part), Ok(class)) = (part, T::try_from(class)) else {
            return Err(Error::invalid("runs of a mask are not within its image"));
        };
        part.fill(class);
    }
    Ok(pixels)
}

/// Pixels of an image of that shape.
fn size_of_image(shape: &[i64]) -> Result<usize> {
    let sized = (1..=MOST_DIMS).contains(&shape.len());
    let size = shape.iter().try_fold(1_usize, |size, n| size.checked_mul(usize::try_from(*n).ok()?));
    let size = size.filter(|size| sized && i64::try_from(*size).is_ok());
    size.ok_or_else(|| Error::invalid("the size of a mask must be whole numbers of pixels, none below 0"))
}

/// Run-lengths as COCO has them, columns first where there are two dimensions, and the class of each. O(pixels).
pub fn coco_lengths(runs: Given<'_>, shape: &[i64]) -> Result<(Vec<i64>, Vec<u16>)> {
    let size = size_of_image(shape)?;
    let pixels = mask_pixels::<u16>(runs, size)?;
    let (mut lengths, mut values): (Vec<i64>, Vec<u16>) = (vec![], vec![]);
    let mut each = |class: u16| -> Result<()> {
        if values.last() == Some(&class) {
            if let Some(length) = lengths.last_mut() {
                *length += 1;
            }
            return Ok(());
        }
        push(&mut values, class)?;
        push(&mut lengths, 1)
    };
    if let &[_, width] = shape {
        for x in 0..width as usize {
            pixels.iter().skip(x).step_by(width as usize).try_for_each(|class| each(*class))?;
        }
    } else {
        pixels.iter().try_for_each(|class| each(*class))?;
    }
    Ok((lengths, values))
}

/// Runs of a mask given as run-lengths of COCO, and the class of each length. O(pixels) time and memory.
pub fn coco_runs(lengths: &[i64], values: &[u16], shape: &[i64]) -> Result<Runs> {
    let size = size_of_image(shape)?;
    let total = lengths.iter().try_fold(0_i64, |total, n| if *n < 0 { None } else { total.checked_add(*n) });
    if total != Some(size as i64) || values.len() != lengths.len() {
        return Err(Error::invalid("run-lengths must be one a class, none below 0, and sum to the size of the image"));
    }
    if shape.len() != 2 {
        let (mut found, mut begin) = (Runs::default(), 0);
        for (&length, &class) in lengths.iter().zip(values) {
            found.add(begin, begin + length, class)?;
            begin += length;
        }
        return Ok(found);
    }
    let (height, width) = (shape[0] as usize, shape[1] as usize);
    let (mut pixels, mut at) = (zeros::<u16>(size)?, 0);
    for (&length, &class) in lengths.iter().zip(values) {
        let end = at + length as usize;
        if class > 0 {
            for place in at..end {
                pixels[place % height * width + place / height] = class;
            }
        }
        at = end;
    }
    mask_runs(&pixels)
}

/// The lengths in COCO's short text: five bits a character from 48 on, the sixth for more, each less the one before
/// last.
pub fn coco_counts(text: &[u8]) -> Result<Vec<i64>> {
    let mut counts: Vec<i64> = with_room(text.len())?;
    let (mut value, mut shift) = (0_i128, 0);
    let wrong = |at: usize| Error::invalid(format!("counts are not run-lengths of COCO at character {at}"));
    for (at, &byte) in text.iter().enumerate() {
        let part = byte.checked_sub(48).filter(|part| *part < 64 && shift <= 60).ok_or_else(|| wrong(at))?;
        value |= i128::from(part & 31) << shift;
        shift += 5;
        if part & 32 > 0 {
            continue;
        }
        if part & 16 > 0 {
            value |= -1_i128 << shift;
        }
        let before = if counts.len() > 2 { counts[counts.len() - 2] } else { 0 };
        counts.push(i64::try_from(value + i128::from(before)).map_err(|_| wrong(at))?);
        (value, shift) = (0, 0);
    }
    if shift > 0 { Err(wrong(text.len())) } else { Ok(counts) }
}
