//! Classes of pixels by what workers marked: evidence for each class, votes, and masks of the classes that win.

use rayon::prelude::*;

use super::columns::folded;
use super::runs::Runs;
use super::{Drawings, Found};
use crate::base::control::Control;
use crate::base::memory::{clear, collected, par_tried, push, with_room, zeros};
use crate::{Error, Result};

/// Chances that differ by less are equal.
pub(super) const EQUAL: f64 = 1e-9;

/// An image, with those of its pixels made one that all masks have alike: columns.
#[derive(Debug)]
pub(super) struct Image {
    /// Masks.
    pub(super) n: usize,
    /// The pixel after each stretch, and its column.
    ends: Vec<i64>,
    columns: Vec<u32>,
    pub(super) pixels: Vec<i64>,
    /// Classes that occur, by number; and what masks say, as places among them, (columns × masks).
    pub(super) classes: Vec<u16>,
    said: Vec<u16>,
    /// Columns on which masks differ, and their pixels.
    pub(super) disputed: Vec<u32>,
    pub(super) in_dispute: i64,
    /// Pixels that any worker marked.
    marked: i64,
}

impl Image {
    fn new(masks: &Drawings<'_>, task: usize) -> Result<Self> {
        let (n, image) = (masks.tasks.rows(task).len(), folded(masks, task)?);
        let mut classes: Vec<u16> = with_room(image.said.len())?;
        classes.extend_from_slice(&image.said);
        classes.sort_unstable();
        classes.dedup();
        let width = image.pixels.len();
        let mut answers = zeros::<u16>(n * width)?;
        for (at, class) in image.said.iter().enumerate() {
            answers[at % width * n + at / width] = classes.partition_point(|first| first < class) as u16;
        }
        let (mut disputed, mut in_dispute, mut marked) = (vec![], 0, 0);
        for (column, (codes, pixels)) in answers.chunks_exact(n.max(1)).zip(&image.pixels).enumerate() {
            if codes.iter().any(|code| *code != codes[0]) {
                push(&mut disputed, column as u32)?;
                in_dispute += pixels;
            }
            if codes.iter().any(|code| classes[usize::from(*code)] > 0) {
                marked += pixels;
            }
        }
        Ok(Self {
            n,
            ends: image.ends,
            columns: image.columns,
            pixels: image.pixels,
            classes,
            said: answers,
            disputed,
            in_dispute,
            marked,
        })
    }

    /// What masks say of a column, as places among the classes.
    pub(super) fn said(&self, column: usize) -> &[u16] {
        &self.said[column * self.n..(column + 1) * self.n]
    }

    /// The mask of the classes that win, of equal ones the lowest, how probable they are where masks differ, and the
    /// share of marked pixels where they do.
    pub(super) fn decided(&self, evidence: &Evidence, tally: &mut Tally) -> Result<(Found, f64)> {
        let (mut best, mut sure) = (zeros::<u16>(self.pixels.len())?, 0.0);
        for (column, best) in best.iter_mut().enumerate() {
            let answers = self.said(column);
            let Some(first) = answers.first() else { continue };
            if answers.iter().all(|code| code == first) {
                *best = self.classes[usize::from(*first)];
                continue;
            }
            tally.count(answers, evidence)?;
            let winner = tally.winners().min().unwrap_or(0);
            sure += self.pixels[column] as f64 * tally.chances[usize::from(winner)];
            *best = self.classes[usize::from(winner)];
        }
        let (mut runs, mut begin) = (Runs::default(), 0);
        for (&end, &column) in self.ends.iter().zip(&self.columns) {
            runs.add(begin, end, best[column as usize])?;
            begin = end;
        }
        let (n, marked) = (self.in_dispute as f64, self.marked as f64);
        let (confidence, disputed) = if n > 0.0 { ((sure / n).min(1.0), n / marked) } else { (1.0, 0.0) };
        Ok((Found::one(runs, confidence)?, disputed))
    }
}

/// Folds all images.
pub(super) fn images(masks: &Drawings<'_>, control: &Control) -> Result<Vec<Image>> {
    masks.check()?;
    par_tried((0..masks.tasks.len()).into_par_iter().map(|task| {
        control.check()?;
        Image::new(masks, task)
    }))
}

