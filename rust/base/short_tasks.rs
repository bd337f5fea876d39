//! Short tasks in an order that a processor can foresee.
//!
//! Where tasks have different numbers of rows, a processor cannot predict where the next one ends: each wrong guess
//! costs as much as the arithmetic of several rows. So tasks are taken some hundreds at a time, those of as many rows
//! one after another, by loops of that very length.

use std::ops::Range;

/// Tasks of a block: few enough that their rows stay in the processor's first cache, whatever order they are taken in.
const TASKS: usize = 256;
/// Tasks of this many rows or more are taken together.
const LONG: usize = 13;

/// What is done with a task.
pub(crate) trait EachTask {
    /// Called with the task, and its rows.
    fn task(&mut self, task: usize, rows: Range<usize>);
}

/// Does with every task what `job` does, given where the rows of each begin and the last ones end.
///
/// The order depends on these alone, so that sums are the same bits wherever they are taken.
#[inline(always)]
pub(crate) fn by_length(offsets: &[u32], tasks: Range<usize>, job: &mut impl EachTask) {
    let mut order = [0; TASKS];
    for first in tasks.clone().step_by(TASKS) {
        let offsets = &offsets[first..=tasks.end.min(first + TASKS)];
        let mut begin = 0;
        for (length, end) in sorted(offsets, &mut order).into_iter().enumerate() {
            let some = &order[begin..end];
            begin = end;
            macro_rules! run {
                ($($n:literal)*) => {
                    match length {
                        $($n => some.iter().for_each(|i| {
                            let row = offsets[usize::from(*i)] as usize;
                            job.task(first + usize::from(*i), row..row + $n);
                        }),)*
                        _ => some.iter().for_each(|i| {
                            let place = usize::from(*i);
                            job.task(first + place, offsets[place] as usize..offsets[place + 1] as usize);
                        }),
                    }
                };
            }
            run!(1 2 3 4 5 6 7 8);
        }
    }
}

/// Writes the places of at most [`TASKS`] tasks, by length and then as they come; returns where those of each length
/// end.
#[inline(always)]
fn sorted(offsets: &[u32], order: &mut [u8; TASKS]) -> [usize; LONG + 1] {
    let n = offsets.len() - 1;
    let mut lengths = [0; TASKS];
    for (length, ends) in lengths.iter_mut().zip(offsets.windows(2)) {
        *length = (ends[1] - ends[0]).min(LONG as u32) as u8;
    }
    let mut ends = [0; LONG + 1];
    // Counting one length over and over would wait for itself, and a table of one length is the rule.
    if lengths[..n].iter().fold(0, |odd, length| odd | (length ^ lengths[0])) == 0 {
        order.iter_mut().enumerate().for_each(|(i, place)| *place = i as u8);
        ends[usize::from(lengths[0])..].fill(n);
        return ends;
    }
    lengths[..n].iter().for_each(|length| ends[usize::from(*length)] += 1);
    let mut all = 0;
    for end in &mut ends {
        all += std::mem::replace(end, all);
    }
    for (i, length) in lengths[..n].iter().enumerate() {
        let at = &mut ends[usize::from(*length)];
        order[*at % TASKS] = i as u8;
        *at += 1;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Seen(Vec<(usize, Range<usize>)>);

    impl EachTask for Seen {
        fn task(&mut self, task: usize, rows: Range<usize>) {
            self.0.push((task, rows));
        }
    }

    proptest! {
        #[test]
        fn every_task_comes_once_with_its_rows(mut lengths in prop::collection::vec(0_u32..30, 1..700), same: bool) {
            if same {
                let length = lengths[0];
                lengths.fill(length);
            }
            let mut offsets = vec![0];
            lengths.iter().for_each(|n| offsets.push(offsets[offsets.len() - 1] + n));
            let tasks = lengths.len() / 3..lengths.len();
            let mut visitor = Seen(vec![]);
            by_length(&offsets, tasks.clone(), &mut visitor);
            for block in visitor.0.chunks(TASKS) {
                let length = |rows: &Range<usize>| rows.len().min(LONG);
                prop_assert!(block.is_sorted_by_key(|(task, rows)| (length(rows), *task)));
            }
            visitor.0.sort_unstable_by_key(|(task, _)| *task);
            let expected: Vec<_> = tasks.map(|t| (t, offsets[t] as usize..offsets[t + 1] as usize)).collect();
            prop_assert_eq!(visitor.0, expected);
        }
    }
}
