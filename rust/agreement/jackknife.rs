//! Groups of tasks to leave out in turn: the variation of a coefficient between them gives its standard error.
//!
//! Tasks are left out and never drawn twice. A task that is drawn twice agrees with itself, and a coefficient of
//! workers who share few tasks moves far away for that reason alone.

use rayon::prelude::*;

use crate::Result;
use crate::base::num::{GOLDEN, scramble};

/// Which tasks count: all, or all but those of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    /// The group of each task; empty where all tasks count.
    groups: &'a [u32],
    without: u32,
}

impl Kept<'_> {
    pub(super) const ALL: Self = Self { groups: &[], without: 0 };

    #[inline(always)]
    pub(super) fn has(self, task: usize) -> bool {
        self.groups.get(task).is_none_or(|group| *group != self.without)
    }
}

/// What a coefficient is without each group of tasks.
#[derive(Debug)]
pub struct LeftOut {
    /// The coefficient without each group; not a number where it is undefined.
    pub values: Vec<f64>,
    /// How many tasks on which something is compared each group has: equally many, or one more.
    pub sizes: Vec<u32>,
}

impl LeftOut {
    /// Puts tasks into at most `n_groups` groups at random, and evaluates a coefficient without each in turn.
    ///
    /// `compared` marks the tasks on which labels meet. Every group has its share of those, and of the others. The
    /// groups depend on the seed and the tasks alone, and so are the same on any number of threads.
    pub(super) fn new(
        compared: &[bool],
        n_groups: usize,
        seed: u64,
        evaluate: impl Fn(Kept<'_>) -> Result<f64> + Sync,
    ) -> Result<Self> {
        let n_compared = compared.iter().filter(|compared| **compared).count();
        let n_groups = n_groups.min(n_compared);
        if n_groups == 0 {
            return Ok(Self { values: vec![], sizes: vec![] });
        }
        let stream = scramble(seed.wrapping_add(GOLDEN));
        let key =
            |task: u32| (!compared[task as usize], scramble(stream.wrapping_add(u64::from(task).wrapping_mul(GOLDEN))));
        let mut order: Vec<u32> = (0..compared.len() as u32).collect();
        order.par_sort_unstable_by_key(|task| key(*task));
        let mut groups = vec![0; compared.len()];
        for (place, task) in order.into_iter().enumerate() {
            groups[task as usize] = (place % n_groups) as u32;
        }
        let values = (0..n_groups as u32)
            .into_par_iter()
            .map(|without| evaluate(Kept { groups: &groups, without }))
            .collect::<Result<_>>()?;
        let sizes = (0..n_groups).map(|group| ((n_compared - group).div_ceil(n_groups)) as u32).collect();
        Ok(Self { values, sizes })
    }
}
