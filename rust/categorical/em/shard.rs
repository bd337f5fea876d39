//! Passes in parallel over annotations in memory: those of a table, or of a shard, as it lies in its file.
//!
//! Memory in addition to the table: 4 bytes per annotation for its cell (8 where workers × labels passes 2³²), and a
//! table of counts per chunk in the fused plan, at most 8 bytes per annotation in all (or 32 MB, if that is more); in
//! the two-pass plan the table in worker order (5 to 6 bytes per annotation) and the posteriors. A shard has its cells,
//! and is never read in two passes; its tables of counts are those of the workers who are in it.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::cells::{Cell, Cells, Columns, Held, Tasks, with_cells};
use super::count::count_workers;
use super::model::{Model, Shape, WorkerModel, with_model};
use super::parts::Answers;
use super::pass::{Counts, Free, Likelihood, Open, Opening, PLAIN, Rows, Settle, Source, Width, run, with_width};
use super::sums::{Factors, Mode, Passes, Sums};
use crate::base::control::Control;
use crate::base::links::runs;
use crate::base::memory::{collected, large_pages, zeros};
use crate::base::parallel::{chunks_with_tables, each_block, room_for, wanted_chunks, with_rows};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// How expected counts are gathered. Chosen by the sizes of the data, so that the sums are the same on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Each chunk of tasks adds to a table of its own as it goes; the tables are then added up.
    Fused,
    /// Posteriors are stored; each worker's counts are then gathered in worker order.
    TwoPass,
    /// Nothing is counted: each task's answer is taken down, and its posterior stored where there is room for it.
    Answers,
}

/// Tasks whose posteriors are kept until their answers are taken down.
const ROWS: usize = 1 << 12;

fn plan(rows: Tasks<'_>, n_counts: usize) -> (Plan, usize) {
    let ideal = wanted_chunks(rows.len());
    // Zeroing and adding up the tables must stay small next to the pass, which touches a row of counts per annotation.
    let visits = rows.len() / (rows.n_workers * n_counts).max(1);
    let room = room_for(rows.len(), rows.n_workers * n_counts);
    let n_chunks = ideal.min(room).min(visits.min(4).max(visits / 4)).max(1);
    if n_chunks >= ideal.min(4) { (Plan::Fused, n_chunks) } else { (Plan::TwoPass, ideal) }
}

/// The same for a shard, which is in no worker order: as many tables as fit, and two if they are not much larger than
/// it.
fn chunks_of_shard(rows: Tasks<'_>, n_counts: usize) -> usize {
    let visits = 4 * rows.len() / (rows.n_workers * n_counts).max(1);
    wanted_chunks(rows.len()).min(visits.clamp(1, 4).max(visits / 16))
}

/// A run of tasks and the sums over it.
struct Chunk {
    tasks: Range<usize>,
    /// Made by the first pass that counts.
    workers: Vec<f64>,
    classes: Vec<f64>,
    log_evidence: f64,
    answers: Answers,
}

impl Chunk {
    fn n_tasks(&self) -> usize {
        self.tasks.len()
    }
}

/// What passes of one worker model need.
struct Bench {
    model: Model,
    plan: Plan,
    chunks: Vec<Chunk>,
}

/// What becomes of a task's row of posteriors, and of a row of sums.
pub(super) type Change<'a> = dyn Fn(usize, &mut [f64], &mut [f64]) + Sync + 'a;

/// Annotations in memory, with what their passes need.
pub(super) struct InMemory<'a> {
    held: Held<'a>,
    rows: Tasks<'a>,
    gold: Option<&'a [i32]>,
    control: &'a Control,
    shape: Shape,
    /// Kinds of each class, which passes take for this many classes.
    n_kinds: usize,
    cells: Arc<Cells<'a>>,
    benches: Vec<Bench>,
    /// Posteriors between the two halves of a two-pass step, or the last ones.
    posterior: Vec<f64>,
    /// Logarithms of factors, which weighted annotations need.
    logs: Vec<f64>,
    /// Whether chunks keep their tables beyond the last pass of a loop, for the next loop.
    keeps_tables: bool,
}

impl<'a> InMemory<'a> {
    pub fn new(table: &'a Table, gold: Option<&'a [i32]>, control: &'a Control) -> Result<Self> {
        Self::over(Held::Table(table), gold, control)
    }

    pub fn over(held: Held<'a>, gold: Option<&'a [i32]>, control: &'a Control) -> Result<Self> {
        let rows = held.rows();
        let cells = match held {
            Held::Table(table) => Cells::new(table)?,
            Held::Shard(shard) => shard.cells(),
        };
        Ok(Self {
            held,
            rows,
            gold,
            control,
            shape: rows.shape,
            n_kinds: 1,
            cells: Arc::new(cells),
            benches: vec![],
            posterior: vec![],
            logs: vec![],
            keeps_tables: false,
        })
    }

