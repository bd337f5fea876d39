//! Workers who belong to communities: each worker's confusion matrix is drawn around the prototype of one of a few.
//!
//! Worker w belongs to community c with probability `shares[c]`; row k of their confusion matrix is then drawn from a
//! Dirichlet distribution with mean `prototypes[c, k]` and a prior strength that all share. With infinite prior
//! strength workers of a community are all alike. Classes, and memberships together with matrices, have independent
//! variational distributions; prototypes, shares, prior strength and class prior are the most probable ones. A pass
//! improves each in turn, so the bound never falls.

use rayon::prelude::*;

use super::estimate::{Given, floor_and_normalise};
use super::hierarchy::{Common, add, row, sum_over};
use super::model::full::Full;
use super::shard::InMemory;
use super::solver::{Params, Solver};
use super::{Fit, Options, Solution, finite, protected, sizes, validate_gold, validate_loop};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{collected, filled, par_tried, with_room, zeros};
use crate::base::num::{FLOOR, normalise, softmax};
use crate::base::special::{digamma, ln_gamma};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Improvements of memberships and prototypes between two passes.
const ROUNDS: usize = 2;

/// Bounds of a learned prior strength.
const BOUNDS: (f64, f64) = (1e-1, 1e4);

/// The prior strength that learning begins with.
const FIRST: f64 = 10.0;

/// No entry of a prototype is below this.
const LEAST: f64 = 1e-12;

/// Arguments of [`fit_community`].
#[derive(Debug, Clone, Copy)]
pub struct CommunityOptions<'a> {
    /// Prototypes to start from, (communities × true × observed).
    pub prototypes: &'a [f64],
    /// Prior strength of the prototypes, learned where none is given.
    pub strength: Option<f64>,
    /// Pseudo-counts of each prototype, (true × observed), all positive.
    pub pseudo: &'a [f64],
    /// Pseudo-counts of the communities' shares.
    pub share_pseudo: f64,
    /// The rest.
    pub common: Common<'a>,
}

/// What [`fit_community`] found.
#[derive(Debug, Clone)]
pub struct CommunityFit {
    /// Posterior means of confusion matrices, the posteriors of classes under them, and how the bound went.
    pub fit: Fit,
    /// How probably each worker belongs to each community, (workers × communities).
    pub membership: Vec<f64>,
    /// Prototypes, (communities × true × observed).
    pub prototypes: Vec<f64>,
    /// Shares of the communities.
    pub shares: Vec<f64>,
    /// Prior strength of the prototypes.
    pub strength: f64,
}

/// Fits by alternating passes over the annotations and improvements of the communities.
///
/// A pass takes O(annotations · classes) and O(workers · communities · classes²) gamma functions; memory as
/// [`super::fit`], and a number for each worker and community.
pub fn fit_community(table: &Table, options: &CommunityOptions<'_>, control: &Control) -> Result<CommunityFit> {
    let k = table.n_labels();
    check(options, k)?;
    let common = &options.common;
    let none = zeros(k * k)?;
    let plain = Options { gold: common.gold, ..Options::of_priors(&none, common.class_pseudo) };
    validate_gold(table, common.gold)?;
    validate_loop(sizes(table), &plain)?;
    let mut communities = Communities::new(options, table.n_workers(), k)?;
    let mut passes = InMemory::new(table, common.gold, control)?;
    let mut solver = Solver::<Full, Given>::new(sizes(table), &plain, control)?;
    let mut course = Course::default();
    let mut amend = |params: &mut Params| -> Result<()> {
        communities.improve(&params.workers, control)?;
        params.log_prior = communities.write_factors(&mut params.workers, control)?;
        params.log_prior += settle_classes(&mut params.prior, common.class_pseudo);
        Ok(())
    };
    let accuracy = protected::shared_accuracy(&mut passes, sizes(table), control)?;
    let mut params = solver.shared(accuracy)?;
    let limits = protected::limits(common.protected, common.tol);
    protected::keep_to_votes(&mut solver, &mut passes, &mut params, limits, &mut course, &mut amend)?;
    if course.n_iter == 0 {
        // The start is one accuracy for all workers: the result of a pass is not a bound on the communities' evidence.
        solver.step(&mut passes, &mut params)?;
        amend(&mut params)?;
    }
    let most = course.n_iter + common.max_iter;
    loop {
        let objective = solver.step(&mut passes, &mut params)?;
        course.advance(objective, Tolerance::Share(common.tol), control);
        if course.n_iter >= most || course.converged {
            break;
        }
        amend(&mut params)?;
    }
    communities.write_means(&mut params.workers, control)?;
    settle_classes(&mut params.prior, common.class_pseudo);
    solver.conclude(&mut passes, &params)?;
    let solution = Solution { confusion: solver.confusion(params.workers)?, prior: params.prior, course };
    communities.found(solution.with(passes.take_posterior()))
}

