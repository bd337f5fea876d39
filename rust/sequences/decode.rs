//! From evidence on tokens to probabilities, the likeliest tags, and segments with their own probabilities.

use std::ops::Range;

use rayon::prelude::*;

use super::chain::{Chain, Steps, likeliest};
use crate::base::control::Control;
use crate::base::memory::{joined, par_tried, push, zeros};
use crate::{Error, Result};

/// Tokens of a block of sequences, about.
const BLOCK: usize = 1 << 12;

/// Spans that were found, or runs of one class.
#[derive(Debug, Default, Clone)]
pub struct Segments {
    /// First token, and the first behind the last.
    pub ends: [Vec<u32>; 2],
    /// Type of a span, or the class.
    pub types: Vec<u32>,
    /// Probability of exactly this segment, of one of its type that begins where it does, and of one that ends there.
    pub probabilities: [Vec<f64>; 3],
}

/// What [`decode`] found.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// Probabilities of tags, (tokens × tags).
    pub posterior: Vec<f64>,
    /// The tag of each token.
    pub codes: Vec<u16>,
    /// What they mark.
    pub segments: Segments,
}

/// Tags of all tokens under evidence, (tokens × tags) logarithms, and logarithms of steps, (tags + 1 × tags).
///
/// With `spans`, tag 0 is outside, odd ones begin a span and even ones go on with it; without, tags are classes. With
/// `codes`, these are the tags, and segments are theirs. Time O(tokens · tags²), memory 18 bytes per token and tag.
pub fn decode(
    starts: &[u32],
    evidence: &[f64],
    steps: &[f64],
    spans: bool,
    codes: Option<&[u16]>,
    control: &Control,
) -> Result<Decoded> {
    let n = starts.len().saturating_sub(1);
    let k = (0..=usize::from(u16::MAX)).find(|k| (k + 1) * k >= steps.len()).unwrap_or(0);
    let sound = n > 0
        && k > 0
        && (k + 1) * k == steps.len()
        && starts[0] == 0
        && starts.windows(2).all(|w| w[0] <= w[1])
        && starts[n] as usize * k == evidence.len()
        && evidence.iter().all(|x| x.is_finite())
        && steps.iter().all(|x| x.is_finite() || *x == f64::NEG_INFINITY)
        && steps.chunks_exact(k).all(|row| row.iter().any(|x| x.is_finite()))
        && (!spans || k % 2 == 1)
        && codes
            .is_none_or(|codes| codes.len() == starts[n] as usize && codes.iter().all(|code| usize::from(*code) < k));
    if !sound {
        return Err(Error::invalid("evidence and steps of sequences do not fit together"));
    }
    let steps = Steps::of(k, steps);
    let n_tokens = starts[n] as usize;
    let (mut posterior, mut chosen) = (zeros(n_tokens * k)?, zeros(n_tokens)?);
    let blocks = blocks(starts);
    let mut work = Vec::with_capacity(blocks.len());
    let (mut rows, mut tags) = (&mut posterior[..], &mut chosen[..]);
    for block in blocks {
        let len = (starts[block.end] - starts[block.start]) as usize;
        let (row, rest) = rows.split_at_mut(len * k);
        let (tag, more) = tags.split_at_mut(len);
        work.push((block, row, tag));
        (rows, tags) = (rest, more);
    }
    let parts = par_tried(work.into_par_iter().map(|(block, rows, tags)| {
        control.check()?;
        let (mut chain, mut back, mut found) = (Chain::default(), Vec::new(), Segments::default());
        let first = starts[block.start] as usize;
        for sequence in block {
            let (a, b) = (starts[sequence] as usize, starts[sequence + 1] as usize);
            let (here, evidence) = (a - first..b - first, &evidence[a * k..b * k]);
            chain.sweep(evidence, &steps)?;
            chain.write_posterior(k, &mut rows[here.start * k..here.end * k]);
            match codes {
                Some(codes) => tags[here.clone()].copy_from_slice(&codes[a..b]),
                None => likeliest(evidence, &steps, &mut back, &mut tags[here.clone()])?,
            }
            add_segments(&chain, &steps, &tags[here], a, spans, &mut found)?;
        }
        Ok(found)
    }))?;
    Ok(Decoded { posterior, codes: chosen, segments: Segments::of(&parts)? })
}

