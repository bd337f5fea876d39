//! The header of a shard, and where its columns lie.

use std::ops::Range;

use crate::categorical::table::MAX_LABELS;
use crate::{Error, Result};

/// How every shard begins.
const MAGIC: [u8; 8] = *b"MHSHARD\0";
/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;
/// Columns begin at multiples of this.
pub(super) const ALIGN: usize = 64;
/// Numbers of a header, the checksum of the others the last of them.
const WORDS: usize = 16;

/// Metadata of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub n_tasks: usize,
    pub n_annotations: usize,
    /// Workers who are in it.
    pub n_workers: usize,
    /// Workers of the whole log.
    pub crowd: usize,
    pub n_labels: usize,
    pub n_classes: usize,
    /// Bytes of the number of annotations of a task.
    pub length_width: usize,
    /// Bytes of a cell.
    pub cell_width: usize,
    pub weighted: bool,
    /// Whether it stores where its workers stand in the crowd.
    pub has_ids: bool,
    /// Of the columns.
    pub checksum: u32,
}

/// Where the columns lie, in bytes.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub ids: Range<usize>,
    pub lengths: Range<usize>,
    pub cells: Range<usize>,
    pub weights: Range<usize>,
}

/// An error about a file that is not a valid shard.
pub(super) fn damaged(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("this shard is damaged: {why}; write it again"))
}

/// The next place where a column may begin.
pub(super) fn padded(end: usize) -> usize {
    end.saturating_add(ALIGN - 1) / ALIGN * ALIGN
}

impl Header {
    /// Its length.
    pub const BYTES: usize = WORDS * size_of::<u64>();

    /// Reads a header, and checks it and the columns against their checksums.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if cfg!(target_endian = "big") {
            return Err(Error::invalid("shards can be read on little-endian machines only"));
        }
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::invalid("this is not a shard of manyhands"));
        }
        if bytes.len() < Self::BYTES {
            return Err(damaged(format!("it is {} bytes long", bytes.len())));
        }
        let words: Vec<u64> = bytes[..Self::BYTES]
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            .collect();
        if words[1] != VERSION {
            return Err(Error::invalid(format!(
                "this shard is of version {}, and this manyhands reads version {VERSION}; write it again",
                words[1]
            )));
        }
        if words[WORDS - 1] != u64::from(crc32fast::hash(&bytes[..Self::BYTES - 8])) {
            return Err(damaged("its header has changed"));
        }
        let header = Self {
            n_tasks: words[2] as usize,
            n_annotations: words[3] as usize,
            n_workers: words[4] as usize,
            crowd: words[5] as usize,
            n_labels: words[6] as usize,
            n_classes: words[7] as usize,
            length_width: words[8] as usize,
            cell_width: words[9] as usize,
            weighted: words[10] == 1,
            has_ids: words[11] == 1,
            checksum: words[13] as u32,
        };
        header.check_sizes()?;
        let end = padded(header.places()?.weights.end);
        if end != bytes.len() || words[12] != end as u64 {
            return Err(damaged(format!("it should be {end} bytes long and is {}", bytes.len())));
        }
        if header.checksum != crc32fast::hash(&bytes[Self::BYTES..]) {
            return Err(damaged("its checksum is not that of its content"));
        }
        Ok(header)
    }

    /// Writes it.
    pub fn write(&self, bytes: &mut [u8]) {
        let end = self.places().map_or(0, |places| padded(places.weights.end));
        let numbers = [
            self.n_tasks,
            self.n_annotations,
            self.n_workers,
            self.crowd,
            self.n_labels,
            self.n_classes,
            self.length_width,
            self.cell_width,
            usize::from(self.weighted),
            usize::from(self.has_ids),
            end,
            self.checksum as usize,
        ];
        bytes.fill(0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
        for (to, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&(number as u64).to_le_bytes());
        }
        let (numbers, last) = bytes.split_at_mut(Self::BYTES - 8);
        last.copy_from_slice(&u64::from(crc32fast::hash(numbers)).to_le_bytes());
    }

    /// Where the columns lie, which must be within reach.
    pub fn places(&self) -> Result<Places> {
        let mut start = Self::BYTES;
        let mut next = |n: usize, width: usize| {
            let end = n.checked_mul(width).and_then(|bytes| bytes.checked_add(start));
            let end = end.filter(|end| *end < 1 << 48).ok_or_else(|| damaged("its sizes are those of no log"))?;
            let place = start..end;
            start = padded(end);
            Ok(place)
        };
        Ok(Places {
            ids: next(if self.has_ids { self.n_workers } else { 0 }, size_of::<u32>())?,
            lengths: next(self.n_tasks, self.length_width)?,
            cells: next(self.n_annotations, self.cell_width)?,
            weights: next(if self.weighted { self.n_annotations } else { 0 }, size_of::<f64>())?,
        })
    }

    /// Rejects sizes that no log has.
    fn check_sizes(&self) -> Result<()> {
        let most = u32::MAX as usize;
        let fits = self.n_tasks <= most && self.n_annotations <= most && self.crowd <= most;
        let labels = (1..=self.n_labels).contains(&self.n_classes) && self.n_labels <= MAX_LABELS;
        let workers = if self.has_ids { self.n_workers <= self.crowd } else { self.n_workers == self.crowd };
        let narrow = self.n_workers as u128 * self.n_labels as u128 <= 1 << 32;
        let widths = [1, 2, 4].contains(&self.length_width) && self.cell_width == if narrow { 4 } else { 8 };
        if fits && labels && workers && widths && self.n_tasks > 0 {
            return Ok(());
        }
        Err(damaged("its sizes are those of no log"))
    }
}
