//! Pixels by the votes of workers whose recall of each class is learned from all images together.

use rayon::prelude::*;

use super::votes::{Evidence, Image, Tally, check_weights, decided, images};
use super::{Drawings, Found};
use crate::base::control::Control;
use crate::base::memory::{collected, filled, par_tried, with_room, zeros};
use crate::categorical::em::dirichlet_step;
use crate::{Error, Result};

/// Recalls stay this far from 0 and 1: no worker settles a pixel alone against a few others.
const EDGE: f64 = 0.02;
/// What is believed of a crowd before it is seen, in images: two thirds of disputed pixels rightly.
const BELIEVED: [f64; 2] = [2.0, 1.0];
/// Improvements of the learned prior in each pass.
const ROUNDS: usize = 20;

/// Which worker drew the masks, in the order of the tasks, and how much each counts.
#[derive(Debug, Clone, Copy)]
pub struct Hands<'a> {
    /// Worker of each mask.
    pub workers: &'a [u32],
    /// Weight of each mask.
    pub weights: &'a [f64],
    /// How many workers there are, and classes of pixels.
    pub n_workers: usize,
    /// See there.
    pub n_classes: usize,
}

/// How recalls are learned.
#[derive(Debug, Clone, Copy)]
pub struct StapleOptions {
    /// How far the recall of one class may depart from the recall over all.
    pub asymmetry: f64,
    /// Pseudo-images of each worker with the crowd's rate; learned where there is none.
    pub strength: Option<f64>,
    /// Most passes.
    pub max_iter: usize,
    /// Passes end when no recall changes by as much.
    pub tol: f64,
    /// Whether to return class probabilities for every column of every image.
    pub chances: bool,
}

/// Masks, and what was learned of workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Staple {
    /// Probability that a worker gives a disputed pixel its class, (workers × classes).
    pub recall: Vec<f64>,
    /// The same over all classes, (workers).
    pub accuracy: Vec<f64>,
    /// Masks of the classes that win.
    pub found: Found,
    /// Share of marked pixels on which masks differ, for each image.
    pub disputed: Vec<f64>,
    /// Chances of classes, (columns × classes) of all images on end, if they are wanted.
    pub chances: Vec<f64>,
    /// Passes.
    pub n_iter: usize,
    /// Whether recalls settled.
    pub converged: bool,
}

/// Agreement of an image's masks with what wins: shares of its disputed pixels, by its classes.
struct Agreement {
    /// Shares of classes, and of those that each mask gives rightly, (masks × classes).
    could: Vec<f64>,
    right: Vec<f64>,
}

struct Crowd<'a> {
    hands: Hands<'a>,
    options: StapleOptions,
    recall: Vec<f64>,
    accuracy: Vec<f64>,
    /// Beta parameters of workers' rates.
    prior: Vec<f64>,
}

/// Learns recalls by turns with the classes of disputed pixels; decisions, and not expectations, as pixels err
/// together.
///
/// A pass takes O(columns · masks) time; memory is that of all columns, 2 bytes for each and each mask, and 8 for each
/// mask and class of an image.
pub fn staple(masks: &Drawings<'_>, hands: Hands<'_>, options: StapleOptions, control: &Control) -> Result<Staple> {
    check_weights(masks, hands.weights)?;
    check(masks, &hands, &options)?;
    let images = images(masks, control)?;
    let is_known = |class: &i64| (*class as usize) < hands.n_classes;
    if !masks.classes.iter().all(is_known) {
        return Err(Error::invalid("masks have classes beyond those there are"));
    }
    let (m, k) = (hands.n_workers, hands.n_classes);
    let cells = m.checked_mul(k).ok_or(Error::OutOfMemory(usize::MAX))?;
    let mut crowd = Crowd {
        hands,
        options,
        recall: filled(0.5, cells)?,
        accuracy: filled(0.5, m)?,
        prior: collected(BELIEVED.into_iter())?,
    };
    let (n_iter, converged) = crowd.learn(masks, &images, control)?;
    let (winners, disputed) = decided(&images, |task, image| crowd.evidence(masks, task, image), control)?;
    let chances = if options.chances { crowd.chances(masks, &images, control)? } else { vec![] };
    Ok(Staple { recall: crowd.recall, accuracy: crowd.accuracy, found: winners, disputed, chances, n_iter, converged })
}

fn check(masks: &Drawings<'_>, hands: &Hands<'_>, options: &StapleOptions) -> Result<()> {
    let n = masks.starts.len().saturating_sub(1);
    if hands.workers.len() != n || !hands.workers.iter().all(|worker| (*worker as usize) < hands.n_workers) {
        return Err(Error::invalid("there must be a worker for each mask"));
    }
    let strong = options.strength.is_none_or(|strength| strength > 0.0 && strength.is_finite());
    if hands.n_classes < 2 || !(0.0..=1.0).contains(&options.asymmetry) || !strong || options.tol.is_nan() {
        return Err(Error::invalid("STAPLE needs two classes, an asymmetry from 0 to 1 and a positive strength"));
    }
    Ok(())
}