/// What masks of an image indicate about each of its classes.
#[derive(Debug)]
pub(super) struct Evidence {
    /// For each class, and for each mask and class, (masks × classes), what is added where the mask has the class.
    pub(super) base: Vec<f64>,
    pub(super) each: Vec<f64>,
    /// Whether these are logarithms of chances, or chances.
    pub(super) logarithms: bool,
}

impl Evidence {
    /// Weights of votes; even ones where no worker weighs anything.
    pub(super) fn votes(image: &Image, weights: &[f64]) -> Result<Self> {
        let (k, total) = (image.classes.len(), weights.iter().sum::<f64>());
        let share = |weight: f64| if total > 0.0 { weight / total } else { 1.0 / weights.len() as f64 };
        let each = collected((0..image.n * k).map(|at| share(weights[at / k])))?;
        Ok(Self { base: zeros(k)?, each, logarithms: false })
    }
}

/// Scratch of a column: the classes that a worker gave it, and their chances.
#[derive(Debug, Default)]
pub(super) struct Tally {
    given: Vec<u16>,
    seen: Vec<bool>,
    pub(super) chances: Vec<f64>,
}

impl Tally {
    /// Chances of the classes that masks gave a column.
    pub(super) fn count(&mut self, said: &[u16], evidence: &Evidence) -> Result<()> {
        let k = evidence.base.len();
        if self.seen.len() != k {
            self.given.clear();
            clear(&mut self.seen, k)?;
            clear(&mut self.chances, k)?;
        }
        self.given.drain(..).for_each(|class| self.seen[usize::from(class)] = false);
        for (mask, &class) in said.iter().enumerate() {
            let at = usize::from(class);
            if !self.seen[at] {
                self.seen[at] = true;
                self.chances[at] = evidence.base[at];
                push(&mut self.given, class)?;
            }
            self.chances[at] += evidence.each[mask * k + at];
        }
        if !evidence.logarithms {
            return Ok(());
        }
        let Self { given, chances, .. } = self;
        let most = given.iter().map(|c| chances[usize::from(*c)]).fold(f64::NEG_INFINITY, f64::max);
        given.iter().for_each(|c| chances[usize::from(*c)] = (chances[usize::from(*c)] - most).exp());
        let total: f64 = given.iter().map(|c| chances[usize::from(*c)]).sum();
        given.iter().for_each(|c| chances[usize::from(*c)] /= total);
        Ok(())
    }

    /// The most probable classes of the column that was counted last.
    pub(super) fn winners(&self) -> impl Iterator<Item = u16> {
        let chance = |class: u16| self.chances[usize::from(class)];
        let most = self.given.iter().map(|class| chance(*class)).fold(0.0, f64::max);
        self.given.iter().copied().filter(move |class| chance(*class) >= most - EQUAL)
    }

    /// Chances of all given classes of the column that was counted last.
    pub(super) fn all(&self) -> impl Iterator<Item = (u16, f64)> {
        self.given.iter().map(|class| (*class, self.chances[usize::from(*class)]))
    }
}

/// Masks of the classes that win in each image, and the share of marked pixels on which masks differ.
pub(super) fn decided<'a>(
    images: &'a [Image],
    evidence: impl Fn(usize, &'a Image) -> Result<Evidence> + Sync,
    control: &Control,
) -> Result<(Found, Vec<f64>)> {
    let decisions = par_tried(images.par_iter().enumerate().map_init(Tally::default, |tally, (task, image)| {
        control.check()?;
        image.decided(&evidence(task, image)?, tally)
    }))?;
    let disputed = collected(decisions.iter().map(|(_, disputed)| *disputed))?;
    Ok((Found::joined(decisions.iter().map(|(found, _)| found))?, disputed))
}

/// The class that most workers gave each pixel, by weight; of equal ones the lowest.
///
/// Time O(runs · masks) an image; memory that of all columns, 2 bytes for each and each mask.
pub fn mask_vote(masks: &Drawings<'_>, weights: &[f64], control: &Control) -> Result<(Found, Vec<f64>)> {
    check_weights(masks, weights)?;
    let images = images(masks, control)?;
    decided(&images, |task, image| Evidence::votes(image, &weights[masks.tasks.rows(task)]), control)
}

pub(super) fn check_weights(masks: &Drawings<'_>, weights: &[f64]) -> Result<()> {
    if weights.len() + 1 != masks.starts.len() || !weights.iter().all(|w| *w >= 0.0 && w.is_finite()) {
        return Err(Error::invalid("there must be a weight for each mask, none below 0"));
    }
    Ok(())
}
