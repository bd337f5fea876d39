//! Sums over the pairs of one worker, several of them at a time.

use super::{Partner, Problem};
use crate::Result;
use crate::base::memory::filled;
use crate::moments::factor::simd::{LANES, Lanes};

/// Runs `$body` with the number of classes bound to `$k`; the usual ones have code of their own.
macro_rules! with_classes {
    ($n:expr, |$k:ident| $body:expr) => {
        match $n {
            2 => with_classes!(@ 2, $k, $body),
            3 => with_classes!(@ 3, $k, $body),
            4 => with_classes!(@ 4, $k, $body),
            5 => with_classes!(@ 5, $k, $body),
            8 => with_classes!(@ 8, $k, $body),
            10 => with_classes!(@ 10, $k, $body),
            n => with_classes!(@ n, $k, $body),
        }
    };
    (@ $n:expr, $k:ident, $body:expr) => {{
        let $k: usize = $n;
        $body
    }};
}

/// Some of the pairs in which a worker is the first: a unit that is compiled for the widest registers the processor
/// has.
pub(super) struct First<'a> {
    pub problem: &'a Problem<'a>,
    pub confusion: &'a [f64],
    pub partners: &'a [Partner],
    pub ratios: &'a mut [f64],
    pub scratch: &'a mut Scratch,
}

impl pulp::NullaryFnOnce for First<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        with_classes!(self.problem.k, |k| {
            for (partners, ratios) in self.partners.chunks(LANES).zip(self.ratios.chunks_mut(LANES * k * k)) {
                let group = Group::new(self.problem, partners, k);
                self.scratch.make(k, &group, beside(self.confusion, partners, k, |partner| partner.worker));
                self.scratch.keep(k, ratios);
            }
        });
    }
}

/// Some of the pairs in which a worker is the second.
pub(super) struct Second<'a> {
    pub k: usize,
    pub confusion: &'a [f64],
    pub partners: &'a [Partner],
    pub ratios: &'a [f64],
    pub scratch: &'a mut Scratch,
}

impl pulp::NullaryFnOnce for Second<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        with_classes!(self.k, |k| {
            for partners in self.partners.chunks(LANES) {
                let ratios = beside(self.ratios, partners, k, |partner| partner.at);
                let others = beside(self.confusion, partners, k, |partner| partner.worker);
                self.scratch.add(k, &ratios, &others);
            }
        });
    }
}

/// The tables of up to four pairs, those of the first again where there are fewer.
#[inline(always)]
fn beside<'a>(values: &'a [f64], partners: &[Partner], k: usize, at: impl Fn(&Partner) -> u32) -> [&'a [f64]; LANES] {
    let kk = k * k;
    std::array::from_fn(|lane| {
        let at = at(partners.get(lane).unwrap_or(&partners[0])) as usize;
        &values[at * kk..(at + 1) * kk]
    })
}

/// Pairs of one first worker, one in each lane; lanes left over have no weight.
struct Group<'a> {
    /// Counts, (first's label × second's label).
    counts: [&'a [f64]; LANES],
    shares: Lanes,
    weights: Lanes,
}

impl<'a> Group<'a> {
    #[inline(always)]
    fn new(problem: &Problem<'a>, partners: &[Partner], k: usize) -> Self {
        let counts = beside(problem.joint, partners, k, |partner| partner.at);
        let mut group = Self { counts, shares: Lanes::ZERO, weights: Lanes::ZERO };
        for (lane, partner) in partners.iter().enumerate() {
            group.shares.0[lane] = problem.shares[partner.at as usize];
            group.weights.0[lane] = problem.weights[partner.at as usize];
        }
        group
    }
}

/// One worker's sums; of what has lanes, each lane belongs to some of its pairs.
pub(super) struct Scratch {
    /// The worker's confusion times the prior, the probability of class and label together: the same in all lanes.
    own: Vec<Lanes>,
    /// The partners' confusion.
    other: Vec<Lanes>,
    /// Observed frequencies, (first's label × second's label).
    seen: Vec<Lanes>,
    /// Observed over modeled frequencies, (second's label × first's label), times the weight.
    ratio: Vec<Lanes>,
    /// By how much the expected count of each class and label differs from `own`, as a factor.
    pub factor: Vec<Lanes>,
    pub objective: Lanes,
}

