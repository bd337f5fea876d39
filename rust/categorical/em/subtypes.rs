//! Classes of several subtypes (EBCC): workers err independently given a task's class and subtype, so that they depend
//! on one another given the class alone. Mean-field variational Bayes.
//!
//! Class k has subtype s with probability `mixture[k, s]`; worker w then answers l with probability `v[w, k, s, l]`.
//! Pairs of class and subtype are the *kinds* of a task: to a pass they are this many classes, of which each annotation
//! touches one number each.

use rayon::prelude::*;

use super::estimate::{divergence, geometric};
use super::model::Model;
use super::pass::Opening;
use super::shard::{InMemory, table_of};
use super::sums::{Factors, Mode, Passes, Sums};
use super::{Fit, Solution, finite};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{collected, filled, zeros};
use crate::base::num::normalise;
use crate::base::parallel::{each_block, sum_blocks};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Workers per block of a parallel loop.
const WORKERS: usize = 64;

/// Arguments of [`fit_subtypes`]; pseudo-counts are the parameters of Dirichlet priors, all positive.
#[derive(Debug, Clone, Copy)]
pub struct SubtypesOptions<'a> {
    /// Subtypes of each class.
    pub n_subtypes: usize,
    /// Of the rows of confusion matrices, (true × observed), for each subtype alike.
    pub pseudo: &'a [f64],
    /// Of the classes.
    pub class_pseudo: &'a [f64],
    /// Of each subtype of a class.
    pub subtype_pseudo: f64,
    /// How the shares of votes are divided among subtypes at the start.
    pub seed: u64,
    /// Most passes over the annotations.
    pub max_iter: usize,
    /// Stop when the bound changes by less than this share of itself.
    pub tol: f64,
}

/// What [`fit_subtypes`] found.
#[derive(Debug, Clone)]
pub struct SubtypesFit {
    /// Posteriors of the classes, expected confusion matrices over all subtypes, class prior, and how the bound went.
    pub fit: Fit,
    /// Parameters of the Dirichlet posteriors of rows, (workers × true × subtypes × observed).
    pub concentration: Vec<f64>,
    /// Parameters of the Dirichlet posterior of the class prior.
    pub class_concentration: Vec<f64>,
    /// Parameters of the Dirichlet posteriors of the mixtures, (classes × subtypes).
    pub subtype_concentration: Vec<f64>,
}

