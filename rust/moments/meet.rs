//! Who meets whom: every worker's annotations beside those of others on the same tasks, handed out worker by worker.
//!
//! There are two ways to find them, chosen by the sizes of the table. Where tasks have many annotations each, a job follows
//! a worker from task to task: the table in worker order says where to go, and what is found there is worth the way. Where
//! they have few, nearly all time would go into waiting for memory; then meetings are written down in the order of the
//! tasks, sorted by worker as they are (into buckets of some neighbouring workers, a bounded number at a time), and read
//! back. Either way each worker's meetings come in the order of the tasks.

use std::ops::Range;

use rayon::prelude::*;

use super::{Ticker, View, Weights, follow};
use crate::Result;
use crate::control::Control;
use crate::table::{Label, Table, WorkerOrder};

/// Two annotations of one task by different workers, as the first of them sees it.
pub(super) struct Meeting {
    pub other: usize,
    pub own_label: usize,
    pub label: usize,
    /// Product of the weights.
    pub product: f64,
}

/// The meetings of one worker.
pub(super) trait Meetings {
    fn each(&self, meet: impl FnMut(Meeting)) -> Result<()>;
}

/// What is done with the meetings of each worker; `run` may be called for many workers at the same time.
pub(super) trait Job: Sync {
    /// What a thread keeps from worker to worker.
    type Scratch: Send;
    /// What is given for each worker.
    type Item: Send;
    /// What is made of each worker.
    type Out: Send;

    fn scratch(&self) -> Self::Scratch;
    fn run(
        &self,
        scratch: &mut Self::Scratch,
        worker: usize,
        item: Self::Item,
        meetings: impl Meetings,
    ) -> Result<Self::Out>;
}

/// Which meetings are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum With {
    /// Those with anyone.
    All,
    /// Those with workers that come later: every pair once.
    Later,
}

/// How meetings are found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'a> {
    Follow(&'a WorkerOrder),
    Write,
}

impl<'a> Way<'a> {
    pub fn choose(table: &'a Table, control: &Control) -> Result<Self> {
        // From so many others beside an annotation on, on average, it pays to follow.
        const MANY: usize = 16;
        let beside = |w: &[u32]| (w[1] - w[0]) as usize * (w[1] - w[0]).saturating_sub(1) as usize;
        let meetings: usize = table.offsets().par_windows(2).map(beside).sum();
        if meetings / MANY < table.len() { Ok(Self::Write) } else { Ok(Self::Follow(table.by_worker(control)?)) }
    }
}

/// Does the job for every worker, given an item each; returns what was made, in the order of the workers.
pub(super) fn run<L: Label, W: Weights, J: Job>(
    view: View<'_, L, W>,
    way: Way<'_>,
    with: With,
    items: Vec<J::Item>,
    job: &J,
    control: &Control,
) -> Result<Vec<J::Out>> {
    match way {
        Way::Follow(order) => items
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .map_init(
                || job.scratch(),
                |scratch, (worker, item)| {
                    job.run(scratch, worker, item, Followed { view, order, worker, with, control })
                },
            )
            .collect(),
        Way::Write => Buckets::new(view.table).run(view, with, items, job, control),
    }
}

struct Followed<'a, L, W> {
    view: View<'a, L, W>,
    order: &'a WorkerOrder,
    worker: usize,
    with: With,
    control: &'a Control,
}

impl<L: Label, W: Weights> Meetings for Followed<'_, L, W> {
    #[inline(always)]
    fn each(&self, mut meet: impl FnMut(Meeting)) -> Result<()> {
        let (view, workers) = (self.view, self.view.table.workers());
        follow(view, self.order, self.worker, self.control, |visit| {
            // Rows are sorted by worker: from the last on, until those that are not wanted.
            for row in visit.rows.rev() {
                let other = workers[row] as usize;
                if other <= self.worker {
                    if self.with == With::Later {
                        break;
                    }
                    if other == self.worker {
                        continue;
                    }
                }
                let (label, product) = (view.labels[row].code(), visit.weight * view.weights.at(row));
                meet(Meeting { other, own_label: visit.label, label, product });
            }
        })
    }
}

/// A meeting, written down.
#[derive(Debug, Clone, Copy)]
struct Note<L, P> {
    other: u32,
    /// Place of the worker in its bucket.
    worker: u16,
    own_label: L,
    label: L,
    product: P,
}