/// Stretches of sequences with about as many tokens each.
fn blocks(starts: &[u32]) -> Vec<Range<usize>> {
    let n = starts.len() - 1;
    let (mut blocks, mut first) = (Vec::new(), 0);
    for sequence in 0..n {
        if (starts[sequence + 1] - starts[first]) as usize >= BLOCK || sequence + 1 == n {
            blocks.push(first..sequence + 1);
            first = sequence + 1;
        }
    }
    blocks
}

impl Segments {
    fn of(parts: &[Self]) -> Result<Self> {
        let all = |part: &dyn Fn(&Self) -> Vec<u32>| joined(&parts.iter().map(part).collect::<Vec<_>>());
        let odds = |i: usize| joined(&parts.iter().map(|p| p.probabilities[i].clone()).collect::<Vec<_>>());
        Ok(Self {
            ends: [all(&|p| p.ends[0].clone())?, all(&|p| p.ends[1].clone())?],
            types: all(&|p| p.types.clone())?,
            probabilities: [odds(0)?, odds(1)?, odds(2)?],
        })
    }

    fn add(&mut self, ends: [u32; 2], kind: u32, probabilities: [f64; 3]) -> Result<()> {
        push(&mut self.ends[0], ends[0])?;
        push(&mut self.ends[1], ends[1])?;
        push(&mut self.types, kind)?;
        for (all, p) in self.probabilities.iter_mut().zip(probabilities) {
            push(all, p.clamp(0.0, 1.0))?;
        }
        Ok(())
    }
}

/// The segments of one sequence whose first token is `at`.
fn add_segments(
    chain: &Chain,
    steps: &Steps,
    tags: &[u16],
    at: usize,
    spans: bool,
    found: &mut Segments,
) -> Result<()> {
    let mut t = 0;
    while t < tags.len() {
        let tag = tags[t] as usize;
        let outside = spans && (tag == 0 || tag.is_multiple_of(2));
        if outside {
            t += 1;
            continue;
        }
        // A span goes on with the tag behind its first, a run with the same.
        let more = if spans { tag + 1 } else { tag };
        let end = (t + 1..tags.len()).find(|i| tags[*i] as usize != more).unwrap_or(tags.len());
        let kind = if spans { (tag - 1) / 2 } else { tag };
        let probabilities = segment(chain, steps, t..end, [tag, more], spans);
        found.add([(at + t) as u32, (at + end) as u32], kind as u32, probabilities)?;
        t = end;
    }
    Ok(())
}

fn segment(chain: &Chain, steps: &Steps, here: Range<usize>, [tag, more]: [usize; 2], spans: bool) -> [f64; 3] {
    let (first, last) = (here.start, here.end - 1);
    // What precedes a run of a class is another class; what precedes a span, whose first tag is its own, may be
    // anything.
    let starts = chain.reaches(steps, first, tag, |from| spans || from != tag);
    let go_on = |from: usize, t: usize| chain.goes_on(steps, t, from, more);
    let inside: f64 = here.clone().skip(1).map(|t| go_on(if t == first + 1 { tag } else { more }, t)).product();
    let ends = |tag: usize| chain.leaves(steps, last, tag, |next| next != more);
    let exact = starts * inside * ends(if here.len() == 1 { tag } else { more });
    let start = starts * chain.backward[first * steps.k + tag];
    let at_end = |tag: usize| chain.forward[last * steps.k + tag] * ends(tag);
    let end = if spans { at_end(tag) + at_end(more) } else { at_end(tag) };
    [exact, start, end]
}