fn check(options: &CommunityOptions<'_>, k: usize) -> Result<()> {
    let n = options.prototypes.len();
    if n == 0 || !n.is_multiple_of(k * k) || options.pseudo.len() != k * k {
        return Err(Error::invalid(format!("{n} numbers do not make prototypes of {k} classes")));
    }
    finite("the prototypes", options.prototypes)?;
    if options.strength.is_some_and(|s| s.is_nan() || s <= 0.0) {
        return Err(Error::invalid("strength must be positive"));
    }
    if options.pseudo.iter().chain([&options.share_pseudo]).any(|a| !(a.is_finite() && *a >= 0.0)) {
        return Err(Error::invalid("pseudo-counts must be finite and at least 0"));
    }
    Ok(())
}

/// The most probable class prior in place of counts; returns the log-density that pseudo-counts give it.
fn settle_classes(prior: &mut [f64], pseudo: &[f64]) -> f64 {
    floor_and_normalise(prior);
    prior.iter().zip(pseudo).map(|(p, a)| a * p.ln()).sum()
}

/// What is learned. Tables of one worker or prototype are label-first, as those of the full model.
struct Communities {
    k: usize,
    /// Number of communities.
    n: usize,
    prototypes: Vec<f64>,
    shares: Vec<f64>,
    strength: f64,
    learn_strength: bool,
    pseudo: Vec<f64>,
    share_pseudo: f64,
    membership: Vec<f64>,
}

fn transposed(matrix: &[f64], k: usize) -> impl ExactSizeIterator<Item = f64> {
    (0..k * k).map(move |i| matrix[(i % k) * k + i / k])
}

fn all_transposed(matrices: &[f64], k: usize) -> Result<Vec<f64>> {
    let mut all = with_room(matrices.len())?;
    matrices.chunks_exact(k * k).for_each(|matrix| all.extend(transposed(matrix, k)));
    Ok(all)
}

impl Communities {
    fn new(options: &CommunityOptions<'_>, m: usize, k: usize) -> Result<Self> {
        let n = options.prototypes.len() / (k * k);
        let mut new = Self {
            k,
            n,
            prototypes: all_transposed(options.prototypes, k)?,
            shares: vec![1.0 / n as f64; n],
            strength: options.strength.unwrap_or(FIRST),
            learn_strength: options.strength.is_none(),
            pseudo: collected(transposed(options.pseudo, k))?,
            share_pseudo: options.share_pseudo,
            membership: filled(1.0 / n as f64, m * n)?,
        };
        new.normalise_prototypes();
        Ok(new)
    }

    fn normalise_prototypes(&mut self) {
        for prototype in self.prototypes.chunks_exact_mut(self.k * self.k) {
            for class in 0..self.k {
                let total: f64 = prototype.iter().skip(class).step_by(self.k).sum();
                prototype.iter_mut().skip(class).step_by(self.k).for_each(|p| *p = (*p / total).max(LEAST));
            }
        }
    }

    fn prototype(&self, community: usize) -> &[f64] {
        &self.prototypes[row(community, self.k * self.k)]
    }

    /// Totals of the labels that a worker gave to each class.
    fn totals(&self, counts: &[f64]) -> Vec<f64> {
        let mut totals = vec![0.0; self.k];
        counts.chunks_exact(self.k).for_each(|row| add(&mut totals, row));
        totals
    }

    /// The log-probability of a worker's answers if they belong to the community, their matrix integrated out.
    fn log_evidence(&self, community: usize, counts: &[f64], totals: &[f64]) -> f64 {
        let cells = counts.iter().zip(self.prototype(community)).filter(|(n, _)| **n > 0.0);
        if self.strength.is_infinite() {
            return cells.map(|(n, p)| n * p.ln()).sum();
        }
        let s = self.strength;
        let evidence: f64 = cells.map(|(n, p)| ln_gamma(n + s * p) - ln_gamma(s * p)).sum();
        evidence - totals.iter().filter(|n| **n > 0.0).map(|n| ln_gamma(n + s) - ln_gamma(s)).sum::<f64>()
    }

