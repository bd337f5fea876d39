//! Dawid–Skene with Dirichlet priors, by Gibbs sampling.
//!
//! The sampler is blocked: all parameters are drawn given the classes, then all classes given the parameters. Either
//! half is independent over workers or over tasks, so it runs in parallel and streams the table as EM does. (A
//! collapsed sampler, which integrates the parameters out, moves a little further a sweep, but has to visit one task
//! after the other.) Random numbers belong to a chain, a sweep and a worker or task, never to a thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

use super::estimate::{Given, group};
use super::model::{Grouped, with_model};
use super::shard::InMemory;
use super::solver::{Params, Solver};
use super::{Options, sizes, validate, validate_loop};
use crate::base::control::Control;
use crate::base::gamma::{Source, log_gamma};
use crate::base::memory::{copied, reserve, zeros};
use crate::base::num::{FLOOR, GOLDEN, normalise, scramble, to_unit};
use crate::base::random::{key, unit};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// What random numbers are drawn for.
const CLASSES: u64 = 1;
const WORKERS: u64 = 2;
const PRIOR: u64 = 3;

/// How to sample.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Independent runs.
    pub n_chains: usize,
    /// Sweeps of each chain that are forgotten.
    pub warmup: usize,
    /// Sweeps of each chain after those.
    pub draws: usize,
    /// Whether draws of the confusion matrices are kept.
    pub keep_confusion: bool,
    /// Where all random numbers come from.
    pub seed: u64,
}

/// What [`fit_gibbs`] found; averages are over all chains.
#[derive(Debug, Clone, Default)]
pub struct GibbsFit {
    /// Mean over draws of the class posterior given the parameters, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Mean over draws of the confusion matrices expected given the classes, (workers × true × observed).
    pub confusion: Vec<f64>,
    /// Mean over draws of the class prior expected given the classes.
    pub prior: Vec<f64>,
    /// Draws of the class prior, (chains × draws × classes).
    pub prior_draws: Vec<f64>,
    /// Draws of each worker's accuracy under the class prior, (chains × draws × workers).
    pub accuracy_draws: Vec<f64>,
    /// Log-density of the labels and parameters, classes summed out, up to a constant, (chains × draws).
    pub log_density: Vec<f64>,
    /// Draws of the confusion matrices, (chains × draws × workers × true × observed), if they were asked for.
    pub confusion_draws: Vec<f64>,
}

/// Samples the posterior of classes and parameters; pseudo-counts are the parameters of the Dirichlet priors.
///
/// Each chain begins with parameters drawn given the expected counts of the start. A sweep takes the time of one or two
/// EM passes and O(workers · classes²) gamma variates. Memory for each chain: 16 bytes per task and class, 40 bytes per
/// worker and class squared, the draws, and 4 to 8 bytes per annotation.
pub fn fit_gibbs(table: &Table, options: &Options<'_>, sampling: &Sampling, control: &Control) -> Result<GibbsFit> {
    validate(table, options)?;
    validate_loop(sizes(table), options)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|a| *a <= 0.0) {
        return Err(Error::invalid("the parameters of Dirichlet priors must be positive"));
    }
    if sampling.n_chains == 0 || sampling.draws == 0 {
        return Err(Error::invalid("there must be at least one chain and one draw"));
    }
    let sweeps = AtomicUsize::new(0);
    let chains = with_model!(options.model, |W| {
        (0..sampling.n_chains)
            .into_par_iter()
            .map(|chain| run_chain::<W>(table, options, sampling, chain, &sweeps, control))
            .collect::<Result<Vec<GibbsFit>>>()
    })?;
    together(chains, 1.0 / (sampling.n_chains * sampling.draws) as f64)
}

/// Draws of all chains on end, and sums as means.
fn together(chains: Vec<GibbsFit>, share: f64) -> Result<GibbsFit> {
    let mut all = GibbsFit::default();
    for chain in chains {
        for (to, from) in [
            (&mut all.posterior, &chain.posterior),
            (&mut all.confusion, &chain.confusion),
            (&mut all.prior, &chain.prior),
        ] {
            if to.is_empty() {
                *to = zeros(from.len())?;
            }
            to.iter_mut().zip(from).for_each(|(t, x)| *t += share * x);
        }
        for (to, from) in [
            (&mut all.prior_draws, chain.prior_draws),
            (&mut all.accuracy_draws, chain.accuracy_draws),
            (&mut all.log_density, chain.log_density),
            (&mut all.confusion_draws, chain.confusion_draws),
        ] {
            reserve(to, from.len())?;
            to.extend(from);
        }
    }
    Ok(all)
}

