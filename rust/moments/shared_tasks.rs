//! Pairs of workers that meet: every worker's annotations next to those of others on the same tasks, handed out worker
//! by worker.
//!
//! There are two ways to find them, chosen by the sizes of the table. Where tasks have many annotations each, a job
//! follows a worker from task to task: the table in worker order gives the places, and what is found there is worth the
//! step. Where they have few, nearly all time would go into waiting for memory; then meetings are written down in the
//! order of the tasks, sorted by worker as they are (into buckets of some neighboring workers, a bounded number at a
//! time), and read back; if all fit at once, they are kept for the next job. Either way each worker's meetings come in
//! the order of the tasks.

use std::ops::Range;

use rayon::prelude::*;

use super::{Ticker, View, Weights, follow, split};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{par_tried, push, ready, reserve, with_room, zeros};
use crate::categorical::table::{Label, Table, WorkerOrder};

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

    fn scratch(&self) -> Result<Self::Scratch>;
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
    /// At least those with workers that come later.
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
        // From this many other workers per annotation on, on average, following links is faster.
        const MANY: usize = 16;
        let beside = |w: &[u32]| (w[1] - w[0]) as usize * (w[1] - w[0]).saturating_sub(1) as usize;
        let meetings: usize = table.offsets().par_windows(2).map(beside).sum();
        if meetings / MANY < table.len() { Ok(Self::Write) } else { Ok(Self::Follow(table.by_worker(control)?)) }
    }
}

/// Hands out the meetings of a table to one job after another.
pub(super) struct Meet<'a, L, W: Weights> {
    view: View<'a, L, W>,
    source: Source<'a, W>,
    control: &'a Control,
}

enum Source<'a, W: Weights> {
    Follow(&'a WorkerOrder),
    Write(Notes<W>),
}

impl<'a, L: Label, W: Weights> Meet<'a, L, W> {
    pub fn new(view: View<'a, L, W>, way: Way<'a>, control: &'a Control) -> Result<Self> {
        let source = match way {
            Way::Follow(order) => Source::Follow(order),
            Way::Write => Source::Write(Notes::new(view.table)?),
        };
        Ok(Self { view, source, control })
    }

    /// Does the job for every worker, given an item each; returns what was made, in the order of the workers.
    pub fn run<J: Job>(&mut self, with: With, items: Vec<J::Item>, job: &J) -> Result<Vec<J::Out>> {
        let (view, control) = (self.view, self.control);
        match &mut self.source {
            Source::Follow(order) => par_tried(items.into_par_iter().enumerate().with_max_len(1).map_init(
                || job.scratch(),
                |scratch, (worker, item)| {
                    job.run(ready(scratch)?, worker, item, Followed { view, order, worker, with, control })
                },
            )),
            Source::Write(notes) => notes.run(view, with, items, job, control),
        }
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

/// How a meeting is written down in one number: from the top the other worker (32 bits), the place of the worker in its
/// bucket, its own label and the other's.
#[derive(Debug, Clone, Copy)]
struct Format {
    label_bits: u32,
}

impl Format {
    fn new(n_classes: usize) -> Self {
        Self { label_bits: n_classes.next_power_of_two().trailing_zeros() }
    }

    /// How many places there are.
    fn n_places(self) -> usize {
        1_usize.checked_shl(32 - 2 * self.label_bits).unwrap_or(usize::MAX)
    }

    /// What the meetings of one annotation have in common.
    #[inline(always)]
    fn own(self, place: usize, label: usize) -> u64 {
        (((place << self.label_bits) | label) << self.label_bits) as u64
    }

    #[inline(always)]
    fn code(own: u64, other: u32, label: usize) -> u64 {
        (u64::from(other) << 32) | own | label as u64
    }

    #[inline(always)]
    fn place(self, code: u64) -> usize {
        (u64::from(code as u32) >> (2 * self.label_bits)) as usize
    }

    #[inline(always)]
    fn meeting(self, code: u64, product: f64) -> Meeting {
        let mask = (1 << self.label_bits) - 1;
        Meeting {
            other: (code >> 32) as usize,
            own_label: (code as usize >> self.label_bits) & mask,
            label: code as usize & mask,
            product,
        }
    }
}

struct Noted<'a, W: Weights> {
    notes: &'a [W::Note],
    format: Format,
}

impl<W: Weights> Meetings for Noted<'_, W> {
    #[inline(always)]
    fn each(&self, mut meet: impl FnMut(Meeting)) -> Result<()> {
        self.notes.iter().for_each(|&note| meet(self.format.meeting(W::code(note), W::product(note))));
        Ok(())
    }
}

/// Meetings, written down.
struct Notes<W: Weights> {
    format: Format,
    buckets: Buckets,
    /// The meetings of a round.
    written: Vec<W::Note>,
    /// If all buckets were read: which meetings they hold, sorted, and the bounds of the buckets.
    kept: Option<(With, Vec<usize>)>,
}