    /// Sets one worker's memberships; returns the log-probability of their answers.
    fn write_membership(&self, counts: &[f64], membership: &mut [f64]) -> f64 {
        let totals = self.totals(counts);
        for (community, r) in membership.iter_mut().enumerate() {
            *r = self.shares[community].ln() + self.log_evidence(community, counts, &totals);
        }
        softmax(membership)
    }

    /// Sets all memberships; returns the log-probability of each worker's answers.
    fn set_memberships(&mut self, counts: &[f64], control: &Control) -> Result<Vec<f64>> {
        let mut membership = std::mem::take(&mut self.membership);
        let workers = membership.par_chunks_mut(self.n).zip(counts.par_chunks(self.k * self.k));
        let log = |(membership, counts): (&mut [f64], &[f64])| {
            control.check()?;
            Ok(self.write_membership(counts, membership))
        };
        let logs = par_tried(workers.map(log));
        self.membership = membership;
        logs
    }

    /// Improves memberships, prototypes, shares and prior strength by the expected counts of all workers.
    fn improve(&mut self, counts: &[f64], control: &Control) -> Result<()> {
        let (size, n) = (self.k * self.k, self.n);
        for _ in 0..ROUNDS {
            self.set_memberships(counts, control)?;
            // Draws from the prototypes, then memberships, then what is expected of the rows for one unit of prior
            // strength.
            let sums = sum_over(counts.len() / size, n * size + n + 1, control, |worker, sums| {
                self.gather(&counts[row(worker, size)], &self.membership[row(worker, n)], sums);
            })?;
            let (draws, rest) = sums.split_at(n * size);
            for (prototype, draws) in self.prototypes.chunks_exact_mut(size).zip(draws.chunks_exact(size)) {
                let total = prototype.iter_mut().zip(draws.iter().zip(&self.pseudo));
                total.for_each(|(p, (d, a))| *p = d + a);
            }
            self.normalise_prototypes();
            if self.learn_strength && rest[n] > 0.0 {
                self.strength = (draws.iter().sum::<f64>() / rest[n]).clamp(BOUNDS.0, BOUNDS.1);
            }
            self.shares = rest[..n].iter().map(|r| r + self.share_pseudo).collect();
            normalise(&mut self.shares);
            self.shares.iter_mut().for_each(|r| *r = r.max(FLOOR));
        }
        Ok(())
    }

    /// Adds the evidence of one worker about the prototypes.
    ///
    /// Of the answers in a cell, the expected number of draws from the prototype itself is what the prior strength
    /// leaves of them (tables of a Chinese restaurant); all of them where it is infinite. They bound the evidence from
    /// below.
    fn gather(&self, counts: &[f64], membership: &[f64], sums: &mut [f64]) {
        let (size, n, s) = (self.k * self.k, self.n, self.strength);
        for (community, r) in membership.iter().enumerate() {
            sums[n * size + community] += r;
            let cells = counts.iter().zip(self.prototype(community)).zip(&mut sums[row(community, size)]);
            for ((count, p), sum) in cells.filter(|((count, _), _)| **count > 0.0) {
                let draws = if s.is_infinite() { *count } else { s * p * (digamma(count + s * p) - digamma(s * p)) };
                *sum += r * draws;
            }
        }
        if s.is_finite() {
            let gain = |total: f64| if total > 0.0 { digamma(total + s) - digamma(s) } else { 0.0 };
            sums[n * size + n] += self.totals(counts).into_iter().map(gain).sum::<f64>();
        }
    }

    /// Puts what the E-step reads in the place of counts; returns the part of the bound that does not depend on
    /// classes.
    fn write_factors(&mut self, workers: &mut [f64], control: &Control) -> Result<f64> {
        let (k, size) = (self.k, self.k * self.k);
        let evidence = self.set_memberships(workers, control)?;
        let log_likelihoods: Vec<f64> = workers
            .par_chunks_mut(size)
            .zip(self.membership.par_chunks(self.n))
            .map(|(counts, membership)| {
                control.check()?;
                let mut factors = zeros::<f64>(size)?;
                let totals = self.totals(counts);
                for (community, r) in membership.iter().enumerate() {
                    for (i, p) in self.prototype(community).iter().enumerate() {
                        factors[i] += r * self.expected_log(*p, counts[i], totals[i % k]);
                    }
                }
                let log_likelihood: f64 = counts.iter().zip(&factors).map(|(n, f)| n * f).sum();
                counts.iter_mut().zip(&factors).for_each(|(c, f)| *c = f.exp().max(FLOOR));
                Ok(log_likelihood)
            })
            .collect::<Result<_>>()?;
        let priors = self.prototypes.iter().zip(self.pseudo.iter().cycle()).map(|(p, a)| a * p.ln()).sum::<f64>()
            + self.shares.iter().map(|r| self.share_pseudo * r.ln()).sum::<f64>();
        Ok(evidence.iter().zip(&log_likelihoods).map(|(a, b)| a - b).sum::<f64>() + priors)
    }