/// One chain, with sums in place of means.
fn run_chain<W: Grouped>(
    table: &Table,
    options: &Options<'_>,
    sampling: &Sampling,
    chain: usize,
    sweeps: &AtomicUsize,
    control: &Control,
) -> Result<GibbsFit> {
    let (m, k) = (table.n_workers(), table.n_labels());
    let mut passes = InMemory::new(table, options.gold, control)?;
    passes.store_posteriors(W::MODEL)?;
    let mut solver = Solver::<W, Given>::new(sizes(table), options, control)?;
    let mut params = solver.start(&mut passes, options.start)?;
    let mut fit = GibbsFit {
        posterior: zeros(table.n_tasks() * k)?,
        confusion: zeros(m * k * k)?,
        prior: vec![0.0; k],
        ..GibbsFit::default()
    };
    for sweep in 0..sampling.warmup + sampling.draws {
        let seed = |purpose| key([sampling.seed, chain as u64, sweep as u64, purpose]);
        draw_parameters(&solver, &mut params, seed);
        let keep = sweep >= sampling.warmup;
        if keep {
            let confusion = solver.confusion(copied(&params.workers)?)?;
            record(&mut fit, &params.prior, confusion, sampling.keep_confusion)?;
        }
        let log_prior = params.log_prior;
        let sums = if keep { fit.posterior.as_mut_slice() } else { &mut [] };
        let evidence = draw_classes(&mut solver, &mut passes, &mut params, seed(CLASSES), sums)?;
        if keep {
            fit.log_density.push(evidence + log_prior);
            add(&mut fit.confusion, &solver.confusion(copied(&params.workers)?)?);
            let mut prior = params.prior.clone();
            normalise(&mut prior);
            add(&mut fit.prior, &prior);
        }
        control.report(1 + sweeps.fetch_add(1, Ordering::Relaxed), evidence + log_prior);
    }
    Ok(fit)
}

fn add(to: &mut [f64], other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}

/// Keeps one draw of the parameters.
fn record(found: &mut GibbsFit, prior: &[f64], confusion: Vec<f64>, keep_confusion: bool) -> Result<()> {
    let k = prior.len();
    let right = |matrix: &[f64]| prior.iter().enumerate().map(|(class, p)| p * matrix[class * k + class]).sum::<f64>();
    reserve(&mut found.accuracy_draws, confusion.len() / (k * k))?;
    found.accuracy_draws.extend(confusion.chunks_exact(k * k).map(right));
    found.prior_draws.extend_from_slice(prior);
    if keep_confusion {
        reserve(&mut found.confusion_draws, confusion.len())?;
        found.confusion_draws.extend(confusion);
    }
    Ok(())
}

/// Draws a class for each task and counts them, which gives the Dirichlet parameters of the next draw of parameters.
fn draw_classes<W: Grouped>(
    solver: &mut Solver<'_, W, Given>,
    passes: &mut InMemory<'_>,
    params: &mut Params,
    seed: u64,
    row_sums: &mut [f64],
) -> Result<f64> {
    let draw = |task: usize, posterior: &mut [f64], row_sums: &mut [f64]| {
        add(row_sums, posterior);
        let class = choose(posterior, to_unit(scramble(seed.wrapping_add((task as u64 + 1).wrapping_mul(GOLDEN)))));
        posterior.fill(0.0);
        posterior[class] = 1.0;
    };
    solver.ask(params, |factors, sums| passes.gather_changed(W::MODEL, factors, &draw, row_sums, sums))?;
    solver.maximise(params);
    Ok(solver.log_evidence())
}

/// The class whose share of `[0, 1)` holds u; never one of probability 0.
fn choose(probabilities: &[f64], u: f64) -> usize {
    let mut below = 0.0;
    for (class, p) in probabilities.iter().enumerate() {
        below += p;
        if u < below {
            return class;
        }
    }
    // Rounding may leave a little above the sum.
    probabilities.iter().rposition(|p| *p > 0.0).unwrap_or(0)
}

/// Puts draws in the place of Dirichlet parameters, and sets the log-density that the priors give them, up to a
/// constant.
fn draw_parameters<W: Grouped>(solver: &Solver<'_, W, Given>, params: &mut Params, seed: impl Fn(u64) -> u64) {
    const BLOCK: usize = 64;
    let shape = solver.sizes().shape;
    let n = W::n_counts(shape);
    let workers = seed(WORKERS);
    let blocks: Vec<f64> = params
        .workers
        .par_chunks_mut(BLOCK * n)
        .enumerate()
        .map(|(block, rows)| {
            let mut log = 0.0;
            for (i, row) in rows.chunks_exact_mut(n).enumerate() {
                let worker = block * BLOCK + i;
                let mut rng = numbers(key([workers, worker as u64]));
                draw_dirichlet(row, W::n_groups(shape), &mut rng);
                log += log_density(row, solver.pseudo_of(worker));
            }
            log
        })
        .collect();
    draw_dirichlet(&mut params.prior, 1, &mut numbers(seed(PRIOR)));
    params.log_prior = blocks.iter().sum::<f64>() + log_density(&params.prior, solver.class_pseudo());
}