/// Fits by variational Bayes from shares of the votes, divided among subtypes at random.
///
/// Time O(annotations · classes · subtypes) a pass, and O(workers · classes² · subtypes) digamma functions. Memory: 24
/// bytes for each worker, class squared and subtype, as many numbers again for each chunk of tasks (at most 8 bytes per
/// annotation in all, or 32 MB, or two tables, if that is more), and 4 bytes per annotation.
pub fn fit_subtypes(table: &Table, options: &SubtypesOptions<'_>, control: &Control) -> Result<SubtypesFit> {
    check(table, options)?;
    let mut model = Ebcc::new(table, options, control)?;
    let mut course = Course::default();
    model.passes.open(Model::Full, Opening::RandomKinds(options.n_subtypes, options.seed), &mut model.sums)?;
    while course.running(options.max_iter) {
        model.maximise();
        let objective = model.expect()? + model.log_prior;
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    model.found(course)
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors, as in a [`SubtypesFit`].
pub fn posterior_subtypes(
    table: &Table,
    class_concentration: &[f64],
    subtype_concentration: &[f64],
    concentration: &[f64],
    control: &Control,
) -> Result<Vec<f64>> {
    let k = table.n_labels();
    let n_subtypes = subtype_concentration.len() / k.max(1);
    let options = SubtypesOptions {
        n_subtypes,
        pseudo: &filled(1.0, k * k)?,
        class_pseudo: class_concentration,
        subtype_pseudo: 1.0,
        seed: 0,
        max_iter: 0,
        tol: 0.0,
    };
    check(table, &options)?;
    for (what, given, wanted) in [
        ("subtype_concentration", subtype_concentration, k * n_subtypes),
        ("concentration", concentration, table.n_workers() * k * k * n_subtypes),
    ] {
        finite(what, given)?;
        if given.len() != wanted {
            return Err(Error::invalid(format!("{what} holds {} numbers, not {wanted}", given.len())));
        }
    }
    let mut model = Ebcc::new(table, &options, control)?;
    model.classes.copy_from_slice(class_concentration);
    model.subtypes.copy_from_slice(subtype_concentration);
    let kinds = model.kinds();
    model.workers.par_chunks_mut(k * kinds).zip(concentration.par_chunks(k * kinds)).for_each(|(worker, given)| {
        worker.iter_mut().enumerate().for_each(|(i, a)| *a = given[(i % kinds) * k + i / kinds]);
    });
    model.write_factors();
    model.posterior()
}

fn check(table: &Table, options: &SubtypesOptions<'_>) -> Result<()> {
    let k = table.n_labels();
    for (what, given, wanted) in
        [("pseudo-counts", options.pseudo, k * k), ("class pseudo-counts", options.class_pseudo, k)]
    {
        if given.len() != wanted {
            return Err(Error::invalid(format!("{what} hold {} numbers, not {wanted}", given.len())));
        }
    }
    let mut priors = options.pseudo.iter().chain(options.class_pseudo).chain([&options.subtype_pseudo]);
    if priors.any(|a| !(a.is_finite() && *a > 0.0)) {
        return Err(Error::invalid("the parameters of Dirichlet priors must be positive"));
    }
    if options.n_subtypes == 0 {
        return Err(Error::invalid("there must be at least one subtype"));
    }
    Ok(())
}

/// Tables of one worker are label-first, (observed × kinds); a kind is class · subtypes + subtype.
struct Ebcc<'a> {
    options: &'a SubtypesOptions<'a>,
    passes: InMemory<'a>,
    sums: Sums,
    /// The prior of one worker's table.
    pseudo: Vec<f64>,
    /// Dirichlet parameters.
    workers: Vec<f64>,
    classes: Vec<f64>,
    subtypes: Vec<f64>,
    /// What the E-step reads of them: exp(E[ln p]).
    factors: Vec<f64>,
    prior: Vec<f64>,
    /// The part of the bound that does not depend on the labels.
    log_prior: f64,
}

impl<'a> Ebcc<'a> {
    fn new(table: &'a Table, options: &'a SubtypesOptions<'a>, control: &'a Control) -> Result<Self> {
        let (m, k) = (table.n_workers(), table.n_labels());
        let passes = InMemory::with_kinds(table, options.n_subtypes, control)?;
        let kinds = k * options.n_subtypes;
        let pseudo = (0..k * kinds).map(|i| options.pseudo[i % kinds / options.n_subtypes * k + i / kinds]);
        Ok(Self {
            options,
            sums: Sums::new(Model::Full, m, passes.shape())?,
            pseudo: collected(pseudo)?,
            workers: table_of(m * k * kinds)?,
            classes: vec![0.0; k],
            subtypes: vec![0.0; kinds],
            factors: table_of(m * k * kinds)?,
            prior: vec![0.0; kinds],
            log_prior: 0.0,
            passes,
        })
    }

    fn kinds(&self) -> usize {
        self.subtypes.len()
    }

    /// Dirichlet parameters from expected counts, and what the E-step reads of them.
    fn maximise(&mut self) {
        let (k, s) = (self.classes.len(), self.options.n_subtypes);
        let (counts, width) = (&self.sums.workers, self.pseudo.len());
        each_block(&mut self.workers, width, WORKERS, &|first, rows| {
            let counts = counts[first * width..].chunks_exact(width);
            for (worker, counts) in rows.chunks_exact_mut(width).zip(counts) {
                worker.iter_mut().zip(counts.iter().zip(&self.pseudo)).for_each(|(a, (n, b))| *a = b + n);
            }
        });
        self.subtypes.copy_from_slice(&self.sums.classes);
        for (class, subtypes) in self.subtypes.chunks_exact_mut(s).enumerate() {
            self.classes[class] = self.options.class_pseudo[class] + subtypes.iter().sum::<f64>();
            subtypes.iter_mut().for_each(|a| *a += self.options.subtype_pseudo);
        }
        let of_worker = |m: usize| divergence(&self.workers[m * width..(m + 1) * width], &self.pseudo, k * s);
        let workers = sum_blocks(self.workers.len() / width, WORKERS, &|block| block.map(of_worker).sum());
        let even = vec![self.options.subtype_pseudo; s];
        let mixtures: f64 = self.subtypes.chunks_exact(s).map(|mixture| divergence(mixture, &even, 1)).sum();
        self.log_prior = -workers - divergence(&self.classes, self.options.class_pseudo, 1) - mixtures;
        self.write_factors();
    }

    fn write_factors(&mut self) {
        let (kinds, s, width) = (self.kinds(), self.options.n_subtypes, self.pseudo.len());
        let workers = &self.workers;
        each_block(&mut self.factors, width, WORKERS, &|first, rows| {
            rows.copy_from_slice(&workers[first * width..first * width + rows.len()]);
            rows.chunks_exact_mut(width).for_each(|factors| geometric(factors, kinds));
        });
        let mut classes = self.classes.clone();
        geometric(&mut classes, 1);
        self.prior.copy_from_slice(&self.subtypes);
        for (mixture, class) in self.prior.chunks_exact_mut(s).zip(classes) {
            geometric(mixture, 1);
            mixture.iter_mut().for_each(|p| *p *= class);
        }
    }

    /// The E-step, into expected counts; returns the log-evidence.
    fn expect(&mut self) -> Result<f64> {
        let factors = Factors { workers: &self.factors, classes: &self.prior };
        self.sums.clear(&vec![0.0; self.prior.len()]);
        self.passes.gather(Model::Full, factors, Mode::default(), &mut self.sums)?;
        Ok(self.sums.log_evidence)
    }

    /// Posteriors of the classes, subtypes summed up, (tasks × classes).
    fn posterior(mut self) -> Result<Vec<f64>> {
        let factors = Factors { workers: &self.factors, classes: &self.prior };
        self.passes.conclude(Model::Full, factors)?;
        Ok(self.passes.take_posterior())
    }

    fn found(self, course: Course) -> Result<SubtypesFit> {
        let (k, s, kinds) = (self.classes.len(), self.options.n_subtypes, self.kinds());
        let mut mixture = self.subtypes.clone();
        mixture.chunks_exact_mut(s).for_each(normalise);
        let m = self.workers.len() / self.pseudo.len();
        let mut confusion = zeros(m * k * k)?;
        let mut concentration = zeros(self.workers.len())?;
        confusion.par_chunks_mut(k * k).zip(concentration.par_chunks_mut(k * kinds)).enumerate().for_each(
            |(w, (matrix, rows))| {
                let worker = &self.workers[w * k * kinds..(w + 1) * k * kinds];
                for (kind, row) in rows.chunks_exact_mut(k).enumerate() {
                    row.iter_mut().enumerate().for_each(|(label, a)| *a = worker[label * kinds + kind]);
                    let share = mixture[kind] / row.iter().sum::<f64>();
                    let class = kind / s * k;
                    matrix[class..class + k].iter_mut().zip(&*row).for_each(|(p, a)| *p += share * a);
                }
            },
        );
        let mut prior = self.classes.clone();
        normalise(&mut prior);
        let (class_concentration, subtype_concentration) = (self.classes.clone(), self.subtypes.clone());
        let solution = Solution { confusion, prior, course };
        let fit = solution.with(self.posterior()?);
        Ok(SubtypesFit { fit, concentration, class_concentration, subtype_concentration })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    const PSEUDO: [f64; 9] = [4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 4.0];

    fn options(n_subtypes: usize) -> SubtypesOptions<'static> {
        SubtypesOptions {
            n_subtypes,
            pseudo: &PSEUDO,
            class_pseudo: &[1.0; 3],
            subtype_pseudo: 0.1,
            seed: 1,
            max_iter: 20,
            tol: 0.0,
        }
    }

    proptest! {
        #[test]
        fn the_bound_never_falls(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..3), 1..120),
            n_subtypes in 1_usize..4, weighted in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 3]);
            let result = fit_subtypes(&table, &options(n_subtypes), &Control::default()).unwrap();
            for pair in result.fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", result.fit.history);
            }
            for row in result.fit.posterior.chunks_exact(3).chain(result.fit.confusion.chunks_exact(3)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let again = posterior_subtypes(
                &table,
                &result.class_concentration,
                &result.subtype_concentration,
                &result.concentration,
                &Control::default(),
            );
            for (a, b) in again.unwrap().iter().zip(&result.fit.posterior) {
                prop_assert!((a - b).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn bad_options_are_named() {
        let table = of_rows(&[(0, 0, 0)], None, [15, 6, 3]);
        let fails = |options: &SubtypesOptions<'_>| fit_subtypes(&table, options, &Control::default()).is_err();
        assert!(fails(&options(0)));
        assert!(fails(&SubtypesOptions { pseudo: &[1.0; 4], ..options(2) }));
        assert!(fails(&SubtypesOptions { subtype_pseudo: 0.0, ..options(2) }));
    }
}
