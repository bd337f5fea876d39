//! Passes in parallel, and the M-step.
//!
//! Memory beside the table and the parameters (workers × classes² doubles for the full model): 4 bytes an annotation for
//! its cell (8 where workers × classes passes 2³²), and a table of counts per chunk in the fused plan, at most 8 bytes an
//! annotation in all (or 32 MB, if that is more); in the two-pass plan the table in worker order (5 to 6 bytes an
//! annotation) and the posteriors, which are the result anyway.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::estimate::Estimate;
use super::pass::{
    Cell, Columns, Counts, Free, Likelihood, Open, Opening, PLAIN, Rows, Settle, Source, Width, run, with_width,
};
use super::{Options, Start, WorkerModel};
use crate::Result;
use crate::control::Control;
use crate::memory::{clear, copied, filled, large_pages, par_collected, prefetch, ready, zeros};
use crate::table::{Label, Table, WorkerOrder, with_labels};

/// Parameters of one fit, and the log-density their prior gives them.
#[derive(Debug)]
pub(super) struct Params {
    pub workers: Vec<f64>,
    pub prior: Vec<f64>,
    pub log_prior: f64,
}

impl Params {
    pub fn copy(&self) -> Result<Self> {
        let (workers, prior) = (copied(&self.workers)?, self.prior.clone());
        Ok(Self { workers, prior, log_prior: self.log_prior })
    }
}

/// How expected counts are gathered. Chosen by the sizes of the data, so that the sums are the same on any machine.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// Each chunk of tasks adds to a table of its own as it goes; the tables are then added up.
    Fused,
    /// Posteriors are stored; each worker's counts are then gathered in worker order.
    TwoPass,
}

/// Runs passes for one worker model over one table.
pub(super) struct Engine<'a, W, P> {
    table: &'a Table,
    control: &'a Control,
    gold: Option<&'a [i32]>,
    pseudo: Vec<f64>,
    class_pseudo: &'a [f64],
    plan: Plan,
    chunks: Vec<Chunk>,
    /// Posteriors between the two halves of a two-pass step.
    posterior: Vec<f64>,
    /// What the E-step reads, where that is not the parameters themselves.
    factors: Vec<f64>,
    cells: Arc<Cells>,
    /// Whether a task may only have a class that somebody voted for.
    pub voted_only: bool,
    model: PhantomData<(W, P)>,
}

/// Worker · classes + label of each annotation, as narrow as the product allows.
pub(super) enum Cells {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Runs `$body` with `$cells` bound to the slice, compiled once per width.
macro_rules! with_cells {
    ($all:expr, |$cells:ident| $body:expr) => {
        match $all {
            Cells::Narrow($cells) => $body,
            Cells::Wide($cells) => $body,
        }
    };
}

pub(super) use with_cells;

impl Cells {
    pub fn new(table: &Table) -> Result<Self> {
        let k = table.n_classes() as u64;
        let cell = |(worker, label): (&u32, usize)| u64::from(*worker) * k + label as u64;
        with_labels!(table.labels(), |labels| {
            let pairs = table.workers().par_iter().zip(labels.par_iter().map(|label| label.code()));
            Ok(if k * table.n_workers() as u64 <= 1 << 32 {
                Self::Narrow(par_collected(pairs.map(|pair| cell(pair) as u32))?)
            } else {
                Self::Wide(par_collected(pairs.map(cell))?)
            })
        })
    }
}

/// A run of tasks and the sums over it.
struct Chunk {
    tasks: Range<usize>,
    workers: Vec<f64>,
    classes: Vec<f64>,
    log_evidence: f64,
}

fn plan(table: &Table, n_counts: usize) -> (Plan, usize) {
    const SMALL: usize = 1 << 25;
    const ROWS_PER_CHUNK: usize = 1 << 15;
    const MOST_CHUNKS: usize = 32;
    let bytes = (table.n_workers() * n_counts * size_of::<f64>()).max(1);
    let wanted = table.len().div_ceil(ROWS_PER_CHUNK).clamp(1, MOST_CHUNKS);
    let room = SMALL.max(8 * table.len()) / bytes;
    // Zeroing and adding up the tables must stay small beside the pass, which touches a row of counts per annotation.
    let visits = table.len() / (table.n_workers() * n_counts).max(1);
    let n_chunks = wanted.min(room).min(visits.min(4).max(visits / 4)).max(1);
    if n_chunks >= wanted.min(4) { (Plan::Fused, n_chunks) } else { (Plan::TwoPass, wanted) }
}

impl<'a, W: WorkerModel, P: Estimate<W>> Engine<'a, W, P> {
    pub fn new(table: &'a Table, options: &Options<'a>, control: &'a Control) -> Result<Self> {
        let k = table.n_classes();
        let (plan, n_chunks) = plan(table, W::n_counts(k));
        let n_counts = if plan == Plan::Fused { table.n_workers() * W::n_counts(k) } else { 0 };
        let chunks = table
            .chunks(n_chunks)
            .into_iter()
            .map(|tasks| Ok(Chunk { tasks, workers: table_of(n_counts)?, classes: vec![0.0; k], log_evidence: 0.0 }))
            .collect::<Result<_>>()?;
        if plan == Plan::TwoPass {
            table.by_worker(control)?;
        }
        let mut pseudo = zeros(options.pseudo.len() / (k * k) * W::n_counts(k))?;
        for (matrix, counts) in options.pseudo.chunks_exact(k * k).zip(pseudo.chunks_exact_mut(W::n_counts(k))) {
            W::tie(matrix, k, counts);
        }
        Ok(Self {
            table,
            control,
            gold: options.gold,
            pseudo,
            class_pseudo: options.class_pseudo,
            plan,
            chunks,
            posterior: vec![],
            factors: vec![],
            cells: Arc::new(Cells::new(table)?),
            voted_only: false,
            model: PhantomData,
        })
    }