    /// E[ln p] of an entry of a worker's matrix, after this many such answers of this many.
    fn expected_log(&self, prototype: f64, count: f64, total: f64) -> f64 {
        if self.strength.is_infinite() {
            return prototype.ln();
        }
        digamma(count + self.strength * prototype) - digamma(total + self.strength)
    }

    /// Puts expected confusion matrices in the place of counts.
    fn write_means(&mut self, workers: &mut [f64], control: &Control) -> Result<()> {
        self.set_memberships(workers, control)?;
        workers.par_chunks_mut(self.k * self.k).zip(self.membership.par_chunks(self.n)).for_each(
            |(counts, membership)| {
                let totals = self.totals(counts);
                for (i, count) in counts.iter_mut().enumerate() {
                    let total = totals[i % self.k];
                    let mean = |p: f64| {
                        let s = self.strength;
                        if s.is_infinite() { p } else { (*count + s * p) / (total + s) }
                    };
                    let sum = membership.iter().enumerate().map(|(c, r)| r * mean(self.prototype(c)[i])).sum();
                    *count = sum;
                }
            },
        );
        Ok(())
    }

    fn found(self, fit: Fit) -> Result<CommunityFit> {
        let prototypes = all_transposed(&self.prototypes, self.k)?;
        Ok(CommunityFit { fit, membership: self.membership, prototypes, shares: self.shares, strength: self.strength })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    fn options(strength: Option<f64>) -> CommunityOptions<'static> {
        const PROTOTYPES: [f64; 18] =
            [0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.1, 0.1, 0.8, 0.4, 0.3, 0.3, 0.3, 0.4, 0.3, 0.3, 0.3, 0.4];
        CommunityOptions {
            prototypes: &PROTOTYPES,
            strength,
            pseudo: &[2.0, 0.5, 0.5, 0.5, 2.0, 0.5, 0.5, 0.5, 2.0],
            share_pseudo: 1.0,
            common: Common { class_pseudo: &[1.0; 3], gold: None, protected: 2, max_iter: 20, tol: 0.0 },
        }
    }

    proptest! {
        #[test]
        fn the_bound_never_falls(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..3), 1..120),
            strength in prop::sample::select(vec![None, Some(3.0), Some(f64::INFINITY)]),
            protected in 0_usize..3,
        ) {
            let mut options = options(strength);
            options.common.protected = protected;
            let fit = fit_community(&of_rows(&rows, None, [15, 6, 3]), &options, &Control::default()).unwrap();
            for pair in fit.fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", fit.fit.history);
            }
            for row in fit.fit.confusion.chunks_exact(3).chain(fit.prototypes.chunks_exact(3)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            prop_assert!(fit.membership.chunks_exact(2).all(|r| (r[0] + r[1] - 1.0).abs() < 1e-12));
        }
    }

    #[test]
    fn answers_that_no_prototype_allows_leave_the_bound_finite() {
        // Without pseudo-counts a prototype may lose a cell, in which a later worker answers.
        let rows: Vec<(u32, u32, u16)> = (0..60).map(|i| (i % 15, i % 6, (i % 15 / 5) as u16)).collect();
        let mut none = CommunityOptions { pseudo: &[0.0; 9], ..options(Some(f64::INFINITY)) };
        none.common.max_iter = 50;
        let fit = fit_community(&of_rows(&rows, None, [15, 6, 3]), &none, &Control::default()).unwrap();
        assert!(fit.fit.history.iter().chain(&fit.fit.posterior).chain(&fit.prototypes).all(|x| x.is_finite()));
        assert!(fit.prototypes.iter().all(|p| *p >= LEAST));
    }

    #[test]
    fn bad_options_are_named() {
        let table = of_rows(&[(0, 0, 0)], None, [15, 6, 3]);
        let fails = |options: &CommunityOptions<'_>| fit_community(&table, options, &Control::default()).is_err();
        assert!(fails(&CommunityOptions { prototypes: &[0.5; 4], ..options(None) }));
        assert!(fails(&options(Some(0.0))));
        assert!(fails(&CommunityOptions { share_pseudo: -1.0, ..options(None) }));
    }
}
