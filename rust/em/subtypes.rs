//! Classes of several subtypes (EBCC): workers err independently given a task's class and subtype, so that they depend on
//! one another given the class alone. Mean-field variational Bayes.
//!
//! Class k has subtype s with probability `mixture[k, s]`; worker w then answers l with probability `v[w, k, s, l]`. Pairs
//! of class and subtype are the *kinds* of a task: to a pass they are so many classes, of which each annotation touches one
//! number each.

use std::marker::PhantomData;
use std::ops::Range;

use rayon::prelude::*;

use super::engine::{Cells, table_of, with_cells};
use super::estimate::{divergence, geometric};
use super::full::Full;
use super::pass::{Cell, Columns, Counts, Free, Likelihood, PLAIN, Settle, Sink, Source, Width, run, with_width};
use super::{Fit, Run, finite};
use crate::control::Control;
use crate::memory::{clear, collected, filled, zeros};
use crate::num::{GOLDEN, LogProduct, normalise, scramble, to_unit};
use crate::table::Table;
use crate::{Error, Result};

/// Everything [`fit_subtypes`] can be told; pseudo-counts are the parameters of Dirichlet priors, all positive.
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
/// Time O(annotations · classes · subtypes) a pass, and O(workers · classes² · subtypes) digamma functions. Memory: 16
/// bytes for each worker, class squared and subtype, as many numbers again for each chunk of tasks (at most 8 bytes an
/// annotation in all, or 32 MB, or two tables, if that is more), and 4 bytes an annotation.
pub fn fit_subtypes(table: &Table, options: &SubtypesOptions<'_>, control: &Control) -> Result<SubtypesFit> {
    check(table, options)?;
    let mut model = Ebcc::new(table, options, control)?;
    let mut course = Run::default();
    model.open(options.seed)?;
    while course.n_iter < options.max_iter && !course.converged {
        model.maximise();
        let objective = model.expect(None)? + model.log_prior;
        let last = course.history.last().copied();
        course.record(objective, control);
        course.converged = course.settled(last, options.tol);
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
    let k = table.n_classes();
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
    let mut posterior = zeros(table.n_tasks() * k)?;
    model.expect(Some(&mut posterior))?;
    Ok(posterior)
}

fn check(table: &Table, options: &SubtypesOptions<'_>) -> Result<()> {
    let k = table.n_classes();
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

/// A run of tasks and the sums over it.
struct Chunk {
    tasks: Range<usize>,
    workers: Vec<f64>,
    kinds: Vec<f64>,
    log_evidence: f64,
}

/// Tables of one worker are label-first, (observed × kinds); a kind is class · subtypes + subtype.
struct Ebcc<'a> {
    table: &'a Table,
    options: &'a SubtypesOptions<'a>,
    control: &'a Control,
    cells: Cells,
    /// The prior of one worker's table.
    pseudo: Vec<f64>,
    /// Dirichlet parameters.
    workers: Vec<f64>,
    classes: Vec<f64>,
    subtypes: Vec<f64>,
    /// What the E-step reads of them: exp(E[ln p]), or its logarithm where annotations have weights.
    factors: Vec<f64>,
    prior: Vec<f64>,
    chunks: Vec<Chunk>,
    /// The part of the bound that does not depend on the labels.
    log_prior: f64,
}

fn n_chunks(table: &Table, numbers: usize) -> usize {
    const SMALL: usize = 1 << 22;
    const ROWS_PER_CHUNK: usize = 1 << 15;
    const MOST_CHUNKS: usize = 32;
    let room = SMALL.max(table.len()) / numbers.max(1);
    table.len().div_ceil(ROWS_PER_CHUNK).clamp(1, MOST_CHUNKS).min(room.max(2))
}

/// The sum of a part of all chunks, by blocks, in their order, on top of what is there.
fn add_chunks(chunks: &[Chunk], part: impl Fn(&Chunk) -> &[f64] + Sync, sums: &mut [f64]) {
    const BLOCK: usize = 1 << 12;
    sums.par_chunks_mut(BLOCK).enumerate().for_each(|(block, sums)| {
        for chunk in chunks {
            sums.iter_mut().zip(&part(chunk)[block * BLOCK..]).for_each(|(sum, x)| *sum += x);
        }
    });
}

impl<'a> Ebcc<'a> {
    fn new(table: &'a Table, options: &'a SubtypesOptions<'a>, control: &'a Control) -> Result<Self> {
        let (m, k) = (table.n_workers(), table.n_classes());
        let kinds = k * options.n_subtypes;
        let numbers = m * k * kinds;
        let chunk = |tasks| Chunk { tasks, workers: vec![], kinds: vec![0.0; kinds], log_evidence: 0.0 };
        let pseudo = (0..k * kinds).map(|i| options.pseudo[i % kinds / options.n_subtypes * k + i / kinds]);
        Ok(Self {
            table,
            options,
            control,
            cells: Cells::new(table)?,
            pseudo: collected(pseudo)?,
            workers: table_of(numbers)?,
            classes: vec![0.0; k],
            subtypes: vec![0.0; kinds],
            factors: table_of(numbers)?,
            prior: vec![0.0; kinds],
            chunks: table.chunks(n_chunks(table, numbers)).into_iter().map(chunk).collect(),
            log_prior: 0.0,
        })
    }

    fn kinds(&self) -> usize {
        self.subtypes.len()
    }

    /// Dirichlet parameters from the chunks' counts, and what the E-step reads of them.
    fn maximise(&mut self) {
        let (k, s) = (self.classes.len(), self.options.n_subtypes);
        self.workers.par_chunks_mut(self.pseudo.len()).for_each(|worker| worker.copy_from_slice(&self.pseudo));
        add_chunks(&self.chunks, |chunk| &chunk.workers, &mut self.workers);
        self.subtypes.fill(0.0);
        add_chunks(&self.chunks, |chunk| &chunk.kinds, &mut self.subtypes);
        for (class, subtypes) in self.subtypes.chunks_exact_mut(s).enumerate() {
            self.classes[class] = self.options.class_pseudo[class] + subtypes.iter().sum::<f64>();
            subtypes.iter_mut().for_each(|a| *a += self.options.subtype_pseudo);
        }
        let of_worker = |worker: &[f64]| divergence(worker, &self.pseudo, k * s);
        // By blocks of workers, in order.
        let blocks: Vec<f64> = self
            .workers
            .par_chunks(64 * self.pseudo.len())
            .map(|block| block.chunks_exact(self.pseudo.len()).map(of_worker).sum())
            .collect();
        let even = vec![self.options.subtype_pseudo; s];
        let mixtures: f64 = self.subtypes.chunks_exact(s).map(|mixture| divergence(mixture, &even, 1)).sum();
        self.log_prior =
            -blocks.iter().sum::<f64>() - divergence(&self.classes, self.options.class_pseudo, 1) - mixtures;
        self.write_factors();
    }

    fn write_factors(&mut self) {
        let (kinds, s, log) = (self.kinds(), self.options.n_subtypes, self.table.weights().is_some());
        let width = self.pseudo.len();
        self.factors.par_chunks_mut(width).zip(self.workers.par_chunks(width)).for_each(|(factors, worker)| {
            factors.copy_from_slice(worker);
            geometric(factors, kinds);
            if log {
                factors.iter_mut().for_each(|f| *f = f.ln());
            }
        });
        let mut classes = self.classes.clone();
        geometric(&mut classes, 1);
        self.prior.copy_from_slice(&self.subtypes);
        for (mixture, class) in self.prior.chunks_exact_mut(s).zip(classes) {
            geometric(mixture, 1);
            mixture.iter_mut().for_each(|p| *p *= class);
        }
        if log {
            self.prior.iter_mut().for_each(|p| *p = p.ln());
        }
    }

    /// Counts from shares of the votes, divided among subtypes at random.
    fn open(&mut self, seed: u64) -> Result<()> {
        let n_subtypes = self.options.n_subtypes;
        let Self { table, control, cells, chunks, .. } = self;
        let sweep = Sweep { table, control, k: table.n_classes(), n_subtypes };
        with_cells!(&*cells, |cells| {
            let columns = Columns { cells, weights: table.weights().unwrap_or(&[]) };
            sweep.gather(chunks, Free(sweep.k * n_subtypes), &Opening { columns, sweep: &sweep, seed }, columns, None)
        })
    }

    /// The E-step, into the chunks' counts, or into posteriors of the classes if there is room for them.
    fn expect(&mut self, posterior: Option<&mut [f64]>) -> Result<f64> {
        let (kinds, n_subtypes) = (self.kinds(), self.options.n_subtypes);
        let Self { table, control, cells, factors, prior, chunks, .. } = self;
        let sweep = Sweep { table, control, k: table.n_classes(), n_subtypes };
        let weights = table.weights().unwrap_or(&[]);
        match (&*cells, weights.is_empty()) {
            (Cells::Narrow(cells), true) => with_width!(kinds, |width| {
                let columns = Columns { cells, weights };
                let source = Likelihood::<Full, _, false>::new(columns, factors, prior);
                sweep.gather(chunks, width, &source, columns, posterior)
            }),
            (cells, plain) => with_cells!(cells, |cells| {
                let (columns, width) = (Columns { cells, weights }, Free(kinds));
                if plain {
                    let source = Likelihood::<Full, _, false>::new(columns, factors, prior);
                    sweep.gather(chunks, width, &source, columns, posterior)
                } else {
                    let source = Likelihood::<Full, _, true>::new(columns, factors, prior);
                    sweep.gather(chunks, width, &source, columns, posterior)
                }
            }),
        }?;
        Ok(self.chunks.iter().map(|chunk| chunk.log_evidence).sum())
    }

    fn found(mut self, course: Run) -> Result<SubtypesFit> {
        let mut posterior = zeros(self.table.n_tasks() * self.classes.len())?;
        self.expect(Some(&mut posterior))?;
        let (k, s, kinds) = (self.classes.len(), self.options.n_subtypes, self.kinds());
        let mut mixture = self.subtypes.clone();
        mixture.chunks_exact_mut(s).for_each(normalise);
        let mut confusion = zeros(self.table.n_workers() * k * k)?;
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
        Ok(SubtypesFit {
            fit: course.finish(posterior, confusion, prior),
            concentration,
            class_concentration: self.classes,
            subtype_concentration: self.subtypes,
        })
    }
}

/// What all passes over the table have in common.
#[derive(Clone, Copy)]
struct Sweep<'a> {
    table: &'a Table,
    control: &'a Control,
    k: usize,
    n_subtypes: usize,
}

