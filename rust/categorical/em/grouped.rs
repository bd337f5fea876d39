//! Workers in groups (two layers): a task of class y has one latent answer z a group, drawn from the group's matrix
//! given y, and the group's members answer from their own matrices given z. Given y, groups are independent; given z,
//! so are members.
//!
//! A group of one has the class itself for its latent answer: with nothing but such groups the model is Dawid and
//! Skene's.

use rayon::prelude::*;

use super::estimate::{floor_and_normalise, log_density};
use super::{Fit, expect_len, finite};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{clear, copied, filled, par_tried, push, with_room, zeros};
use crate::base::num::{FLOOR, softmax};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Tasks between two looks at [`Control::check`].
const TASKS_PER_CHECK: usize = 1 << 10;
/// Annotations of one chunk at the least, and the most chunks: each has sums of its own.
const ROWS: usize = 1 << 16;
const MOST_CHUNKS: usize = 16;
/// Marks groups without an answer to the task at hand.
const NONE: u32 = u32::MAX;

/// Matrices of workers and groups, and the classes.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// The group of each worker.
    pub groups: &'a [u32],
    /// A worker's answers given the group's, (workers × latent × observed).
    pub workers: &'a [f64],
    /// A group's answers given the class, (groups × true × latent).
    pub answers: &'a [f64],
    /// Class prior.
    pub prior: &'a [f64],
}

/// How [`fit_grouped`] learns.
#[derive(Debug, Clone, Copy)]
pub struct GroupedOptions<'a> {
    /// Where to start.
    pub start: Layers<'a>,
    /// Pseudo-counts of workers' matrices, (true × observed), of groups' matrices alike, and of the classes.
    pub pseudo: &'a [f64],
    /// Pseudo-counts of groups' matrices.
    pub group_pseudo: &'a [f64],
    /// Pseudo-counts of the classes.
    pub class_pseudo: &'a [f64],
    /// Most passes over the annotations.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`fit_grouped`] found.
#[derive(Debug, Clone)]
pub struct GroupedFit {
    /// Posteriors, workers' confusion matrices over both layers, class prior, and how the objective went.
    pub fit: Fit,
    /// As in [`Layers`].
    pub workers: Vec<f64>,
    /// As in [`Layers`].
    pub answers: Vec<f64>,
}

/// Fits by EM: the penalized log-likelihood never falls.
///
/// Time a pass O(annotations · classes + groups on a task · classes²). Memory: four copies of the matrices, for each of
/// at most sixteen chunks of tasks one more (an eighth of one number per annotation at most), and the posteriors.
pub fn fit_grouped(table: &Table, options: &GroupedOptions<'_>, control: &Control) -> Result<GroupedFit> {
    let k = table.n_classes();
    let mut model = Grouped::new(table, options.start, control)?;
    for (what, given, wanted) in [
        ("pseudo-counts", options.pseudo, k * k),
        ("group pseudo-counts", options.group_pseudo, k * k),
        ("class pseudo-counts", options.class_pseudo, k),
    ] {
        expect_len(what, given.len(), wanted)?;
        finite(what, given)?;
    }
    let mut course = Course::default();
    let mut sums = model.expect(control)?;
    loop {
        let objective = sums.log_evidence + model.log_prior(options);
        course.advance(objective, Tolerance::Share(options.tol), control);
        if !course.running(options.max_iter) {
            break;
        }
        model.maximise(&sums, options);
        sums = model.expect(control)?;
    }
    model.found(course)
}

/// Class posteriors (tasks × classes) under given matrices.
pub fn posterior_grouped(table: &Table, layers: Layers<'_>, control: &Control) -> Result<Vec<f64>> {
    let mut model = Grouped::new(table, layers, control)?;
    model.expect(control)?;
    Ok(model.posterior)
}

/// Expected counts.
struct Sums {
    /// Label-first, (workers × observed × latent).
    workers: Vec<f64>,
    answers: Vec<f64>,
    classes: Vec<f64>,
    log_evidence: f64,
}

impl Sums {
    fn new(workers: usize, answers: usize, classes: usize) -> Result<Self> {
        Ok(Self { workers: zeros(workers)?, answers: zeros(answers)?, classes: zeros(classes)?, log_evidence: 0.0 })
    }

    fn add(&mut self, other: &Self) {
        let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut self.workers, &other.workers);
        add(&mut self.answers, &other.answers);
        add(&mut self.classes, &other.classes);
        self.log_evidence += other.log_evidence;
    }
}