    /// Stores posteriors between the two halves of every step from now on.
    pub fn force_two_pass(&mut self) -> Result<()> {
        self.plan = Plan::TwoPass;
        self.chunks.iter_mut().for_each(|chunk| chunk.workers = vec![]);
        self.table.by_worker(self.control).map(|_| ())
    }

    pub fn control(&self) -> &'a Control {
        self.control
    }

    fn k(&self) -> usize {
        self.table.n_classes()
    }

    /// The parameters that the start gives.
    pub fn start(&mut self, start: Start<'_>) -> Result<Params> {
        let k = self.k();
        let workers = table_of(self.table.n_workers() * P::n_params(k))?;
        let mut params = Params { workers, prior: vec![0.0; k], log_prior: 0.0 };
        let opening = match start {
            Start::Shares => Opening::Shares,
            Start::Majority => Opening::Majority,
            Start::RandomVote(seed) => Opening::RandomVote(seed),
            Start::Posterior(posterior) => Opening::Given(posterior),
            Start::Parameters(prior, confusion) => {
                self.adopt(prior, confusion, &mut params)?;
                return Ok(params);
            }
        };
        let settle = Settle { gold: self.gold, hard: false };
        let cells = Arc::clone(&self.cells);
        with_cells!(&*cells, |cells| {
            let columns = self.columns(cells);
            let n_true = self.table.n_true();
            self.gather::<_, false>(Free(k), &Open { columns, opening, n_true }, columns, settle)?;
        });
        self.maximise(&mut params)?;
        Ok(params)
    }

    /// Takes given confusion matrices, tied as the model asks.
    fn adopt(&self, prior: &[f64], confusion: &[f64], params: &mut Params) -> Result<()> {
        let k = self.k();
        params.prior.copy_from_slice(prior);
        P::settle_classes(&mut params.prior);
        let (mut counts, none) = (zeros(W::n_counts(k))?, zeros(W::n_counts(k))?);
        for (matrix, worker) in confusion.chunks_exact(k * k).zip(params.workers.chunks_exact_mut(P::n_params(k))) {
            W::tie(matrix, k, &mut counts);
            P::maximise(&counts, &none, k, worker);
        }
        self.set_log_prior(params);
        Ok(())
    }

    /// Parameters of a crowd in which everybody has this accuracy, whatever the class, and classes are equally frequent.
    pub fn shared(&self, accuracy: f64) -> Result<Params> {
        // As many counts as make estimates that average them equal to what they average.
        const COUNTS: f64 = 1e6;
        let k = self.k();
        let mut matrix = filled(COUNTS * (1.0 - accuracy) / (k - 1).max(1) as f64, k * k)?;
        (0..k).for_each(|class| matrix[class * k + class] = COUNTS * accuracy);
        let (mut counts, none) = (zeros(W::n_counts(k))?, zeros(W::n_counts(k))?);
        W::tie(&matrix, k, &mut counts);
        let mut workers = table_of(self.table.n_workers() * P::n_params(k))?;
        workers.par_chunks_mut(P::n_params(k)).for_each(|worker| P::maximise(&counts, &none, k, worker));
        let mut prior = vec![COUNTS; k];
        P::settle_classes(&mut prior);
        let mut params = Params { workers, prior, log_prior: 0.0 };
        self.set_log_prior(&mut params);
        Ok(params)
    }