impl Sweep<'_> {
    fn gather<C: Cell>(
        &self,
        chunks: &mut [Chunk],
        width: impl Width,
        source: &impl Source,
        columns: Columns<'_, C>,
        posterior: Option<&mut [f64]>,
    ) -> Result<()> {
        match posterior {
            Some(posterior) => self.fold(chunks, width, source, posterior),
            None if columns.weights.is_empty() => self.count::<C, false>(chunks, width, source, columns),
            None => self.count::<C, true>(chunks, width, source, columns),
        }
    }

    fn count<C: Cell, const WEIGHTED: bool>(
        &self,
        chunks: &mut [Chunk],
        width: impl Width,
        source: &impl Source,
        columns: Columns<'_, C>,
    ) -> Result<()> {
        let numbers = self.table.n_workers() * self.k * self.k * self.n_subtypes;
        chunks.par_iter_mut().try_for_each(|chunk| {
            clear(&mut chunk.workers, numbers)?;
            chunk.kinds.fill(0.0);
            let (workers, classes) = (&mut chunk.workers, &mut chunk.kinds);
            let mut sink = Counts::<Full, C, WEIGHTED> { columns, workers, classes, model: PhantomData };
            chunk.log_evidence = self.run(chunk.tasks.clone(), width, source, &mut sink)?;
            Ok(())
        })
    }

    fn fold(&self, chunks: &mut [Chunk], width: impl Width, source: &impl Source, posterior: &mut [f64]) -> Result<()> {
        let mut rest = posterior;
        let mut work = vec![];
        for chunk in chunks {
            let (rows, tail) = rest.split_at_mut(chunk.tasks.len() * self.k);
            rest = tail;
            work.push((chunk, rows));
        }
        work.into_par_iter().try_for_each(|(chunk, rows)| {
            let mut sink = Folded { out: rows.chunks_exact_mut(self.k), n_subtypes: self.n_subtypes };
            chunk.log_evidence = self.run(chunk.tasks.clone(), width, source, &mut sink)?;
            Ok(())
        })
    }

    fn run(&self, tasks: Range<usize>, width: impl Width, source: &impl Source, sink: &mut impl Sink) -> Result<f64> {
        let settle = Settle { gold: None, hard: false };
        run::<PLAIN>(self.table, tasks, width, source, sink, settle, self.control)
    }
}