/// Parameters as passes read them.
struct Grouped<'a> {
    table: &'a Table,
    groups: &'a [u32],
    /// Whether a group has more than one member.
    shared: Vec<bool>,
    /// Logarithms, label-first, (workers × observed × latent).
    workers: Vec<f64>,
    answers: Vec<f64>,
    prior: Vec<f64>,
    posterior: Vec<f64>,
}

impl<'a> Grouped<'a> {
    fn new(table: &'a Table, layers: Layers<'a>, control: &Control) -> Result<Self> {
        let (m, k) = (table.n_workers(), table.n_classes());
        if table.n_labels() != k {
            return Err(Error::invalid("groups take no labels that are never true"));
        }
        expect_len("groups", layers.groups.len(), m)?;
        expect_len("the given prior", layers.prior.len(), k)?;
        expect_len("the given workers", layers.workers.len(), m * k * k)?;
        let n_groups = layers.answers.len() / (k * k);
        expect_len("the given answers", layers.answers.len(), n_groups * k * k)?;
        for (what, given) in [("prior", layers.prior), ("workers", layers.workers), ("answers", layers.answers)] {
            finite(what, given)?;
        }
        let mut sizes = zeros::<u32>(n_groups)?;
        for &group in layers.groups {
            let size = sizes.get_mut(group as usize);
            *size.ok_or_else(|| Error::invalid(format!("group {group} is not below their number, {n_groups}")))? += 1;
        }
        control.check()?;
        let mut workers = zeros(m * k * k)?;
        workers.par_chunks_mut(k * k).zip(layers.workers.par_chunks(k * k)).for_each(|(to, matrix)| {
            to.iter_mut().enumerate().for_each(|(i, log)| *log = matrix[i % k * k + i / k].max(FLOOR).ln());
        });
        let mut shared = with_room(n_groups)?;
        shared.extend(sizes.iter().map(|n| *n > 1));
        let mut prior = copied(layers.prior)?;
        floor_and_normalise(&mut prior);
        let posterior = zeros(table.n_tasks() * k)?;
        Ok(Self { table, groups: layers.groups, shared, workers, answers: copied(layers.answers)?, prior, posterior })
    }

    /// The E-step: posteriors, and expected counts.
    fn expect(&mut self, control: &Control) -> Result<Sums> {
        let (table, k) = (self.table, self.prior.len());
        let numbers = self.workers.len() + self.answers.len() + k;
        let n_chunks = (table.len() / (8 * numbers).max(ROWS)).clamp(1, MOST_CHUNKS);
        let chunks = table.chunks(n_chunks);
        let mut posterior = std::mem::take(&mut self.posterior);
        let mut parts = with_room(chunks.len())?;
        let mut rest = &mut posterior[..];
        for tasks in chunks {
            let (part, behind) = rest.split_at_mut(tasks.len() * k);
            parts.push((tasks, part));
            rest = behind;
        }
        let this = &*self;
        let sums = par_tried(parts.into_par_iter().map(|(tasks, posterior)| {
            let mut sums = Sums::new(this.workers.len(), this.answers.len(), k)?;
            let mut scratch = Scratch::new(this.shared.len())?;
            for (task, q) in tasks.zip(posterior.chunks_exact_mut(k)) {
                if task.is_multiple_of(TASKS_PER_CHECK) {
                    control.check()?;
                }
                this.visit(task, q, &mut scratch, &mut sums)?;
            }
            Ok(sums)
        }));
        self.posterior = posterior;
        let mut sums = sums?.into_iter();
        let mut total = sums.next().map_or_else(|| Sums::new(0, 0, 0), Ok)?;
        sums.for_each(|part| total.add(&part));
        Ok(total)
    }

