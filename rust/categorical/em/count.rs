//! Expected counts gathered worker by worker, from posteriors that were stored.

use std::ops::Range;

use super::model::{Shape, WorkerModel};
use super::pass::{Width, with_width};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::prefetch;
use crate::base::parallel::try_each_block;
use crate::categorical::table::{Table, WorkerOrder};

/// Adds every worker's expected counts, from posteriors of the tasks they labeled: the rows as they are.
pub(super) fn count_workers<W: WorkerModel>(
    table: &Table,
    shape: Shape,
    posterior: &[f64],
    counts: &mut [f64],
    control: &Control,
) -> Result<()> {
    const WORKERS: usize = 16;
    let n = W::n_counts(shape);
    let order = table.by_worker(control)?;
    try_each_block(counts, n, WORKERS, &|first, rows| {
        control.check()?;
        for (i, counts) in rows.chunks_exact_mut(n).enumerate() {
            let rows = order.offsets[first + i] as usize..order.offsets[first + i + 1] as usize;
            with_width!(shape.classes, |width| count_worker::<W>(width, order, rows, posterior, counts));
        }
        Ok(())
    })
}

fn count_worker<W: WorkerModel>(
    width: impl Width,
    order: &WorkerOrder,
    rows: Range<usize>,
    posterior: &[f64],
    counts: &mut [f64],
) {
    const AHEAD: usize = 16;
    let mut row = width.row();
    let row = row.as_mut();
    let k = row.len();
    for at in rows {
        if let Some(&task) = order.tasks.get(at + AHEAD) {
            prefetch(posterior, task as usize * k..(task as usize + 1) * k);
        }
        let task = order.tasks[at] as usize;
        row.copy_from_slice(&posterior[task * k..(task + 1) * k]);
        let (cells, label) = W::locate(order.labels.get(at), k);
        W::add(&mut counts[cells], label, order.weights.as_ref().map_or(1.0, |w| w[at]), row);
    }
}
