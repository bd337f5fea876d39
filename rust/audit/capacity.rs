//! The capacity of a worker: the largest information of an answer about the class, over all frequencies of classes.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::{Error, Result};

/// Workers that one job handles.
const WORKERS: usize = 32;
/// The longest stride, as a multiple of the plain step.
const LONGEST: f64 = 1e6;
/// How much a stride grows where it succeeded.
const GROWTH: f64 = 1.5;

/// Where to stop.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// When the capacity is known to be within this many bits.
    pub tol: f64,
    /// After this many steps in any case.
    pub max_iter: usize,
}

/// Capacities in bits of channels (workers × classes × labels) with rows that sum to one, the class frequencies that
/// reach them (workers × classes), and by how much each may fall short of the true capacity.
///
/// Blahut's and Arimoto's iteration: frequencies are multiplied by 2 to the divergence of their row from the mix of all
/// rows. The mean divergence bounds the capacity from below, the largest from above. A plain step never falls but
/// creeps where a class is best left out, so strides grow while they gain. Time O(steps · workers · classes · labels),
/// memory O(workers · classes).
pub fn capacities(
    channels: &[f64],
    n_classes: usize,
    n_labels: usize,
    stop: Stop,
    control: &Control,
) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    let cells = n_classes * n_labels;
    if cells == 0 || !channels.len().is_multiple_of(cells) {
        return Err(Error::invalid(format!(
            "{} numbers do not make {n_classes} × {n_labels} matrices",
            channels.len()
        )));
    }
    if let Some(bad) = channels.iter().find(|p| !(p.is_finite() && **p >= 0.0)) {
        return Err(Error::invalid(format!("the channels hold {bad}, which is not a probability")));
    }
    let n = channels.len() / cells;
    let (mut capacity, mut gap, mut prior) = (zeros(n)?, zeros(n)?, zeros(n * n_classes)?);
    let rows = capacity.par_chunks_mut(WORKERS).zip(gap.par_chunks_mut(WORKERS));
    let blocks = rows.zip(prior.par_chunks_mut(WORKERS * n_classes)).zip(channels.par_chunks(WORKERS * cells));
    blocks.try_for_each(|(((capacity, gap), prior), channels)| {
        let results = capacity.iter_mut().zip(gap).zip(prior.chunks_exact_mut(n_classes));
        for (((capacity, gap), prior), channel) in results.zip(channels.chunks_exact(cells)) {
            control.check()?;
            (*capacity, *gap) = one(channel, prior, stop, control)?;
        }
        Ok(())
    })?;
    Ok((capacity, prior, gap))
}

/// The capacity of one channel and the width of its bounds; `prior` becomes the frequencies that reach it.
fn one(channel: &[f64], prior: &mut [f64], stop: Stop, control: &Control) -> Result<(f64, f64)> {
    const STEPS_PER_CHECK: usize = 1 << 10;
    let k = prior.len();
    prior.fill(1.0 / k as f64);
    let (mut mix, mut divergence) = (zeros(channel.len() / k)?, zeros(k)?);
    let (mut tried, mut stride) = (zeros(k)?, 1.0);
    let mut tells = diverge(channel, prior, &mut mix, &mut divergence);
    for step in 0..stop.max_iter {
        let most = divergence.iter().copied().fold(0.0, f64::max);
        if most - tells <= stop.tol {
            break;
        }
        if step % STEPS_PER_CHECK == 0 {
            control.check()?;
        }
        tried.iter_mut().zip(&*prior).zip(&divergence).for_each(|((to, p), d)| *to = p * (stride * (d - most)).exp2());
        let sum: f64 = tried.iter().sum();
        tried.iter_mut().for_each(|p| *p /= sum);
        let after = diverge(channel, &tried, &mut mix, &mut divergence);
        if after >= tells || stride == 1.0 {
            prior.copy_from_slice(&tried);
            tells = after;
            stride = (GROWTH * stride).min(LONGEST);
        } else {
            stride = 1.0;
            diverge(channel, prior, &mut mix, &mut divergence);
        }
    }
    let most = divergence.iter().copied().fold(0.0, f64::max);
    // Rounding may leave a worker whose answers have no information just below zero.
    Ok((tells.max(0.0), (most - tells).max(0.0)))
}