    /// The posterior of one task, and what its answers add to the counts.
    fn visit(&self, task: usize, q: &mut [f64], scratch: &mut Scratch, sums: &mut Sums) -> Result<()> {
        let k = q.len();
        scratch.gather(self, task, k)?;
        q.iter_mut().zip(&self.prior).for_each(|(q, p)| *q = p.ln());
        for (slot, &group) in scratch.present.iter().enumerate() {
            let latent = &mut scratch.latent[slot * k..(slot + 1) * k];
            if !self.shared[group as usize] {
                q.iter_mut().zip(&*latent).for_each(|(q, log)| *q += log);
                continue;
            }
            // Shares of the latent answers if each were as probable as any other; what was taken out goes to the
            // evidence.
            sums.log_evidence += softmax(latent);
            let answers = &self.answers[group as usize * k * k..][..k * k];
            for ((q, row), seen) in q.iter_mut().zip(answers.chunks_exact(k)).zip(&mut scratch.seen[slot * k..]) {
                *seen = row.iter().zip(&*latent).map(|(a, z)| a * z).sum::<f64>().max(FLOOR);
                *q += seen.ln();
            }
        }
        sums.log_evidence += softmax(q);
        sums.classes.iter_mut().zip(&*q).for_each(|(sum, q)| *sum += q);
        for (slot, &group) in scratch.present.iter().enumerate() {
            let latent = &mut scratch.latent[slot * k..(slot + 1) * k];
            if !self.shared[group as usize] {
                latent.copy_from_slice(q);
                continue;
            }
            let cells = group as usize * k * k..(group as usize + 1) * k * k;
            let (answers, counts) = (&self.answers[cells.clone()], &mut sums.answers[cells]);
            scratch.expected.fill(0.0);
            scratch.expected.resize(k, 0.0);
            for (class, q) in q.iter().enumerate() {
                let share = q / scratch.seen[slot * k + class];
                for z in 0..k {
                    let joint = share * answers[class * k + z] * latent[z];
                    counts[class * k + z] += joint;
                    scratch.expected[z] += joint;
                }
            }
            latent.copy_from_slice(&scratch.expected);
        }
        for row in self.table.rows_of(task) {
            let worker = self.table.workers()[row] as usize;
            let slot = scratch.slots[self.groups[worker] as usize] as usize;
            let weight = self.table.weights().map_or(1.0, |w| w[row]);
            let counts = &mut sums.workers[(worker * k + self.table.labels().get(row)) * k..][..k];
            counts.iter_mut().zip(&scratch.latent[slot * k..]).for_each(|(n, z)| *n += weight * z);
        }
        scratch.forget();
        Ok(())
    }

    /// The M-step.
    fn maximise(&mut self, sums: &Sums, options: &GroupedOptions<'_>) {
        let k = self.prior.len();
        self.workers.par_chunks_mut(k * k).zip(sums.workers.par_chunks(k * k)).for_each(|(logs, counts)| {
            for z in 0..k {
                let total: f64 = (0..k).map(|l| counts[l * k + z] + options.pseudo[z * k + l]).sum();
                for l in 0..k {
                    let count = counts[l * k + z] + options.pseudo[z * k + l];
                    let p = if total > 0.0 { count / total } else { 1.0 / k as f64 };
                    logs[l * k + z] = p.max(FLOOR).ln();
                }
            }
        });
        self.answers.copy_from_slice(&sums.answers);
        for matrix in self.answers.chunks_exact_mut(k * k) {
            matrix.iter_mut().zip(options.group_pseudo).for_each(|(n, a)| *n += a);
            matrix.chunks_exact_mut(k).for_each(floor_and_normalise);
        }
        self.prior.copy_from_slice(&sums.classes);
        self.prior.iter_mut().zip(options.class_pseudo).for_each(|(n, a)| *n += a);
        floor_and_normalise(&mut self.prior);
    }

    /// The log-density that pseudo-counts give the parameters, up to a constant.
    fn log_prior(&self, options: &GroupedOptions<'_>) -> f64 {
        let k = self.prior.len();
        let of_worker = |logs: &[f64]| -> f64 {
            (0..k * k).filter(|i| options.pseudo[*i] > 0.0).map(|i| options.pseudo[i] * logs[i % k * k + i / k]).sum()
        };
        let workers: f64 = self.workers.chunks_exact(k * k).map(of_worker).sum();
        let shared = self.answers.chunks_exact(k * k).zip(&self.shared).filter(|(_, shared)| **shared);
        let answers: f64 = shared.map(|(matrix, _)| log_density(matrix, options.group_pseudo)).sum();
        workers + answers + log_density(&self.prior, options.class_pseudo)
    }

    fn found(self, course: Course) -> Result<GroupedFit> {
        let k = self.prior.len();
        let (mut workers, mut confusion) = (zeros(self.workers.len())?, zeros(self.workers.len())?);
        let rows =
            workers.par_chunks_mut(k * k).zip(confusion.par_chunks_mut(k * k)).zip(self.workers.par_chunks(k * k));
        rows.zip(self.groups).for_each(|(((own, whole), logs), &group)| {
            own.iter_mut().enumerate().for_each(|(i, p)| *p = logs[i % k * k + i / k].exp());
            if !self.shared[group as usize] {
                whole.copy_from_slice(own);
                return;
            }
            let answers = &self.answers[group as usize * k * k..][..k * k];
            for (to, answers) in whole.chunks_exact_mut(k).zip(answers.chunks_exact(k)) {
                for (share, own) in answers.iter().zip(own.chunks_exact(k)) {
                    to.iter_mut().zip(own).for_each(|(to, p)| *to += share * p);
                }
            }
        });
        let mut answers = self.answers;
        for (matrix, shared) in answers.chunks_exact_mut(k * k).zip(&self.shared) {
            if !shared {
                matrix.iter_mut().enumerate().for_each(|(i, p)| *p = f64::from(u8::from(i % (k + 1) == 0)));
            }
        }
        let Course { history, n_iter, converged, .. } = course;
        let fit = Fit { posterior: self.posterior, confusion, prior: self.prior, history, n_iter, converged };
        Ok(GroupedFit { fit, workers, answers })
    }
}