/// Shares of the votes; each class's is divided among its subtypes as evenly distributed numbers happen to.
struct Opening<'a, C> {
    columns: Columns<'a, C>,
    sweep: &'a Sweep<'a>,
    seed: u64,
}

impl<C: Cell> Source for Opening<'_, C> {
    fn far(&self) -> bool {
        false
    }
    fn prefetch(&self, _: usize, _: usize) {}

    fn evidence(&self, task: usize, rows: Range<usize>, evidence: &mut [f64], _: &mut LogProduct) {
        let (k, s) = (self.sweep.k, self.sweep.n_subtypes);
        let mut votes = vec![0.0; k];
        for row in rows {
            votes[self.columns.cells[row].index() % k] += self.columns.weights.get(row).unwrap_or(&1.0);
        }
        // A task without votes of positive weight could be anything: equal shares.
        normalise(&mut votes);
        for (class, (kinds, share)) in evidence.chunks_exact_mut(s).zip(votes).enumerate() {
            for (subtype, e) in kinds.iter_mut().enumerate() {
                let i = ((task * k + class) * s + subtype) as u64;
                // Exponential variables, divided by their sum, are uniformly distributed on the simplex.
                *e = -(1.0 - to_unit(scramble(self.seed.wrapping_add((i + 1).wrapping_mul(GOLDEN))))).ln();
            }
            normalise(kinds);
            kinds.iter_mut().for_each(|e| *e *= share);
        }
    }
}

/// Writes posteriors of the classes, subtypes summed up.
struct Folded<'a> {
    out: std::slice::ChunksExactMut<'a, f64>,
    n_subtypes: usize,
}

impl Sink for Folded<'_> {
    fn far(&self) -> bool {
        false
    }
    fn prefetch(&self, _: usize, _: usize) {}

    fn put(&mut self, _: Range<usize>, posterior: &[f64]) {
        if let Some(row) = self.out.next() {
            row.iter_mut().zip(posterior.chunks_exact(self.n_subtypes)).for_each(|(p, kinds)| *p = kinds.iter().sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::of_rows;
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
            let found = fit_subtypes(&table, &options(n_subtypes), &Control::default()).unwrap();
            for pair in found.fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", found.fit.history);
            }
            for row in found.fit.posterior.chunks_exact(3).chain(found.fit.confusion.chunks_exact(3)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let again = posterior_subtypes(
                &table,
                &found.class_concentration,
                &found.subtype_concentration,
                &found.concentration,
                &Control::default(),
            );
            for (a, b) in again.unwrap().iter().zip(&found.fit.posterior) {
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
