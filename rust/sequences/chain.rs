//! A chain of tags: probabilities by forward and backward sweeps, and the likeliest chain.

use crate::Result;
use crate::base::memory::clear;

/// Evidence and transitions weigh no less than these powers of e next to the largest: a chain is never impossible.
const LEAST_EVIDENCE: f64 = -400.0;
const LEAST_STEP: f64 = -200.0;

/// How tags follow each other: weights, none of which need sum to one; 0 is forbidden.
#[derive(Debug, Clone)]
pub struct Steps {
    /// Number of tags.
    pub k: usize,
    /// From one tag (row) to the next, and then those of a first tag.
    pub weights: Vec<f64>,
}

impl Steps {
    /// From logarithms; negative infinity is forbidden.
    pub fn of(k: usize, logs: &[f64]) -> Self {
        let weight = |log: &f64| if *log == f64::NEG_INFINITY { 0.0 } else { log.max(LEAST_STEP).exp() };
        Self { k, weights: logs.iter().map(weight).collect() }
    }

    fn row(&self, tag: usize) -> &[f64] {
        &self.weights[tag * self.k..(tag + 1) * self.k]
    }

    fn first(&self) -> &[f64] {
        self.row(self.k)
    }
}

/// Where the chain of one sequence is computed: used again and again.
#[derive(Debug, Default)]
pub struct Chain {
    /// Weights of evidence, (tokens × tags), the largest of a token 1.
    pub weights: Vec<f64>,
    /// Probabilities of a tag given all up to its token.
    pub forward: Vec<f64>,
    /// How much more probable what follows is given a tag.
    pub backward: Vec<f64>,
    /// What forward sweeps are divided by.
    pub scale: Vec<f64>,
}

impl Chain {
    /// Takes logarithms of evidence, (tokens × tags), and sweeps; returns the logarithm of the chain's total weight.
    pub fn sweep(&mut self, evidence: &[f64], steps: &Steps) -> Result<f64> {
        let k = steps.k;
        let n = evidence.len() / k;
        for part in [&mut self.weights, &mut self.forward, &mut self.backward] {
            clear(part, n * k)?;
        }
        clear(&mut self.scale, n)?;
        let mut total = 0.0;
        for (weights, logs) in self.weights.chunks_exact_mut(k).zip(evidence.chunks_exact(k)) {
            let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            weights.iter_mut().zip(logs).for_each(|(w, log)| *w = (log - largest).max(LEAST_EVIDENCE).exp());
            total += largest;
        }
        for t in 0..n {
            let (before, now) = self.forward.split_at_mut(t * k);
            let now = &mut now[..k];
            if t == 0 {
                now.copy_from_slice(steps.first());
            } else {
                for (tag, p) in before[(t - 1) * k..].iter().enumerate() {
                    now.iter_mut().zip(steps.row(tag)).for_each(|(sum, step)| *sum += p * step);
                }
            }
            now.iter_mut().zip(&self.weights[t * k..]).for_each(|(p, w)| *p *= w);
            let sum: f64 = now.iter().sum();
            now.iter_mut().for_each(|p| *p /= sum);
            self.scale[t] = sum;
            total += sum.ln();
        }
        if n > 0 {
            self.backward[(n - 1) * k..].fill(1.0);
        }
        for t in (1..n).rev() {
            let (now, next) = self.backward.split_at_mut(t * k);
            let now = &mut now[(t - 1) * k..];
            for (tag, sum) in now.iter_mut().enumerate() {
                let ahead = next[..k].iter().zip(&self.weights[t * k..]).zip(steps.row(tag));
                *sum = ahead.map(|((b, w), step)| b * w * step).sum::<f64>() / self.scale[t];
            }
        }
        Ok(total)
    }