/// A bucket's number, the items of its workers and its meetings.
type Bucket<'a, W, I> = (usize, Vec<I>, &'a mut [<W as Weights>::Note]);

impl<W: Weights> Notes<W> {
    fn new(table: &Table) -> Result<Self> {
        let format = Format::new(table.n_labels());
        Ok(Self { format, buckets: Buckets::new(table, format.n_places())?, written: vec![], kept: None })
    }

    fn run<L: Label, J: Job>(
        &mut self,
        view: View<'_, L, W>,
        with: With,
        items: Vec<J::Item>,
        job: &J,
        control: &Control,
    ) -> Result<Vec<J::Out>> {
        let n_buckets = self.buckets.workers.len();
        let mut lists = with_room(items.len())?;
        let mut items = items.into_iter();
        if let Some((there, ends)) = self.kept.take_if(|(there, _)| *there == With::All || with == With::Later) {
            self.read(0..n_buckets, &ends, true, &mut items, job, control, &mut lists)?;
            self.kept = Some((there, ends));
            return Ok(lists);
        }
        let chunks = view.table.chunks(CHUNKS);
        let counts = self.buckets.count(view.table, with, &chunks, control)?;
        for round in self.buckets.rounds(&counts, size_of::<W::Note>()) {
            let ends = self.write(view, with, &chunks, &counts, round.clone(), control)?;
            self.read(round.clone(), &ends, false, &mut items, job, control, &mut lists)?;
            self.kept = (round.len() == n_buckets).then_some((with, ends));
        }
        Ok(lists)
    }

    /// Writes down the meetings of a run of buckets; returns where each bucket's begin and the last one's end.
    fn write<L: Label>(
        &mut self,
        view: View<'_, L, W>,
        with: With,
        chunks: &[Range<usize>],
        counts: &[Vec<usize>],
        round: Range<usize>,
        control: &Control,
    ) -> Result<Vec<usize>> {
        let mut ends = vec![0];
        for bucket in round.clone() {
            ends.push(ends[ends.len() - 1] + counts.iter().map(|counts| counts[bucket]).sum::<usize>());
        }
        let n_notes = ends[round.len()];
        if self.written.len() < n_notes {
            // Zeros cost nothing until they are written over, and that many threads do.
            self.written = vec![];
            self.written = zeros(n_notes)?;
        }
        // Every chunk gets its part of each bucket.
        let mut parts: Vec<Vec<&mut [W::Note]>> = chunks.iter().map(|_| vec![]).collect();
        let mut rest = &mut self.written[..];
        for bucket in round.clone() {
            for (parts, counts) in parts.iter_mut().zip(counts) {
                parts.push(rest.split_off_mut(..counts[bucket]).unwrap_or_default());
            }
        }
        let (workers, buckets, format) = (view.table.workers(), &self.buckets, self.format);
        chunks.par_iter().zip(parts).try_for_each(|(chunk, mut parts)| {
            each_row(view.table, with, chunk.clone(), control, |row, worker, beside| {
                let bucket = buckets.of[worker] as usize;
                // One comparison: buckets before the round wrap around to a large number.
                let Some(part) = parts.get_mut(bucket.wrapping_sub(round.start)) else { return };
                let own = format.own(worker - buckets.workers[bucket].start, view.labels[row].code());
                for others in beside {
                    let (them, labels) = (&workers[others.clone()], &view.labels[others.clone()]);
                    let to = part.split_off_mut(..others.len()).unwrap_or_default();
                    for i in 0..to.len() {
                        let code = Format::code(own, them[i], labels[i].code());
                        to[i] = view.weights.note(code, row, others.start + i);
                    }
                }
            })
        })?;
        Ok(ends)
    }

    /// Hands out the meetings of a run of buckets, sorted by worker if they are not yet.
    #[allow(clippy::too_many_arguments)]
    fn read<J: Job>(
        &mut self,
        round: Range<usize>,
        ends: &[usize],
        sorted: bool,
        items: &mut impl Iterator<Item = J::Item>,
        job: &J,
        control: &Control,
        made: &mut Vec<J::Out>,
    ) -> Result<()> {
        let (workers, format) = (&self.buckets.workers, self.format);
        let mut buckets: Vec<Bucket<'_, W, J::Item>> = Vec::with_capacity(round.len());
        for (bucket, notes) in round.zip(split(&mut self.written, ends, 1)?) {
            let mut these = with_room(workers[bucket].len())?;
            these.extend(items.by_ref().take(workers[bucket].len()));
            buckets.push((bucket, these, notes));
        }
        let outs: Vec<Vec<J::Out>> = buckets
            .into_par_iter()
            .with_max_len(1)
            .map_init(
                || (job.scratch(), vec![]),
                |(scratch, room), (bucket, items, notes)| {
                    control.check()?;
                    let workers = workers[bucket].clone();
                    if !sorted {
                        sort(notes, room, workers.len(), |note| format.place(W::code(note)))?;
                    }
                    hand_out::<W, J>(workers, items, notes, format, ready(scratch)?, job)
                },
            )
            .collect::<Result<_>>()?;
        made.extend(outs.into_iter().flatten());
        Ok(())
    }
}