    /// Whether other loops will follow: tables of chunks are then kept next to the posteriors rather than made again.
    pub fn keep_tables(&mut self, keeps_tables: bool) {
        self.keeps_tables = keeps_tables;
    }

    /// Passes that distinguish this many kinds of each class, and never store posteriors of kinds.
    pub fn with_kinds(table: &'a Table, n_kinds: usize, control: &'a Control) -> Result<Self> {
        let mut new = Self::new(table, None, control)?;
        new.shape.classes *= n_kinds;
        new.n_kinds = n_kinds;
        let numbers = table.n_workers() * new.shape.cells();
        let n_chunks = chunks_with_tables(table.len(), numbers);
        let bench = new.bench_of(Model::Full, Plan::Fused, n_chunks);
        new.benches.push(bench);
        Ok(new)
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn bench_of(&self, model: Model, plan: Plan, n_chunks: usize) -> Bench {
        let k = self.shape.classes;
        let chunk = |tasks| Chunk {
            tasks,
            workers: vec![],
            classes: vec![0.0; k],
            log_evidence: 0.0,
            answers: Answers::default(),
        };
        Bench { model, plan, chunks: runs(self.rows.offsets, n_chunks).into_iter().map(chunk).collect() }
    }

    /// What a model's passes need, made on first use. The caller that takes it out puts it back.
    fn take_bench(&mut self, model: Model) -> Result<Bench> {
        if let Some(at) = self.benches.iter().position(|bench| bench.model == model) {
            return Ok(self.benches.swap_remove(at));
        }
        let n_counts = model.n_counts(self.shape);
        let (plan, n_chunks) = match self.held {
            Held::Table(_) => plan(self.rows, n_counts),
            Held::Shard(_) => (Plan::Fused, chunks_of_shard(self.rows, n_counts)),
        };
        if plan == Plan::TwoPass {
            self.table()?.by_worker(self.control)?;
        }
        Ok(self.bench_of(model, plan, n_chunks))
    }

    /// The table, which goes by worker too.
    fn table(&self) -> Result<&'a Table> {
        match self.held {
            Held::Table(table) => Ok(table),
            Held::Shard(_) => Err(Error::invalid("a shard is in no worker order")),
        }
    }

    /// Stores posteriors between the two halves of every step from now on.
    pub fn store_posteriors(&mut self, model: Model) -> Result<()> {
        let mut bench = self.take_bench(model)?;
        bench.store_posteriors();
        self.benches.push(bench);
        self.table()?.by_worker(self.control).map(|_| ())
    }

    /// The posteriors of the last pass that stored them, (tasks × classes).
    pub fn take_posterior(&mut self) -> Vec<f64> {
        std::mem::take(&mut self.posterior)
    }

    /// A pass in which each row of posteriors goes through `change(task, posterior, sums)` before it is counted; `sums`
    /// has as many rows, or none. Posteriors must be stored.
    pub fn gather_changed(
        &mut self,
        model: Model,
        factors: Factors<'_>,
        change: &Change<'_>,
        row_sums: &mut [f64],
        sums: &mut Sums,
    ) -> Result<()> {
        let mut bench = self.take_bench(model)?;
        self.expect(&mut bench, factors, Mode::default())?;
        let (k, control) = (self.shape.classes, self.control);
        let mut rest = row_sums;
        let mut work = vec![];
        for (chunk, rows) in with_rows(&mut bench.chunks, Chunk::n_tasks, &mut self.posterior, k) {
            let (sums, tail) = rest.split_at_mut(rows.len().min(rest.len()));
            rest = tail;
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
        self.add_up(&bench, sums)?;
        self.benches.push(bench);
        Ok(())
    }

    /// The E-step, into counts or posteriors as the plan requires.
    fn expect(&mut self, bench: &mut Bench, factors: Factors<'_>, mode: Mode) -> Result<()> {
        if self.rows.weights.is_none() {
            return self.expect_by(bench, factors, mode);
        }
        let mut logs = std::mem::take(&mut self.logs);
        if logs.len() != factors.workers.len() {
            logs = table_of(factors.workers.len())?;
        }
        each_block(&mut logs, 1, 1 << 14, &|first, logs| {
            logs.iter_mut().zip(&factors.workers[first..]).for_each(|(log, f)| *log = f.ln());
        });
        let classes = collected(factors.classes.iter().map(|p| p.ln()))?;
        let outcome = self.expect_by(bench, Factors { workers: &logs, classes: &classes }, mode);
        self.logs = logs;
        outcome
    }

    /// The same with factors as the passes read them: logarithms where annotations have weights.
    fn expect_by(&mut self, bench: &mut Bench, factors: Factors<'_>, mode: Mode) -> Result<()> {
        let weighted = self.rows.weights.is_some();
        let (k, cells, model) = (self.shape.classes, Arc::clone(&self.cells), bench.model);
        with_model!(model, |W| match &*cells {
            Cells::Narrow(cells) if !weighted && !mode.hard && self.gold.is_none() => {
                with_width!(k, |width| self.expect_with::<W, _, false, PLAIN>(bench, width, cells, factors, mode))
            }
            cells => with_cells!(cells, |cells| {
                if weighted {
                    self.expect_with::<W, _, true, false>(bench, Free(k), cells, factors, mode)
                } else {
                    self.expect_with::<W, _, false, false>(bench, Free(k), cells, factors, mode)
                }
            }),
        })
    }

    fn expect_with<W: WorkerModel, C: Cell, const WEIGHTED: bool, const PLAIN: bool>(
        &mut self,
        bench: &mut Bench,
        width: impl Width,
        cells: &[C],
        factors: Factors<'_>,
        mode: Mode,
    ) -> Result<()> {
        let columns = self.columns(cells);
        let source = Likelihood::<W, C, WEIGHTED> {
            columns,
            factors: factors.workers,
            prior: factors.classes,
            voted_only: mode.voted_only,
            gold: self.gold,
            model: PhantomData,
        };
        self.run_chunks::<W, C, WEIGHTED, PLAIN>(bench, width, &source, columns, mode.hard)
    }

    fn columns<'c, C>(&self, cells: &'c [C]) -> Columns<'c, C>
    where
        'a: 'c,
    {
        Columns { cells, weights: self.rows.weights.unwrap_or(&[]), n_labels: self.shape.labels }
    }