    /// Writes the probabilities of all tags of all tokens.
    pub fn write_posterior(&self, k: usize, posterior: &mut [f64]) {
        posterior.iter_mut().zip(&self.forward).zip(&self.backward).for_each(|((q, a), b)| *q = a * b);
        for row in posterior.chunks_exact_mut(k) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|q| *q /= sum);
        }
    }

    /// Adds probabilities of steps from one tag to the next, and of first tags, (tags + 1 × tags).
    pub fn add_steps(&self, steps: &Steps, counts: &mut [f64]) {
        let k = steps.k;
        let n = self.scale.len();
        for t in 1..n {
            for tag in 0..k {
                let p = self.forward[(t - 1) * k + tag] / self.scale[t];
                let ahead = self.backward[t * k..].iter().zip(&self.weights[t * k..]).zip(steps.row(tag));
                let into = &mut counts[tag * k..(tag + 1) * k];
                into.iter_mut().zip(ahead).for_each(|(sum, ((b, w), step))| *sum += p * b * w * step);
            }
        }
        if n > 0 {
            let first = self.forward.iter().zip(&self.backward).take(k);
            counts[k * k..].iter_mut().zip(first).for_each(|(sum, (a, b))| *sum += a * b);
        }
    }

    /// How probable it is that a chain leaves `tag` at token `t` for one that `may` follow; 1 at the end.
    pub(crate) fn leaves(&self, steps: &Steps, t: usize, tag: usize, may: impl Fn(usize) -> bool) -> f64 {
        let k = steps.k;
        if t + 1 >= self.scale.len() {
            return 1.0;
        }
        let at = (t + 1) * k;
        let ahead = (0..k).filter(|next| may(*next));
        ahead.map(|next| steps.row(tag)[next] * self.weights[at + next] * self.backward[at + next]).sum::<f64>()
            / self.scale[t + 1]
    }

    /// How much weight reaches `tag` at token `t` from tags it `may` come from, as a share of all chains up to there.
    pub(crate) fn reaches(&self, steps: &Steps, t: usize, tag: usize, may: impl Fn(usize) -> bool) -> f64 {
        let k = steps.k;
        let weight = self.weights[t * k + tag] / self.scale[t];
        if t == 0 {
            return steps.first()[tag] * weight;
        }
        let before = (0..k).filter(|from| may(*from));
        before.map(|from| self.forward[(t - 1) * k + from] * steps.row(from)[tag]).sum::<f64>() * weight
    }

    /// The share that goes on from `tag` at token `t - 1` to `next` at token `t`.
    pub(crate) fn goes_on(&self, steps: &Steps, t: usize, tag: usize, next: usize) -> f64 {
        steps.row(tag)[next] * self.weights[t * steps.k + next] / self.scale[t]
    }
}

/// Writes the chain of the greatest weight; of equal ones that whose tags are the earliest, from the end.
pub fn likeliest(evidence: &[f64], steps: &Steps, back: &mut Vec<u16>, codes: &mut [u16]) -> Result<()> {
    let k = steps.k;
    let n = codes.len();
    clear(back, n * k)?;
    let logs: Vec<f64> = steps.weights.iter().map(|w| w.ln()).collect();
    let mut best: Vec<f64> = (0..k).map(|tag| logs[k * k + tag] + evidence.get(tag).copied().unwrap_or(0.0)).collect();
    let mut next = vec![0.0; k];
    for t in 1..n {
        for (tag, score) in next.iter_mut().enumerate() {
            let (mut from, mut most) = (0, f64::NEG_INFINITY);
            for (one, so_far) in best.iter().enumerate() {
                if so_far + logs[one * k + tag] > most {
                    (from, most) = (one, so_far + logs[one * k + tag]);
                }
            }
            back[t * k + tag] = from as u16;
            *score = most + evidence[t * k + tag];
        }
        std::mem::swap(&mut best, &mut next);
    }
    let mut tag = 0;
    for one in 1..k {
        if best[one] > best[tag] {
            tag = one;
        }
    }
    for t in (0..n).rev() {
        codes[t] = tag as u16;
        tag = back[t * k + tag] as usize;
    }
    Ok(())
}
