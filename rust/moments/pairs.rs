//! Pairs of workers that label the same tasks.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;

use super::shared_tasks::{Job, Meet, Meetings, Way, With};
use super::{Lists, Weights, room_for, split, with_view};
use crate::base::control::Control;
use crate::base::memory::{collected, copied, filled, par_tried, ready, with_room, zeros};
use crate::categorical::table::{Label, Table};
use crate::{Error, Result};

/// What pairs of workers gave together.
#[derive(Debug, Default)]
pub struct Pairs {
    /// First and second worker of each pair, first < second, sorted.
    pub pairs: Vec<u32>,
    /// Weight of what both labeled: the sum of the pair's block.
    pub overlap: Vec<f64>,
    /// A block of (label of the first × label of the second) for each pair; empty if it was not asked for.
    pub joint: Vec<f64>,
}

/// The place of a pair that is not kept.
const NONE: u32 = u32::MAX;

/// Counts, for the best-supported pairs of workers, how often they give which labels to the same tasks.
///
/// Two annotations of one task by different workers count the product of their weights. A pair is kept if its overlap
/// is positive and at least `min_overlap`, and if it is among the `max_partners` pairs of largest overlap of at least
/// one of the two (of equals those with the lower partner). Without `joint` the blocks are left out.
///
/// Two sweeps: the first counts overlaps, the second adds up the blocks of the pairs kept. Time O(Σ n²) over tasks with
/// n annotations. Memory in addition to the result of 16 + 8 · classes² bytes per pair: 16 bytes per pair, for each
/// thread 24 bytes per worker, and either for meetings 8 bytes each (16 with weights, each seen from both sides) up to
/// 512 MB or (16 and more annotations per task) the table in worker order, which is kept. Where the square of the
/// number of workers is at most the number of annotations, the overlaps of all pairs are held, 8 bytes each, and
/// meetings are seen from one side.
pub fn moments_pairs(
    table: &Table,
    min_overlap: f64,
    max_partners: usize,
    joint: bool,
    control: &Control,
) -> Result<Pairs> {
    count_pairs(table, Way::choose(table, control)?, min_overlap, max_partners, joint, control)
}

pub(super) fn count_pairs(
    table: &Table,
    way: Way<'_>,
    min_overlap: f64,
    max_partners: usize,
    joint: bool,
    control: &Control,
) -> Result<Pairs> {
    if min_overlap.is_nan() {
        return Err(Error::invalid("min_overlap is not a number"));
    }
    let (n_workers, k) = (table.n_workers(), table.n_labels());
    let cells = if joint { k * k } else { 0 };
    let most = room_for((cells + 2) * size_of::<f64>());
    with_view!(table, |view| {
        let count = Count { n_workers, min_overlap, max_partners, most_pairs: most, links: AtomicUsize::new(0) };
        let mut meet = Meet::new(view, way, control)?;
        let best = if n_workers.saturating_mul(n_workers) <= table.len() {
            best_of_square(&mut meet, &count)?
        } else {
            meet.run(With::All, vec![(); n_workers], &count)?
        };
        let pairs = later_partners(&Lists::join(&best)?)?;
        drop(best);
        if pairs.items.len() > most { Err(too_many(most)) } else { accumulate(meet, &pairs, k, cells) }
    })
}

fn too_many(most: usize) -> Error {
    Error::invalid(format!(
        "there are more than {most} pairs of workers, the most that fit into {} GiB; lower max_partners or raise \
         min_overlap",
        super::MOST_BYTES >> 30
    ))
}

/// Finds the best-supported partners of each worker from a square of overlaps, which each pair enters once.
fn best_of_square<L: Label, W: Weights>(meet: &mut Meet<'_, L, W>, count: &Count) -> Result<Vec<Vec<u32>>> {
    let n = count.n_workers;
    let later = meet.run(With::Later, vec![(); n], &Sum { n_workers: n })?;
    let best = |overlaps: &mut Result<Overlaps>, m: usize| {
        let overlaps = ready(overlaps)?;
        (0..m).for_each(|other| overlaps.sums[other] = later[other][m]);
        overlaps.sums[m + 1..].copy_from_slice(&later[m][m + 1..]);
        overlaps.many = true;
        count.best(overlaps)
    };
    par_tried((0..n).into_par_iter().map_init(|| count.scratch(), best))
}

