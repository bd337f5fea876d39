//! Chains against brute force; fits that rise, and do not depend on threads.

use super::chain::{Chain, Steps, likeliest};
use super::decode::decode;
use super::fit::{Options, fit};
use super::*;
use crate::base::control::Control;
use crate::base::num::{GOLDEN, scramble, to_unit};

fn unit(i: usize) -> f64 {
    to_unit(scramble((i as u64).wrapping_mul(GOLDEN)))
}

const K: usize = 3;

/// Steps of one type of spans: outside, begin, inside.
fn steps() -> Vec<f64> {
    let inf = f64::NEG_INFINITY;
    vec![-0.3, -1.2, inf, -0.9, -2.0, -0.6, -0.7, -2.5, -0.8, -0.2, -1.7, inf]
}

fn chains(n: usize) -> Vec<Vec<usize>> {
    (0..K.pow(n as u32)).map(|i| (0..n).map(|t| i / K.pow(t as u32) % K).collect()).collect()
}

fn weight(chain: &[usize], evidence: &[f64], steps: &[f64]) -> f64 {
    let first = steps[K * K + chain[0]];
    let more: f64 = chain.windows(2).map(|w| steps[w[0] * K + w[1]]).sum();
    first + more + chain.iter().enumerate().map(|(t, tag)| evidence[t * K + tag]).sum::<f64>()
}

#[test]
fn chains_agree_with_all_of_them() {
    let logs = steps();
    for n in 1..6 {
        let evidence: Vec<f64> = (0..n * K).map(|i| 4.0 * unit(i + 100 * n) - 2.0).collect();
        let all = chains(n);
        let weights: Vec<f64> = all.iter().map(|c| weight(c, &evidence, &logs).exp()).collect();
        let total: f64 = weights.iter().sum();
        let walk = Steps::of(K, &logs);
        let mut chain = Chain::default();
        let result = chain.sweep(&evidence, &walk).unwrap();
        assert!((result - total.ln()).abs() < 1e-10);
        let mut posterior = vec![0.0; n * K];
        chain.write_posterior(K, &mut posterior);
        let mut counts = [0.0; (K + 1) * K];
        chain.add_steps(&walk, &mut counts);
        for t in 0..n {
            for tag in 0..K {
                let p: f64 = all.iter().zip(&weights).filter(|(c, _)| c[t] == tag).map(|(_, w)| w / total).sum();
                assert!((p - posterior[t * K + tag]).abs() < 1e-10);
            }
        }
        for (from, to) in (0..K).flat_map(|i| (0..K).map(move |j| (i, j))) {
            let times = |c: &[usize]| c.windows(2).filter(|w| w == &[from, to]).count() as f64;
            let p: f64 = all.iter().zip(&weights).map(|(c, w)| times(c) * w / total).sum();
            assert!((p - counts[from * K + to]).abs() < 1e-10);
        }
        let best = all.iter().zip(&weights).max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        let mut codes = vec![0; n];
        likeliest(&evidence, &walk, &mut Vec::new(), &mut codes).unwrap();
        assert_eq!(codes.iter().map(|c| *c as usize).collect::<Vec<_>>(), *best);
    }
}

#[test]
fn extreme_evidence_stays_finite() {
    let evidence: Vec<f64> = (0..30 * K).map(|i| if i.is_multiple_of(4) { -1e300 } else { 1e5 * unit(i) }).collect();
    let starts = [0, 10, 10, 30];
    let result = decode(&starts, &evidence, &steps(), true, None, &Control::default()).unwrap();
    assert!(result.posterior.iter().all(|q| (0.0..=1.0 + 1e-9).contains(q)));
    assert!(result.segments.probabilities.iter().flatten().all(|p| (0.0..=1.0).contains(p)));
    // Nothing goes on with a span that was not begun.
    for (i, tag) in result.codes.iter().enumerate() {
        assert!(*tag != 2 || (!starts.contains(&(i as u32)) && result.codes[i - 1] > 0));
    }
}

/// Annotations of forty sequences by four workers, who are right three times in four.
fn readings(tags: &mut Vec<u16>) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let starts: Vec<u32> = (0..=40).map(|i| 6 * i).collect();
    let counts: Vec<u32> = (0..=40).map(|i| 4 * i).collect();
    let workers = (0..160).map(|i| i % 4).collect();
    for reading in 0..160 {
        let mut before = 0;
        for token in 0..6 {
            let truth = u16::from(usize::is_multiple_of(token, 3));
            let wrong = unit(reading * 6 + token) < 0.25;
            let tag = if wrong && before > 0 { 2 } else { u16::from(wrong) ^ truth };
            tags.push(tag);
            before = tag;
        }
    }
    (starts, counts, workers)
}

#[test]
fn fits_rise_on_any_number_of_threads() {
    let mut tags = Vec::new();
    let (starts, counts, workers) = readings(&mut tags);
    for n_contexts in [1, K + 1] {
        let design = Design {
            starts: &starts,
            readings: &counts,
            workers: &workers,
            tags: &tags,
            n_workers: 4,
            n_tags: K,
            n_contexts,
        };
        let cells: Vec<i32> = (0..n_contexts * K * K).map(|i| i32::from((i % (K * K)).is_multiple_of(K + 1))).collect();
        let prior: Vec<f64> = steps().iter().map(|x| f64::from(x.is_finite())).collect();
        let start = [1.0 / K as f64; 240 * K];
        for (learn, variational) in [(true, true), (false, true), (false, false)] {
            let options = Options {
                cells: &cells,
                prior: &[0.5, 1.5],
                learn,
                first_rounds: 0,
                steps: &prior,
                variational,
                max_iter: 30,
                tol: 0.0,
            };
            let run = |n: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
                pool.install(|| fit(&design, &start, &options, &Control::default())).unwrap()
            };
            let (one, three) = (run(1), run(3));
            assert_eq!(one.concentration, three.concentration);
            assert_eq!(one.history, three.history);
            assert!(one.history.windows(2).all(|w| w[1] >= w[0] - 1e-9 * w[0].abs()), "{:?}", one.history);
        }
    }
    let control = Control::default();
    control.cancel();
    let design = Design {
        starts: &starts,
        readings: &counts,
        workers: &workers,
        tags: &tags,
        n_workers: 4,
        n_tags: K,
        n_contexts: 1,
    };
    assert_eq!(design.evidence(&[0.0; 36], &control), Err(Error::Cancelled));
    let short = Design { tags: &tags[1..], ..design };
    assert!(short.validate().is_err());
}