/// Loops in here are written out: an iterator's own loop may not be inlined, and is then compiled for any processor.
impl Scratch {
    pub fn new(k: usize) -> Result<Self> {
        let table = || filled(Lanes::ZERO, k * k);
        let (own, other, total, ratio, factor) = (table()?, table()?, table()?, table()?, table()?);
        Ok(Self { own, other, seen: total, ratio, factor, objective: Lanes::ZERO })
    }

    pub fn open(&mut self, own: &[f64], prior: &[f64]) {
        let k = prior.len();
        for ((to, row), p) in self.own.chunks_exact_mut(k).zip(own.chunks_exact(k)).zip(prior) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = Lanes::all(p * x));
        }
        self.factor.fill(Lanes::ZERO);
        self.objective = Lanes::ZERO;
    }

    /// Makes the ratios of some pairs of a first worker, and adds them to its factors and to the objective.
    #[inline(always)]
    fn make(&mut self, k: usize, group: &Group<'_>, others: [&[f64]; LANES]) {
        let kk = k * k;
        let (own, other, total) = (&self.own[..kk], &mut self.other[..kk], &mut self.seen[..kk]);
        let (ratio, factor) = (&mut self.ratio[..kk], &mut self.factor[..kk]);
        side_by_side(&others, other);
        side_by_side(&group.counts, total);
        // One thing at a time, for all labels: a logarithm waits for its division, but not for that of the next.
        ratio.fill(Lanes::ZERO);
        for c in 0..k {
            for b in 0..k {
                for l in 0..k {
                    ratio[b * k + l] = ratio[b * k + l] + other[c * k + b] * own[c * k + l];
                }
            }
        }
        for b in 0..k {
            for l in 0..k {
                ratio[b * k + l] = group.shares * total[l * k + b] / ratio[b * k + l];
            }
        }
        let mut objective = self.objective;
        for b in 0..k {
            for l in 0..k {
                // Nothing seen adds nothing, whatever the logarithm.
                let log = ratio[b * k + l].max(Lanes::all(f64::MIN_POSITIVE)).ln();
                objective = objective - group.weights * group.shares * total[l * k + b] * log;
            }
        }
        self.objective = objective;
        for x in ratio.iter_mut() {
            *x = group.weights * *x;
        }
        add_product(k, other, |b, l| ratio[b * k + l], factor);
    }

    /// Writes down the ratios just made, of as many pairs as there is room for.
    #[inline(always)]
    fn keep(&self, k: usize, ratios: &mut [f64]) {
        let kk = k * k;
        let ratio = &self.ratio[..kk];
        for (lane, to) in ratios.chunks_exact_mut(kk).enumerate() {
            for i in 0..kk {
                to[i] = ratio[i].0[lane];
            }
        }
    }

    /// Adds the ratios of some pairs to the factors of their second worker.
    #[inline(always)]
    fn add(&mut self, k: usize, ratios: &[&[f64]; LANES], others: &[&[f64]; LANES]) {
        let kk = k * k;
        let (other, ratio, factor) = (&mut self.other[..kk], &mut self.ratio[..kk], &mut self.factor[..kk]);
        side_by_side(others, other);
        side_by_side(ratios, ratio);
        add_product(k, other, |b, l| ratio[l * k + b], factor);
    }
}

/// Adds the partners' confusion times their ratios, (partner's label, own label), to the factors.
#[inline(always)]
fn add_product(k: usize, other: &[Lanes], ratio: impl Fn(usize, usize) -> Lanes, factor: &mut [Lanes]) {
    for c in 0..k {
        for l in 0..k {
            let mut sum = factor[c * k + l];
            for b in 0..k {
                sum = sum + other[c * k + b] * ratio(b, l);
            }
            factor[c * k + l] = sum;
        }
    }
}

/// Puts four tables into lanes.
#[inline(always)]
fn side_by_side(from: &[&[f64]; LANES], to: &mut [Lanes]) {
    let [a, b, c, d] = from.map(|table| &table[..to.len()]);
    for i in 0..to.len() {
        to[i] = Lanes([a[i], b[i], c[i], d[i]]);
    }
}