/// Adds up a worker's overlaps with those that come later, and with some of the others.
struct Sum {
    n_workers: usize,
}

impl Job for Sum {
    type Scratch = ();
    type Item = ();
    type Out = Vec<f64>;

    fn scratch(&self) -> Result<()> {
        Ok(())
    }

    fn run(&self, (): &mut (), _: usize, (): (), meetings: impl Meetings) -> Result<Vec<f64>> {
        let mut sums = zeros(self.n_workers)?;
        meetings.each(|meeting| sums[meeting.other] += meeting.product)?;
        Ok(sums)
    }
}

/// Finds the best-supported partners of each worker, ascending.
struct Count {
    n_workers: usize,
    min_overlap: f64,
    max_partners: usize,
    most_pairs: usize,
    /// How many partners were listed so far.
    links: AtomicUsize,
}

impl Count {
    fn best(&self, overlaps: &mut Overlaps) -> Result<Vec<u32>> {
        let list = overlaps.take_best(self.min_overlap, self.max_partners)?;
        // A pair is listed at most twice.
        if self.links.fetch_add(list.len(), Relaxed) + list.len() > 2 * self.most_pairs {
            return Err(too_many(self.most_pairs));
        }
        Ok(list)
    }
}

impl Job for Count {
    type Scratch = Overlaps;
    type Item = ();
    type Out = Vec<u32>;

    fn scratch(&self) -> Result<Overlaps> {
        Overlaps::new(self.n_workers)
    }

    fn run(&self, overlaps: &mut Overlaps, _: usize, (): (), meetings: impl Meetings) -> Result<Vec<u32>> {
        overlaps.count(&meetings)?;
        self.best(overlaps)
    }
}

/// With more than one in this many met, a look at all workers is quicker than a list.
const LISTED: usize = 8;

/// The overlaps of one worker with all others.
struct Overlaps {
    sums: Vec<f64>,
    /// Workers that the worker met, each once, unless it met many.
    met: Vec<u32>,
    many: bool,
    /// Those with which it shares enough, and how much; as long as `sums`.
    others: Vec<u32>,
    values: Vec<f64>,
}

impl Overlaps {
    fn new(n_workers: usize) -> Result<Self> {
        let (sums, values) = (zeros(n_workers)?, zeros(n_workers)?);
        // One more than are listed, which is when a look at all is due.
        let partners = with_room(n_workers / LISTED + 1)?;
        Ok(Self { sums, met: partners, many: false, others: zeros(n_workers)?, values })
    }

    /// Adds up what a worker labeled together with each other, and lists which workers it met, ascending.
    fn count(&mut self, meetings: &impl Meetings) -> Result<()> {
        let most_met = self.sums.len() / LISTED;
        let (sums, partners, many) = (&mut self.sums, &mut self.met, &mut self.many);
        partners.clear();
        *many = false;
        meetings.each(|meeting| {
            sums[meeting.other] += meeting.product;
            if !*many {
                partners.push(meeting.other as u32);
                *many = partners.len() > most_met;
            }
        })?;
        if !*many {
            partners.sort_unstable();
            partners.dedup();
        }
        Ok(())
    }

