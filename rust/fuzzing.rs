//! What a fuzzer runs: bytes of any kind go into the parts that meet strangers' data, and what comes out is compared
//! with the plainest code that could do the same.
//!
//! The functions are ordinary ones. The coverage-guided engine calls them (`make fuzz`, targets in `fuzz/`), and so do
//! the tests below, on the corpus kept in `fuzz/corpus` and on changes of it drawn at random.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::{Coefficient, Scale, Shape, agreement_by_counts};
use crate::base::control::Control;
use crate::base::encode::{Strings, canonical_integers, integers, strings};
use crate::categorical::table::{Repeats, Rows, Table, WEIGHTS};
use crate::categorical::votes;

/// A target by the name of its corpus.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 4] =
    [("integers", encode_integers), ("text", encode_text), ("table", build_table), ("agreement", count_agreement)];

/// More rows than a block holds, so that blocks meet; one choice of many asks for them, since they take long.
const SEVERAL_BLOCKS: usize = (1 << 16) + 77;
const LONG: u8 = 0xb1;

/// Reads numbers off a string of bytes; zeros follow its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = self.0.len().min(N);
        let (head, rest) = self.0.split_at(n);
        out[..n].copy_from_slice(head);
        self.0 = rest;
        out
    }

    fn byte(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn wide(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn integer(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Codes of integers number the distinct values in ascending order.
pub fn encode_integers(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, base) = (bytes.byte(), bytes.integer());
    let mut values = vec![];
    while !bytes.is_empty() {
        // Values near one another take another path than values far apart.
        values.push(if choice & 1 == 0 { base.wrapping_add(bytes.byte().into()) } else { bytes.integer() });
    }
    if choice == LONG && !values.is_empty() {
        values = values.iter().cycle().take(SEVERAL_BLOCKS).copied().collect();
    }
    let encoded = integers(&values, &Control::default()).expect("integers can always be encoded");
    let names: Vec<i64> = values.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(encoded.names, names);
    assert!(encoded.codes.iter().zip(&values).all(|(&code, value)| names[code as usize] == *value));
    assert_eq!(encoded.codes.len(), values.len());
}

/// Offsets are rejected exactly where they do not describe text; text is numbered by its bytes, and taken for integers
/// exactly where every row is one as it would be printed.
pub fn encode_text(data: &[u8]) {
    let mut bytes = Bytes(data);
    let choice = bytes.byte();
    let n = usize::from(bytes.byte());
    let mut offsets = vec![];
    for _ in 0..n {
        // Lengths make good text; offsets as they come are mostly rejected.
        let last = offsets.last().copied().unwrap_or(0);
        offsets.push(if choice & 1 == 0 { last + i64::from(bytes.byte() % 24) } else { bytes.integer() });
    }
    let text = bytes.0;
    let fits = |offsets: &[i64]| {
        offsets.first().is_some_and(|first| *first >= 0)
            && offsets.is_sorted()
            && offsets.last().is_some_and(|last| usize::try_from(*last).is_ok_and(|last| last <= text.len()))
    };
    let Ok(column) = Strings::new(&offsets, text) else { return assert!(!fits(&offsets)) };
    assert!(fits(&offsets));
    let rows: Vec<&[u8]> = offsets.windows(2).map(|w| &text[w[0] as usize..w[1] as usize]).collect();
    let names: Vec<&[u8]> = rows.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let encoded = strings(&column, &Control::default()).expect("text can always be encoded");
    assert!(encoded.names.iter().map(|&row| rows[row as usize]).eq(names.iter().copied()));
    assert!(encoded.codes.iter().map(|&code| names[code as usize]).eq(rows.iter().copied()));
    let printed = |row: &&[u8]| {
        let value: i64 = std::str::from_utf8(row).ok()?.parse().ok()?;
        (value.to_string().as_bytes() == *row).then_some(value)
    };
    let expected: Option<Vec<i64>> = rows.iter().map(printed).collect();
    assert_eq!(canonical_integers(&column, &Control::default()).expect("any text can be looked at"), expected);
}

/// A log of codes as bytes spell it, which may be none that a table can be built of.
struct Log {
    rows: Vec<(u32, u32, u16, f64)>,
    weighted: bool,
    sizes: [usize; 3],
    repeats: Repeats,
    n_classes: usize,
}

impl Log {
    fn new(data: &[u8]) -> Self {
        let mut bytes = Bytes(data);
        let choice = bytes.byte();
        let [honest, weighted, wide] = [1, 2, 4].map(|bit| choice & bit == 0);
        let n_labels = usize::from(bytes.byte()) + if wide { 0 } else { 250 };
        let sizes = [usize::from(bytes.byte() % 16), usize::from(bytes.byte() % 8), n_labels];
        let n_classes = usize::from(bytes.byte());
        let within = |code: u16, n: usize| if honest && n > 0 { code % n as u16 } else { code };
        let mut rows = vec![];
        while !bytes.is_empty() && rows.len() < 1 << 8 {
            let (task, worker) = (bytes.byte(), bytes.byte());
            let label = if n_labels > 256 { bytes.wide() } else { bytes.byte().into() };
            let weight = if !weighted {
                1.0
            } else if honest {
                f64::from(bytes.byte()) / 16.0
            } else {
                f64::from_le_bytes(bytes.take())
            };
            let [task, worker, label] =
                [(task.into(), 0), (worker.into(), 1), (label, 2)].map(|(c, i)| within(c, sizes[i]));
            rows.push((task.into(), worker.into(), label, weight));
        }
        let repeats = [Repeats::Keep, Repeats::First, Repeats::Last, Repeats::Keep][usize::from(choice >> 6)];
        Self { rows, weighted, sizes, repeats, n_classes }
    }

    fn build(&self) -> crate::Result<Table> {
        let [n_tasks, n_workers, n_labels] = self.sizes;
        let tasks: Vec<u32> = self.rows.iter().map(|row| row.0).collect();
        let workers: Vec<u32> = self.rows.iter().map(|row| row.1).collect();
        let labels: Vec<u16> = self.rows.iter().map(|row| row.2).collect();
        let weights: Vec<f64> = self.rows.iter().map(|row| row.3).collect();
        let weights = self.weighted.then_some(&weights[..]);
        let rows = Rows { tasks: &tasks, workers: &workers, labels: &labels, weights, n_tasks, n_workers, n_labels };
        Table::new(&rows, self.repeats, &Control::default())
    }

    /// Whether a table can hold it.
    fn is_sound(&self) -> bool {
        let [n_tasks, n_workers, n_labels] = self.sizes;
        let sound = |&(task, worker, label, weight): &(u32, u32, u16, f64)| {
            (task as usize) < n_tasks
                && (worker as usize) < n_workers
                && usize::from(label) < n_labels
                && (weight == 0.0 || (WEIGHTS.0..=WEIGHTS.1).contains(&weight))
        };
        !self.rows.is_empty() && self.rows.iter().all(sound)
    }

    /// The rows as a table orders them, after its rule for repeats.
    fn ordered(&self) -> Vec<(u32, u32, u16, f64)> {
        let mut expected = BTreeMap::new();
        let mut rows = match self.repeats {
            Repeats::Keep => self.rows.clone(),
            Repeats::First => {
                self.rows.iter().for_each(|&row| _ = expected.entry((row.0, row.1)).or_insert(row));
                expected.into_values().collect()
            }
            Repeats::Last => {
                self.rows.iter().for_each(|&row| _ = expected.insert((row.0, row.1), row));
                expected.into_values().collect()
            }
        };
        rows.sort_by(|a, b| (a.0, a.1, a.2).cmp(&(b.0, b.1, b.2)).then(a.3.total_cmp(&b.3)));
        rows
    }
}

/// A table rejects what it cannot hold and nothing else; what it holds, in both orders, is the sorted log.
pub fn build_table(data: &[u8]) {
    let log = Log::new(data);
    let Ok(table) = log.build() else { return assert!(!log.is_sound(), "a sound log was rejected") };
    assert!(log.is_sound(), "a log that no table can hold was taken");
    let rows = log.ordered();
    let [n_tasks, n_workers, n_labels] = log.sizes;
    let (tasks, workers, labels) = table.columns().expect("there is room for a copy");
    assert!(
        tasks
            .iter()
            .zip(&workers)
            .zip(&labels)
            .map(|((t, w), l)| (*t, *w, *l))
            .eq(rows.iter().map(|r| (r.0, r.1, r.2)))
    );
    assert!(table.weights().is_none_or(|weights| weights.iter().eq(rows.iter().map(|row| &row.3))));
    assert_eq!((table.n_tasks(), table.n_workers(), table.n_labels()), (n_tasks, n_workers, n_labels));

    let order = table.by_worker(&Control::default()).expect("any table can be ordered by worker");
    let mut by_worker = rows.clone();
    by_worker.sort_by_key(|row| row.1);
    assert!(order.tasks.iter().eq(by_worker.iter().map(|row| &row.0)));
    assert!((0..by_worker.len()).all(|i| order.labels.get(i) == usize::from(by_worker[i].2)));
    assert!(order.weights.as_ref().is_none_or(|weights| weights.iter().eq(by_worker.iter().map(|row| &row.3))));
    assert!((0..n_workers).all(|m| {
        let own = order.offsets[m] as usize..order.offsets[m + 1] as usize;
        by_worker[own].iter().all(|row| row.1 as usize == m)
    }));

    let repeated = || rows.windows(2).filter(|w| (w[0].0, w[0].1) == (w[1].0, w[1].1));
    assert_eq!(table.n_repeats(), repeated().count());
    assert_eq!(table.first_repeat(), repeated().next().map(|w| (w[0].0 as usize, w[0].1 as usize)));
    let count = |n: usize, of: fn(&(u32, u32, u16, f64)) -> usize| {
        rows.iter().fold(vec![0_u64; n], |mut counts, row| {
            counts[of(row)] += 1;
            counts
        })
    };
    assert_eq!(table.worker_counts(), Ok(count(n_workers, |row| row.1 as usize)));
    assert_eq!(table.label_counts(), count(n_labels, |row| row.2.into()));
    assert_eq!(table.agreeing_pairs(), agreeing_pairs(&rows));
    assert_eq!(table.n_components(), Ok(n_components(&rows)));
    let valid = (1..=n_labels).contains(&log.n_classes);
    assert_eq!(table.with_classes(log.n_classes).map(|table| table.n_classes()).ok(), valid.then_some(log.n_classes));
}

/// Every pair of rows is looked at.
fn agreeing_pairs(rows: &[(u32, u32, u16, f64)]) -> (u64, u64) {
    let beside = rows.iter().enumerate().flat_map(|(i, a)| rows[..i].iter().map(move |b| (a, b)));
    let together: Vec<bool> = beside.filter(|(a, b)| a.0 == b.0).map(|(a, b)| a.2 == b.2).collect();
    (together.iter().filter(|same| **same).count() as u64, together.len() as u64)
}

/// Every worker takes the lowest number among those they share a task with, until nothing changes.
fn n_components(rows: &[(u32, u32, u16, f64)]) -> usize {
    let mut lowest: BTreeMap<u32, u32> = rows.iter().map(|row| (row.1, row.1)).collect();
    loop {
        let mut of_task: BTreeMap<u32, u32> = BTreeMap::new();
        for row in rows {
            let number = of_task.entry(row.0).or_insert(u32::MAX);
            *number = lowest[&row.1].min(*number);
        }
        let before = lowest.clone();
        rows.iter().for_each(|row| _ = lowest.insert(row.1, lowest[&row.1].min(of_task[&row.0])));
        if lowest == before {
            return lowest.values().collect::<BTreeSet<_>>().len();
        }
    }
}

/// Sums and ratios in another order than the kernels': equal but for rounding.
fn close(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// Shares of votes are those of the votes counted one by one, and alpha is that of all pairs of labels.
pub fn count_agreement(data: &[u8]) {
    let log = Log::new(data);
    let Ok(table) = log.build() else { return };
    let (rows, control) = (log.ordered(), Control::default());
    let [n_tasks, _, n_labels] = log.sizes;
    let (shares, totals) = votes::shares(&table, None, &control).expect("votes can always be counted");
    for (task, found) in shares.chunks_exact(n_labels).enumerate() {
        let mut counts = vec![0.0; n_labels];
        rows.iter().filter(|row| row.0 as usize == task).for_each(|row| counts[usize::from(row.2)] += row.3);
        let sum: f64 = counts.iter().sum();
        let expected = |n: f64| if sum > 0.0 { n / sum } else { 1.0 / n_labels as f64 };
        assert!(found.iter().zip(&counts).all(|(share, n)| close(*share, expected(*n))), "{found:?}, {counts:?}");
    }
    assert!(close(totals.iter().sum(), n_tasks as f64));

    let positions = vec![0.0; n_labels];
    let scale = Scale { shape: Shape::Nominal, positions: &positions };
    let result = agreement_by_counts(&table, Coefficient::Alpha, scale, 0, 0, &control).expect("alpha takes any table");
    assert!(close(result.value, alpha(&rows)), "{} is not {}", result.value, alpha(&rows));
    for coefficient in [Coefficient::OrdinalAlpha, Coefficient::Fleiss, Coefficient::Gwet] {
        let result = agreement_by_counts(&table, coefficient, scale, 3, 1, &control).expect("any table will do");
        let values = || result.left_out.values.iter().chain([&result.value]);
        assert!(values().all(|x| x.is_nan() || (x.is_finite() && *x <= 1.0 + 1e-9)), "{coefficient:?} is {result:?}");
    }
}

/// Nominal alpha by its definition: one minus the share of unequal pairs within tasks, each task weighed by its labels
/// over their number less one, over the share of unequal pairs among all labels that have another next to them.
fn alpha(rows: &[(u32, u32, u16, f64)]) -> f64 {
    let mut sizes = BTreeMap::new();
    rows.iter().for_each(|row| *sizes.entry(row.0).or_insert(0.0) += 1.0);
    let paired: Vec<_> = rows.iter().filter(|row| sizes[&row.0] > 1.0).collect();
    let (mut observed, mut expected) = (0.0, 0.0);
    for (i, a) in paired.iter().enumerate() {
        for (_, b) in paired.iter().enumerate().filter(|(j, b)| *j != i && b.2 != a.2) {
            expected += 1.0;
            observed += if a.0 == b.0 { 1.0 / (sizes[&a.0] - 1.0) } else { 0.0 };
        }
    }
    if expected > 0.0 { 1.0 - observed * (paired.len() as f64 - 1.0) / expected } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::{GOLDEN, scramble};
    use std::path::Path;

    /// Changes of each file of the corpus.
    const CHANGES: u64 = 300;

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
        // A source distribution comes without the corpus.
        let Ok(files) = folder.read_dir() else { return vec![vec![0; 64]] };
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// A byte changed, bytes dropped, bytes repeated, or the rest taken from elsewhere: as a fuzzer would, but blindly.
    fn change(data: &[u8], other: &[u8], seed: u64) -> Vec<u8> {
        let mut out = data.to_vec();
        let mut state = seed;
        let mut next = |below: usize| {
            state = scramble(state.wrapping_add(GOLDEN));
            (state % below.max(1) as u64) as usize
        };
        for _ in 0..=next(4) {
            let at = next(out.len());
            match next(5) {
                0 if !out.is_empty() => out[at] ^= 1 << next(8),
                1 if !out.is_empty() => out[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
                2 => drop(out.drain(at..(at + next(9)).min(out.len()))),
                3 => out.extend_from_within(at..(at + next(40)).min(out.len())),
                _ => {
                    out.truncate(at);
                    out.extend_from_slice(&other[next(other.len())..]);
                }
            }
        }
        out
    }

    #[test]
    fn corpora_and_changes_of_them_hold_no_surprise() {
        for (name, target) in TARGETS {
            let files = corpus(name);
            target(&[]);
            for (i, data) in files.iter().enumerate() {
                target(data);
                let seeds = (0..CHANGES).map(|c| scramble((i as u64) << 32 | c));
                seeds.for_each(|seed| target(&change(data, &files[seed as usize % files.len()], seed)));
            }
        }
    }

    #[test]
    fn the_corpus_reaches_tables_of_every_kind() {
        let logs: Vec<Log> = corpus("table").iter().map(|data| Log::new(data)).collect();
        if logs.len() > 1 {
            assert!(logs.iter().any(|log| log.is_sound() && log.sizes[2] > 256 && log.weighted));
            assert!(
                [Repeats::First, Repeats::Last]
                    .iter()
                    .all(|r| logs.iter().any(|log| log.repeats == *r && log.is_sound()))
            );
            assert!(logs.iter().any(|log| !log.is_sound() && !log.rows.is_empty()));
        }
    }
}