/// The groups on one task.
struct Scratch {
    /// The place of each group among those present.
    slots: Vec<u32>,
    present: Vec<u32>,
    /// Evidence for each latent answer, then its posterior, (groups present × classes).
    latent: Vec<f64>,
    /// The probability of what a group's members answered, by class.
    seen: Vec<f64>,
    expected: Vec<f64>,
}

impl Scratch {
    fn new(n_groups: usize) -> Result<Self> {
        let (present, latent, n_seen, expected) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { slots: filled(NONE, n_groups)?, present, latent, seen: n_seen, expected })
    }

    /// Finds the groups on a task, and adds up the answers of their workers.
    fn gather(&mut self, model: &Grouped<'_>, task: usize, k: usize) -> Result<()> {
        let table = model.table;
        for row in table.rows_of(task) {
            let group = model.groups[table.workers()[row] as usize];
            if self.slots[group as usize] == NONE {
                self.slots[group as usize] = self.present.len() as u32;
                push(&mut self.present, group)?;
            }
        }
        clear(&mut self.latent, self.present.len() * k)?;
        clear(&mut self.seen, self.present.len() * k)?;
        for row in table.rows_of(task) {
            let worker = table.workers()[row] as usize;
            let slot = self.slots[model.groups[worker] as usize] as usize;
            let weight = table.weights().map_or(1.0, |w| w[row]);
            let logs = &model.workers[(worker * k + table.labels().get(row)) * k..][..k];
            self.latent[slot * k..].iter_mut().zip(logs).for_each(|(to, log)| *to += weight * log);
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.present.drain(..).for_each(|group| self.slots[group as usize] = NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    const PSEUDO: [f64; 9] = [1.0, 0.1, 0.1, 0.1, 1.0, 0.1, 0.1, 0.1, 1.0];
    const START: [f64; 9] = [0.8, 0.1, 0.1, 0.1, 0.8, 0.1, 0.1, 0.1, 0.8];

    proptest! {
        #[test]
        fn the_objective_never_falls(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..3), 1..120),
            groups in prop::collection::vec(0_u32..4, 6), weighted in any::<bool>(), bare in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 3]);
            let (workers, answers) = (START.repeat(6), START.repeat(4));
            let start = Layers { groups: &groups, workers: &workers, answers: &answers, prior: &[1.0 / 3.0; 3] };
            let pseudo = if bare { [0.0; 9] } else { PSEUDO };
            let options = GroupedOptions {
                start, pseudo: &pseudo, group_pseudo: &pseudo, class_pseudo: &[0.0; 3], max_iter: 20, tol: 0.0,
            };
            let result = fit_grouped(&table, &options, &Control::default()).unwrap();
            for pair in result.fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", result.fit.history);
            }
            for row in result.fit.posterior.chunks_exact(3).chain(result.fit.confusion.chunks_exact(3)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let layers = Layers {
                groups: &groups, workers: &result.workers, answers: &result.answers, prior: &result.fit.prior,
            };
            let again = posterior_grouped(&table, layers, &Control::default()).unwrap();
            for (a, b) in again.iter().zip(&result.fit.posterior) {
                prop_assert!((a - b).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn bad_layers_are_named() {
        let table = of_rows(&[(0, 0, 0)], None, [15, 6, 3]);
        let (workers, answers) = (START.repeat(6), START.repeat(2));
        let layers = Layers { groups: &[0; 6], workers: &workers, answers: &answers, prior: &[0.5; 3] };
        let fails = |layers: Layers<'_>| posterior_grouped(&table, layers, &Control::default()).is_err();
        assert!(!fails(layers));
        assert!(fails(Layers { groups: &[2; 6], ..layers }));
        assert!(fails(Layers { groups: &[0; 5], ..layers }));
        assert!(fails(Layers { answers: &START[..8], ..layers }));
        assert!(fails(Layers { prior: &[f64::NAN; 3], ..layers }));
    }
}