/// The divergence in bits of each row from the mix of all rows under the prior; returns their mean, the information.
fn diverge(channel: &[f64], prior: &[f64], mix: &mut [f64], divergence: &mut [f64]) -> f64 {
    let n_labels = mix.len();
    mix.fill(0.0);
    for (row, p) in channel.chunks_exact(n_labels).zip(prior) {
        mix.iter_mut().zip(row).for_each(|(to, a)| *to += p * a);
    }
    let rows = channel.chunks_exact(n_labels).zip(divergence.iter_mut());
    // A label that only a class of vanishing frequency gives has a mix that underflows: the smallest number replaces
    // it.
    let term = |a: &f64, q: &f64| if *a > 0.0 { a * (a / q.max(f64::MIN_POSITIVE)).log2() } else { 0.0 };
    rows.for_each(|(row, to)| *to = row.iter().zip(&*mix).map(|(a, q)| term(a, q)).sum());
    divergence.iter().zip(prior).map(|(d, p)| d * p).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Stop = Stop { tol: 1e-9, max_iter: 10_000 };

    fn entropy(p: f64) -> f64 {
        -p * p.log2() - (1.0 - p) * (1.0 - p).log2()
    }

    fn capacity_of(channel: &[f64], k: usize) -> (f64, Vec<f64>, f64) {
        let (c, p, gap) = capacities(channel, k, channel.len() / k, STOP, &Control::default()).unwrap();
        (c[0], p, gap[0])
    }

    #[test]
    fn known_channels() {
        // Symmetric: even frequencies. Erasures: what is not erased. A Z-channel: log2(1 + (1 - e) e^(e / (1 - e))).
        let (symmetric, prior, _) = capacity_of(&[0.9, 0.1, 0.1, 0.9], 2);
        assert!((symmetric - (1.0 - entropy(0.1))).abs() < 1e-12);
        assert_eq!(prior, [0.5, 0.5]);
        let (erasing, _, _) = capacity_of(&[0.7, 0.0, 0.3, 0.0, 0.7, 0.3], 2);
        assert!((erasing - 0.7).abs() < 1e-12);
        let e = 0.3_f64;
        let (z, _, gap) = capacity_of(&[1.0, 0.0, e, 1.0 - e], 2);
        assert!((z - (1.0 + (1.0 - e) * e.powf(e / (1.0 - e))).log2()).abs() <= 1e-9 && gap <= 1e-9);
    }

    #[test]
    fn a_class_that_is_best_left_out_costs_few_steps() {
        // The third class is a mix of the others.
        let stop = Stop { tol: 1e-9, max_iter: 200 };
        let channel = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5];
        let (capacity, prior, gap) = capacities(&channel, 3, 2, stop, &Control::default()).unwrap();
        assert!(
            (capacity[0] - 1.0).abs() <= 1e-9 && gap[0] <= 1e-9 && prior[2] < 1e-6,
            "{capacity:?} {prior:?} {gap:?}"
        );
    }

    #[test]
    fn answers_that_do_not_depend_on_the_class_tell_nothing() {
        let (capacity, prior, gap) = capacity_of(&[0.2, 0.8, 0.2, 0.8], 2);
        assert_eq!((capacity, gap), (0.0, 0.0));
        assert_eq!(prior, [0.5, 0.5]);
        assert_eq!(capacity_of(&[1.0], 1).0, 0.0);
    }

    #[test]
    fn refuses_what_is_no_channel() {
        let control = Control::default();
        assert!(capacities(&[0.5, 0.5, 1.0], 2, 2, STOP, &control).is_err());
        assert!(capacities(&[], 0, 0, STOP, &control).is_err());
        assert!(capacities(&[f64::NAN, 0.5, 0.5, 0.5], 2, 2, STOP, &control).is_err());
    }
}