/// What the density of a Dirichlet distribution owes to the probabilities; events of parameter 0 are not there.
fn log_density(probabilities: &[f64], pseudo: &[f64]) -> f64 {
    let real = probabilities.iter().zip(pseudo).filter(|(_, a)| **a > 0.0);
    real.map(|(p, a)| (a - 1.0) * p.max(FLOOR).ln()).sum()
}

/// Puts a draw in the place of the parameters of Dirichlet distributions, one for each group.
fn draw_dirichlet(params: &mut [f64], n_groups: usize, rng: &mut impl Source) {
    params.iter_mut().for_each(|a| *a = log_gamma(*a, rng));
    for g in 0..n_groups {
        let places = || group(g, n_groups, params.len());
        let largest = places().map(|i| params[i]).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = places().map(|i| (params[i] - largest).exp()).sum();
        for i in group(g, n_groups, params.len()) {
            params[i] = (params[i] - largest).exp() / total;
        }
    }
}

/// A stream of random numbers.
fn numbers(seed: u64) -> Numbers {
    Numbers(Xoshiro256PlusPlus::seed_from_u64(seed))
}

/// The numbers of a generator, in the forms that variates need.
struct Numbers(Xoshiro256PlusPlus);

impl Source for Numbers {
    fn unit(&mut self) -> f64 {
        1.0 - unit(&mut self.0)
    }

    /// By the polar method; which numbers it takes depends on nothing but the generator.
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * unit(&mut self.0) - 1.0, 2.0 * unit(&mut self.0) - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::em::{Assignment, Model, Start};
    use crate::categorical::table::tests::of_rows;

    #[test]
    fn dirichlet_draws_have_their_means() {
        let mut rng = numbers(1);
        let (n, pseudo) = (20_000, [2.0, 0.5, 3.0, 0.0, 1.0, 1.5]);
        let mut sums = [0.0; 6];
        for _ in 0..n {
            let mut draw = pseudo;
            draw_dirichlet(&mut draw, 2, &mut rng);
            // Two groups, of every other number.
            assert!((0..2).all(|g| (draw[g] + draw[g + 2] + draw[g + 4] - 1.0).abs() < 1e-12) && draw[3] == 0.0);
            add(&mut sums, &draw);
        }
        for (i, sum) in sums.iter().enumerate() {
            let total = pseudo[i % 2] + pseudo[i % 2 + 2] + pseudo[i % 2 + 4];
            // Five standard errors, of a variance of at most a quarter.
            assert!((sum / f64::from(n) - pseudo[i] / total).abs() < 5.0 * (0.25 / f64::from(n)).sqrt(), "{i}");
        }
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let mut rng = numbers(2);
        let draws: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let moment = |power: i32| draws.iter().map(|x| x.powi(power)).sum::<f64>() / 1e5;
        // Five standard errors each.
        assert!(moment(1).abs() < 0.016 && (moment(2) - 1.0).abs() < 0.023 && (moment(4) - 3.0).abs() < 0.16);
    }

    #[test]
    fn impossible_classes_are_not_drawn() {
        assert_eq!((choose(&[0.0, 0.5, 0.5], 0.0), choose(&[0.0, 0.5, 0.5], 0.5)), (1, 2));
        assert_eq!(choose(&[0.3, 0.7 - 1e-12, 0.0], 1.0 - 1e-16), 1);
    }

    fn sample(n_chains: usize, draws: usize) -> Result<GibbsFit> {
        let rows: Vec<(u32, u32, u16)> = (0..45).map(|i| (i % 15, i % 6, (i * 7 % 4) as u16)).collect();
        let start = vec![0.25; 60];
        let options = Options {
            model: Model::Class,
            assignment: Assignment::Soft,
            start: Start::Posterior(&start),
            pseudo: &[0.5; 16],
            class_pseudo: &[0.5; 4],
            gold: None,
            accelerate: false,
            max_iter: 0,
            tol: 0.0,
        };
        let sampling = Sampling { n_chains, warmup: 3, draws, keep_confusion: true, seed: 5 };
        fit_gibbs(&of_rows(&rows, None, [15, 6, 4]), &options, &sampling, &Control::default())
    }

    #[test]
    fn means_and_draws_are_probabilities() {
        let fit = sample(2, 10).unwrap();
        assert_eq!((fit.posterior.len(), fit.log_density.len(), fit.accuracy_draws.len()), (60, 20, 120));
        for rows in [&fit.posterior, &fit.confusion, &fit.prior, &fit.prior_draws, &fit.confusion_draws] {
            assert!(rows.chunks_exact(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-9));
        }
        // A chain does not depend on how many others there are.
        assert_eq!(sample(1, 10).unwrap().accuracy_draws, fit.accuracy_draws[..60]);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(sample(0, 10).is_err() && sample(1, 0).is_err());
    }
}
