//! Sequences: a chain of true tags behind what each worker answered of every token.
//!
//! An *annotation* is the tags that one worker gave to one sequence. Given the true tag `j` of a token and the worker's
//! own previous tag `m`, the *context*, the worker answers `l` with a probability of their own; where there is but one
//! context, that is a confusion matrix. True tags follow each other as transitions say, some of which are forbidden.

pub mod chain;
pub mod decode;
pub mod fit;
mod priors;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::base::memory::{with_room, zeros};
use crate::base::parallel::chunks_with_tables;
use crate::{Error, Result};

/// A token that a worker was not asked about.
pub const UNSAID: u16 = u16::MAX;

/// Answers by worker: annotations in the order of sequences, the tags of one after those of another.
#[derive(Debug, Clone, Copy)]
pub struct Design<'a> {
    /// Where the tokens of each sequence begin, and where the last end.
    pub starts: &'a [u32],
    /// Where the annotations of each sequence begin, and where the last end.
    pub readings: &'a [u32],
    /// Worker of each annotation.
    pub workers: &'a [u32],
    /// Tags of all annotations.
    pub tags: &'a [u16],
    /// Number of workers.
    pub n_workers: usize,
    /// Number of tags.
    pub n_tags: usize,
    /// Number of contexts: 1, or one for each tag and one for none.
    pub n_contexts: usize,
}

/// Stretches of sequences, of about as many tags each.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub sequences: Range<usize>,
    /// Where the tags of its first annotation begin.
    pub first_tag: usize,
}

impl Design<'_> {
    /// Checks that all parts fit together.
    pub fn validate(&self) -> Result<()> {
        let n = self.starts.len().saturating_sub(1);
        let runs = |starts: &[u32], len: Option<usize>| {
            starts.len() == n + 1
                && starts[0] == 0
                && starts.windows(2).all(|w| w[0] <= w[1])
                && len.is_none_or(|len| starts[n] as usize == len)
        };
        let sound = n > 0
            && runs(self.starts, None)
            && runs(self.readings, Some(self.workers.len()))
            && self.workers.iter().all(|w| (*w as usize) < self.n_workers)
            && self.tags.iter().all(|t| *t == UNSAID || (*t as usize) < self.n_tags)
            && (1..UNSAID as usize).contains(&self.n_tags)
            && (self.n_contexts == 1 || self.n_contexts == self.n_tags + 1);
        let counted = || (0..n).map(|s| self.n_readings(s) * self.tokens(s).len()).sum::<usize>() == self.tags.len();
        if sound && counted() {
            Ok(())
        } else {
            Err(Error::invalid("annotations and tags of sequences do not fit together"))
        }
    }

    /// Number of sequences.
    pub fn n_sequences(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of tokens.
    pub fn n_tokens(&self) -> usize {
        self.starts[self.n_sequences()] as usize
    }

    fn tokens(&self, sequence: usize) -> Range<usize> {
        self.starts[sequence] as usize..self.starts[sequence + 1] as usize
    }

    fn n_readings(&self, sequence: usize) -> usize {
        (self.readings[sequence + 1] - self.readings[sequence]) as usize
    }

    /// Numbers that say all of one worker: contexts × observed tags × true tags.
    pub fn cells(&self) -> usize {
        self.n_contexts * self.n_tags * self.n_tags
    }

    /// Chunks of sequences, each of which may have a table of all workers.
    pub(crate) fn chunks(&self) -> Result<Vec<Chunk>> {
        let n_chunks = chunks_with_tables(self.tags.len(), self.n_workers * self.cells());
        let most = self.tags.len().div_ceil(n_chunks).max(1);
        let mut chunks = with_room(n_chunks + 1)?;
        let (mut first, mut first_tag, mut tag) = (0, 0, 0);
        for sequence in 0..self.n_sequences() {
            tag += self.n_readings(sequence) * self.tokens(sequence).len();
            if tag - first_tag >= most || sequence + 1 == self.n_sequences() {
                chunks.push(Chunk { sequences: first..sequence + 1, first_tag });
                (first, first_tag) = (sequence + 1, tag);
            }
        }
        Ok(chunks)
    }

    /// Runs `job(token within the sequence, offset of the row of worker, context and tag)` over all tags of a sequence
    /// whose first tag is at `at`; returns where the next sequence's are.
    #[inline(always)]
    pub(crate) fn each(&self, sequence: usize, at: usize, mut job: impl FnMut(usize, usize)) -> usize {
        let (k, len) = (self.n_tags, self.tokens(sequence).len());
        let mut tags = at;
        for reading in self.readings[sequence] as usize..self.readings[sequence + 1] as usize {
            let base = self.workers[reading] as usize * self.cells();
            let mut context = self.n_contexts - 1;
            for (token, tag) in self.tags[tags..tags + len].iter().enumerate() {
                if *tag != UNSAID {
                    job(token, base + (context * k + *tag as usize) * k);
                }
                if self.n_contexts > 1 {
                    context = if *tag == UNSAID { k } else { *tag as usize };
                }
            }
            tags += len;
        }
        tags
    }

    /// Adds what all annotations of a sequence say for each tag of each of its tokens to `evidence`, (tokens × tags).
    pub(crate) fn add_evidence(&self, sequence: usize, at: usize, logs: &[f64], evidence: &mut [f64]) -> usize {
        let k = self.n_tags;
        self.each(sequence, at, |token, row| {
            let into = &mut evidence[token * k..(token + 1) * k];
            into.iter_mut().zip(&logs[row..row + k]).for_each(|(sum, log)| *sum += log);
        })
    }

    /// Adds the probabilities of true tags, (tokens × tags), to the counts of the answers given.
    pub(crate) fn add_counts(&self, sequence: usize, at: usize, posterior: &[f64], counts: &mut [f64]) -> usize {
        let k = self.n_tags;
        self.each(sequence, at, |token, row| {
            let from = &posterior[token * k..(token + 1) * k];
            counts[row..row + k].iter_mut().zip(from).for_each(|(sum, q)| *sum += q);
        })
    }

    /// Evidence of all tokens, (tokens × tags), of workers whose logarithms of probabilities are given, (workers ×
    /// contexts × observed tags × true tags).
    pub fn evidence(&self, logs: &[f64], control: &crate::base::control::Control) -> Result<Vec<f64>> {
        self.validate()?;
        if logs.len() != self.n_workers * self.cells() || !logs.iter().all(|x| x.is_finite()) {
            return Err(Error::invalid("there must be a finite logarithm for each worker, context and pair of tags"));
        }
        let mut evidence = zeros(self.n_tokens() * self.n_tags)?;
        let mut at = 0;
        for sequence in 0..self.n_sequences() {
            control.check()?;
            let tokens = self.tokens(sequence);
            let rows = &mut evidence[tokens.start * self.n_tags..tokens.end * self.n_tags];
            at = self.add_evidence(sequence, at, logs, rows);
        }
        Ok(evidence)
    }
}