    /// Runs a source over all tasks into the sink of the plan.
    fn run_chunks<W: WorkerModel, C: Cell, const WEIGHTED: bool, const PLAIN: bool>(
        &mut self,
        bench: &mut Bench,
        width: impl Width,
        source: &impl Source,
        columns: Columns<'_, C>,
        hard: bool,
    ) -> Result<()> {
        let (rows, control, k, n_kinds) = (self.rows, self.control, self.shape.classes, self.n_kinds);
        let offsets = rows.offsets;
        let settle = Settle { gold: self.gold, hard };
        let n_counts = rows.n_workers * W::n_counts(self.shape);
        match bench.plan {
            Plan::Fused => each_chunk(&mut bench.chunks, &mut [], 0, &|chunk, _| {
                if chunk.workers.is_empty() {
                    chunk.workers = table_of(n_counts)?;
                } else {
                    chunk.workers.fill(0.0);
                }
                let Chunk { tasks, workers, classes, log_evidence, .. } = chunk;
                let mut sink = Counts::<W, C, WEIGHTED> { columns, workers, classes, model: PhantomData };
                *log_evidence = run::<PLAIN>(offsets, tasks.clone(), width, source, &mut sink, settle, control)?;
                Ok(())
            }),
            Plan::TwoPass => {
                let width_of_row = k / n_kinds;
                if self.posterior.is_empty() {
                    // Untouched zero pages: each thread maps the ones it writes.
                    self.posterior = table_of(rows.n_tasks() * width_of_row)?;
                }
                each_chunk(&mut bench.chunks, &mut self.posterior, width_of_row, &|chunk, out| {
                    let Chunk { tasks, classes, log_evidence, .. } = chunk;
                    let mut sink = Rows { out: out.chunks_exact_mut(width_of_row), classes, n_kinds };
                    *log_evidence = run::<PLAIN>(offsets, tasks.clone(), width, source, &mut sink, settle, control)?;
                    Ok(())
                })
            }
            Plan::Answers => {
                let stored = if self.posterior.is_empty() { 0 } else { k };
                each_chunk(&mut bench.chunks, &mut self.posterior, stored, &|chunk, out| {
                    let Chunk { tasks, classes, log_evidence, answers, .. } = chunk;
                    *answers = Answers::with_room(tasks.len())?;
                    *log_evidence = 0.0;
                    let mut scratch = if stored == 0 { zeros(ROWS.min(tasks.len()) * k)? } else { vec![] };
                    for at in (0..tasks.len()).step_by(ROWS) {
                        let end = tasks.len().min(at + ROWS);
                        let rows = if stored == 0 { &mut scratch[..(end - at) * k] } else { &mut out[at * k..end * k] };
                        let block = tasks.start + at..tasks.start + end;
                        let mut sink = Rows { out: rows.chunks_exact_mut(k), classes, n_kinds: 1 };
                        *log_evidence += run::<PLAIN>(offsets, block, width, source, &mut sink, settle, control)?;
                        rows.chunks_exact(k).for_each(|row| answers.take(row));
                    }
                    Ok(())
                })
            }
        }
    }