/// Sorts by place, of which there are `n`; equals stay in order.
fn sort<N: Copy>(notes: &mut [N], room: &mut Vec<N>, n: usize, place: impl Fn(N) -> usize) -> Result<()> {
    if n == 1 {
        return Ok(());
    }
    let same = |a: &N, b: &N| place(*a) == place(*b);
    let mut next = zeros::<usize>(n + 1)?;
    // The meetings of one annotation lie side by side: taken one by one, each would wait for the last.
    notes.chunk_by(same).for_each(|run| next[place(run[0]) + 1] += run.len());
    (0..n).for_each(|i| next[i + 1] += next[i]);
    room.clear();
    reserve(room, notes.len())?;
    room.extend_from_slice(notes);
    for run in room.chunk_by(same) {
        let to = &mut next[place(run[0])];
        notes[*to..*to + run.len()].copy_from_slice(run);
        *to += run.len();
    }
    Ok(())
}

/// Does the job for the workers of a bucket, whose meetings are sorted.
fn hand_out<W: Weights, J: Job>(
    workers: Range<usize>,
    items: Vec<J::Item>,
    mut notes: &[W::Note],
    format: Format,
    scratch: &mut J::Scratch,
    job: &J,
) -> Result<Vec<J::Out>> {
    let mut lists = with_room(items.len())?;
    for ((place, worker), item) in workers.enumerate().zip(items) {
        let (own, rest) = notes.split_at(notes.partition_point(|&note| format.place(W::code(note)) == place));
        notes = rest;
        lists.push(job.run(scratch, worker, item, Noted::<W> { notes: own, format })?);
    }
    Ok(lists)
}

/// Neighboring workers, so many that they have enough to say to be worth a job.
struct Buckets {
    workers: Vec<Range<usize>>,
    /// Bucket of each worker.
    of: Vec<u32>,
}

/// Chunks of tasks that are read at the same time.
const CHUNKS: usize = 16;

impl Buckets {
    fn new(table: &Table, most_workers: usize) -> Result<Self> {
        // All buckets are written to at the same time: with many more than these, the lines written to would not stay
        // in the processor's own cache. Beyond the most rows there are several rounds, and so fewer at a time.
        const BUCKETS: u64 = 128;
        const LEAST_ROWS: u64 = 1 << 14;
        const MOST_ROWS: u64 = 1 << 17;
        let most_rows = (table.len() as u64 / BUCKETS).clamp(LEAST_ROWS, MOST_ROWS);
        let (mut workers, mut of) = (vec![], with_room(table.n_workers())?);
        let (mut start, mut rows) = (0, 0);
        for (worker, count) in table.worker_counts()?.into_iter().enumerate() {
            if worker > start && (rows + count > most_rows || worker - start == most_workers) {
                push(&mut workers, start..worker)?;
                (start, rows) = (worker, 0);
            }
            rows += count;
            of.push(workers.len() as u32);
        }
        workers.push(start..table.n_workers());
        Ok(Self { workers, of })
    }

    /// Number of meetings of each bucket, for each chunk of tasks.
    fn count(&self, table: &Table, with: With, chunks: &[Range<usize>], control: &Control) -> Result<Vec<Vec<usize>>> {
        let count = |chunk: &Range<usize>| {
            let mut counts = zeros(self.workers.len())?;
            each_row(table, with, chunk.clone(), control, |_, worker, [before, after]| {
                counts[self.of[worker] as usize] += before.len() + after.len();
            })?;
            Ok(counts)
        };
        chunks.par_iter().map(count).collect()
    }

    /// Cuts the buckets into runs whose meetings can be held at the same time.
    fn rounds(&self, counts: &[Vec<usize>], bytes: usize) -> Vec<Range<usize>> {
        const ROUND_BYTES: usize = 1 << 29;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_hold_as_many_buckets_as_fit() {
        let buckets = Buckets { workers: (0..5).map(|worker| worker..worker + 1).collect(), of: (0..5).collect() };
        // The first three take all of the room, the fourth more than that.
        let counts = [vec![1, 1, 1, 5, 1], vec![0, 0, 1, 1, 0]];
        assert_eq!(buckets.rounds(&counts, 1 << 27), [0..3, 3..4, 4..5]);
        assert_eq!(buckets.rounds(&counts, 1).len(), 1);
    }
}