    /// Lists the partners of largest overlap, of equals the lower, in ascending order, and forgets the overlaps.
    #[allow(clippy::needless_bitwise_bool)]
    fn take_best(&mut self, min_overlap: f64, max_partners: usize) -> Result<Vec<u32>> {
        let (others, values) = (&mut self.others[..], &mut self.values[..]);
        let mut n = 0;
        // Nearly any pattern of keeping and leaving occurs: written without a branch, none is mispredicted.
        let mut offer = |other: u32, sum: &mut f64| {
            let sum = std::mem::take(sum);
            (others[n], values[n]) = (other, sum);
            n += usize::from((sum > 0.0) & (sum >= min_overlap));
        };
        if self.many {
            (0..).zip(&mut self.sums).for_each(|(other, sum)| offer(other, sum));
        } else {
            self.met.iter().for_each(|&other| offer(other, &mut self.sums[other as usize]));
        }
        let (others, values) = (&others[..n], &values[..n]);
        if max_partners >= n {
            return copied(others);
        }
        // Those above the first that is left out are kept, and as many of its equals as there is room for.
        let mut order = copied(values)?;
        let least = *order.select_nth_unstable_by(max_partners, |a, b| b.total_cmp(a)).1;
        let mut room = max_partners - order[..max_partners].iter().filter(|sum| **sum > least).count();
        let mut keep = |sum: f64| {
            let equal = sum == least && room > 0;
            room -= usize::from(equal);
            sum > least || equal
        };
        let mut best = with_room(max_partners)?;
        best.extend(others.iter().zip(values).filter(|(_, sum)| keep(**sum)).map(|(&other, _)| other));
        Ok(best)
    }
}

/// The partners that each worker shares a kept pair with and that come after it, ascending.
fn later_partners(best: &Lists) -> Result<Lists> {
    // A pair is kept if either has the other in its list: the lists of the later worker are turned around.
    let reversed =
        Lists::sort(best.n_workers(), best.links().filter(|(m, other)| other < m).map(|(m, other)| (other, m)))?;
    let lists = par_tried((0..best.n_workers()).into_par_iter().map(|m| {
        let own = best.of(m);
        let own = &own[own.partition_point(|&other| other as usize <= m)..];
        let mut list = with_room(own.len() + reversed.of(m).len())?;
        list.extend(own.iter().chain(reversed.of(m)));
        list.sort_unstable();
        list.dedup();
        Ok(list)
    }))?;
    Lists::join(&lists)
}

/// Adds up the blocks of the pairs kept.
fn accumulate<L: Label, W: Weights>(
    mut meet: Meet<'_, L, W>,
    kept: &Lists,
    n_classes: usize,
    cells: usize,
) -> Result<Pairs> {
    let n_pairs = kept.items.len();
    let mut pairs = with_room(2 * n_pairs)?;
    pairs.extend(kept.links().flat_map(|(first, second)| [first, second]));
    let mut out = Pairs { pairs, overlap: zeros(n_pairs)?, joint: zeros(n_pairs * cells)? };
    let joints = split(&mut out.joint, &kept.offsets, cells)?;
    let overlaps = split(&mut out.overlap, &kept.offsets, 1)?;
    let items = collected(joints.into_iter().zip(overlaps))?;
    meet.run(With::Later, items, &Add { kept, n_classes })?;
    Ok(out)
}

/// Adds up the blocks, and the overlaps, of the pairs in which a worker comes first.
struct Add<'a> {
    kept: &'a Lists,
    n_classes: usize,
}

/// The blocks of a worker's pairs, and their overlaps.
type Sums<'a> = (&'a mut [f64], &'a mut [f64]);

impl<'a> Job for Add<'a> {
    type Scratch = Vec<u32>;
    type Item = Sums<'a>;
    type Out = ();

    fn scratch(&self) -> Result<Vec<u32>> {
        filled(NONE, self.kept.n_workers())
    }

    fn run(
        &self,
        places: &mut Vec<u32>,
        worker: usize,
        (joint, overlap): Sums<'a>,
        meetings: impl Meetings,
    ) -> Result<()> {
        let (partners, k) = (self.kept.of(worker), self.n_classes);
        if partners.is_empty() {
            return Ok(());
        }
        (0..).zip(partners).for_each(|(place, &other)| places[other as usize] = place);
        // Fresh memory must be written before it is read: a page that is read first is mapped twice.
        joint.fill(0.0);
        meetings.each(|meeting| {
            if places[meeting.other] != NONE {
                let place = places[meeting.other] as usize;
                overlap[place] += meeting.product;
                if !joint.is_empty() {
                    joint[(place * k + meeting.own_label) * k + meeting.label] += meeting.product;
                }
            }
        })?;
        partners.iter().for_each(|&other| places[other as usize] = NONE);
        Ok(())
    }
}