impl Crowd<'_> {
    fn learn(&mut self, masks: &Drawings<'_>, images: &[Image], control: &Control) -> Result<(usize, bool)> {
        if images.iter().all(|image| image.disputed.is_empty()) {
            return Ok((1, true));
        }
        for step in 1..=self.options.max_iter {
            let each = par_tried(images.par_iter().enumerate().map_init(Tally::default, |tally, (task, image)| {
                control.check()?;
                let weights = &self.hands.weights[masks.tasks.rows(task)];
                let evidence =
                    if step == 1 { Evidence::votes(image, weights)? } else { self.evidence(masks, task, image)? };
                agreement(image, &evidence, tally)
            }))?;
            let change = self.rate(masks, images, &each, control)?;
            control.report(step, f64::NAN);
            if change < self.options.tol {
                return Ok((step, true));
            }
        }
        Ok((self.options.max_iter, false))
    }

    /// New recalls, from how each mask agrees with what won; returns the greatest change.
    fn rate(&mut self, masks: &Drawings<'_>, images: &[Image], each: &[Agreement], control: &Control) -> Result<f64> {
        let (m, k) = (self.hands.n_workers, self.hands.n_classes);
        let (mut right, mut could) = (zeros::<f64>(m * k)?, zeros::<f64>(m * k)?);
        for (task, (image, found)) in images.iter().zip(each).enumerate() {
            for (mask, row) in masks.tasks.rows(task).enumerate() {
                let (start, weight) = (self.hands.workers[row] as usize * k, self.hands.weights[row]);
                let rights = found.right.chunks_exact(image.classes.len().max(1)).nth(mask).unwrap_or(&[]);
                for ((&class, share), right_share) in image.classes.iter().zip(&found.could).zip(rights) {
                    could[start + usize::from(class)] += weight * share;
                    right[start + usize::from(class)] += weight * right_share;
                }
            }
        }
        let sums = |values: &[f64]| collected(values.chunks_exact(k).map(|row| row.iter().sum::<f64>()));
        let (own, totals) = (sums(&right)?, sums(&could)?);
        let (pull, usual) = self.pull(&own, &totals, control)?;
        let mut change = 0.0_f64;
        for worker in 0..m {
            let accuracy = (own[worker] + pull * usual) / (totals[worker] + pull);
            self.accuracy[worker] = accuracy.clamp(EDGE, 1.0 - EDGE);
            for at in worker * k..(worker + 1) * k {
                let alone = (right[at] + pull * accuracy) / (could[at] + pull);
                let recall = self.options.asymmetry * alone + (1.0 - self.options.asymmetry) * accuracy;
                let recall = recall.clamp(EDGE, 1.0 - EDGE);
                change = change.max((recall - self.recall[at]).abs());
                self.recall[at] = recall;
            }
        }
        Ok(change)
    }

    /// Pseudo-images, and the crowd's rate.
    fn pull(&mut self, own: &[f64], seen: &[f64], control: &Control) -> Result<(f64, f64)> {
        if let Some(strength) = self.options.strength {
            let (own, all_seen) = (own.iter().sum::<f64>(), seen.iter().sum::<f64>());
            return Ok((strength, if all_seen > 0.0 { own / all_seen } else { 0.5 }));
        }
        let mut counts = with_room(2 * own.len())?;
        counts.extend(own.iter().zip(seen).flat_map(|(own, seen)| [*own, (seen - own).max(0.0)]));
        for _ in 0..ROUNDS {
            self.prior = dirichlet_step(&self.prior, &counts, &BELIEVED, control)?;
        }
        let total = self.prior[0] + self.prior[1];
        Ok((total, self.prior[0] / total))
    }

    /// Logarithms of how probable what masks say is in each class of an image.
    fn evidence(&self, masks: &Drawings<'_>, task: usize, image: &Image) -> Result<Evidence> {
        let k = self.hands.n_classes;
        let (mut base, mut each) = (zeros::<f64>(image.classes.len())?, with_room(image.n * image.classes.len())?);
        for row in masks.tasks.rows(task) {
            let (start, weight) = (self.hands.workers[row] as usize * k, self.hands.weights[row]);
            for (base, class) in base.iter_mut().zip(&image.classes) {
                let recall = self.recall[start + usize::from(*class)];
                let wrong = ((1.0 - recall) / (k - 1) as f64).ln();
                *base += weight * wrong;
                each.push(weight * (recall.ln() - wrong));
            }
        }
        Ok(Evidence { base, each, logarithms: true })
    }

    fn chances(&self, masks: &Drawings<'_>, images: &[Image], control: &Control) -> Result<Vec<f64>> {
        let k = self.hands.n_classes;
        let each = par_tried(images.par_iter().enumerate().map_init(Tally::default, |tally, (task, image)| {
            control.check()?;
            let evidence = self.evidence(masks, task, image)?;
            let mut chances = zeros::<f64>(image.pixels.len() * k)?;
            for (column, row) in chances.chunks_exact_mut(k).enumerate() {
                tally.count(image.said(column), &evidence)?;
                tally.all().for_each(|(at, chance)| row[usize::from(image.classes[usize::from(at)])] = chance);
            }
            Ok(chances)
        }))?;
        crate::base::memory::joined(&each)
    }
}

/// How an image's masks agree with the classes that win its disputed pixels, equal ones sharing them.
fn agreement(image: &Image, evidence: &Evidence, tally: &mut Tally) -> Result<Agreement> {
    let k = image.classes.len();
    let mut table = Agreement { could: zeros(k)?, right: zeros(image.n * k)? };
    for &column in &image.disputed {
        let column = column as usize;
        tally.count(image.said(column), evidence)?;
        let share = image.pixels[column] as f64 / image.in_dispute as f64 / tally.winners().count() as f64;
        for class in tally.winners() {
            table.could[usize::from(class)] += share;
            for (mask, said) in image.said(column).iter().enumerate() {
                if *said == class {
                    table.right[mask * k + usize::from(class)] += share;
                }
            }
        }
    }
    Ok(table)
}