    /// The answer of each task under the factors, and the log-evidence; the posteriors too, if they are to be stored.
    pub fn answers(&mut self, model: Model, factors: Factors<'_>, store: bool) -> Result<(Answers, f64)> {
        let mut bench = self.bench_of(model, Plan::Answers, wanted_chunks(self.rows.len()));
        self.posterior = if store { table_of(self.rows.n_tasks() * self.shape.classes)? } else { vec![] };
        self.expect(&mut bench, factors, Mode::default())?;
        let mut all = Answers::with_room(self.rows.n_tasks())?;
        bench.chunks.iter().for_each(|chunk| all.append(&chunk.answers));
        Ok((all, bench.chunks.iter().map(|chunk| chunk.log_evidence).sum()))
    }

    /// Adds the sums of all chunks, in their order.
    fn add_up(&self, bench: &Bench, sums: &mut Sums) -> Result<()> {
        for chunk in &bench.chunks {
            sums.classes.iter_mut().zip(&chunk.classes).for_each(|(sum, c)| *sum += c);
            sums.log_evidence += chunk.log_evidence;
        }
        match bench.plan {
            Plan::Fused => {
                add_workers(&bench.chunks, &mut sums.workers);
                Ok(())
            }
            Plan::TwoPass | Plan::Answers => {
                let (counts, posterior) = (&mut sums.workers, &self.posterior);
                with_model!(bench.model, |W| count_workers::<W>(
                    self.table()?,
                    self.shape,
                    posterior,
                    counts,
                    self.control
                ))
            }
        }
    }
}

impl Passes for InMemory<'_> {
    fn open(&mut self, model: Model, opening: Opening<'_>, sums: &mut Sums) -> Result<()> {
        let mut bench = self.take_bench(model)?;
        let (k, cells, weighted) = (self.shape.classes, Arc::clone(&self.cells), self.rows.weights.is_some());
        with_model!(model, |W| with_cells!(&*cells, |cells| {
            let columns = self.columns(cells);
            let source = Open { columns, opening };
            if weighted {
                self.run_chunks::<W, _, true, false>(&mut bench, Free(k), &source, columns, false)?;
            } else {
                self.run_chunks::<W, _, false, false>(&mut bench, Free(k), &source, columns, false)?;
            }
        }));
        self.add_up(&bench, sums)?;
        self.benches.push(bench);
        Ok(())
    }

    fn gather(&mut self, model: Model, factors: Factors<'_>, mode: Mode, sums: &mut Sums) -> Result<()> {
        let mut bench = self.take_bench(model)?;
        self.expect(&mut bench, factors, mode)?;
        self.add_up(&bench, sums)?;
        self.benches.push(bench);
        Ok(())
    }

    /// Keeps the posteriors too.
    fn conclude(&mut self, model: Model, factors: Factors<'_>) -> Result<f64> {
        let mut bench = self.take_bench(model)?;
        let plan = bench.plan;
        if !self.keeps_tables {
            bench.store_posteriors();
            self.benches.clear();
        }
        bench.plan = Plan::TwoPass;
        self.expect(&mut bench, factors, Mode::default())?;
        let log_evidence = bench.chunks.iter().map(|chunk| chunk.log_evidence).sum();
        if self.keeps_tables {
            self.benches.push(Bench { plan, ..bench });
        }
        Ok(log_evidence)
    }
}

impl Bench {
    fn store_posteriors(&mut self) {
        self.plan = Plan::TwoPass;
        self.chunks.iter_mut().for_each(|chunk| chunk.workers = vec![]);
    }
}

/// Runs `job(chunk, rows)` on all chunks, with their rows of `width` numbers a task, where there are any.
fn each_chunk(
    chunks: &mut [Chunk],
    rows: &mut [f64],
    width: usize,
    job: &(dyn Fn(&mut Chunk, &mut [f64]) -> Result<()> + Sync),
) -> Result<()> {
    with_rows(chunks, Chunk::n_tasks, rows, width).into_par_iter().try_for_each(|(chunk, rows)| {
        chunk.classes.fill(0.0);
        job(chunk, rows)
    })
}

/// Adds the chunks' tables, by blocks long enough to stream, in their order.
fn add_workers(chunks: &[Chunk], sums: &mut [f64]) {
    each_block(sums, 1, 1 << 13, &|first, sums| {
        for chunk in chunks {
            sums.iter_mut().zip(&chunk.workers[first..]).for_each(|(sum, c)| *sum += c);
        }
    });
}

/// Zeros that will be visited in random order.
pub(super) fn table_of(len: usize) -> Result<Vec<f64>> {
    let table = zeros(len)?;
    large_pages(&table);
    Ok(table)
}