    pub fn class_pseudo(&self) -> &'a [f64] {
        self.class_pseudo
    }

    /// The pseudo-counts of a worker, tied as the model asks.
    pub fn pseudo_of(&self, worker: usize) -> &[f64] {
        let n = W::n_counts(self.k());
        if self.pseudo.len() == n { &self.pseudo } else { &self.pseudo[worker * n..(worker + 1) * n] }
    }

    /// Sets the log-density of the parameters: summed by blocks of workers, in order.
    pub fn set_log_prior(&self, params: &mut Params) {
        const WORKERS: usize = 256;
        let k = self.k();
        let blocks: Vec<f64> = params
            .workers
            .par_chunks(WORKERS * P::n_params(k))
            .enumerate()
            .map(|(block, rows)| {
                let first = block * WORKERS;
                let one = |(i, row): (usize, &[f64])| P::log_prior(row, self.pseudo_of(first + i), k);
                rows.chunks_exact(P::n_params(k)).enumerate().map(one).sum::<f64>()
            })
            .collect();
        params.log_prior = blocks.iter().sum::<f64>() + P::log_class_prior(&params.prior, self.class_pseudo);
    }

    /// One EM step in place; returns the objective of the parameters it was given.
    pub fn step(&mut self, params: &mut Params, hard: bool) -> Result<f64> {
        self.expect(params, hard)?;
        let objective = self.log_evidence() + params.log_prior;
        self.maximise(params)?;
        Ok(objective)
    }

    /// One step in place, in which each row of the stored posteriors passes through `change(task, posterior, sums)` before
    /// it is counted; `sums` has as many rows, or none. Returns the log-evidence under the parameters it was given.
    pub fn step_through(
        &mut self,
        params: &mut Params,
        sums: &mut [f64],
        change: impl Fn(usize, &mut [f64], &mut [f64]) + Sync,
    ) -> Result<f64> {
        self.expect(params, false)?;
        let (k, control) = (self.k(), self.control);
        let mut summed = sums;
        let mut work = vec![];
        for (chunk, rows) in chunks_with_rows(&mut self.chunks, &mut self.posterior, k) {
            let (sums, rest) = summed.split_at_mut(rows.len().min(summed.len()));
            summed = rest;
            work.push((chunk, rows, sums));
        }
        work.into_par_iter().try_for_each(|(chunk, rows, sums)| -> Result<()> {
            control.check()?;
            chunk.classes.fill(0.0);
            let mut sums = sums.chunks_exact_mut(k);
            for (task, row) in chunk.tasks.clone().zip(rows.chunks_exact_mut(k)) {
                change(task, row, sums.next().unwrap_or_default());
                chunk.classes.iter_mut().zip(&*row).for_each(|(c, q)| *c += q);
            }
            Ok(())
        })?;
        let evidence = self.log_evidence();
        self.maximise(params)?;
        Ok(evidence)
    }

    /// Posteriors under the parameters, and their objective.
    pub fn posterior(&mut self, params: &Params) -> Result<(Vec<f64>, f64)> {
        self.plan = Plan::TwoPass;
        self.chunks.iter_mut().for_each(|chunk| chunk.workers = vec![]);
        self.expect(params, false)?;
        Ok((std::mem::take(&mut self.posterior), self.log_evidence() + params.log_prior))
    }

    /// Confusion matrices of all workers, (workers × true × observed); in place of the parameters where they are as many.
    pub fn confusion(&self, params: Vec<f64>) -> Result<Vec<f64>> {
        let (k, n) = (self.k(), P::n_params(self.k()));
        if n == k * k {
            let mut confusion = params;
            confusion.par_chunks_mut(n).try_for_each_init(Vec::new, |copy, matrix| {
                clear(copy, n)?;
                copy.copy_from_slice(matrix);
                P::confusion(copy, k, matrix);
                Ok(())
            })?;
            return Ok(confusion);
        }
        let mut confusion = zeros(self.table.n_workers() * k * k)?;
        confusion
            .par_chunks_mut(k * k)
            .zip(params.par_chunks(n))
            .for_each(|(matrix, worker)| P::confusion(worker, k, matrix));
        Ok(confusion)
    }

    fn log_evidence(&self) -> f64 {
        self.chunks.iter().map(|chunk| chunk.log_evidence).sum()
    }

    /// The E-step, into counts or posteriors as the plan says.
    fn expect(&mut self, params: &Params, hard: bool) -> Result<()> {
        let settle = Settle { gold: self.gold, hard };
        let weighted = self.table.weights().is_some();
        let mut factors = std::mem::take(&mut self.factors);
        let mut prior = params.prior.clone();
        P::write_class_factors(&mut prior);
        // Of no weight at all, so that exactly nothing of a posterior goes to what is never true.
        prior[self.table.n_true()..].fill(0.0);
        if !P::FACTORS_ARE_PARAMS || weighted {
            self.write_factors(&params.workers, &mut factors, weighted)?;
        }
        if weighted {
            prior.iter_mut().for_each(|p| *p = p.ln());
        }
        let read = if P::FACTORS_ARE_PARAMS && !weighted { &params.workers } else { &factors };
        let (k, cells) = (prior.len(), Arc::clone(&self.cells));
        match &*cells {
            Cells::Narrow(cells) if !weighted && !hard && self.gold.is_none() => {
                with_width!(k, |width| self.expect_with::<_, false, PLAIN>(width, cells, read, &prior, settle))?;
            }
            cells => with_cells!(cells, |cells| {
                if weighted {
                    self.expect_with::<_, true, false>(Free(k), cells, read, &prior, settle)?;
                } else {
                    self.expect_with::<_, false, false>(Free(k), cells, read, &prior, settle)?;
                }
            }),
        }
        self.factors = factors;
        Ok(())
    }

    fn write_factors(&self, params: &[f64], factors: &mut Vec<f64>, log: bool) -> Result<()> {
        let k = self.k();
        if factors.is_empty() {
            *factors = table_of(self.table.n_workers() * W::n_counts(k))?;
        }
        factors.par_chunks_mut(W::n_counts(k)).zip(params.par_chunks(P::n_params(k))).for_each(|(f, p)| {
            P::write_factors(p, k, f);
            if log {
                f.iter_mut().for_each(|x| *x = x.ln());
            }
        });
        Ok(())
    }

    fn columns<'c, C>(&self, cells: &'c [C]) -> Columns<'c, C>
    where
        'a: 'c,
    {
        Columns { cells, weights: self.table.weights().unwrap_or(&[]) }
    }

    fn expect_with<C: Cell, const LOG: bool, const PLAIN: bool>(
        &mut self,
        width: impl Width,
        cells: &[C],
        factors: &[f64],
        prior: &[f64],
        settle: Settle<'_>,
    ) -> Result<()> {
        let columns = self.columns(cells);
        let (voted_only, gold) = (self.voted_only, self.gold);
        let source = Likelihood::<W, C, LOG> { voted_only, gold, ..Likelihood::new(columns, factors, prior) };
        self.gather::<C, PLAIN>(width, &source, columns, settle)
    }

    /// Runs a source over all tasks into the sink of the plan.
    fn gather<C: Cell, const PLAIN: bool>(
        &mut self,
        width: impl Width,
        source: &impl Source,
        columns: Columns<'_, C>,
        settle: Settle<'_>,
    ) -> Result<()> {
        match (&self.plan, self.table.weights()) {
            (Plan::Fused, None) => self.gather_counts::<C, false, PLAIN>(width, source, columns, settle),
            (Plan::Fused, Some(_)) => self.gather_counts::<C, true, PLAIN>(width, source, columns, settle),
            (Plan::TwoPass, _) => self.gather_posterior::<PLAIN>(width, source, settle),
        }
    }

    fn gather_counts<C: Cell, const WEIGHTED: bool, const PLAIN: bool>(
        &mut self,
        width: impl Width,
        source: &impl Source,
        columns: Columns<'_, C>,
        settle: Settle<'_>,
    ) -> Result<()> {
        let (table, control) = (self.table, self.control);
        self.chunks.par_iter_mut().try_for_each(|chunk| {
            chunk.workers.fill(0.0);
            chunk.classes.fill(0.0);
            let mut sink = Counts::<W, C, WEIGHTED> {
                columns,
                workers: &mut chunk.workers,
                classes: &mut chunk.classes,
                model: PhantomData,
            };
            chunk.log_evidence = run::<PLAIN>(table, chunk.tasks.clone(), width, source, &mut sink, settle, control)?;
            Ok(())
        })
    }

    fn gather_posterior<const PLAIN: bool>(
        &mut self,
        width: impl Width,
        source: &impl Source,
        settle: Settle<'_>,
    ) -> Result<()> {
        let (k, table, control) = (self.k(), self.table, self.control);
        if self.posterior.is_empty() {
            // Untouched zero pages: each thread maps the ones it writes.
            self.posterior = table_of(table.n_tasks() * k)?;
        }
        let work = chunks_with_rows(&mut self.chunks, &mut self.posterior, k);
        work.into_par_iter().try_for_each(|(chunk, out)| {
            chunk.classes.fill(0.0);
            let mut sink = Rows { out: out.chunks_exact_mut(k), classes: &mut chunk.classes };
            chunk.log_evidence = run::<PLAIN>(table, chunk.tasks.clone(), width, source, &mut sink, settle, control)?;
            Ok(())
        })
    }

    /// The M-step: counts, summed in chunk order, to parameters.
    fn maximise(&mut self, params: &mut Params) -> Result<()> {
        params.prior.copy_from_slice(self.class_pseudo);
        for chunk in &self.chunks {
            params.prior.iter_mut().zip(&chunk.classes).for_each(|(p, c)| *p += c);
        }
        P::settle_classes(&mut params.prior);
        match self.plan {
            Plan::Fused => self.maximise_from_chunks(&mut params.workers),
            Plan::TwoPass => self.maximise_in_worker_order(&mut params.workers),
        }?;
        self.set_log_prior(params);
        Ok(())
    }

    /// Blocks of workers: long enough for the sums to stream, short enough for every core to have some.
    fn maximise_from_chunks(&self, workers: &mut [f64]) -> Result<()> {
        const WORKERS: usize = 128;
        let (k, n) = (self.k(), W::n_counts(self.k()));
        workers.par_chunks_mut(WORKERS * P::n_params(k)).enumerate().try_for_each_init(
            Vec::new,
            |total, (block, params)| {
                let first = block * WORKERS;
                let rows = first * n..(first + params.len() / P::n_params(k)) * n;
                clear(total, rows.len())?;
                for chunk in &self.chunks {
                    total.iter_mut().zip(&chunk.workers[rows.clone()]).for_each(|(t, c)| *t += c);
                }
                for (i, (params, counts)) in
                    params.chunks_exact_mut(P::n_params(k)).zip(total.chunks_exact(n)).enumerate()
                {
                    P::maximise(counts, self.pseudo_of(first + i), k, params);
                }
                Ok(())
            },
        )
    }

    fn maximise_in_worker_order(&self, workers: &mut [f64]) -> Result<()> {
        let k = self.k();
        let order = self.table.by_worker(self.control)?;
        workers.par_chunks_mut(P::n_params(k)).enumerate().try_for_each_init(
            || zeros(W::n_counts(k)),
            |counts, (worker, params)| {
                self.control.check()?;
                let counts = ready(counts)?;
                with_width!(k, |width| self.count_worker(width, order, worker, counts));
                P::maximise(counts, self.pseudo_of(worker), k, params);
                Ok(())
            },
        )
    }

    /// Expected counts of one worker, from the stored posteriors of the tasks they labelled.
    fn count_worker<N: Width>(&self, width: N, order: &WorkerOrder, worker: usize, counts: &mut [f64]) {
        const AHEAD: usize = 16;
        let mut row = width.row();
        let row = row.as_mut();
        let k = row.len();
        counts.fill(0.0);
        for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
            if let Some(&task) = order.tasks.get(at + AHEAD) {
                prefetch(&self.posterior, task as usize * k..(task as usize + 1) * k);
            }
            let task = order.tasks[at] as usize;
            row.copy_from_slice(&self.posterior[task * k..(task + 1) * k]);
            let (cells, label) = W::locate(order.labels.get(at), k);
            W::add(&mut counts[cells], label, order.weights.as_ref().map_or(1.0, |w| w[at]), row);
        }
    }
}

/// Each chunk with its rows of k numbers a task.
fn chunks_with_rows<'c>(chunks: &'c mut [Chunk], rows: &'c mut [f64], k: usize) -> Vec<(&'c mut Chunk, &'c mut [f64])> {
    let mut rest = rows;
    let mut work = vec![];
    for chunk in chunks {
        let (out, tail) = rest.split_at_mut(chunk.tasks.len() * k);
        rest = tail;
        work.push((chunk, out));
    }
    work
}

/// Zeros that will be visited in random order.
pub(super) fn table_of(len: usize) -> Result<Vec<f64>> {
    let table = zeros(len)?;
    large_pages(&table);
    Ok(table)
}