/// A chunk's part of each bucket.
type Parts<'a, L, W> = Vec<&'a mut [Note<L, <W as Weights>::Product>]>;

struct Noted<'a, L, W: Weights>(&'a [Note<L, W::Product>]);

impl<L: Label, W: Weights> Meetings for Noted<'_, L, W> {
    #[inline(always)]
    fn each(&self, mut meet: impl FnMut(Meeting)) -> Result<()> {
        for note in self.0 {
            meet(Meeting {
                other: note.other as usize,
                own_label: note.own_label.code(),
                label: note.label.code(),
                product: W::value(note.product),
            });
        }
        Ok(())
    }
}

/// Neighbouring workers, so many that their meetings fit into the processor's cache.
struct Buckets {
    workers: Vec<Range<usize>>,
    /// Bucket of each worker.
    of: Vec<u32>,
}

/// Chunks of tasks that are read at the same time.
const CHUNKS: usize = 16;

impl Buckets {
    fn new(table: &Table) -> Self {
        const ROWS: u64 = 1 << 14;
        const MOST_WORKERS: usize = 1 << 16;
        let (mut workers, mut of) = (vec![], Vec::with_capacity(table.n_workers()));
        let (mut start, mut rows) = (0, 0);
        for (worker, count) in table.worker_counts().into_iter().enumerate() {
            if worker > start && (rows + count > ROWS || worker - start == MOST_WORKERS) {
                workers.push(start..worker);
                (start, rows) = (worker, 0);
            }
            rows += count;
            of.push(workers.len() as u32);
        }
        workers.push(start..table.n_workers());
        Self { workers, of }
    }

    /// Number of meetings of each bucket, for each chunk of tasks.
    fn count(&self, table: &Table, with: With, chunks: &[Range<usize>], control: &Control) -> Result<Vec<Vec<usize>>> {
        let count = |chunk: &Range<usize>| {
            let mut counts = vec![0; self.workers.len()];
            each_row(table, with, chunk.clone(), control, |_, worker, [before, after]| {
                counts[self.of[worker] as usize] += before.len() + after.len();
            })?;
            Ok(counts)
        };
        chunks.par_iter().map(count).collect()
    }

    /// Cuts the buckets into runs whose meetings can be held at the same time.
    fn rounds(&self, counts: &[Vec<usize>], bytes: usize) -> Vec<Range<usize>> {
        const ROUND_BYTES: usize = 1 << 28;
        let (mut rounds, mut start, mut held) = (vec![], 0, 0);
        for bucket in 0..self.workers.len() {
            let more = counts.iter().map(|counts| counts[bucket]).sum::<usize>() * bytes;
            if bucket > start && held + more > ROUND_BYTES {
                rounds.push(start..bucket);
                (start, held) = (bucket, 0);
            }
            held += more;
        }
        rounds.push(start..self.workers.len());
        rounds
    }

    fn run<L: Label, W: Weights, J: Job>(
        &self,
        view: View<'_, L, W>,
        with: With,
        items: Vec<J::Item>,
        job: &J,
        control: &Control,
    ) -> Result<Vec<J::Out>> {
        let chunks = view.table.chunks(CHUNKS);
        let counts = self.count(view.table, with, &chunks, control)?;
        let mut made = Vec::with_capacity(items.len());
        let (mut items, mut notes) = (items.into_iter(), vec![]);
        for round in self.rounds(&counts, size_of::<Note<L, W::Product>>()) {
            let ends = self.write(view, with, &chunks, &counts, round.clone(), &mut notes, control)?;
            let mut buckets = Vec::with_capacity(round.len());
            for (bucket, ends) in round.zip(ends.windows(2)) {
                let items: Vec<_> = items.by_ref().take(self.workers[bucket].len()).collect();
                buckets.push((bucket, items, &notes[ends[0]..ends[1]]));
            }
            let outs: Vec<Vec<J::Out>> = buckets
                .into_par_iter()
                .map_init(
                    || (job.scratch(), vec![]),
                    |(scratch, sorted), (bucket, items, notes)| {
                        control.check()?;
                        self.read::<L, W, J>(bucket, items, notes, sorted, scratch, job)
                    },
                )
                .collect::<Result<_>>()?;
            made.extend(outs.into_iter().flatten());
        }
        Ok(made)
    }

    /// Writes down the meetings of a run of buckets; returns where each bucket's begin and the last one's end.
    #[allow(clippy::too_many_arguments)]
    fn write<L: Label, W: Weights>(
        &self,
        view: View<'_, L, W>,
        with: With,
        chunks: &[Range<usize>],
        counts: &[Vec<usize>],
        round: Range<usize>,
        notes: &mut Vec<Note<L, W::Product>>,
        control: &Control,
    ) -> Result<Vec<usize>> {
        let mut ends = vec![0];
        for bucket in round.clone() {
            ends.push(ends[ends.len() - 1] + counts.iter().map(|counts| counts[bucket]).sum::<usize>());
        }
        let blank = Note {
            other: 0,
            worker: 0,
            own_label: L::from_code(0),
            label: L::from_code(0),
            product: W::Product::default(),
        };
        notes.resize(ends[round.len()], blank);
        // Every chunk gets its part of each bucket.
        let mut parts: Vec<Parts<'_, L, W>> = chunks.iter().map(|_| vec![]).collect();
        let mut rest = &mut notes[..];
        for bucket in round.clone() {
            for (parts, counts) in parts.iter_mut().zip(counts) {
                let (part, others) = rest.split_at_mut(counts[bucket]);
                parts.push(part);
                rest = others;
            }
        }
        let workers = view.table.workers();
        chunks.par_iter().zip(parts).try_for_each(|(chunk, mut parts)| {
            let mut filled = vec![0; round.len()];
            each_row(view.table, with, chunk.clone(), control, |row, worker, beside| {
                let bucket = self.of[worker] as usize;
                // One comparison: buckets before the round wrap around to a large number.
                let Some(filled) = filled.get_mut(bucket.wrapping_sub(round.start)) else { return };
                let n = beside.iter().map(Range::len).sum::<usize>();
                let to = &mut parts[bucket - round.start][*filled..*filled + n];
                *filled += n;
                let place = (worker - self.workers[bucket].start) as u16;
                let own_label = view.labels[row];
                for (to, other) in to.iter_mut().zip(beside.into_iter().flatten()) {
                    let (label, product) = (view.labels[other], view.weights.product(row, other));
                    *to = Note { other: workers[other], worker: place, own_label, label, product };
                }
            })
        })?;
        Ok(ends)
    }

    /// Hands out the meetings of one bucket, worker by worker.
    fn read<L: Label, W: Weights, J: Job>(
        &self,
        bucket: usize,
        items: Vec<J::Item>,
        notes: &[Note<L, W::Product>],
        sorted: &mut Vec<Note<L, W::Product>>,
        scratch: &mut J::Scratch,
        job: &J,
    ) -> Result<Vec<J::Out>> {
        let workers = self.workers[bucket].clone();
        let mut ends = vec![0; workers.len() + 1];
        notes.iter().for_each(|note| ends[usize::from(note.worker) + 1] += 1);
        (0..workers.len()).for_each(|i| ends[i + 1] += ends[i]);
        let mut next = ends.clone();
        sorted.clear();
        sorted.extend_from_slice(notes);
        for note in notes {
            let to = &mut next[usize::from(note.worker)];
            sorted[*to] = *note;
            *to += 1;
        }
        let ranges = ends.windows(2).map(|w| w[0]..w[1]);
        workers
            .zip(items)
            .zip(ranges)
            .map(|((worker, item), range)| job.run(scratch, worker, item, Noted::<L, W>(&sorted[range])))
            .collect()
    }
}

/// Calls `found(row, worker, others)` for every row of some tasks, with the rows of other workers before and after it.
#[inline(always)]
fn each_row(
    table: &Table,
    with: With,
    tasks: Range<usize>,
    control: &Control,
    mut found: impl FnMut(usize, usize, [Range<usize>; 2]),
) -> Result<()> {
    let workers = table.workers();
    let mut ticker = Ticker::new(control);
    for task in tasks {
        let rows = table.rows_of(task);
        ticker.tick(1 + rows.len())?;
        // Rows are sorted by worker; repeated answers of one lie side by side.
        let mut run = rows.start..rows.start;
        for row in rows.clone() {
            let worker = workers[row];
            if row >= run.end {
                run = row..row + 1;
                while run.end < rows.end && workers[run.end] == worker {
                    run.end += 1;
                }
            }
            let before = if with == With::All { rows.start..run.start } else { 0..0 };
            found(row, worker as usize, [before, run.end..rows.end]);
        }
    }
    Ok(())
}
